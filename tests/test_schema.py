"""From signature to schema: the JSON Schema that a model sees, and what is refused at definition."""

import asyncio
import functools
import json
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar, Union

import pytest
from jsonschema import Draft202012Validator
from pydantic import AliasPath, BaseModel, Field, PlainSerializer, WrapSerializer
from typing_extensions import NotRequired, Required, TypedDict, Unpack

from functool import Context, DefinitionError, FunctionTool, Inject, ToolCall, Toolset
from functool.schema.json_schema import admits_null, is_recursive, kinds_of, takes_only_containers
from functool.schema.signature import Unresolved, describe, returned_schema

T = TypeVar("T")


def schema_of(func):
    """The published schema, which has to be valid JSON Schema 2020-12."""
    schema = FunctionTool(func).schema.parameters
    Draft202012Validator.check_schema(schema)
    return schema


class Inner(BaseModel):
    """An inner thing."""

    n: int = Field(3, description="N.")


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []


def test_the_plain_schema():
    """Types, defaults, texts, required names; no titles that repeat a name."""

    def go(
        a: int,
        b: str = "x",
        c: Annotated[float, Field(ge=0, le=1, examples=[0.5], title="See")] = 0.5,
        d: Inner = Inner(),
        e: Optional[list[Literal["p", "q"]]] = None,
    ):
        """Go.

        Args:
            a: An a.
            d: A d.
        """

    assert schema_of(go) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "An a."},
            "b": {"type": "string", "default": "x"},
            "c": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "examples": [0.5],
                "title": "See",
                "default": 0.5,
            },
            "d": {"$ref": "#/$defs/Inner", "default": {"n": 3}, "description": "A d."},
            "e": {
                "anyOf": [
                    {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}},
                    {"type": "null"},
                ],
                "default": None,
            },
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {
            "Inner": {
                "type": "object",
                "title": "Inner",
                "description": "An inner thing.",
                "properties": {"n": {"type": "integer", "default": 3, "description": "N."}},
            }
        },
    }


def test_a_tool_without_arguments():
    """No parameters: an empty, closed object."""
    assert (
        schema_of(lambda: None)
        if False
        else FunctionTool(lambda: None, name="f").schema.parameters
        == {"type": "object", "properties": {}, "additionalProperties": False}
    )


def test_recursive_types():
    """A recursive model is a definition that refers to itself, also inside a generic inside an Optional."""

    def go(tree: Optional[dict[str, Tree]] = None, other: Tree | None = None): ...

    schema = schema_of(go)

    assert list(schema["$defs"]) == ["Tree"]
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}


def test_rest_arguments():
    """`**kwargs: T` is flat in the plain form; untyped it takes anything."""

    def typed(a: int, **rest: Inner): ...

    def trees(**rest: Tree): ...

    def untyped(**rest): ...

    assert schema_of(typed)["additionalProperties"]["properties"]["n"] == {
        "type": "integer",
        "default": 3,
        "description": "N.",
    }
    assert (
        schema_of(trees)["additionalProperties"] == {"$ref": "#/$defs/Tree"}
        and "Tree" in schema_of(trees)["$defs"]
    )
    assert schema_of(untyped)["additionalProperties"] is True


