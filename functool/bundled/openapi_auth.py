"""The credentials that a host gives for the security schemes of a document."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeAlias
from urllib.parse import quote

from functool import DefinitionError, ToolError

Secret: TypeAlias = str | tuple[str, str]
SecretSource: TypeAlias = Secret | Callable[[], "Secret | Awaitable[Secret]"]
Auth: TypeAlias = Mapping[str, SecretSource] | SecretSource


@dataclass(slots=True, kw_only=True)
class Credentials:
    """What the credentials add to a request."""

    headers: dict[str, str] = field(default_factory=dict)
    query: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)


class Keyring:
    """The secrets of a host, by the name of their scheme. They are in no text that this object can become.

    Raises:
        DefinitionError: A scheme is unknown, or a single secret does not say which of several it is for.
    """

    def __init__(self, auth: Auth | None, schemes: Mapping[str, Mapping[str, Any]]) -> None:
        if auth is None:
            auth = {}
        elif not isinstance(auth, Mapping):
            if len(schemes) != 1:
                raise DefinitionError(f"say which security scheme auth is for: {{name: secret}}; known: {_known(schemes)}")
            auth = {next(iter(schemes)): auth}
        for name in auth:
            if name not in schemes:
                raise DefinitionError(f"the document has no security scheme {name!r}; known: {_known(schemes)}")
        self._secrets = dict(auth)
        self._schemes = schemes

    async def credentials(self, alternatives: Iterable[tuple[str, ...]]) -> Credentials:
        """Return the credentials of the first alternative for which there are secrets; none if there are not.

        Raises:
            ToolError: A secret is not of the kind that its scheme needs.
        """
        names = next((names for names in alternatives if all(name in self._secrets for name in names)), ())
        found = Credentials()
        for name in names:
            source = self._secrets[name]
            secret = source() if callable(source) else source
            _add(found, name, self._schemes[name], await secret if isawaitable(secret) else secret)
        return found

    def __bool__(self) -> bool:
        return bool(self._secrets)


def _add(found: Credentials, name: str, scheme: Mapping[str, Any], secret: Any) -> None:
    kind = scheme.get("type")
    if kind == "http" and str(scheme.get("scheme")).lower() == "basic":
        if not isinstance(secret, tuple) or len(secret) != 2:
            raise ToolError(f"The credentials for {name!r} are not set up rightly.")
        pair = base64.b64encode(":".join(secret).encode()).decode()
        found.headers["Authorization"] = f"Basic {pair}"
        return
    if not isinstance(secret, str) or not secret or any(ord(c) < 33 or ord(c) > 126 for c in secret):
        raise ToolError(f"The credentials for {name!r} are not set up rightly.")
    if kind != "apiKey":  # http bearer, and what OAuth and OpenID Connect end with.
        found.headers["Authorization"] = f"Bearer {secret}"
    elif scheme.get("in") == "header":
        found.headers[str(scheme.get("name"))] = secret
    else:
        place = found.query if scheme.get("in") == "query" else found.cookies
        place.append(f"{quote(str(scheme.get('name')), safe='')}={quote(secret, safe='')}")


def _known(schemes: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, schemes)) or "none"
