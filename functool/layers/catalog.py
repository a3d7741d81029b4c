"""Put thousands of tools behind a search. A model sees only the tools that it needs.

    catalog = Catalog(tools, pinned=["calendar"])
    tools = catalog.toolset(context)  # each turn: pinned tools, search_tools, and found tools
    tools = catalog.fixed()           # search_tools and call_tool, for prompt caches

A found tool keeps its guardrails, approvals and limits, whether a model calls it by its own name or
through `call_tool`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field

from functool import (
    Context,
    DefinitionError,
    OutputGuardrail,
    SchemaTool,
    Tool,
    ToolCall,
    ToolDisabledError,
    ToolResult,
    Toolset,
    ToolSettings,
    UnknownToolError,
    WrapperTool,
)
from functool.binding.watch import Watch
from functool.executors import in_thread, inline
from functool.json_values import paused_gc
from functool.large import in_thread_if, is_large
from functool.layers.search_tool import FOUND as FOUND
from functool.layers.search_tool import SearchTool, shown
from functool.layers.some_tools import for_tool
from functool.layers.words import CANDIDATES, FIELDS, WordIndex, without_numbers
from functool.schema.json_schema import walk

Rank: TypeAlias = Callable[[str, int], Iterable[tuple[str, float]]]

SEARCH = "search_tools"
CALL = "call_tool"
MOST = 20
"""The most tools that one search returns to a model."""

_NAME_BYTES = 4_096
"""How many bytes `call_tool` allows beside the inner arguments, mostly for the tool's name."""

_RANK_OFFSET = 60
"""The constant of reciprocal rank fusion. The higher it is, the less the first ranks stand out."""


@dataclass(slots=True, kw_only=True)
class Match:
    """A tool that a search found.

    The best match has the highest `score`, which can be compared within one search only. `why`
    names the words that matched each field.
    """

    tool: Tool
    score: float
    why: str


