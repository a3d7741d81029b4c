"""Make typed Python stubs of tools from their schemas, for the model and for the type checker."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functool import DefinitionError, Tool
from functool.schema.json_schema import lookup

RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "join", "Untrusted", "Any", "Literal"}
    | {"TypedDict", "NotRequired", "overload", "functool_gate"}
    | {"asyncio", "datetime", "json", "math", "re"}
)
"""Names that no tool has in a program."""

_HEAD = """
from collections.abc import Iterator as _functool_iterator, Mapping as _functool_mapping
from typing import Any, Literal, NotRequired, TypedDict, overload
from typing import Protocol as _functool_protocol, ReadOnly as _functool_read_only
from typing import TypeVar as _functool_type_var
_functool_item = _functool_type_var("_functool_item", covariant=True)
class _functool_list(_functool_protocol[_functool_item]):
    def pop(self, index: int = -1, /) -> _functool_item: ...
    def __iter__(self) -> _functool_iterator[_functool_item]: ...
def print(
    *values: Any, sep: str | None = " ", end: str | None = "\\n", file: Any = None, flush: Any = 0
) -> None: ...
"""
"""What the checker reads before all stubs.

A tool does not change its arguments. So it also takes a list of integers where it wants numbers, or
where an item may be untrusted. Of Python's own types a list that is only read is a `Sequence`, but
so is a text.

Python's own `print` takes `object`, and then the checker takes it for the type of `x` in
`print(max(rows, key=lambda x: x["cost"]))`.
"""

_UNTRUSTED = """
class Untrusted:
    __bool__: None
    def part(self, *path: int | str) -> "Untrusted": ...
    def each(self) -> "list[Untrusted]": ...
    def count(self) -> int: ...
@overload
def join(*parts: str | int | float) -> str: ...
@overload
def join(*parts: str | int | float | Untrusted) -> Untrusted: ...
def functool_gate() -> None: ...
"""
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_DESCRIBE = {"$ref", "anyOf", "oneOf", "allOf", "properties", "if", "dependentSchemas"}
_MAX_TEXT = 2_000
_MAX_TYPES = 1_000_000
"""Characters of all types and names of one text of stubs. Further types are `Any`.

A server's short schema may repeat a long type many times.
"""

_MAX_UNION = 150
"""How many members a union may have, with those of its parts. A larger one is `Any`.

The interpreter reads 200 as a nesting that is too deep, and then refuses every program.
"""


@dataclass(frozen=True, slots=True)
class Function:
    """A tool as a function of a program. `parameters` maps its parameters to those of the tool."""

    name: str
    tool: Tool
    parameters: Mapping[str, str]

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with the names of the tool."""
        return {self.parameters.get(name, name): value for name, value in given.items()}


