"""From signature to schema: the JSON Schema that a model sees, and what is refused at definition."""

import functools
import json
import math
import re
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from ipaddress import IPv4Address
from itertools import product
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    LiteralString,
    NamedTuple,
    Optional,
    TypeVar,
    Union,
    get_origin,
)
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator
from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    OnErrorOmit,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    WrapSerializer,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, SkipJsonSchema
from pydantic_core import PydanticCustomError, SchemaValidator, ValidationError
from typing_extensions import TypeAliasType, TypedDict, Unpack

from functool import (
    Content,
    Context,
    DefinitionError,
    FunctionTool,
    ImageContent,
    Inject,
    SchemaTool,
    ToolCall,
    ToolResult,
)
from functool.schema import hashes, readings
from functool.schema.admits import kinds_of, only_containers, types_allowed
from functool.schema.hints import Unresolved
from functool.schema.json_schema import Names, resolved
from functool.schema.plain import PlainJsonSchema
from functool.schema.rewrite import rewritten
from functool.schema.signature import describe, returned_schema
from functool.tool_model import ToolModel
from tests import sample_tools
from tests.schemas import (
    BOOL,
    INT,
    MAYBE_INT,
    MAYBE_STR,
    NULL,
    NUM,
    STR,
    any_of,
    array,
    dict_of,
    obj,
    ref,
)
from tests.support import call, foreign, since_pydantic_2_14, taking

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

    share = {"minimum": 0, "maximum": 1, "examples": [0.5]}
    assert schema_of(go) == {
        "type": "object",
        "properties": {
            "a": {**INT, "description": "An a."},
            "b": {**STR, "default": "x"},
            "c": {**NUM, **share, "title": "See", "default": 0.5},
            "d": ref("Inner", default={"n": 3}, description="A d."),
            "e": any_of(array({**STR, "enum": ["p", "q"]}), NULL, default=None),
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {
            "Inner": obj(
                {"n": {**INT, "default": 3, "description": "N."}},
                title="Inner",
                description="An inner thing.",
                additionalProperties=False,
            )
        },
    }


def test_a_tool_without_arguments():
    """No parameters: an empty, closed object."""
    tool = FunctionTool(lambda: None, name="f")

    assert tool.schema.parameters == obj({}, additionalProperties=False)


def test_recursive_types():
    """A recursive model is a definition that refers to itself, also inside a generic inside an Optional."""

    def go(tree: Optional[dict[str, Tree]] = None, other: Tree | None = None): ...

    schema = schema_of(go)

    assert list(schema["$defs"]) == ["Tree"]
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == ref("Tree")


def rest_of(func):
    """The schema of the values of `**kwargs`, where its reference leads."""
    schema = schema_of(func)
    return resolved(schema, schema["additionalProperties"])


def test_rest_arguments():
    """`**kwargs: T` is flat in the plain form; untyped it takes anything."""

    def typed(a: int, **rest: Inner): ...

    def trees(**rest: Tree): ...

    def untyped(**rest): ...

    inner = rest_of(typed)["properties"]
    assert inner == {"n": {**INT, "default": 3, "description": "N."}}
    assert schema_of(trees)["additionalProperties"] == ref("Tree")
    assert "Tree" in schema_of(trees)["$defs"]
    assert schema_of(untyped)["additionalProperties"] is True


@pytest.mark.parametrize(
    ("alias", "field"),
    [
        (TypeAliasType("Described", Annotated[Inner, Field(description="A thing.")]), "n"),
        (TypeAliasType("Recursive", Tree), "label"),
    ],
    ids=["described", "recursive"],
)
def test_rest_arguments_of_an_alias_are_those_of_its_model(alias, field):
    """An alias may lead to a definition that stands in `$defs`, too. A boolean is none of its fields."""

    def go(**rest: alias): ...

    assert field in rest_of(go)["properties"]
    assert run(FunctionTool(go), some={field: True}).text.startswith("Invalid arguments.")


def test_rest_arguments_of_a_name_that_a_parameter_has_too():
    """Two models of one name, one of a parameter and one of `**kwargs`, keep their definitions."""
    one = type("Size", (BaseModel,), {"__annotations__": {"a": int}, "__module__": "one"})
    two = type("Size", (BaseModel,), {"__annotations__": {"b": int}, "__module__": "two"})

    def go(size: one, **rest: two): ...

    schema = schema_of(go)
    named = schema["properties"]["size"]["$ref"].rpartition("/")[2]

    assert list(schema["$defs"][named]["properties"]) == ["a"]
    assert list(rest_of(go)["properties"]) == ["b"]


def test_unpacked_types_are_read_as_they_stand():
    """A TypedDict in `Unpack` may be generic, local and postponed: each value is what its own annotation says."""
    go, on, day = sample_tools.postponed()

    assert go.schema.parameters["required"] == ["one", "plain"]
    assert go.schema.parameters["properties"]["many"] == array(INT)
    assert go.schema.parameters["properties"]["plain"] == {**INT, "description": "Said."}
    sent = {"one": 1, "many": [2], "day": {"n": 3}, "plain": 4}
    assert run(go, **sent).value == {**sent, "day": day(n=3)}
    assert "one: expected an integer" in run(go, one="x", plain=4).text
    assert on.schema.parameters["required"] == ["one", "plain", "must"]


def run(tool, **arguments):
    return call(tool, arguments)


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

    assert schema_of(typed)["additionalProperties"] == {**INT, "description": "A count."}
    assert schema_of(described)["additionalProperties"] == {**INT, "description": "Own."}
    strict = FunctionTool(typed, strict=True).schema.parameters["properties"]["rest"]["items"]
    assert strict["properties"]["value"] == {**INT, "description": "A count."}


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
        (
            no_type,
            r"'a': the type \S+ \S+ has no schema: Unable to generate [^.]+ for <class [^.]+[\w.]+Plain'>. Use",
        ),
        (a_callable, "JSON Schema|Callable"),
        (bad_unpack, "'kwargs'.*TypedDict"),
        (
            bad_annotation,
            r"parameter 'a': the annotation '1 \+' cannot be read: Forward reference must",
        ),
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


@pytest.mark.parametrize(
    "func", [str.join, math.factorial, Plain], ids=["str.join", "factorial", "Plain"]
)
def test_a_mistake_about_what_has_no_line_names_the_line_that_makes_the_tool(func):
    """That is a builtin or a class. The error has its name, and the author's file and line."""
    said = rf"^{func.__qualname__} \(.*test_schema\.py:\d+\): (timeout|it is a class)"
    with pytest.raises(DefinitionError, match=said):
        FunctionTool(func, timeout=0)


def test_describe_alone():
    """`describe` gives the parts, and says what cannot be resolved yet."""

    def go(a: int, context: Context, **rest: str): ...

    def late(a: "Nowhere"): ...  # noqa: F821

    parts = describe(go)

    assert [parameter.name for parameter in parts.parameters] == ["a"]
    assert (parts.rest, parts.hidden) == ("rest", {"context": Context})
    with pytest.raises(Unresolved, match="Nowhere"):
        describe(late)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, INT),
        (dict[str, int], dict_of(INT)),
        (Decimal, {**STR, "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}),
        (Annotated[int, Field(description="d")], {**INT, "description": "d"}),
        (Annotated[int, Field(json_schema_extra={"x": [1]})], {**INT, "x": [1]}),
        (None, None),
        (Any, None),
        (Plain, None),
        (Callable[[], int], None),
        (Unpack, None),
        (ImageContent, None),
        (list[Content], None),
        (list[str | ImageContent] | None, None),
        (Annotated[list[Annotated[ToolResult, "x"]], "y"], None),
    ],
    ids=str,
)
def test_returned_schema(annotation, schema):
    """The schema of the value, or None where there is none or content is shown as it is; never an error."""
    assert returned_schema(annotation) == schema


