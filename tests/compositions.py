"""Compositions for tests/test_combinations.py: a tool inside of layers, with guardrails at each level.

A composition is a stack of levels. Level 0 is a tool whose body records what it gets. Each level
around it is a layer, such as a wrapper, a journal, `call_tool` of a catalogue or an agent. Probes
stand between the input guardrails of a level. A probe is a guardrail that lets everything pass and
records what it saw. So the steps in a `World` tell what each guardrail got and what it did.
"""

import asyncio
import functools
import inspect
import json
import re
import tempfile
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from functool import (
    AgentTool,
    ApprovalRequest,
    Context,
    Decision,
    FunctionTool,
    GuardrailError,
    Inject,
    SchemaTool,
    TextContent,
    Tool,
    ToolCall,
    ToolError,
    ToolModel,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
    WrapperTool,
    hide_errors,
)
from functool.factory import BaseToolConfig, ToolFactory
from functool.guardrails import (
    block,
    budget,
    max_repeats,
    rate_limit,
    redact,
    require_approval,
    truncate,
    trusted_only,
)
from functool.layers.cache import cached
from functool.layers.catalog import Catalog
from functool.layers.journal import Journal
from functool.layers.repair import repaired
from functool.layers.spill import Spill

SECRET = "zqxjkv"
"""What bodies put into their results. No other word holds any three of its letters in a row."""

MOST = 2
"""How many calls a guardrail that counts lets through."""

TEXTS = st.sampled_from(["cats", "dogs", "bad", ""])
EMPTY = inspect.Parameter.empty
ROOT: ContextVar[str] = ContextVar("root", default="")
"""The id of the outermost call, because several calls may run at once."""


class Point(BaseModel):
    x: int
    label: str = "origin"


# --- What happened. ---


@dataclass
class Step:
    """One thing that happened in a call.

    `saw`: a probe got these arguments. `ran`: a body got them. `approved` and `edited`: a person
    let a call run with them.
    """

    kind: str
    level: int = -1
    at: int = -1
    arguments: Any = None
    labels: Any = None
    tool: str = ""
    call_id: str = ""
    state: Any = None
    root: str = ""


@dataclass
class Shown:
    """A result that reached an output guardrail."""

    level: int
    result: ToolResult
    root: str


@dataclass
class World:
    """What a composition records, and what its tools share."""

    top: int = 0  # The outermost level that has probes.
    steps: list[Step] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    counting: dict[str, Any] = field(default_factory=dict)
    spill: Spill | None = None
    directory: Any = None
    faults: list[str] = field(default_factory=list)

    def note(self, kind: str, level: int, arguments: Any, **more: Any) -> None:
        self.steps.append(Step(kind, level, arguments=deepcopy(arguments), root=ROOT.get(), **more))

    def probe(self, level: int, at: int) -> Callable[[ToolCall, Context[Any]], None]:
        def probe(call: ToolCall, context: Context[Any]) -> None:
            if (level, at) == (self.top, 0):
                ROOT.set(call.id)
            labels = deepcopy(call.metadata.get("sources") or {})
            tool = context.schema.name if context.schema else ""
            more: Any = {"call_id": call.id, "state": context.state, "tool": tool, "at": at}
            self.note("saw", level, call.arguments, labels=labels, **more)
            if call.metadata.get("host") != "kept" or context.call is not call:
                self.faults.append(f"a guardrail at level {level} got another call: {call}")

        return probe

    def output_probe(self, level: int) -> Callable[[ToolResult, Context[Any]], None]:
        def output_probe(result: ToolResult, context: Context[Any]) -> None:
            self.shown.append(Shown(level, result, ROOT.get()))

        return output_probe

    def decide(self, request: ApprovalRequest, policy: str) -> Decision:
        """What a person says. One who edits writes the text anew."""
        if "no" in policy:
            return Decision(approved=False, reason="no")
        if "edit" in policy and text_of(request.arguments) != "edited":
            edit = with_text(request.arguments, "edited")
            self.note("edited", -1, edit, tool=request.tool)
            return Decision(approved=True, arguments=edit)
        self.note("approved", -1, request.arguments, tool=request.tool)
        return Decision(approved=True)

    def close(self) -> None:
        if self.directory is not None:
            self.directory.cleanup()


# --- Arguments. Each level has a text: the argument `text` of the body, or the `input` of an agent. ---


