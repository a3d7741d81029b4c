"""An agent as a tool: runners, threads, progress, approvals, depth, usage."""

import asyncio
import gc
import threading
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from functool import (
    AgentTool,
    ApprovalRequest,
    ApprovalRequired,
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    ImageContent,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
    hide_errors,
)
from functool.agent_tool import MAX_DEPTH
from functool.dialects._subset import violations
from functool.generators import MAX_YIELDS
from functool.guardrails import require_approval
from tests.support import ask, call, heard


def expert(agent: Any = "a", **options: Any) -> AgentTool:
    """An agent as the tool `expert`."""
    return AgentTool(agent, "expert", "d", **options)


def question(name: str, text: str, id: str = "") -> ToolCall:
    return ToolCall(name=name, arguments={"input": text}, id=id)


def echo(agent: Any, text: str, context: Context) -> str:
    return f"{agent}:{text}"


def test_schema_is_one_required_string() -> None:
    """The model sees one required string, under the name the author chose, and the schema meets the strict subset as it is."""
    tool = AgentTool("a", "expert", "Asks an expert.", arg_name="question", runner=echo)

    assert (tool.name, tool.description) == ("expert", "Asks an expert.")
    assert tool.schema.parameters["required"] == ["question"]
    assert tool.schema.parameters["properties"]["question"]["type"] == "string"
    assert tool.schema.parameters["additionalProperties"] is False
    assert violations(tool.schema.parameters) == []


@pytest.mark.parametrize("arguments", [{}, {"input": 3}, {"input": "x", "more": 1}, "not json"])
def test_arguments_are_checked(arguments: Any) -> None:
    """What is not one string runs no agent."""
    ran: list[str] = []
    tool = expert(runner=lambda agent, text, context: ran.append(text))

    result = call(tool, arguments)

    assert result.error is not None and result.error.type == "ArgumentError"
    assert ran == []


TOOL = FunctionTool(len, name="inner")
A_TOOL = r"the agent is a tool: use WrapperTool\(tool, ...\), or give a runner"
KNOWN = (
    "known: agent, arg_name, description, input_guardrails, max_argument_bytes, name, on_error_func,"
    " output, output_extractor, output_guardrails, prompts, runner, settings, strict, thread, timeout"
)


@pytest.mark.parametrize(
    ("agent", "options", "said"),
    [
        ("a", {"runner": 5}, "runner takes callables, not int"),
        (echo, {"thread": "main"}, "thread takes callables, not str"),
        (echo, {"output_extractor": [len]}, "output_extractor takes callables, not list"),
        (echo, {"arg_name": ""}, "arg_name must be a name, not ''"),
        (echo, {"arg_name": 5}, "arg_name must be a name, not 5"),
        ("a", {}, "str has no run, ainvoke or invoke and cannot be called: give a runner"),
        (TOOL, {}, A_TOOL),
        (partial(TOOL), {}, A_TOOL),
        (echo, {"parameters": {}}, f"there is no option 'parameters'; {KNOWN}"),
        (echo, {"parameter": {}}, f"there is no option 'parameter'; {KNOWN}"),
        (echo, {"runer": echo}, "there is no option 'runer'; did you mean 'runner'\\?"),
    ],
)
def test_what_cannot_run_is_refused_at_definition(
    agent: Any, options: dict[str, Any], said: str
) -> None:
    """An agent that nothing runs, and what should be called but cannot be, is an error of the author, not of the first call."""
    with pytest.raises(DefinitionError, match=rf"^expert \(.*test_agent_tool.py:\d+\): {said}$"):
        AgentTool(agent, "expert", "d", **options)


def test_sync_runner_leaves_the_loop_free() -> None:
    """A sync runner runs on a thread of its own."""
    tool = expert(runner=lambda agent, text, context: threading.current_thread().name)

    assert ask(tool).value == "functool"


def test_async_runner() -> None:
    """An async runner gets the agent, the text and the context."""

    async def runner(agent: str, text: str, context: Context) -> str:
        return f"{agent} {text} {context.deps}"

    assert ask(expert("bob", runner=runner), Context("deps")).text == "bob hi deps"


def test_sync_runner_that_returns_a_coroutine() -> None:
    """A lambda over an async function is a runner too."""

    async def run(text: str) -> str:
        return text.upper()

    assert ask(expert("bob", runner=lambda agent, text, context: run(text))).text == "HI"


