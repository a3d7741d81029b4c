"""Write the arguments of a call into a request, in the styles of OpenAPI.

A value stays in the place of its parameter. A path value is one encoded segment. No value can end a
header, a cookie, a form field or a query parameter early.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, unquote, unquote_to_bytes

from functool import ToolError
from functool.bundled.http_body import media_type as kind_of
from functool.bundled.openapi_operation import FORM, MULTIPART, Body, Operation
from functool.bundled.openapi_parameters import BODY, Parameter

MAX_DECODINGS = 5
"""How often a path value is decoded to look for a hidden `..`."""

MAX_PLACE = 65_536
"""Characters of all values in the path, the query or the cookies. httpx sends no longer URL."""

MAX_FIELDS = 67_108_864
"""Characters of all fields of a form. Each item of a list repeats the name of its field, and
in multipart a hundred characters more."""

# The characters that `allowReserved` leaves unencoded. They cannot end a value. Some servers take a
# semicolon for `&`.
_RESERVED = ":/?@!$'()*,"
_DATA_URL = re.compile(
    r"data:([A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+)?((?:;[^,;]*)*),(.*)", re.DOTALL
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TEMPLATE = re.compile(r"\{([^{}/]*)\}")
# The path and its query. Some frameworks write an optional variable as `{id?}`.
_PARTS = re.compile(r"((?:\{[^{}/]*\}|[^?#])*)\??((?:\{[^{}/]*\}|[^#])*)")

_Piece = TypeVar("_Piece", str, bytes)


class UnsafeValue(ToolError):
    """An argument cannot be sent without changing another part of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request without its server. `path` and `query` are encoded; `query` has no `?`."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    cookies: tuple[str, ...]
    content: bytes | None


def prepare(operation: Operation, arguments: Mapping[str, Any]) -> Prepared:
    """Return the request for a call of an operation.

    Raises:
        UnsafeValue: A value would change another part of the request.
    """
    given = [
        (p, arguments[p.argument])
        for p in operation.parameters
        if arguments.get(p.argument) is not None
    ]
    segments = {
        p.name: _segment(p, arguments.get(p.argument))
        for p in operation.parameters
        if p.place == "path"
    }
    # A path may end with a fixed query, and with a fragment that only makes it unique.
    path, fixed = next(_PARTS.finditer(operation.path)).groups()
    query = [_filled(fixed, segments, "/%:@!$&'()*+,;=~?")] if fixed else []
    query += _within(MAX_PLACE, _pairs_in("query", given))
    headers = {p.name: _header(p, value) for p, value in given if p.place == "header"}
    content = None
    if operation.body is not None and arguments.get(BODY) is not None:
        content, headers["Content-Type"] = _body(operation.body, arguments[BODY])
    return Prepared(
        method=operation.method,
        path=_path(path, segments),
        query="&".join(query),
        headers=headers,
        cookies=tuple(_within(MAX_PLACE, _pairs_in("cookie", given))),
        content=content,
    )


def _pairs_in(place: str, given: Iterable[tuple[Parameter, Any]]) -> Iterator[str]:
    return (pair for p, value in given if p.place == place for pair in pairs(p.name, p, value))