DEFINITIONS = {
    "S": STR,
    "N": MAYBE_INT,
    "L": {"type": "array"},
    "R": ref("R"),
    "U": any_of(ref("U")),
    "group": {"S": STR, "L": {"type": "array"}},
}
ROOT = {"$defs": DEFINITIONS}


@pytest.mark.parametrize(
    ("schema", "admits"),
    [
        (True, True),
        (False, False),
        ({}, True),
        (NULL, True),
        (STR, False),
        (MAYBE_STR, True),
        (any_of(STR, NULL), True),
        ({"oneOf": [STR]}, False),
        ({"allOf": [{}, STR]}, False),
        ({"allOf": [{}, {}]}, True),
        ({"const": None}, True),
        ({"const": 1}, False),
        ({"enum": [1, None]}, True),
        ({"enum": [1]}, False),
        ({**STR, "enum": ["a", None]}, False),
        (ref("S"), False),
        (ref("N"), True),
        (ref("R"), True),
        (ref("U"), True),
        ({"$ref": "#/$defs/group/S"}, False),
        ({"$ref": "https://elsewhere"}, True),
    ],
    ids=str,
)
def test_whether_a_schema_admits_null(schema, admits):
    """Whether null fits a JSON Schema."""
    assert ("null" in types_allowed(schema, ROOT, {})) is admits


@pytest.mark.parametrize(
    ("schema", "only"),
    [
        ({"type": "array"}, True),
        ({"type": "object"}, True),
        ({"type": ["array", "null"]}, True),
        (STR, False),
        ({}, False),
        (True, False),
        (any_of({"type": "array"}, NULL), True),
        (any_of({"type": "array"}, STR), False),
        (ref("L"), True),
        (ref("R"), False),
        (ref("U"), False),
        ({"$ref": "#/$defs/group/L"}, True),
        (any_of(NULL), False),
    ],
    ids=str,
)
def test_whether_a_schema_takes_only_containers(schema, only):
    """Whether a schema takes a list or an object and no string."""
    assert only_containers(types_allowed(schema, ROOT, {})) is only


def test_definitions_that_refer_to_one_another_many_times_are_read_once():
    """A chain of definitions with many references each is no chain of powers of that number."""
    defs = {
        f"D{i}": {"anyOf": [{"$ref": f"#/$defs/D{i + 1}"} for _ in range(30)]} for i in range(7)
    }
    root = {"$defs": {**defs, "D7": {"type": "array"}}}

    assert types_allowed({"$ref": "#/$defs/D0"}, root, {}) == {"array"}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (STR, {"string"}),
        ({}, {"any"}),
        (True, {"any"}),
        (False, set()),
        ({"type": "array"}, {"array", "any"}),
        ({"type": "object"}, {"object", "any"}),
        (array({**INT, "enum": [1]}), {"array", "integer"}),
        (dict_of({"$ref": "#/x"}), {"object"}),
        (any_of(MAYBE_STR, {"const": 1}), {"string", "null"}),
        (
            obj({"a": {"prefixItems": [NUM]}}, patternProperties={"x": BOOL}),
            {"object", "array", "number", "boolean"},
        ),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_kinds_of(schema, kinds):
    """Every type that a schema names or implies, and a mark for what says nothing."""
    if isinstance(schema, dict):
        assert kinds_of({"properties": {"a": schema}}) == kinds
    assert kinds_of({"$defs": {"A": obj({"a": schema})}}) == kinds | {"object"}


def test_an_iterable_is_checked_before_the_body_runs():
    """Its items too, at any depth; the body gets a list, which it may read twice."""

    class Order(BaseModel):
        parts: Iterable[int]

    def add(numbers: Iterable[float], order: Order | None = None) -> list[float]:
        return [sum(numbers), sum(numbers), sum(order.parts) if order else 0]

    tool = FunctionTool(add)
    assert call(tool, {"numbers": [1, 2], "order": {"parts": [3]}}).value == [3, 3, 3]
    assert call(tool, {"numbers": "[1, 2]"}).value == [3, 3, 0]
    for sent, problem in [
        ({"numbers": ["x"]}, "numbers[0]: expected a number"),
        ({"numbers": [True]}, "numbers[0]: expected a number, not a boolean"),
        ({"numbers": "12"}, "numbers: expected a list"),
        ({"numbers": [], "order": {"parts": [1, "x"]}}, "order.parts[1]: expected an integer"),
    ]:
        assert call(tool, sent).text == f"Invalid arguments. {problem}"


@pytest.mark.parametrize("strict", [False, True])
def test_the_tag_of_a_tagged_union_is_required_in_the_schema(strict):
    """pydantic refuses a member without its tag, so a default of the tag is not published."""

    class Cat(BaseModel):
        kind: Literal["cat"] = "cat"
        lives: int = 9

    class Dog(BaseModel):
        name: str
        kind: Literal["dog", "puppy"] = "dog"
        friend: "Pet | None" = None

    class Small(BaseModel):
        kind: Literal["fish"] = "fish"
        size: Literal["small"] = "small"

    class Large(BaseModel):
        kind: Literal["fish"] = "fish"
        size: Literal["large"] = "large"

    fish = Annotated[Small | Large, Field(discriminator="size")]
    Pet = TypeAliasType(  # noqa: N806
        "Pet", Annotated[Cat | Dog | fish, Field(discriminator="kind")]
    )

    def feed(pet: Pet, other: Cat | None = None) -> str:
        return type(pet).__name__

    tool = FunctionTool(feed, strict=strict)
    parts = tool.schema.parameters["$defs"]
    for name in ("Cat", "Dog", "Small", "Large"):
        tags = {"kind", "size"} & parts[name]["properties"].keys()
        assert tags <= {*parts[name]["required"]}
        assert not any("null" in str(parts[name]["properties"][tag]) for tag in tags)
        assert not any("default" in parts[name]["properties"][tag] for tag in tags)
    assert ("lives" in parts["Cat"]["required"]) is strict
    sent = {"pet": {"kind": "fish", "size": "large"}, "other": {"kind": "cat", "lives": None}}
    assert call(tool, sent if strict else {"pet": sent["pet"], "other": {}}).value == "Large"


def test_models_defined_later_resolve_later():
    """A model with a forward reference of its own is tried again when the tool is first used."""

    class Early(BaseModel):
        late: "Late"

    tool = taking(Early)

    class Late(BaseModel):
        n: int

    Early.model_rebuild(_types_namespace={"Late": Late})

    assert tool.schema.parameters["$defs"]["Late"]["properties"] == {"n": INT}


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

    def take(x: Broken): ...

    wrong = r"parameter 'x': the annotation <class '.*Broken'> cannot be read: no core today$"
    with pytest.raises(DefinitionError, match=wrong):
        FunctionTool(take)


def test_a_type_that_cannot_be_required():
    """A type that pydantic takes alone, and not as a required field, is refused by name."""

    def take(x: OnErrorOmit[int]): ...

    with pytest.raises(DefinitionError, match="take .*'x': 'on_error = omit' cannot be set"):
        FunctionTool(take)


def test_an_annotation_that_cannot_be_hashed():
    """A type with unhashable metadata is a type like any other."""

    def take(xs: list[Annotated[int, {"unit": "m"}]]): ...

    assert schema_of(take)["properties"]["xs"]["items"] == INT


def test_further_keywords_without_a_json_schema():
    """The parameter that JSON cannot say is named, also if it is `**rest`."""

    def take(x: int, **rest: Callable[[], int]): ...

    with pytest.raises(DefinitionError, match="'rest'.* has no JSON Schema"):
        FunctionTool(take)