class Run:
    async def run(self, text: str) -> Any:
        return SimpleNamespace(output=f"run {text}")


class Ainvoke:
    def invoke(self, text: str) -> Any:
        raise AssertionError("the async one comes first")

    async def ainvoke(self, text: str) -> Any:
        return SimpleNamespace(final_output=f"ainvoke {text}")


class Invoke:
    def invoke(self, text: str) -> Any:
        return SimpleNamespace(text=f"invoke {text}")


class Callable:
    async def __call__(self, text: str) -> str:
        return f"called {text}"


@pytest.mark.parametrize(
    ("agent", "answer"),
    [
        (Run(), "run hi"),
        (Ainvoke(), "ainvoke hi"),
        (Invoke(), "invoke hi"),
        (Callable(), "called hi"),
        (str.upper, "HI"),
    ],
)
def test_agents_without_a_runner(agent: Any, answer: str) -> None:
    """Without a runner the agent's own `run`, `ainvoke`, `invoke`, or the agent itself, is called with the text."""
    assert ask(expert(agent)).text == answer


def test_structured_output_keeps_its_value() -> None:
    """An answer that is no text is JSON for the model and itself for code."""

    async def agent(text: str) -> Any:
        return SimpleNamespace(output={"city": "Bern"})

    result = ask(expert(agent))

    assert (result.text, result.value) == ('{"city":"Bern"}', {"city": "Bern"})


@pytest.mark.parametrize(
    ("extracted", "text"),
    [
        ("words", "words"),
        (ToolResult.of("a result", metadata={"k": 1}), "a result"),
        (ImageContent(data=b"12"), "[image/png: 2 bytes]"),
    ],
)
def test_output_extractor(extracted: Any, text: str) -> None:
    """The extractor gets the result of the run and returns a result, a text or content."""
    got: list[Any] = []
    run = SimpleNamespace(output="not this", usage={"requests": 2})

    def extract(given: Any) -> Any:
        got.append(given)
        return extracted

    result = ask(expert(runner=lambda *_: run, output_extractor=extract))

    assert got == [run]
    assert result.text == text
    assert result.metadata["usage"] == {"requests": 2}


def test_async_output_extractor() -> None:
    """The extractor may be async."""

    async def extract(run: str) -> str:
        return run + "!"

    assert ask(expert(runner=lambda *_: "x", output_extractor=extract)).text == "x!"


def test_runner_that_returns_a_result() -> None:
    """A runner's `ToolResult` is the answer; the extractor gets its run, and its usage is kept and the run is not."""
    native = SimpleNamespace(messages=["secret plan"])

    def runner(*_: Any) -> ToolResult:
        return ToolResult.of("answer", metadata={"run": native, "usage": {"requests": 1}})

    plain = ask(expert(runner=runner))
    extracted = ask(expert(runner=runner, output_extractor=lambda run: run.messages[0]))

    assert (plain.text, plain.metadata) == ("answer", {"usage": {"requests": 1}})
    assert (extracted.text, extracted.metadata) == ("secret plan", {"usage": {"requests": 1}})


def test_failed_result_of_a_runner_meets_no_extractor() -> None:
    """A runner's failure is the failure of the call."""
    tool = expert(
        runner=lambda *_: ToolResult.failed("no", type="Busy"), output_extractor=lambda run: "fine"
    )

    result = ask(tool)

    assert result.error is not None and (result.error.type, result.text) == ("Busy", "no")


@dataclass
class Usage:
    requests: int = 2
    input_tokens: int = 10
    output_tokens: int = 5
    total_tokens: int = 15
    cost: float = 0.1


@pytest.mark.parametrize("usage", [Usage(), vars(Usage()), lambda: Usage()])
def test_usage_of_the_agent(usage: Any) -> None:
    """The requests and tokens of the sub-agent are in the metadata of the outer result."""
    result = ask(expert(runner=lambda *_: SimpleNamespace(output="x", usage=usage)))

    assert result.metadata["usage"] == {
        "requests": 2,
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
    }


def test_no_usage_no_metadata() -> None:
    """An agent that counts nothing claims nothing."""
    assert ask(expert(runner=echo)).metadata == {}


