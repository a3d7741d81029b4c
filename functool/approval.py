"""A person's approval as values: what is asked, what was decided, what is allowed beforehand."""

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4


@dataclass(slots=True, kw_only=True)
class Decision:
    """A person's answer to an `ApprovalRequest`; the model reads the `reason` of a refusal.

    With `arguments` the person approves an edited call. They take the place of all the arguments
    that were asked about, and have the names that the request has. They are validated, and meet
    every input guardrail, before they run.
    """

    approved: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None

    @property
    def refusal(self) -> str:
        """What the model is told where the person refused."""
        because = f": {self.reason}" if self.reason else "."
        return f"A person refused this call{because}"


@dataclass(slots=True, kw_only=True)
class ApprovalRequest:
    """What a person is asked to approve: one call of one tool.

    `definition` is the SHA-256 of the tool's name, description and parameters; `arguments` are a
    copy of the canonical ones; `sources` says where values came from, as a JSON pointer into the
    arguments and the names of tools; `digest` covers `tool`, `definition`, `arguments`, `call_id`
    and `sources`; `created` is an ISO 8601 time in UTC. The JSON form has these names as keys, and
    `sources` only where there are any. It is not signed: keep it where sessions are kept.
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
        """Return a new request about a copy of the arguments, its digest computed."""
        copied = deepcopy(dict(arguments))
        request = cls(
            tool=tool, definition=definition, arguments=copied, call_id=call_id, digest=""
        )
        request.sources = {place: list(names) for place, names in (sources or {}).items()}
        request.digest = request._computed()
        return request

    @property
    def matches_itself(self) -> bool:
        """Whether the digest is the one of the request's own contents."""
        return self.digest == self._computed()

    def to_dict(self) -> dict[str, Any]:
        """Return the request as a JSON object."""
        shown = {name: deepcopy(getattr(self, name)) for name in self.__slots__}
        return shown if self.sources else {k: shown[k] for k in shown if k != "sources"}

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
        if not all(_is_texts(names) for names in data["sources"].values()):
            raise ValueError("not an approval request: `sources` must hold lists of tool names")
        return cls(**data)

    def _computed(self) -> str:
        sources = [self.sources] if self.sources else []
        return _sha256([self.tool, self.definition, self.arguments, self.call_id, *sources])


@dataclass(slots=True, kw_only=True)
class Grant:
    """A standing approval of one tool: calls that it covers run without asking a person again.

    `definition` is the SHA-256 of the tool's name, description and parameters: a tool that has
    changed needs a new grant. `arguments` must be in the call exactly as they stand here; an
    argument in `free` may be anything; any other must be at its default. The names are those of
    `ApprovalRequest.arguments`. `uses` is how many more calls it covers, `expires_at` a time in
    seconds since the epoch, or None. The JSON form has these names as keys and is not signed.
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
        if not _is_texts(self.free):
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
            tool: The tool as it is now: a change of its definition ends the grant.
            arguments: JSON values that a call must have exactly.
            free: Names of arguments that may be anything.
            uses: How many calls it covers.
            expires_at: Until when, in seconds since the epoch; None is for ever.

        Raises:
            TypeError: `tool` is no tool, or `arguments` is no mapping.
            ValueError: The arguments are no JSON, an argument is both given and free, or another
                value is not what it should be.
        """
        schema: Any = getattr(tool, "schema", None)
        if not isinstance(getattr(schema, "parameters", None), dict):
            raise TypeError(f"a grant is for a tool, not for {type(tool).__name__}")
        if uses == 0:  # What a grant that is used up has.
            raise ValueError("uses must be a positive int, not 0")
        return cls(
            tool=schema.name,
            definition=definition_of(schema),
            arguments=json_copy(arguments),
            free=free if isinstance(free, str) else tuple(free),  # type: ignore[arg-type]
            uses=uses,
            expires_at=expires_at,
        )

    @property
    def is_open(self) -> bool:
        """Whether it still covers any call: neither used up nor expired."""
        return self.uses > 0 and (self.expires_at is None or self.expires_at > time.time())

    def covers(self, request: ApprovalRequest, defaults: Mapping[str, Any]) -> bool:
        """Whether it allows the call of `request`, whose tool has these defaults."""
        if not self.is_open or (self.tool, self.definition) != (request.tool, request.definition):
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


def definition_of(schema: Any) -> str:
    """Return the SHA-256 (hex) of what a tool claims to be."""
    return _sha256([schema.name, schema.description, schema.parameters])


def defaults_of(schema: Any) -> dict[str, Any]:
    """Return the defaults that a schema names, by argument."""
    parts = schema.plain.get("properties", {}).items()
    return {name: part["default"] for name, part in parts if "default" in part}


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: true is not 1 there."""
    return _json(one) == _json(other)


def json_copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of arguments that a person wrote.

    Raises:
        TypeError: They are no mapping.
        ValueError: They hold something that JSON cannot say.
    """
    if not isinstance(arguments, Mapping):
        raise TypeError(f"arguments must be a mapping, not {type(arguments).__name__}")
    try:
        copy = json.loads(json.dumps(dict(arguments), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"arguments must hold JSON values: {error}") from error
    assert isinstance(copy, dict)
    return copy


def _read(
    text: str, what: str, optional: dict[str, Any], kinds: Mapping[str, type]
) -> dict[str, Any]:
    """Return the JSON object in `text`; its values must be of these kinds."""
    data = json.loads(text)
    if not isinstance(data, dict) or {*data, *optional} != {*kinds}:
        raise ValueError(f"not {what}: expected a JSON object with the keys {', '.join(kinds)}")
    data = {**optional, **data}
    for name, kind in kinds.items():
        if not isinstance(data[name], kind):
            raise ValueError(f"not {what}: `{name}` must be {kind.__name__}")
    return data


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _sha256(value: Any) -> str:
    return hashlib.sha256(_json(value).encode()).hexdigest()