def test_a_field_of_a_type_that_does_not_exist():
    """A name that is missing inside of a type is a name that cannot be resolved yet."""

    class Half(TypedDict):
        part: "Missing"  # noqa: F821

    def take(x: Half): ...

    with pytest.raises(DefinitionError, match="cannot be resolved: parameter 'x'.*Half") as caught:
        FunctionTool(take).schema

    assert not any(odd in str(caught.value) for odd in ("://", "\n", ".."))


def test_fields_and_scalars_need_no_steps_of_pydantic(monkeypatch):
    """Fields and scalars without options are described at once, and as pydantic describes them."""

    class Bare(BaseModel):
        name: str
        count: int
        size: float
        fine: bool
        few: int = Field(ge=1, description="Few.")

    class Slow(PlainJsonSchema):
        generate_inner = GenerateJsonSchema.generate_inner

    def take(x: Bare, a: str, b: int, c: float, d: bool, e: str | None = None): ...

    asked = []
    generate = GenerateJsonSchema.generate_inner
    core = describe(take).core

    assert PlainJsonSchema().generate(core) == Slow().generate(core)

    monkeypatch.setattr(
        GenerateJsonSchema,
        "generate_inner",
        lambda self, part: asked.append(part["type"]) or generate(self, part),
    )
    PlainJsonSchema().generate(core)

    assert asked == ["typed-dict", "model", "model-fields", "model-field", "int", "nullable"]


@since_pydantic_2_14
def test_the_lengths_of_texts_from_the_configuration_of_a_model():
    """The lengths that a model's configuration sets for its texts are described."""

    class Short(BaseModel):
        model_config = ConfigDict(str_min_length=1, str_max_length=5)
        name: str

    def take(x: Short) -> Short: ...

    name = {"type": "string", "minLength": 1, "maxLength": 5}
    assert schema_of(take)["$defs"]["Short"]["properties"]["name"] == name
    assert FunctionTool(take).schema.output["properties"]["name"] == name


@pytest.mark.parametrize("default", [float("nan"), [float("inf")], object(), "\ud800"], ids=ascii)
def test_a_default_of_a_parameter_that_json_cannot_say_is_left_out(default):
    """A parameter's default that is no JSON, or no valid text, is not published."""

    def take(x: Any = default): ...

    assert schema_of(take)["properties"] == {"x": {}}


@pytest.mark.parametrize(
    "default", [object(), math.inf, {"most": [math.nan]}], ids=["object", "infinity", "inner"]
)
def test_a_default_that_json_cannot_say_is_left_out(default):
    """A model's default that is no JSON, such as infinity, is not published, and nothing is warned about."""

    class Holder(BaseModel):
        thing: Any = default
        most: float = 0.5

    def take(x: Holder) -> Holder:
        return x

    schema, fields = FunctionTool(take).schema, {"thing": {}, "most": {**NUM, "default": 0.5}}
    assert schema.plain["$defs"]["Holder"]["properties"] == fields
    assert schema.output["properties"] == fields
    assert repr(call(FunctionTool(take), {"x": {}}).value.thing) == repr(default)


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"
    NO = "no"


class Mark(Enum):
    ONE = 1
    HALF = 0.5
    OTHER = "other"


