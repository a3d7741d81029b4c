"""functool tools in agent-framework: its real Agent, function-calling loop, middleware, approvals and sessions."""

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import pytest

af = pytest.importorskip("agent_framework")

from agent_framework import (  # noqa: E402
    Agent,
    AgentSession,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    Message,
    MiddlewareFailure,
    UsageDetails,
)

from functool import (  # noqa: E402
    AgentTool,
    AudioContent,
    Context,
    Decision,
    DefinitionError,
    FileContent,
    FunctionTool,
    ImageContent,
    ToolCall,
    Toolset,
)
from functool.approval import Grant  # noqa: E402
from functool.guardrails import budget, require_approval  # noqa: E402
from functool.integrations import agent_framework  # noqa: E402
from tests import support  # noqa: E402
from tests.integrations.bridge_agent_framework import ScriptedClient  # noqa: E402
from tests.integrations.odd_tools import (  # noqa: E402
    HUGE,
    ODD_TOOLS,
    PNG,
    add,
    adopts_only_theirs,
    cleaned_up_when_cancelled,
    delete,
    ran,
)
from tests.support import call  # noqa: E402


def scripted(*turns: list[tuple[str, Any]], **options: Any) -> ScriptedClient:
    """A chat client that makes the scripted calls: one list of (name, arguments) a turn, then says "done"."""
    calls = [[(f"call-{n}", *call) for n, call in enumerate(turn)] for turn in turns]
    return ScriptedClient(*calls, **options)


def results(response: Any) -> list[Content]:
    return [
        content
        for message in response.messages
        for content in message.contents
        if content.type == "function_result"
    ]


def run(
    client: ScriptedClient,
    *tools: Any,
    stream: bool = False,
    middleware: Any = None,
    **options: Any,
) -> Any:
    """Run one prompt through a real agent; return its response."""

    async def main() -> Any:
        agent = Agent(client=client, tools=list(tools), middleware=middleware)
        if not stream:
            return await agent.run("go", **options)
        streamed = agent.run("go", stream=True, **options)
        async for _ in streamed:
            pass
        return await streamed.get_final_response()

    return asyncio.run(main())


def played(name: str, arguments: Any, *exported: Any, **options: Any) -> Content:
    """Let an agent make one call; return the result as the model reads it."""
    (result,) = results(run(scripted([(name, arguments)]), *exported, **options))
    return result


def ask(name: str, arguments: Any, *, on_error: Any = "text", **options: Any) -> Content:
    """Let an agent make one call of one of the odd tools."""
    exported = [agent_framework.export(tool, on_error=on_error) for tool in ODD_TOOLS]
    return played(name, arguments, *exported, **options)


def test_export_is_their_function_tool() -> None:
    """The export is their class, and publishes our name, description and schema, a copy each time; a strict tool says so, and one that asks for approval."""
    native = agent_framework.export(add)
    assert isinstance(native, af.FunctionTool)
    assert native.to_json_schema_spec()["function"] == {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": add.schema.parameters,
    }
    native.parameters()["properties"].clear()
    assert set(add.schema.parameters["properties"]) == {"a", "b"}
    strict = agent_framework.export(FunctionTool(add.func, strict=True))
    assert strict.to_json_schema_spec()["function"]["strict"] is True
    assert native.approval_mode == "never_require"
    assert agent_framework.export(delete).approval_mode == "always_require"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("none", ""),
        ("zero", "0"),
        ("no", "false"),
        ("list", "[]"),
        ("dict", "{}"),
        ("", ""),
        ("deep", '{"a":["é"]}'),
    ],
)
def test_falsy_and_structured_results_arrive_whole(value: str, read: str) -> None:
    """A falsy or structured result is read as what it is."""
    result = ask("echo", {"value": value})
    assert (result.result, result.exception) == (read, None)


def test_a_huge_result_arrives_whole() -> None:
    """Two million characters are handed over as they are."""
    assert ask("huge", {}).result == HUGE


