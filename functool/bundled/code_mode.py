"""Code mode: a model writes a program that calls its tools, and reads only its result.

    tools = code_mode([list_teams, expenses_of, pay], limits=CodeLimits(seconds=5))

The program runs in Monty, an interpreter in a process of its own. It has no files, no network and
no imports of the host. Each call of the program takes the same steps as any other call of its tool.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from functool import (
    Context,
    DefinitionError,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.bundled import code_worker
from functool.bundled.code_answer import within
from functool.bundled.code_outcome import Memory, kept_size, mib
from functool.bundled.code_prelude import ADVICE, prelude
from functool.bundled.code_record import (
    AnotherProgram,
    ContextRecord,
    JournalLike,
    JournalRecord,
    Outcome,
    Record,
    digest_of,
)
from functool.bundled.code_rewrite import Program, ProgramRefused, prepared
from functool.bundled.code_run import Run, Stopped
from functool.bundled.code_stubs import Stubs
from functool.bundled.code_taking import taken
from functool.bundled.code_worker import MontyError, Sessions, Setup, Share, WorkerDied
from functool.executors import in_thread, inline
from functool.guardrails.labels import SHOWS_OTHERS
from functool.large import in_turn_if

__all__ = ["AnotherProgram", "CodeLimits", "ProgramRefused", "WorkerDied", "code_mode"]

_DIAGNOSIS = re.compile(r"^[^\s:]+:(\d+):\d+: (error|warning)\[([\w-]+)\] (.*)$", re.M)
_DICT_FOR = re.compile(r"Expected `([A-Z]\w*)\b(?!\[).*found `dict\[")
_MAX_DIAGNOSES = 10
_REMEDIES = {
    "too-many-positional-arguments": "Arguments go by name: f(name=value).",
    "unused-awaitable": "Write await before the call.",
    "unsupported-bool-conversion": f"Remember: {ADVICE}.",
    "not-iterable": "Of an Untrusted list, use .each().",
    "not-subscriptable": "Of an Untrusted value, use .part(...).",
}
_RUN = "functool.code_mode.run"  # The key of the `Run` in the notes of a call.
_SHARE = "functool.code_mode.share"  # The key of the `Share` in the state of a context.
LONG = 10_000
"""From how many characters on programs are parsed one at a time."""

WAITING = 4
"""How many times `memory_mb` the programs that wait in one context may keep together."""

_OFFSET = 1
"""How many lines precede the program in the text that the checker sees."""

_INTRODUCTION = """\
Run a Python program that calls the functions below, and read what it prints and the value of its \
last expression. Use it to call several tools, to loop over data and to compute, in one turn.

- Await each call, and pass arguments by name: `team = await get_team(name="a")`. \
`await asyncio.gather(f(...), g(...))` runs calls in parallel.
- The program is checked against the functions' types before anything runs. A failed call raises \
RuntimeError.
- There are no files, no network and no packages; `json`, `re`, `math`, `datetime` and `asyncio` \
are there. Print or return only what you need."""

_ON_UNTRUSTED = f"""
- An `Untrusted` value holds what somebody else wrote. It has `.part(*path)`, such as \
`.part(0, "body")`, `.each()` for a list, `.count()`, and `join("Fwd: ", value)` makes a text of \
it. It may stand anywhere in an argument. Note that {ADVICE}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """How much a program may use.

    `seconds` is its computing time. Waiting for a tool or a person does not count. `memory_mb` is
    its memory in MiB. The results of its calls may take as much again in the host, and one list or
    object may have an eighth of it as JSON text. `calls` is how many calls it may make, and
    `parallel` how many at the same time. `output_chars` is how many characters the model reads.

    Raises:
        DefinitionError: A limit is not a positive number.
    """

    seconds: float = 10.0
    memory_mb: int = 64
    calls: int = 200
    parallel: int = 16
    output_chars: int = 20_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value, is_int = getattr(self, name), name != "seconds"
            fits = type(value) is int or (not is_int and type(value) is float)
            if not fits or not 0 < value < math.inf:
                kind = "int" if is_int else "number"
                raise DefinitionError(
                    f"CodeLimits: {name} must be a positive {kind}, not {value!r}"
                )