@pytest.mark.parametrize(
    ("kind", "texts", "members"),
    [
        (Level, ["1", "2"], [Level.LOW, Level.HIGH]),
        (Mark, ["1", "0.5", "other"], [Mark.ONE, Mark.HALF, Mark.OTHER]),
        (Literal[1, 2], ["1", "2"], [1, 2]),
        (bool, ["true", "false"], [True, False]),
        (Literal[True, 2], ["true", "2"], [True, 2]),
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
    sent = {"counts": {key: 7 for key in texts}}
    Draft202012Validator(tool.schema.plain).validate(sent)
    result = call(tool, json.dumps(sent))

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

    assert promised == {"plain": {}, "wrapped": {}, "said": STR}
    assert returned_schema(Annotated[int, PlainSerializer(lambda value: value)]) == {}


def test_a_type_that_pydantic_serializes_by_a_function_of_its_own_keeps_its_schema():
    """A path is promised as text, a defaultdict as an object of its values, also inside of others."""
    path = {**STR, "format": "path"}

    assert returned_schema(Path) == path
    assert returned_schema(list[Path]) == array(path)
    assert returned_schema(defaultdict[str, int]) == dict_of(INT)


@pytest.mark.parametrize("mark", [Inject, Inject("user"), Inject(None)])
def test_inject_without_a_function_is_refused(mark):
    """What was meant to be hidden never becomes a parameter that the model sets because the provider was forgotten."""

    def greet(user: Annotated[str, mark]): ...

    said = r"greet .*parameter 'user': Inject needs a function of the context: Annotated\["
    with pytest.raises(DefinitionError, match=said):
        FunctionTool(greet)


@pytest.mark.parametrize("hidden", [Context, ToolCall, Annotated[int, Inject(lambda context: 1)]])
def test_nothing_is_injected_into_starred_parameters(hidden):
    """A starred parameter takes any number of values, so none is injected into it: it is refused by name."""

    def many(*them: hidden): ...

    def named(**them: hidden): ...

    for function in (many, named):
        with pytest.raises(
            DefinitionError, match=rf"{function.__name__} .*parameter 'them': only one"
        ):
            FunctionTool(function)


# What is checked is what is published


def called(tool, **arguments):
    """What one call answers, as text."""
    return call(tool, json.dumps(arguments)).text


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Paint(Enum):
    """Members whose values JSON writes in another way."""

    RED = (255, 0, 0)
    FRIDAY = date(2026, 11, 27)
    PLAIN = "plain"


class Painting(BaseModel):
    """A painting."""

    first: Paint
    second: Paint = Paint.RED
    others: list[Paint] = []


def test_an_enum_of_tuples_or_dates():
    """Members are found by their values as published, also those that JSON writes in another way."""

    @FunctionTool
    def paint(paint: Paint, what: Painting) -> str:
        """Paint."""
        return " ".join(each.name for each in (paint, what.first, what.second, *what.others))

    sent = [[255, 0, 0], "2026-11-27", "plain"]
    assert paint.schema.plain["$defs"]["Paint"]["enum"] == sent
    what = {"first": sent[1], "others": sent}
    assert called(paint, paint=sent[0], what=what) == "RED FRIDAY RED RED FRIDAY PLAIN"
    assert "one of the choices" in called(paint, paint=[True, 0, 0], what=what)
    assert "one of the choices" in called(paint, paint="2026-11-28", what=what)


class Painted(BaseModel):
    """Something painted."""

    colour: Literal[Colour.RED, Colour.BLUE]
    by_colour: dict[Colour, int] = {}


def test_enum_members_in_a_literal_inside_of_a_model():
    """A `Literal` of Enum members takes the values that it publishes, inside of a model too."""

    @FunctionTool
    def paint(what: Painted) -> str:
        """Paint."""
        assert isinstance(what.colour, Colour)
        return f"{what.colour.name} {what.by_colour}"

    assert paint.schema.plain["$defs"]["Painted"]["properties"]["colour"]["enum"] == ["red", 2]
    assert called(paint, what={"colour": "red"}) == "RED {}"
    assert called(paint, what={"colour": 2, "by_colour": {"2": 7}}).startswith("BLUE {<Colour.BLUE")
    assert "one of the choices" in called(paint, what={"colour": "green"})


KEYS = [
    (int, ["1", "-20"], ["a", "1.5"]),
    (float, ["1", "-2.5"], ["a", "nan"]),
    (Decimal, ["1", "2.50", "1E+5"], ["a", "NaN"]),
    (UUID, ["12345678-1234-5678-1234-567812345678"], ["x"]),
    (date, ["2026-01-31"], ["x", "2026-02-31"]),
    (Literal["a", "b"], ["a", "b"], ["c"]),
    (Literal["a", 1], ["a", "1"], ["2"]),
    (Literal[1], ["1"], ["2"]),
    (
        Annotated[
            Annotated[int, Tag("n")] | Annotated[Literal["x"], Tag("x")],
            Discriminator(lambda key: "x" if key == "x" else "n"),
        ],
        ["1", "x"],
        ["y"],
    ),
    (int | date, ["1", "2026-01-31"], ["x"]),
    (Annotated[str, Field(pattern="^a")], ["ab"], ["b"]),
    (Annotated[int, Field(ge=3)], ["3"], ["x"]),
    (Colour, ["red", "2"], ["RED"]),
    (Literal[Colour.BLUE, "x"], ["2", "x"], ["red"]),
]


@pytest.mark.parametrize(("kind", "taken", "refused"), KEYS, ids=str)
@pytest.mark.parametrize("strict", [False, True])
def test_keys_are_published_as_they_are_checked(kind, taken, refused, strict):
    """The schema admits a key where the call takes it, and refuses it where the call does."""

    def count(by: dict[kind, int]) -> int:
        """Count."""
        return len(by)

    tool = FunctionTool(count, strict=strict)
    published = Draft202012Validator(
        tool.schema.plain, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    for key in taken:
        published.validate({"by": {key: 1}})
        assert called(tool, by={key: 1}) == "1"
    for key in refused:
        assert not published.is_valid({"by": {key: 1}})
        assert called(tool, by={key: 1}).startswith("Invalid arguments.")


@pytest.mark.parametrize(
    "kind",
    [Mapping[int, int], OrderedDict[int, int], Counter[int], defaultdict[int, int]],
    ids=lambda kind: kind.__origin__.__name__,
)
def test_the_keys_of_every_kind_of_dict(kind):
    """A dict of any kind publishes its keys as they are checked."""

    def count(by: kind) -> int:
        """Count."""
        return sum(by)

    tool = FunctionTool(count)

    names = tool.schema.plain["properties"]["by"]["propertyNames"]
    assert names == {**STR, "pattern": "^-?[0-9]+$"}
    assert called(tool, by={"1": 1, "2": 2}) == "3"


def test_a_tool_model_takes_the_choices_that_it_publishes():
    """A `Literal` of Enum members is taken as published in a `ToolModel` and inside of one."""

    class Paint(ToolModel):
        colour: Literal[Colour.RED]
        more: Painted | None = None

        def run(self):
            return f"{self.colour.name} {self.more and self.more.colour.name}"

    tool = Paint.tool()

    assert called(tool, colour="red", more={"colour": 2}) == "RED BLUE"
    assert "more.colou: unknown" in called(tool, colour="red", more={"colour": 2, "colou": 1})


def test_any_key_has_no_property_names():
    """Keys of any text are published without `propertyNames`."""

    def count(a: dict[str, int], b: dict[Any, int], c: dict[int | None, int]) -> None: ...

    assert [*schema_of(count)["properties"].values()] == [dict_of(INT)] * 3


def test_the_keys_of_an_enumeration_of_texts_are_its_definition():
    """Texts are keys as they stand, so a definition of texts is not repeated."""

    def count(by: dict[Word, int]) -> None: ...

    assert schema_of(count)["properties"]["by"]["propertyNames"] == ref("Word")


def test_a_text_of_several_lines_loses_its_indentation():
    """A text on a parameter is cleaned as a docstring is."""

    def take(
        x: Annotated[
            int,
            """The first line.

            More.""",
        ],
    ) -> None: ...

    assert schema_of(take)["properties"]["x"]["description"] == "The first line.\n\nMore."


def test_a_typed_dict_may_have_further_items():
    """A TypedDict with `extra_items` takes further names, with values of that type."""

    class Named(TypedDict, extra_items=int):
        name: str

    def take(x: Named) -> str:
        return repr(x)

    tool = FunctionTool(take)

    assert schema_of(take)["$defs"]["Named"]["additionalProperties"] == INT
    assert called(tool, x={"name": "a", "b": 1}) == repr({"name": "a", "b": 1})
    assert "expected an integer" in called(tool, x={"name": "a", "b": "no"})


def test_keys_with_a_pattern_and_keys_that_no_text_describes():
    """Other names than the pattern's are not allowed. Keys that may be null are not described."""
    key = Annotated[str, StringConstraints(pattern="^a")]
    odd = TypeAliasType("odd", int | None)

    def count(a: dict[key, int], b: dict[key, Any], c: dict[odd, int]) -> None: ...

    names = {"propertyNames": {**STR, "pattern": "^a"}}
    assert schema_of(count)["properties"] == {
        "a": {**dict_of(INT), **names},
        "b": {**dict_of(True), **names},
        "c": dict_of(INT),
    }


def test_a_description_of_its_own_stays():
    """The docstring of a class does not replace a description from its configuration."""

    class Known(BaseModel, json_schema_extra={"description": "Own."}):
        """Doc."""

    def take(x: Known) -> None: ...

    assert schema_of(take)["$defs"]["Known"]["description"] == "Own."


def test_the_text_of_a_decimal():
    """A decimal is a number, or a text that the call takes; bounds that no pattern can say are words."""

    @FunctionTool
    def pay(amount: Decimal, tip: Annotated[Decimal, Field(ge=0, decimal_places=2)]) -> str:
        """Pay."""
        return f"{amount} {tip}"

    number, text = pay.schema.plain["properties"]["tip"]["anyOf"]
    assert number == {**NUM, "minimum": 0.0}
    assert text.pop("description") == "minimum: 0; most decimal places: 2"
    assert pay.schema.plain["properties"]["amount"]["anyOf"] == [NUM, text]
    published = Draft202012Validator(text)
    for sent in ("1", "-2.50", "1e5", "0.1E-3"):
        published.validate(sent)
        assert called(pay, amount=sent, tip=1) == f"{Decimal(sent)} 1"
    for sent in ("", "a", "1,5", "NaN", "--1", "1.2.3"):
        assert not published.is_valid(sent)
        assert called(pay, amount=sent, tip=1).startswith("Invalid arguments.")


@since_pydantic_2_14
def test_the_text_of_a_decimal_that_may_be_infinite():
    """Where NaN and infinity are allowed, the text has no pattern."""

    @FunctionTool
    def pay(amount: Annotated[Decimal, Field(allow_inf_nan=True)]) -> str:
        """Pay."""
        return str(amount)

    assert pay.schema.plain["properties"]["amount"] == any_of(NUM, STR)
    assert called(pay, amount="NaN") == "NaN"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Fish(BaseModel):
    fins: int
    size: float


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: str = "1"


@pytest.mark.parametrize(
    ("kind", "sent", "said"),
    [
        (Cat | Dog, {"kind": "cat", "lives": True}, "a.lives: expected an integer, not a boolean"),
        (IPv4Address | None, True, "a: expected a string, not a boolean"),
        (re.Pattern | None, True, "a: expected a string, not a boolean"),
        (Cat | dict[str, float], {"b": "NaN"}, "a finite number"),
        (Fish | dict[str, bool], {"fins": True, "size": "5"}, "a.fins: expected an integer, not a"),
        (list[int] | set[bool], [2, False], "a[1]: expected an integer, not a boolean"),
        (float | str, "NaN", "0"),
        (float | list[bool], [True], "0"),
        (Cat | Any, {"kind": "cat", "lives": [True]}, "0"),
        (Cat | dict[str, bool], {"lives": True}, "0"),
        (list[int] | list[bool], [True], "0"),
    ],
)
def test_a_bool_is_no_number_in_any_union(kind, sent, said):
    """True is refused where a union allows a number and no bool, in whatever member the place is."""

    def go(a: kind, b: int = 0) -> int:
        return b

    assert said in called(FunctionTool(go), a=sent, b="0")


def test_a_schema_of_an_authors_own_may_name_several_types():
    """A list of types stands anywhere, also in a member of a union, and wrong values are refused."""

    class Size(BaseModel):
        n: Annotated[int, WithJsonSchema({"type": ["integer", "string"]})] | list[int]

    @FunctionTool
    def go(size: Size) -> int:
        """Go."""
        return size.n

    assert called(go, size={"n": "3"}) == "3"
    assert called(go, size={"n": "x", "m": True}).startswith("Invalid arguments.")


def test_a_literal_string_is_a_string():
    """`LiteralString` is read as `str`, at every depth of an annotation."""

    @FunctionTool
    def go(
        a: LiteralString,
        b: Optional[LiteralString] = None,
        c: "dict[str, list[LiteralString]] | None" = None,
        d: Annotated[LiteralString, "A d."] = "",
        e: Literal["x"] = "x",
    ) -> str:
        """Go."""
        return f"{a}{c}"

    found = go.schema.plain["properties"]
    text = STR
    assert found["a"] == text and found["b"]["anyOf"][0] == text
    assert found["c"]["anyOf"][0]["additionalProperties"] == array(text)
    assert found["d"] == {**text, "default": "", "description": "A d."}
    assert found["e"]["const"] == "x"
    assert called(go, a="x", c={"k": ["y"]}) == "x{'k': ['y']}"


class Searcher:
    """An object that is called, whose types are its own."""

    class Query(BaseModel):
        text: str

    def list(self) -> None:
        """A method that is named like a type."""

    def __call__(self, query: "Query", more: "list[int]" = []) -> str:
        """Search."""
        return query.text

    def search(self, query: "Query") -> str:
        """Search."""
        return query.text

    @classmethod
    def find(cls, query: "Query") -> str:
        """Search."""
        return query.text


class Filtering(Searcher):
    """One with a further type of its own."""

    class Filter(BaseModel):
        least: int

    def search(self, query: "Query", by: "Filter | None" = None) -> str:  # noqa: F821
        """Search."""
        return query.text


@pytest.mark.parametrize(
    "func",
    [
        Searcher(),
        Searcher().search,
        functools.partial(Searcher(), more=[]),
        Searcher.find,
        Filtering().search,
    ],
)
def test_a_method_names_a_type_of_its_class(func):
    """A string annotation of `__call__` or a bound method finds the types in the class and its bases."""
    tool = FunctionTool(func, name="search")

    assert called(tool, query={"text": "cats"}) == "cats"


def test_a_function_names_the_types_around_it():
    """A string annotation finds the local types of every function that contains the tool's."""

    class Outer(BaseModel):
        n: int

    def make():
        def take(x: "Outer") -> str:
            """Take."""
            return str(x.n)

        return FunctionTool(take)

    assert called(make(), x={"n": 3}) == "3"


@pytest.mark.parametrize("turned", [False, True])
def test_equal_unions_of_another_order_are_different_types(turned):
    """`A | B` equals `B | A`. The first member that fits wins all the same."""

    class One(BaseModel):
        n: int

    class Two(BaseModel):
        n: int

    kinds = [(list[One | Two], "One"), (list[Two | One], "Two")]
    for kind, name in reversed(kinds) if turned else kinds:

        def take(xs: kind) -> str:
            """Take."""
            return type(xs[0]).__name__

        assert called(FunctionTool(take), xs=[{"n": 1}]) == name


def test_a_partial_of_a_named_partial_hides_the_arguments_of_both():
    """Python does not merge a partial that has attributes into the next one."""

    def take(a: int, b: int, c: int) -> str:
        """Take."""
        return f"{a}{b}{c}"

    first = functools.partial(take, a=1)
    first.__name__ = "first"
    tool = FunctionTool(functools.partial(first, b=2))

    assert [*tool.schema.plain["properties"]] == ["c"]
    assert called(tool, c=3) == "123"


def test_which_functions_of_a_class_body_are_methods():
    """The first parameter is hidden if it looks like `self`: by its name, or without a type."""

    class Box:
        @FunctionTool
        def typed(self: "Box", x: int): ...

        @FunctionTool
        def unusual(this, x: int): ...

        @staticmethod
        @FunctionTool
        def static(y: int, x: int): ...

    assert [[*vars(Box)[n].schema.plain["properties"]] for n in ("typed", "unusual")] == [["x"]] * 2
    assert [*Box.static.schema.plain["properties"]] == ["y", "x"]


def test_null_means_the_default_behind_any_reference():
    """Null for an argument with a default means the default, wherever its definition stands."""
    seen = []
    n = {"$ref": "#/$defs/group/n", "default": 3}
    tool = foreign(obj({"n": n}, **{"$defs": {"group": {"n": INT}}}), seen.append)

    assert called(tool, n=None) == "" and called(tool, n=4) == ""
    assert seen == [{"n": 3}, {"n": 4}]


@pytest.mark.parametrize("foreign", [False, True])
def test_a_key_that_stands_twice_says_so(foreign):
    """Pairs that name a key twice are refused in words that say why, in a dict and in `**kwargs`."""

    @FunctionTool(strict=True)
    def count(by: dict[str, int], **more: int) -> int:
        """Count."""
        return len(by) + len(more)

    tool = count
    if foreign:
        tool = SchemaTool("count", "", count.schema.plain, lambda a: len(a) + 1, strict=True)
    pair = {"key": "a", "value": 1}
    rest = next(name for name in tool.schema.parameters["properties"] if name != "by")

    assert called(tool, by=[pair], **{rest: [{**pair, "key": "b"}]}) == ("3" if foreign else "2")
    assert "by: " in called(tool, by=[pair, pair], **{rest: []})
    assert "with each key only once" in called(tool, by=[pair, pair], **{rest: []})
    assert "with each key only once" in called(tool, by=[], **{rest: [pair, pair]})


@pytest.mark.parametrize("foreign", [False, True])
def test_pairs_that_are_none_are_told_what_pairs_are(foreign):
    """A model that reads the strict form sent a list, so an object is not all that is expected."""

    @FunctionTool(strict=True)
    def count(by: dict[str, int], one: Movie | None = None) -> int:
        """Count."""
        return len(by)

    tool = count
    if foreign:
        closed = {"type": "object", "additionalProperties": False}
        schema = obj({"by": dict_of(INT), "one": obj({"title": STR}), "none": closed})
        tool = SchemaTool("count", "", schema, lambda a: len(a), strict=True)
    pairs = "by: expected an object, or a list of objects with `key` and `value`"
    for wrong in ([{"key": "a"}], [["a", 1]], 5):
        assert called(tool, by=wrong, one=None) == f"Invalid arguments. {pairs}"
    twice = [{"key": "a", "value": 1}] * 2
    assert called(tool, by=twice, one=None).endswith(f"{pairs}, with each key only once")
    plain = SchemaTool("p", "", tool.schema.plain, len) if foreign else FunctionTool(count.func)
    assert called(plain, by=[1]).endswith("by: expected an object")
    others = {"one": [1], **({"none": [1]} if foreign else {})}
    assert "`key`" not in called(tool, by=[], **others)


# Nested types: unknown names, and what their docstrings say


@dataclass
class Price:
    """A price.

    Args:
        highest: The most to pay.
        lowest: The least to pay.
    """

    highest: int
    lowest: Annotated[int, Field(description="Said here.")] = 0


class Movie(TypedDict):
    """A movie.

    Attributes:
        title: What it is called.
    """

    title: str


class Open(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")
    title: str


class Opened(Open):
    year: int


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")
    title: str
    price: Price | None = None


class Checked(BaseModel):
    """A model that looks at its input."""

    title: str
    price: Price | None = None

    @model_validator(mode="before")
    @classmethod
    def look(cls, data: Any) -> Any:
        return data


class Seat(NamedTuple):
    row: int


class Own(BaseModel):
    """A model whose own `__init__` takes what it likes."""

    title: str

    def __init__(self, **data: Any) -> None:
        super().__init__(title=data["title"])


def watch(
    price: Price | None = None,
    movie: Movie | None = None,
    opened: Opened | None = None,
    lenient: Lenient | None = None,
    checked: list[Checked] = [],
    seat: Seat | None = None,
    own: Own | None = None,
) -> str:
    """Watch."""
    return "watched"


TITLE = {"title": "x"}


@pytest.mark.parametrize("strict", [False, True, "plain"])
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (
            {"price": {"highest": 3, "lowets": 3}},
            "price.lowets: unknown argument; did you mean 'lowest'?",
        ),
        (
            {"movie": {**TITLE, "titel": "y"}},
            "movie.titel: unknown argument; did you mean 'title'?",
        ),
        (
            {"checked": [TITLE, {**TITLE, "titl": 1}]},
            "checked[1].titl: unknown argument; did you mean 'title'?",
        ),
        (
            {"checked": [{**TITLE, "price": {"highest": 1, "hihgest": 1}}]},
            "checked[0].price.hihgest: unknown argument; did you mean 'highest'?",
        ),
        (
            {"lenient": {**TITLE, "price": {"highest": 1, "hihgest": 1}}},
            "lenient.price.hihgest: unknown argument; did you mean 'highest'?",
        ),
        ({"seat": {"row": 1, "rwo": 2}}, "seat.rwo: unknown argument"),
        ({"lenient": {**TITLE, "titel": "y"}}, "watched"),
        ({"own": {**TITLE, "titel": "y"}}, "watched"),
        ({"price": {"highest": 1}, "movie": TITLE, "checked": [TITLE], "seat": [1]}, "watched"),
    ],
)
def test_unknown_names_are_refused_at_every_depth(sent, said, strict):
    """A nested type refuses unknown names with the nearest one, unless it says `extra` itself."""
    if strict is True:
        tool = FunctionTool(functools.partial(watch, opened=None), name="watch", strict=True)
    else:
        tool = FunctionTool(watch, name="watch")

    assert said in called(tool, **sent)


def test_the_plain_schema_closes_nested_types():
    """The plain schema says what the call does about unknown names."""
    tool = FunctionTool(watch)
    found = {k: v.get("additionalProperties") for k, v in tool.schema.plain["$defs"].items()}

    assert found == {
        "Price": False,
        "Movie": False,
        "Checked": False,
        "Opened": True,
        "Lenient": None,
        "Seat": None,
        "Own": None,
    }
    assert called(tool, opened={**TITLE, "year": 1, "more": 2}) == "watched"
    assert returned_schema(Price).get("additionalProperties") is None


def test_a_class_docstring_reaches_its_properties():
    """The sections of a nested type's docstring describe its properties, and leave its own text."""
    defs = FunctionTool(watch).schema.plain["$defs"]

    assert defs["Price"]["description"] == "A price."
    assert defs["Price"]["properties"]["highest"]["description"] == "The most to pay."
    assert defs["Price"]["properties"]["lowest"]["description"] == "Said here."
    assert defs["Movie"]["description"] == "A movie."
    assert defs["Movie"]["properties"]["title"]["description"] == "What it is called."


def test_sections_alone_are_no_description():
    """A class docstring that holds only the texts on its fields leaves no description."""

    class Bare(BaseModel):
        """Args:
        n: A number.
        """

        n: int

    def take(x: Bare): ...

    made = schema_of(take)["$defs"]["Bare"]
    assert "description" not in made
    assert made["properties"] == {"n": {**INT, "description": "A number."}}


class Weather:
    """Tell the weather.

    Args:
        city: Where.
        days: How far ahead.
    """

    def __call__(self, city: str, days: int = 1) -> str:
        """
        Args:
            days: For how long.
        """
        return f"{city} {days}"


def test_the_docstring_of_a_class_completes_that_of_its_call():
    """What `__call__` leaves out, the docstring of the class says."""
    schema = FunctionTool(Weather()).schema

    texts = {name: part["description"] for name, part in schema.plain["properties"].items()}
    assert schema.description == "Tell the weather."
    assert texts == {"city": "Where.", "days": "For how long."}


def test_pydantic_honours_a_rewritten_model():
    """The one parameter of pydantic that nested models need is there, and does what is needed."""
    core = rewritten(dict(Checked.__pydantic_core_schema__))
    sent = {**TITLE, "more": 1}

    SchemaValidator(core).validate_python(sent)
    with pytest.raises(ValidationError, match="extra_forbidden"):
        SchemaValidator(core, _use_prebuilt=False).validate_python(sent)


class Plus(BaseModel):
    op: Literal["plus", "add"]
    left: "Sum"
    right: "Sum"


@dataclass
class Minus:
    op: Literal["minus"]
    left: "Sum"
    right: "Sum"


class Times(TypedDict):
    op: Literal["times"]
    left: "Sum"
    right: "Sum"


class Always(BaseModel):
    op: Literal["plus"] = "plus"
    value: int


Sum = Plus | Minus | Times | Always | int
Plus.model_rebuild()


def test_a_recursive_union_of_classes_with_constants_is_validated_in_linear_time():
    """pydantic tries every class at each level: a good tree of 25 levels takes minutes."""

    def tree(leaf, *ops):
        for op in ops:
            leaf = {"op": op, "left": leaf, "right": 1}
        return leaf

    def take(x: Sum) -> str:
        return type(x).__name__

    tool = FunctionTool(take)
    assert "oneOf" not in json.dumps(tool.schema.plain)
    for op, name in {"add": "Plus", "minus": "Minus", "times": "dict"}.items():
        deep = tree({"value": 2}, *["plus", "minus", "times"] * 13, op)
        assert call(tool, {"x": deep}).value == name
    assert call(tool, {"x": 5}).value == "int"
    assert call(tool, {"x": {"value": 5}}).value == "Always"
    wrong = call(tool, {"x": tree("no", *["times"] * 40)})
    assert wrong.error.type == "ArgumentError"


class Left(BaseModel):
    kind: Literal["a"]
    x: int


class Right(BaseModel):
    kind: Literal["a"]
    y: int


class Third(BaseModel):
    kind: Annotated[Literal["c"], Field(alias="sort")]
    n: Literal[1]


def test_classes_without_constants_of_their_own_are_all_tried():
    """Two with the same constant, an alias, a number and an order of the author's tell nothing."""

    def take(x: Left | Right | Third) -> str:
        return type(x).__name__

    def in_order(x: Annotated[Left | Right, Field(union_mode="left_to_right")]) -> str:
        return type(x).__name__

    for tool in (FunctionTool(take), FunctionTool(in_order)):
        assert call(tool, {"x": {"kind": "a", "x": 1}}).value == "Left"
        assert call(tool, {"x": {"kind": "a", "y": 1}}).value == "Right"
    assert call(FunctionTool(take), {"x": {"sort": "c", "n": 1}}).value == "Third"


class Loose(BaseModel):
    op: str
    n: int


class Add(BaseModel):
    op: Literal["add"]
    n: int


class Subtract(BaseModel):
    op: Literal["subtract"]
    n: int


@pytest.mark.parametrize(
    "annotation",
    [
        Loose | Add | Subtract,
        Add | Loose | Subtract,
        Add | Subtract | Loose,
        Subtract | Loose | Add,
    ],
    ids=str,
)
def test_the_first_class_of_a_union_that_fits_wins(annotation):
    """A class without a constant keeps its place among those that have one, as pydantic has it."""

    def take(x) -> str:
        return type(x).__name__

    take.__annotations__["x"] = annotation
    for op in ("add", "subtract", "else"):
        sent = {"op": op, "n": 1}
        wanted = TypeAdapter(annotation).validate_json(json.dumps(sent))
        assert call(FunctionTool(take), {"x": sent}).value == type(wanted).__name__


def test_a_wrong_constant_is_named_at_its_place():
    """A model is told which field is missing or wrong, and not of tags and discriminators."""

    def take(x: list[Add | Subtract]) -> int:
        return len(x)

    assert call(FunctionTool(take), {"x": [{"n": 1}]}).text.endswith(
        " x[0].op: required, but missing"
    )
    assert call(FunctionTool(take), {"x": [{"op": "ad", "n": 1}]}).text.endswith(
        " x[0].op: expected one of the choices (choices: add, subtract)"
    )

    tagged = Annotated[Add, Tag("add")] | Annotated[Subtract, Tag("subtract")]

    def by_function(x: Annotated[tagged, Discriminator(lambda sent: None)]) -> int:
        return x.n

    assert "extract tag" in call(FunctionTool(by_function), {"x": {"n": 1}}).text

    def by_wrong_tag(x: Annotated[tagged, Discriminator(lambda sent: "power")]) -> int:
        return x.n

    def own(sent: Any) -> Any:
        raise PydanticCustomError("tag", "my own words", {"discriminator": "'op'"})

    def by_author(x: Annotated[int, BeforeValidator(own)]) -> int:
        return x

    assert "x: my own words" in call(FunctionTool(by_author), {"x": 1}).text
    assert "out of 'add', 'subtract'" in call(FunctionTool(by_wrong_tag), {"x": {"n": 1}}).text


class Exact(BaseModel, strict=True):
    some: set[int]
    at: date


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Exact, {"some": [1], "at": "2026-01-02"}),
        (dict[int, Exact], {"1": {"some": [1], "at": "2026-01-02"}}),
        (dict[int, date | str], {"1": "2026-01-02"}),
        (OrderedDict[int, Exact], {"2": {"some": [1], "at": "2026-01-02"}}),
        (Counter[int], {"2": 1}),
        (dict[int, set[date] | list[str]], {"1": ["2026-01-02"]}),
        (set[int] | tuple[int, ...], [1, 2]),
        (list[str] | set[int], [1, 2]),
        (set[int] | None, ["1"]),
        (OrderedDict[int, set[int]], {"2": [1], "1": [2]}),
        (Exact, {"some": [*range(1_500)], "at": "2026-01-02"}),
        (OrderedDict[int, int], {str(i): i for i in range(1_500, 0, -1)}),
        (Counter[int], {str(i): i for i in range(1_500)}),
        (list[str] | frozenset[int], [*range(1_500)]),
        (set[int] | list[int], [*range(1_500)]),
        (tuple[int, ...] | set[int], [*range(1_500)]),
        (Annotated[set[int], Field(max_length=1_400)], [*range(1_400), *range(200)]),
        (Annotated[dict[int, int], Field(max_length=1)], {"1": 1, "01": 2}),
        (
            dict[str, int] | Annotated[dict[UUID, int], Field(max_length=2_000)],
            {str(UUID(int=i)): i for i in range(1_500)},
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_hashed_is_validated_as_json(annotation, value):
    """A set, or a dict of numbers, is what pydantic reads from JSON, also where it is strict."""

    def take(x) -> str:
        return repr(x)

    take.__annotations__["x"] = annotation
    wanted = TypeAdapter(annotation).validate_json(json.dumps(value))
    assert call(FunctionTool(take), {"x": value}).value == repr(wanted)


class Made(BaseModel, strict=True, validate_default=True):
    some: set[int] = {1, 2}
    same: Annotated[set[int], BeforeValidator(lambda sent: {*sent})]
    all: Annotated[frozenset[Any], BeforeValidator(tuple)] | None = None


def test_a_strict_set_takes_a_set_of_the_author():
    """A default and what a validator makes are sets, and a tuple is none."""

    def take(x: Made) -> str:
        return repr(x)

    tool = FunctionTool(take)
    assert call(tool, {"x": {"same": [3]}}).value == "Made(some={1, 2}, same={3}, all=None)"
    assert "x.all: expected a list" in call(tool, {"x": {"same": [3], "all": [1]}}).text

    def union(x: Annotated[set[int], BeforeValidator(set)] | frozenset[int]) -> str:
        return type(x).__name__

    assert call(FunctionTool(union), {"x": [1]}).value == "set"


ONE_HASH = [(2**61 - 1) * i for i in range(1, 1_500)]
Keys = TypeAliasType("Keys", "dict[int, Keys]")


@pytest.mark.parametrize(
    ("annotation", "items"),
    [
        (set[int], ONE_HASH),
        (frozenset[Decimal], [str(i) for i in ONE_HASH]),
        (set[UUID], [str(UUID(int=i)) for i in ONE_HASH]),
        (set, ONE_HASH),
        (dict[int, int], ONE_HASH),
        (OrderedDict[int, int], ONE_HASH),
        (Counter[int], ONE_HASH),
        (dict[UUID, list[set[int]]], [str(UUID(int=i)) for i in ONE_HASH]),
    ],
    ids=str,
)
def test_numbers_with_one_hash_are_refused(annotation, items):
    """Python compares each with each. 45,000 of them took half a minute."""

    def take(x) -> int:
        return len(x)

    take.__annotations__["x"] = annotation
    tool = FunctionTool(take)

    def sent(some):
        value = {"int": 1, "UUID": []}
        is_dict = issubclass(get_origin(annotation) or set, dict)
        return {
            "x": {str(i): value[annotation.__args__[0].__name__] for i in some} if is_dict else some
        }

    others = [str(UUID(int=i)) if "-" in str(items[0]) else i for i in range(1, 3_000)]
    alike = items[: hashes.MOST_ALIKE + 1]
    refused = call(tool, sent([*others, *alike])).text
    assert "x: a list in which few items are hashed alike" in refused
    assert call(tool, sent([*others, *alike[1:]])).value == len(others) + hashes.MOST_ALIKE
    assert call(tool, sent([*others, *others])).value == len(others)
    assert call(tool, sent([*others, "no"])).is_error is (annotation is not set)


def test_points_around_zero_are_no_numbers_with_one_hash():
    """In five dimensions 32 of them have the same hash, because -1 and -2 have."""
    points = [*product(range(-2, 3), repeat=5)]

    def take(x: set[tuple[int, int, int, int, int]]) -> int:
        return len(x)

    assert call(FunctionTool(take), {"x": points}).value == len(points)


def test_the_items_of_a_short_text_are_not_looked_at():
    """So few items are compared in no time."""

    def take(x: set[int], y: dict[int, int]) -> int:
        return len(x) + len(y)

    few = {"x": ONE_HASH[:40], "y": {str(i): 1 for i in ONE_HASH[:40]}}
    assert len(json.dumps(few)) < hashes.FEW_ITEMS
    assert call(FunctionTool(take), few).value == 80
    assert "hashed alike" in call(FunctionTool(take), {**few, "x": ONE_HASH[:90]}).text


class Loose(BaseModel):
    a: int = 0


class Free(BaseModel):
    b: int = 0


class Listed(BaseModel):
    items: list[int] = []


@pytest.mark.parametrize(
    ("annotation", "item"),
    [
        (list[Fraction], "1e4000"),
        (list[Annotated[str, PlainValidator(str)]], "a"),
        (list[Loose | Free], {}),
        (list[frozenset[float] | set[int]], []),
        (list[set[int]], []),
        (list[Listed], {}),
    ],
    ids=str,
)
def test_a_long_text_of_what_is_read_slowly_has_a_time_limit(annotation, item, monkeypatch):
    """A megabyte of fractions took four seconds, one of models with lists as defaults three."""

    def take(x) -> int:
        return len(x)

    take.__annotations__["x"] = annotation
    tool = FunctionTool(take)
    assert call(tool, {"x": [item] * 1_000}).value == 1_000
    monkeypatch.setattr(readings, "SECONDS", -1.0)
    assert "reading the arguments takes too long" in call(tool, {"x": [item] * 1_000}).text
    assert call(tool, {"x": [item] * 100}).value == 100


@pytest.mark.parametrize("kind", [set, frozenset[list[int] | int]], ids=str)
def test_the_first_of_many_items_without_a_hash_is_named(kind):
    """A long text stops at the first problem of each set, and 30,000 would only be counted."""

    def take(x: kind) -> int:
        return len(x)

    refused = call(FunctionTool(take), {"x": [1, *[[2]] * 30_000]}).text
    assert refused == "Invalid arguments. x[1]: Set items should be hashable"


def test_the_keys_of_a_dict_in_itself_are_looked_at():
    """A type that refers to itself refuses numbers with one hash at every depth."""

    def take(x: Keys) -> int:
        return len(x)

    assert call(FunctionTool(take), {"x": {"1": {"2": {}}}}).value == 1
    assert "hashed alike" in call(FunctionTool(take), {"x": {"1": {i: {} for i in ONE_HASH}}}).text


class Alike:
    """What an author makes of a text. It counts how often two are compared."""

    compared = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self):
        return 1

    def __eq__(self, other):
        Alike.compared += 1
        if "!" in self.text + other.text:
            raise TypeError("nothing is like this")
        return self.text == other.text


AlikeText = Annotated[str, AfterValidator(Alike)]


@dataclass(frozen=True)
class Kin:
    name: AlikeText | int | float = 0
    kin: "frozenset[Kin]" = frozenset()


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (set[AlikeText], [*map(str, range(1_500)), 1]),
        (set[Kin], [*({"name": str(i)} for i in range(1_500)), 1]),
        (dict[AlikeText, int], {**{str(i): 1 for i in range(1_500)}, "no": "no"}),
    ],
    ids=["set", "nested", "dict"],
)
def test_a_wrong_item_does_not_let_the_others_be_hashed(annotation, sent, monkeypatch):
    """One item of another type beside 16,000 numbers with one hash took seconds to refuse."""
    monkeypatch.setattr(Alike, "compared", 0)

    def take(x) -> int:
        return len(x)

    take.__annotations__["x"] = annotation
    assert call(FunctionTool(take), {"x": sent}).error.type == "ArgumentError"
    assert Alike.compared == 0