def test_sounds_files_and_links_arrive_as_content() -> None:
    """A sound, a named file and a link are items of the result; what is no link is named in the text, and nothing crashes."""

    @FunctionTool
    def media() -> list[Any]:
        """Return everything."""
        return [
            AudioContent(data=b"la", media_type="audio/mpeg"),
            FileContent(data=b"%PDF", media_type="application/pdf", name="a.pdf"),
            ImageContent(uri="https://example.com/a.png"),
            ImageContent(uri="no link"),
        ]

    result = played("media", {}, agent_framework.export(media))
    assert [(item.type, item.media_type) for item in result.items] == [
        ("data", "audio/mpeg"),
        ("data", "application/pdf"),
        ("uri", "image/png"),
        ("text", None),
    ]
    assert result.items[2].uri == "https://example.com/a.png"
    assert result.items[3].text == "[image/png: no link]"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("on_error", ["text", "raise"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "a"),
        ({"a": None}, "a"),
        ({"a": 1, "c": 2}, "c"),
        ({"a": "many"}, "a"),
        ({"a": 1, "self": 2}, "self"),
        ({"a": 1, "functool_invocation": 2}, "functool_invocation"),
        ('{"a": ', "JSON"),
        ("[1]", "object"),
        ('{"a": NaN}', "a"),
        ("", "a"),
        (None, "a"),
        ("null", "JSON object"),
        ({"raw": '{"a": 1}'}, "raw: unknown"),
    ],
)
def test_every_bad_argument_is_answered_in_our_words(
    arguments: Any, words: str, on_error: str, stream: bool
) -> None:
    """Missing, null, unknown and unreadable arguments, in either mode: the model reads which and why."""
    result = ask("add", arguments, on_error=on_error, stream=stream)
    assert result.result.startswith("Invalid arguments. ") and words in result.result
    assert result.exception is None


@pytest.mark.parametrize(
    ("name", "words"), [("boom", "ZeroDivisionError: broken"), ("refused", "Not on a Sunday.")]
)
def test_failures_as_exceptions(name: str, words: str) -> None:
    """With `on_error="raise"` the framework knows of the failure, and shows our text only if told to."""
    result = ask(name, {}, on_error="raise")
    assert (result.result, result.exception) == ("Error: Function failed.", words)
    client = scripted(
        [(name, {})], function_invocation_configuration={"include_detailed_errors": True}
    )
    exported = [agent_framework.export(tool, on_error="raise") for tool in ODD_TOOLS]
    (detailed,) = results(run(client, *exported))
    assert detailed.result == f"Error: Function failed. Exception: {words}"


def test_raised_failures_count_against_the_frameworks_limit() -> None:
    """Three failures in a row end the loop with "raise", and do not with "text"."""
    boom = ODD_TOOLS[2]
    raising = scripted(*[[("boom", {})]] * 6)
    run(raising, agent_framework.export(boom, on_error="raise"))
    telling = scripted(*[[("boom", {})]] * 6)
    run(telling, agent_framework.export(boom))
    assert len(telling.seen) == 7
    assert len(raising.seen) < 7


def test_a_tripwire_ends_the_run() -> None:
    """A tripwire leaves the agent's run as their MiddlewareFailure: the model is not asked again."""
    client = scripted([("stopped", {})])
    with pytest.raises(MiddlewareFailure, match="Stop everything"):
        run(client, *[agent_framework.export(tool) for tool in ODD_TOOLS])
    assert len(client.seen) == 1


class Recorder(FunctionMiddleware):
    def __init__(self, change: Any = None) -> None:
        self.change = change
        self.seen: list[Any] = []

    async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
        self.seen.append((context.function.name, dict(context.arguments)))
        if self.change is not None:
            context.arguments = self.change
        await call_next()
        ours = context.metadata.get(agent_framework.RESULT)
        self.seen.append(None if ours is None else (ours.value, ours.call_id))


def test_their_middleware_sees_and_changes_the_call() -> None:
    """Their middleware sees plain arguments, may replace them, and finds our whole result in the metadata."""
    recorder = Recorder(change={"a": 40, "b": 2})
    exported = agent_framework.export(add)
    result = played("add", {"a": 1}, exported, middleware=[recorder])
    assert result.result == "42"
    assert recorder.seen == [("add", {"a": 1}), (42, "call-0")]