def test_unpacked_types_are_read_as_they_stand():
    """A TypedDict in `Unpack` may be generic, local and postponed: each value is what its own annotation says."""
    source = """
from __future__ import annotations

def outer():
    class Options(TypedDict, Generic[T]):
        one: T
        many: NotRequired[list[T]]
        day: NotRequired[Day]
        plain: Annotated[T, "Said."]

    class Later(Options[int], total=False):
        size: int
        must: Required[Day]

    class Day(BaseModel):
        n: int

    def go(**options: Unpack[Options[int]]):
        return options

    def on(**options: Unpack[Later]):
        return options

    return go, on, Day
"""
    names = {
        "TypedDict": TypedDict,
        "Generic": Generic,
        "T": T,
        "NotRequired": NotRequired,
        "Required": Required,
        "Unpack": Unpack,
    }
    space = {
        **names,
        "BaseModel": BaseModel,
        "Annotated": Annotated,
        "FunctionTool": FunctionTool,
        "__name__": "made",
    }
    exec(source.replace("return go, on,", "return FunctionTool(go), FunctionTool(on),"), space)
    go, on, day = space["outer"]()

    assert go.schema.parameters["required"] == ["one", "plain"]
    assert go.schema.parameters["properties"]["many"] == {
        "type": "array",
        "items": {"type": "integer"},
    }
    assert go.schema.parameters["properties"]["plain"] == {
        "type": "integer",
        "description": "Said.",
    }
    assert run(go, one=1, many=[2], day={"n": 3}, plain=4).value == {
        "one": 1,
        "many": [2],
        "day": day(n=3),
        "plain": 4,
    }
    assert "one: a valid integer" in run(go, one="x", plain=4).text
    assert on.schema.parameters["required"] == ["one", "plain", "must"]


def run(tool, **arguments):
    return asyncio.run(tool.invoke(ToolCall(name=tool.name, arguments=arguments)))


def test_the_docstring_describes_rest_arguments():
    """The text on `**kwargs` describes each of its values, unless their type says something itself."""

    def typed(**rest: int):
        """Go.

        Args:
            **rest: A count.
        """

    def described(**rest: Annotated[int, Field(description="Own.")]):
        """Go.

        Args:
            rest: A count.
        """

    assert schema_of(typed)["additionalProperties"] == {
        "type": "integer",
        "description": "A count.",
    }
    assert schema_of(described)["additionalProperties"] == {
        "type": "integer",
        "description": "Own.",
    }
    strict = FunctionTool(typed, strict=True).schema.parameters["properties"]["rest"]["items"]
    assert strict["properties"]["value"] == {"type": "integer", "description": "A count."}


@dataclass
class Order:
    item: str
    total: float = field(init=False)
    count: int = field(default=1, init=False)
    gift: InitVar[bool] = False

    def __post_init__(self, gift):
        self.total = 2.5 if gift else 5.0


@pytest.mark.parametrize("strict", [False, True])
def test_a_field_that_nobody_can_set_is_no_argument(strict):
    """A dataclass field with `init=False` is in no schema of arguments, sets itself, and is in that of the value."""

    def buy(order: Order) -> Order:
        return order

    tool = FunctionTool(buy, strict=strict)
    result = run(tool, order={"item": "tea", "gift": True})

    assert list(tool.schema.parameters["$defs"]["Order"]["properties"]) == ["item", "gift"]
    assert (result.value.item, result.value.total, result.value.count) == ("tea", 2.5, 1)
    assert {"item", "count"} <= tool.schema.output["properties"].keys()


def test_each_schema_is_its_own():
    """Changing a published schema changes no other tool's."""

    def go(a: list[str] | None = None): ...

    first, second = FunctionTool(go), FunctionTool(go)
    first.schema.parameters["properties"]["a"]["anyOf"].clear()

    assert second.schema.parameters["properties"]["a"]["anyOf"]


class Plain:
    """A class that pydantic does not know."""


class Options(TypedDict):
    a: int


def two_contexts(a: Context, b: Context): ...


def no_type(a: Plain): ...


def a_callable(a: Callable[[], int]): ...


def bad_unpack(**kwargs: Unpack[int]): ...  # type: ignore[misc]


def bad_annotation(a: "1 +"): ...  # noqa: F722


def same_alias(a: Annotated[int, Field(alias="x")], x: int): ...


def path_alias(a: Annotated[int, Field(validation_alias=AliasPath("a", 0))]): ...


