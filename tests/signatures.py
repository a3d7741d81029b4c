"""Functions with signatures that nobody would write by hand, and arguments that may fit them."""

import enum
import inspect
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    RootModel,
    WrapValidator,
    model_validator,
)
from typing_extensions import TypedDict

from functool import DefinitionError, FunctionTool

Draw = random.Random


class Color(enum.Enum):
    RED = "red"
    DARK_RED = "dark red"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Kind(enum.Enum):
    ANY = "any"

    @classmethod
    def _missing_(cls, value: object) -> "Kind":
        return cls.ANY


class Point(BaseModel):
    x: float
    label: str = "origin"


class Renamed(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    size: int = Field(alias="howLarge")


class Several(BaseModel):
    size: int = Field(validation_alias=AliasChoices("a", "b"))


class Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)
    name: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = ""


class Mended(BaseModel):
    x: int

    @model_validator(mode="before")
    @classmethod
    def mend(cls, sent: Any) -> Any:
        return sent if isinstance(sent, dict) else {"x": 1}


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    name: Annotated[str, Field(max_length=3)]


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Numbers(RootModel[list[int]]):
    pass


@dataclass
class Span:
    start: int
    end: int = 9


class Movie(TypedDict, total=False):
    title: str
    year: int


class Pair(NamedTuple):
    a: int
    b: str = ""


def words(sent: Any) -> Any:
    return len(sent) if isinstance(sent, (str, list, dict)) else sent


def wrap(sent: Any, handler: Any) -> Any:
    try:
        return handler(sent)
    except ValueError:
        return 0


def even(value: int) -> int:
    if value % 2:
        raise ValueError("wanted an even number")
    return value


LEAVES: list[Any] = [
    *(int, float, bool, str, date, datetime, timedelta, UUID, Decimal, bytes, complex, Any),
    *(Literal["fast", "deep", "deeper"], Literal[1, 2], Literal["x", 1], Literal["q", None]),
    *(Color, Level, Kind, Point, Renamed, Several, Loose, Open, Mended, Stripped, Tree, Numbers),
    *(Span, Movie, Pair, Json[int], Annotated[int, BeforeValidator(words)]),
    *(Annotated[int, WrapValidator(wrap)], Annotated[int, AfterValidator(even)]),
    *(Annotated[str, Field(max_length=4)], Annotated[str, Field(pattern="^[a-z]+$")]),
    *(Annotated[int, Field(ge=0, strict=True)], Annotated[str, BeforeValidator(str)]),
]
SAMPLES: list[Any] = [
    *(0, 1, 2, -7, 1.0, 2.5, 1e5, 10**20, True, False, None, "", "1", " 2 ", "1_0", "1.0", "1e3"),
    *("fast", "deep", "deeper", "slow", "red", "dark red", "any", "x", "q", "abcd", "abcde"),
    *("2024-01-02", "2024-01-02T03:04:05Z", "P1D", "1+2j", "yes", "off", "inf", "NaN", "12\u00e9"),
    *("c9bf9e57-1685-4c89-bafb-ff5af830be8a", "[1, 2]", '{"x": 1}', "\U0001f600", 'a"\\b\n'),
    *([], [1], ["1", 2], [[1]], {}, {"x": 1}, {"x": "2", "label": "z"}, {"x": {}}, {"size": 3}),
    *({"howLarge": 3}, {"a": 1}, {"b": 2}, {"name": "n"}, {"name": 5}, {"name": "  abc  "}),
    *({"name": "n", "more": [1]}, {"name": "t", "children": [{"name": "u"}]}, {"start": 1}),
    *({"start": 1, "end": "2"}, {"title": "t", "year": "1999"}, {"year": "old"}, [1, "b"]),
    *({"a": 1, "b": "b"}, {"1": 2}, {"k": "v"}, [{"key": "k", "value": 1}], {"item_0": 1}),
    *([{"x": 1}, {"x": 2}], [{"x": 1}, {"y": 2}]),
]


def annotation(draw: Draw, depth: int = 2) -> Any:
    """Any type, at most `depth` levels above its leaves."""
    kind = draw.randrange(12) if depth else 0
    if kind < 6:
        return draw.choice(LEAVES)
    inner, other = annotation(draw, depth - 1), annotation(draw, depth - 1)
    made = (
        *(lambda: list[inner], lambda: dict[str, inner], lambda: tuple[inner, other]),
        *(lambda: inner | None, lambda: inner | other, lambda: dict[int, inner]),
    )
    return made[kind - 6]()


def function(draw: Draw) -> Callable[..., Any]:
    """A function with up to four parameters."""

    def made(**arguments: Any) -> str:
        """Do something."""
        return "done"

    parameters = []
    for name in draw.sample(["a", "b", "count", "name"], draw.randint(1, 4)):
        default = draw.choice([inspect.Parameter.empty, None, 1, "fast"])
        found = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        parameters.append(found.replace(annotation=annotation(draw)))
    if not draw.randrange(6):
        rest = inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD)
        parameters.append(rest.replace(annotation=draw.choice([int, str, Any])))
    made.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return made


def tool(draw: Draw) -> FunctionTool[..., Any] | None:
    """A tool with a generated signature, strict or plain; None where it has no such schema."""
    try:
        made = FunctionTool(function(draw), strict=draw.random() < 0.4)
        assert made.schema.name
    except (DefinitionError, TypeError):
        return None
    return made


def arguments(draw: Draw, made: FunctionTool[..., Any]) -> str:
    """The text of arguments that may fit: names are known as a rule, and some come again."""
    properties = made.schema.plain["properties"]
    sent = {name: _likely(draw, made, name) for name in properties if draw.random() < 0.95}
    if not draw.randrange(20):
        sent[draw.choice(["more", "c"])] = draw.choice(SAMPLES)
    return _written(draw, sent, top=True)


def _likely(draw: Draw, made: FunctionTool[..., Any], name: str) -> Any:
    """A value that the tool takes under this name, if a few tries find one."""
    value = None
    for _ in range(25):
        value = draw.choice(SAMPLES)
        if not draw.randrange(4):
            value = draw.choice([[value], {"k": value}, [value, draw.choice(SAMPLES)]])
        try:
            made.bind({name: value})
        except Exception as error:
            if all(problem["path"] != name for problem in getattr(error, "problems", ())):
                deeper = str(getattr(error, "problems", "")).count(f"'{name}")
                if not deeper:
                    return value
        else:
            return value
    return value


def _written(draw: Draw, value: Any, top: bool = False) -> str:
    """Write JSON as models do: now and then with white space, or with a name that comes again."""
    if isinstance(value, list):
        return f"[{', '.join(_written(draw, item) for item in value)}]"
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=draw.random() < 0.5)
    pairs = [(name, _written(draw, item)) for name, item in value.items()]
    if pairs and not top and not draw.randrange(5):
        pairs.insert(0, (draw.choice(pairs)[0], json.dumps(draw.choice(SAMPLES))))
    space = draw.choice(["", " ", "\n  "])
    return "{" + ",".join(f"{space}{json.dumps(n)}:{space}{text}" for n, text in pairs) + "}"
