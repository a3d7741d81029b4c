"""Make tools from an OpenAPI document, one for each operation.

    from functool.bundled.openapi import openapi_tools

    toolset = openapi_tools(
        text, base_url="https://api.example.com/v1", auth={"token": secret}, include=["list*"]
    )

A document is data that somebody else wrote. `docs/security.md` says what it can and cannot make a
tool do.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from urllib.parse import urljoin

from functool import Context, DefinitionError, Tool, ToolCall, ToolResult, Toolset, ToolSettings
from functool.bundled.addresses import UrlNotAllowed
from functool.bundled.http_body import (
    RequestFailed,
    ResponseTooLarge,
    content_of,
    http_error,
    media_type,
    text_of,
)
from functool.bundled.openapi_auth import Auth, Keyring
from functool.bundled.openapi_document import Document, Spec, read, security_schemes
from functool.bundled.openapi_operation import (
    Listed,
    Operation,
    is_json,
    operations,
    size_of,
)
from functool.bundled.openapi_request import UnsafeValue, prepare
from functool.bundled.openapi_wire import Answer, Client, Wire
from functool.json_values import paused_gc_if_long
from functool.large import LARGE, in_thread_if, is_large

__all__ = [
    "OpenAPITool",
    "RequestFailed",
    "ResponseTooLarge",
    "UnsafeValue",
    "UrlNotAllowed",
    "openapi_tools",
    "pin",
]

TIMEOUT = 60.0
"""Seconds for one call, including redirects and the body."""

MAX_LISTED = 20
"""How many operations an error names."""

MAX_GROWTH = 1_000
"""How many characters of JSON all tools may take together, for each value of the document."""

MAX_FAILING = 30.0
"""Seconds for all operations that cannot be tools. No other limit counts these operations."""

LEAST_SIZE, MOST_SIZE = 20_000_000, 400_000_000
"""Characters that all tools of a document may always take, and at most take."""

_Item = TypeVar("_Item", Listed, Operation)
_Made = TypeVar("_Made")


class OpenAPITool(Tool):
    """One operation of an API.

    Its arguments are the parameters of the operation, and `body` if the operation has one. One call
    is one request. The model asks for the next page of a long list with the parameters that the API
    has for it.

    Args:
        spec: The document, as for `openapi_tools`.
        operation: The operationId, or the name that the tool gets.
        client: An AsyncClient of httpx2 or httpx.
        base_url: The URL of the server. It is needed with `auth`.
        auth: The secrets of the security schemes.

    Raises:
        DefinitionError: The document or the operation cannot be used, or has no server.
    """

    def __init__(
        self,
        spec: Spec | Document,
        operation: str | Operation,
        *,
        client: Client | None = None,
        base_url: str | None = None,
        auth: Auth | Keyring | None = None,
    ) -> None:
        document = spec if isinstance(spec, Document) else read(spec)
        found = operation if isinstance(operation, Operation) else _named(document, operation)
        self._operation = found
        self._keyring = _keyring(auth, base_url, document)
        self._wire = Wire(
            _server(found, client, base_url), chosen=base_url is not None, client=client
        )
        super().__init__(
            name=found.name,
            description=found.description,
            parameters=found.schema,
            output=found.output,
            timeout=TIMEOUT,
            settings=ToolSettings(
                read_only=found.method in ("GET", "HEAD", "OPTIONS"),
                destructive=found.method == "DELETE",
                idempotent=found.method not in ("POST", "PATCH"),
                tags=found.tags,
            ),
        )

    async def run(self, call: ToolCall, context: Context[Any]) -> ToolResult:
        """Send the request, and return the answer of the server."""
        arguments = (
            call.arguments if isinstance(call.arguments, Mapping) else json.loads(call.arguments)
        )
        # In a thread if it is large: half a million items take seconds.
        request = await in_thread_if(is_large(call), prepare, self._operation, arguments)
        answer = await self._wire.send(
            request, await self._keyring.credentials(self._operation.security)
        )
        return await in_thread_if(len(answer.body) >= LARGE, _result, answer)


def openapi_tools(
    spec: Spec,
    *,
    client: Client | None = None,
    base_url: str | None = None,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    auth: Auth | None = None,
    pinned: Mapping[str, str] | None = None,
) -> Toolset:
    """Return a toolset with a tool for each operation of an OpenAPI document (3.0 and 3.1).

    Args:
        spec: The document as a mapping, or its text in JSON or YAML. Its references to other
            documents are not fetched.
        client: An AsyncClient of httpx2 or httpx. Its transport then decides which addresses are
            reached. Without a client, redirects to other hosts lead to public addresses only. Its
            own `params`, cookies and headers (but the user agent) are sent, too, in place of
            arguments of the same name. It keeps connections that belong to one event loop, and
            `call_sync` starts one for each call: then limit it with
            `httpx2.Limits(max_keepalive_connections=0)`.
        base_url: The URL that the paths are appended to. The default is the first server of the
            document; a relative one is joined to the client's own base URL. Always give it for a
            document that is not your own.
        include: Patterns of the operations to take (`list*`). They are matched against the
            operationId, the tool name and `GET /path`.
        exclude: Patterns of the operations to leave out.
        auth: The secret of each security scheme by its name: a text, a pair of user and password,
            or a function (sync or async) that returns one. If the document has one scheme, the
            secret alone is enough. It needs `base_url`, and is sent to that origin only.
        pinned: The result of `pin` from when you reviewed the document.

    Raises:
        DefinitionError: The document or one of its operations cannot be used, `include` matches
            nothing, or a pinned definition has changed.
    """
    document = read(spec)
    keyring = _keyring(auth, base_url, document)
    chosen = _each(_chosen(document, include, exclude), _reading(document))
    if pinned is not None:
        _check_pins(document, chosen, pinned)

    def made(one: Operation) -> OpenAPITool:
        return OpenAPITool(document, one, client=client, base_url=base_url, auth=keyring)

    return Toolset(_each(chosen, made))


def pin(
    spec: Spec, *, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
) -> dict[str, str]:
    """Return the fingerprint of every operation, by tool name.

    A fingerprint covers what the model reads, and what is sent where. Keep the fingerprints beside
    your code, and pass them to `openapi_tools(..., pinned=...)`. A definition that has changed
    since then is an error. An operation that cannot be a tool has no fingerprint.

    Args:
        spec: The document, as for `openapi_tools`.
        include: Patterns of the operations to take, as for `openapi_tools`.
        exclude: Patterns of the operations to leave out.

    Raises:
        DefinitionError: It is not an OpenAPI document, or describing its operations takes too much
            space or time.
    """
    document = read(spec)
    return _fingerprints(document, _usable(document, _chosen(document, include, exclude)))


def _chosen(
    document: Document, include: Iterable[str] | None, exclude: Iterable[str] | None
) -> list[Listed]:
    wanted, unwanted = _patterns(include), _patterns(exclude)
    unmatched = set(wanted)
    chosen = []
    for listed in operations(document):
        hits = {pattern for pattern in wanted if _matches(listed, pattern)}
        unmatched -= hits
        left_out = any(_matches(listed, pattern) for pattern in unwanted)
        if (include is None or hits) and not left_out:
            chosen.append(listed)
    if unmatched:
        raise DefinitionError(
            f"no operation of the document matches {', '.join(map(repr, sorted(unmatched)))}"
        )
    return chosen


def _each(found: Iterable[_Item], make: Callable[[_Item], _Made]) -> list[_Made]:
    """Make something from every operation. One error names all operations that fail."""
    made: list[_Made] = []
    broken: dict[str, list[str]] = {}
    for one in found:
        try:
            made.append(make(one))
        except _TooMuch:
            raise
        except DefinitionError as error:
            broken.setdefault(str(error), []).append(_place(one))
    if broken:
        problems = [f"{_listing(places)}: {error}" for error, places in broken.items()]
        raise DefinitionError(
            "operations that cannot be tools; exclude=[...] leaves them out:"
            f" {_listing(problems, '; ')}"
        )
    return made


class _TooMuch(DefinitionError):
    """All operations together are too large. No single one is to blame."""


def _place(one: Listed | Operation) -> str:
    return f"{one.name} ({one.method} {one.path[:100]})"


def _reading(document: Document) -> Callable[[Listed], Operation]:
    """Return a function that reads operations until they are too large together.

    Operations can refer to the same schema, and each tool gets a copy. So the tools of a short
    document can have any size.
    """
    left = most = min(max(document.size * MAX_GROWTH, LEAST_SIZE), MOST_SIZE)

    seconds_left = MAX_FAILING

    def reading(listed: Listed) -> Operation:
        nonlocal left, seconds_left
        if left < 0:
            raise _TooMuch(
                f"the operations before {_place(listed)} take more than {most:,} characters to"
                " describe: include fewer of them"
            )
        begun = time.monotonic()
        try:
            found = listed.read()
        except DefinitionError as error:
            seconds_left -= time.monotonic() - begun
            if seconds_left < 0:
                raise _TooMuch(
                    f"the operations up to {_place(listed)} that cannot be tools take too long to"
                    f" read, the last one because {error}: include fewer of them"
                ) from error
            raise
        left -= size_of(found)
        return found

    return reading


def _listing(texts: list[str], between: str = ", ") -> str:
    more = len(texts) - MAX_LISTED
    return between.join(texts[:MAX_LISTED]) + (f"{between}and {more:,} more" if more > 0 else "")


def _keyring(auth: Auth | Keyring | None, base_url: str | None, document: Document) -> Keyring:
    if isinstance(auth, Keyring):
        return auth
    if auth is not None and base_url is None:
        raise DefinitionError("auth needs base_url: the origin that the secrets may be sent to")
    return Keyring(auth, security_schemes(document))


def _server(operation: Operation, client: Client | None, base_url: str | None) -> str:
    """Return `base_url`, or the server of the document, joined to the client's base URL."""
    if base_url is not None:
        return base_url
    try:
        return urljoin(str(getattr(client, "base_url", None) or ""), operation.server)
    except ValueError:  # A host in brackets that is not an address. `Wire` refuses it.
        return operation.server