@pytest.mark.parametrize(
    ("func", "words"),
    [
        (two_contexts, "'b'.*Context"),
        (no_type, "'a'.*Plain.*Inject"),
        (a_callable, "JSON Schema|Callable"),
        (bad_unpack, "'kwargs'.*TypedDict"),
        (bad_annotation, "cannot be read"),
        (same_alias, "same name.*x"),
        (path_alias, "path"),
        (functools.partial(no_type), "Plain"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_has_no_schema_is_refused_by_name(func, words):
    """The error names the function, its file and line, the parameter, and the way out."""
    with pytest.raises(DefinitionError, match=rf"(?s)test_schema\.py:\d+.*({words})"):
        FunctionTool(func)


@pytest.mark.parametrize("func", [max, iter, dict.fromkeys], ids=lambda func: func.__name__)
def test_builtins_without_a_signature(func):
    """A builtin whose signature cannot be read is refused with the remedy, any other is a tool."""
    try:
        tool = FunctionTool(func)
    except DefinitionError as error:
        assert "wrap it in a function" in str(error) or "schema" in str(error)
    else:
        assert tool.schema.parameters["type"] == "object"


def test_modules_of_typed_functions():
    """Every public function of some modules is a tool, or is refused with a `DefinitionError` that says why."""
    import shutil
    import statistics
    import textwrap

    made = refused = 0
    for module in (json, textwrap, statistics, shutil):
        for name in module.__all__ if hasattr(module, "__all__") else dir(module):
            func = getattr(module, name)
            if isinstance(func, types.FunctionType):
                try:
                    Toolset([FunctionTool(func)])
                    made += 1
                except DefinitionError as error:
                    assert name in str(error)
                    refused += 1

    assert made > 30


def test_describe_alone():
    """`describe` gives the parts, and says what cannot be resolved yet."""

    def go(a: int, context: Context, **rest: str): ...

    def late(a: "Nowhere"): ...  # noqa: F821

    parts = describe(go)

    assert ([p.name for p in parts.parameters], parts.rest, parts.hidden) == (
        ["a"],
        "rest",
        {"context": Context},
    )
    with pytest.raises(Unresolved, match="Nowhere"):
        describe(late)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[int, Field(description="d")], {"type": "integer", "description": "d"}),
        (Annotated[int, Field(json_schema_extra={"x": [1]})], {"type": "integer", "x": [1]}),
        (None, None),
        (Any, None),
        (Plain, None),
        (Callable[[], int], None),
        (Unpack, None),
    ],
    ids=str,
)
def test_returned_schema(annotation, schema):
    """The schema of the value, or None where the annotation gives none; never an error."""
    assert returned_schema(annotation) == schema


DEFINITIONS = {
    "S": {"type": "string"},
    "N": {"type": ["integer", "null"]},
    "L": {"type": "array"},
    "R": {"$ref": "#/$defs/R"},
}


@pytest.mark.parametrize(
    ("schema", "admits"),
    [
        (True, True),
        (False, False),
        ({}, True),
        ({"type": "null"}, True),
        ({"type": "string"}, False),
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"oneOf": [{"type": "string"}]}, False),
        ({"allOf": [{}, {"type": "string"}]}, False),
        ({"allOf": [{}, {}]}, True),
        ({"const": None}, True),
        ({"const": 1}, False),
        ({"enum": [1, None]}, True),
        ({"enum": [1]}, False),
        ({"type": "string", "enum": ["a", None]}, False),
        ({"$ref": "#/$defs/S"}, False),
        ({"$ref": "#/$defs/N"}, True),
        ({"$ref": "#/$defs/R"}, True),
        ({"$ref": "https://elsewhere"}, True),
    ],
    ids=str,
)
def test_admits_null(schema, admits):
    """Whether null fits a JSON Schema."""
    assert admits_null(schema, DEFINITIONS) is admits


