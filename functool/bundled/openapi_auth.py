"""The credentials that a host gives for the security schemes of a document."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeAlias
from urllib.parse import quote

from functool import DefinitionError, ToolError
from functool.bundled.openapi_names import RESERVED_FORMS, TOKEN, spellings

Secret: TypeAlias = str | tuple[str, str]
SecretSource: TypeAlias = Secret | Callable[[], "Secret | Awaitable[Secret]"]
Auth: TypeAlias = Mapping[str, SecretSource] | SecretSource


# A document may not put a key into a header that frames the message.
FRAMING = RESERVED_FORMS - {"authorization", "cookie", "proxy_authorization"}

# A key may have words in it, such as `Token abc` in the header `Authorization`.
_WORD, _WORDS = re.compile(r"[!-~]+"), re.compile(r"[!-~]+(?: +[!-~]+)*")

# A host gives the cookie that the server has set, and not every server decodes `%3D`.
_COOKIE = "!#$%&'()*+/:<=>?@[]^`{|}~"


@dataclass(slots=True, kw_only=True)
class Credentials:
    """What the credentials add to a request."""

    headers: dict[str, str] = field(default_factory=dict)
    query: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)


class Keyring:
    """The secrets of a host, by the name of their scheme.

    Their values are not in the repr of this object.

    Raises:
        DefinitionError: A scheme is unknown, has no place for a secret or cannot carry it, or a
            single secret was given for several schemes.
    """

    def __init__(self, auth: Auth | None, schemes: Mapping[str, Mapping[str, Any]]) -> None:
        if auth is None:
            auth = {}
        elif not isinstance(auth, Mapping):
            if len(schemes) != 1:
                raise DefinitionError(
                    "say which security scheme auth is for: {name: secret};"
                    f" known: {_known(schemes)}"
                )
            auth = {next(iter(schemes)): auth}
        for name, source in auth.items():
            if name not in schemes:
                raise DefinitionError(
                    f"the document has no security scheme {name!r}; known: {_known(schemes)}"
                )
            if not _place(schemes[name]):
                raise DefinitionError(
                    f"the security scheme {name!r} is neither an API key with a place,"
                    " nor bearer, nor basic"
                )
            if not callable(source):  # What a function returns is checked at each call.
                _check(name, schemes[name], source)
        self._secrets = dict(auth)
        self._schemes = schemes

    async def credentials(self, alternatives: Iterable[tuple[str, ...]]) -> Credentials:
        """Return the credentials of the first alternative that has all its secrets, or none.

        Raises:
            ToolError: A secret is not of the kind that its scheme needs.
        """
        usable = (names for names in alternatives if all(name in self._secrets for name in names))
        names = next(filter(None, usable), ())  # An empty one says that signing in is optional.
        found = Credentials()
        for name in names:
            source = self._secrets[name]
            secret = source() if callable(source) else source
            _add(found, name, self._schemes[name], await secret if isawaitable(secret) else secret)
        return found

    def __bool__(self) -> bool:
        return bool(self._secrets)


def _check(name: str, scheme: Mapping[str, Any], secret: Any) -> None:
    try:
        _add(Credentials(), name, scheme, secret)
    except ToolError:
        needs = {"basic": "a pair of user and password", "bearer": "one word in printable ASCII"}
        wanted = needs.get(_place(scheme), "a text in printable ASCII")
        raise DefinitionError(
            f"the secret of {name!r} cannot be sent: it has to be {wanted}"
        ) from None


def _add(found: Credentials, name: str, scheme: Mapping[str, Any], secret: Any) -> None:
    place = _place(scheme)
    if place == "basic":
        words = secret if isinstance(secret, tuple) else ()
        if len(words) != 2 or not all(isinstance(word, str) for word in words):
            raise ToolError(f"The credentials for {name!r} are not set up correctly.")
        pair = base64.b64encode(":".join(words).encode()).decode()
        found.headers["Authorization"] = f"Basic {pair}"
        return
    text = _WORD if place == "bearer" else _WORDS
    if not isinstance(secret, str) or not text.fullmatch(secret):
        raise ToolError(f"The credentials for {name!r} are not set up correctly.")
    if place == "bearer":
        found.headers["Authorization"] = f"Bearer {secret}"
    elif place == "header":
        found.headers[str(scheme["name"])] = secret
    else:
        pairs, safe = (found.query, "") if place == "query" else (found.cookies, _COOKIE)
        pairs.append(f"{quote(str(scheme['name']), safe='')}={quote(secret, safe=safe)}")


def _place(scheme: Mapping[str, Any]) -> str:
    """Return where the secret of a scheme is sent: `basic`, `bearer`, `header`, `query`, `cookie`.

    The text is empty if the scheme has no such place.
    """
    kind, name, place = scheme.get("type"), scheme.get("name"), scheme.get("in")
    if kind in ("oauth2", "openIdConnect"):  # Their flows end with a bearer token.
        return "bearer"
    if kind == "http":
        http_scheme = str(scheme.get("scheme")).lower()
        return http_scheme if http_scheme in ("basic", "bearer") else ""
    if kind != "apiKey" or not isinstance(name, str) or not name:
        return ""
    if place == "header":
        return place if TOKEN.fullmatch(name) and FRAMING.isdisjoint(spellings(name)) else ""
    return place if place in ("query", "cookie") else ""


def _known(schemes: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, schemes)) or "none"
