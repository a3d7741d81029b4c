"""Writes docs/schemas.md: what becomes of each Python type. Run `python -m tests.docs_schemas` after a change of schemas or dialects."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from functool import FunctionTool
from functool.dialects import anthropic, bedrock, gemini, mcp, mistral, openai, xai

PAGE = Path(__file__).parent.parent / "docs" / "schemas.md"

INTRODUCTION = """\
# What a Python type becomes

The first table shows what a model is told of a parameter: *plain* is `tool.schema.plain`, and *strict* is `tool.schema.parameters` of a tool
made with `strict=True`. The second one shows where a provider is sent something else.

A class, an Enum or a named tuple stands under `$defs`, behind a `$ref`; the tables show its own schema. A dataclass, TypedDict or model that
does not set its own `extra` says `additionalProperties: false`, and a call with an unknown name in it is refused. A model with an `__init__`
of its own is given every name that was sent, and decides for itself.

`python -m tests.docs_schemas` writes this page, and a test keeps it true.

## Plain and strict
"""

PROVIDERS = """
## What providers are sent instead

A name such as `openai` is what that dialect publishes, and `openai strict` what it publishes of a tool with `strict=True`. A dialect without a
row publishes the plain or the strict form.

- `openai` stands for `openai_chat` too. `deepseek`, `groq` and `cohere` publish what `openai` does. They write out references inside of unions,
  and say in words what the server does not read.
- `gemini` is the field `parameters_json_schema`, and `gemini (parameters)` the older one. The older one writes types in capitals, a class
  in its place, and no `additionalProperties`; it has a row only where more is different.

Where a provider lacks a keyword, the keyword moves into the description. The tool enforces it all the same, and the dialect's `losses(tool)`
names it. A tool takes a call in its plain form, and one made with `strict=True` in any of these forms.
"""


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: float
    label: str


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


@dataclass
class Size:
    width: int
    height: int = 1


class Book(BaseModel):
    """A book."""

    title: str
    pages: int = Field(default=1, gt=0)


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


def rows() -> dict[str, Callable[..., Any]]:
    """Python's spelling of each type -> a function with an argument `value` of it."""

    def of(annotation: Any) -> Callable[..., Any]:
        def show(value): ...

        show.__annotations__ = {"value": annotation}
        return show

    def with_default(value: int = 3): ...

    def or_none(value: str | None = None): ...

    def arguments(*value: int): ...

    def keywords(**value: int): ...

    return {
        "str": of(str),
        "int": of(int),
        "float": of(float),
        "bool": of(bool),
        "Any": of(Any),
        "int = 3": with_default,
        "str | None": of(str | None),
        "str | None = None": or_none,
        "int | str": of(int | str),
        'Literal["a", "b"]': of(Literal["a", "b"]),
        "Literal[1, 2]": of(Literal[1, 2]),
        'Literal["a", None]': of(Literal["a", None]),
        "Enum (Colour)": of(Colour),
        "Annotated[int, Field(gt=0, le=10)]": of(Annotated[int, Field(gt=0, le=10)]),
        'Annotated[str, "A hint."]': of(Annotated[str, "A hint."]),
        'Annotated[str, Field(pattern="^[a-z]+$", max_length=8)]': of(
            Annotated[str, Field(pattern="^[a-z]+$", max_length=8)]
        ),
        "date": of(date),
        "datetime": of(datetime),
        "time": of(time),
        "timedelta": of(timedelta),
        "UUID": of(UUID),
        "Decimal": of(Decimal),
        "Path": of(Path),
        "bytes": of(bytes),
        "list[int]": of(list[int]),
        "set[str]": of(set[str]),
        "tuple[int, ...]": of(tuple[int, ...]),
        "tuple[int, int]": of(tuple[int, int]),
        "tuple[int, str]": of(tuple[int, str]),
        "NamedTuple (Point)": of(Point),
        "dict[str, float]": of(dict[str, float]),
        "TypedDict (Movie)": of(Movie),
        "dataclass (Size)": of(Size),
        "BaseModel (Book)": of(Book),
        "BaseModel that holds itself (Tree)": of(Tree),
        "Annotated[Cat | Dog, Field(discriminator='kind')]": of(
            Annotated[Cat | Dog, Field(discriminator="kind")]
        ),
        "*value: int": arguments,
        "**value: int": keywords,
    }