class Catalog:
    """Many tools, found by searching.

    Args:
        tools: The tools: a Tool, an iterable of tools, or a Toolset.
        pinned: The tools that a model always sees: names of tools in the catalogue, or tools.
        examples: By the name of a tool, requests of people who want this tool.
        rank: Your own search, a sync function: `rank(query, limit) -> [(name, score), ...]`. Its
            order is combined with the order of the word search. `search` does not catch its errors.

    Raises:
        DefinitionError: Two tools have the same name, a name is unknown or is used by the
            catalogue's own tools, `rank` is not a sync callable, or this Python's SQLite lacks
            FTS5.
    """

    def __init__(
        self,
        tools: Tool | Iterable[Tool] | Toolset,
        *,
        pinned: Tool | Iterable[str | Tool] = (),
        examples: Mapping[str, Sequence[str]] = {},
        rank: Rank | None = None,
    ) -> None:
        given = [tools] if isinstance(tools, Tool) else tools
        self.tools: Toolset = given if isinstance(given, Toolset) else Toolset(given)
        self.pinned: Toolset = self._with_pinned(pinned)
        for name in (SEARCH, CALL):
            if name in self.tools:
                raise DefinitionError(
                    f"a catalogue has a tool {name!r} of its own:"
                    " WrapperTool(tool, name=...) renames yours"
                )
        self._check_names(examples, "examples")
        for name, texts in examples.items():
            if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
                raise DefinitionError(f"the examples of {name!r} must be a list of texts")
        if rank is not None and (not callable(rank) or inspect.iscoroutinefunction(rank)):
            raise DefinitionError("rank must be a sync function: rank(query, limit)")
        self._rank = rank
        self._listed = [*self.tools.values()]
        self._fields = [_fields(tool, examples.get(tool.name, ())) for tool in self._listed]
        self._index = WordIndex(self._fields)
        self._numbers = {tool.name: number for number, tool in enumerate(self._listed)}

    def _with_pinned(self, pinned: Any) -> Toolset:
        """Return the pinned tools. Add those that are missing to the catalogue."""
        given = pinned.values() if isinstance(pinned, Toolset) else pinned
        chosen = [given] if isinstance(given, (str, Tool)) else [*given]
        named = [item for item in chosen if isinstance(item, str)]
        new = [t for t in chosen if isinstance(t, Tool) and self.tools.get(t.name) is not t]
        self.tools = self.tools | Toolset(new)
        self._check_names(named, "pinned")
        return Toolset(self.tools[t] if isinstance(t, str) else t for t in chosen)

    def _check_names(self, names: Iterable[str], what: str) -> None:
        for name in names:
            if name not in self.tools:
                close = UnknownToolError(name, self.tools)
                raise DefinitionError(f"{what} names a tool that is not in the catalogue: {close}")

    def __len__(self) -> int:
        return len(self.tools)

    def __repr__(self) -> str:
        return f"<Catalog of {len(self)} tools>"

    def search(
        self, query: str, limit: int = 5, context: Context[Any] | None = None
    ) -> list[Match]:
        """Return the tools that fit a query best, without those that are disabled in this context.

        Raises:
            ValueError: `limit` is not a positive int.
        """
        found = self._ranked(query, limit, context, _any)
        terms = self._index.terms(query) if found else {}
        return [
            Match(tool=self._listed[number], score=score, why=self._why(number, terms, place))
            for number, score, place in found
        ]

    def _ranked(
        self,
        query: str,
        limit: int,
        context: Context[Any] | None,
        keep: Callable[[Tool], bool],
    ) -> list[tuple[int, float, int | None]]:
        """Return number, score and place in `rank` of the tools that fit best and `keep` accepts.

        To say why they fit takes longer, so only `search` does.
        """
        if type(limit) is not int or limit < 1:
            raise ValueError(f"limit must be a positive int, not {limit!r}")

        def is_kept(number: int) -> bool:
            tool = self._listed[number]
            return keep(tool) and tool.is_enabled(context)

        most = limit if self._rank is None else max(limit, CANDIDATES)
        found = self._index.search(query, most, is_kept)
        ranked: list[int] = []
        if self._rank is not None:
            scored = sorted(self._rank(query, most), key=lambda pair: -pair[1])
            # The host's own search may return tools that are no longer in the catalogue.
            known = [self._numbers[name] for name, _ in scored if name in self._numbers]
            ranked = [number for number in dict.fromkeys(known) if is_kept(number)]
            found = _fused([number for number, _ in found], ranked)
        places = {number: place for place, number in enumerate(ranked, start=1)}
        return [(number, score, places.get(number)) for number, score in found[:limit]]

    def _why(self, number: int, terms: Mapping[str, str], place: int | None) -> str:
        """Return the words that matched, field by field, and the tool's place in `rank`."""
        parts = []
        for field, text in zip(FIELDS, self._fields[number], strict=True):
            stems = self._index.stems(text)
            if hits := [word for stem, word in terms.items() if stem in stems]:
                parts.append(f"{field}: {', '.join(hits)}")
        return "; ".join([*parts, *([] if place is None else [f"rank: {place}"])])

    def toolset(self, context: Context[Any]) -> Toolset:
        """Return the tools for the next turn: pinned, `search_tools`, and those found so far.

        New finds are added at the end, so that a prompt cache can still use everything before them.

        Raises:
            TypeError: The context is not a `Context`.
        """
        if not isinstance(context, Context):
            raise TypeError(f"the context must be a Context, not {type(context).__name__}")
        names = dict.fromkeys(context.state.get(FOUND, ()))
        found = [self.tools[n] for n in names if n in self.tools and n not in self.pinned]
        return Toolset(
            [*self.pinned.values(), self._search_tools, *found],
            max_concurrency=self.tools.max_concurrency,
        )

    def fixed(self) -> Toolset:
        """Return `search_tools` and `call_tool`, whose definitions never change.

        `call_tool` cannot call tools that are exclusive or take control, because such a tool must
        not run beside others.
        """
        tools = self.tools.filtered(_runs_beside)
        return Toolset(
            [self._searcher(fixed=True), CallTool(tools, self)],
            max_concurrency=self.tools.max_concurrency,
        )

    @cached_property
    def _search_tools(self) -> Tool:
        return self._searcher(fixed=False)

    def _searcher(self, *, fixed: bool) -> Tool:
        """Make `search_tools`. With `fixed` it also returns each found tool's parameters."""
        # The author's `rank` may take a moment. Without it a search takes a millisecond, and calls
        # the `is_enabled` of the tools on the event loop, as a toolset does.
        search = inline if self._rank is None else in_thread
        # In a thread, because the parameters of one tool may be a megabyte.
        show = in_thread if fixed else inline

        async def search_tools(
            query: Annotated[str, "What the tool should do, in a few words."],
            context: Context[Any],
            limit: Annotated[int, Field(ge=1, le=MOST), "At most so many tools."] = 5,
        ) -> ToolResult:
            keep = _runs_beside if fixed else _any
            ranked = await search(self._ranked, query, limit, context, keep)
            if not ranked:
                return ToolResult(
                    output=ToolResult.of("No tool fits. Try other words.").output, value=[]
                )
            found = [self._listed[number] for number, *_ in ranked]
            return ToolResult.of(await show(shown, found, with_parameters=fixed))

        then = f"Call one with {CALL}." if fixed else "You can call those that are found."
        tool = SearchTool(
            search_tools,
            description=f"Search {len(self):,} tools by what they do. {then}",
            settings=ToolSettings(display_name="Search tools", read_only=True, idempotent=True),
        )
        tool.tools = self.tools
        return tool


