"""pydantic's JSON Schema, made plain, and exact where pydantic's is not what it checks."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonRef
from pydantic_core import core_schema

from functool.schema.docstrings import parse

# Numbers as texts. All that fits is accepted; pydantic takes a little more, such as blanks around.
_INTEGER = r"^-?[0-9]+$"
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_DECIMAL_BOUNDS = {
    **dict(zip(("ge", "le", "gt", "lt", "multiple_of"), _BOUNDS, strict=True)),
    "max_digits": "most digits",
    "decimal_places": "most decimal places",
}


class PlainJsonSchema(GenerateJsonSchema):
    """Writes JSON Schema as pydantic does, with three things left out.

    These are titles that only repeat a name, fields that nobody can set, and warnings.
    """

    def field_is_present(self, field: Any) -> bool:
        """Leave out what no caller can set."""
        settable = self.mode == "serialization" or field.get("init", True)
        return super().field_is_present(field) and settable

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Set no titles."""
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Close a model whose core schema refuses unknown names, and describe its fields."""
        return self._described(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """Close a dataclass whose core schema refuses unknown names, and describe its fields."""
        return self._described(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        """Describe the keys of a TypedDict."""
        return self._described(super().typed_dict_schema(schema), schema)

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Write keys as the texts that they are in JSON."""
        return self._with_keys(super().dict_schema(schema), schema)

    def ordered_dict_schema(self, schema: Any) -> dict[str, Any]:
        """Write an `OrderedDict`, and a `Counter`, like a dict."""
        return self.dict_schema(schema)

    counter_schema = ordered_dict_schema

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """Write the text of a decimal as it is checked."""
        made = super().decimal_schema(schema)
        for member in made.get("anyOf", [made]):
            if member.get("type") == "string" and not schema.get("allow_inf_nan"):
                bounds = {said: schema.get(word) for word, said in _DECIMAL_BOUNDS.items()}
                member.update({"pattern": _DECIMAL, **_said(bounds)})
        return made

    def ser_schema(self, schema: Any) -> dict[str, Any] | None:
        """Promise nothing for a serializer that does not say what it returns."""
        written = schema["type"] in ("function-plain", "function-wrap")
        if written and schema.get("return_schema") is None:
            # Those of pydantic's own, for a path say, give what the schema of the type says.
            module = getattr(schema["function"], "__module__", None)
            if not f"{module or ''}".startswith("pydantic."):
                return {}
        return super().ser_schema(schema)

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Keep silent: what is left out stands in no schema."""
        return

    def _described(self, made: dict[str, Any], core: Any) -> dict[str, Any]:
        """Move what a class's docstring says of its fields to their schemas."""
        forbids = core.get("config", {}).get("extra_fields_behavior") == "forbid"
        if forbids and "properties" in made and self.mode == "validation":
            made.setdefault("additionalProperties", False)
        doc = getattr(core.get("cls"), "__doc__", None) or ""
        said = parse(doc)
        texts = {**said.attributes, **said.params}
        for name, field in made.get("properties", {}).items():
            if name in texts and isinstance(field, dict):
                field.setdefault("description", texts[name])
        if made.get("description") == cleandoc(doc):
            made["description"] = said.summary
        return {key: value for key, value in made.items() if key != "description" or value}

    def _with_keys(self, made: dict[str, Any], core: Any) -> dict[str, Any]:
        # pydantic writes a pattern of keys as `patternProperties`, which admit any other name.
        for value in made.pop("patternProperties", {}).values():
            made["additionalProperties"] = value or True
        names = self._key_text(
            self.generate_inner(core.get("keys_schema", core_schema.any_schema()))
        )
        made.pop("propertyNames", None)
        return {**made, "propertyNames": names} if names.keys() - {"type", "title"} else made

    def _key_text(self, schema: Any) -> dict[str, Any]:
        """Return the JSON Schema of the texts that are keys of a type; an empty one if unknown."""
        if isinstance(ref := schema.get("$ref"), str):
            target = self.get_schema_from_definitions(JsonRef(ref))
            kept = target is None or target.get("type") == "string"
            return dict(schema) if kept else self._key_text(target)
        if members := schema.get("anyOf") or schema.get("oneOf"):
            texts = [self._key_text(member) for member in members]
            return {"anyOf": texts} if all(texts) else {}
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if choices is not None:
            return {"type": "string", "enum": [*map(_as_key, choices)]}
        kind = schema.get("type")
        if kind == "boolean":
            return {"type": "string", "enum": ["true", "false"]}
        if kind not in ("integer", "number"):
            return dict(schema) if kind == "string" else {}
        bounds = {word: schema.get(word) for word in _BOUNDS}
        pattern = _INTEGER if kind == "integer" else _NUMBER
        return {"type": "string", "pattern": pattern, **_said(bounds)}


def _said(bounds: dict[str, Any]) -> dict[str, str]:
    """Return a description of what a pattern cannot say."""
    texts = [f"{word}: {bound}" for word, bound in bounds.items() if bound is not None]
    return {"description": "; ".join(texts)} if texts else {}


def _as_key(choice: Any) -> str:
    return str(choice).lower() if isinstance(choice, bool) else str(choice)