def test_arguments_that_middleware_breaks_are_answered_in_our_words() -> None:
    """What middleware makes of the arguments is checked like what a model sends."""
    meddling = [Recorder(change={"a": "x"})]
    result = played("add", {"a": 1}, agent_framework.export(add), middleware=meddling)
    assert result.result.startswith("Invalid arguments. a")


def test_session_kwargs_and_call_id_reach_the_context() -> None:
    """`function_invocation_kwargs` are `context.deps`, the session is `context.thread`, and the call has its id."""
    seen: list[Any] = []

    @FunctionTool
    def look(context: Context[dict[str, Any]], call: ToolCall) -> str:
        """Look around."""
        seen.append((context.deps, context.thread, call.id))
        return "ok"

    session = AgentSession()
    native = agent_framework.export(look)
    played("look", {}, native, session=session, function_invocation_kwargs={"user": "bo"})
    played("look", {}, native)
    assert seen[0] == ({"user": "bo"}, session, "call-0")
    assert seen[1][0] == {}


def test_a_context_of_the_hosts_own_is_used() -> None:
    """A functool Context as the only kwarg `deps` is the one the tool gets: its dependencies, state and thread."""

    @FunctionTool
    def visit(context: Context[str]) -> str:
        """Visit."""
        context.state["visits"] = context.state.get("visits", 0) + 1
        return f"{context.deps} {context.thread} {context.state['visits']}"

    native, context = agent_framework.export(visit), Context("Bo", thread="t-1")
    given = {"function_invocation_kwargs": {"deps": context}}
    result = played("visit", {}, native, **given)
    again = played("visit", {}, native, **given, session=AgentSession())
    assert result.result == "Bo t-1 1"
    assert again.result.startswith("Bo <") and again.result.endswith(" 2")


def test_a_standing_rule_of_theirs_lets_later_calls_run() -> None:
    """After a person's standing word, `ToolApprovalMiddleware` asks no more, and our guardrail takes its answer."""
    ran.clear()
    client = scripted([("delete", {"path": "a"})], [("delete", {"path": "b"})])

    async def main() -> Any:
        agent = Agent(
            client=client,
            tools=[agent_framework.export(delete)],
            middleware=[af.ToolApprovalMiddleware()],
        )
        session = agent.create_session()
        (request,) = (await agent.run("go", session=session)).user_input_requests
        word = af.create_always_approve_tool_response(request)
        return await agent.run(Message("user", [word]), session=session)

    response = asyncio.run(main())
    assert (response.text, response.user_input_requests) == ("done", [])
    assert ran == ["delete", "delete"]


def test_a_rule_knows_conditions_and_grants() -> None:
    """With `approval_rule` the framework asks only about calls that a condition names and that no grant covers."""
    seen: list[int] = []

    @FunctionTool(
        input_guardrails=[require_approval(lambda call, context: call.arguments["amount"] > 5)]
    )
    def pay(amount: int, currency: str = "CHF") -> str:
        """Pay."""
        seen.append(amount)
        return f"paid {amount}"

    context = Context()
    context.grant(Grant.of(pay, {"amount": 9}))
    client = scripted([("pay", {"amount": amount}) for amount in (3, 7, 9)])

    async def main() -> tuple[list[Any], Any]:
        rule = agent_framework.approval_rule(pay, context)
        agent = Agent(
            client=client,
            tools=agent_framework.export_all(pay),
            middleware=[af.ToolApprovalMiddleware(auto_approval_rules=[rule])],
        )
        given = {"session": agent.create_session(), "function_invocation_kwargs": {"deps": context}}
        (request,) = (await agent.run("go", **given)).user_input_requests
        wanted = request.function_call.parse_arguments()
        answer = Message("user", [request.to_function_approval_response(False)])
        unknown = Content.from_function_call(call_id="x", name="other", arguments="{}")
        assert not await rule(unknown)
        return wanted, await agent.run(answer, **given)

    wanted, response = asyncio.run(main())
    assert wanted == {"amount": 7}
    assert (response.text, sorted(seen), context.grants()) == ("done", [3, 9], [])


