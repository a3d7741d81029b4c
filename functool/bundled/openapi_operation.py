"""One operation of an OpenAPI document: what a model is told of it, and what it means on the wire."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from functool import DefinitionError
from functool.bundled.openapi_document import Document, mapping, sequence
from functool.bundled.openapi_schema import MAX_NODES, Schemas, shortened, weight

MAX_NAME = 64
MAX_OUTPUT_NODES = 4_000
BODY = "body"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
# A model must not set what frames the message, says who is asking, or is sent by every client
# anyway.
RESERVED_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
    }
    | {
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE = re.compile(r"\{([^{}/]*)\}")
_FILE_TEXT = "Text, or for bytes a data: URL with base64."


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter: the `argument` that a model gives, and how it is written into the request."""

    argument: str
    name: str
    place: str
    style: str
    explode: bool
    reserved: bool
    as_json: bool
    required: bool
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A request body, always the argument `body`.

    `encoding` says how the fields of a form are written.
    """

    media_type: str
    required: bool
    schema: dict[str, Any]
    files: frozenset[str] = frozenset()
    encoding: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """All that a tool needs to know.

    `security` lists the alternatives, each a tuple of names of security schemes.
    """

    name: str
    method: str
    path: str
    description: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    server: str
    security: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]
    schema: dict[str, Any]
    output: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An operation that has not been looked at yet.

    `read` raises a `DefinitionError` if it cannot be a tool.
    """

    name: str
    operation_id: str
    method: str
    path: str
    read: Callable[[], Operation]


def operations(document: Document) -> Iterator[Listed]:
    """Yield every operation in the order of the document, under names that are valid and unique."""
    reader = _Reader(document)
    taken: set[str] = set()
    for path, method, item, node in document.operations():
        name = _unique(_operation_name(path, method, node), taken)
        taken.add(name)
        yield Listed(
            name=name,
            operation_id=str(node.get("operationId") or name),
            method=method.upper(),
            path=path,
            read=partial(reader.operation, name, path, method, item, node),
        )


def security_schemes(document: Document) -> dict[str, dict[str, Any]]:
    """Return the security schemes of a document by name."""
    schemes = mapping(mapping(document.root.get("components")).get("securitySchemes"))
    return {name: mapping(document.resolve(scheme)) for name, scheme in schemes.items()}


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._requests = Schemas(document, "readOnly")
        self._responses = Schemas(document, "writeOnly")
        # What a security scheme sends is the host's to give, also where the document lists it as a
        # parameter.
        self._keys = {
            (str(scheme.get("in")), str(scheme.get("name")).lower())
            for scheme in security_schemes(document).values()
            if scheme.get("type") == "apiKey"
        }

    def operation(
        self, name: str, path: str, method: str, item: dict[str, Any], node: dict[str, Any]
    ) -> Operation:
        if not path.startswith("/") or any(part in (".", "..") for part in path.split("/")):
            raise DefinitionError("the path does not begin with a slash, or has a '..' in it")
        body = self._body(node)
        parameters = self._parameters(path, item, node)
        root: dict[str, Any] = {
            "type": "object",
            "properties": {p.argument: p.schema for p in parameters},
        }
        required = [p.argument for p in parameters if p.required]
        if body is not None:
            root["properties"][BODY] = body.schema
            required += [BODY] if body.required else []
        root |= {"required": required} if required else {}
        if weight(root) > MAX_NODES:
            raise DefinitionError(
                f"it takes more than {MAX_NODES:,} values to describe its arguments"
            )
        schema, _ = self._requests.with_definitions({**root, "additionalProperties": False})
        texts = [str(node.get(word) or "").strip() for word in ("summary", "description")]
        return Operation(
            name=name,
            method=method.upper(),
            path=path,
            description=shortened(
                "\n\n".join(dict.fromkeys(filter(None, texts))) or f"{method.upper()} {path}"
            ),
            parameters=parameters,
            body=body,
            server=_server(node, item, self._document.root),
            security=_security(node, self._document.root),
            tags=tuple(tag for tag in sequence(node.get("tags")) if isinstance(tag, str)),
            schema=schema,
            output=self._output(node),
        )

    def _parameters(
        self, path: str, item: dict[str, Any], node: dict[str, Any]
    ) -> tuple[Parameter, ...]:
        """Those of the path item, those of the operation, which count more, and those that only the path names."""
        found: dict[tuple[str, str], Parameter] = {}
        for entry in (*sequence(item.get("parameters")), *sequence(node.get("parameters"))):
            parameter = self._parameter(mapping(self._document.resolve(entry)))
            if parameter is not None:
                found[parameter.place, parameter.name] = parameter
        for name in _VARIABLE.findall(path):
            found.setdefault(("path", name), _path_parameter(name))
        named = set(_VARIABLE.findall(path))
        taken = {BODY}
        parameters = []
        for parameter in found.values():
            if parameter.place == "path" and parameter.name not in named:
                continue
            stem = _UNFIT.sub("_", parameter.name).strip("_")[:MAX_NAME] or "argument"
            argument = _unique(stem if stem not in taken else f"{stem}_{parameter.place}", taken)
            taken.add(argument)
            parameters.append(replace(parameter, argument=argument))
        return tuple(parameters)

    def _parameter(self, node: dict[str, Any]) -> Parameter | None:
        """Read a parameter; None for one that is not a model's to give."""
        name, place = node.get("name"), str(node.get("in"))
        if not isinstance(name, str) or place not in STYLES or (place, name.lower()) in self._keys:
            return None
        if place == "header" and name.lower() in RESERVED_HEADERS:
            return None
        if place in ("header", "cookie") and not TOKEN.fullmatch(name):
            raise DefinitionError(
                f"the {place} parameter {name[:100]!r} has a name that cannot be sent"
            )
        style = node.get("style") if isinstance(node.get("style"), str) else STYLES[place]
        content = mapping(node.get("content"))
        media = mapping(next(iter(content.values()), None)) if content else node
        schema = self._requests.convert(media.get("schema"))
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
            schema=_described(schema, node),
        )

    def _body(self, node: dict[str, Any]) -> Body | None:
        body = mapping(self._document.resolve(node.get("requestBody")))
        content = mapping(body.get("content"))
        if not content:
            return None
        media_type = min(content, key=_preference)
        if not (media_type.isascii() and media_type.isprintable()):
            raise DefinitionError(
                f"the body has a media type that cannot be sent: {media_type[:100]!r}"
            )
        media = mapping(content[media_type])
        schema = (
            self._document.resolve(media.get("schema"))
            if media_type == MULTIPART
            else media.get("schema")
        )
        files = self._files(schema) if media_type == MULTIPART else frozenset()
        converted = self._requests.convert(schema)
        if media_type == MULTIPART:
            converted = _with_files(converted, files)
        elif not (is_json(media_type) or media_type in (FORM, MULTIPART)):
            converted = {"type": "string", "description": f"{media_type}. {_FILE_TEXT}"}
        return Body(
            media_type=media_type,
            required=body.get("required") is True,
            schema=_described({"description": "The body of the request.", **converted}, body),
            files=files,
            encoding=mapping(media.get("encoding")),
        )

    def _files(self, schema: Any) -> frozenset[str]:
        """The names of the fields that are files, or lists of files."""
        properties = mapping(mapping(schema).get("properties"))
        return frozenset(name for name, part in properties.items() if self._is_file(part))

    def _is_file(self, schema: Any) -> bool:
        part = mapping(self._document.resolve(schema))
        if part.get("type") == "array":
            part = mapping(self._document.resolve(part.get("items")))
        return part.get("format") == "binary" or (
            "contentMediaType" in part and "contentEncoding" not in part
        )

    def _output(self, node: dict[str, Any]) -> dict[str, Any] | None:
        """The schema of the JSON that a success brings, where the document says it, in a size that is of use."""
        responses = mapping(node.get("responses"))
        for status in sorted(
            status for status in responses if re.fullmatch(r"2[0-9X][0-9X]", status.upper())
        ):
            try:
                content = mapping(mapping(self._document.resolve(responses[status])).get("content"))
            except DefinitionError:
                continue
            for media_type, media in content.items():
                if is_json(media_type) and isinstance(mapping(media).get("schema"), dict):
                    converted = self._responses.convert(media["schema"])
                    schema, whole = self._responses.with_definitions(converted, MAX_OUTPUT_NODES)
                    return schema if whole else None
        return None


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