@pytest.mark.parametrize(
    ("schema", "only"),
    [
        ({"type": "array"}, True),
        ({"type": "object"}, True),
        ({"type": ["array", "null"]}, True),
        ({"type": "string"}, False),
        ({}, False),
        (True, False),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, True),
        ({"anyOf": [{"type": "array"}, {"type": "string"}]}, False),
        ({"$ref": "#/$defs/L"}, True),
        ({"$ref": "#/$defs/R"}, False),
        ({"anyOf": [{"type": "null"}]}, False),
    ],
    ids=str,
)
def test_takes_only_containers(schema, only):
    """Whether a schema takes a list or an object and no string."""
    assert takes_only_containers(schema, DEFINITIONS) is only


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "string"}, {"string"}),
        ({}, {"any"}),
        (True, {"any"}),
        (False, set()),
        ({"type": "array"}, {"array", "any"}),
        ({"type": "object"}, {"object", "any"}),
        (
            {"type": "array", "items": {"type": "integer", "enum": [1]}},
            {"array", "integer", "enum", "listed number"},
        ),
        ({"type": "object", "additionalProperties": {"$ref": "#/x"}}, {"object", "$ref"}),
        (
            {"anyOf": [{"type": ["string", "null"]}, {"const": 1}]},
            {"string", "null", "const", "listed number"},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"prefixItems": [{"type": "number"}]}},
                "patternProperties": {"x": {"type": "boolean"}},
            },
            {"object", "number", "boolean"},
        ),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_kinds_of(schema, kinds):
    """Every type that a schema names, and marks for what says nothing, references and listed values."""
    assert kinds_of([schema]) == kinds


def test_is_recursive():
    """A definition that leads back to itself, straight or round a corner."""
    ref = lambda name: {"items": {"$ref": f"#/$defs/{name}"}}  # noqa: E731

    assert is_recursive({"A": ref("A")}) and is_recursive(
        {"A": ref("B"), "B": ref("C"), "C": ref("A")}
    )
    assert not is_recursive({"A": ref("B"), "B": ref("C"), "C": {}}) and not is_recursive({})


def test_models_defined_later_resolve_later():
    """A model with a forward reference of its own is tried again when the tool is first used."""

    class Early(BaseModel):
        late: "Late"

    tool = FunctionTool(_take(Early))

    class Late(BaseModel):
        n: int

    Early.model_rebuild(_types_namespace={"Late": Late})

    assert tool.schema.parameters["$defs"]["Late"]["properties"] == {"n": {"type": "integer"}}


def _take(kind):
    def take(x): ...

    take.__annotations__ = {"x": kind}
    return take


def test_unions_and_python_versions():
    """`X | Y` and `Union[X, Y]` are one thing."""

    def old(x: Union[int, str]): ...

    def new(x: int | str): ...

    assert schema_of(old)["properties"] == schema_of(new)["properties"]
    assert sys.version_info >= (3, 11)


def test_an_annotation_that_raises_is_named():
    """An annotation whose own code raises is refused with the parameter's name and the reason."""

    class Broken:
        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            raise ValueError("no core today")

    def take(x: Broken):
        """Take."""

    with pytest.raises(DefinitionError, match="parameter 'x'.*no core today"):
        FunctionTool(take)


def test_an_annotation_that_cannot_be_hashed():
    """A type with unhashable metadata is a type like any other."""

    def take(xs: list[Annotated[int, {"unit": "m"}]]):
        """Take."""

    assert schema_of(take)["properties"]["xs"]["items"] == {"type": "integer"}


def test_further_keywords_without_a_json_schema():
    """The parameter that JSON cannot say is named, also if it is `**rest`."""

    def take(x: int, **rest: Callable[[], int]):
        """Take."""

    with pytest.raises(DefinitionError, match="'rest'.* has no JSON Schema"):
        FunctionTool(take)


