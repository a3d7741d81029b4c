"""A provider that follows a script: `calls` in the configuration is a list of turns, each a list of (name, arguments)."""

from typing import Any

from amplifier_core import ChatResponse, TextBlock, ToolCall

__amplifier_module_type__ = "provider"


class Scripted:
    name = "scripted"

    def __init__(self, turns: list[Any]) -> None:
        self.turns = list(turns)

    async def complete(self, request: Any, **kwargs: Any) -> ChatResponse:
        calls = self.turns.pop(0) if self.turns else []
        made = [
            ToolCall(id=f"call-{n}", name=name, arguments=arguments)
            for n, (name, arguments) in enumerate(calls)
        ]
        return ChatResponse(content=[TextBlock(text="done")], tool_calls=made)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("providers", Scripted(config["calls"]), name="scripted")