def test_failure_of_the_agent_is_a_result() -> None:
    """What the agent raises is an error result, worded by the author's error function."""

    def runner(*_: Any) -> str:
        raise RuntimeError("model is down")

    default = ask(expert(runner=runner))
    worded = ask(expert(runner=runner, on_error_func=lambda error, context: "The expert is away."))
    hidden = ask(expert(runner=runner, on_error_func=hide_errors))

    assert default.text == "RuntimeError: model is down"
    assert worded.text == "The expert is away." and worded.is_error
    assert "model is down" not in hidden.text and hidden.is_error


def test_options_are_those_of_every_tool() -> None:
    """Guardrails and the time limit work as on any tool."""

    def no_secrets(call: ToolCall, context: Context) -> None:
        if "secret" in call.arguments["input"]:
            raise GuardrailError("No secrets.")

    async def slow(text: str) -> str:
        await asyncio.sleep(30)
        return text

    guarded = expert(str.upper, input_guardrails=[no_secrets])
    limited = expert(slow, timeout=0.05)

    assert ask(guarded, text="a secret").text == "No secrets."
    assert ask(guarded).text == "HI"
    assert ask(limited).error.type == "ToolTimeoutError"


def test_tripwire_of_an_inner_tool_stops_the_outer_run() -> None:
    """A tripwire in the sub-agent leaves the outer call as an exception."""

    async def agent(text: str) -> str:
        raise Tripwire("stop")

    with pytest.raises(Tripwire, match="stop"):
        ask(expert(agent))


def test_thread_is_chosen_by_the_author() -> None:
    """The runner finds the chosen thread, sync or async; without a choice there is none, whatever thread the host is on."""

    async def deps(context: Context) -> str:
        return f"thread of {context.deps}"

    def runner(agent: str, text: str, context: Context) -> str:
        return str(context.thread)

    host = Context("ada", thread="host")

    assert ask(expert(runner=runner, thread=deps), host).text == "thread of ada"
    assert ask(expert(runner=runner, thread=lambda ctx: ctx.thread), host).text == "host"
    assert ask(expert(runner=runner), host).text == "None"
    assert host.thread == "host"