def with_rule(tool: Any, context: Context, *calls: dict[str, Any]) -> list[str]:
    """Let an agent with `approval_rule` make calls of one tool in one turn; return what the model reads."""

    async def main() -> Any:
        rule = agent_framework.approval_rule(tool, context)
        agent = Agent(
            client=scripted([(tool.name, arguments) for arguments in calls]),
            tools=agent_framework.export_all(tool),
            middleware=[af.ToolApprovalMiddleware(auto_approval_rules=[rule])],
        )
        given = {"session": agent.create_session(), "function_invocation_kwargs": {"deps": context}}
        return await agent.run("go", **given)

    return [content.result for content in results(asyncio.run(main()))]


@pytest.mark.parametrize("kwargs", [{}, {"user": "ada"}, None], ids=["deps", "more", "forgotten"])
def test_a_rule_lets_a_grant_cover_no_more_calls_than_it_has_uses(kwargs: Any) -> None:
    """Of three equal calls a grant of one use covers one, whatever the kwargs of the run are, and also after a restart."""
    paid: list[int] = []

    @FunctionTool(input_guardrails=[require_approval()])
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def started(*turns: Any) -> tuple[Any, Context, dict[str, Any]]:
        context = Context()
        context.grant(Grant.of(pay, {"amount": 9}, uses=1))
        rule = agent_framework.approval_rule(pay, context)
        agent = Agent(
            client=scripted(*turns),
            tools=agent_framework.export_all(pay),
            middleware=[af.ToolApprovalMiddleware(auto_approval_rules=[rule])],
        )
        given = None if kwargs is None else {"deps": context, **kwargs}
        return agent, context, {"function_invocation_kwargs": given}

    async def main() -> Any:
        agent, _, given = started([("pay", {"amount": 9})] * 3)
        session, asked = agent.create_session(), []
        response = await agent.run("go", session=session, **given)
        while response.user_input_requests:
            (request,) = response.user_input_requests
            asked.append(request.function_call.call_id)
            agent, context, given = started()
            session = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
            answer = Message("user", [request.to_function_approval_response(False)])
            for grant in context.grants():  # They were not stored.
                context.revoke(grant)
            response = await agent.run(answer, session=session, **given)
        return asked

    assert (asyncio.run(main()), paid) == (["call-1", "call-2"], [9])


def paying(
    client: ScriptedClient, *, uses: int
) -> tuple[Agent, dict[str, Any], list[int], Context]:
    """An agent whose rule lets payments of 9 pass, its run's arguments, what it paid, and the context."""
    paid: list[int] = []

    @FunctionTool(input_guardrails=[require_approval()])
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    context = Context()
    context.grant(Grant.of(pay, {"amount": 9}, uses=uses))
    rule = agent_framework.approval_rule(pay, context)
    agent = Agent(
        client=client,
        tools=agent_framework.export_all(pay),
        middleware=[af.ToolApprovalMiddleware(auto_approval_rules=[rule])],
    )
    given = {"session": agent.create_session(), "function_invocation_kwargs": {"deps": context}}
    return agent, given, paid, context


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("amounts", [(9, 9, 9), (7, 9), (9, 7)], ids=["equal", "asked", "passed"])
def test_calls_of_one_id_share_no_pass_of_a_rule(amounts: tuple[int, ...], approved: bool) -> None:
    """Calls of a turn may have the same id. A grant of one use covers one of them, and a person decides about the others."""
    client = ScriptedClient([("call_0", "pay", {"amount": amount}) for amount in amounts])
    agent, given, paid, context = paying(client, uses=1)

    async def main() -> list[int]:
        asked = []
        response = await agent.run("go", **given)
        while response.user_input_requests:
            (request,) = response.user_input_requests
            asked.append(request.function_call.parse_arguments()["amount"])
            answer = Message("user", [request.to_function_approval_response(approved)])
            response = await agent.run(answer, **given)
        return asked

    asked = asyncio.run(main())
    covered = list(amounts)
    for amount in asked:
        covered.remove(amount)
    assert sorted(paid) == sorted(amounts if approved else covered)
    assert len(covered) + sum(grant.uses for grant in context.grants()) == 1


