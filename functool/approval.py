"""The values of an approval: the request, the person's decision, and standing grants."""

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from functool.json_values import canonical_json, is_texts, json_copy, same_json
from functool.pointers import argument_at

MODEL = "the model"
"""The source of a value that comes neither from the user nor from a trusted tool."""


@dataclass(slots=True)
class Decision:
    """A person's answer to an `ApprovalRequest`. The model reads the `reason` of a refusal.

    With `arguments` the person approves an edited call. They replace all arguments of the request,
    and use the same names. They are validated and pass every input guardrail before the call runs.
    """

    approved: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        # As a reason, edited arguments would be lost, and the call would run as it was sent.
        is_text = isinstance(self.reason, str | None)
        if isinstance(self.reason, Mapping) or (self.approved and not is_text):
            wrong = "the reason is a text, and edited arguments go by name"
            raise TypeError(f"{wrong}: Decision(True, arguments={{...}})")

    @property
    def refusal(self) -> str:
        """The text that tells the model that a person refused."""
        because = f": {self.reason}" if self.reason else "."
        return f"A person refused this call{because}"


@dataclass(slots=True, kw_only=True)
class ApprovalRequest:
    """A request that asks a person to approve one call of one tool.

    `definition` is the SHA-256 of the tool's name, description and parameters. `arguments` is a
    copy of the canonical arguments. `sources` maps JSON pointers into the arguments to the sources
    of these values, such as the names of untrusted tools. `digest` covers `tool`, `definition`,
    `arguments`, `call_id` and `sources`. `created` is an ISO 8601 time in UTC.

    The JSON form has these names as keys; it has `sources` only if there are any. It is not signed,
    so store it where nobody else can change it, as you store sessions.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    tool: str
    definition: str
    arguments: dict[str, Any]
    call_id: str
    digest: str
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    sources: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        tool: str,
        definition: str,
        arguments: Mapping[str, Any],
        call_id: str,
        sources: Mapping[str, Iterable[str]] | None = None,
    ) -> "ApprovalRequest":
        """Return a new request with a copy of the arguments, and compute its digest."""
        request = cls(tool=tool, definition=definition, arguments={}, call_id=call_id, digest="")
        request.arguments = json_copy(arguments)
        request.sources = {place: list(names) for place, names in (sources or {}).items()}
        request.digest = request._computed()
        return request

    @property
    def matches_itself(self) -> bool:
        """Whether the digest matches the contents: false if the request was changed."""
        return self.digest == self._computed()

    def to_dict(self) -> dict[str, Any]:
        """Return the request as a JSON object."""
        names = self.__slots__ if self.sources else [n for n in self.__slots__ if n != "sources"]
        return json_copy({name: getattr(self, name) for name in names})

    def to_json(self) -> str:
        """Return the request as the text of one JSON object."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "ApprovalRequest":
        """Return the request that `to_json` wrote.

        Raises:
            ValueError: The text is not such a request.
        """
        kinds = dict.fromkeys(cls.__slots__, str) | {"arguments": dict, "sources": dict}
        data = _read(text, "an approval request", {"sources": {}}, kinds)
        if not all(is_texts(names) for names in data["sources"].values()):
            raise ValueError("not an approval request: `sources` must hold lists of tool names")
        return cls(**data)

    def shows(self, other: "ApprovalRequest") -> bool:
        """Whether another request is about the same call, with no label that this one lacks."""
        seen = all({*names} <= {*self.sources.get(at, ())} for at, names in other.sources.items())
        same = seen and self.call_id == other.call_id  # Otherwise save the time of a digest.
        return same and self.digest == replace(other, sources=self.sources)._computed()

    def _computed(self) -> str:
        sources = [self.sources] if self.sources else []
        return _sha256([self.tool, self.definition, self.arguments, self.call_id, *sources])


