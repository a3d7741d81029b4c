"""The values that travel: a call, its result, a failure, and the schema of a tool."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import SchemaSerializer, core_schema

from functool.content import CONTENT_TYPES, Content, TextContent
from functool.errors import ToolError

MAX_REPR = 4_000
_SCALARS = {str, int, float, bool, type(None), bytes}
_CONTAINERS = (list, tuple, set, frozenset)
_PLAIN = {int, float, bool}
DATA = frozenset((str, int, float, bool, type(None), list, dict))
"""Types of values that are rendered as they stand: no result, nothing that has to be run first."""
_new = object.__new__
_UNSET: Any = object()
_dump = SchemaSerializer(
    core_schema.any_schema(), {"ser_json_inf_nan": "strings", "ser_json_bytes": "base64"}
).to_json


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """A call that a model made.

    `arguments` is an object, or its JSON text as models send it. `id` is the caller's own name for
    the call. `metadata` is for hosts and layers (source labels, repairs, the journal): it never
    comes from a model, is never sent to one, and stands in no digest.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    if not TYPE_CHECKING:  # The generated one costs a third more, and says less of a mistake.

        def __init__(self, *given, name=_UNSET, arguments=_UNSET, id="", metadata=_UNSET):
            if given or name is _UNSET:
                raise TypeError(
                    "a ToolCall is made by name: ToolCall(name=..., arguments=..., id=...)"
                )
            self.name = name
            self.arguments = {} if arguments is _UNSET else arguments
            self.id = id
            self.metadata = {} if metadata is _UNSET else metadata


class _Caused:
    """Holds what is no field: it stays out of `asdict`, JSON, repr, equality and pickles."""

    __slots__ = ("cause",)


@dataclass(slots=True, kw_only=True)
class ToolFailure(_Caused):
    """Why a call failed.

    `type` is the class name of the exception, or the code that an author chose; `message` is fit
    for a model and never empty. `cause` is the exception itself, for logs and for `unwrap`; it is
    never serialised, compared or shown.
    """

    type: str
    message: str
    details: Mapping[str, Any] | None = None
    if TYPE_CHECKING:
        cause: BaseException | None = None
    else:
        cause: InitVar[BaseException | None] = None

        def __post_init__(self, cause):
            self.message = valid_text(self.message) or self.type or "ToolError"
            self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled_failure, (self.type, self.message, self.details)


def _unpickled_failure(type: str, message: str, details: Mapping[str, Any] | None) -> ToolFailure:
    return ToolFailure(type=type, message=message, details=details)


class _Shown:
    """Holds what `shown_as` notes on a result; it is no field either."""

    __slots__ = ("_shown",)


