"""agent-framework with a chat client that plays a script: one list of calls `(id, name, arguments)` a turn, or a text."""

import json
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework.observability import ChatTelemetryLayer

Turn = list[tuple[str, str, Any]] | str
USAGE = {"input_token_count": 10, "output_token_count": 3, "total_token_count": 13}


def as_json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


class ScriptedClient(
    FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient
):
    """A chat client that plays a script, says "done" after it, and keeps what it was shown."""

    def __init__(self, *turns: Turn, **options: Any) -> None:
        super().__init__(middleware=[], **options)
        self.script: list[Turn] = list(turns)
        self.seen: list[list[Message]] = []
        self.shown: list[Any] = []
        self.usage: Any = USAGE

    def contents(self) -> list[Content]:
        turn = self.script.pop(0) if self.script else "done"
        if isinstance(turn, str):
            return [Content.from_text(turn)]
        return [
            Content.from_function_call(call_id=i, name=n, arguments=as_json(a)) for i, n, a in turn
        ]

    def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **kwargs: Any
    ) -> Any:
        self.seen.append(list(messages))
        self.shown = [tool.to_json_schema_spec()["function"] for tool in options.get("tools") or ()]
        contents = self.contents()
        if stream:

            async def updates() -> Any:
                for content in [*contents, Content.from_usage(self.usage)]:
                    yield ChatResponseUpdate(contents=[content], role="assistant")

            return self._build_response_stream(updates())

        async def respond() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", contents)], usage_details=self.usage)

        return respond()
