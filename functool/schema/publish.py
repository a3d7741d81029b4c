"""Build the published schema of a tool: the plain form, or the strict form and its codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from functool.call import ToolSchema
from functool.errors import DefinitionError
from functool.schema.strict import Codec, codec

Strict: TypeAlias = bool | Literal["refuse"]


def publish(
    name: str,
    description: str,
    plain: dict[str, Any],
    strict: Strict,
    output: Mapping[str, Any] | None,
    rest: str = "",
) -> tuple[ToolSchema, Codec | None]:
    """Return the schema of a tool and, if `strict` is set, the codec of its arguments.

    Raises:
        SchemaError: The arguments have no strict form, or they would need an encoding and `strict`
            is `"refuse"`.
        DefinitionError: `strict` is not False, True or `"refuse"`.
    """
    if strict not in (False, True, "refuse"):
        raise DefinitionError(f'strict must be False, True or "refuse", not {strict!r}')
    coder = codec(plain, refuse=strict == "refuse", rest=rest) if strict else None
    schema = ToolSchema(name=name, description=description, parameters=plain, plain=plain)
    schema.output = None if output is None else dict(output)
    if coder is not None:
        schema.parameters, schema.strict = coder.schema, True
    return schema, coder