def test_items_that_cannot_be_compared_are_no_success():
    """An author's `__eq__` that raises a TypeError is the author's to mend."""

    def take(x: set[AlikeText]) -> int:
        return len(x)

    texts = [f"{i}!" for i in range(1_500)]
    assert "a validator of the tool failed" in call(FunctionTool(take), {"x": texts}).text


def test_of_equal_items_the_first_stays():
    """A set has the first of its equal items, as pydantic makes it."""

    def take(x: set[Kin], y: set[int | float]) -> list[str]:
        return [repr(kin.name) for kin in x] + [repr(name) for name in y]

    for first, last in ((1, 1.0), (1.0, 1)) * 10:
        sent = {"x": [{"name": first}, {"name": last}], "y": [first, last]}
        assert call(FunctionTool(take), sent).value == [repr(first)] * 2


NOTED = []


def note(sent: Any) -> Any:
    """Write down what a validator reads."""
    NOTED.append(sent)
    return sent


Noted = Annotated[int, AfterValidator(note)]


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (set[Noted], [*range(1_500)]),
        (set[frozenset[Noted]], [[i] for i in range(1_500)]),
        (set[frozenset[frozenset[Noted]]], [[[*range(1_500)]]]),
        (dict[Noted, int], {str(i): 1 for i in range(1_500)}),
    ],
    ids=["set", "nested", "twice nested", "dict"],
)
def test_what_is_hashed_is_read_once(annotation, sent):
    """Large sets in large sets were read again at each level."""

    def take(x) -> int:
        return len(x)

    take.__annotations__["x"] = annotation
    NOTED.clear()
    assert call(FunctionTool(take), {"x": sent}).success
    assert NOTED == [*range(1_500)]