class TooMuchWaits(ToolError):
    """A program was not run, because others that wait keep too much memory."""


def code_mode(
    tools: Any,
    *,
    name: str = "run_code",
    limits: CodeLimits = CodeLimits(),
    journal: JournalLike | None = None,
    run: str | Callable[[Context[Any]], str | Awaitable[str]] | None = None,
    **options: Any,
) -> Tool:
    """Return one tool that runs a program over these tools.

    A program cannot look at the results of untrusted tools. The answer names such a value and does
    not show it. If the `settings` of the code tool have `untrusted=True`, the answer shows it, and
    is untrusted itself.

    Args:
        tools: A tool, several tools, a toolset, or a `Catalog`. Of a catalog, programs get the
            pinned tools, the search, and a function that calls the tools that were found.
        name: The name of the tool.
        limits: How much a program may use.
        journal: Keeps the outcomes of calls on disk, so that another process can go on. They are
            stored whole, also if the journal has a `keep`.
        run: With a journal, the name of the work that the calls belong to, or a callable, sync or
            async, that returns it for a context. Without it, calls of two conversations could have
            one id.
        **options: The options of every tool. See `ToolOptions`.

    Raises:
        DefinitionError: Something is not a tool, or a journal is given without a run.
    """
    if (journal is None) != (run is None):
        raise DefinitionError("code_mode: a journal and its run go together: give both, or none")
    if run is not None and not callable(run) and (not isinstance(run, str) or not run):
        raise DefinitionError(f"code_mode: run must be a text or a callable, not {run!r}")
    if not isinstance(limits, CodeLimits):
        raise DefinitionError(f"code_mode: limits must be CodeLimits, not {type(limits).__name__}")
    code_worker.checked_version()
    return _CodeTool(_toolset(tools, limits), name, limits, journal, run, options)


def _toolset(tools: Any, limits: CodeLimits) -> Toolset:
    """Return the tools that programs call, with the limit of parallel calls."""
    if isinstance(tools, Tool):
        tools = [tools]
    elif hasattr(tools, "fixed") and hasattr(tools, "toolset"):
        # A catalog. Its search shows parameters, because the tools that it finds have no stub.
        fixed = tools.fixed()
        pinned = tools.toolset(Context()).filtered(lambda tool: tool.name not in fixed)
        tools = pinned | fixed
    elif not isinstance(tools, (Mapping, Iterable)):
        raise DefinitionError(f"code_mode takes tools, not {type(tools).__name__}")
    most = getattr(tools, "max_concurrency", None) or limits.parallel
    found = tools.values() if isinstance(tools, Mapping) else tools
    return Toolset(found, max_concurrency=min(most, limits.parallel))


