"""Turn tools into click commands, with options from the schema, approvals and progress."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from decimal import Decimal, InvalidOperation
from math import isfinite
from pathlib import Path
from typing import Any

try:
    import click
    from click.shell_completion import CompletionItem
except ModuleNotFoundError as _error:
    raise ImportError("commands need click and rich: pip install 'functool[cli]'") from _error

from functool import Context, Tool, ToolCall, ToolEvent, ToolResult, Toolset
from functool.integrations.click_approval import NO_TERMINAL, answered, approve
from functool.integrations.values import json_value
from functool.integrations.visible import visible, visible_line
from functool.schema.json_schema import resolved

FLAGS = ("--help", "--json", "--yes")
NULL: object = object()
"""The JSON null as the value of an option. click means by None that the option was not given."""

_AS_IT_IS = {"err": True, "show_choices": False, "show_default": False}
METAVARS = {"string": "TEXT", "number": "FLOAT"}


def export(tool: Tool, *, from_json: bool = False) -> click.Command:
    """Return a command whose options are the tool's arguments.

    The command prints the result, asks for approvals and shows progress at the terminal. Its exit
    code is 1 if the tool failed. With `from_json` no option is required, because `--json` gives
    the arguments.
    """

    def run(arguments: dict[str, Any], yes: bool) -> None:
        asyncio.run(run_call(Toolset([tool]), tool.name, arguments, yes=yes))

    return command_of(tool, run, from_json=from_json)


async def run_call(
    toolset: Toolset,
    name: str,
    arguments: Mapping[str, Any],
    *,
    yes: bool = False,
    context: Context[Any] | None = None,
    save: Path | None = None,
) -> None:
    """Call a tool, asking for approvals at the terminal unless `yes`, and print its result.

    Escapes and marks of direction are removed from what a terminal shows. A pipe gets the text
    unchanged.

    Args:
        toolset: The toolset of the tool.
        name: The tool's name.
        arguments: The arguments of the call.
        yes: Whether to approve all requests for approval.
        context: The context of the call. If it has an approver, that one is asked instead.
        save: A folder for the images, sounds and files of the result.

    Raises:
        click.exceptions.Exit: The tool failed. Its message is on standard error.
    """
    context = Context() if context is None else context
    if yes or context.approver is None:
        context = context.view(approver=(lambda request: True) if yes else approve)
    # Standard output is for the result, so send there nothing that a body prints.
    with progress_bar(context), redirect_stdout(sys.stderr):
        result = await toolset.call(ToolCall(name=name, arguments=arguments), context)
    try:
        if result.error is None:
            # Without `color` click would remove escapes from the text that a pipe gets.
            shown = visible(result.text) if sys.stdout.isatty() else result.text
            click.echo(shown, color=True)
        else:
            click.echo(f"Error: {visible(result.text)}", err=True)
    finally:  # The tool has run: no error of the output or of the folder may hide the other part.
        for path in saved(result, save, name) if save is not None else ():
            click.echo(f"saved {visible(str(path))}", err=True)
    if result.is_error:
        raise click.exceptions.Exit(1)


def saved(result: ToolResult, folder: Path, name: str) -> list[Path]:
    """Write the images, sounds and files of a result into a folder. Return their paths.

    A file's name is the tool's name and a number. Of a name that the result gives, only the ending
    is used. No file is overwritten.
    """
    found: list[Path] = []
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:64]
    for part in result.output:
        data = getattr(part, "data", None)
        if data is None:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        ending, number = _ending(part), 1
        while (path := folder / f"{stem}-{number}{ending}").exists():
            number += 1
        with path.open("xb") as file:
            file.write(data)
        found.append(path)
    return found


def _ending(part: Any) -> str:
    named = Path(getattr(part, "name", None) or "").suffix
    guessed = mimetypes.guess_extension(part.media_type) or ".bin"
    return named if re.fullmatch(r"\.[A-Za-z0-9]{1,8}", named) else guessed


def command_of(
    tool: Tool, run: Callable[[dict[str, Any], bool], Any], *, from_json: bool = False
) -> click.Command:
    """Return a command with the tool's options. It calls `run(arguments, yes)`."""
    schema = tool.schema.plain
    properties: dict[str, Any] = schema.get("properties", {})
    required = set() if from_json else {*map(str, schema.get("required", ()))}
    options: list[click.Parameter] = []
    taken: dict[str, int] = dict.fromkeys(FLAGS, 0)
    for place, (name, part) in enumerate(properties.items()):
        switch = _one_form(part, schema).get("type") == "boolean"
        flag = _flag(name, taken, switch)
        options.append(_option(f"p{place}", flag, part, name in required, schema))
    whole = _Value({"type": "object"})
    options.append(
        click.Option(
            ["--json", "whole"], type=whole, help="All arguments as one JSON object, or @FILE."
        )
    )
    options.append(
        click.Option(["--yes"], is_flag=True, help="Approve what the tool asks approval for.")
    )

    def collect(whole: Mapping[str, Any] | None, yes: bool, **chosen: Any) -> Any:
        arguments = dict(whole or {})
        for place, name in enumerate(properties):
            value = chosen[f"p{place}"]
            if value not in (None, ()):
                is_list = isinstance(value, tuple)
                arguments[name] = [*map(_plain, value)] if is_list else _plain(value)
        return run(arguments, yes)

    settings = {"help_option_names": ["-h", "--help"]}
    return click.Command(
        tool.name,
        callback=collect,
        params=options,
        help=visible(tool.description),
        context_settings=settings,
    )