class CallTool(WrapperTool):
    """The tool `call_tool`. It runs the call that its arguments describe."""

    def __init__(self, tools: Toolset, catalog: Catalog) -> None:
        declared = SchemaTool(
            CALL,
            f"Call a tool that {SEARCH} has found.",
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of the tool."},
                    "arguments": {
                        "type": "object",
                        "description": "Its arguments, as its parameters say.",
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            lambda arguments: None,  # Never called: `run` calls the named tool instead.
            settings=ToolSettings(
                display_name="Call a tool",
                read_only=all(tool.settings.read_only for tool in tools.values()) or None,
                destructive=any(tool.settings.destructive for tool in tools.values()) or None,
            ),
            max_argument_bytes=_limit_of(tools.values()),
        )
        self._tools = tools  # First, because it says which output guardrails there are.
        super().__init__(declared)
        self._catalog = catalog
        self._funcs: tuple[Any, ...] = ()
        self._made: dict[str, list[Any]] = {}

    @property
    def requires_approval(self) -> bool:
        """Whether any of the tools may ask for approval."""
        return super().requires_approval or any(t.requires_approval for t in self._tools.values())

    def all_output_guardrails(self) -> list[OutputGuardrail]:
        """Return the output guardrails of all tools that it calls, and after them its own.

        Each of those that stand last is the last one of its tool. So they come after the others.
        """
        inner = [each for tool in self._tools.values() for each in tool.all_output_guardrails()]
        inner.sort(key=lambda each: getattr(each, "stands_last", False))
        return [*inner, *self.output_guardrails]

    def watch(self) -> Watch:
        """Return a watch over the outer arguments. The inner ones are checked at the call."""
        return self.tool.watch()

    def around(self, func: Any) -> Self:
        """Return a copy that wraps `func` around the bodies of the tools that it calls."""
        twin = super().around(func)
        twin._funcs, twin._made = (*self._funcs, func), {}
        return twin

    def reached(self, call: ToolCall, context: Context[Any] | None = None) -> tuple[Tool, ToolCall]:
        """Return the tool that a call names, and the call of that tool.

        Raises:
            ArgumentError: The arguments are not those of `call_tool`.
            UnknownToolError: There is no such tool.
        """
        inner = self._described(call)
        return self._named(inner.name, context), inner

    def _described(self, call: ToolCall) -> ToolCall:
        """Return the call that the arguments of a call describe."""
        given = self.bind(call.arguments).arguments
        return replace(
            call,
            name=given["name"],
            arguments=_as_sent(call.arguments, given.get("arguments")),
            metadata=_inner_metadata(call.metadata),
        )

    def _named(self, name: str, context: Context[Any] | None) -> Tool:
        if name not in self._tools:
            close = self._catalog.search(name, 3, context)
            raise UnknownToolError(name, [m.tool.name for m in close if m.tool.name in self._tools])
        return self._tools[name]

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Run the named tool with its own checks and guardrails."""
        inner = await in_thread_if(is_large(call), paused_gc, self._described, call)
        tool = self._named(inner.name, context)
        if not tool.is_enabled(context):
            raise ToolDisabledError.of(tool.name)
        if tool.name not in self._made:
            self._made[tool.name] = [for_tool(func, tool) for func in self._funcs]
        for func in self._made[tool.name]:
            tool = tool.around(func)
        return await tool.invoke(inner, context.view(handed_to=tool))


def _any(tool: Tool) -> bool:
    return True


def _runs_beside(tool: Tool) -> bool:
    return not (tool.settings.is_exclusive or tool.settings.takes_control)


def _limit_of(tools: Iterable[Tool]) -> int | None:
    """Return the most bytes of a call to any of the tools, with the tool's name."""
    limits = [tool.max_argument_bytes for tool in tools]
    most = [limit for limit in limits if limit is not None]
    return max(most, default=0) + _NAME_BYTES if len(most) == len(limits) else None


def _as_sent(sent: Mapping[str, Any] | str, given: Any) -> Any:
    """Return the inner arguments as the text that was sent.

    The inner tool must see the text, because it refuses a name that was sent twice.
    """
    if given is None:
        return {}
    members = dict(_members(sent)) if isinstance(sent, str) else sent
    inner = members.get("arguments", given)
    if isinstance(sent, str) and isinstance(inner, str) and inner.lstrip()[:1] == '"':
        return json.loads(inner)  # The model sent the object as a JSON string.
    return inner


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names in the text of a valid JSON object, each with the text of its value."""
    # Do not parse numbers here: the inner tool does, and it limits their digits.
    decoder, at = json.JSONDecoder(parse_int=str, parse_float=str), text.index("{") + 1
    while (start := text.find('"', at)) != -1:
        name, at = decoder.raw_decode(text, start)
        at = text.index(":", at) + 1
        at += len(text[at:]) - len(text[at:].lstrip())
        _, end = decoder.raw_decode(text, at)
        yield name, text[at:end]
        at = end


def _inner_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata for the inner call, whose sources point into the inner arguments."""
    inner, prefix = dict(metadata), "/arguments"
    sources = inner.get("sources")
    if isinstance(sources, Mapping):
        found: dict[str, list[str]] = {}
        for pointer, names in sources.items():
            # Whoever chose the tool chose the whole call. A place that is gone counts as whole.
            inside = pointer.startswith(f"{prefix}/")
            known = found.setdefault(pointer.removeprefix(prefix) if inside else "", [])
            known += [name for name in names if name not in known]
        inner["sources"] = found
    return inner


def _fields(tool: Tool, examples: Iterable[str]) -> list[str]:
    """Return the texts of a tool to index, in the order of `FIELDS`."""
    names: list[str] = []
    texts: list[str] = []
    choices: list[str] = []
    plain = tool.schema.plain
    for node in walk(plain):
        names += node["properties"] if isinstance(node.get("properties"), Mapping) else ()
        texts += [node[key] for key in ("title", "description") if isinstance(node.get(key), str)]
        listed = node.get("enum", [node["const"]] if "const" in node else ())
        choices += [value for value in listed if isinstance(value, str)]
    tags = [*tool.settings.tags, *examples]
    parts = (names, texts, choices, tags)
    others = (tool.description, *(" ".join(map(str, part)) for part in parts))
    return [tool.name, *map(without_numbers, others)]


def _fused(*orders: list[int]) -> list[tuple[int, float]]:
    """Combine several orders by reciprocal rank fusion: the score is the sum of 1 / (60 + rank)."""
    scores: dict[int, float] = {}
    for order in orders:
        for place, number in enumerate(order, start=1):
            scores[number] = scores.get(number, 0.0) + 1 / (_RANK_OFFSET + place)
    return sorted(scores.items(), key=lambda pair: -pair[1])
