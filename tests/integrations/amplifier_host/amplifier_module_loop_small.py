"""A small orchestrator, loaded by a real session: our reading of loop-basic's rule, which is not on PyPI.

For every call: `tool:pre` (a hook may deny), `await tool.execute(arguments)`, then `tool:post` with the result, or `tool:error` when
`execute` raised or the tool is unknown. What the model reads is `str` of the result, as it comes back from the hooks.
"""

from typing import Any

__amplifier_module_type__ = "orchestrator"


class Loop:
    def __init__(self) -> None:
        self.results: list[Any] = []

    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, **kwargs: Any
    ) -> str:
        coordinator = kwargs["coordinator"]
        (provider,) = providers.values()
        await context.add_message({"role": "user", "content": prompt})
        while True:
            if coordinator.cancellation.is_cancelled:
                return "cancelled"
            response = await provider.complete(await context.get_messages_for_request())
            calls = provider.parse_tool_calls(response)
            if not calls:
                return "".join(block.text for block in response.content)
            for call in calls:
                text = await self._call(call, tools, hooks)
                await context.add_message(
                    {"role": "tool", "tool_call_id": call.id, "content": text}
                )

    async def _call(self, call: Any, tools: Any, hooks: Any) -> str:
        asked = await hooks.emit("tool:pre", {"tool_name": call.name, "tool_input": call.arguments})
        if asked.action == "deny":
            return f"Denied by hook: {asked.reason}"
        tool = tools.get(call.name)
        if tool is None:
            await hooks.emit(
                "tool:error",
                {"tool_name": call.name, "error": {"type": "RuntimeError", "msg": "unknown"}},
            )
            return f"Error: Tool '{call.name}' not found"
        try:
            result = await tool.execute(call.arguments)
        except Exception as error:
            described = {"type": type(error).__name__, "msg": str(error)}
            await hooks.emit("tool:error", {"tool_name": call.name, "error": described})
            return f"Error executing tool: {error}"
        self.results.append(result)
        told = await hooks.emit(
            "tool:post", {"tool_name": call.name, "tool_input": call.arguments, "result": result}
        )
        return str((told.data or {}).get("result", result))


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("orchestrator", Loop())