@dataclass(frozen=True)
class Parameter:
    """A parameter of a body: its name, the name that is sent, and JSON values that fit."""

    name: str
    annotation: Any
    default: Any
    values: st.SearchStrategy[Any]
    alias: str = ""

    @property
    def sent(self) -> str:
        return self.alias or self.name


POINTS = st.fixed_dictionaries({"x": st.integers(0, 3)}, optional={"label": TEXTS})
NUMBERS, MADE = st.integers(0, 3), Annotated[list[str], Field(default_factory=list)]
TEXT = Parameter("text", str, EMPTY, TEXTS)
OTHERS = [
    Parameter("items", list[int], [1], st.lists(NUMBERS, max_size=2)),
    Parameter("point", Point | None, None, st.none() | POINTS),
    Parameter("maybe", int | None, None, st.none() | NUMBERS),
    Parameter("count", int, 3, st.none() | NUMBERS),
    Parameter("named", Annotated[str, Field(alias="the-name")], "n", TEXTS, "the-name"),
    Parameter("made", MADE, EMPTY, st.lists(TEXTS, max_size=2)),
    Parameter("points", list[Point], EMPTY, st.lists(POINTS, max_size=2)),
]
NAMES = {parameter.sent: parameter.name for parameter in OTHERS}


def path_in(arguments: Any) -> list[str]:
    """Where the text stands in the arguments of any level."""
    if "arguments" in arguments:
        return ["arguments", *path_in(arguments["arguments"])]
    return ["input" if "input" in arguments else "text"]


def text_of(arguments: Any) -> Any:
    return functools.reduce(lambda value, name: value[name], path_in(arguments), arguments)


def with_text(arguments: Any, text: Any) -> Any:
    name, *deeper = path_in(arguments)
    return {**arguments, name: with_text(arguments[name], text) if deeper else text}


def normal(arguments: Any) -> dict[str, Any]:
    """The innermost arguments with every default filled in, under the names of the parameters."""
    while "arguments" in arguments:
        arguments = arguments["arguments"]
    if "input" in arguments:
        return dict(arguments)
    found = {NAMES.get(name, name): deepcopy(value) for name, value in arguments.items()}
    for name in found.keys() - {"text", *NAMES.values()}:
        if isinstance(found[name], list):  # More arguments in their strict form.
            found |= {pair["key"]: pair["value"] for pair in found.pop(name)}
    for parameter in OTHERS:
        if found.get(parameter.name) is None:
            default = [] if parameter.default is EMPTY else parameter.default
            found[parameter.name] = deepcopy(default)
    for point in [found["point"], *found["points"]]:
        if point is not None and point.get("label") is None:
            point["label"] = "origin"
    return found


