"""JSON Schemas in a word each, for the tests that write down many of them."""

from typing import Any

INT, NUM = {"type": "integer"}, {"type": "number"}
STR, BOOL, NULL = {"type": "string"}, {"type": "boolean"}, {"type": "null"}
MAYBE_INT, MAYBE_STR = {"type": ["integer", "null"]}, {"type": ["string", "null"]}


def array(items: Any, **more: Any) -> dict[str, Any]:
    """A list of such items."""
    return {"type": "array", "items": items, **more}


def obj(properties: Any, **more: Any) -> dict[str, Any]:
    """An object with these properties."""
    return {"type": "object", "properties": properties, **more}


def dict_of(values: Any, **more: Any) -> dict[str, Any]:
    """An object of any names, with such values."""
    return {"type": "object", "additionalProperties": values, **more}


def any_of(*members: Any, **more: Any) -> dict[str, Any]:
    """What one of the members takes."""
    return {"anyOf": [*members], **more}


def ref(name: str, **more: Any) -> dict[str, Any]:
    """A reference to a definition."""
    return {"$ref": f"#/$defs/{name}", **more}


def tuple_of(*items: Any, **more: Any) -> dict[str, Any]:
    """A list whose items are described one by one."""
    return {"type": "array", "prefixItems": [*items], **more}
