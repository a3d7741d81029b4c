"""The frameworks behind one face: each plays a script of model turns in its own agent loop and tells what happened.

A turn is the calls `(id, name, arguments)` that the scripted model makes, or the text with which it ends.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import agents
import pydantic_ai
from agent_framework import Agent as AFAgent
from agent_framework import Message
from agents.models.openai_responses import Converter
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from functool.integrations import agent_framework, langchain, openai_agents
from functool.integrations import pydantic_ai as bridge_pydantic_ai
from tests.integrations.bridge_agent_framework import ScriptedClient, Turn, as_json

agents.set_tracing_disabled(True)


@dataclass
class Read:
    """What the model read of one call."""

    call_id: str
    text: str
    images: list[bytes] = field(default_factory=list)


@dataclass
class Outcome:
    """What happened in a run."""

    final: Any = None
    declared: dict[str, dict[str, Any]] = field(default_factory=dict)
    read: list[Read] = field(default_factory=list)
    paused: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    streamed: list[Any] = field(default_factory=list)

    def of(self, call_id: str) -> Read:
        """Return what the model read of one call, once."""
        (read,) = [read for read in self.read if read.call_id == call_id]
        return read


Decide = Callable[[str, dict[str, Any]], bool | str]


def as_dict(arguments: Any) -> dict[str, Any]:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


class Bridge:
    """A framework by its package, with the vocabulary of functool's bridge to it."""

    name: str

    def __init_subclass__(cls, module: Any, package: str) -> None:
        cls.version = version(package)
        cls.export = staticmethod(module.export)
        cls.runner = staticmethod(module.runner)

    def started(self, tools: list[Any], *turns: Turn) -> tuple[Any, Any]:
        """Return an agent for `play`, and the thread that its run needs."""
        return self.agent(tools, *turns), None

    async def play(
        self,
        tools: list[Any],
        *turns: Turn,
        deps: Any = None,
        decide: Decide | None = None,
        stream: bool = False,
    ) -> Outcome:
        """Play a script in the framework's own loop; `decide` answers the calls that wait for a person."""
        outcome, resume = Outcome(), None
        agent, thread = self.started([self.export(tool) for tool in tools], *turns)
        while True:
            run, events = await self.go(agent, thread, resume, deps, stream)
            outcome.streamed += events
            pending = self.pending(run)
            if not pending or decide is None:
                break
            outcome.paused += [(name, arguments) for _, name, arguments in pending]
            answers = [(item, decide(name, arguments)) for item, name, arguments in pending]
            resume = self.resumed(run, answers)
        outcome.final = self.final(run)
        outcome.declared = self.declared(agent)
        outcome.read = self.read(agent)
        return outcome


class OpenAIAgents(Bridge, module=openai_agents, package="openai-agents"):
    """openai-agents, its own `ScriptedModel`, `Runner.run` and `Runner.run_streamed`."""

    name = "openai-agents"

    def model(self, turns: tuple[Turn, ...]) -> ScriptedModel:
        return ScriptedModel(
            [assistant_message(turn)]
            if isinstance(turn, str)
            else [function_call(n, as_json(a), call_id=i) for i, n, a in turn]
            for turn in turns
        )

    def agent(self, tools: list[Any], *turns: Turn) -> agents.Agent:
        return agents.Agent(name="scripted", model=self.model(turns), tools=tools)

    def threaded(self, tools: list[Any], *turns: Turn) -> tuple[Any, Any]:
        return self.agent(tools, *turns), agents.SQLiteSession("s")

    def asked(self, agent: Any, thread: Any) -> list[str]:
        return [
            item["content"] for item in agent.model.calls[-1].input if item.get("role") == "user"
        ]

    async def go(
        self, agent: Any, thread: Any, resume: Any, deps: Any, stream: bool
    ) -> tuple[Any, list[Any]]:
        start, given = ("go", {"context": deps}) if resume is None else (resume, {})
        if not stream:
            return await agents.Runner.run(agent, start, **given), []
        run = agents.Runner.run_streamed(agent, start, **given)
        return run, [event async for event in run.stream_events()]

    def pending(self, run: Any) -> list[Any]:
        return [(item, item.name, json.loads(item.arguments)) for item in run.interruptions]

    def resumed(self, run: Any, answers: list[Any]) -> Any:
        state = run.to_state()
        for item, answer in answers:
            if answer is True:
                state.approve(item)
            else:
                state.reject(item, rejection_message=answer or None)
        return state

    def final(self, run: Any) -> Any:
        return run.final_output

    def declared(self, agent: Any) -> dict[str, dict[str, Any]]:
        wire = Converter.convert_tools(agent.model.calls[0].tools, []).tools
        return {t["name"]: {k: t[k] for k in ("description", "parameters", "strict")} for t in wire}

    def read(self, agent: Any) -> list[Read]:
        return [
            self._read(item["call_id"], item["output"])
            for item in agent.model.calls[-1].input
            if item.get("type") == "function_call_output"
        ]

    def event(self, item: Any) -> str:
        return getattr(item, "name", "")

    def _read(self, call_id: str, output: Any) -> Read:
        if isinstance(output, str):
            return Read(call_id, output)
        texts = [part["text"] for part in output if part["type"] == "input_text"]
        urls = [part["image_url"] for part in output if part["type"] == "input_image"]
        return Read(
            call_id, "\n".join(texts), [base64.b64decode(url.partition(",")[2]) for url in urls]
        )