def as_json(value: Any) -> Any:
    """A value that a body got, as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


def texts_in(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        return [*value, *texts_in([*value.values()])]
    return (
        [text for item in value for text in texts_in(item)]
        if isinstance(value, list)
        else [f"{value}"]
    )


# --- Input guardrails. ---

PASS, REFUSE, STOP, ASK, COUNT = "pass", "refuse", "stop", "ask a person", "count"


@dataclass
class Guard:
    """An input guardrail, and the rule for what it has to do.

    `make(name)` gets the name of the argument that holds the text. `rule(arguments, labels)` is one
    of the words above, or the arguments that replace those that came.
    """

    make: Callable[[str], Any]
    rule: Callable[[Any, Any], Any]


def replaces(how: str) -> Guard:
    async def replaces(call: ToolCall, context: Context[Any]) -> ToolCall:
        new: Any = with_text(call.arguments, "swapped")
        if how == "bare":
            return ToolCall(name=call.name, arguments=new, id=call.id)
        if how == "renamed":
            return ToolCall(name="another", arguments=new, id="another")
        return replace(call, arguments=json.dumps(new) if how == "text" else new)

    return Guard(lambda name: replaces, lambda a, labels: with_text(a, "swapped"))


def replaces_badly(call: ToolCall, context: Context[Any]) -> ToolCall | None:
    if "arguments" in call.arguments:  # `call_tool` leaves it to the inner tool to look.
        return None
    return replace(call, arguments=with_text(call.arguments, 5))


def changes_in_place(call: ToolCall, context: Context[Any]) -> None:
    *path, name = path_in(call.arguments)
    holder: Any = functools.reduce(lambda value, step: value[step], path, call.arguments)
    holder[name] = "changed in place"


def refuses_dogs(error: type[Exception], answer: str = REFUSE) -> Guard:
    def refuses_dogs(call: ToolCall, context: Context[Any]) -> None:
        if text_of(call.arguments) == "dogs":
            raise error("no dogs")

    return Guard(
        lambda name: refuses_dogs, lambda a, labels: answer if text_of(a) == "dogs" else PASS
    )


def bad(value: Any) -> str:
    return REFUSE if any("bad" in text for text in texts_in(value)) else PASS


def labelled(arguments: Any, labels: Any) -> bool:
    """Whether a label stands for the argument that holds the text."""
    return bool({"", path_in(arguments)[0]} & {place[1:].partition("/")[0] for place in labels})


def no_cats(call: ToolCall, context: Context[Any]) -> bool:
    return text_of(call.arguments) != "cats"


COUNTING = {
    "budget": lambda: budget(calls=MOST),
    "budget of a tool": lambda: budget(calls=MOST, per="tool"),
    "rate_limit": lambda: rate_limit(MOST, 600),
    "rate_limit of a context": lambda: rate_limit(MOST, 600, per="context"),
    "max_repeats": lambda: max_repeats(MOST),
}
GUARDS: dict[str, Guard] = {
    "passes": Guard(lambda name: lambda call, context: None, lambda a, labels: PASS),
    "the same": Guard(lambda name: lambda call, context: call, lambda a, labels: PASS),
    **{f"replaces, {how}": replaces(how) for how in ("whole", "bare", "renamed", "text")},
    "replaces badly": Guard(
        lambda name: replaces_badly, lambda a, labels: PASS if "arguments" in a else REFUSE
    ),
    "in place": Guard(lambda name: changes_in_place, lambda a, labels: REFUSE),
    "ToolError": refuses_dogs(ToolError),
    "ValueError": refuses_dogs(ValueError),
    "GuardrailError": refuses_dogs(GuardrailError),
    "Tripwire": refuses_dogs(Tripwire, STOP),
    "block": Guard(lambda name: block(["bad"]), lambda a, labels: bad(a)),
    "block one": Guard(lambda name: block(["bad"], name), lambda a, labels: bad(a[path_in(a)[0]])),
    "trusted_only": Guard(
        lambda name: trusted_only(), lambda a, labels: REFUSE if labels else PASS
    ),
    "trusted_only of one": Guard(
        lambda name: trusted_only(name), lambda a, labels: REFUSE if labelled(a, labels) else PASS
    ),
    "trusted_only asks": Guard(
        lambda name: trusted_only(ask=True), lambda a, labels: ASK if labels else PASS
    ),
    "require_approval": Guard(lambda name: require_approval(), lambda a, labels: ASK),
    "require_approval when": Guard(
        lambda name: require_approval(no_cats),
        lambda a, labels: ASK if text_of(a) != "cats" else PASS,
    ),
    # The composition shares one of each, so `make` is not used.
    **{name: Guard(lambda name: None, lambda a, labels: COUNT) for name in COUNTING},
}

# --- Output guardrails. ---


def refuses_result(result: ToolResult, context: Context[Any]) -> None:
    raise GuardrailError("not to be shown")


def crashes(result: ToolResult, context: Context[Any]) -> None:
    raise ValueError("broken")


def stops(result: ToolResult, context: Context[Any]) -> None:
    raise Tripwire("stop")


def writes(result: ToolResult, context: Context[Any]) -> ToolResult:
    return replace(result, output=[TextContent(text="written")])


OUTPUTS: dict[str, Callable[[], Any]] = {
    "passes": lambda: lambda result, context: None,
    "redact": lambda: redact([SECRET]),
    "truncate": lambda: truncate(30),
    "writes": lambda: writes,
    "shows": lambda: lambda result, context: result.shown_as("shown"),
    "a new result": lambda: lambda result, context: ToolResult.of("new " * 50),
    "a new failure": lambda: lambda result, context: ToolResult.failed("failed by a guardrail"),
    "refuses": lambda: refuses_result,
    "crashes": lambda: crashes,
    "stops": lambda: stops,
}
LOSES = {"refuses", "crashes", "a new result", "a new failure"}
"""Output guardrails whose answer has nothing of the result that came."""

# --- Bodies. ---

CLAIMS = {"sources": ["lie"], "guardrails": "none", "approval": 1, "journal": 2, "cached": 0}


def throw(error: BaseException) -> Any:
    raise error


OUTCOMES: dict[str, Callable[[Any], Any]] = {
    "value": lambda given: {"text": given["text"], "note": SECRET},
    "text": lambda given: f"{given['text']} and {SECRET}",
    "long text": lambda given: f"word {SECRET} " * 60,
    "nothing": lambda given: None,
    "model": lambda given: Point(x=1, label=SECRET),
    "contents": lambda given: [TextContent(text=SECRET), TextContent(text="more")],
    "result": lambda given: ToolResult.of([SECRET], metadata={"own": 1}),
    "claims": lambda given: ToolResult.of(SECRET, metadata=dict(CLAIMS)),
    "failure": lambda given: ToolResult.failed(
        SECRET, details={"why": SECRET}, metadata={"own": 1}
    ),
    "failed claims": lambda given: ToolResult.failed(SECRET, metadata=dict(CLAIMS)),
    "ToolError": lambda given: throw(ToolError(f"no {SECRET}", details={"why": SECRET})),
    "ValueError": lambda given: throw(ValueError(f"no {SECRET}")),
    "CancelledError": lambda given: throw(asyncio.CancelledError()),
    "hangs": lambda given: SECRET,
}
KINDS = [
    *("async", "sync", "generator", "partial", "method", "subclass", "factory"),
    *("model", "schema", "tool"),
]


class OwnFunction(FunctionTool[..., Any]):
    """A FunctionTool with a `run` of its own."""

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        return await super().run(call, context)


class OwnTool(Tool):
    """A tool that is made from the base class."""

    def __init__(self, body: Callable[..., Any], **options: Any) -> None:
        super().__init__(**options)
        self._body = body

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        assert not isinstance(call.arguments, str)
        value = self._body(**call.arguments)
        return value if isinstance(value, ToolResult) else ToolResult.of(value)


@dataclass
class Body:
    """How the innermost tool is made."""

    kind: str = "async"
    parameters: list[Parameter] = field(default_factory=lambda: [TEXT])
    rest: bool = False
    strict: bool = False
    outcome: str = "value"
    settings: ToolSettings = field(default_factory=ToolSettings)
    hidden: bool = False

    def make(self, world: World, **options: Any) -> Tool:
        def record(**given: Any) -> Any:
            known = {name: item for name, item in given.items() if name not in HIDDEN}
            world.note("ran", 0, normal(as_json(known)))
            return OUTCOMES[self.outcome](given)

        options |= {"name": "body", "description": "Work.", "settings": self.settings}
        options["strict"] = self.strict
        if self.kind == "model":
            return self._model(record).tool(**options)
        func = self._function(record)
        if self.kind == "subclass":
            return OwnFunction(func, **options)
        if self.kind == "factory":
            factory = ToolFactory()
            factory.register("body", lambda config: FunctionTool(func, **options), BaseToolConfig)
            return factory.build("body")
        if self.kind in ("schema", "tool"):
            options["parameters"] = FunctionTool(func, name="body").schema.plain
            if self.kind == "tool":
                return OwnTool(record, **options)
            return SchemaTool(handler=lambda arguments: record(**arguments), **options)
        return FunctionTool(func, **options)

    def _model(self, record: Callable[..., Any]) -> Any:
        made = {
            p.name: (p.annotation, ... if p.default is EMPTY else p.default)
            for p in self.parameters
        }
        if "made" in made:
            made["made"] = (list[str], Field(default_factory=list))
        fields: Any = made
        model: Any = create_model("Body", __base__=ToolModel, **fields)
        model.run = lambda self: record(**{name: getattr(self, name) for name in made})
        return model

    def _function(self, record: Callable[..., Any]) -> Any:
        async def later(**given: Any) -> Any:
            await asyncio.sleep(0)
            value = record(**given)
            if self.outcome == "hangs":
                await asyncio.Event().wait()
            return value

        async def stream(**given: Any) -> Any:
            yield "first"
            yield record(**given)

        class Owner:
            def method(self, **given: Any) -> Any:
                return record(**given)

        signature = inspect.Signature(self._parameters())
        if self.kind == "method":
            own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            method: Any = Owner.method
            method.__signature__ = signature.replace(parameters=[own, *self._parameters()])
            return Owner().method
        kinds: Any = {"async": later, "subclass": later, "generator": stream}
        func = kinds.get(self.kind, lambda **given: record(**given))
        func.__signature__ = signature
        return functools.partial(func) if self.kind == "partial" else func

    def _parameters(self) -> list[inspect.Parameter]:
        word = inspect.Parameter.KEYWORD_ONLY
        made = [
            inspect.Parameter(p.name, word, default=p.default, annotation=p.annotation)
            for p in self.parameters
        ]
        for name, annotation in HIDDEN.items() if self.hidden else ():
            made.append(inspect.Parameter(name, word, annotation=annotation))
        if self.rest:
            made.append(inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD, annotation=int))
        return made


HIDDEN: dict[str, Any] = {
    "context": Context,
    "call": ToolCall,
    "given": Annotated[str, Inject(lambda context: "given")],
}

# --- Layers. ---

AGENTS = ("agent", "agent elsewhere", "agent with a result", "agent with a thread")
CALLERS = ("caller", "caller of text", "sync caller")
BASES = ("body", *AGENTS, *CALLERS)
"""Levels whose body is not that of the level below: journals and caches stand around it."""

WRAPPERS = ("wrapper", "renamed", "late", "own run", "own result", "hooks", "rescue", "hides")
GUARDED = (*BASES, *WRAPPERS)
AROUND = ("around", "around with a result", "around that raises", "cached", "once", "repaired")
PLAIN = (*AROUND, "prefixed", "joined", "call_tool")
LAYERS = [*AGENTS, *CALLERS, *WRAPPERS, *PLAIN]
RENEWS = {"own result", "hooks", "rescue", "around with a result", "around that raises"}
"""Layers that may make a new result, without the metadata of the inner one."""


class OwnRun(WrapperTool):
    """A wrapper with a `run` of its own, which may make a new result."""

    renews = False

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        result = await self.tool.invoke(call, context)
        return ToolResult.of(result.text) if self.renews and result.success else result


class OwnResult(OwnRun):
    renews = True


class Hooks(WrapperTool):
    """A wrapper whose hooks make the call and the result anew."""

    async def on_invoke(self, call: ToolCall, context: Context[Any]) -> ToolCall:
        assert not isinstance(call.arguments, str)
        return ToolCall(name=call.name, arguments={**call.arguments}, id=call.id)

    async def on_output(self, result: ToolResult, context: Context[Any]) -> ToolResult | None:
        return None if result.error else ToolResult(output=result.output, value=result.value)


async def passes_on(call: ToolCall, context: Context[Any], proceed: Any) -> ToolResult:
    result: ToolResult = await proceed()
    return result


async def makes_anew(call: ToolCall, context: Context[Any], proceed: Any) -> ToolResult:
    return ToolResult.of((await proceed()).text)


async def raises_text(call: ToolCall, context: Context[Any], proceed: Any) -> ToolResult:
    raise ToolError((await proceed()).text)


@dataclass
class Level:
    """One level of the stack: its layer, and the names of its guardrails."""

    layer: str = "body"
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    untrusted: bool = False


@dataclass
class Composition:
    """A stack of levels, the innermost first, and how it is called."""

    levels: list[Level] = field(default_factory=lambda: [Level()])
    body: Body = field(default_factory=Body)
    sent: dict[str, Any] = field(default_factory=lambda: {"text": "cats"})
    labels: dict[str, list[str]] = field(default_factory=dict)
    as_text: bool = False
    form: str = "plain"
    door: str = "invoke"
    policy: str = "yes"
    again: list[str] = field(default_factory=list)

    def has(self, *layers: str, above: int = -1) -> bool:
        """Whether one of these layers stands above a level."""
        return any(level.layer in layers for level in self.levels[above + 1 :])

    def sent_to(self, number: int) -> dict[str, Any]:
        """The arguments that are sent to a level."""
        sent, name = self.sent, "body"
        for at, level in enumerate(self.levels[: number + 1]):
            if level.layer == "call_tool":
                sent = {"name": "inner" if name == "call_tool" else name, "arguments": sent}
            elif level.layer in AGENTS:
                sent = {"input": text_of(sent)}
            name = self._name(name, at, level.layer)
        return deepcopy(sent)

    def inward(self, outer: int, inner: int, arguments: Any) -> Any:
        """The arguments that an inner level gets if an outer one lets these pass."""
        for at in range(outer, inner, -1):
            if self.levels[at].layer == "call_tool":
                arguments = arguments["arguments"]
            elif self.levels[at].layer in AGENTS:
                arguments = with_text(self.sent_to(at - 1), text_of(arguments))
        return normal(arguments)

    def labels_at_the_top(self) -> dict[str, list[str]]:
        """The labels that are sent with the outermost call."""
        labels = dict(self.labels)
        for level in self.levels:
            if level.layer == "call_tool":
                labels = {f"/arguments{place}": names for place, names in labels.items()}
            elif level.layer in AGENTS:
                labels = merged(("/input" if p else "", names) for p, names in labels.items())
        return labels

    def labels_inward(self, outer: int, inner: int, labels: Any) -> Any:
        """The labels that an inner level gets from those of an outer one.

        A body's call of another tool has none: then the label stays with the outer result.
        """
        for at in range(outer, inner, -1):
            if self.levels[at].layer in (*AGENTS, *CALLERS):
                labels = {}
            elif self.levels[at].layer == "call_tool":
                labels = merged(
                    (p.removeprefix("/arguments") if p.startswith("/arguments/") else "", names)
                    for p, names in labels.items()
                )
        if any(
            level.layer in (*AGENTS, *CALLERS, "call_tool") for level in self.levels[: inner + 1]
        ):
            return labels
        # Here the labels stand at the names of the parameters, and one in the strict form for all.
        alias = "/the-name" if self.body.kind in ("schema", "tool") else "/named"
        return merged(
            ("" if re.fullmatch(r"/\w+/\d/value", p) else p.replace("/the-name", alias), names)
            for p, names in labels.items()
        )

    def build(self, world: World) -> list[Tool]:
        """Return the tools of all levels."""
        world.top = max(n for n, level in enumerate(self.levels) if level.layer in GUARDED)
        tools: list[Tool] = []
        name = "text"
        for number, level in enumerate(self.levels):
            if level.layer == "call_tool":
                name = "arguments"
            elif level.layer in AGENTS:
                name = "input"
            options = self._guardrails(world, number, level, name) if level.layer in GUARDED else {}
            tools.append(self._tool(world, number, level, tools[-1] if tools else None, options))
        return tools

    def _guardrails(self, world: World, number: int, level: Level, name: str) -> dict[str, Any]:
        inputs: list[Any] = [world.probe(number, 0)]
        for at, guard in enumerate(level.inputs):
            if guard in COUNTING:
                made = world.counting.setdefault(guard, COUNTING[guard]())
            else:
                made = GUARDS[guard].make(name)
            inputs += [made, world.probe(number, at + 1)]
        outputs: list[Any] = []
        for guard in level.outputs:
            if guard == "spill":
                world.spill = Spill(limit=100)
                made = world.spill.guardrail
            else:
                made = OUTPUTS[guard]()
            outputs += [world.output_probe(number), made]
        return {"input_guardrails": inputs, "output_guardrails": outputs}

    def _tool(self, world: World, number: int, level: Level, tool: Any, options: Any) -> Tool:
        layer, read_only = level.layer, self.body.settings.read_only
        settings = ToolSettings(untrusted=level.untrusted, read_only=read_only)
        match layer:
            case "body":
                return self.body.make(world, **options)
            case "wrapper":
                limit = 0.03 if self.body.outcome == "hangs" else 60
                return WrapperTool(tool, timeout=limit, **options)
            case "renamed":
                options |= {"name": f"renamed{number}", "description": "Other."}
                return WrapperTool(tool, settings=settings, **options)
            case "late":
                made = WrapperTool(tool)
                made.add_input_guardrails(options["input_guardrails"])
                made.add_output_guardrails(options["output_guardrails"])
                return made
            case "own run" | "own result":
                return (OwnRun if layer == "own run" else OwnResult)(tool, **options)
            case "hooks":
                return Hooks(tool, **options)
            case "rescue":
                rescue = lambda error, context: ToolResult.of("rescued")  # noqa: E731
                return WrapperTool(tool, on_error_func=rescue, **options)
            case "hides":
                return WrapperTool(tool, on_error_func=hide_errors, **options)
        if layer in AGENTS:
            return self._agent(world, number, layer, tool, {**options, "settings": settings})
        if layer in CALLERS:
            return self._caller(world, number, layer, tool, {**options, "settings": settings})
        return self._layer(world, number, layer, tool)

    def _layer(self, world: World, number: int, layer: str, tool: Tool) -> Tool:
        match layer:
            case "repaired":
                return repaired(tool)
            case "cached":
                return cached(tool, 600)
            case "once":
                if world.directory is None:
                    world.directory = tempfile.TemporaryDirectory()
                return Journal(Path(world.directory.name) / f"{number}.db").once(tool, "run")
            case "prefixed":
                return Toolset([tool]).prefixed("p_")[f"p_{tool.name}"]
            case "joined":
                both = Toolset([FunctionTool(lambda: 1, name="other")]) | Toolset([tool])
                return both.filtered(lambda each: each.name != "other")[tool.name]
            case "call_tool":
                named = WrapperTool(tool, name="inner") if tool.name == "call_tool" else tool
                return Catalog([named]).fixed()["call_tool"]
        funcs = {"around": passes_on, "around with a result": makes_anew}
        return tool.around(funcs.get(layer, raises_text))

    def _agent(self, world: World, number: int, layer: str, tool: Tool, options: Any) -> Tool:
        async def run(agent: Any, text: str, context: Context[Any]) -> Any:
            world.note("ran", number, {"input": text})
            call = _inner(tool, with_text(self.sent_to(number - 1), text), number)
            other = Context[Any](approver=context.approver)
            result = await tool.invoke(call, other if layer == "agent elsewhere" else context)
            return result if layer == "agent with a result" else result.text

        if layer == "agent with a thread":
            options["thread"] = lambda context: f"thread{number}"
        return AgentTool(None, f"agent{number}", "Ask.", runner=run, **options)

    def _caller(self, world: World, number: int, layer: str, tool: Tool, options: Any) -> Tool:
        """A tool with the parameters of another, which it calls."""

        async def handle(arguments: Any, context: Context[Any]) -> Any:
            world.note("ran", number, arguments)
            result = await tool.invoke(_inner(tool, arguments, number), context)
            return result.text if layer == "caller of text" else result

        def handle_at_once(arguments: Any, context: Context[Any]) -> Any:
            world.note("ran", number, arguments)
            result = Toolset([tool]).call_sync(_inner(tool, arguments, number), context)
            return result.unwrap()

        handler = handle_at_once if layer == "sync caller" else handle
        return SchemaTool(f"caller{number}", "Call.", tool.schema.plain, handler, **options)

    @staticmethod
    def _name(name: str, number: int, layer: str) -> str:
        """The name of a level, from the name of the one below."""
        names = {"renamed": f"renamed{number}", "prefixed": f"p_{name}", "call_tool": "call_tool"}
        names |= dict.fromkeys(AGENTS, f"agent{number}") | dict.fromkeys(CALLERS, f"caller{number}")
        return names.get(layer, name)


def _inner(tool: Tool, arguments: Any, number: int) -> ToolCall:
    metadata = {"host": "kept"}
    return ToolCall(name=tool.name, arguments=arguments, id=f"in{number}", metadata=metadata)


def merged(labels: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Labels by place, where several may stand at one place."""
    found: dict[str, list[str]] = {}
    for place, names in labels:
        found[place] = [*dict.fromkeys((*found.get(place, ()), *names))]
    return found


