"""Write a call's outcome as JSON and read it back: its result, or what its body raised."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic_core import to_json

from functool import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    TextContent,
    ToolError,
    ToolFailure,
    ToolResult,
    Tripwire,
)
from functool.layers.journal_errors import JournalError

_CONTENTS: tuple[type[Any], ...] = (TextContent, ImageContent, AudioContent, FileContent)
_KINDS = {kind.__name__: kind for kind in _CONTENTS}


def text_of(result: ToolResult, raised: str = "") -> str:
    """Return a result as the text of one JSON object.

    The value is stored in its JSON form. A value that JSON cannot express is stored as the text
    that the model read, with `value_is_text` set.

    Args:
        result: The result, or the failed result of the exception that a body raised.
        raised: The kind of that exception: `"ToolError"`, `"Tripwire"` or `"Exception"`. Empty if
            the body returned a result.
    """
    form: dict[str, Any] = {"value": result.value, "raised": raised}
    if not isinstance(result.value, str) or result.output != [TextContent(text=result.value)]:
        form["output"] = [_content_form(content) for content in result.output]
    if result.error is not None:
        error = result.error
        form["error"] = {"type": error.type, "message": error.message, "details": error.details}
    if result.metadata and isinstance(result.metadata, Mapping):
        form["metadata"] = result.metadata
    if result.value is not None and result.structured is None:
        form["shown"] = True
    try:
        return json.dumps(form, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({**form, **_json_parts(result)}, allow_nan=False, default=str)


class Outcome(NamedTuple):
    """The stored outcome of a call.

    `error` is the exception that the body raised, ready to be raised again, or None. `is_text` is
    true if JSON cannot express the value, so that it was stored as the text that the model read.
    """

    result: ToolResult
    error: Exception | None
    is_text: bool


def outcome_of(text: str) -> Outcome:
    """Return the outcome that `text_of` wrote.

    Raises:
        JournalError: The text is damaged.
    """
    try:
        return _outcome(text)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        wrong = f"what is recorded of it is damaged ({type(error).__name__})"
        raise JournalError(f"The call was not run: {wrong}.") from error


def _outcome(text: str) -> Outcome:
    form = json.loads(text)
    value, error, parts = form["value"], form.get("error"), form.get("output")
    output: list[Content] = [TextContent(text=value)]
    if parts is not None:
        output = [_content(part) for part in parts]
    result = ToolResult(output=output, value=value, metadata=form.get("metadata") or {})
    raised = None
    if error is not None:
        result.error = ToolFailure(**error)
        raised = _raised(form["raised"], result.error) if form["raised"] else None
    elif form.get("shown"):
        result = result.shown_as(output)
    return Outcome(result, raised, form.get("value_is_text", False))


def _raised(kind: str, failure: ToolFailure) -> Exception:
    """Return an exception like the one that the body raised.

    Its class is a new class with the same name. The tool's error handlers see it as they saw the
    first one, so `hide_errors` hides it again.
    """
    name, message = failure.type, failure.message
    message = "" if message == name else message
    if kind == "Tripwire":
        return Tripwire(message)
    if kind == "ToolError":
        known: ToolError = type(name, (ToolError,), {})(message, details=failure.details)
        return known
    other: Exception = type(name, (Exception,), {})(message)
    return other


def failure_from(error: Exception, sources: Iterable[str] | None = None) -> tuple[ToolResult, str]:
    """Return the failed result for an exception that a body raised, and the kind of exception.

    `sources` are the untrusted tools that its message may come from.
    """
    if isinstance(error, ToolError):
        kind = "ToolError"
    else:
        kind = "Tripwire" if isinstance(error, Tripwire) else "Exception"
    details = error.details if isinstance(error, ToolError) else None
    message = ToolResult.of(error).text
    metadata = {"sources": [*sources]} if sources else None
    name = type(error).__name__
    return ToolResult.failed(message, type=name, details=details, metadata=metadata), kind


def _json_parts(result: ToolResult) -> dict[str, Any]:
    """Return metadata, error and value of a result in a form that `json.dumps` can write."""
    parts: dict[str, Any] = {
        "metadata": {
            str(key): json.loads(known)
            for key, value in (
                result.metadata.items() if isinstance(result.metadata, Mapping) else ()
            )
            if (known := _json(value)) is not None
        }
    }
    if result.error is not None:
        details = _json(result.error.details)
        parts["error"] = {
            "type": result.error.type,
            "message": result.error.message,
            "details": None if details is None else json.loads(details),
        }
    known = _json(result.value)
    if known is not None:
        return {**parts, "value": json.loads(known)}
    return {**parts, "value": result.text, "value_is_text": True}


def _json(value: Any) -> str | None:
    """Return a value in its JSON form, or None if it has none."""
    try:
        # Do not read an iterator: it may be endless.
        if not isinstance(value, (str, bytes)) and hasattr(type(value), "__next__"):
            return None
        if not isinstance(value, (str, bytes, float, type(None))):
            json.loads(ToolResult.of(value).text)
        text = to_json(value, by_alias=True, inf_nan_mode="strings", bytes_mode="base64").decode()
        json.loads(text)
    except Exception:
        return None
    return text


def _content_form(content: Content) -> dict[str, Any]:
    form = {name: getattr(content, name) for name in content.__slots__}
    if isinstance(form.get("data"), bytes):
        form["data"] = base64.b64encode(form["data"]).decode()
    return {"kind": type(content).__name__, **form}


def _content(form: dict[str, Any]) -> Content:
    fields = {name: value for name, value in form.items() if name != "kind"}
    if isinstance(fields.get("data"), str):
        fields["data"] = base64.b64decode(fields["data"])
    made: Content = _KINDS[form["kind"]](**fields)
    return made