class Recorder:
    """An agent that notes when its runs begin and end."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def __call__(self, agent: Any, text: str, context: Context) -> str:
        self.notes.append(f"{text} begins")
        for _ in range(5):
            await asyncio.sleep(0)
        self.notes.append(f"{text} ends")
        return text


def both(tool: AgentTool, context: Context | None = None) -> list[ToolResult]:
    calls = [question(tool.name, text, id=text) for text in "ab"]
    return asyncio.run(Toolset([tool]).call_all(calls, context))


@pytest.mark.parametrize("thread", ["talk", ["a list that is the thread"]])
def test_parallel_calls_on_one_thread_take_turns(thread: Any) -> None:
    """Two parallel calls on one thread run one after the other, in the order in which they came."""
    recorder = Recorder()

    results = both(expert(runner=recorder, thread=lambda context: thread))

    assert [result.text for result in results] == ["a", "b"]
    assert recorder.notes == ["a begins", "a ends", "b begins", "b ends"]


def test_parallel_calls_on_threads_of_their_own_overlap() -> None:
    """Calls on different threads, and calls without one, do not wait for each other."""
    for thread in (None, lambda context: context.call.id):
        recorder = Recorder()
        both(expert(runner=recorder, thread=thread))

        assert recorder.notes == ["a begins", "b begins", "a ends", "b ends"]


def test_turn_passes_on_after_a_failure_and_a_cancellation() -> None:
    """A call that fails, or whose time is up, gives its thread to the next one."""

    async def runner(agent: Any, text: str, context: Context) -> str:
        if text == "a":
            raise ValueError("no")
        if text == "slow":
            await asyncio.sleep(30)
        return text

    tool = expert(runner=runner, thread=lambda context: "talk", timeout=0.1)

    async def main() -> list[ToolResult]:
        calls = [question("expert", text, id=text) for text in ("a", "slow", "b")]
        first = await asyncio.gather(*(tool.invoke(call) for call in calls[:2]))
        return [*first, await tool.invoke(calls[2])]

    failed, late, fine = asyncio.run(main())

    assert (failed.error.type, late.error.type, fine.text) == (
        "ValueError",
        "ToolTimeoutError",
        "b",
    )


def test_a_wait_for_a_thread_that_is_cancelled_is_forgotten() -> None:
    """A call that no longer waits for a conversation refuses nobody."""
    tools: dict[str, AgentTool] = {}

    async def main() -> ToolResult:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def run(name: str, text: str, context: Context) -> str:
            if text == "hold":
                asked.set()
                await go_on.wait()
            if text == "ask b":
                waiting = asyncio.ensure_future(tools["b"].invoke(question("b", "x")))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
            if text == "ask a":
                return (await tools["a"].invoke(question("a", "x"))).text
            return f"{name} knows"

        for name in "ab":
            threads = {"thread": lambda context, name=name: f"thread of {name}"}
            tools[name] = AgentTool(name, name, "d", runner=run, **threads)
        holding = asyncio.ensure_future(tools["b"].invoke(question("b", "hold")))
        await asked.wait()
        await tools["a"].invoke(question("a", "ask b"))
        go_on.set()
        await holding
        return await tools["b"].invoke(question("b", "ask a"))

    assert asyncio.run(asyncio.wait_for(main(), 20)).text == "a knows"


def test_agent_that_asks_itself_on_its_own_thread() -> None:
    """An agent whose tool is itself, on the same thread, gets an error instead of waiting for itself for ever."""
    inner: list[ToolResult] = []

    async def runner(agent: Any, text: str, context: Context) -> str:
        inner.append(await tool.invoke(question("expert", "again"), context))
        return "done"

    tool = expert(runner=runner, thread=lambda context: "talk")

    assert ask(tool).text == "done"
    assert inner[0].is_error and "own conversation" in inner[0].text


def test_a_sync_agent_that_asks_itself_on_its_own_thread() -> None:
    """`call_sync` runs on another event loop, and the conversation is the same."""
    inner: list[ToolResult] = []

    def runner(agent: Any, text: str, context: Context) -> str:
        inner.append(Toolset([tool]).call_sync(question("expert", "again"), context))
        return "done"

    tool = expert(runner=runner, thread=lambda context: "talk")

    assert ask(tool).text == "done"
    assert inner[0].is_error and "own conversation" in inner[0].text


@pytest.mark.parametrize("count", [2, 3])
def test_agents_that_ask_each_other_in_one_turn(count: int) -> None:
    """Each has a conversation, and asks the next one, which waits for it. One of them gets an error instead."""

    async def turn() -> list[ToolResult]:
        all_asked = asyncio.Barrier(count)

        async def runner(number: int, text: str, context: Context) -> str:
            if text == "in turn":
                return f"{number}"
            await all_asked.wait()
            following = f"agent{(number + 1) % count}"
            return (await tools.call(question(following, "in turn"), context)).text

        def agent(number: int) -> AgentTool:
            thread = f"talk {number}"
            return AgentTool(number, f"agent{number}", "d", runner=runner, thread=lambda _: thread)

        tools = Toolset(map(agent, range(count)))
        work = tools.call_all([question(name, "first") for name in tools])
        return await asyncio.wait_for(work, 60)  # It would never end.

    texts = [result.text for result in asyncio.run(turn())]
    assert sum("own conversation" in text for text in texts) == 1
    assert sum(text.isdigit() for text in texts) == count - 1


def test_agents_that_call_each_other_end() -> None:
    """Two agents that call each other for ever are stopped at a depth, with an error that says so."""
    answers: list[str] = []

    def passing_on(to: str) -> Any:
        async def runner(agent: Any, text: str, context: Context) -> str:
            # A fresh context each time: the depth does not depend on what a framework passes along.
            result = await tools.call(question(to, text))
            answers.append(result.text)
            return result.text

        return runner

    tools = Toolset(
        [
            AgentTool("a", "ping", "d", runner=passing_on("pong")),
            AgentTool("b", "pong", "d", runner=passing_on("ping")),
        ]
    )

    result = asyncio.run(tools.call(question("ping", "go")))

    assert len(answers) == MAX_DEPTH
    assert (
        answers[0]
        == f"Agents have called one another {MAX_DEPTH} deep. Answer without calling another agent."
    )
    assert result.text == answers[0]


@pytest.mark.parametrize("how", ["async", "sync", "raises"])
def test_labels_of_an_agents_calls_need_no_context(how: str) -> None:
    """An untrusted tool that an agent calls labels the agent's answer, although its framework passes no context on."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def page() -> str:
        return "hostile"

    async def read(agent: Any, text: str, context: Context) -> str:
        answer = (await page.invoke(ToolCall(name="page"))).unwrap()
        if how == "raises":
            raise ToolError(answer)
        return answer

    def read_in_thread(agent: Any, text: str, context: Context) -> str:
        return asyncio.run(read(agent, text, context))

    inner = expert(runner=read_in_thread if how == "sync" else read)
    outer = AgentTool(inner, "boss", "d", runner=lambda agent, text, context: ask(agent))

    assert ask(inner).metadata["sources"] == ask(outer).metadata["sources"] == ["page"]
    assert ask(outer).metadata["sources"] == ["page"]
    assert "sources" not in ask(expert(runner=echo)).metadata


