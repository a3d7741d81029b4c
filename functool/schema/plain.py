"""Generate a JSON Schema that is simpler than pydantic's and closer to what pydantic accepts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from typing import Any, cast, get_args

from pydantic.json_schema import GenerateJsonSchema, JsonRef, JsonSchemaWarningKind
from pydantic_core import PydanticOmit, PydanticSerializationError, core_schema, from_json, to_json

from functool.errors import DefinitionError
from functool.schema.docstrings import parse
from functool.schema.json_schema import lookup, walk
from functool.schema.shapes import values_of

# Patterns of numbers as texts. pydantic accepts a little more, such as spaces around a number.
_INTEGER = r"^-?[0-9]+$"
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"
_FIELDS = ("typed-dict-field", "model-field", "dataclass-field")
_SCALARS = ("str", "int", "float", "bool")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_DECIMAL_BOUNDS = {
    **dict(zip(("ge", "le", "gt", "lt", "multiple_of"), _BOUNDS, strict=True)),
    "max_digits": "most digits",
    "decimal_places": "most decimal places",
}


class PlainJsonSchema(GenerateJsonSchema):
    """Generates JSON Schema like pydantic, without titles, warnings and fields that nobody can set.

    It also describes the keys of dicts, decimals and the fields of classes more exactly.
    """

    # What pydantic would warn about, such as a default, is just left out.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {*get_args(JsonSchemaWarningKind)}

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """Describe fields and scalars without options at once; pydantic takes 20 times as long.

        Raises:
            DefinitionError: A field that can be set is left out, by `SkipJsonSchema`.
        """
        is_set = schema["type"] in _FIELDS and self.mode == "validation"
        if schema["type"] in _FIELDS and not schema.get("metadata"):
            schema = schema["schema"]
        if schema["type"] in _SCALARS and schema.keys() <= {"type", "allow_inf_nan"}:
            return cast(dict[str, Any], getattr(self, f"{schema['type']}_schema")(schema))
        with suppress(PydanticOmit):
            return super().generate_inner(schema)
        if is_set:
            raise DefinitionError("SkipJsonSchema hides a name that a model could still set")
        raise PydanticOmit

    def encode_default(self, dft: Any) -> Any:
        """Order sets, and leave out a default that JSON cannot express, such as infinity.

        Raises:
            PydanticSerializationError: This is such a default.
        """
        with suppress(ValueError):
            return default_form(dft, super().encode_default(dft))
        raise PydanticSerializationError("JSON cannot express it")

    def field_is_present(self, field: Any) -> bool:
        """Leave out fields that no caller can set."""
        settable = self.mode == "serialization" or field.get("init", True)
        return super().field_is_present(field) and settable

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Set no titles."""
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Forbid unknown names if the core schema does, and describe the fields of a model."""
        return self._described(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """Forbid unknown names if the core schema does, and describe the fields of a dataclass."""
        return self._described(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        """Describe the keys of a TypedDict."""
        return self._described(super().typed_dict_schema(schema), schema)

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Describe the keys as texts, because JSON keys are texts."""
        made = super().dict_schema(schema)
        # pydantic writes a pattern of keys as `patternProperties`, which allows all other names.
        for value in made.pop("patternProperties", {}).values():
            made["additionalProperties"] = value or True
        keys = schema.get("keys_schema", core_schema.any_schema())
        names = self._key_text(self.generate_inner(keys))
        made.pop("propertyNames", None)
        return {**made, "propertyNames": names} if names.keys() - {"type", "title"} else made

    ordered_dict_schema = dict_schema
    counter_schema = dict_schema

    def is_subclass_schema(self, schema: Any) -> dict[str, Any]:
        """Refuse a class, because JSON has none. pydantic describes it as anything."""
        return self.handle_invalid_for_json_schema(schema, "a class, which a model cannot send")

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """Describe a decimal that is sent as a text by the pattern that pydantic accepts."""
        made = super().decimal_schema(schema)
        for member in made.get("anyOf", [made]):
            if member.get("type") == "string" and not schema.get("allow_inf_nan"):
                bounds = {text: schema.get(word) for word, text in _DECIMAL_BOUNDS.items()}
                member.update({"pattern": _DECIMAL, **_bounds_text(bounds)})
        return made

    def ser_schema(self, schema: Any) -> dict[str, Any] | None:
        """Allow anything for the output of an author's serializer without a return type."""
        written = schema["type"] in ("function-plain", "function-wrap")
        if written and schema.get("return_schema") is None:
            # pydantic's own serializers, such as that for paths, agree with the type's schema.
            module = getattr(schema["function"], "__module__", None)
            if not f"{module or ''}".startswith("pydantic."):
                return {}
        return super().ser_schema(schema)

    def _described(self, made: dict[str, Any], core: Any) -> dict[str, Any]:
        """Copy the texts on fields from a class's docstring to the schemas of these fields."""
        if "cls" not in core:
            return made
        forbids = core.get("config", {}).get("extra_fields_behavior") == "forbid"
        if forbids and "properties" in made and self.mode == "validation":
            made.setdefault("additionalProperties", False)
        doc = core["cls"].__doc__ or ""
        parsed = parse(doc)
        texts = {**parsed.attributes, **parsed.params}
        for name, field in made.get("properties", {}).items():
            if name in texts and isinstance(field, dict):
                field.setdefault("description", texts[name])
        if made.get("description") == cleandoc(doc):
            made["description"] = parsed.summary
        return {key: value for key, value in made.items() if key != "description" or value}

    def _key_text(self, schema: Any) -> dict[str, Any]:
        """Return the JSON Schema of a key type's texts, or an empty schema if it is unknown."""
        if isinstance(ref := schema.get("$ref"), str):
            target = self.get_schema_from_definitions(JsonRef(ref))
            kept = target is None or target.get("type") == "string"
            return dict(schema) if kept else self._key_text(target)
        if members := schema.get("anyOf") or schema.get("oneOf"):
            texts = [self._key_text(member) for member in members]
            return {"anyOf": texts} if all(texts) else {}
        if (choices := values_of(schema)) is not None:
            return {"type": "string", "enum": [*map(key_text, choices)]}
        kind = schema.get("type")
        if kind == "boolean":
            return {"type": "string", "enum": ["true", "false"]}
        if kind not in ("integer", "number"):
            return dict(schema) if kind == "string" else {}
        bounds = {word: schema.get(word) for word in _BOUNDS}
        pattern = _INTEGER if kind == "integer" else _NUMBER
        return {"type": "string", "pattern": pattern, **_bounds_text(bounds)}