def test_a_call_that_passes_the_rule_uses_up_its_grant() -> None:
    """A grant of two uses covers two calls, one after the other, and no third one."""
    client = ScriptedClient(*[[(f"c{n}", "pay", {"amount": 9})] for n in range(3)])
    agent, given, paid, context = paying(client, uses=2)
    response = asyncio.run(agent.run("go", **given))
    assert [one.function_call.call_id for one in response.user_input_requests] == ["c2"]
    assert (paid, context.grants()) == ([9, 9], [])


def test_a_context_counts_beside_other_kwargs() -> None:
    """A functool Context as `deps` is that of the calls, also beside other kwargs, which then join its deps."""
    seen: list[Any] = []

    @FunctionTool(input_guardrails=[budget(calls=1)])
    def look(context: Context) -> str:
        """Look."""
        seen.append((context.deps, context.state["own"]))
        return "seen"

    context = Context("database")
    context.state["own"] = 1
    agent = Agent(client=scripted([("look", {})] * 2), tools=agent_framework.export_all([look]))
    given = {"function_invocation_kwargs": {"deps": context, "user": "ada"}}
    answers = [content.result for content in results(asyncio.run(agent.run("go", **given)))]
    assert (seen, answers.count("seen")) == ([({"deps": "database", "user": "ada"}, 1)], 1)


def test_a_rule_approves_no_call_that_another_guardrail_changes() -> None:
    """A call whose condition holds only after another guardrail has changed it does not run."""
    deleted: list[str] = []

    def expand(call: ToolCall, context: Context) -> ToolCall:
        return replace(call, arguments={"path": call.arguments["path"].replace("~", "/root")})

    @FunctionTool(
        input_guardrails=[
            expand,
            require_approval(lambda call, context: call.arguments["path"].startswith("/root")),
        ]
    )
    def remove(path: str) -> str:
        """Remove."""
        deleted.append(path)
        return "removed"

    answers = with_rule(remove, Context(), {"path": "~/a"}, {"path": "/tmp/b"})
    assert "approval" in answers[0] and answers[1] == "removed"
    assert deleted == ["/tmp/b"]


def test_a_host_that_switches_approval_off_does_not_switch_ours_off() -> None:
    """With the framework's own asking switched off nobody has agreed: the body does not run."""
    ran.clear()
    native = agent_framework.export(delete)
    native.approval_mode = "never_require"
    result = played("delete", {"path": "a.txt"}, native)
    assert "approv" in result.result.lower() and ran == []


def test_a_call_outside_of_the_loop_has_nobodys_approval() -> None:
    """Called by hand, where the framework asks nobody, the body does not run; adopted back, it runs once a person agreed."""
    ran.clear()
    native = agent_framework.export(delete)

    async def by_hand() -> list[Any]:
        return [
            *await native(path="a.txt"),
            *await native.invoke(arguments={"path": "a.txt"}, tool_call_id="x"),
        ]

    assert [answer.text for answer in asyncio.run(by_hand())] == [
        "The call of delete needs a person's approval first."
    ] * 2
    assert ran == []

    agreeing = Context(approver=lambda request: True)
    result = call(agent_framework.adopt(native), {"path": "a.txt"}, agreeing)
    assert (result.text, ran) == ("deleted a.txt", ["delete"])


def test_a_parameter_may_have_any_name() -> None:
    """Names that the framework uses itself are ordinary parameters of a tool."""

    @FunctionTool
    def names(self: int, ctx: int, arguments: int, context: str = "x") -> str:
        """Add."""
        return f"{self + ctx + arguments}{context}"

    arguments = {"self": 1, "ctx": 2, "arguments": 3}
    result = played("names", arguments, agent_framework.export(names))
    assert result.result == "6x"


