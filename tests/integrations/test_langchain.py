"""What is particular to the bridge to LangChain and LangGraph; what it shares with the others is in `test_matrix`."""

import asyncio
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph", reason="needs tests/requirements/agents.txt")
pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import Tool as TextTool
from langchain_core.tools import tool as native_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime
from langgraph.types import Command, RetryPolicy, interrupt

from functool import (
    AgentTool,
    AudioContent,
    Context,
    Decision,
    DefinitionError,
    FileContent,
    FunctionTool,
    GuardrailError,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
)
from functool.guardrails import require_approval
from functool.integrations import langchain
from tests.integrations.bridges import LangChain
from tests.integrations.odd_tools import adopts_only_theirs, paying
from tests.support import ask, call

bridge = LangChain()
CONFIG: Any = {"configurable": {"thread_id": "1"}}
GO: Any = {"messages": [("user", "go")]}
PAY = [("c1", "pay", {"amount": 7})]


def kept(*tools: Any, turns: Any = PAY) -> Any:
    """A graph that makes these calls, says "done", and can be interrupted."""
    exported = [langchain.export(tool) for tool in tools]
    return bridge.agent(exported, turns, "done", checkpointer=InMemorySaver())


def pending(graph: Any) -> Any:
    """The interrupt at which a graph waits."""
    (interrupt,) = graph.get_state(CONFIG).interrupts
    return interrupt.value


def expert(agent: Any, **options: Any) -> AgentTool:
    return AgentTool(agent, "expert", "d", **{"runner": langchain.runner, **options})


def made(name: str, arguments: dict[str, Any], id: str = "c1") -> dict[str, Any]:
    return {"type": "tool_call", "name": name, "args": arguments, "id": id}


@FunctionTool(settings=ToolSettings(tags=("math",)))
async def half(number: int) -> float:
    """Halve a number."""
    if number < 0:
        raise ValueError("too small")
    return number / 2


def test_the_tags_of_a_tool_go_along() -> None:
    """The exported tool has the tags of the tool's settings."""
    assert langchain.export(half).tags == ["math"]


def test_alone_a_tool_returns_its_value_and_raises_its_failure() -> None:
    """Called without a call id, sync or async, the tool returns the body's own value and raises `ToolException`."""
    exported = langchain.export(half)

    assert exported.invoke({"number": 3}) == 1.5
    assert asyncio.run(exported.ainvoke({"number": 3})) == 1.5
    assert exported.invoke("3") == 1.5
    with pytest.raises(ToolException, match="ValueError: too small"):
        exported.invoke({"number": -1})


def test_a_whole_call_gives_a_message() -> None:
    """Called with a tool call, the tool answers with a message whose artifact is the `ToolResult`."""
    exported = langchain.export(half)
    fine = exported.invoke(made("half", {"number": 3}))
    failed = asyncio.run(exported.ainvoke(made("half", {"number": -1})))

    assert (fine.content, fine.status, fine.tool_call_id) == ("1.5", "success", "c1")
    assert fine.artifact.value == 1.5
    assert (failed.content, failed.status) == ("ValueError: too small", "error")
    assert failed.artifact.error.type == "ValueError"


def test_any_argument_name() -> None:
    """Names that LangChain uses itself are the model's all the same."""

    @FunctionTool
    async def odd(config: str, run_manager: str, callbacks: str, call: str) -> str:
        """Take odd names."""
        return config + run_manager + callbacks + call

    arguments = {"config": "a", "run_manager": "b", "callbacks": "c", "call": "d"}

    assert asyncio.run(langchain.export(odd).ainvoke(made("odd", arguments))).content == "abcd"


def test_exported_tool_in_a_chain() -> None:
    """The tool is a runnable like any other."""
    chain = (
        RunnableLambda(lambda text: {"number": int(text)})
        | langchain.export(half)
        | RunnableLambda(lambda value: f"half: {value}")
    )

    assert chain.invoke("5") == "half: 2.5"


def test_sync_graph() -> None:
    """In a graph that is run synchronously the tool answers too, approval and context included."""

    @FunctionTool(input_guardrails=[require_approval()])
    async def pay(amount: int, context: Context) -> str:
        """Pay."""
        return f"{context.deps} paid {amount}"

    graph = kept(pay)
    graph.invoke(GO, CONFIG, context="ada")
    asked = pending(graph)
    last = graph.invoke(Command(resume=True), CONFIG, context="ada")

    assert (asked["tool"], asked["arguments"]) == ("pay", {"amount": 7})
    assert [m.content for m in last["messages"] if isinstance(m, ToolMessage)] == ["ada paid 7"]


