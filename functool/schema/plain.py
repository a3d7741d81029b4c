"""pydantic's JSON Schema, made plain, and true where pydantic's says more than it knows."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic.json_schema import GenerateJsonSchema


class PlainJsonSchema(GenerateJsonSchema):
    """pydantic's JSON Schema without titles that only repeat a name, fields that nobody can set, and warnings about what it leaves out."""

    def field_is_present(self, field: Any) -> bool:
        """Leave out what no caller can set."""
        return super().field_is_present(field) and (
            self.mode == "serialization" or field.get("init", True)
        )

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Set no titles."""
        return False

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Say the keys as the texts that they are in JSON, also those of an enumeration of numbers."""
        made = super().dict_schema(schema)
        ref = made.get("propertyNames", {}).get("$ref")
        keys = self.get_schema_from_definitions(ref) if ref else None
        if keys and "enum" in keys and keys.get("type") != "string":
            made["propertyNames"] = {"type": "string", "enum": [*map(str, keys["enum"])]}
        return made

    def ser_schema(self, schema: Any) -> dict[str, Any] | None:
        """Promise nothing for a serializer that does not say what it returns."""
        mute = (
            schema["type"] in ("function-plain", "function-wrap")
            and schema.get("return_schema") is None
        )
        # Those of pydantic's own, for a path say, give what the schema of the type says.
        return (
            {}
            if mute
            and not f"{getattr(schema['function'], '__module__', '')}".startswith("pydantic.")
            else super().ser_schema(schema)
        )

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Keep silent: what is left out stands in no schema."""
        return


def choices_by_key(core: Any) -> dict[str, Any]:
    """Map the texts that stand for the choices of a core schema where it is that of keys, which are always texts, to these choices."""
    choices = [*core.get("expected", ()), *(member.value for member in core.get("members", ()))]
    return {str(choice): choice for choice in choices if not isinstance(choice, (str, Enum))}