# --- The calls of a composition. ---

FITTING = ("plain", "strict")
"""Forms of arguments that the tool takes. `open` and `python` are for a repair."""

FORMS = [*FITTING, *FITTING, "unknown", "wrong kind", "twice", "no JSON", "open", "python"]
AGAIN = ["the same", "another id", "other text", "other text, same id", "elsewhere", "unlabelled"]


@dataclass
class Planned:
    """A call to make: what it means, and in which of two contexts it is made."""

    kind: str
    call: ToolCall
    meant: dict[str, Any]
    labels: dict[str, list[str]]
    form: str

    @property
    def fits(self) -> bool:
        return self.form in FITTING


def planned(composition: Composition, tools: list[Tool]) -> list[Planned]:
    """Return the first call and those that come after it."""
    again = composition.again if composition.form in FITTING else []
    return [_planned(composition, tools, n, kind) for n, kind in enumerate(["first", *again])]


def _planned(composition: Composition, tools: list[Tool], number: int, kind: str) -> Planned:
    sent = composition.sent_to(len(tools) - 1)
    if kind.startswith("other text"):
        sent = with_text(sent, "cats cats")
    labels = {} if kind == "unlabelled" else composition.labels_at_the_top()
    meant, form = deepcopy(sent), composition.form
    if form == "strict" and composition.body.strict and not composition.has(*AGENTS, *CALLERS):
        labels = _make_strict(sent, tools[0], labels)
    elif form == "strict":
        form = "plain"
    text = json.dumps(sent)
    arguments: Any = {
        "unknown": {**sent, "un-known": "x"},
        "wrong kind": with_text(sent, [1]),
        "twice": f'{text[:-1]}, "{next(iter(sent))}": "dogs"}}',
        "no JSON": f"{text}}}",
        "open": text[:-1],
        "python": repr(sent),
    }.get(form, text if composition.as_text else sent)
    is_new = kind in ("another id", "other text")
    metadata = {"host": "kept", **({"sources": labels} if labels else {})}
    call = ToolCall(
        name=tools[-1].name,
        arguments=arguments,
        id=f"c{number}" if is_new else "c",
        metadata=metadata,
    )
    return Planned(kind, call, meant, labels, form)