def test_an_agent_with_a_thread_remembers_its_labels() -> None:
    """What an agent has read or was told on its thread labels its later answers in this context, and no others."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def page() -> str:
        return "hostile"

    async def run(agent: Any, text: str, context: Context) -> str:
        if text == "read":
            await page.invoke(ToolCall(name="page"))
        return "hostile"

    def labels(tool: AgentTool, *questions: ToolCall) -> list[Any]:
        context = Context()
        answers = [asyncio.run(tool.invoke(each, context)) for each in questions]
        return [answer.metadata.get("sources") for answer in answers]

    told = ToolCall(name="e", arguments={"input": "x"}, metadata={"sources": {"/input": ["mail"]}})
    plain = question("e", "x")
    threaded = expert(runner=run, thread=lambda context: "thread")
    fresh = expert(runner=run)

    assert labels(threaded, plain, question("e", "read"), plain) == [None, ["page"], ["page"]]
    assert labels(threaded, told, plain) == [["mail"], ["mail"]]
    assert labels(fresh, question("e", "read"), told, plain) == [["page"], ["mail"], None]


def untrusted(name: str) -> ToolCall:
    """A question that an untrusted tool wrote."""
    return ToolCall(name="e", arguments={"input": name}, metadata={"sources": {"/input": [name]}})


def test_labels_of_agents_at_the_same_time_are_all_remembered() -> None:
    """Of two conversations of one agent that overlap, the one that ends last does not delete the labels of the other."""

    async def run(agent: Any, text: str, context: Context) -> str:
        await both_run.wait()
        return text

    tool = expert(runner=run, thread=lambda context: context.call.id)
    both_run, context = asyncio.Barrier(2), Context()

    async def ask_both() -> ToolResult:
        calls = [replace(untrusted(name), id=name) for name in ("mail", "page")]
        await asyncio.gather(*[tool.invoke(each, context) for each in calls])
        later = [question("e", "x", name) for name in ("mail", "page")]
        return (await asyncio.gather(*[tool.invoke(each, context) for each in later]))[0]

    assert {*asyncio.run(ask_both()).metadata["sources"]} == {"mail", "page"}


@pytest.mark.parametrize("thread", ["talk", ["a list that is the thread"]])
def test_labels_of_a_conversation_that_two_tools_share(thread: Any) -> None:
    """What one tool's agent was told on a thread labels the answers that another tool gives on this thread."""
    one, two = (AgentTool("a", n, "d", runner=echo, thread=lambda _: thread) for n in ("x", "y"))
    other, context = AgentTool("a", "z", "d", runner=echo, thread=lambda _: "other"), Context()
    asyncio.run(one.invoke(untrusted("mail"), context))

    assert ask(two, context).metadata["sources"] == ["mail"]
    assert "sources" not in ask(other, context).metadata


def test_depth_counts_through_threads_and_ends_with_the_call() -> None:
    """A sync agent counts too, and calls one after the other do not add up."""

    def runner(agent: Any, text: str, context: Context) -> str:
        return str(tools.call_sync(question("loop", text)).text)

    tools = Toolset([AgentTool("a", "loop", "d", runner=runner)])
    shallow = expert(str.upper)

    async def many() -> list[str]:
        return [(await shallow.invoke(question("expert", "x"))).text for _ in range(MAX_DEPTH + 2)]

    assert f"{MAX_DEPTH} deep" in asyncio.run(tools.call(question("loop", "go"))).text
    assert asyncio.run(many()) == ["X"] * (MAX_DEPTH + 2)


def test_streamed_events_are_progress() -> None:
    """What an agent yields is sent as `tool:progress` of the outer call, and the last of it is the result."""
    context, log = heard()

    async def agent(text: str):
        yield "thinking"
        yield SimpleNamespace(output="42")

    result = ask(expert(agent), context=context)

    assert result.text == "42"
    assert [(event.kind, event.tool_name, event.call_id) for event in log.events] == [
        ("tool:progress", "expert", "c1")
    ] * 2
    assert log.events[0].data == {"value": "thinking"}