class _CodeTool(Tool):
    """The tool that runs programs."""

    def __init__(
        self,
        tools: Toolset,
        name: str,
        limits: CodeLimits,
        journal: JournalLike | None,
        run: str | Callable[[Context[Any]], str | Awaitable[str]] | None,
        options: dict[str, Any],
    ) -> None:
        self._tools = tools
        self._limits = limits
        self._journal = journal
        self._run = run
        self._stubs = Stubs(tools.values())
        alone = any(t.settings.is_exclusive or t.settings.takes_control for t in tools.values())
        settings = options.pop("settings", None) or ToolSettings()
        settings = replace(settings, is_exclusive=alone or settings.is_exclusive)
        text = _INTRODUCTION + (_ON_UNTRUSTED if self._stubs.has_untrusted else "")
        super().__init__(
            name=name,
            description=f"{text}\n\n```python\n{self._stubs.shown}\n```",
            parameters={
                "type": "object",
                "properties": {
                    "code": {"type": "string", "description": "The program, as Python source."}
                },
                "required": ["code"],
                "additionalProperties": False,
            },
            settings=settings,
            **options,
        )
        setup = Setup(
            stubs=self._stubs.checked,
            prelude=prelude(self._stubs.functions),
            seconds=limits.seconds,
            memory_mb=limits.memory_mb,
        )
        self._sessions = Sessions(setup)

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Check and run the program, or continue it after a pause."""
        code = str(call.arguments["code"])  # type: ignore[index]
        # In a thread, because the parser takes a second for a long program. It holds Python's lock
        # meanwhile, so several at once would hold the event loop.
        work = in_turn_if, len(code) > LONG, prepared
        program: Program = await in_thread(*work, code, self._stubs.functions)
        record = await self._record(call, context, code)
        if record.answer is not None:
            return _result(record.answer)
        self._refuse_more(record)
        run = Run(
            functions=self._stubs.functions,
            record=record,
            context=context,
            call=call,
            max_calls=self._limits.calls,
            max_output=self._limits.output_chars,
            memory=Memory(self._limits.memory_mb * 1_048_576, record.outcomes.values()),
        )
        context.notes[_RUN] = run
        # If a program that waited before is cancelled now, or finds no place, it goes on later.
        goes_on = record.waited
        try:
            answer = await self._run_program(program, run)
            goes_on = False
            return _result(await record.end(answer))
        except Stopped as stopped:
            goes_on = stopped.paused
            found = run.with_calls(stopped.result)
            if not goes_on:
                return _result(await record.end(_kept(found)))
            context.give_back()  # An approval of the program itself holds until the program ends.
            return found
        finally:
            record.release(goes_on)

    def _refuse_more(self, record: Record) -> None:
        """Refuse a new program while those that wait in the same context keep too much.

        Raises:
            TooMuchWaits: They do.
        """
        size = sum(map(kept_size, record.of_others()))
        if size > WAITING * self._limits.memory_mb * 1_048_576:
            record.release(False)
            raise TooMuchWaits(
                f"The program was not run: the results of the programs that wait in this"
                f" conversation take {mib(size)}. They have to go on first."
            )

    async def on_output(self, result: ToolResult, context: Context[Any]) -> None:
        """Make no text of an answer a trusted value: the model wrote the program, so it chose it.

        What the calls of the program returned is remembered when they end. Here, also a journal may
        have answered.
        """
        context.notes[SHOWS_OTHERS] = True

    async def on_error(self, error: Exception, context: Context[Any]) -> ToolResult:
        """Name the calls that a program had made when the time was over, or when it failed."""
        result = await super().on_error(error, context)
        run: Run | None = context.notes.get(_RUN)
        if run is None or not run.all_made():
            return replace(result, metadata={"calls": [], **result.metadata})
        return run.with_calls(result)

    async def _record(self, call: ToolCall, context: Context[Any], code: str) -> Record:
        """Return the record of this call's program.

        Raises:
            ToolError: This call began with another program.
        """
        digest = digest_of(self.name, code, self._tools.values(), self._stubs.checked)
        if self._journal is None:
            return ContextRecord.of(context, self.name, call.id, self._tools, digest)
        run = await inline(self._run, context) if callable(self._run) else self._run
        if not isinstance(run, str) or not run:
            raise TypeError(f"run returned {run!r}, expected a text that names the work")
        opening = JournalRecord(self._journal, run, self.name, call.id, self._tools, digest)
        return await opening.opened()

    async def _run_program(self, program: Program, run: Run) -> Outcome:
        """Run a program in a session of its own, and return its answer."""
        share = run.context.state.setdefault(_SHARE, Share())
        session = await taken(partial(self._sessions.take, share), self._sessions.give_back)
        clean = False
        try:
            if not run.record.outcomes:
                self._refuse_wrong(await in_thread(session.check, program.written))
            value = await run.drive(session, program.runs)
            clean = True
            # In a thread, because a large value may take a second.
            return await in_thread(self._success, value, run)
        except (Stopped, ProgramRefused):
            clean = True
            raise
        except MontyError as error:
            return self._failure(_error_text(error, program), run)
        except ToolError as error:
            return self._failure(str(error), run)
        finally:
            if not clean:
                session.kill()
            self._sessions.give_back(session)

    def _refuse_wrong(self, report: str | None) -> None:
        """Refuse a program for which the checker reported errors.

        Raises:
            ProgramRefused: There are errors. The message names lines and remedies.
        """
        report = report and report.replace("_functool_", "")
        found = _DIAGNOSIS.findall(report or "")
        wrong = [part for part in found if part[1] == "error" or part[2] == "unused-awaitable"]
        if report is None or (found and not wrong):
            return
        lines = [
            f"- line {int(line) - _OFFSET}: {'. '.join(filter(None, (text, _remedy(rule, text))))}"
            for line, _, rule, text in wrong[:_MAX_DIAGNOSES]
        ] or [f"- {report[:1000]}"]
        if len(wrong) > _MAX_DIAGNOSES:
            lines.append(f"- and {len(wrong) - _MAX_DIAGNOSES} more")
        problems = "\n".join(lines)
        raise ProgramRefused(
            f"The program was not run, and nothing happened, because it is wrong:\n{problems}"
        )

    def _success(self, value: Any, run: Run) -> Outcome:
        """Return the answer of a program that has ended with this value."""
        data, sources = run.labels.shown(value, self.settings.untrusted)
        shown = {"printed": "".join(run.printed), "value": data}
        text = within(shown, run.unprinted, self._limits.output_chars)
        return {"text": text, "value": shown, "error": None, **run.metadata(sources)}

    def _failure(self, message: str, run: Run) -> Outcome:
        """Return the answer of a program that has failed."""
        parts = [message, run.calls_text()]
        if run.printed:
            parts.append(f"Printed: {''.join(run.printed)}")
        text = "\n".join(parts)
        most = self._limits.output_chars
        text = text if len(text) <= most else f"{text[: most - 1]}…"
        return {"text": "", "value": None, "error": text, **run.metadata()}


def _remedy(rule: str, text: str) -> str | None:
    """Return what to do about an error of the checker."""
    if rule == "invalid-argument-type" and (wanted := _DICT_FOR.search(text)):
        return f"A dict in a variable needs its type: d: {wanted[1]} = {{...}}."
    remedy = _REMEDIES.get(rule, "")
    return remedy if "Untrusted" in text or "Untrusted" not in remedy else None


def _kept(result: ToolResult) -> Outcome:
    """Return a result as the answer that the record keeps."""
    return {"text": result.text, "value": result.value, "error": None, **result.metadata}


def _result(answer: Outcome) -> ToolResult:
    """Return an answer that the record has kept as a result."""
    metadata: dict[str, Any] = {
        name: answer[name] for name in ("calls", "sources") if name in answer
    }
    if answer["error"] is not None:
        return ToolResult.failed(answer["error"], type="ProgramError", metadata=metadata)
    return replace(ToolResult.of(answer["text"], metadata=metadata), value=answer["value"])


def _error_text(error: Any, program: Program) -> str:
    """Return the error of a program, with the line that the model wrote, if that is known.

    The frames of a call that failed in `asyncio.gather` do not say where the program awaits it.
    """
    text = str(error)[:2_000]
    frames = error.traceback() if hasattr(error, "traceback") else []
    frames = [frame for frame in frames if not str(frame.function_name).startswith("_functool")]
    own = [frame.line for frame in frames if frame.filename == frames[0].filename]
    if not own:
        return text
    line = program.line(own[-1])
    return f"{text} (line {line}: {program.text(line)})"
