"""Arguments are judged while they are written, and nothing that would pass is ever refused."""

import json
import os
import random
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import settings
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    StringConstraints,
    Tag,
)
from typing_extensions import TypedDict

from functool import ArgumentError, FunctionTool, SchemaTool, Tool, ToolResult, WrapperTool
from functool.dialects import CallRefused, openai_chat
from tests import mutations, signatures
from tests.bfcl import lines
from tests.schemas import INT, MAYBE_INT, NULL, STR, any_of, array, dict_of, obj, ref, tuple_of
from tests.support import foreign, taking

SIGNATURES = int(os.environ.get("FUNCTOOL_SIGNATURES", "120"))
EVERY = max(
    1, 500 // settings().max_examples
)  # `make test` reads each fifth call, `make laws` all.


class Point(BaseModel):
    x: float
    label: str = "origin"


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@FunctionTool
def plan(
    days: int,
    mode: Literal["fast", "deep"] = "fast",
    color: Color = Color.RED,
    spot: Point | None = None,
    spots: list[Point] = [],  # noqa: B006
    code: Annotated[str, Field(max_length=3)] = "",
    word: Annotated[str, Field(pattern="^[a-z]+$")] = "a",
    tags: list[str] | None = None,
) -> str:
    """Plan a trip."""
    return "done"


NODE = obj(
    {"next": ref("node"), "v": INT, "t": {"enum": ["top", "end"]}}, additionalProperties=False
)
theirs = foreign(
    obj(
        {
            "n": INT,
            "level": {"enum": [1, 2, "top"]},
            "node": ref("node"),
            "more": any_of({**STR, "maxLength": 2}, NULL),
            "any": True,
            "open": dict_of(True),
            "map": dict_of(INT),
            "list": array(INT),
            "pair": tuple_of({**STR, "minLength": 3}, INT, items=NULL),
            "word": {**STR, "pattern": "^[a-z]+$"},
            "fixed": {"const": "on"},
            "one": {"oneOf": [{**STR, "maxLength": 2}, {"type": "array"}]},
            "mixed": {"type": ["string", "boolean"], "enum": ["a", 1, True]},
            "whole": MAYBE_INT,
            "opt": INT,
        },
        required=["n"],
        additionalProperties=False,
        **{"$defs": {"node": NODE}},
    )
)


@FunctionTool(max_argument_bytes=None)
def unbounded(
    word: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2)],
    words: dict[str, Any],
) -> str:
    """Take any number of bytes."""
    return word


patterned = foreign(dict_of(False, patternProperties={"^x-": {**INT, "minimum": 5}}))
# A reference into a part with an address of its own.
PART = {
    "$id": "https://example.com/p",
    "$defs": {"a": {**STR, "minLength": 2}},
    "$ref": "#/$defs/a",
}
renamed = foreign(obj({"p": PART}, **{"$defs": {"a": INT}}))
strict = foreign(obj({"m": dict_of(INT, minProperties=1)}, required=["m"]), strict=True)

paired = foreign(
    obj({"p": tuple_of(STR, INT, items=False), "m": dict_of(INT)}, required=["p", "m"]),
    strict=True,
)


@dataclass
class Spot:
    x: int
    name: Annotated[str, Field(min_length=2)] = "ab"


class Tags(RootModel[list[Literal["a", "b", None]]]):
    pass


@FunctionTool
def place(
    spot: Spot,
    tags: Tags = Tags([]),
    kind: Literal["in", "out", None] = "in",
    level: Literal[1, 2] = 1,
    fast: bool = False,
    share: float = 0.5,
    pair: tuple[int, str] = (1, "a"),
    seen: set[int] = set(),  # noqa: B006
    kept: frozenset[int] = frozenset(),
    prices: dict[str, int] = {},  # noqa: B006
    count: int | None = None,
) -> str:
    """Place a spot."""
    return spot.name


def judged(tool: Tool, text: str, size: int = 1) -> tuple[ArgumentError | None, int]:
    """The refusal of a text that comes in pieces, and how much of the text had come by then."""
    watch = tool.watch()
    for at in range(0, len(text), size):
        if (error := watch.feed(text[at : at + size])) is not None:
            return error, min(at + size, len(text))
    return None, len(text)


