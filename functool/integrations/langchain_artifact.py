"""Make the artifact of LangChain's `ToolMessage`: our result, which a checkpointer can store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functool import ToolResult
from functool.call import changed, metadata_of, to_json
from functool.integrations._agents import missing
from functool.integrations.langchain_asking import runtime_of_graph

try:
    from langchain_core.messages import ToolMessage
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
except ImportError as _error:
    raise missing("LangChain", "langchain") from _error

_serializer = JsonPlusSerializer()


def artifact_of(result: ToolResult) -> ToolResult:
    """Return a result as it is, or as a graph with a checkpointer can store it.

    There, a value or an entry of the metadata that LangGraph cannot store becomes its JSON text.
    Otherwise storing would end the run, after the tool has done its work.
    """
    runtime = runtime_of_graph()
    execution = None if runtime is None else runtime.execution_info
    if execution is None or execution.thread_id is None or _is_storable(result):
        return result
    error = result.error
    if error is not None and error.details is not None:
        error = replace(error, details=_stored_items(error.details))
    return changed(
        result,
        value=_stored(result.value),
        metadata=_stored_items(metadata_of(result)),
        error=error,
    )


def _stored_items(items: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _stored(value) for name, value in items.items()}


def _stored(value: Any) -> Any:
    return value if _is_storable(value) else to_json(value)


def _is_storable(value: Any) -> bool:
    try:
        # In the message it may be storable, although it is not alone.
        _serializer.dumps_typed(ToolMessage("", tool_call_id="", artifact=value))
    except Exception:  # It calls methods of the value, which may raise anything.
        return False
    return True