def forms(function: Callable[..., Any]) -> dict[str, Any]:
    """The forms of the argument `value`, by name."""
    plain, strict = (
        FunctionTool(function, name="show", description="", strict=flag) for flag in (False, True)
    )
    found = {
        "plain": plain.schema.plain,
        "strict": strict.schema.parameters,
        "openai": openai.definition(plain)["parameters"],
        "openai strict": openai.definition(strict)["parameters"],
        "anthropic": anthropic.definition(plain)["input_schema"],
        "anthropic strict": _strict(anthropic.definition(strict), "input_schema"),
        "bedrock": bedrock.definition(plain)["toolSpec"]["inputSchema"]["json"],
        "bedrock strict": _strict(bedrock.definition(strict)["toolSpec"], "inputSchema"),
        "gemini": gemini.definition(plain)["parameters_json_schema"],
        "gemini (parameters)": gemini.definition(plain, "parameters").get("parameters", {}),
        "mistral": mistral.definition(plain)["function"]["parameters"],
        "mistral strict": mistral.definition(strict)["function"]["parameters"],
        "xai": xai.definition(plain)["function"]["parameters"],
        "mcp": mcp.definition(plain)["inputSchema"],
    }
    return {name: _argument(schema) for name, schema in found.items()}


def _strict(made: dict[str, Any], key: str) -> dict[str, Any] | None:
    return (made[key].get("json") or made[key]) if made["strict"] else None


def _argument(schema: dict[str, Any] | None) -> Any:
    """The schema of `value`, with the definitions it needs; of keyword arguments the whole."""
    if schema is None:
        return None
    shown = schema["properties"]["value"] if "value" in schema.get("properties", {}) else schema
    defs = schema.get("$defs", {})
    if len(defs) == 1 and shown.keys() == {"$ref"}:
        [shown] = defs.values()
    elif defs:
        shown = shown | {"$defs": defs}
    return _ordered(shown)


def _capitals(node: Any) -> Any:
    """The same schema as Gemini's older field writes it, if nothing but the case of its types changes."""
    if isinstance(node, list):
        return [_capitals(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _capitals(item) for key, item in node.items() if key != "additionalProperties"}
    kind = made.get("type")
    return made | {"type": kind.upper()} if isinstance(kind, str) else made


ORDER = [
    *("type", "nullable", "$ref", "enum", "const", "properties", "required"),
    *("additionalProperties", "prefixItems", "items", "anyOf"),
]


def _ordered(node: Any) -> Any:
    """The same schema with its keywords in one order, so that equal forms read alike."""
    if isinstance(node, list):
        return [_ordered(item) for item in node]
    if not isinstance(node, dict):
        return node
    keys = sorted(
        node,
        key=lambda key: (
            ORDER.index(key) if key in ORDER else len(ORDER),
            key == "description",
            key == "$defs",
        ),
    )
    named = ("properties", "$defs")
    return {
        key: {k: _ordered(v) for k, v in node[key].items()} if key in named else _ordered(node[key])
        for key in keys
    }


def _json(schema: Any) -> str:
    return "not strict" if schema is None else f"`{json.dumps(schema, ensure_ascii=False)}`"


def _row(*cells: str) -> str:
    return " | ".join(cell.replace("|", "\\|") for cell in ("", *cells, "")).strip()


def _others(found: dict[str, Any]) -> dict[str, list[str]]:
    """The providers' forms that are neither the plain nor the strict one: as JSON, with their names."""
    grouped: dict[str, list[str]] = {}
    for name, schema in found.items():
        usual = found["strict" if name.endswith("strict") else "plain"]
        usual = _capitals(usual) if name == "gemini (parameters)" else usual
        if schema != usual:
            grouped.setdefault(_json(schema), []).append(name)
    return grouped


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION, "| Python type | plain | strict, if it is another |", "|---|---|---|"]
    others = [PROVIDERS, "| Python type | provider | schema |", "|---|---|---|"]
    for spelling, function in rows().items():
        found = forms(function)
        plain, strict = _json(found["plain"]), _json(found["strict"])
        lines.append(_row(f"`{spelling}`", plain, "" if strict == plain else strict))
        first = f"`{spelling}`"
        for text, names in _others(found).items():
            others.append(_row(first, ", ".join(names), text))
            first = ""
    return "\n".join(lines + others) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