REFUSED = [
    (plan, '{"place"', ": 1}", "place"),
    (plan, '{"days": {', "}}", "days"),
    (plan, '{"days": "s', 'oon"}', "days"),
    (plan, '{"days": 1.5,', ' "mode": "fast"}', "days"),
    (plan, '{"mode": "s', 'low"}', "mode"),
    (plan, '{"color": "g', 'reen"}', "color"),
    (plan, '{"code": "abcd', '"}', "code"),
    (plan, '{"word": "A"', "}", "word"),
    (plan, '{"days": 1, "days"', ": 2}", "days"),
    (plan, '{"days" 1', "}", ""),
    (plan, '{"days": 1}}', "", ""),
    (plan, "[", "1]", ""),
    (plan, '{"spot": {"z"', ": 1}}", "spot.z"),
    (plan, '{"spot": {"x": [], "label": "a"}', "}", "spot.x"),
    (plan, '{"spots": [{"x": 1}, {"x": []}', "]}", "spots[1].x"),
    (plan, '{"tags": ["a", 1', ', "b"]}', "tags[1]"),
    (plan, '{"tags": ["a", {', '}, "b"]}', "tags[1]"),
    (theirs, '{"n": "', '1"}', "n"),
    (theirs, '{"level": 3,', ' "n": 1}', "level"),
    (theirs, '{"level": "b', 'ottom"}', "level"),
    (theirs, '{"node": {"next": {"next": {"v": []}}}', "}", "node.next.next.v"),
    (theirs, '{"more": "abc', '"}', "more"),
    (theirs, '{"more": [', "]}", "more"),
    (theirs, '{"n": 1.5,', ' "opt": 1}', "n"),
    (theirs, '{"n": n', "ull}", "n"),
    (theirs, '{"n": 1, "list": [1, "', 'a"]}', "list[1]"),
    (theirs, '{"word": "A"', "}", "word"),
    (theirs, '{"fixed": "of', 'f"}', "fixed"),
    (theirs, '{"one": "abc', '"}', "one"),
    (theirs, '{"one": {', "}}", "one"),
    (theirs, '{"mixed": 1', "}", "mixed"),
    (theirs, '{"mixed": "b', '"}', "mixed"),
    (theirs, '{"level": t', "rue}", "level"),
    (plan, '{"mode": f', "alse}", "mode"),
    (plan, '{"mode": -', "1}", "mode"),
    (theirs, '{"level": 1, "n": "', '1"}', "n"),
    (plan, '{"spot": [', "]}", "spot"),
    (place, '{"spot": [', "]}", "spot"),
    (place, '{"spot": {"y"', ": 1}}", "spot.y"),
    (place, '{"spot": {"x": []}', "}", "spot.x"),
    (place, '{"tags": ["a", "c', '"]}', "tags[1]"),
    (place, '{"tags": {', "}}", "tags"),
    (place, '{"kind": "on', '"}', "kind"),
    (place, '{"fast": {', "}}", "fast"),
    (place, '{"share": "h', 'alf"}', "share"),
    (place, '{"share": [', "]}", "share"),
    (place, '{"pair": {', "}}", "pair"),
    (place, '{"seen": [1, {', "}]}", "seen[1]"),
    (place, '{"kept": [1, {', "}]}", "kept[1]"),
    (place, '{"seen": {', "}}", "seen"),
    (place, '{"prices": {"a": []}', "}", "prices.[key]"),
    (place, '{"prices": [', "]}", "prices"),
    (place, '{"count": [', "]}", "count"),
    (place, '{"count": "m', 'any"}', "count"),
    (theirs, '{"node": {"t": "bottom"}', "}", "node.t"),
    (plan, '{"days": -1.x}', "", ""),
    (plan, '{"spot": nx}', "", ""),
    (plan, '{"days": 01,', ' "mode": "fast"}', ""),
    (plan, '{"code": "a\\q', '"}', ""),
    (plan, '{"code": "a\n', '"}', ""),
    (plan, '{"days"}', "", ""),
    (plan, '{"days": 1,}', "", ""),
    (plan, '{"color": "re\\u0064x', '"}', "color"),
    (plan, '{"code": "a\\u0062cd', '"}', "code"),
    (theirs, '{"any": 1, "map": {"a": 1, "b": ""}', "}", "map.[key]"),
    (plan, '{"days": ' + "1" * 250 + "x}", "", ""),
    (plan, "{d", "ays: 1}", ""),
    (plan, '{"days": 1 "', 'mode": "fast"}', ""),
    (plan, '{"spot": {"x": [], "x": 1}, "days": {', "}}", "days"),
    (plan, '{"spot": {"x": [], "z"', ": 1}}", "spot.z"),
]