class PydanticAI(Bridge, module=bridge_pydantic_ai, package="pydantic-ai-slim"):
    """pydantic-ai, its own `FunctionModel`, `Agent.run` and an event stream handler."""

    name = "pydantic-ai"

    def agent(self, tools: list[Any], *turns: Turn) -> pydantic_ai.Agent:
        script, seen = iter(turns), []

        def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
            seen.append((list(messages), info))
            turn = next(script)
            if isinstance(turn, str):
                return ModelResponse(parts=[TextPart(turn)])
            return ModelResponse(
                parts=[ToolCallPart(n, as_json(a), tool_call_id=i) for i, n, a in turn]
            )

        async def stream(messages: list[Any], info: AgentInfo):
            seen.append((list(messages), info))
            turn = next(script)
            if isinstance(turn, str):
                yield turn
            else:
                yield {
                    k: DeltaToolCall(n, as_json(a), tool_call_id=i)
                    for k, (i, n, a) in enumerate(turn)
                }

        model = FunctionModel(answer, stream_function=stream)
        model.seen = seen
        outputs = [str, pydantic_ai.DeferredToolRequests]
        return pydantic_ai.Agent(model, tools=tools, output_type=outputs)

    def threaded(self, tools: list[Any], *turns: Turn) -> tuple[Any, Any]:
        return self.agent(tools, *turns), []

    def asked(self, agent: Any, thread: Any) -> list[str]:
        return [
            part.content
            for message in thread
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]

    async def go(
        self, agent: Any, thread: Any, resume: Any, deps: Any, stream: bool
    ) -> tuple[Any, list[Any]]:
        events: list[Any] = []

        async def listen(ctx: Any, told: Any) -> None:
            events.extend([event async for event in told])

        given = resume or {"user_prompt": "go"}
        handler = listen if stream else None
        return await agent.run(deps=deps, event_stream_handler=handler, **given), events

    def pending(self, run: Any) -> list[Any]:
        if not isinstance(run.output, pydantic_ai.DeferredToolRequests):
            return []
        return [(part, part.tool_name, part.args_as_dict()) for part in run.output.approvals]

    def resumed(self, run: Any, answers: list[Any]) -> Any:
        results = pydantic_ai.DeferredToolResults(metadata=run.output.metadata)
        for part, answer in answers:
            denied = pydantic_ai.ToolDenied(answer or "no")
            results.approvals[part.tool_call_id] = True if answer is True else denied
        return {"message_history": run.all_messages(), "deferred_tool_results": results}

    def final(self, run: Any) -> Any:
        return run.output

    def declared(self, agent: Any) -> dict[str, dict[str, Any]]:
        return {
            definition.name: {
                "description": definition.description,
                "parameters": definition.parameters_json_schema,
                "strict": bool(definition.strict),
            }
            for definition in agent.model.seen[0][1].function_tools
        }

    def read(self, agent: Any) -> list[Read]:
        read = []
        for message in agent.model.seen[-1][0]:
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if isinstance(part, ToolReturnPart):
                    read.append(self._read(part))
                elif isinstance(part, RetryPromptPart):
                    read.append(Read(part.tool_call_id, part.model_response()))
                else:
                    assert isinstance(part, UserPromptPart)
        return read

    def event(self, item: Any) -> str:
        return item.event_kind

    def _read(self, part: ToolReturnPart) -> Read:
        images = [file.data for file in part.files]
        content = part.content if isinstance(part.content, list) else [part.content]
        texts = [
            item if isinstance(item, str) else json.dumps(item)
            for item in content
            if item not in part.files
        ]
        return Read(part.tool_call_id, "\n".join(texts), images)