def test_a_parameter_that_would_swallow_bad_json_is_refused() -> None:
    """A tool that a call without JSON would run is refused at export, with the rule; with another required one it is not."""

    @FunctionTool
    def shout(raw: str) -> str:
        """Shout."""
        return raw

    @FunctionTool
    def fine(raw: str, times: int) -> str:
        """Shout."""
        return raw * times

    with pytest.raises(DefinitionError, match="rename the parameter"):
        agent_framework.export(shout)
    assert len(agent_framework.demands(shout)) == 1 and agent_framework.demands(fine) == []
    answer = played("fine", "{broken", agent_framework.export(fine))
    assert answer.result.startswith("Invalid arguments. ")

    @FunctionTool
    def taken(functool_invocation: str) -> str:
        """Take the name."""
        return functool_invocation

    with pytest.raises(DefinitionError, match="cannot be named 'functool_invocation'"):
        agent_framework.export(taken)


def test_the_export_is_callable_as_theirs_is() -> None:
    """`await tool(**kwargs)` and `await tool.invoke(arguments=...)` work without any agent."""
    native = agent_framework.export(add)

    async def main() -> Any:
        called = await native(a=1, b=2)
        invoked = await native.invoke(arguments={"a": 3}, tool_call_id="x")
        return [called[0].text, invoked[0].text]

    assert asyncio.run(main()) == ["3", "4"]


def test_cancelling_the_run_cancels_the_tool() -> None:
    """A cancelled run cancels the body, and its cleanup has run."""

    def start(tool: FunctionTool) -> Any:
        agent = Agent(client=scripted([("wait", {})]), tools=[agent_framework.export(tool)])
        return lambda: agent.run("go")

    assert cleaned_up_when_cancelled(start) == ["done"]


@af.tool
def weather(
    city: Annotated[str, "The city."], ctx: FunctionInvocationContext, days: int = 1
) -> Any:
    """Tell the weather."""
    if city == "Atlantis":
        raise LookupError("sunk")
    if city == "Map":
        return [Content.from_text("see"), Content.from_data(PNG, "image/png")]
    user = ctx.kwargs.get("user", "nobody")
    return {"city": city, "days": days, "user": user, "session": ctx.session is not None}


def test_adopt_takes_one_tool_of_theirs() -> None:
    """A tool of functool, a function and a list are refused by name, with what to do."""
    adopts_only_theirs(agent_framework.adopt, "agent_framework.FunctionTool")


def test_adopt_makes_a_tool_of_theirs() -> None:
    """Their tool becomes one of ours: schema, arguments, kwargs, session, values, images and failures."""
    tool = agent_framework.adopt(weather)
    assert (tool.name, tool.description) == ("weather", "Tell the weather.")
    assert tool.schema.parameters["properties"]["city"]["description"] == "The city."
    context = Context({"user": "bo"}, thread=AgentSession())
    good = call(tool, {"city": "Bonn"}, context)
    assert good.value == {"city": "Bonn", "days": 1, "user": "bo", "session": True}
    assert json.loads(good.text) == good.value
    picture = call(tool, {"city": "Map"})
    assert picture.output[1] == ImageContent(data=PNG, media_type="image/png")
    assert call(tool, {"days": 1}).error.type == "ArgumentError"
    unknown = call(tool, {"city": "Bonn", "day": 1})
    assert unknown.text == "Invalid arguments. day: unknown argument; did you mean 'days'?"
    failed = call(tool, {"city": "Atlantis"})
    assert failed.error.type == "LookupError" and "sunk" in failed.error.message


def test_adopt_takes_values_links_and_other_content() -> None:
    """A tool of theirs that hands out plain values, links or content of a kind we do not know is understood."""
    raw = af.tool(lambda: {"n": 1}, name="raw", description="Raw.", result_parser=af.SKIP_PARSING)
    assert call(agent_framework.adopt(raw)).value == {"n": 1}
    worded = af.tool(
        lambda: {"n": 1},
        name="worded",
        description="Worded.",
        result_parser=lambda value: f"n is {value['n']}",
    )
    assert call(agent_framework.adopt(worded)).text == "n is 1"

    def media() -> Any:
        return [
            Content.from_uri("https://example.com/a.mp3", media_type="audio/mpeg"),
            Content.from_data(b"%PDF", "application/pdf"),
            Content.from_error(message="half of it"),
        ]

    tool = agent_framework.adopt(af.tool(media, name="media", description="Media."))
    sound, file, other = call(tool).output


