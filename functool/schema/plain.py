"""pydantic's JSON Schema, made plain, and true where pydantic's says more than it knows."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema


class PlainJsonSchema(GenerateJsonSchema):
    """Writes JSON Schema as pydantic does, with three things left out.

    These are titles that only repeat a name, fields that nobody can set, and warnings.
    """

    def field_is_present(self, field: Any) -> bool:
        """Leave out what no caller can set."""
        return super().field_is_present(field) and (
            self.mode == "serialization" or field.get("init", True)
        )

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Set no titles."""
        return False

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Write keys as the texts that they are in JSON, also those of an Enum of numbers."""
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