@dataclass(frozen=True)
class Up:
    inner: "Up | Down | None" = None
    end: Annotated[int, BeforeValidator(note)] = 0


@dataclass(frozen=True)
class Down:
    inner: "Up | Down | None" = None
    end: Annotated[int, BeforeValidator(note)] = 0


def test_a_large_set_of_a_recursive_union_counts_its_readings():
    """Each level doubled the time of a set of 1,001 items: 18 levels, 12 kB, took seven seconds."""

    def take(x: set[Up | Down]) -> int:
        return len(x)

    deep: Any = {"end": "no"}
    for _ in range(16):
        deep = {"inner": deep}
    NOTED.clear()
    sent = [deep, *({"end": i} for i in range(1_001))]
    assert call(FunctionTool(take), {"x": sent}).error.type == "ArgumentError"
    assert len(NOTED) < 100_000


@pytest.mark.parametrize("annotation", [set, set[int | list[int]], set[Kin | list[int]]], ids=str)
def test_a_set_of_lists_is_refused_in_words(annotation):
    """What has no hash is the validation's own to refuse."""

    def take(x) -> int:
        return len(x)

    take.__annotations__["x"] = annotation
    item = {"name": 1} if annotation == set[Kin | list[int]] else 1
    text = call(FunctionTool(take), {"x": [item, *[[1]] * 1_500]}).text
    said = "Set items should be hashable"
    assert text.startswith(f"Invalid arguments. x[1]: {said}; x[2]: {said}; ")