def _make_strict(sent: Any, body: Tool, labels: Any) -> dict[str, list[str]]:
    """Write the innermost arguments in their strict form. Return the labels at their places there."""
    while "arguments" in sent:
        sent = sent["arguments"]
    plain, strict = (s["properties"] for s in (body.schema.plain, body.schema.parameters))
    more = {name: sent.pop(name) for name in [*sent] if name not in plain}
    sent |= {name: sent.get(name) for name in plain}
    for point in [sent.get("point"), *(sent.get("points") or [])]:
        if point is not None:
            point.setdefault("label", None)
    for rest in [name for name in strict if name not in plain]:
        sent[rest] = [{"key": name, "value": value} for name, value in more.items()]
        labels = {re.sub("/more$", f"/{rest}/0/value", p): names for p, names in labels.items()}
    return labels


# --- How compositions are drawn. ---


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    kind = draw(st.sampled_from(KINDS))
    others = draw(st.lists(st.sampled_from(OTHERS), unique_by=lambda p: p.name, max_size=4))
    return Body(
        kind=kind,
        parameters=[TEXT, *others],
        rest=kind != "model" and draw(st.booleans()),
        strict=draw(st.booleans()),
        outcome=draw(st.sampled_from([*OUTCOMES])),
        hidden=kind not in ("model", "schema", "tool") and draw(st.booleans()),
    )