def answer_form(message: str, form: dict[str, Any], *, yes: bool = False) -> dict[str, Any] | None:
    """Ask a person at the terminal the questions of a server. Return the answers, or None.

    None declines. With `yes` the person is not asked for consent.
    """
    properties: dict[str, Any] = form.get("properties", {})
    # A schema may be a boolean.
    fields = {name: part if isinstance(part, dict) else {} for name, part in properties.items()}
    if not (yes or confirm(f"The server asks you: {message}")):
        return None
    if len(fields) == 1 and next(iter(fields.values())).get("type") == "boolean":
        return dict.fromkeys(fields, True)
    answers = {}
    for name, part in fields.items():
        choices = [each for each in part.get("enum", ()) if isinstance(each, (str, int, float))]
        kind = click.Choice(choices) if choices else FORM_TYPES.get(str(part.get("type")), str)
        default = part.get("default")
        # click would show choices and a default with their line ends.
        offered = f" ({', '.join(map(str, choices))})" if choices else ""
        usual = "" if default is None else f" [{default}]"
        question = visible_line(f"{part.get('title', name)}{offered}{usual}")
        answer = answered(click.prompt, question, default=default, type=kind, **_AS_IT_IS)
        if answer is None:
            return None
        answers[name] = answer
    return answers


def _items(given: Any) -> Any:
    """Return the items of a list that a person has typed, separated by commas."""
    return [item.strip() for item in given.split(",")] if isinstance(given, str) else given


FORM_TYPES: dict[Any, Any] = {"integer": int, "number": float, "boolean": bool, "array": _items}


def confirm(question: str) -> bool:
    """Ask yes or no at the terminal. Without a terminal, and at its end, the answer is no."""
    question = visible(question)
    if not sys.stdin.isatty():
        click.echo(f"{question}\n{NO_TERMINAL}", err=True)
        return False
    return bool(answered(click.confirm, question, err=True))