class _Names:
    """Make unique names, also of many equal ones in linear time."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def take(self, *stems: str) -> str:
        """Return the first free stem, or the last one with a number."""
        name = stem = next((stem for stem in stems if stem not in self._taken), stems[-1])
        while name in self._taken:
            self._counts[stem] = count = self._counts.get(stem, 1) + 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


class _Room:
    """Counts the characters of types and names. `left` is how many more there may be."""

    left: int = _MAX_TYPES

    def holds(self, names: Iterable[str]) -> bool:
        """Count the names of fields or parameters. Return whether all of it fits."""
        self.left -= sum(10 + len(name) for name in names)
        return self.left >= 0


@dataclass(slots=True)
class _Types:
    """The types of one tool's stub.

    With `open`, every value may also be untrusted. With `taken`, the checker asks whether a value
    fits, and so the types of lists and dicts are those of values that are only read. With `checked`
    they are for the checker, and accept all that the schema accepts.
    """

    prefix: str
    names: _Names
    room: _Room
    root: Mapping[str, Any] = field(default_factory=dict)
    open: bool = False
    taken: bool = False
    checked: bool = False
    found: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)

    def of(self, schema: Any, hint: str, depth: int = 0) -> str:
        """Return the type of a schema. If it needs a name, the name is made from `hint`."""
        if not isinstance(schema, Mapping) or depth > 20 or self.room.left < 0:
            return "Any"
        found = self._of(schema, hint, depth)
        if self.checked and _is_joined(schema):
            found = "Any"
        self.room.left -= 10 + len(found)
        return found

    def _of(self, schema: Mapping[str, Any], hint: str, depth: int) -> str:
        if isinstance(ref := schema.get("$ref"), str):
            return self._referred(ref, depth)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                kinds = [
                    self.of(part, f"{hint}{n or ''}", depth + 1)
                    for n, part in enumerate(schema[key])
                ]
                return _union(kinds)
        if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
            return self.of(schema["allOf"][0], hint, depth + 1)
        if "const" in schema:
            return self._literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return self._literal(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union(self.of({**schema, "type": one}, hint, depth + 1) for one in kind)
        if kind == "array":
            items = None if "prefixItems" in schema else schema.get("items")
            name = "_functool_list" if self.taken else "list"
            return f"{name}[{self.part(items, hint + 'Item', depth + 1)}]"
        if kind == "object" or (kind is None and _fields(schema)):
            return self._object(schema, hint, depth)
        return _SIMPLE.get(str(kind), "Any")

    def part(self, schema: Any, hint: str, depth: int = 0) -> str:
        """Return the type of an argument, an item or a field, which may be untrusted by itself."""
        kind = self.of(schema, hint, depth)
        return _union([kind, "Untrusted"]) if self.open and kind != "Any" else kind

    def _literal(self, values: list[Any]) -> str:
        fit = [v for v in values if v is None or isinstance(v, (str, int, bool))]
        if len(fit) < len(values) or not fit:
            return "Any"
        return f"Literal[{', '.join(repr(v) for v in fit)}]"

    def _referred(self, ref: str, depth: int) -> str:
        if ref in self.named:
            return self.named[ref]
        target = lookup(self.root, ref)
        if target is self.root or not isinstance(target, Mapping):
            return "Any"
        hint = ref.rpartition("/")[2]
        # It has a name, and may be recursive.
        if _fields(target) and self.room.holds(_fields(target)):
            name = self._fresh(hint)
            self.named[ref] = self._reference(name, target)
            self._define(name, target, depth)
            return self.named[ref]
        self.named[ref] = "Any"  # Inside of itself, a type without a name is not described again.
        self.named[ref] = found = self.of(target, hint, depth + 1)
        return found

    def _object(self, schema: Mapping[str, Any], hint: str, depth: int) -> str:
        if _fields(schema) and self.room.holds(_fields(schema)):
            name = self._fresh(hint)
            self._define(name, schema, depth)
            return self._reference(name, schema)
        return self._dict_of(
            self.part(schema.get("additionalProperties"), f"{hint}Value", depth + 1)
        )

    def _dict_of(self, inner: str) -> str:
        return f"{'_functool_mapping' if self.taken else 'dict'}[str, {inner}]"

    def _reference(self, name: str, schema: Mapping[str, Any]) -> str:
        """Return the type of an object whose class has this name.

        The checker would refuse fields that the class does not name.
        """
        if self.checked and _is_joined(schema):
            return "Any"
        return self._dict_of("Any") if self.checked and _others(schema) is not None else name

    def _fresh(self, hint: str) -> str:
        words = re.findall(r"[A-Za-z0-9]+", hint) or ["Value"]
        base = "".join(word[:1].upper() + word[1:] for word in words)[:60]
        name = base if base[0].isalpha() and base not in RESERVED else f"T{base}"
        return self.names.take(name, name if name.startswith(self.prefix) else self.prefix + name)

    def _define(self, name: str, schema: Mapping[str, Any], depth: int) -> None:
        self.found[name] = ""  # Keep its place before the types that it uses.
        required = schema.get("required", ())
        fields: dict[str, str] = {}
        for key, part in _fields(schema).items():
            kind = self.part(part, f"{name} {key}", depth + 1)
            kind = f"_functool_read_only[{kind}]" if self.taken else kind
            fields[key] = kind if key in required else f"NotRequired[{kind}]"
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in fields):
            lines = [f'    {key}: "{_quoted(kind)}"' for key, kind in fields.items()]
            self.found[name] = "\n".join([f"class {name}(TypedDict):", *lines])
        else:
            items = ", ".join(f'{key!r}: "{_quoted(kind)}"' for key, kind in fields.items())
            self.found[name] = f'{name} = TypedDict("{name}", {{{items}}})'


class Stubs:
    """The functions that a program calls. `shown` is for the model, `checked` for the type checker.

    Args:
        tools: The tools, in order.

    Raises:
        DefinitionError: Something is not a tool.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.functions: dict[str, Function] = {}
        names = _Names(RESERVED)
        tools = [*tools]
        for tool in tools:
            if not isinstance(tool, Tool):
                raise DefinitionError(f"code mode calls tools, not {type(tool).__name__}")
        # A stranger's `send-mail` must not take the name of the host's `send_mail`.
        exact_first = sorted(tools, key=lambda tool: not _is_free(tool.name))
        fits = [(tool, _function_name(tool.name)) for tool in exact_first]
        named = {tool.name: names.take(fit, f"{fit}_") for tool, fit in fits}
        for tool in tools:
            name = named[tool.name]
            self.functions[name] = Function(name, tool, _parameters(tool))
        self.has_untrusted: bool = any(f.tool.settings.untrusted for f in self.functions.values())
        self.shown: str = self._text(checked=False)
        self.checked: str = _HEAD + _UNTRUSTED + self._text(checked=True)

    def _text(self, checked: bool) -> str:
        names, room = _Names({*self.functions, *RESERVED}), _Room()
        classes: list[str] = []
        stubs: list[str] = []
        for function in self.functions.values():
            prefix = "".join(part.title() for part in function.name.split("_"))
            schema = function.tool.schema
            is_open = checked and self.has_untrusted
            given = _Types(
                prefix, names, room, schema.plain, is_open, taken=checked, checked=checked
            )
            head = _head(function, given)
            returned = _Types(prefix, names, room, schema.output or {}, checked=checked)
            output = _returned(function.tool, returned)
            classes += [*given.found.values(), *returned.found.values()]
            stub = f"async def {function.name}({head}) -> {output}:"
            stubs.append(f"{stub} ..." if checked else f"{stub}\n{_docstring(function)}")
        return "\n".join([*classes, *stubs])