def _patterns(given: Iterable[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _matches(listed: Listed, pattern: str) -> bool:
    names = (listed.operation_id, listed.name, f"{listed.method} {listed.path}")
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)


def _named(document: Document, name: str) -> Operation:
    for listed in operations(document):
        if name in (listed.operation_id, listed.name):
            return listed.read()
    raise DefinitionError(f"the document has no operation {name!r}")


def _usable(document: Document, found: Iterable[Listed]) -> Iterator[Operation]:
    reading = _reading(document)
    for listed in found:
        try:
            yield reading(listed)
        except _TooMuch:
            raise
        except DefinitionError:
            continue


def _fingerprints(document: Document, found: Iterable[Operation]) -> dict[str, str]:
    schemes = security_schemes(document)
    return {one.name: _fingerprint(one, schemes) for one in found}


def _fingerprint(operation: Operation, schemes: Mapping[str, Any]) -> str:
    used = {name: schemes.get(name) for names in operation.security for name in names}
    text = json.dumps({**asdict(operation), "schemes": used}, sort_keys=True, default=sorted)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_pins(document: Document, chosen: Iterable[Operation], pinned: Mapping[str, str]) -> None:
    now = _fingerprints(document, chosen)
    names = {listed.name for listed in operations(document)}
    changes = {
        "changed": [name for name in now if name in pinned and now[name] != pinned[name]],
        "added": [name for name in now if name not in pinned],
        "gone": [name for name in pinned if name not in names],
    }
    differences = "; ".join(
        f"{what}: {_listing(found)}" for what, found in changes.items() if found
    )
    if differences:
        raise DefinitionError(
            f"the OpenAPI document is not the one that was pinned ({differences});"
            " review it and pin it again"
        )


def _result(answer: Answer) -> ToolResult:
    """Return an answer as a result. A large one takes a second."""
    metadata = {
        "status": answer.status,
        "media_type": media_type(answer.content_type),
        "size": len(answer.body),
    }
    shown = _shown(answer)
    if answer.status >= 300:
        return http_error(answer.status, shown, metadata, answer.retry_after)
    return ToolResult.of(shown, metadata=metadata)


def _shown(answer: Answer) -> Any:
    """Return the content of an answer: JSON as data, everything else as `content_of` does."""
    if not answer.body:
        return None
    if answer.content_type and is_json(answer.content_type):
        with suppress(ValueError, RecursionError):
            return _json(answer)
    return content_of(answer.body, answer.content_type)


def _json(answer: Answer) -> Any:
    try:
        return paused_gc_if_long(json.loads, answer.body)
    except UnicodeDecodeError:  # JSON has to be UTF-8, but the server says that this is not.
        return paused_gc_if_long(json.loads, text_of(answer.body, answer.content_type))
