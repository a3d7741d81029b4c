"""Read the parameters of an operation: which arguments a model gives, and how they are sent."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from functool import DefinitionError
from functool.bundled.openapi_document import Document, mapping, security_schemes, sequence
from functool.bundled.openapi_names import TOKEN, UniqueNames, is_reserved, spellings, valid_name
from functool.bundled.openapi_schema import Schemas, shortened

MAX_PARAMETERS = 1_000
BODY = "body"
"""The argument that is the body of a request. No parameter gets this name."""

STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
VARIABLE = re.compile(r"\{([^{}/]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter: the name of its argument, and how its value is written into the request."""

    argument: str
    name: str
    place: str
    style: str
    explode: bool
    reserved: bool
    as_json: bool
    required: bool
    schema: dict[str, Any]


class Parameters:
    """Read the parameters of operations.

    Args:
        document: The document, which resolves references.
        schemas: Converts the schemas of the parameters.
    """

    def __init__(self, document: Document, schemas: Schemas) -> None:
        self._document = document
        self._schemas = schemas
        # The key is the id of the node, which the document keeps. Many paths may refer to one node.
        self._known: dict[int, Parameter | None] = {}
        # Only the host gives the value of a security scheme, also where the document lists it as a
        # parameter.
        self._keys = {
            (scheme.get("in"), spelling)
            for scheme in security_schemes(document).values()
            if scheme.get("type") == "apiKey" and isinstance(scheme.get("in"), str)
            for spelling in spellings(str(scheme.get("name")))
        }

    def read(self, path: str, item: dict[str, Any], node: dict[str, Any]) -> tuple[Parameter, ...]:
        """Return the parameters of the path item, the operation, and the template of the path.

        A parameter of the operation replaces one of the path item.

        Raises:
            DefinitionError: There are too many parameters, or one cannot be used.
        """
        found: dict[tuple[str, str], Parameter] = {}
        entries = (*sequence(item.get("parameters")), *sequence(node.get("parameters")))
        if len(entries) > MAX_PARAMETERS:
            raise DefinitionError(f"it has more than {MAX_PARAMETERS:,} parameters")
        for entry in entries:
            node = mapping(self._document.resolve(entry))
            if id(node) not in self._known:
                self._known[id(node)] = self._parameter(node)
            parameter = self._known[id(node)]
            if parameter is not None:
                found[parameter.place, parameter.name] = parameter
        named = dict.fromkeys(VARIABLE.findall(path))
        for name in named:
            found.setdefault(("path", name), _path_parameter(name))
        names = UniqueNames({BODY})
        parameters = []
        for parameter in found.values():
            if parameter.place == "path" and parameter.name not in named:
                continue
            stem = valid_name(parameter.name) or "argument"
            argument = names.take(f"{stem}_{parameter.place}" if stem in names else stem)
            parameters.append(replace(parameter, argument=argument))
        return tuple(parameters)

    def _parameter(self, node: dict[str, Any]) -> Parameter | None:
        """Read a parameter. Return None for one that a model must not give."""
        name, place = node.get("name"), str(node.get("in"))
        if not isinstance(name, str) or place not in STYLES:
            return None
        if any((place, spelling) in self._keys for spelling in spellings(name)):
            return None
        if place == "header" and is_reserved(name):
            return None
        if place in ("header", "cookie") and not TOKEN.fullmatch(name):
            raise DefinitionError(
                f"the {place} parameter {name[:100]!r} has a name that cannot be sent"
            )
        style = node.get("style") if isinstance(node.get("style"), str) else STYLES[place]
        content = mapping(node.get("content"))
        media = mapping(next(iter(content.values()), None)) if content else node
        schema = self._schemas.convert(media.get("schema"))
        explode = node.get("explode")
        return Parameter(
            argument=name,
            name=name,
            place=place,
            style=str(style),
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            reserved=node.get("allowReserved") is True,
            as_json=bool(content),
            required=place == "path" or node.get("required") is True,
            schema=described(schema, node),
        )


def _path_parameter(name: str) -> Parameter:
    return Parameter(
        argument=name,
        name=name,
        place="path",
        style="simple",
        explode=False,
        reserved=False,
        as_json=False,
        required=True,
        schema={"type": "string"},
    )


def described(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Describe an argument, with its default in words. The server fills in the default itself."""
    texts = [node.get("description"), schema.get("description")]
    sentences = [text.strip() for text in texts if isinstance(text, str) and text.strip()][:1]
    if schema.get("default") is not None:
        sentences.append(f"Default: {str(schema['default'])[:200]}.")
    if node.get("deprecated") is True:
        sentences.append("Deprecated.")
    rest = {key: value for key, value in schema.items() if key not in ("default", "description")}
    return {**rest, "description": shortened(" ".join(sentences))} if sentences else rest