@pytest.mark.parametrize("shown", [False, True])
def test_call_of_an_agent_inside_the_tool_is_approved_by_its_digest(shown: bool) -> None:
    """True answers for the tool's own call only; for what an agent inside it wants to do, the digest that was shown does."""
    paid: list[int] = []
    inner = Toolset([paying(paid)])

    async def runner(agent: Any, text: str, context: Context) -> ToolResult:
        return await inner.call(ToolCall(name="pay", arguments={"amount": 7}, id="inner"), context)

    graph = kept(expert("a", runner=runner), turns=[("c1", "expert", {"input": "pay"})])
    graph.invoke(GO, CONFIG)
    asked = pending(graph)
    graph.invoke(Command(resume=asked["digest"] if shown else True), CONFIG)

    assert asked["call_id"] == "inner"
    assert paid == ([7] if shown else [])


EDIT = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 3}}}
TOLD = "A person changed the arguments of this call: `amount` to 3."


def transferring(paid: list[int], **options: Any) -> FunctionTool:
    """A tool with a default, which an edit may leave out."""

    @FunctionTool(**options)
    async def pay(amount: int, currency: str = "CHF") -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount} {currency}"

    return pay


@pytest.mark.parametrize(
    ("answer", "paid", "read"),
    [
        ({"type": "approve"}, [7], "paid 7 CHF"),
        (EDIT, [3], f"{TOLD}\npaid 3 CHF"),
        ({"type": "edit", "edited_action": {"args": {"amount": 3}}}, [3], f"{TOLD}\npaid 3 CHF"),
        (
            {"type": "edit", "edited_action": {"name": "steal", "args": {"amount": 3}}},
            [],
            "A person refused this call: An edit cannot name another tool.",
        ),
        (
            {"type": "reject", "message": "Too much."},
            [],
            "A person refused this call: Too much.",
        ),
        ({"type": "reject"}, [], "A person refused this call."),
        ({"type": "yes"}, [], "A person refused this call."),
        (1, [], "A person refused this call."),
    ],
)
def test_a_graph_is_resumed_with_a_decision_of_langchain(
    answer: Any, paid: list[int], read: str, caplog: Any
) -> None:
    """Approve, edit and reject, as LangChain writes them, answer the interrupt; what is no answer refuses, and is logged."""
    ran: list[int] = []
    graph = kept(transferring(ran, input_guardrails=[require_approval()]))
    asyncio.run(graph.ainvoke(GO, CONFIG))
    asked = pending(graph)
    messages = asyncio.run(graph.ainvoke(Command(resume=answer), CONFIG))["messages"]

    assert asked["arguments"] == {"amount": 7, "currency": "CHF"}
    assert (messages[-2].content, ran) == (read, paid)
    known = isinstance(answer, dict) and answer["type"] in ("approve", "edit", "reject")
    logged = [] if known else [f"a {type(answer).__name__} that is no decision"]
    assert [words for words in logged if words in caplog.text] == logged
    assert ("no decision" in caplog.text) is bool(logged)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_the_frameworks_own_review_edits_an_exported_tool(mode: Any) -> None:
    """`HumanInTheLoopMiddleware` edits the call of a tool that asks for no approval itself."""
    ran: list[int] = []
    graph = reviewed(transferring(ran), PAY, mode=mode)
    asyncio.run(graph.ainvoke(GO, CONFIG))
    answer = EDIT if mode == "per_call" else {"decisions": [EDIT]}
    asyncio.run(graph.ainvoke(Command(resume=answer), CONFIG))

    assert ran == [3]