class _ScriptedChat(BaseChatModel):
    """A chat model that plays a script and keeps what it was shown."""

    script: list[Any]
    seen: list[Any] = []
    shown: list[Any] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.shown[:] = [convert_to_openai_tool(tool) for tool in tools]
        return self

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.seen.append(messages)
        turn = self.script.pop(0)
        usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
        if isinstance(turn, str):
            message = AIMessage(turn, usage_metadata=usage)
        else:
            calls = [{"id": i, "name": n, "args": as_dict(a)} for i, n, a in turn]
            message = AIMessage("", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class LangChain(Bridge, module=langchain, package="langchain"):
    """LangChain's `create_agent` (a LangGraph graph with its `ToolNode`), a chat model, `ainvoke` and `astream`."""

    name = "langchain"

    def agent(self, tools: list[Any], *turns: Turn, checkpointer: Any = None) -> Any:
        model = _ScriptedChat(script=list(turns), seen=[], shown=[])
        graph = create_agent(model, tools=tools, context_schema=object, checkpointer=checkpointer)
        graph.scripted = model
        return graph

    def threaded(self, tools: list[Any], *turns: Turn) -> tuple[Any, Any]:
        return self.agent(tools, *turns, checkpointer=InMemorySaver()), "t1"

    started = threaded

    def asked(self, agent: Any, thread: Any) -> list[str]:
        return [message.text for message in agent.scripted.seen[-1] if message.type == "human"]

    async def go(
        self, agent: Any, thread: Any, resume: Any, deps: Any, stream: bool
    ) -> tuple[Any, list[Any]]:
        start = resume or {"messages": [("user", "go")]}
        config, events = {"configurable": {"thread_id": thread}}, []
        if stream:
            told = agent.astream(start, config, context=deps, stream_mode="custom")
            events = [event async for event in told]
        else:
            await agent.ainvoke(start, config, context=deps)
        return await agent.aget_state(config), events

    def pending(self, run: Any) -> list[Any]:
        return [(item, item.value["tool"], item.value["arguments"]) for item in run.interrupts]

    def resumed(self, run: Any, answers: list[Any]) -> Any:
        return Command(resume={item.id: answer for item, answer in answers})

    def final(self, run: Any) -> Any:
        return run.values["messages"][-1].text

    def declared(self, agent: Any) -> dict[str, dict[str, Any]]:
        functions = [shown["function"] for shown in agent.scripted.shown]
        return {
            function["name"]: {k: function.get(k) for k in ("description", "parameters", "strict")}
            for function in functions
        }

    def read(self, agent: Any) -> list[Read]:
        read = []
        for message in agent.scripted.seen[-1]:
            if isinstance(message, ToolMessage):
                blocks = [message.content] if isinstance(message.content, str) else message.content
                texts = [
                    block if isinstance(block, str) else block["text"]
                    for block in blocks
                    if isinstance(block, str) or "text" in block
                ]
                images = [
                    base64.b64decode(b["base64"])
                    for b in blocks
                    if isinstance(b, dict) and b["type"] == "image"
                ]
                read.append(Read(message.tool_call_id, "\n".join(texts), images))
        return read

    def event(self, item: Any) -> str:
        return next(iter(item))


class AgentFramework(Bridge, module=agent_framework, package="agent-framework-core"):
    """agent-framework, its function-calling loop over a chat client, `Agent.run` streamed or not."""

    name = "agent-framework"

    def agent(self, tools: list[Any], *turns: Turn) -> AFAgent:
        return AFAgent(client=ScriptedClient(*turns), tools=tools)

    def threaded(self, tools: list[Any], *turns: Turn) -> tuple[Any, Any]:
        agent = self.agent(tools, *turns)
        return agent, agent.create_session()

    started = threaded

    def asked(self, agent: Any, thread: Any) -> list[str]:
        return [message.text for message in agent.client.seen[-1] if message.role == "user"]

    async def go(
        self, agent: Any, thread: Any, resume: Any, deps: Any, stream: bool
    ) -> tuple[Any, list[Any]]:
        kwargs = None if deps is None else {"deps": deps}
        given = {"session": thread, "function_invocation_kwargs": kwargs}
        if not stream:
            return await agent.run(resume or "go", **given), []
        told = agent.run(resume or "go", stream=True, **given)
        events = [update async for update in told]
        return await told.get_final_response(), events

    def pending(self, run: Any) -> list[Any]:
        return [
            (request, request.function_call.name, request.function_call.parse_arguments())
            for request in run.user_input_requests
        ]

    def resumed(self, run: Any, answers: list[Any]) -> Any:
        said = [item.to_function_approval_response(answer is True) for item, answer in answers]
        return Message("user", said)

    def final(self, run: Any) -> Any:
        return run.text

    def declared(self, agent: Any) -> dict[str, dict[str, Any]]:
        return {
            shown["name"]: {**shown, "strict": shown.get("strict")} for shown in agent.client.shown
        }

    def read(self, agent: Any) -> list[Read]:
        read = []
        for message in agent.client.seen[-1]:
            for content in message.contents:
                if content.type == "function_result":
                    items = content.items or []
                    texts = [item.text for item in items if item.type == "text"] or [
                        str(content.result)
                    ]
                    urls = [item.uri for item in items if item.type == "data"]
                    images = [base64.b64decode(url.partition(",")[2]) for url in urls]
                    read.append(Read(content.call_id, "\n".join(texts), images))
        return read

    def event(self, item: Any) -> str:
        return item.contents[0].type if item.contents else ""


BRIDGES = [OpenAIAgents(), PydanticAI(), LangChain(), AgentFramework()]
