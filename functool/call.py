"""The values that tools take and return: a call, its result, a failure, the schema of a tool."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import SchemaSerializer, core_schema

from functool.content import CONTENT_TYPES, Content, TextContent
from functool.errors import ToolError

MAX_REPR = 4_000  # Characters that a model reads of the `str` of a value or an exception.
_SCALARS = {str, int, float, bool, type(None), bytes}
_CONTAINERS = (list, tuple, set, frozenset)
_PLAIN = {int, float, bool}
DATA = frozenset((str, int, float, bool, type(None), list, dict))
"""Types of plain data: the road turns such a return value into a result without further checks."""
_EXAMPLE = "ToolCall(name=..., arguments=..., id=...)"
_new = object.__new__
_UNSET: Any = object()
_writer = SchemaSerializer(
    core_schema.any_schema(), {"ser_json_inf_nan": "strings", "ser_json_bytes": "base64"}
)
_dump = _writer.to_json


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """A call that a model made.

    `arguments` is an object, or its JSON text as models send it. `id` is the caller's identifier of
    the call. `metadata` is for hosts and layers, such as source labels, repairs and the journal. It
    never comes from a model, is never sent to a model, and is not part of any digest.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    if not TYPE_CHECKING:  # The generated `__init__` is a third slower, and its errors say less.

        def __init__(self, *given, name=_UNSET, arguments=_UNSET, id="", metadata=_UNSET):
            if given or name is _UNSET:
                raise TypeError(f"a ToolCall is made by name: {_EXAMPLE}")
            self.name = name
            self.arguments = {} if arguments is _UNSET else arguments
            self.id = id
            self.metadata = {} if metadata is _UNSET else metadata


class _CauseSlot:
    """A slot for `cause`. It is no dataclass field, so `asdict`, `==` and repr leave it out."""

    __slots__ = ("cause",)


@dataclass(slots=True, kw_only=True)
class ToolFailure(_CauseSlot):
    """Why a call failed.

    `type` is the class name of the exception, or a code that the author chose. `message` is written
    for the model and never empty. `cause` is the exception itself, for logs and for `unwrap`. It is
    never serialised, compared or shown.
    """

    type: str
    message: str
    details: Mapping[str, Any] | None = None
    if TYPE_CHECKING:
        cause: BaseException | None = None
    else:
        cause: InitVar[Any] = None

        def __post_init__(self, cause):
            self.message = valid_text(self.message) or self.type or "ToolError"
            self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled_failure, (self.type, self.message, self.details)


def _unpickled_failure(type: str, message: str, details: Mapping[str, Any] | None) -> ToolFailure:
    return ToolFailure(type=type, message=message, details=details)


class _ShownSlot:
    """A slot for the output that `shown_as` set. It is not a dataclass field either."""

    __slots__ = ("_shown",)