def reviewed(tool: Any, *turns: Any, mode: Any) -> Any:
    """A graph whose calls of `pay` a person reviews."""
    middleware = HumanInTheLoopMiddleware(interrupt_on={"pay": True}, interrupt_mode=mode)
    model, tools = bridge.agent([], *turns, "done").scripted, [langchain.export(tool)]
    return create_agent(model, tools, middleware=[middleware], checkpointer=InMemorySaver())


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_the_frameworks_own_review_waits_in_a_sub_agent(mode: Any) -> None:
    """A sub-agent's review asks the outer context about each call, one by one: approved, edited, refused."""
    ran: list[int] = []
    calls = [(f"i{n}", "pay", {"amount": n}) for n in (1, 2, 3)]
    tool = expert(reviewed(transferring(ran), calls, mode=mode))
    context, asked = Context(), []
    for _ in calls:
        request = ask(tool, context).metadata["approval"]
        amount = request.arguments["amount"]
        asked.append((request.tool, amount))
        if amount == 3:
            context.deny(request, "not today")
        else:
            context.approve(request, arguments={"amount": 20} if amount == 2 else None)

    assert ask(tool, context).text == "done"
    # LangGraph runs the reviews of `per_call` as tasks, whose order is open.
    assert sorted(asked) == [("pay", 1), ("pay", 2), ("pay", 3)]
    assert sorted(ran) == [1, 20]
    assert context.state == {}


def test_an_edited_call_of_a_sub_agent_runs_edited() -> None:
    """What a person makes of the call of an exported tool in a sub-agent goes to its interrupt."""
    ran: list[int] = []
    tool = expert(kept(transferring(ran, input_guardrails=[require_approval()])))
    edit = Decision(approved=True, arguments={"amount": 3, "currency": "EUR"})
    result = ask(tool, Context(approver=lambda request: edit))

    assert (result.text, ran) == ("done", [3])


def test_without_a_call_id_the_model_text_stands_for_a_value_that_is_not_shown() -> None:
    """After `shown_as` a chain gets what the model would read, and not the value."""

    def short(result: ToolResult, context: Context) -> ToolResult:
        return result.shown_as("many numbers")

    short.shows = True
    tool = FunctionTool(lambda: [1, 2], name="numbers", description="d", output_guardrails=[short])

    assert langchain.export(tool).invoke({}) == "many numbers"


def alarm(ran: list[int]) -> FunctionTool[..., Any]:
    """A tool that raises a tripwire, and notes that it ran."""

    def func() -> None:
        ran.append(1)
        raise Tripwire("Stop everything.")

    return FunctionTool(func, name="alarm")


def test_without_a_graph_a_pending_approval_is_the_failure() -> None:
    """Where no graph can be interrupted the model reads that approval is required."""
    paid: list[int] = []
    message = asyncio.run(langchain.export(paying(paid)).ainvoke(made("pay", {"amount": 1})))

    assert paid == []

    assert (message.status, message.artifact.error.type) == ("error", "ApprovalRequired")


def test_a_middleware_that_tries_again_lets_a_tripwire_pass() -> None:
    """`ToolRetryMiddleware` neither repeats the call nor makes an answer of the tripwire."""
    ran: list[int] = []
    model = bridge.agent([], [("c1", "alarm", {})], "done").scripted
    retrying = ToolRetryMiddleware(max_retries=1, initial_delay=0)
    agent = create_agent(model, tools=[langchain.export(alarm(ran))], middleware=[retrying])

    with pytest.raises(Tripwire, match="Stop everything"):
        asyncio.run(agent.ainvoke(GO))
    assert ran == [1]


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("handles", [False, True])
def test_a_tool_node_lets_a_tripwire_pass(sync: bool, handles: bool) -> None:
    """A tripwire leaves a `ToolNode` that handles every exception, and a node that is tried again, after one attempt."""
    ran: list[int] = []
    graph = StateGraph(MessagesState)
    node = ToolNode(
        [langchain.export(alarm(ran))], **({"handle_tool_errors": True} if handles else {})
    )
    graph.add_node("tools", node, retry_policy=RetryPolicy(initial_interval=0.01))
    graph.set_entry_point("tools")
    runs, given = graph.compile(), {"messages": [AIMessage("", tool_calls=[made("alarm", {})])]}

    with pytest.raises(langchain.RunStopped, match="Stop everything"):
        runs.invoke(given) if sync else asyncio.run(runs.ainvoke(given))
    assert ran == [1]


def test_a_disabled_tool_says_so_in_a_sync_graph() -> None:
    """A tool that is switched off in the context of a graph that is run synchronously does not run, and says so."""

    @FunctionTool(settings=ToolSettings(is_enabled=lambda context: context.deps == "ada"))
    async def secret() -> str:
        """Tell."""
        return "x"

    read = []
    for user in ("ada", "bob"):
        graph = bridge.agent([langchain.export(secret)], [("c1", "secret", {})], "done")
        read.append(graph.invoke(GO, context=user)["messages"][-2].text)

    assert read == ["x", "The tool 'secret' is disabled."]


