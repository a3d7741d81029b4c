"""Read one operation of an OpenAPI document: what the model reads, and what is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from functool import DefinitionError
from functool.bundled.http_body import media_type as kind_of
from functool.bundled.openapi_document import METHODS, Document, mapping, sequence
from functool.bundled.openapi_files import Files
from functool.bundled.openapi_names import UniqueNames, valid_name
from functool.bundled.openapi_parameters import BODY, VARIABLE, Parameter, Parameters, described
from functool.bundled.openapi_schema import MAX_NODES, Schemas, shortened, weight

MAX_OUTPUT_NODES = 4_000
MAX_SERVER = 2_000
"""Characters of a server's URL."""

PARAMETER_SIZE = 400
"""How many characters a parameter counts in addition to its schema."""

MAX_ALTERNATIVES = 100
"""How many ways to sign in one operation may have, and how many schemes each way."""

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

NOTHING = {"type": "null"}
_T = TypeVar("_T")
_FILE_TEXT = "Text, or for bytes a data: URL with base64."


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A request body. Its argument is always `body`.

    `encoding` says how the fields of a form are written.
    """

    media_type: str
    required: bool
    schema: dict[str, Any]
    files: frozenset[str] = frozenset()
    encoding: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Everything that a tool needs to know of an operation.

    `security` lists the alternatives. Each is a tuple of names of security schemes.
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
    """An operation that has not been read yet.

    `read` raises a `DefinitionError` if the operation cannot be a tool.
    """

    name: str
    operation_id: str
    method: str
    path: str
    read: Callable[[], Operation]


def size_of(operation: Operation) -> int:
    """Return how many characters of JSON describe an operation, including its definitions."""
    schemas = len(json.dumps([operation.schema, operation.output]))
    return schemas + PARAMETER_SIZE * len(operation.parameters)


def operations(document: Document) -> Iterator[Listed]:
    """Yield every operation in the order of the document, with valid and unique names.

    A path whose reference leads nowhere is listed as one operation with the method `*`.
    """
    reader = _Reader(document)
    names = UniqueNames()
    for path, entry in document.paths():
        try:
            item = mapping(document.resolve(entry))
        except DefinitionError as error:
            name = names.take(valid_name(f"path{path}"))
            read = partial(_raise, str(error))
            yield Listed(name=name, operation_id=name, method="*", path=path, read=read)
            continue
        for method in METHODS:
            node = item.get(method)
            if not isinstance(node, dict):
                continue
            given = node.get("operationId")
            name = names.take(_operation_name(path, method, given))
            yield Listed(
                name=name,
                operation_id=given if isinstance(given, str) and given else name,
                method=method.upper(),
                path=path,
                read=partial(reader.operation, name, path, method, item, node),
            )


def _raise(message: str) -> Operation:
    raise DefinitionError(message)


class _Answer(NamedTuple):
    schema: dict[str, Any]
    text: str
    size: int


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._requests = Schemas(document, "readOnly")
        self._responses = Schemas(document, "writeOnly")
        self._parameters = Parameters(document, self._requests)
        self._made: dict[tuple[str, int], Any] = {}
        self._files = Files(document)

    def operation(
        self, name: str, path: str, method: str, item: dict[str, Any], node: dict[str, Any]
    ) -> Operation:
        """Read an operation.

        Raises:
            DefinitionError: The operation cannot be a tool.
        """
        if not path.startswith("/") or any(part in (".", "..") for part in path.split("/")):
            raise DefinitionError("the path does not begin with a slash, or has a '..' in it")
        body = self._once(self._body, mapping(self._document.resolve(node.get("requestBody"))))
        parameters = self._parameters.read(path, item, node)
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
        return Operation(
            name=name,
            method=method.upper(),
            path=path,
            description=self._once(_description, node) or shortened(f"{method.upper()} {path}"),
            parameters=parameters,
            body=body,
            server=_server(node, item, self._document.root),
            security=_security(node, self._document.root),
            tags=self._once(_tags, node),
            schema=schema,
            output=self._once(self._output, node),
        )

    def _once(self, make: Callable[[dict[str, Any]], _T], node: dict[str, Any]) -> _T:
        """Return `make(node)`. It is called once for each node, as many paths may refer to one."""
        key = (make.__name__, id(node))  # The document keeps its nodes, so an id stays unique.
        if key not in self._made:
            self._made[key] = make(node)
        made: _T = self._made[key]
        return made

    def _body(self, body: dict[str, Any]) -> Body | None:
        content = mapping(body.get("content"))
        if not content:
            return None
        media_type = min(content, key=_preference)
        if not (media_type.isascii() and media_type.isprintable()):
            raise DefinitionError(
                f"the body has a media type that cannot be sent: {media_type[:100]!r}"
            )
        media, kind = mapping(content[media_type]), kind_of(media_type)
        schema = (
            self._document.resolve(media.get("schema"))
            if kind == MULTIPART
            else media.get("schema")
        )
        files = self._files.of(schema) if kind == MULTIPART else frozenset()
        converted = self._requests.convert(schema)
        if kind == MULTIPART:
            converted = _with_files(converted, files)
        elif not (is_json(media_type) or kind == FORM):
            converted = {"type": "string", "description": f"{media_type}. {_FILE_TEXT}"}
        made = described({"description": "The body of the request.", **converted}, body)
        if inside := sorted(files - mapping(mapping(schema).get("properties")).keys()):
            text = f"Files: {', '.join(inside)}. {_FILE_TEXT} {made.get('description', '')}"
            made["description"] = shortened(text)
        return Body(
            media_type=media_type,
            required=body.get("required") is True,
            schema=made,
            files=files,
            encoding=mapping(media.get("encoding")),
        )

    def _output(self, node: dict[str, Any]) -> dict[str, Any] | None:
        """Return the schema of the successful answers, or None if one has no schema."""
        responses = mapping(node.get("responses"))
        found: dict[str, dict[str, Any]] = {}
        left = MAX_OUTPUT_NODES
        for status in sorted(
            status for status in responses if re.fullmatch(r"2[0-9X][0-9X]", status.upper())
        ):
            try:
                response = mapping(self._document.resolve(responses[status]))
            except DefinitionError:
                return None
            answer = self._once(self._answer, response)
            if answer is None:
                return None
            left -= 0 if answer.text in found else answer.size
            if left < 0:
                return None
            found[answer.text] = answer.schema
        if not found or list(found.values()) == [NOTHING]:
            return None
        several = [*found.values()]
        schema, complete = self._responses.with_definitions(
            several[0] if len(several) == 1 else {"anyOf": several}, MAX_OUTPUT_NODES
        )
        return schema if complete else None

    def _answer(self, response: dict[str, Any]) -> _Answer | None:
        """Return the schema of an answer, or None if it has none, or a large one.

        An answer without content is null.
        """
        content = mapping(response.get("content"))
        kinds = (mapping(media).get("schema") for kind, media in content.items() if is_json(kind))
        schema = next((one for one in kinds if isinstance(one, dict)), None)
        if content and schema is None:
            return None
        converted = self._responses.convert(schema) if content else NOTHING
        size = weight(converted)
        if size > MAX_OUTPUT_NODES:
            return None
        return _Answer(converted, json.dumps(converted, sort_keys=True), size)


def _description(node: dict[str, Any]) -> str:
    given = [node.get(word) for word in ("summary", "description")]
    texts = [shortened(str(text)) for text in given if isinstance(text, (str, int, float))]
    return shortened("\n\n".join(dict.fromkeys(filter(None, texts))))


def _tags(node: dict[str, Any]) -> tuple[str, ...]:
    return tuple(tag for tag in sequence(node.get("tags")) if isinstance(tag, str))


def _with_files(schema: dict[str, Any], files: frozenset[str]) -> dict[str, Any]:
    properties = dict(mapping(schema.get("properties")))
    for name in files & properties.keys():
        text = str(properties[name].get("description") or "").strip()
        properties[name] = {**properties[name], "description": f"{text} {_FILE_TEXT}".strip()}
    return {**schema, "properties": properties} if properties else schema


def _operation_name(path: str, method: str, given: Any) -> str:
    name = valid_name(given) if isinstance(given, str) else ""
    return name or valid_name(f"{method}{path}")


def _preference(media_type: str) -> tuple[int, str]:
    kind = kind_of(media_type)
    order = (
        kind == "application/json",
        # A JSON Patch is a list. Kubernetes describes it as an object, as it does other patches.
        is_json(media_type) and "json-patch" not in media_type,
        is_json(media_type),
        kind == FORM,
        kind == MULTIPART,
        kind.startswith("text/"),
    )
    return next((at for at, found in enumerate(order) if found), len(order)), media_type


def is_json(media_type: str) -> bool:
    """Whether a content type is JSON, or the pattern for any type."""
    kind = kind_of(media_type)
    return kind == "application/json" or kind.endswith("+json") or kind == "*/*"


def _server(*nodes: dict[str, Any]) -> str:
    """Return the URL of the first server of the first node that has one, with default variables.

    It is empty if the URL is too long. Variables are replaced once. A default that contains another
    variable is not replaced again.
    """
    for node in nodes:
        for server in map(mapping, sequence(node.get("servers"))):
            url = server.get("url")
            if not isinstance(url, str) or len(url) > MAX_SERVER:
                return ""
            variables = mapping(server.get("variables"))
            parts = VARIABLE.split(url)
            for at in range(1, len(parts), 2):
                parts[at] = _default(mapping(variables.get(parts[at])))
            return "".join(parts) if sum(map(len, parts)) <= MAX_SERVER else ""
    return "/"


def _default(variable: dict[str, Any]) -> str:
    found = variable.get("default")
    return str(found) if isinstance(found, (str, int, float)) else ""


def _security(*nodes: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    for node in nodes:
        listed = node.get("security")
        if not isinstance(listed, list):
            continue
        entries = [mapping(entry) for entry in listed[: MAX_ALTERNATIVES + 1]]
        if max([len(entries), *map(len, entries)]) > MAX_ALTERNATIVES:
            raise DefinitionError(f"its security lists more than {MAX_ALTERNATIVES} alternatives")
        return tuple(map(tuple, entries))
    return ()