def test_adopt_keeps_their_approval() -> None:
    """A tool of theirs that always requires approval asks for ours."""
    guarded = af.tool(
        lambda: "ran", name="guarded", description="Guarded.", approval_mode="always_require"
    )
    tool = agent_framework.adopt(guarded)
    assert tool.requires_approval is True
    assert call(tool).error.type == "ApprovalRequired"
    assert call(tool, context=Context(approver=lambda request: True)).text == "ran"


LATER = af.FunctionTool(
    name="later", description="Later.", input_model={"type": "object", "properties": {}}
)


def test_adopt_refuses_what_cannot_run() -> None:
    """A declaration and a foreign object are refused."""
    with pytest.raises(DefinitionError, match="only declared"):
        agent_framework.adopt(LATER)
    with pytest.raises(DefinitionError, match="FunctionTool"):
        agent_framework.adopt(print)  # type: ignore[arg-type]


def test_an_adopted_tool_goes_back() -> None:
    """Once round: their tool as ours as theirs is called by their agent."""
    native = agent_framework.export(agent_framework.adopt(weather))
    result = played("weather", {"city": "Bonn"}, native, function_invocation_kwargs={"user": "bo"})
    assert json.loads(result.result)["user"] == "bo"


def expert(agent: Any, **options: Any) -> AgentTool:
    return AgentTool(agent, "expert", "Ask.", **{"runner": agent_framework.runner, **options})


def expert_with(client: ScriptedClient, *tools: Any) -> AgentTool:
    return expert(Agent(client=client, tools=agent_framework.export_all(Toolset(tools))))


@pytest.mark.parametrize(("kept", "messages"), [(True, 3), (False, 1)])
def test_runner_keeps_the_thread(kept: bool, messages: int) -> None:
    """With a thread the second call sees the first; without one it starts fresh."""
    client = scripted()
    agent = Agent(client=client)
    session = agent.create_session()
    tool = expert(agent, **({"thread": lambda context: session} if kept else {}))

    assert [support.ask(tool, text=text).text for text in ("one", "two")] == ["done", "done"]
    assert len(client.seen[-1]) == messages


@pytest.mark.parametrize("options", [{}, {"session": None}])
def test_runner_resumes_a_workflow(options: dict[str, Any]) -> None:
    """An agent inside `workflow.as_agent()` waits for approval, and the same call goes on where it stopped."""
    ran.clear()
    client = scripted([("delete", {"path": "a"})])
    inner = Agent(client=client, tools=[agent_framework.export(delete)], name="inner")
    flow = af.WorkflowBuilder(start_executor=inner).build().as_agent("flow")
    tool = expert(flow, runner=partial(agent_framework.runner, **options))
    context = Context()
    request = support.ask(tool, context).metadata["approval"]
    assert (request.tool, request.arguments, ran) == ("delete", {"path": "a"}, [])

    context.approve(request)
    done = support.ask(tool, context)
    assert (done.text, ran, len(client.seen)) == ("done", ["delete"], 2)


def flow_of(client: ScriptedClient, **options: Any) -> Any:
    inner = Agent(client=client, name="inner", **options)
    return af.WorkflowBuilder(start_executor=inner).build().as_agent("flow")


def test_a_workflow_serves_one_context() -> None:
    """A workflow keeps the messages of its runs, so that a call of another context would see them."""
    client = scripted()
    tool, mine = expert(flow_of(client)), Context()
    assert [support.ask(tool, mine).text for _ in range(2)] == ["done", "done"]
    for flow in (tool, expert(tool.agent.workflow.as_agent("again"))):
        refused = support.ask(flow, Context())
        assert refused.error.type == "DefinitionError" and "another context" in refused.text
    assert len(client.seen) == 2