@pytest.mark.parametrize("running", [False, True])
def test_sync_call_where_a_loop_runs_or_not(running: bool) -> None:
    """A sync call answers in a plain script and inside a running loop."""

    async def main() -> Any:
        return langchain.export(half).invoke({"number": 3})

    assert (asyncio.run(main()) if running else langchain.export(half).invoke({"number": 3})) == 1.5


@pytest.mark.parametrize("sync", [False, True])
def test_only_progress_is_told(sync: bool) -> None:
    """The graph is the orchestrator: listeners of a host's `Context` hear the tool's progress, and no `tool:pre` or `tool:post`."""
    heard: list[str] = []
    host = Context()
    host.subscribe(lambda event: heard.append(event.kind))

    @FunctionTool
    async def slow(context: Context) -> str:
        """Take a while."""
        context.progress("half way")
        return "there"

    graph = bridge.agent([langchain.export(slow)], [("c1", "slow", {})], "done")
    if sync:
        graph.invoke(GO, context=host)
    else:
        asyncio.run(graph.ainvoke(GO, context=host))

    assert heard == ["tool:progress"]


def test_graphs_that_share_a_context_stream_only_their_own_progress() -> None:
    """Models of two graphs that run at once may choose the same call id."""
    both = asyncio.Barrier(2)
    host = Context()

    @FunctionTool
    async def slow(word: str, context: Context) -> str:
        """Take a while."""
        await both.wait()  # Both calls have begun.
        context.progress(word)
        await both.wait()
        return word

    async def told(word: str) -> list[str]:
        graph = bridge.agent([langchain.export(slow)], [("c1", "slow", {"word": word})], "done")
        stream = graph.astream(GO, context=host, stream_mode="custom")
        return [item["message"] async for item in stream]

    async def main() -> list[list[str]]:
        return await asyncio.gather(told("a"), told("b"))

    assert asyncio.run(main()) == [["a"], ["b"]] and not host.listened


@pytest.mark.parametrize(
    ("content", "block"),
    [
        (
            ImageContent(uri="https://x/y.png"),
            {"type": "image", "url": "https://x/y.png", "mime_type": "image/png"},
        ),
        (
            FileContent(data=b"ab", media_type="text/plain"),
            {"type": "file", "base64": "YWI=", "mime_type": "text/plain"},
        ),
    ],
)
def test_content_there_and_back(content: Any, block: dict[str, Any]) -> None:
    """Images and files go as LangChain's standard blocks, and come back as content."""

    @FunctionTool
    async def give() -> Any:
        """Give."""
        return ["here", content]

    def back() -> tuple[Any, Any]:
        """Give."""
        return [block], None

    message = langchain.export(give).invoke(made("give", {}))
    native = StructuredTool.from_function(back, response_format="content_and_artifact")
    adopted = langchain.adopt(native)

    assert message.content == [{"type": "text", "text": "here"}, block]
    assert call(adopted).output == [content]


def test_a_sound_is_named_and_costs_no_image() -> None:
    """LangGraph makes one text of all blocks where one is a sound: it is named, and the image beside it stays an image."""

    @FunctionTool
    async def film() -> Any:
        """Film."""
        return [AudioContent(data=b"ab"), ImageContent(data=b"cd")]

    graph = bridge.agent([langchain.export(film)], [("c1", "film", {})], "done")
    message = graph.invoke(GO)["messages"][-2]

    image = {"type": "image", "base64": "Y2Q=", "mime_type": "image/png"}
    assert message.content == [{"type": "text", "text": "[audio/wav: 2 bytes]"}, image]
    assert message.artifact.output[0].data == b"ab"


# --- adopt


@native_tool(parse_docstring=True)
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    if a < 0:
        raise ToolException("a is too small")
    return a + b


def test_adopt_takes_one_tool_of_theirs() -> None:
    """A tool of functool, a function and a list are refused by name, with what to do."""
    adopts_only_theirs(langchain.adopt, "langchain_core.BaseTool")


def test_adopted_tool_runs_through_the_pipeline() -> None:
    """An adopted tool has its native schema, checks arguments, keeps the value, and its failure is a failure."""
    tool = langchain.adopt(add)

    assert (tool.name, tool.description) == ("add", "Add two numbers.")
    assert tool.schema.parameters["properties"]["a"]["description"] == "The first."
    assert tool.schema.parameters["required"] == ["a"]
    assert call(tool, {"a": 1}).value == 3
    assert call(tool, {"a": "x"}).error.type == "ArgumentError"
    assert call(tool, {"a": 1, "c": 2}).error.type == "ArgumentError"
    assert call(tool, {"a": -1}).text == "a is too small"