def test_an_agent_may_send_more_events_than_a_generator_may_yield() -> None:
    """The limit of 10,000 yields is for functions: an agent sends an event for each token."""

    async def agent(text: str):
        for number in range(MAX_YIELDS + 1):
            yield number

    assert ask(expert(agent)).value == MAX_YIELDS


def test_progress_of_the_runner() -> None:
    """A runner may send progress of its own."""
    context, log = heard()

    ask(expert(runner=lambda agent, text, context: context.progress("half", 1, 2)), context)

    assert [event.data for event in log.events] == [{"message": "half", "done": 1, "total": 2}]


def sub_agent(ran: list[int]) -> AgentTool:
    """An agent whose only tool needs approval, and which passes a pending approval on."""

    @FunctionTool(input_guardrails=[require_approval()])
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return f"paid {amount}"

    async def runner(agent: Any, text: str, context: Context) -> str:
        result = await Toolset([pay]).call(
            ToolCall(name="pay", arguments={"amount": 7}, id="inner"), context
        )
        if (request := result.metadata.get("approval")) is not None:
            raise ApprovalRequired(result.text, request)
        return result.text

    return AgentTool("a", "expert", "d", runner=runner)


def test_pending_approval_bubbles_up_and_resumes() -> None:
    """A sub-agent's pending approval is the outer result's; once it is granted, the same outer call goes through, once."""
    ran: list[int] = []
    tool, context = sub_agent(ran), Context()

    pending = ask(tool, context)
    request = pending.metadata["approval"]

    assert pending.error.type == "ApprovalRequired"
    assert isinstance(request, ApprovalRequest)
    assert (request.tool, request.arguments, request.call_id) == ("pay", {"amount": 7}, "inner")
    assert ran == []

    context.approve(ApprovalRequest.from_json(request.to_json()))

    assert ask(tool, context).text == "paid 7"
    assert ran == [7]
    assert ask(tool, context).error.type == "ApprovalRequired"


def test_denied_approval_of_a_sub_agent() -> None:
    """A refusal is what the sub-agent reads; no body runs."""
    ran: list[int] = []
    tool, context = sub_agent(ran), Context()

    context.deny(ask(tool, context).metadata["approval"], "not today")

    assert "not today" in ask(tool, context).text
    assert ran == []


def test_approver_of_the_host_answers_for_the_sub_agent() -> None:
    """With an approver nothing is pending: it is asked about the sub-agent's call."""
    ran: list[int] = []

    result = ask(sub_agent(ran), Context(approver=lambda request: request.tool == "pay"))

    assert (result.text, ran) == ("paid 7", [7])


def test_error_of_an_agent_tool_error_is_its_message() -> None:
    """A `ToolError` in the agent shows its message alone."""

    async def agent(text: str) -> str:
        raise ToolError("I do not know that city.")

    assert ask(expert(agent)).text == "I do not know that city."


def test_no_lock_outlives_its_turn() -> None:
    """Nothing is kept of a thread on which nobody waits."""

    def locks() -> int:
        gc.collect()
        return sum(isinstance(thing, asyncio.Lock) for thing in gc.get_objects())

    before = locks()
    for number in range(20):
        both(expert(runner=Recorder(), thread=lambda context: f"talk {number}"))

    assert locks() == before


def test_partial_of_an_async_runner_stays_on_the_loop() -> None:
    """Options bound to an async runner do not move it to a thread."""

    async def runner(agent: str, text: str, context: Context, *, mark: str) -> str:
        return threading.current_thread().name + mark

    tool = expert(runner=partial(runner, mark="!"))

    assert ask(tool).text == "MainThread!"


def test_stream_that_is_left_is_closed() -> None:
    """An agent whose time is up while it streams gets to clean up."""
    notes: list[str] = []

    async def agent(text: str):
        try:
            yield "one"
            await asyncio.sleep(30)
        finally:
            notes.append("closed")

    assert ask(expert(agent, timeout=0.05)).error.type == "ToolTimeoutError"
    assert notes == ["closed"]


def test_an_answer_that_was_shown_otherwise_stays_so() -> None:
    """A runner's `shown_as` reaches the host: structured output would say what the model should not read."""
    tool = expert(runner=lambda *_: ToolResult.of({"rows": 1}).shown_as("one row"))
    result = ask(tool)

    assert (result.text, result.value, result.structured) == ("one row", {"rows": 1}, None)