@dataclass(slots=True, kw_only=True)
class ToolResult(_ShownSlot):
    """The result of a call.

    The model reads `output`. `value` is what the body returned, for code. `metadata` is for the
    host and is never sent to the model.
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
            if not isinstance(self.output, (list, tuple)):
                raise TypeError("output is a list of content: ToolResult.of(value) makes it")

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
        """The output as one valid UTF-8 text. A failure's message comes before its output."""
        output = self.output
        if self.error is None and len(output) == 1:  # The usual case, without building a list.
            only = output[0]
            if type(only) is TextContent and only.text.isascii():
                return only.text
        parts = [] if self.error is None else [self.error.message]
        parts += [c.text if isinstance(c, TextContent) else _placeholder(c) for c in output]
        return valid_text("\n".join(parts))

    @property
    def structured(self) -> Any:
        """The value that exporters send as structured content: None after `shown_as`."""
        return self.value if getattr(self, "_shown", None) is None else None

    def shown_as(self, output: str | Content | list[Content]) -> ToolResult:
        """Return a copy with another `output` for the model and the same `value` for code.

        Use it in a guardrail that shortens an output. It does not hide secrets: code still gets the
        whole `value`. If a later guardrail changes the output again, `value` is replaced too.
        """
        shown = render(output) if output != [] else []
        return changed(self, output=shown, _shown=shown)

    @property
    def keeps_value(self) -> bool:
        """Whether `output` is still what `shown_as` set. Then `value` may differ from it."""
        shown = getattr(self, "_shown", None)
        return shown is not None and shown is self.output

    @classmethod
    def of(cls, value: Any, *, metadata: Mapping[str, Any] | None = None) -> ToolResult:
        """Return a successful result with `value`, and its `output` rendered for a model.

        None renders as no content, and a str as itself. A Content, or a list that holds one, is
        kept in order. Any other value renders as one JSON text. Where JSON cannot express a value,
        its `str` is used, cut at 4,000 characters.
        """
        return cls(output=render(value), value=value, metadata={} if metadata is None else metadata)

    @classmethod
    def failed(
        cls,
        message: str,
        *,
        type: str = "ToolError",
        details: Mapping[str, Any] | None = None,
        output: str | Content | Iterable[Content] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Return a failed result. Its `text` is the message, without a prefix, then any output."""
        failure = ToolFailure(type=type, message=message, details=details)
        if isinstance(output, str | Content):  # A text is also iterable.
            output = render(output) if output else ()
        metadata = {} if metadata is None else metadata
        return cls(output=list(output or ()), error=failure, metadata=metadata)

    def unwrap(self) -> Any:
        """Return the value.

        Raises:
            ToolError: The call failed. The error has the failure's message, and the original
                exception as its `__cause__`.
        """
        if self.error is not None:
            raise ToolError(self.error.message, details=self.error.details) from self.error.cause
        return self.value


_SLOTS = ("output", "value", "error", "metadata", "call_id", "_shown")


class _NamesSlot:
    """A slot for `names`. It is not a dataclass field: no model learns it, and no host sends it."""

    __slots__ = ("names",)


@dataclass(slots=True, kw_only=True)
class ToolSchema(_NamesSlot):
    """Everything that a model learns about a tool.

    `parameters` is the published JSON Schema (2020-12) of the arguments, in the strict form if
    `strict` is set. `plain` is the schema before that: dialects with other rules render from it.
    `output` is the schema of the return value, if its annotation has one. `names` maps the aliases
    in these schemas to the names of the parameters, under which hooks and guardrails get them.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    plain: dict[str, Any]
    strict: bool = False
    output: dict[str, Any] | None = None
    if TYPE_CHECKING:
        names: Mapping[str, str] = {}
    else:
        names: InitVar[Mapping[str, str]] = {}

        def __post_init__(self, names):
            self.names = names

    @property
    def arguments(self) -> dict[str, Any]:
        """The schema of each argument, by its name in the canonical arguments of a call."""
        properties = self.plain.get("properties", {})
        return {self.names.get(name, name): part for name, part in properties.items()}


# The default of an InitVar becomes a class attribute, which would hide the slot of the base class.
for _owner, _name in ((ToolFailure, "cause"), (ToolResult, "_shown"), (ToolSchema, "names")):
    delattr(_owner, _name)


def wrong_call(given: Any) -> TypeError:
    """Return the error for an object that was passed as a call but is not a `ToolCall`."""
    return TypeError(f"a call must be a {_EXAMPLE}, not {type(given).__name__}")


def with_arguments(call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
    """Return a copy of the call with other arguments, without the cost of `__init__`."""
    new = _new(ToolCall)
    new.name, new.id, new.metadata = call.name, call.id, call.metadata
    new.arguments = arguments
    return new


def success_of(value: Any, call_id: str) -> ToolResult:
    """Return `ToolResult.of(value)` with a call's id, but faster.

    For a small call, `__init__` with keyword arguments would cost more than everything else.
    """
    kind = type(value)
    try:  # An f-string is faster than the JSON writer.
        text = f"{value}" if kind is int else value if kind is str and value.isascii() else None
    except ValueError:  # Python itself writes at most 4,300 digits.
        text = None
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
    """Return the failed result that answers an exception by default.

    A `ToolError` shows its message. Any other exception shows `TypeName: message`.
    """
    kind = type(error).__name__
    details = error.details if isinstance(error, ToolError) else None
    if message is None:
        text = cut_str(error, "")
        before = "" if isinstance(error, ToolError) else f"{kind}: "
        message = f"{before}{text}"[:MAX_REPR] if text else kind
    return ToolResult(error=ToolFailure(type=kind, message=message, details=details, cause=error))


def changed(result: ToolResult, **fields: Any) -> ToolResult:
    """Return a copy with other fields.

    `dataclasses.replace` would call the `__init__` of a subclass, which may take other arguments.
    """
    if type(result) is ToolResult:  # Four times as fast as `copy`.
        new = _new(ToolResult)
        for name in _SLOTS:
            setattr(new, name, getattr(result, name, None))
    else:
        new = copy(result)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def metadata_of(made: ToolResult | ToolCall) -> Mapping[str, Any]:
    """Return the metadata of a result or a call, or an empty dict if it is set to a non-mapping."""
    return made.metadata if isinstance(made.metadata, (dict, Mapping)) else {}


def render(value: Any) -> list[Content]:
    """Return `value` as content for a model, by the rules of `ToolResult.of`."""
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


def fingerprint(value: Any, version: int = 2) -> bytes:
    """Return bytes that change when plain data is changed in place; none for other values.

    Version 2 of the format has no back-references, so equal values give equal bytes. Version 4 has,
    so it ends for a value that holds itself.
    """
    try:
        return marshal.dumps(value, version)
    except ValueError:  # Among arguments, a hook or a guardrail has put a value that is not JSON.
        return b""


def to_json(value: Any) -> str:
    """Return `value` as JSON; anything else becomes its `str`, at most 4,000 characters."""

    def fallback(part: Any) -> str:
        if part is value:  # The whole value is shown as its `str`, not as a quoted JSON string.
            raise TypeError
        return cut_str(part)

    try:
        # Plain data has a fingerprint, which takes a tenth of the time of looking through it.
        if not fingerprint(value, 4) and _holds_iterator(value, 0):
            return cut_str(value)
        try:
            return _dump(value, by_alias=True, fallback=fallback).decode()
        except Exception:  # A text with a lone surrogate must not cost the rest of the value.
            texts = _valid_texts(value)
            plain = _writer.to_python(texts, mode="json", by_alias=True, fallback=fallback)
            return _dump(_valid_texts(plain)).decode()
    except Exception:
        return cut_str(value)


def _valid_texts(value: Any) -> Any:
    """Return plain data with valid UTF-8 in all of its texts. Other values stay as they are."""
    kind = type(value)
    if isinstance(value, str):
        return valid_text(str.__str__(value))
    if kind is dict:
        return {_valid_texts(key): _valid_texts(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return kind(map(_valid_texts, value))
    return value


def cut_str(value: Any, otherwise: str | None = None) -> str:
    """Return `str(value)` as valid UTF-8 of at most 4,000 characters. Never raise."""
    try:
        return valid_text(str(value)[:MAX_REPR])
    except Exception:
        return f"<{type(value).__name__}>" if otherwise is None else otherwise


def valid_text(text: str) -> str:
    """Return `text` as valid UTF-8: surrogate pairs are joined, single surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _holds_iterator(value: Any, depth: int) -> bool:
    """Return whether `value` is or holds an iterator.

    The JSON writer would consume the iterator, and an endless one would never stop.
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
    else:  # The JSON writer writes dataclasses and models field by field.
        names = getattr(kind, "__dataclass_fields__", getattr(kind, "__pydantic_fields__", ()))
        items = [getattr(value, name, None) for name in names]
    return not _SCALARS.issuperset(map(type, items)) and any(
        _holds_iterator(item, depth + 1) for item in items
    )


def _placeholder(content: Any) -> str:
    where = content.uri if content.data is None else f"{len(content.data)} bytes"
    return f"[{content.media_type}: {where}]"