def require_tags(root: dict[str, Any]) -> None:
    """Require the tag in the members of each tagged union, as pydantic does despite a default."""
    for union in walk(root) if "$defs" in root else ():  # The members are classes.
        about, todo = union.get("discriminator"), [union]
        tag = about.get("propertyName") if isinstance(about, dict) else None
        while tag and todo:
            part: Any = todo.pop()
            part = lookup(root, part["$ref"]) if "$ref" in part else part
            todo += part.get("oneOf", ())  # A member may be a union itself.
            if tag in part.get("properties", ()):
                part["required"] = [*dict.fromkeys((tag, *part.get("required", ())))]
                part["properties"][tag].pop("default", None)


def _bounds_text(bounds: dict[str, Any]) -> dict[str, str]:
    """Return a description of bounds that a pattern cannot express."""
    texts = [f"{word}: {bound}" for word, bound in bounds.items() if bound is not None]
    return {"description": "; ".join(texts)} if texts else {}


def key_text(choice: Any) -> str:
    """Return the text that stands for a choice where it is the key of a JSON object."""
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def default_form(value: Any, plain: Any) -> Any:
    """Return `plain`, the JSON form of a default `value`, with its sets in order.

    Raises:
        ValueError: JSON cannot express it, such as infinity.
    """
    _order_sets(value, plain)
    # Both, because pydantic may encode infinity inside of a list as null.
    return from_json(to_json([plain, value], fallback=str), allow_inf_nan=False)[0]


def _order_sets(value: Any, plain: Any) -> None:
    """Sort the lists that were sets in `plain`, the JSON form of a value.

    The order of texts in a set differs from process to process.
    """
    if not isinstance(plain, (dict, list)):
        return
    # `RootModel` is not imported for this: pydantic would build a validator for it at each start.
    while getattr(type(value), "__pydantic_root_model__", False):
        value = value.root
    if is_dataclass(value):  # Also one of pydantic, which may have slots.
        parts: Iterable[Any] = [getattr(value, own.name) for own in fields(value)]
    elif hasattr(type(value), "__pydantic_fields__"):
        parts = vars(value).values()
    elif isinstance(value, (dict, list, tuple, set, frozenset)):
        parts = value.values() if isinstance(value, dict) else value
    else:
        return
    inner = plain.values() if isinstance(plain, dict) else plain
    # A model may leave fields out, or write its own JSON. Then a part stands beside another's form.
    was_set = isinstance(value, (set, frozenset))
    was_set = was_set and plain == from_json(to_json(value, fallback=str))
    for part, form in zip(parts, inner, strict=False):
        _order_sets(part, form)
    if was_set and isinstance(plain, list):
        plain.sort(key=to_json)