@st.composite
def sent_to(draw: st.DrawFn, body: Body) -> dict[str, Any]:
    """Draw JSON arguments that the body takes."""
    sent = {}
    for parameter in body.parameters:
        needed = parameter.default is EMPTY and parameter.name != "made"
        if needed or draw(st.booleans()):
            sent[parameter.sent] = draw(parameter.values)
    if body.rest and draw(st.booleans()):
        sent["more"] = draw(NUMBERS)
    return sent


@st.composite
def compositions(draw: st.DrawFn) -> Composition:
    body = draw(bodies())
    layers = draw(st.lists(st.sampled_from(LAYERS), max_size=5))
    if body.outcome == "hangs" and not ("wrapper" in layers and body.kind in ("async", "subclass")):
        body.outcome = "value"  # Nothing would end it.
    read_only = "cached" in layers or draw(st.booleans())
    body.settings = ToolSettings(untrusted=draw(st.booleans()), read_only=read_only)
    levels = [Level(layer) for layer in ["body", *layers]]
    for level in levels:
        if level.layer in GUARDED:
            level.inputs = draw(st.lists(st.sampled_from([*GUARDS]), max_size=3))
            level.outputs = draw(st.lists(st.sampled_from([*OUTPUTS]), max_size=2))
        if level.layer in (*AGENTS, *CALLERS, "renamed"):
            level.untrusted = draw(st.booleans())
    if levels[-1].layer in GUARDED and draw(st.integers(0, 9)) == 9:
        levels[-1].outputs.append("spill")  # No output guardrail may stand outside of it.
    sent = draw(sent_to(body))
    places = ["", *(f"/{name}" for name in sent)]
    places += [f"/{name}/0" for name, value in sent.items() if isinstance(value, list)]
    names = st.sampled_from([["mail"], ["web", "mail"]])
    return Composition(
        levels=levels,
        body=body,
        sent=sent,
        labels=draw(st.just({}) | st.dictionaries(st.sampled_from(places), names, max_size=2)),
        as_text=draw(st.booleans()),
        form=draw(st.sampled_from(FORMS)),
        door=draw(st.sampled_from(["invoke", "call", "call_all", "call_sync"])),
        policy=draw(st.sampled_from(["yes", "no", "edit", "later", "later edit", "later no"])),
        again=draw(st.lists(st.sampled_from(AGAIN), max_size=3)),
    )