def _within(limit: int, pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield pieces of a request until they are too long together.

    They are written one by one, as a list of a megabyte may repeat a long name 500,000 times.

    Raises:
        UnsafeValue: They have more than `limit` characters.
    """
    left = limit
    for piece in pieces:
        left -= len(piece) + 1
        if left < 0:
            where = "form" if limit == MAX_FIELDS else "path, query or cookies"
            raise UnsafeValue(
                f"The arguments take more than {limit:,} characters in the {where} of the request."
            )
        yield piece


def pairs(name: str, parameter: Parameter, value: Any) -> Iterable[str]:
    """Return encoded `name=value` pairs, in the styles of query parameters and cookies."""
    keep = _RESERVED if parameter.reserved and parameter.place == "query" else ""
    if parameter.as_json:
        return [f"{_quoted(name)}={_quoted(_json(value), keep)}"]
    return _pairs(name, value, parameter.style, parameter.explode, keep)


def _pairs(name: str, value: Any, style: str, explode: bool, keep: str = "") -> Iterable[str]:
    key = _quoted(name)
    joint = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, ",")
    if isinstance(value, (dict, list)) and style == "deepObject":
        return _deep((name,), value, keep)
    if isinstance(value, dict):
        items = [(str(k), _text(v)) for k, v in value.items()]
        if explode:
            return [f"{_quoted(k)}={_quoted(v, keep)}" for k, v in items]
        return [f"{key}={joint.join(_quoted(part, keep) for item in items for part in item)}"]
    if isinstance(value, list):
        texts = [_quoted(_text(item), keep) for item in value]
        if explode:
            return (f"{key}={text}" for text in texts)
        return [f"{key}={joint.join(texts)}"] if texts else []
    return [f"{key}={_quoted(_text(value), keep)}"]


def _deep(steps: tuple[Any, ...], value: Any, keep: str) -> Iterator[str]:
    """Yield fields in the style `deepObject`: `name[key]=value`, and `name[0]=value` of a list.

    OpenAPI leaves lists open. This form says where each item belongs, and most servers read it.
    """
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _deep((*steps, key), item, keep)
    else:  # Only now: an empty list at the end of long names is not sent, so nothing counts it.
        name = steps[0] + "".join(f"[{step}]" for step in steps[1:])
        yield from _pairs(name, value, "form", True, keep)


def _path(template: str, segments: Mapping[str, str]) -> str:
    """Fill in a path template, and check the whole path again."""
    [path] = _within(MAX_PLACE, [_filled(template, segments, "/%:@!$&'()*+,;=~")])
    if _climbs(path):
        raise UnsafeValue("A path value must not be '.' or '..'.")
    return path


def _filled(template: str, segments: Mapping[str, str], keep: str) -> str:
    return "".join(
        segments.get(part, "") if at % 2 else quote(part, safe=keep)
        for at, part in enumerate(re.split(_TEMPLATE, template))
    )


def _segment(parameter: Parameter, value: Any) -> str:
    """Write a path value as one segment, in the styles `simple`, `label` and `matrix`."""
    if value is None:  # Without its segment the path would be another one, such as that of a list.
        raise UnsafeValue(f"The value of {parameter.argument!r} must not be null.")
    written = _quoted(_json(value)) if parameter.as_json else _styled(parameter, value)
    [text] = _within(MAX_PLACE, [written])
    if any(map(_climbs, _leaves(value))):
        raise UnsafeValue(
            f"The value of {parameter.argument!r} must not have '.', '..' or control characters"
            " in it."
        )
    if not text:
        raise UnsafeValue(f"The value of {parameter.argument!r} must not be empty.")
    return text


def _styled(parameter: Parameter, value: Any) -> str:
    """Write a path value in the style of its parameter."""
    explode, name = parameter.explode, _quoted(parameter.name)
    if parameter.style == "matrix" and explode and isinstance(value, list):
        items = (f";{name}={_quoted(_text(item))}" for item in value)
        return "".join(_within(MAX_PLACE, items)) or ";"
    if isinstance(value, dict):
        texts = _fields(value, explode, _quoted)
    else:
        texts = [_quoted(_text(item)) for item in (value if isinstance(value, list) else [value])]
    if parameter.style == "label":
        return "." + ("." if explode else ",").join(texts)
    if parameter.style == "matrix":
        named = not (explode and isinstance(value, dict))
        return (f";{name}=" if named else ";") + (";" if explode else ",").join(texts)
    return ",".join(texts)


def _fields(value: dict[Any, Any], explode: bool, encode: Callable[[str], str]) -> list[str]:
    """Return the fields of an object: each as `name=value`, or names and values in turn."""
    items = [(encode(str(name)), encode(_text(item))) for name, item in value.items()]
    if explode:
        return [f"{name}={item}" for name, item in items]
    return [text for item in items for text in item]


def _climbs(path: str) -> bool:
    """Whether a server may reach another directory by decoding, splitting or stripping a path."""
    for _ in range(MAX_DECODINGS):
        # The text after a semicolon is a path parameter. Some servers remove it.
        if any(part.partition(";")[0].strip() in (".", "..") for part in re.split(r"[/\\]", path)):
            return True
        if _CONTROL.search(path):
            return True
        path = unquote(path)
    return False


def _header(parameter: Parameter, value: Any) -> str:
    if parameter.as_json:
        text = json.dumps(value)
    elif isinstance(value, dict):
        text = ",".join(_fields(value, parameter.explode, str))
    else:
        text = ",".join(map(_text, value)) if isinstance(value, list) else _text(value)
    if not (text.isascii() and text.isprintable()) or text != text.strip():
        raise UnsafeValue(
            f"The value of {parameter.argument!r} may have printable ASCII characters only,"
            " and no space at its ends."
        )
    return text


def _body(body: Body, value: Any) -> tuple[bytes, str]:
    kind = kind_of(body.media_type)
    if kind == FORM and isinstance(value, dict):
        return "&".join(_within(MAX_FIELDS, _form_fields(body, value))).encode(), FORM
    if kind == MULTIPART and isinstance(value, dict):
        boundary = secrets.token_hex(16)
        content = b"".join(_within(MAX_FIELDS, _multipart(body, value, boundary)))
        return content, f"{MULTIPART}; boundary={boundary}"
    if isinstance(value, str) and body.schema.get("type") == "string" and not kind.endswith("json"):
        content, given = _bytes(value)
        fixed = kind if "*" not in kind else given or "application/octet-stream"
        return content, fixed
    return _json(value).encode(), "application/json" if "*" in kind else body.media_type


def _form_fields(body: Body, value: Mapping[str, Any]) -> Iterable[str]:
    for name, item in value.items():
        rule = body.encoding.get(name)
        rule = rule if isinstance(rule, dict) else {}
        if item is None:
            continue
        if isinstance(item, dict) and "style" not in rule:
            yield f"{_quoted(name)}={_quoted(_json(item))}"
        else:
            style = str(rule.get("style", "form"))
            yield from _pairs(
                name, item, style, rule.get("explode", style in ("form", "deepObject")) is True
            )


def _multipart(body: Body, value: Mapping[str, Any], boundary: str) -> Iterator[bytes]:
    for name, items in value.items():
        for item in items if isinstance(items, list) else [items]:
            if item is None:
                continue
            disposition = f'form-data; name="{_field_name(name)}"'
            if name in body.files and isinstance(item, str):
                content, kind = _bytes(item)
                disposition += f'; filename="{_field_name(name)}"'
                kind = kind or "application/octet-stream"
            elif isinstance(item, dict):
                content, kind = _json(item).encode(), "application/json"
            else:
                content, kind = _text(item).encode(), "text/plain; charset=utf-8"
            head = f"Content-Disposition: {disposition}\r\nContent-Type: {kind}"
            yield f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _bytes(text: str) -> tuple[bytes, str | None]:
    """Return the bytes of a text or a data: URL, and the media type of the URL."""
    found = _DATA_URL.fullmatch(text)
    if found is None:
        return text.encode(), None
    kind, options, data = found.groups()
    if ";base64" not in options.lower():
        return unquote_to_bytes(data), kind
    try:
        return base64.b64decode("".join(unquote(data).split()), validate=True), kind
    except binascii.Error as error:
        raise UnsafeValue("A data: URL holds no valid base64.") from error


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _quoted(text: str, keep: str = "") -> str:
    return quote(text, safe=keep)


def _field_name(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