@dataclass(slots=True, kw_only=True)
class Grant:
    """A standing approval for calls of one tool. Calls that it covers run without asking a person.

    `definition` is the SHA-256 of the tool's name, description and parameters, so a changed tool
    needs a new grant. A call must have exactly the values in `arguments`. The arguments named in
    `free` may have any value that no untrusted tool wrote: if there are any, a call whose label
    stands there, or for the whole call, is not covered. Every other argument must have its default.
    The names are those of `ApprovalRequest.arguments`. `uses` is the number of calls left.
    `expires_at` is in seconds since the epoch, or None. The JSON form has these names as keys and
    is not signed.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    tool: str
    definition: str
    arguments: dict[str, Any]
    free: tuple[str, ...] = ()
    uses: int = 1
    expires_at: float | None = None

    def __post_init__(self) -> None:
        expiry = self.expires_at
        if type(self.uses) is not int or self.uses < 0:
            raise ValueError(f"uses must be a positive int, not {self.uses!r}")
        if not is_texts(self.free):
            raise ValueError(f"free must be a list of argument names, not {self.free!r}")
        if expiry is not None and not (type(expiry) in (int, float) and math.isfinite(expiry)):
            raise ValueError(f"expires_at must be seconds since the epoch or None, not {expiry!r}")
        if both := sorted(self.arguments.keys() & set(self.free)):
            raise ValueError(f"an argument is either given or free, not both: {', '.join(both)}")

    @classmethod
    def of(
        cls,
        tool: Any,
        arguments: Mapping[str, Any],
        *,
        free: Iterable[str] = (),
        uses: int = 1,
        expires_at: float | None = None,
    ) -> "Grant":
        """Return a grant for calls of `tool` with these arguments.

        Args:
            tool: The tool. If its definition changes later, the grant no longer covers its calls.
            arguments: JSON values that a call must have exactly.
            free: Names of arguments that may have any value, unless an untrusted tool wrote it.
            uses: How many calls the grant covers.
            expires_at: When the grant ends, in seconds since the epoch; None is never.

        Raises:
            TypeError: `tool` is not a tool, or `arguments` is not a mapping.
            ValueError: The arguments are not JSON, the tool has no argument of a name, an argument
                is both given and free, or another value is invalid.
        """
        schema: Any = getattr(tool, "schema", None)
        if not isinstance(getattr(schema, "parameters", None), dict):
            raise TypeError(f"a grant is for a tool, not for {type(tool).__name__}")
        if uses == 0:  # The constructor allows 0, for a grant that is used up.
            raise ValueError("uses must be a positive int, not 0")
        grant = cls(
            tool=schema.name,
            definition=definition_of(schema),
            arguments=json_copy(arguments),
            free=free if isinstance(free, str) else tuple(free),  # type: ignore[arg-type]
            uses=uses,
            expires_at=expires_at,
        )
        known, named = schema.arguments, {*grant.arguments, *grant.free}
        if schema.plain.get("additionalProperties") is False and (new := sorted(named - {*known})):
            raise ValueError(f"unknown argument {', '.join(new)}; known: {', '.join(known)}")
        return grant

    @classmethod
    def check(cls, given: Any) -> None:
        """Raise a TypeError for an object that is not a grant."""
        if not isinstance(given, cls):
            raise TypeError(f"expected a Grant, not {type(given).__name__}")

    @property
    def is_open(self) -> bool:
        """Whether the grant is neither used up nor expired."""
        return self.uses > 0 and (self.expires_at is None or self.expires_at > time.time())

    def covers(self, request: ApprovalRequest, defaults: Mapping[str, Any]) -> bool:
        """Whether the grant covers the call of `request`, whose tool has these defaults."""
        if not self.is_open or (self.tool, self.definition) != (request.tool, request.definition):
            return False
        labels = (place for place, names in request.sources.items() if {*names} != {MODEL})
        labelled = {argument_at(place) for place in labels}
        if self.free and labelled & {None, *self.free}:
            return False
        sent, wanted = request.arguments, {**defaults, **self.arguments}
        names = (sent.keys() | self.arguments.keys()) - set(self.free)
        return all(n in sent and n in wanted and same_json(sent[n], wanted[n]) for n in names)

    def to_json(self) -> str:
        """Return the grant as the text of one JSON object."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Grant":
        """Return the grant that `to_json` wrote.

        Raises:
            ValueError: The text is not such a grant.
        """
        others = {"arguments": dict, "free": list, "uses": int, "expires_at": object}
        data = _read(text, "a grant", {}, dict.fromkeys(cls.__slots__, str) | others)
        return cls(**{**data, "free": tuple(data["free"])})


def request_for(schema: Any, arguments: Any, id: str, sources: Any) -> ApprovalRequest:
    """Return the request for a call of the tool with this schema."""
    return ApprovalRequest.of(schema.name, definition_of(schema), arguments, id, sources)


def definition_of(schema: Any) -> str:
    """Return the SHA-256 (hex) of a tool's name, description and parameters."""
    return _sha256([schema.name, schema.description, schema.parameters])


def defaults_of(schema: Any) -> dict[str, Any]:
    """Return the defaults in a tool's schema, by canonical argument."""
    parts = schema.arguments.items()
    # A part may also be `true`, which allows anything.
    return {n: part["default"] for n, part in parts if isinstance(part, dict) and "default" in part}


def _read(text: str, what: str, extra: dict[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the JSON object in `text`. Check its keys and the types of its values."""
    data = json.loads(text)
    if not isinstance(data, dict) or {*data, *extra} != {*kinds}:
        raise ValueError(f"not {what}: expected a JSON object with the keys {', '.join(kinds)}")
    data = {**extra, **data}
    for name, kind in kinds.items():
        if not isinstance(data[name], kind):
            raise ValueError(f"not {what}: `{name}` must be {kind.__name__}")
    return data


def _sha256(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