def test_a_field_of_a_type_that_does_not_exist():
    """A name that is missing inside of a type is a name that cannot be resolved yet."""

    class Half(TypedDict):
        part: "Missing"  # noqa: F821

    def take(x: Half):
        """Take."""

    with pytest.raises(DefinitionError, match="cannot be resolved: parameter 'x'.*Half") as caught:
        FunctionTool(take).schema

    assert "://" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_default_that_json_cannot_say_is_left_out():
    """A model's default that is no JSON is not published, and nothing is warned about."""

    class Holder(BaseModel):
        thing: Any = object()

    def take(x: Holder):
        """Take."""

    assert schema_of(take)["$defs"]["Holder"]["properties"] == {"thing": {}}


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mark(Enum):
    ONE = 1
    HALF = 0.5
    OTHER = "other"


@pytest.mark.parametrize(
    ("kind", "texts", "members"),
    [
        (Level, ["1", "2"], [Level.LOW, Level.HIGH]),
        (Mark, ["1", "0.5", "other"], [Mark.ONE, Mark.HALF, Mark.OTHER]),
        (Literal[1, 2], None, [1, 2]),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_the_choices_of_a_key_are_texts(kind, texts, members, strict):
    """An enumeration of numbers as the keys of an object is said, and taken, as the texts that JSON's keys are."""
    received = []

    def take(counts: dict[kind, int]) -> dict[kind, int]:
        """Take."""
        received.append(counts)
        return counts

    tool = FunctionTool(take, strict=strict)
    names = tool.schema.plain["properties"]["counts"].get("propertyNames")
    keys = texts or ["1", "2"]
    sent = {"counts": {key: 7 for key in keys}}
    Draft202012Validator(tool.schema.plain).validate(sent)
    result = asyncio.run(tool(ToolCall(name="take", arguments=json.dumps(sent))))

    assert (names or {}).get("enum") == texts
    assert received == [dict.fromkeys(members, 7)]
    assert [*map(type, received[0])] == [*map(type, members)]
    Draft202012Validator(tool.schema.output).validate(json.loads(result.text))


def test_a_serializer_that_does_not_say_what_it_returns():
    """A custom serializer without a return type promises nothing of its values; one with a type promises that."""

    class Shown(BaseModel):
        plain: Annotated[int, PlainSerializer(lambda value: f"<{value}>")]
        wrapped: Annotated[int, WrapSerializer(lambda value, default: [default(value)])]
        said: Annotated[int, PlainSerializer(lambda value: f"<{value}>", return_type=str)]

    promised = returned_schema(Shown)["properties"]

    assert promised == {"plain": {}, "wrapped": {}, "said": {"type": "string"}}
    assert returned_schema(Annotated[int, PlainSerializer(lambda value: value)]) == {}


def test_a_type_that_pydantic_serializes_by_a_function_of_its_own_keeps_its_schema():
    """A path is promised as text, a defaultdict as an object of its values, also inside of others."""
    path = {"type": "string", "format": "path"}

    assert returned_schema(Path) == path
    assert returned_schema(list[Path]) == {"type": "array", "items": path}
    assert returned_schema(defaultdict[str, int]) == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


@pytest.mark.parametrize("mark", [Inject, Inject("user"), Inject(None)])
def test_inject_without_a_function_is_refused(mark):
    """What was meant to be hidden never becomes a parameter that the model sets because the provider was forgotten."""

    def greet(user: Annotated[str, mark]):
        """Greet."""

    with pytest.raises(
        DefinitionError,
        match=r"greet .*parameter 'user': Inject needs a function of the context: Annotated\[",
    ):
        FunctionTool(greet)


@pytest.mark.parametrize("hidden", [Context, ToolCall, Annotated[int, Inject(lambda context: 1)]])
def test_nothing_is_injected_into_starred_parameters(hidden):
    """A starred parameter takes any number of values, so none is injected into it: it is refused by name."""

    def many(*them: hidden):
        """Take many."""

    def named(**them: hidden):
        """Take named ones."""

    for function in (many, named):
        with pytest.raises(
            DefinitionError, match=rf"{function.__name__} .*parameter 'them': only one"
        ):
            FunctionTool(function)