@dataclass(slots=True, kw_only=True)
class ToolResult(_Shown):
    """What came of a call.

    `output` is what the model reads; `value` the body's own return value, for code; `metadata` is
    for the host and never sent to the model.
    """

    output: list[Content] = field(default_factory=list)
    value: Any = None
    error: ToolFailure | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = ""
    if TYPE_CHECKING:
        _shown: list[Content] | None = None
    else:
        _shown: InitVar[list[Content] | None] = None

        def __post_init__(self, _shown):
            self._shown = _shown

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.error is not None

    @property
    def success(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None

    @property
    def text(self) -> str:
        """The output as one text, always valid UTF-8; of a failure the message, then any output."""
        output = self.output
        if self.error is None and len(output) == 1:  # Almost always: no list is built for it.
            only = output[0]
            if type(only) is TextContent and only.text.isascii():
                return only.text
        parts = [] if self.error is None else [self.error.message]
        parts += [c.text if isinstance(c, TextContent) else _placeholder(c) for c in output]
        return valid_text("\n".join(parts))

    @property
    def structured(self) -> Any:
        """What exporters send as structured content: `value`, or None after `shown_as`."""
        return self.value if getattr(self, "_shown", None) is None else None

    def shown_as(self, output: str | Content | list[Content]) -> ToolResult:
        """Return a result whose `output` is this for the model, while `value` stays for code.

        Only the guardrail that returns this result spares `value` so: a guardrail later in the list
        that changes the output replaces `value`, too. It shortens; it keeps nothing secret.
        """
        shown = render(output) if output != [] else []
        return changed(self, output=shown, _shown=shown)

    @property
    def keeps_value(self) -> bool:
        """Whether `output` stands as `shown_as` wrote it: then `value` may differ."""
        shown = getattr(self, "_shown", None)
        return shown is not None and shown is self.output

    @classmethod
    def of(cls, value: Any, *, metadata: Mapping[str, Any] | None = None) -> ToolResult:
        """Return a success with `value`, rendered for a model.

        None is no content; a str is itself; a Content, or a list holding one, is kept in order;
        everything else is one JSON text, and what JSON cannot say is its `str`, cut at 4,000
        characters.
        """
        return cls(output=render(value), value=value, metadata={} if metadata is None else metadata)

    @classmethod
    def failed(
        cls,
        message: str,
        *,
        type: str = "ToolError",
        details: Mapping[str, Any] | None = None,
        output: Iterable[Content] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Return a failure; its `text` is the message, without a prefix."""
        failure = ToolFailure(type=type, message=message, details=details)
        return cls(
            output=list(output or ()), error=failure, metadata={} if metadata is None else metadata
        )

    def unwrap(self) -> Any:
        """Return the value.

        Raises:
            ToolError: The call failed; the message is the failure's, and the exception behind it is
                its `__cause__`.
        """
        if self.error is not None:
            raise ToolError(self.error.message, details=self.error.details) from self.error.cause
        return self.value


# The class attribute that a default leaves behind would hide the slot of the base.
for _owner, _name in ((ToolFailure, "cause"), (ToolResult, "_shown")):
    delattr(_owner, _name)


_SLOTS = ("output", "value", "error", "metadata", "call_id", "_shown")


@dataclass(slots=True, kw_only=True)
class ToolSchema:
    """What a model is told of a tool.

    `parameters` is the JSON Schema (2020-12) of the arguments as published: the strict form when
    `strict`. `plain` is the neutral one, from which dialects with other rules render. `output` is
    the schema of the return value, where its annotation gives one.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    plain: dict[str, Any]
    strict: bool = False
    output: dict[str, Any] | None = None


def wrong_call(given: Any) -> TypeError:
    """Return the error for what was passed as a call and is none."""
    wanted = "a ToolCall(name=..., arguments=..., id=...)"
    return TypeError(f"a call must be {wanted}, not {type(given).__name__}")


def with_arguments(call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
    """Return the same call with other arguments, as cheaply as `success`."""
    new = _new(ToolCall)
    new.name, new.id, new.metadata = call.name, call.id, call.metadata
    new.arguments = arguments
    return new


def success(value: Any, call_id: str) -> ToolResult:
    """Return `ToolResult.of(value)` for a call.

    Keyword arguments would cost more than the rest of a small call.
    """
    kind, text = type(value), None
    if kind is int and value.bit_length() < 64:  # Python writes these as JSON does, and faster.
        text = f"{value}"
    elif kind is str and value.isascii():
        text = value
    result = _new(ToolResult)
    if text is None:
        result.output = render(value)
    else:
        content = _new(TextContent)
        content.text = text
        result.output = [content]
    result.value, result.metadata, result.call_id = value, {}, call_id
    result.error = result._shown = None
    return result


def failure_of(error: Exception, message: str | None = None) -> ToolResult:
    """Return the default answer to an exception.

    A `ToolError` shows its message, any other exception `TypeName: message`.
    """
    kind = type(error).__name__
    details = error.details if isinstance(error, ToolError) else None
    if message is None:
        text = cut_str(error, "")
        if isinstance(error, ToolError):
            message = text or kind
        else:
            message = f"{kind}: {text}"[:MAX_REPR] if text else kind
    failure = ToolFailure(type=kind, message=message, details=details, cause=error)
    return ToolResult(error=failure)


def changed(result: ToolResult, **fields: Any) -> ToolResult:
    """Return a copy with other fields.

    `dataclasses.replace` would ask the `__init__` of a subclass, which may be of its own kind.
    """
    if type(result) is ToolResult:  # `copy` takes four times as long.
        new = _new(ToolResult)
        for name in _SLOTS:
            setattr(new, name, getattr(result, name, None))
    else:
        new = copy(result)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def metadata_of(result: ToolResult) -> Mapping[str, Any]:
    """Return the metadata of a result, none where an author put something else there."""
    return result.metadata if isinstance(result.metadata, Mapping) else {}


def noted_guardrails(result: ToolResult) -> list[Any]:
    """Return what guardrails did to a result, in order, as its metadata lists it."""
    noted = metadata_of(result).get("guardrails")
    return noted if isinstance(noted, list) else []


def render(value: Any) -> list[Content]:
    """Return `value` as content for a model: the rule of `ToolResult.of`."""
    if isinstance(value, str):
        return [TextContent(text=valid_text(str.__str__(value)))]
    if type(value) in _PLAIN:
        return [TextContent(text=_dump(value, by_alias=True).decode())]
    if value is None:
        return []
    if isinstance(value, CONTENT_TYPES):
        return [value]
    if isinstance(value, (list, tuple)) and any(isinstance(item, CONTENT_TYPES) for item in value):
        return [part for item in value for part in render(item)]
    return [TextContent(text=to_json(value))]


def fingerprint(arguments: Any) -> bytes:
    """Return what differs once something in JSON arguments has been changed in place."""
    try:  # In the second version of the format, equal values are equal bytes.
        return marshal.dumps(arguments, 2)
    except ValueError:  # Somebody put in what JSON cannot say.
        return b""


def to_json(value: Any) -> str:
    """Return `value` as JSON, or its `str` (at most 4,000 characters) where JSON cannot say it."""

    def within(part: Any) -> str:
        if part is value:  # Alone it is text as it stands, such as the lines of a table.
            raise TypeError
        return cut_str(part)

    try:
        if _holds_iterator(value, 0):
            return cut_str(value)
        return _dump(value, by_alias=True, fallback=within).decode()
    except Exception:
        return cut_str(value)


def cut_str(value: Any, otherwise: str | None = None) -> str:
    """Return `str(value)`, at most 4,000 characters, valid UTF-8, and never an exception."""
    try:
        return valid_text(str(value)[:MAX_REPR])
    except Exception:
        return f"<{type(value).__name__}>" if otherwise is None else otherwise


def valid_text(text: str) -> str:
    """Return `text` as valid UTF-8: surrogate pairs are joined, lone ones replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _holds_iterator(value: Any, depth: int) -> bool:
    """Whether an iterator stands in plain containers.

    The JSON writer would run it to its end, which it may not have.
    """
    kind = type(value)
    if kind in _SCALARS:
        return False
    if depth > 200 or hasattr(kind, "__next__"):
        return True
    items: Iterable[Any]
    if isinstance(value, dict):
        items = value.values()
    elif isinstance(value, _CONTAINERS):
        items = value
    else:  # Dataclasses and models are written field by field.
        items = [
            getattr(value, name, None)
            for name in getattr(
                kind, "__dataclass_fields__", getattr(kind, "__pydantic_fields__", ())
            )
        ]
    return not _SCALARS.issuperset(map(type, items)) and any(
        _holds_iterator(item, depth + 1) for item in items
    )


def _placeholder(content: Any) -> str:
    where = content.uri if content.data is None else f"{len(content.data)} bytes"
    return f"[{content.media_type}: {where}]"