def _described(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Describe an argument. Its default is told and not sent: it is the server's to fill in."""
    texts = [node.get("description"), schema.get("description")]
    said = [text.strip() for text in texts if isinstance(text, str) and text.strip()][:1]
    if schema.get("default") is not None:
        said.append(f"Default: {str(schema['default'])[:200]}.")
    if node.get("deprecated") is True:
        said.append("Deprecated.")
    rest = {key: value for key, value in schema.items() if key not in ("default", "description")}
    return {**rest, "description": shortened(" ".join(said))} if said else rest


def _with_files(schema: dict[str, Any], files: frozenset[str]) -> dict[str, Any]:
    properties = dict(mapping(schema.get("properties")))
    for name in files & properties.keys():
        said = str(properties[name].get("description") or "").strip()
        properties[name] = {**properties[name], "description": f"{said} {_FILE_TEXT}".strip()}
    return {**schema, "properties": properties} if properties else schema


def _operation_name(path: str, method: str, node: dict[str, Any]) -> str:
    given = node.get("operationId")
    name = _UNFIT.sub("_", given).strip("_") if isinstance(given, str) else ""
    return (name or _UNFIT.sub("_", f"{method}{path}").strip("_"))[:MAX_NAME]


def _unique(stem: str, taken: set[str]) -> str:
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem[: MAX_NAME - len(str(count)) - 1]}_{count}"
    return name


def _preference(media_type: str) -> tuple[int, str]:
    order = (
        is_json(media_type),
        media_type == FORM,
        media_type == MULTIPART,
        media_type.startswith("text/"),
    )
    return next((at for at, found in enumerate(order) if found), len(order)), media_type


def is_json(media_type: str) -> bool:
    """Whether a content type is JSON, or anything at all."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json") or kind == "*/*"


def _server(*nodes: dict[str, Any]) -> str:
    """The URL of the nearest first server, its variables filled in with their defaults."""
    for node in nodes:
        for server in map(mapping, sequence(node.get("servers"))):
            variables = mapping(server.get("variables"))
            filled = str(server.get("url") or "")
            for name in _VARIABLE.findall(filled):
                filled = filled.replace(
                    f"{{{name}}}", str(mapping(variables.get(name)).get("default", ""))
                )
            return filled
    return "/"


def _security(*nodes: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    for node in nodes:
        if isinstance(node.get("security"), list):
            return tuple(tuple(mapping(entry)) for entry in node["security"])
    return ()