@contextmanager
def progress_bar(context: Context[Any]) -> Iterator[None]:
    """Show the progress of a context's calls as a bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich import progress
    from rich.console import Console

    # A body's text is not markup, so show its brackets as they are.
    label = progress.TextColumn("{task.description}", markup=False)
    bars = (progress.BarColumn(), progress.TaskProgressColumn(), progress.TimeRemainingColumn())
    bar = progress.Progress(label, *bars, console=Console(stderr=True), transient=True)

    def show(event: ToolEvent) -> None:
        if event.kind != "tool:progress":
            return
        if not bar.tasks:
            bar.start()
            bar.add_task(event.tool_name, total=None)
        told = str(event.data.get("message") or event.tool_name)[:2_000]
        text = visible_line(told)[:200]
        done, total = _number(event.data.get("done")), _number(event.data.get("total"))
        bar.update(bar.tasks[0].id, description=text, completed=done, total=total)

    unsubscribe = context.subscribe(show)
    try:
        yield
    finally:
        unsubscribe()
        bar.stop()


def _number(value: Any) -> float | None:
    """Return a number that a bar can show, or None."""
    try:
        return float(value) if isfinite(value) else None
    except (TypeError, OverflowError):
        return None


def _flag(name: str, taken: dict[str, int], switch: bool) -> str:
    """Return a flag that is not `taken`, which counts how often each flag was wanted again."""
    wanted = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "arg"
    flag = f"--{wanted}"
    while flag in taken or (switch and f"--no-{flag[2:]}" in taken):
        taken[f"--{wanted}"] = again = taken.get(f"--{wanted}", 0) + 1
        flag = f"--arg-{wanted}" if again == 1 else f"--arg-{wanted}-{again}"
    for each in (flag, f"--no-{flag[2:]}"):
        taken.setdefault(each, 0)
    return flag


def _option(
    key: str, flag: str, part: Any, required: bool, schema: Mapping[str, Any]
) -> click.Option:
    kind = _one_form(part, schema)
    # Show a default, but do not send it: the tool applies its own to a missing argument.
    help_text = visible(str(part.get("description", ""))) if isinstance(part, dict) else ""
    if isinstance(part, dict) and part.get("default") is not None:
        help_text += f"  [default: {json.dumps(part['default'])}]"
    if kind.get("type") == "boolean":
        return click.Option(
            [f"{flag}/--no-{flag[2:]}", key], default=None, help=help_text, required=required
        )
    item = _one_form(kind.get("items"), schema)
    if kind.get("type") == "array" and item.get("type") in ("string", "integer", "number"):
        return click.Option(
            [flag, key], multiple=True, type=_Value(item), help=help_text, required=required
        )
    return click.Option([flag, key], type=_Value(kind), help=help_text, required=required)


def _one_form(part: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value. For a value that may be null, return that of the rest.

    A reference, which an Enum or a model is, is replaced by its target.
    """
    known = resolved(schema, part)
    if not isinstance(known, dict):
        return {}
    others = [
        each
        for each in known.get("anyOf", ())
        if isinstance(each, dict) and each.get("type") != "null"
    ]
    if len(others) != 1:
        return known
    other = resolved(schema, others[0])
    return other if isinstance(other, dict) else {}


class _Value(click.ParamType):  # type: ignore[type-arg]
    """An option's value of a JSON Schema type. The tool checks whether the value is valid."""

    def __init__(self, part: dict[str, Any]) -> None:
        self._part = part
        kind = part.get("type")
        self.name = visible(kind) if isinstance(kind, str) else "json"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        choices = self._part.get("enum", ())
        return (
            visible(f"[{'|'.join(map(str, choices))}]")
            if choices
            else METAVARS.get(self.name, self.name.upper())
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            text = option_text(value)
        except (OSError, UnicodeDecodeError) as error:
            raise click.FileError(value[1:], str(error)) from error
        if self.name == "string":
            return text
        try:
            found = json_value(text)
        except ValueError:
            found = text
        if isinstance(found, float) and self._takes_text() and not _is_exact(found, text):
            return text.strip()
        if self.name != "json" and (
            isinstance(found, str) or (self.name == "object") is not isinstance(found, dict)
        ):
            kind = (
                f"a JSON {self.name}"
                if self.name in ("object", "array")
                else f"a valid {self.name}"
            )
            self.fail(f"{text[:80]!r} is not {kind}.", param, ctx)
        return NULL if found is None else found

    def _takes_text(self) -> bool:
        return any(part.get("type") == "string" for part in self._part.get("anyOf", ()))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if incomplete.startswith("@"):
            return [CompletionItem(incomplete, type="file")]
        return [
            CompletionItem(str(choice))
            for choice in self._part.get("enum", ())
            if str(choice).startswith(incomplete)
        ]


def _plain(value: Any) -> Any:
    return None if value is NULL else value


def option_text(value: str) -> str:
    """Return the text of an option's value.

    `@file` stands for the text of a file, `@-` for standard input, and `@@` for a plain @.

    Raises:
        OSError: There is no such file.
        UnicodeDecodeError: It is not UTF-8.
    """
    if not value.startswith("@") or value.startswith("@@"):
        return value.removeprefix("@") if value.startswith("@@") else value
    return sys.stdin.read() if value == "@-" else Path(value[1:]).read_text("utf-8")


def _is_exact(found: float, text: str) -> bool:
    """Whether a float has all digits of the text that it was read from."""
    try:
        return Decimal(text) == Decimal(repr(found))
    except InvalidOperation:  # Its exponent is too large even for a Decimal.
        return False
