"""A request for a person's approval, and the decision: values that travel."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4


@dataclass(slots=True, kw_only=True)
class Decision:
    """A person's answer to an `ApprovalRequest`; the model reads the `reason` of a refusal."""

    approved: bool
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class ApprovalRequest:
    """What a person is asked to approve: one call of one tool.

    `definition` is the SHA-256 of the tool's name, description and parameters; `arguments` are the
    canonical ones; `digest` covers `tool`, `definition`, `arguments` and `call_id`; `created` is an
    ISO 8601 time in UTC. The JSON form has these names as keys. It is not
    signed: keep it where sessions are kept.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    tool: str
    definition: str
    arguments: dict[str, Any]
    call_id: str
    digest: str
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    @classmethod
    def of(
        cls, tool: str, definition: str, arguments: dict[str, Any], call_id: str
    ) -> "ApprovalRequest":
        """Return a new request, its digest computed."""
        digest = digest_of(tool, definition, arguments, call_id)
        return cls(
            tool=tool, definition=definition, arguments=arguments, call_id=call_id, digest=digest
        )

    @property
    def matches_itself(self) -> bool:
        """Whether the digest is the one of the request's own contents."""
        return self.digest == digest_of(self.tool, self.definition, self.arguments, self.call_id)

    def to_json(self) -> str:
        """Return the request as one JSON object."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "ApprovalRequest":
        """Return the request that `to_json` wrote.

        Raises:
            ValueError: The text is not such a request.
        """
        data = json.loads(text)
        if not isinstance(data, dict) or set(data) != set(cls.__slots__):
            raise ValueError(
                f"not an approval request: expected a JSON object with the keys {', '.join(cls.__slots__)}"
            )
        if not isinstance(data["arguments"], dict) or not all(
            isinstance(data[k], str) for k in data if k != "arguments"
        ):
            raise ValueError(
                "not an approval request: `arguments` must be an object and every other value a string"
            )
        return cls(**data)


def definition_of(name: str, description: str, parameters: dict[str, Any]) -> str:
    """Return the SHA-256 (hex) of what a tool claims to be."""
    return _sha256([name, description, parameters])


def digest_of(tool: str, definition: str, arguments: dict[str, Any], call_id: str) -> str:
    """Return the SHA-256 (hex) that binds an approval to one call of one definition."""
    return _sha256([tool, definition, arguments, call_id])


def _sha256(value: Any) -> str:
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