def test_a_name_that_is_not_published_is_none_that_a_model_can_set():
    """`SkipJsonSchema` hides a name from the schema only. Of a union it may hide a member."""

    class Order(BaseModel):
        a: int
        admin: SkipJsonSchema[bool] = False

    def nested(order: Order): ...
    def plain(a: int, admin: SkipJsonSchema[bool] = False): ...
    def union(a: int, b: str | SkipJsonSchema[None] = None) -> Order: ...

    for func, name in ((nested, "order"), (plain, "admin")):
        with pytest.raises(DefinitionError, match=f"parameter '{name}' .* SkipJsonSchema hides"):
            FunctionTool(func)
    schema = FunctionTool(union).schema
    assert schema.plain["properties"]["b"]["type"] == "string"
    assert list(schema.output["properties"]) == ["a"]


def test_the_names_of_definitions_differ():
    """Definitions that would share a name are numbered, beside one that looks so already."""
    names = Names({"$defs": {f"a{i}": {"x": {}} for i in range(4)} | {"x_2": {}}})
    refs = ["#/$defs/x_2", *(f"#/$defs/a{i}/x" for i in range(4))]

    assert [names.of(ref) for ref in refs] == ["x_2", "x", "x_3", "x_4", "x_5"]


def test_a_literal_of_bytes_takes_the_text_that_is_published():
    """JSON has no bytes, so the schema lists texts."""

    def take(x: Literal[b"on", b"off"]) -> bytes:
        return x

    tool = FunctionTool(take)
    assert tool.schema.parameters["properties"]["x"]["enum"] == ["on", "off"]
    assert call(tool, {"x": "off"}).value == b"off"
    assert call(tool, {"x": "no"}).error.type == "ArgumentError"


def test_a_class_is_no_argument():
    """pydantic describes it as anything, and would refuse every call."""

    def take(x: type[int]): ...

    with pytest.raises(DefinitionError, match="'x' has no JSON Schema: .*a class, which"):
        FunctionTool(take)


def test_only_the_strict_form_of_a_dict_has_keys_that_stand_twice():
    """In plain form a list of pairs is just a list."""

    def take(x: dict[str, int] | int): ...

    twice = [{"key": "a", "value": 1}] * 2
    assert "only once" not in call(FunctionTool(take), {"x": twice}).text
    assert "only once" in call(FunctionTool(take, strict=True), {"x": twice}).text