def test_a_function_makes_a_workflow_for_each_call() -> None:
    """Every call has a conversation of its own, and a call that waited goes on in its own workflow."""
    ran.clear()
    client = scripted()
    tool = expert(lambda: flow_of(client, tools=[agent_framework.export(delete)]))
    assert [support.ask(tool, Context(), text=text).text for text in ("a", "b")] == ["done"] * 2
    assert [len(messages) for messages in client.seen] == [1, 1]

    client.script = [[("call-0", "delete", {"path": "a"})], "between"]
    mine = Context()
    request = support.ask(tool, mine).metadata["approval"]
    assert support.ask(tool, Context()).text == "between" and ran == []
    mine.approve(request)
    assert support.ask(tool, mine).text == "done" and ran == ["delete"]


def test_runner_waits_for_answers_that_a_middleware_holds_back() -> None:
    """`ToolApprovalMiddleware` asks about one call after the other, and runs all of them after the last answer."""
    ran.clear()
    client = scripted([("delete", {"path": "a"}), ("delete", {"path": "b"})])
    tools = [agent_framework.export(delete)]
    tool = expert(Agent(client=client, tools=tools, middleware=[af.ToolApprovalMiddleware()]))
    context, asked = Context(), []
    while (result := support.ask(tool, context)).is_error:
        request = result.metadata["approval"]
        asked.append((request.arguments["path"], [*ran]))
        context.approve(request)

    assert (asked, result.text, len(ran)) == ([("a", []), ("b", [])], "done", 2)


def test_runner_runs_no_call_that_a_person_edited() -> None:
    """The framework runs the call that was made or none, so that an edited one does not run."""
    ran.clear()
    edit = Decision(approved=True, arguments={"path": "b"})
    tool = expert_with(scripted([("delete", {"path": "a"})]), delete)
    assert support.ask(tool, Context(approver=lambda request: edit)).text == "done"
    assert ran == []


def test_runner_forwards_updates_and_usage() -> None:
    """While somebody listens the inner agent's updates are progress; its tokens are in the metadata."""
    client = scripted([("add", {"a": 1})])
    client.usage = UsageDetails(input_token_count=10, output_token_count=2, total_token_count=12)
    tool = expert_with(client, add)
    seen: list[Any] = []
    context = Context()
    context.subscribe(
        lambda event: seen.append(event.data["value"]) if event.kind == "tool:progress" else None
    )
    assert support.ask(tool, context).text == "done"
    assert [update.text for update in seen if update.text] == ["done"]
    client.script = [[("call-0", "add", {"a": 1})]]
    counts = {"requests": 2, "input_tokens": 20, "output_tokens": 4, "total_tokens": 24}
    assert support.ask(tool).metadata["usage"] == counts


def test_runner_gives_up_on_what_is_no_approval() -> None:
    """An inner agent that waits for a tool which only its host could run is an error of the outer call."""
    agent = Agent(client=scripted([("later", {})]), tools=[LATER])
    assert "cannot be given from here" in support.ask(expert(agent)).error.message


def test_usage_that_a_client_does_not_know_is_left_out() -> None:
    """A count that is missing or not one of ours is not in the usage."""
    client = scripted()
    client.usage = UsageDetails(input_token_count=3, reasoning_output_token_count=9)
    usage = support.ask(expert_with(client, add)).metadata["usage"]
    assert usage == {"requests": 1, "input_tokens": 3}


def test_export_all_exports_each_the_same_way() -> None:
    """Every tool of a toolset is exported, with the same answer to failures."""
    tools = agent_framework.export_all(Toolset([ODD_TOOLS[2], add]), on_error="raise")
    assert [tool.name for tool in tools] == ["boom", "add"]
    result = played("boom", {}, *tools)
    assert result.exception == "ZeroDivisionError: broken"
    with pytest.raises(DefinitionError, match="not 'exception'"):
        agent_framework.export_all(Toolset([add]), on_error="exception")