PAIR = "content_and_artifact"


@pytest.mark.parametrize(("response_format", "value"), [("content", (4,)), (PAIR, 4)])
@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (True, "broken"),
        ("Sorry.", "Sorry."),
        (lambda error: f"Sorry: {error}", "Sorry: broken"),
        (lambda error: [{"type": "text", "text": "Sorry."}], "Sorry."),
    ],
)
def test_handled_errors_stay_failures(
    response_format: Any, value: Any, handler: Any, words: str
) -> None:
    """A failure that the native tool words itself is a failure with these words, and the native tool stays as it was."""

    def half(number: int) -> Any:
        """Halve."""
        if number % 2:
            raise ToolException("broken")
        return (number // 2, number // 2)[: 2 if response_format == PAIR else 1]

    native = StructuredTool.from_function(
        half, response_format=response_format, handle_tool_error=handler
    )
    tool = langchain.adopt(native)
    result = call(tool, {"number": 1})

    assert (result.is_error, result.text) == (True, words)
    assert call(tool, {"number": 8}).value == value
    assert native.handle_tool_error is handler


def test_content_blocks_of_a_native_tool_are_content() -> None:
    """A list of LangChain's content blocks is read as in its own loop, whichever provider's spelling an image has."""

    def show() -> Any:
        """Show."""
        source = {"type": "base64", "media_type": "image/png", "data": "YWI="}
        return [
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWI="}},
            {"type": "image", "source": source},
            {"type": "json", "json": {"n": 1}},
        ]

    image = ImageContent(data=b"ab", media_type="image/png")
    result = call(langchain.adopt(StructuredTool.from_function(show)))

    assert result.output == [
        TextContent(text="see"),
        image,
        image,
        TextContent(text='{"type":"json","json":{"n":1}}'),
    ]
    rows = StructuredTool.from_function(lambda: [{"n": 1}], name="rows", description="Rows.")
    assert call(langchain.adopt(rows)).text == '[{"n":1}]'


def test_tool_runtime_holds_deps_and_call_id() -> None:
    """A native tool that wants LangGraph's `ToolRuntime` finds deps and call id in it, and what it streams is progress."""
    seen: list[Any] = []

    @native_tool
    def who(word: str, runtime: ToolRuntime[Any, Any]) -> str:
        """Tell."""
        runtime.stream_writer("half")
        return f"{word} {runtime.context} {runtime.tool_call_id} {runtime.config['configurable']['thread_id']}"

    tool, context = langchain.adopt(who), Context("ada", thread="t1")
    context.subscribe(lambda event: seen.append((event.kind, event.data["value"])))

    assert list(tool.schema.parameters["properties"]) == ["word"]
    assert call(tool, {"word": "hi"}, context).text == "hi ada c1 t1"
    assert seen == [("tool:progress", "half")]
    assert call(tool, {"word": "hi", "runtime": {}}, context).error.type == "ArgumentError"


def test_a_tool_that_only_a_graph_can_run_is_refused() -> None:
    """A native tool that reads the state of a graph cannot be adopted; the error names the parameter."""

    @native_tool
    def look(word: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Look."""
        return word

    with pytest.raises(DefinitionError, match="look: only a graph can give the parameter 'state'"):
        langchain.adopt(look)


def test_a_tool_of_one_text_is_adopted() -> None:
    """LangChain's simplest tool has no schema: its one text is its argument; its tags come along."""
    tool = langchain.adopt(TextTool("shout", lambda text: text.upper(), "Shout.", tags=["loud"]))

    assert tool.settings.tags == ("loud",)
    assert tool.schema.parameters["properties"] == {"tool_input": {"type": "string"}}
    assert call(tool, {"tool_input": "hi"}).text == "HI"
    assert call(tool, {}).error.type == "ArgumentError"


def test_injected_call_id_and_thread() -> None:
    """A native tool that wants the call id or the configuration gets them; the model does not see them."""

    @native_tool
    def who(
        word: str, tool_call_id: Annotated[str, InjectedToolCallId], config: RunnableConfig
    ) -> str:
        """Tell."""
        return f"{word} {tool_call_id} {config['configurable']['thread_id']}"

    tool = langchain.adopt(who)

    assert list(tool.schema.parameters["properties"]) == ["word"]
    assert call(tool, {"word": "hi"}, Context(thread="t1")).text == "hi c1 t1"


def test_artifact_is_the_value() -> None:
    """The artifact of a native tool is the value, and its content is what the model reads."""

    @native_tool(response_format="content_and_artifact")
    def find() -> tuple[str, Any]:
        """Find."""
        return "two rows", [1, 2]

    result = call(langchain.adopt(find))

    assert (result.text, result.value) == ("two rows", [1, 2])


def test_a_value_that_a_checkpointer_can_store_stays() -> None:
    """LangGraph stores a fraction as a part of a message, though not alone: the artifact keeps it."""

    @FunctionTool
    async def share() -> Fraction:
        """Share."""
        return Fraction(1, 2)

    graph = kept(share, turns=[("c1", "share", {})])
    messages = asyncio.run(graph.ainvoke(GO, CONFIG))["messages"]
    (result,) = [message.artifact for message in messages if isinstance(message, ToolMessage)]

    assert result.value == Fraction(1, 2)


def test_round_trip() -> None:
    """A functool tool, exported and adopted again, answers as before."""
    tool = langchain.adopt(langchain.export(half))

    assert tool.schema.parameters["properties"] == half.schema.parameters["properties"]
    assert call(tool, {"number": 3}).value == 1.5
    assert call(tool, {"number": -1}).text == "ValueError: too small"


# --- runner


def test_runner_answers_with_usage() -> None:
    """The last message is the answer, the run's usage is summed, and the extractor gets the graph's state."""
    calls = [("i1", "add", {"a": 1})]
    graph = bridge.agent([add], calls, "three", calls, "three")

    plain = ask(expert(graph))
    extracted = ask(expert(graph, output_extractor=lambda state: str(len(state["messages"]))))

    counts = {"requests": 2, "input_tokens": 20, "output_tokens": 6, "total_tokens": 26}
    assert (plain.text, plain.metadata) == ("three", {"usage": counts})
    assert (extracted.text, extracted.metadata) == ("4", {"usage": counts})


def test_runner_of_a_runnable() -> None:
    """A runnable that is no graph gets the text, with the runner or without."""
    model = bridge.agent([], "yes").scripted
    chain = RunnableLambda(lambda text: [HumanMessage(text)]) | model

    result = ask(expert(chain))

    assert (result.text, result.metadata["usage"]["total_tokens"]) == ("yes", 13)
    assert ask(expert(RunnableLambda(str.upper), runner=None), text="hi").text == "HI"


def pausing(
    *turns: Any, thread: str | None = "t1", keeps: bool = True
) -> tuple[AgentTool, Any, list[int]]:
    paid: list[int] = []
    saver = InMemorySaver() if keeps else None
    graph = bridge.agent([langchain.export(paying(paid))], *turns, checkpointer=saver)
    return expert(graph, thread=lambda context: thread), graph, paid


def test_a_graph_with_a_checkpointer_starts_fresh_without_a_thread() -> None:
    """Without a thread each call is a conversation of its own, which waits for a person and goes on where it stopped."""
    tool, graph, paid = pausing([("i1", "pay", {"amount": 1})], "paid", "hello", thread=None)
    context = Context()

    context.approve(ask(tool, context).metadata["approval"])

    assert [ask(tool, context).text for _ in range(2)] == ["paid", "hello"]
    assert [len(messages) for messages in graph.scripted.seen] == [1, 3, 1] and paid == [1]


def test_a_graph_that_cannot_go_on_says_so() -> None:
    """A graph without a checkpointer that has to wait for a person fails at once, inside of another graph too."""
    words = (
        "The agent waits for a person, and cannot go on afterwards: its graph has no checkpointer."
    )
    turns = [[("i1", "pay", {"amount": 1})], "paid"]
    alone, _, paid = pausing(*turns, keeps=False)
    inside, _, paid_inside = pausing(*turns, keeps=False)
    graph = kept(inside, turns=[("c1", "expert", {"input": "pay"})])

    answer = asyncio.run(graph.ainvoke(GO, CONFIG))

    assert ask(alone).text == answer["messages"][-2].content == words
    assert paid == paid_inside == []


def test_a_configuration_of_the_runner_keeps_the_thread() -> None:
    """What a runner is given as `config` is added to the thread, and does not replace it."""

    @native_tool
    def where(config: RunnableConfig) -> str:
        """Tell."""
        return " ".join(config["configurable"][name] for name in ("thread_id", "user"))

    graph = bridge.agent([where], [("i1", "where", {})], "done", checkpointer=InMemorySaver())
    runner = partial(langchain.runner, config={"configurable": {"user": "ada"}})

    assert ask(expert(graph, runner=runner, thread=lambda context: "t1")).text == "done"
    assert graph.scripted.seen[-1][-1].content == "t1 ada"


def test_a_graph_whose_store_fails_goes_on_later() -> None:
    """The store of a paused graph cannot be read for a moment: the call fails, and the same call goes on where the graph stopped."""
    failing: list[Exception] = []

    class Saver(InMemorySaver):
        async def aget_tuple(self, config: Any) -> Any:
            if failing:
                raise failing.pop()
            return await super().aget_tuple(config)

    paid: list[int] = []
    tools = [langchain.export(paying(paid))]
    graph = bridge.agent(tools, [("i1", "pay", {"amount": 7})], "done", checkpointer=Saver())
    tool, context = expert(graph), Context()
    context.approve(ask(tool, context).metadata["approval"])
    failing.append(ConnectionError("no store"))

    assert "no store" in ask(tool, context).text
    assert (ask(tool, context).text, paid) == ("done", [7])


def test_interrupt_of_a_graph_of_its_own() -> None:
    """A graph that interrupts itself waits for approval too, and goes on with True."""

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"sent: {interrupt('Send the letter?')}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("send", node)
    builder.set_entry_point("send")
    tool = expert(builder.compile(InMemorySaver()), thread=lambda context: "t1")
    context = Context()
    request = ask(tool, context).metadata["approval"]
    context.approve(request)

    assert request.arguments == {"value": "Send the letter?"}
    assert ask(tool, context).text == "sent: True"


def test_interrupt_that_nobody_can_be_asked_about() -> None:
    """A graph of its own that shows an object gets no made-up answer: the call fails, and says why."""

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"sent: {interrupt({'day': date(2026, 1, 2)})}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("send", node)
    builder.set_entry_point("send")
    result = ask(expert(builder.compile(InMemorySaver())), Context(approver=lambda request: True))

    assert result.error is not None
    assert (result.error.type, "date" in result.text) == ("ValueError", True)


def test_refusal_keeps_the_guardrails_name_in_the_artifact() -> None:
    """The host finds in the artifact which guardrail refused."""

    def no(call: ToolCall, context: Context) -> None:
        raise GuardrailError("No.")

    @FunctionTool(input_guardrails=[no])
    async def noop() -> str:
        """Do nothing."""
        return "x"

    message = langchain.export(noop).invoke(made("noop", {}))

    assert message.content == "No."
    assert message.artifact.metadata["guardrails"] == [
        {"name": "no", "stage": "input", "did": "refused"}
    ]


def test_text_content_is_text() -> None:
    """Parts that are all text are one text."""

    @FunctionTool
    async def give() -> Any:
        """Give."""
        return [TextContent(text="a"), TextContent(text="b")]

    assert langchain.export(give).invoke(made("give", {})).content == "a\nb"


@dataclass
class Tenant:
    """A `context_schema`: LangGraph makes one of a dict."""

    name: str


def test_an_agent_in_a_graph_that_converts_its_context_goes_on_where_it_stopped() -> None:
    """Nothing that the inner agent has done is done again, and its tools find the converted object."""
    paid: list[int] = []
    told: list[Any] = []

    @FunctionTool
    async def look(context: Context) -> str:
        """Look."""
        told.append(context.deps)
        return "seen"

    def agent(*turns: Any, tools: list[Any]) -> AgentTool:
        graph = create_agent(
            bridge.agent([], *turns).scripted,
            tools=langchain.export_all(tools),
            context_schema=Tenant,
            checkpointer=InMemorySaver(),
        )
        return AgentTool(graph, "clerk", "d", runner=langchain.runner)

    calls = [("i1", "look", {})], [("i2", "pay", {"amount": 1})]
    inner = agent(*calls, "paid", tools=[look, paying(paid)])
    outer = agent([("o1", "clerk", {"input": "go"})], "done", tools=[inner])
    context = Context({"name": "Ada"})
    while (result := ask(outer, context)).is_error:
        context.approve(result.metadata["approval"])

    assert (result.text, paid, told) == ("done", [1], [Tenant("Ada")])