@pytest.mark.parametrize(("tool", "so_far", "rest", "path"), REFUSED)
def test_a_text_is_refused_as_soon_as_nothing_can_mend_it(tool, so_far, rest, path):
    """The refusal comes with the character that decides it, in the door's own words for its place."""
    with pytest.raises(ArgumentError) as whole:
        tool.bind(so_far + rest)
    for size in (1, 3, 7, 1000):
        error, at = judged(tool, so_far + rest, size)

        assert error is not None
        pieces = -(-len(so_far) // size)
        expected = min(pieces * size, len(so_far + rest))
        assert (error.problems[0]["path"], at) == (path, expected)
        if path:
            assert error.problems[0] in whole.value.problems


Letter = Literal["a"]


class Branch(BaseModel):
    name: Letter
    kids: "list[Branch]" = []


class Marked(BaseModel):
    mark: Letter = "a"


class Named(TypedDict):
    name: Letter


@dataclass
class Pair:
    one: Letter
    two: Letter = "a"


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Renamed(BaseModel):
    """Its options do not change which values fit."""

    model_config = ConfigDict(
        title="Named",
        extra="allow",
        allow_inf_nan=True,
        frozen=True,
        validate_by_alias=True,
    )
    mark: Letter = Field("a", alias="sign")


class ByName(BaseModel, validate_by_name=True):
    mark: Letter = Field("a", alias="sign")


class Chosen(BaseModel):
    mark: Letter = Field("a", validation_alias=AliasChoices("sign", "mark"))


class Row(NamedTuple):
    number: int


class Sheet(BaseModel):
    """It has a form that its schema does not show: a row may be an object."""

    days: int
    share: float = 0
    row: Row = Row(1)


@pytest.mark.parametrize(
    ("kind", "so_far"),
    [
        (Sheet, '{"days": true}'),
        (list[Sheet], '[{"days": 1, "share": {}}'),
        (list[list[int] | Branch], "[7"),
        (list[list[int] | None], "[t"),
        (set[Letter], '["b'),
        (frozenset[Letter], '["a", "b'),
        (dict[str, list[int]], '{"k": 7}'),
        (list[dict[str, Letter]], '[{"k": "b"}'),
        (Branch, '{"name": "a", "kids": [{"name": "b"}]}'),
        (list[Branch], '[{"name": "a", "kids": 7}'),
        (list[Marked], '[{"mark": "b"}'),
        (list[Renamed], '[{"more": 1, "sign": "b"}'),
        (Chosen, "["),
        (None, "7"),
        (bool | None, "["),
        (Named, '{"name": "b"}'),
        (list[Named], '[{"name": "a", "more"'),
        (list[Pair], '[{"one": "a", "two": "b"}'),
        (RootModel[list[Letter]], '["b'),
        (Annotated[Cat | Dog, Field(discriminator="kind")], "["),
        (Annotated[list[Letter], AfterValidator(sorted)], '["b'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_kind_of_type_is_judged_before_the_text_ends(kind: Any, so_far: str):
    """With the last character of this text, nothing can mend it any more, and before it could."""

    def take(x: Any) -> None: ...

    take.__annotations__["x"] = kind
    text = '{"x": ' + so_far

    error, at = judged(FunctionTool(take), text)
    assert error is not None
    assert at == len(text)


PASSES = [
    (plan, ""),
    (plan.around(lambda call, context, proceed: proceed()), '{"days": 1}'),
    (plan, ' {"days": "7", "mode": null, "tags": "[\\"a\\"]", "spot": "{\\"x\\": 1}"} '),
    (plan, '{"days": 1e2, "color": "re\\u0064", "code": "\\ud83d\\ude00bc", "word": "a\\u0062"}'),
    (plan, '{"days": 1, "spot": {"x": [], "label": [], "label": "b", "x": 2}}'),
    (plan, '{"days": 1, "spots": [{"x": {}, "x": 2}]}'),
    (plan, '{"days": 1, "code": "\\uD83D\\uDE00\\u0062c"}'),
    (theirs, '{"n": 1.0, "level": 2.0, "more": null, "node": {"v": "a", "v": 1}}'),
    (theirs, '{"n": 1, "any": {"b": [null]}, "open": {"b": [null]}, "map": {"a": 1}}'),
    (plan, '{"days": ' + "9" * 250 + "}"),
    (plan, '{"code": "", "days": -0, "word": "a", "spots": []}'),
    (theirs, '{"n": 1, "pair": ["abc", 1, null], "one": "ab", "mixed": true, "opt": null}'),
    (theirs, '{"n": 1, "fixed": "on", "word": "ab", "whole": null, "list": [], "level": "top"}'),
    (patterned, '{"x-a": 7}'),
    (renamed, '{"p": "ab"}'),
    (strict, '{"m": [{"key": "a", "value": 1}]}'),
    (strict, '{"m": {"a": 1}}'),
    (place, '{"spot": {"x": "1", "name": "abc"}, "tags": ["a", null], "kind": null, "level": 2}'),
    (place, '{"spot": {"x": 1.0}, "fast": "yes", "share": " 1e-1 ", "pair": [1, "b"], "level": 1}'),
    (unbounded, '{"word": " ab ", "words": {"a": " c "}}'),
    (taking(Sheet), '{"x": {"days": "7", "share": "1e1", "row": {"number": "1"}}}'),
]


@pytest.mark.parametrize(("tool", "text"), PASSES)
def test_what_passes_is_never_refused(tool, text):
    """Lax values, escapes, and names below the arguments that come again pass in any pieces."""
    if text:
        tool.bind(text)

    assert [judged(tool, text, size)[0] for size in (1, 2, 3, 5, 1000)] == [None] * 5


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *PASSES[1:],
        *(
            (taking(kind), '{"x": ' + text + "}")
            for kind, text in [
                (list[list[int] | Branch], '[[1], {"name": "a", "kids": [{"name": "a"}]}]'),
                (list[list[int] | None], "[[1], null]"),
                (dict[str, list[int]], '{"k": [7]}'),
                (list[dict[str, Letter]], '[{"k": "a"}]'),
                (list[Marked], '[{"mark": "a"}, {}]'),
                (list[Named], '[{"name": "a"}]'),
                (list[Pair], '[{"one": "a", "two": "a"}]'),
                (RootModel[list[Letter]], '["a"]'),
                (Annotated[Cat | Dog, Field(discriminator="kind")], '{"kind": "dog"}'),
                (Annotated[list[Letter], AfterValidator(sorted)], '["a"]'),
                (Renamed, '{"sign": "a", "more": 1}'),
                (Chosen, '{"sign": "a"}'),
                (ByName, '{"mark": "a"}'),
                (list[ByName], '[{"sign": "a"}]'),
                (list[None], "[null]"),
                (list[bool | None], '[true, false, 1, "yes", null]'),
                (list[float], '[1, 1.5, "1.5", -1e3]'),
                (list[Color], '["red", "blue"]'),
                (tuple[int, str], '[1, "a"]'),
            ]
        ),
        *(
            (taking(kind, strict=True), '{"x": ' + text + "}")
            for kind, text in [
                (tuple[int, str], '{"item_0": 1, "item_1": "a"}'),
                (tuple[int, str], '[1, "a"]'),
                (dict[str, int], '[{"key": "a", "value": 1}]'),
                (dict[str, int], '{"a": 1}'),
                (list[Marked], '[{"mark": null}]'),
            ]
        ),
        (paired, '{"p": {"item_0": "a", "item_1": null}, "m": [{"key": "a", "value": 1}]}'),
        (paired, '{"p": ["a"], "m": {"a": 1}}'),
    ],
)
def test_what_passes_raises_no_false_alarm(tool, text):
    """A watch that asked the binder in vain would check nothing more: this one still sees a bracket too many."""
    watch = tool.watch()

    assert watch.feed(text) is None
    assert "not valid JSON" in str(watch.feed("}"))


def test_white_space_of_any_kind_means_no_arguments():
    """A text of white space alone passes, also where JSON has no such space; before an object it does not."""
    tool = FunctionTool(lambda: "x", name="nothing")
    tool.bind("\u00a0\n")
    watch = tool.watch()

    assert watch.feed("\u00a0\n") is None
    error = watch.feed("{")
    assert error is not None
    assert "not valid JSON" in str(error)


def test_an_authors_validator_is_not_anticipated():
    """A value that a validator of the author's may change, or a class may look up, is judged when complete."""

    class Kind(Enum):
        ANY = "any"

        @classmethod
        def _missing_(cls, value: object) -> "Kind":
            return cls.ANY

    @FunctionTool
    def count(n: Annotated[int, BeforeValidator(len)], kind: Kind) -> str:
        return str(n)

    count.bind('{"n": "three", "kind": [1]}')

    assert judged(count, '{"n": "three", "kind": [1]}')[0] is None


class Hiding(BaseModel):
    model_config = ConfigDict(json_schema_extra=lambda made: made["properties"].pop("age"))
    age: int = 0


@dataclass
class Silent:
    __pydantic_config__ = ConfigDict(json_schema_extra={"properties": {}})
    age: int = 0


class Vague(TypedDict):
    __pydantic_config__ = ConfigDict(json_schema_extra={"properties": {}})  # type: ignore[misc]
    age: int


@pytest.mark.parametrize("kind", [Hiding, Silent, Vague])
def test_a_class_that_hides_a_field_in_its_schema_still_takes_it(kind: Any):
    """What a class says about itself is not what is checked."""
    tool = taking(kind)
    watch = tool.watch()
    text = '{"x": {"age": 3}}'

    assert tool.bind(text).values
    assert [watch.feed(piece) for piece in text] == [None] * len(text)
    assert "expected an integer" in str(tool.watch().feed('{"x": {"age": []}'))


def test_a_tag_that_a_function_chooses_is_not_anticipated():
    """It may tell texts and numbers apart, too. An empty text is not yet the one that fits."""
    members = Annotated[Literal["abc"], Tag("s")] | Annotated[Literal[15], Tag("i")]
    tag = Discriminator(lambda value: "s" if isinstance(value, str) else "i")

    def take(x: list[Annotated[members, tag]]) -> str:
        return "ran"

    tool = FunctionTool(take)
    for text in ('{"x": ["abc"]}', '{"x": [15, "abc"]}'):
        assert judged(tool, text)[0] is None
        tool.bind(text)


def test_a_name_with_a_lone_surrogate_is_left_to_the_whole_text():
    """A name that is no text is not judged early; the complete text is refused."""
    text = '{"\\ud800": 1, "days": {}}'

    assert judged(plan, text)[0] is None
    with pytest.raises(ArgumentError):
        plan.bind(text)


def test_too_many_bytes_and_too_many_levels_are_refused_at_once():
    """The limit of bytes and the limit of levels are those of the road."""

    @FunctionTool(max_argument_bytes=20)
    def short(text: str) -> str:
        return text

    @FunctionTool
    def anything(value: Any) -> str:
        return "x"

    long, deep = '{"text": "' + "é" * 30, '{"value": ' + "[" * 120
    error, at = judged(short, long)
    assert error is not None and "more than 20 bytes" in str(error)
    assert at == 16
    error, at = judged(short, '{"text": "' + "\ud800" * 30)
    assert error is not None and "more than 20 bytes" in str(error)
    assert at == len('{"text": "') + 4
    error, at = judged(anything, deep)
    assert error is not None and "nested more than 100 levels" in str(error)
    assert at == len('{"value": ') + 100


@pytest.mark.parametrize(("choices", "values"), [(1, 60_000), (20_000, 600)])
def test_the_rest_of_a_very_long_piece_is_read_with_the_next_ones(choices: int, values: int):
    """No piece holds the event loop: one that is much work is read in part, and no text is lost."""
    watch = taking(list[Literal[tuple(f"c{n}" for n in range(choices))]]).watch()  # type: ignore[misc]

    assert watch.feed('{"x": [' + '"c0",' * values + '"z"') is None
    assert f"x[{values}]" in str(watch.feed(""))


def test_one_piece_has_one_budget_for_all_its_patterns():
    """Once the texts of a piece took much work to match, its other texts are left to the binder."""
    tool = taking(list[Annotated[str, Field(pattern="^([01]*1[01]{900}2|[01]*)$")]])
    texts = "".join(f'"{n:01000b}",' for n in range(60))

    assert tool.watch().feed('{"x": [' + texts + '"z"') is None
    watch = tool.watch()
    watch.feed('{"x": [' + texts)
    assert "x[60]" in str(watch.feed('"z"'))


def test_a_refusal_stays():
    """After a refusal every further piece gets the same error."""
    watch = plan.watch()
    error = watch.feed('{"days": {')

    assert error is not None
    assert watch.feed("}}") is error


def test_a_wrapper_asks_its_inner_tool():
    """A wrapper judges as the inner tool does, one that may mend a call judges nothing."""

    class Mending(WrapperTool):
        async def run(self, call, context) -> ToolResult:
            return ToolResult.of("mended")

    wrong = '{"days": {}}'

    assert judged(WrapperTool(WrapperTool(plan, name="other")), wrong)[1] == len('{"days": {')
    assert judged(Mending(plan), wrong) == (None, len(wrong))


@pytest.mark.hypothesis  # So that `make laws` runs it too.
def test_every_valid_call_of_the_corpus_passes_at_every_prefix():
    """None of 3,102 real calls is refused at any of its prefixes, plain or strict."""
    functions = {line["uid"]: line for line in lines("functions")}
    tools: dict[Any, SchemaTool] = {}
    found = []
    for line in list(lines("calls_valid"))[::EVERY]:
        for strict in (False, True):
            uid = line["function"], strict
            if uid not in tools:
                of = functions[line["function"]]
                about = of["name"], of["description"], of["parameters"]
                tools[uid] = SchemaTool(*about, lambda arguments: arguments, strict=strict)
            text = json.dumps(line["arguments"])
            if judged(tools[uid], text)[0] is not None:
                found.append((strict, text))

    assert found == []


def test_no_generated_signature_raises_a_false_alarm():
    """Whatever a signature says, a text that was refused early is refused by the road."""
    draw = random.Random(SIGNATURES)
    alarms, early, valid = [], 0, 0
    for _ in range(SIGNATURES):
        tool = signatures.tool(draw)
        for _ in range(3 if tool is not None else 0):
            text = signatures.arguments(draw, tool)
            error, _ = judged(tool, text, draw.choice([1, 2, 4, 9]))
            try:
                tool.bind(text)
            except ArgumentError:
                early += error is not None
            else:
                valid += 1
                if error is not None:
                    alarms.append((tool.func.__signature__, text, str(error)))

    assert alarms == []
    assert early > SIGNATURES / 3
    assert valid > SIGNATURES / 2


@pytest.mark.hypothesis
def test_most_of_the_text_of_wrong_calls_is_never_generated():
    """Nine kinds of mutation of real calls: at least 40 % of their text need not be written."""
    written = whole = 0
    kinds = set()
    for number, (kind, tool, text) in enumerate(mutations.mutated()):
        if number % (7 * EVERY):
            continue
        with_road = [] if kind == "unknown_tool" else problems(tool, text)
        if with_road is None:
            continue  # The mutation left it valid.
        error, at = streamed(tool, mutations.name_of(kind, tool), text)
        whole, written = whole + len(text), written + at
        kinds.add(kind)
        if error is not None and kind != "unknown_tool" and kind != "broken":
            assert error.problems[0] in with_road

    assert kinds == {kind.__name__ for kind in mutations.KINDS}
    assert len(kinds) == 9
    assert 1 - written / whole >= 0.4


def problems(tool: Tool, text: str) -> list[Any] | None:
    """What the road says of a call, or None if it passes."""
    try:
        tool.bind(text)
    except ArgumentError as error:
        return [*error.problems]
    return None


def streamed(tool: Tool, name: str, text: str) -> tuple[Any, int]:
    """The refusal of a streamed call, and how much of its text had come by then."""
    stream, at = openai_chat.StreamReader(tool), 0
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    for piece, first in zip(["", *pieces], [True, *[False] * len(pieces)], strict=True):
        about = {"id": "c", "function": {"name": name}} if first else {"function": {}}
        about["function"]["arguments"] = piece
        delta = {"tool_calls": [{"index": 0, **about}]}
        at += len(piece)
        for event in stream.feed({"choices": [{"index": 0, "delta": delta}]}):
            if isinstance(event, CallRefused):
                return event.error, at
    return None, at


def test_the_patterns_of_a_stranger_are_judged_within_a_budget():
    """A pattern that is too much work for this text suspects nothing, and holds nobody up."""
    tool = SchemaTool("t", "T.", {"properties": {"x": {"pattern": "^.{3000}$"}}}, print)

    assert "pattern" in str(tool.watch().feed('{"x": "aa"'))
    assert tool.watch().feed(json.dumps({"x": "a" * 400_000})) is None


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"x": {"properties": [1]}}}, '{"x": {"y": 1}}'),
        (
            {
                "$ref": "#/$defs/a0",
                "$defs": {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(5_000)},
            },
            '{"x": 1}',
        ),
    ],
    ids=["malformed", "a chain"],
)
def test_a_schema_that_cannot_be_read_suspects_nothing(schema, text):
    """The binder answers such a call, in words."""
    tool = SchemaTool("t", "T.", schema, print)

    assert tool.watch().feed(text) is None
    with pytest.raises(ArgumentError):
        tool.bind(text)