def _fields(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an object that its schema names."""
    fields = schema.get("properties")
    return fields if isinstance(fields, Mapping) else {}


def _is_joined(schema: Mapping[str, Any]) -> bool:
    """Whether several parts of a schema describe one value, for which there is no one type."""
    parts = schema.get("allOf")
    several = isinstance(parts, list) and len(parts) > 1
    return several or len(_DESCRIBE & schema.keys()) > 1


def _others(schema: Mapping[str, Any]) -> Any:
    """Return the schema of the fields that an object may have besides its own, or None.

    An object that says nothing of them is taken for one without.
    """
    more = schema.get("additionalProperties")
    if schema.get("patternProperties"):
        return True
    return None if more is False else more


def _head(function: Function, types: _Types) -> str:
    schema = function.tool.schema.plain
    required, properties = schema.get("required", ()), schema.get("properties", {})
    if not types.room.holds(function.parameters):
        return "**arguments: Any"
    parts = []
    for name, original in function.parameters.items():
        part = properties[original]
        kind = types.part(part, f"{function.name} {original}")
        if original in required:
            parts.append(f"{name}: {_written(kind, types)}")
            continue
        default = part.get("default", ...) if isinstance(part, Mapping) else ...
        shown = "..." if default is ... else repr(default)
        parts.append(f"{name}: {_written(kind, types)} = {shown if len(shown) < 200 else '...'}")
    parts.sort(key=lambda text: " = " in text)
    if (more := _others(schema)) is not None:
        name = _Names(function.parameters).take("others")
        parts.append(f"**{name}: {_written(types.part(more, 'Others'), types)}")
    return f"*, {', '.join(parts)}" if parts and not parts[0].startswith("**") else "".join(parts)


def _written(kind: str, types: _Types) -> str:
    return f'"{_quoted(kind)}"' if types.open else kind


def _returned(tool: Tool, types: _Types) -> str:
    if tool.settings.untrusted:
        return "Untrusted"
    if not tool.schema.output:
        return "Any"
    return types.of(tool.schema.output, f"{tool.name} result")


def _parameters(tool: Tool) -> dict[str, str]:
    names = _Names(keyword.kwlist)
    originals = tool.schema.plain.get("properties", {})
    return {names.take(fit := _identifier(original), f"{fit}_"): original for original in originals}


def _docstring(function: Function) -> str:
    """Return the descriptions of a tool and its parameters, as a docstring."""
    properties = function.tool.schema.plain.get("properties", {})
    lines = _clean(function.tool.description).splitlines()
    described = [
        f"    {name}: {_clean(text)}"
        for name, original in function.parameters.items()
        if isinstance(part := properties[original], Mapping)
        and isinstance(text := part.get("description"), str)
    ]
    if described:
        lines += ["", "Args:", *described]
    body = "\n".join(f"    {line}".rstrip() for line in lines) or "    ..."
    return f'    """{body.strip()}"""' if lines else "    ..."


def _clean(text: str) -> str:
    """Return a text that cannot end the docstring around it."""
    return text.replace("\\", "\\\\").replace('"""', "'''").strip()[:_MAX_TEXT].rstrip('"\\')


def _identifier(name: str) -> str:
    fit = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    fit = f"_{fit}" if fit[0].isdigit() else fit
    return f"tool{fit}" if fit.startswith("_functool") else fit


def _function_name(name: str) -> str:
    """Return the name of a tool's function. The checker does not see stubs that begin with `_`."""
    fit = _identifier(name)
    return f"tool{fit}" if fit.startswith("_") else fit


def _is_free(name: str) -> bool:
    """Whether a tool may have its own name in a program."""
    return _function_name(name) == name and name not in RESERVED


def _union(kinds: Iterable[str]) -> str:
    found = list(dict.fromkeys(kinds))
    union = " | ".join(found)
    return "Any" if "Any" in found or union.count(" | ") >= _MAX_UNION else union


def _quoted(kind: str) -> str:
    """Return a type escaped for double quotes."""
    return json.dumps(kind)[1:-1]
