"""functool tools in Amplifier: the real session, coordinator, hooks, loader, validators and shipped tests of amplifier-core."""

import asyncio
import inspect
import json
import logging
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

amplifier_core = pytest.importorskip("amplifier_core")

from amplifier_core import AmplifierSession, HookResult, ModuleLoader  # noqa: E402
from amplifier_core import ToolResult as NativeResult  # noqa: E402
from amplifier_core.testing import MockCoordinator, MockTool  # noqa: E402
from amplifier_core.validation import ToolValidator  # noqa: E402
from pydantic import BaseModel, ConfigDict  # noqa: E402

from functool import (  # noqa: E402
    Context,
    DefinitionError,
    FunctionTool,
    ImageContent,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.guardrails import trusted, trusted_only  # noqa: E402
from functool.integrations import amplifier, amplifier_template  # noqa: E402
from tests.integrations.odd_tools import (  # noqa: E402
    HUGE,
    ODD_TOOLS,
    PNG,
    add,
    cleaned_up_when_cancelled,
    delete,
    picture,
    ran,
    stopped,
)
from tests.support import call  # noqa: E402

HOST = Path(__file__).parent / "amplifier_host"


class Host:
    """A real AmplifierSession whose model makes the scripted calls; `events` is what its hooks saw."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, mount: Any, approval_system: Any = None
    ) -> None:
        monkeypatch.syspath_prepend(str(HOST))
        module = ModuleType("amplifier_module_tool_under_test")
        module.mount = mount  # type: ignore[attr-defined]
        module.__amplifier_module_type__ = "tool"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        self.approval_system = approval_system
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.results: list[Any] = []
        self.contributions: list[Any] = []
        self.after_cleanup: Any = None
        self.deny: str | None = None

    async def _hook(self, event: str, data: dict[str, Any]) -> HookResult:
        self.events.append((event, data))
        if event == "tool:pre" and self.deny == data["tool_name"]:
            return HookResult(action="deny", reason="not allowed here")
        return HookResult(action="continue")

    async def session(
        self, *turns: list[tuple[str, dict[str, Any]]], config: Any = None, tools: Any = None
    ) -> AmplifierSession:
        """Return a session that is ready to run prompts."""
        plan = {
            "session": {"orchestrator": "loop-small", "context": "context-small"},
            "providers": [{"module": "provider-scripted", "config": {"calls": list(turns)}}],
            "tools": tools or [{"module": "tool-under-test", "config": config or {}}],
        }
        session = AmplifierSession(plan, approval_system=self.approval_system)
        coordinator = session.coordinator
        kinds = ("tool:pre", "tool:post", "tool:error", "tool:progress")
        for name in (*kinds, "shop:sold", "module:load_failed"):
            coordinator.hooks.register(name, self._hook, name=f"test:{name}")
        await session.initialize()
        return session

    def run(self, *turns: list[tuple[str, dict[str, Any]]], **options: Any) -> list[str]:
        """Run one prompt; return what the model read of each call."""
        return asyncio.run(self._run(*turns, **options))

    async def _run(self, *turns: list[tuple[str, dict[str, Any]]], **options: Any) -> list[str]:
        session = await self.session(*turns, **options)
        coordinator = session.coordinator
        self.contributions = await coordinator.collect_contributions("observability.events")
        self.answer = await session.execute("go")
        self.results = coordinator.get("orchestrator").results
        messages = await coordinator.get("context").get_messages_for_request()
        await session.cleanup()
        self.after_cleanup = coordinator.get("tools")
        return [message["content"] for message in messages if message["role"] == "tool"]

    def kinds(self) -> list[str]:
        return [event for event, _ in self.events]


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a host whose session mounts these tools."""

    def make(*tools: Any, approvals: Any = None, **options: Any) -> Host:
        return Host(monkeypatch, amplifier.mount(*tools, **options), approvals)

    return make


@pytest.fixture
def host(mounted: Any) -> Host:
    return mounted(*ODD_TOOLS)


def execute(tool: Any, arguments: Any = {}) -> Any:  # noqa: B006
    """Run an exported tool outside of any session."""
    return asyncio.run(amplifier.export(tool).execute(arguments))


def test_a_session_runs_a_tool_and_its_hooks_see_it(host: Host) -> None:
    """The session's loop calls the tool, the model reads its answer, and the hooks see exactly pre and post."""
    assert host.run([("add", {"a": 2, "b": 3})]) == ["5"]
    assert host.kinds() == ["tool:pre", "tool:post"]
    (result,) = host.results
    assert isinstance(result, NativeResult)
    assert (result.success, result.output, result.error) == (True, 5, None)


@pytest.mark.parametrize(
    ("value", "read", "output"),
    [
        ("none", "Success", None),
        ("zero", "0", 0),
        ("no", "false", False),
        ("list", "[]", []),
        ("dict", "{}", {}),
        ("", "", ""),
        ("deep", '{"a": ["\\u00e9"]}', {"a": ["é"]}),
    ],
)
def test_falsy_and_structured_results_arrive_whole(
    host: Host, value: str, read: str, output: Any
) -> None:
    """A falsy or structured result stays what it is, where Amplifier's own result would say "Success" or Python text."""
    assert host.run([("echo", {"value": value})]) == [read]
    assert host.results[0].output == output and type(host.results[0].output) is type(output)


def test_what_json_cannot_say_is_still_an_answer() -> None:
    """A dict with a date, on which Amplifier's own result fails, is read as JSON text."""

    @FunctionTool
    def today() -> dict[str, date]:
        """Return a date."""
        return {"day": date(2026, 11, 21)}

    assert execute(today).get_serialized_output() == '{"day": "2026-11-21"}'


def test_a_huge_result_arrives_whole(host: Host) -> None:
    """Two million characters reach the model as they are: cutting is the work of a guardrail."""
    assert host.run([("huge", {})]) == [HUGE]


def test_an_image_arrives_as_a_block(host: Host) -> None:
    """A picture is an image block beside its text, with the bytes unchanged."""
    (read,) = host.run([("picture", {})])
    assert read == f"A dot:\n[image/png: {len(PNG)} bytes]"
    text, image = host.results[0].content
    assert text.text == "A dot:"
    again = call(amplifier.adopt(amplifier.export(picture)))
    assert [part.data for part in again.output[1:]] == [PNG]
    assert image.source["media_type"] == "image/png"


def test_an_image_has_the_type_that_its_bytes_show() -> None:
    """A provider refuses a JPEG that says that it is a PNG, as `ImageContent` does by default."""

    @FunctionTool
    def photo() -> ImageContent:
        """Take a photo."""
        return ImageContent(data=b"\xff\xd8\xff\xe0")

    (block,) = execute(photo).content
    assert block.source["media_type"] == "image/jpeg"


@pytest.mark.parametrize(
    "image",
    [
        ImageContent(data=b""),
        ImageContent(data=b"nonsense", media_type="nonsense"),
        ImageContent(data=b"<svg/>", media_type="image/svg+xml"),
        ImageContent(uri="https://x.org/a.png"),
    ],
)
def test_an_image_that_amplifier_refuses_is_named_in_the_text(image: ImageContent) -> None:
    """An empty image, one of no kind and one that is only a link: `execute` does not raise, and the text says what it was."""
    result = execute(FunctionTool(lambda: ["see", image], name="see", description="See."))
    assert result.content is None
    assert result.output.startswith("see\n[")


def test_an_image_beside_one_that_cannot_be_shown_stays() -> None:
    """One bad image is named in the text, and the good one is a block all the same."""
    images = [ImageContent(data=b""), ImageContent(data=PNG)]
    tool = FunctionTool(lambda: images, name="see", description="See.")
    first, second = execute(tool).content
    assert (first.type, first.text) == ("text", "[image/png: 0 bytes]")
    assert (second.type, second.source["media_type"]) == ("image", "image/png")


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words"),
    [
        ("add", {}, "ArgumentError", "a"),
        ("add", {"a": None}, "ArgumentError", "a"),
        ("add", {"a": 1, "c": 2}, "ArgumentError", "c"),
        ("boom", {}, "ZeroDivisionError", "ZeroDivisionError: broken"),
        ("refused", {}, "GuardrailError", "Not on a Sunday."),
    ],
)
def test_failures_are_results_with_message_and_type(
    host: Host, name: str, arguments: Any, kind: str, words: str
) -> None:
    """Bad arguments, a raising body and a refusal reach the model as text, and the host as `message` and `type`."""
    ran.clear()
    (read,) = host.run([(name, arguments)])
    result = host.results[0]
    assert result.success is False and set(result.error) >= {"message", "type"}
    assert result.error["type"] == kind and words in result.error["message"]
    assert read == f"Error: {result.error['message']}"
    assert host.kinds() == ["tool:pre", "tool:post"]
    assert ran == []


def test_a_failure_keeps_the_output_it_came_with() -> None:
    """The model reads the message and then what the tool had to show, once each."""

    class Failing(Tool):
        async def run(self, call: ToolCall, context: Context) -> ToolResult:
            output = ToolResult.of("no such file").output
            return ToolResult.failed("exit code 2", type="ExitCode", output=output)

    tool = Failing(name="sh", description="Run.", parameters={"type": "object", "properties": {}})
    result = execute(tool)
    assert result.error == {"message": "exit code 2", "type": "ExitCode"}
    assert result.get_serialized_output() == "exit code 2\nno such file"


DETAILS = {"exit_code": 3, "since": date(2026, 11, 22), "message": "another", "type": 7}


@FunctionTool
def sh() -> None:
    """Run."""
    raise ToolError("command failed", details=DETAILS)


def test_the_details_of_an_error_stand_beside_its_message() -> None:
    """An exit code crosses as Amplifier's own tools write it, as JSON, and comes back when adopted."""
    result = execute(sh)
    more = {
        "exit_code": 3,
        "since": "2026-11-22",
        "details": {"message": "another", "type": 7},
    }
    assert result.error == {"message": "command failed", "type": "ToolError", **more}
    assert result.model_dump(mode="json")["error"] == result.error
    assert call(amplifier.adopt(amplifier.export(sh))).error.details == more


def test_details_reach_the_hooks_of_a_session(mounted: Any) -> None:
    """A hook on `tool:post` reads the exit code, and the model reads the message alone."""
    host = mounted(sh)
    assert host.run([("sh", {})]) == ["Error: command failed"]
    assert host.results[0].error["exit_code"] == 3


def test_none_as_input_means_no_arguments() -> None:
    """`execute(None)` is a call without arguments, and the missing one is named."""
    assert execute(add, None).error["type"] == "ArgumentError"
    assert execute(picture, None).success is True
    assert execute(add, "{broken").error["type"] == "ArgumentError"
    assert execute(add, '{"a": 1}').output == 2


def test_keys_of_the_host_are_ignored_and_others_refused() -> None:
    """Keys that begin with an underscore are the host's unless the tool has such a parameter; the call id is taken from one."""
    seen: list[str] = []

    @FunctionTool
    def tell(_x: int, call: ToolCall) -> str:
        """Tell what came."""
        seen.append(call.id)
        return f"{_x} {sorted(call.arguments)}"

    result = execute(tell, {"_x": 4, "_tool_call_id": "call-9", "_trace": {}})
    assert result.output == "4 ['_x']"
    execute(tell, {"_x": 4})
    assert seen == ["call-9", ""]
    assert execute(tell, {"_x": 4, "trace": {}}).error["type"] == "ArgumentError"


def test_a_hook_may_deny(host: Host) -> None:
    """A call that a hook denies never reaches the tool."""
    host.deny = "add"
    assert host.run([("add", {"a": 1})]) == ["Denied by hook: not allowed here"]
    assert host.results == []


def test_several_calls_and_turns(host: Host) -> None:
    """Calls of one turn and of later ones each get their own answer."""
    first = [("add", {"a": 1}), ("echo", {"value": "zero"})]
    assert host.run(first, [("add", {"a": 5, "b": 5})]) == ["2", "0", "10"]


def test_a_tripwire_ends_the_run(host: Host) -> None:
    """A tripwire asks the session to cancel at once: the loop makes no further call to the model."""
    read = host.run([("stopped", {})], [("add", {"a": 1})])
    assert read == ["Error: Stop everything."]
    assert host.answer == "cancelled"
    assert host.results[0].error == {"message": "Stop everything.", "type": "Tripwire"}


def test_a_session_stays_cancelled_after_a_tripwire_until_it_is_reset(host: Host) -> None:
    """The next prompt ends at once, as after any cancellation; `cancellation.reset()` opens the session again."""

    async def prompts() -> list[str]:
        session = await host.session([("stopped", {})], [("add", {"a": 1})])
        answers = [await session.execute("go"), await session.execute("go on")]
        session.coordinator.cancellation.reset()
        answers.append(await session.execute("go on now"))
        host.results = session.coordinator.get("orchestrator").results
        await session.cleanup()
        return answers

    assert asyncio.run(prompts()) == ["cancelled", "cancelled", "done"]
    assert [result.output for result in host.results] == ["Stop everything.", 2]


def test_cancelling_a_session_does_not_reach_a_body(mounted: Any) -> None:
    """A body runs on to its end, unless it looks at the token; cancelling the task of the prompt does stop it."""
    seen: list[str] = []

    async def prompts(stop: str) -> Any:
        started, go_on = asyncio.Event(), asyncio.Event()

        @FunctionTool
        async def work() -> str:
            """Work."""
            started.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            seen.append("worked")
            return "done"

        session = await mounted(work).session([("work", {})])
        prompt = asyncio.create_task(session.execute("go"))
        await started.wait()
        if stop == "session":
            await session.coordinator.request_cancel(immediate=True)
            go_on.set()
            assert await prompt == "cancelled"
        else:
            prompt.cancel()
            with pytest.raises(asyncio.CancelledError):
                await prompt
        await session.cleanup()

    asyncio.run(prompts("session"))
    asyncio.run(prompts("task"))
    assert seen == ["worked", "cancelled"]


def test_a_tripwire_outside_a_session_is_a_failed_result() -> None:
    """Without a session there is nothing to cancel: `execute` still does not raise."""
    assert execute(stopped).error["type"] == "Tripwire"


def test_a_session_that_cannot_be_cancelled_is_no_crash(caplog: Any) -> None:
    """When the cancellation itself fails, `execute` still answers, and the failure is logged."""

    class Stuck:
        async def request_cancel(self, immediate: bool = False) -> None:
            raise RuntimeError(f"stuck, immediate={immediate}")

    exported = amplifier.export(stopped, context=Context(metadata={"coordinator": Stuck()}))
    assert asyncio.run(exported.execute({})).error["type"] == "Tripwire"
    assert "could not be cancelled" in caplog.text and "immediate=True" in caplog.text


def test_cancellation_passes_through() -> None:
    """A cancelled call raises CancelledError, after the tool has cleaned up."""
    cleaned = cleaned_up_when_cancelled(lambda tool: lambda: amplifier.export(tool).execute({}))
    assert cleaned == ["done"]


class ShopConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")
    currency: str = "EUR"
    limit: int = 3


@FunctionTool
async def sell(item: str, context: Context[ShopConfig]) -> str:
    """Sell something."""
    context.progress("selling", done=1, total=2)
    context.emit("shop:sold", item=item, when={"day": 1})
    context.state["sold"] = context.state.get("sold", 0) + 1
    return f"{item} for 3 {context.deps.currency}, number {context.state['sold']}"


def test_the_configuration_of_the_mount_plan_reaches_the_function(mounted: Any) -> None:
    """`Context.deps` is the checked configuration, and the context's state lives as long as the session."""
    host = mounted(sell, config_model=ShopConfig)
    turns = [("sell", {"item": "tea"})], [("sell", {"item": "jam"})]
    assert host.run(*turns, config={"currency": "CHF"}) == [
        "tea for 3 CHF, number 1",
        "jam for 3 CHF, number 2",
    ]


def test_without_a_model_the_configuration_arrives_as_it_is(mounted: Any) -> None:
    """A module without `config_model` finds its plain configuration, and the coordinator in the metadata."""

    @FunctionTool
    def show(context: Context[dict[str, Any]]) -> list[Any]:
        """Show the surroundings."""
        return [context.deps, context.metadata["coordinator"].session_id == context.thread]

    assert mounted(show).run([("show", {})], config={"a": 1}) == ['[{"a": 1}, true]']


def test_a_bad_configuration_is_refused_by_field(mounted: Any, caplog: Any) -> None:
    """The session reports the module as not loaded, with every bad field named and no value shown."""
    host = mounted(sell, config_model=ShopConfig)
    bad = {"limit": "s3cret", "colour": "s3cret"}
    with caplog.at_level(logging.CRITICAL, "amplifier_core"):
        assert host.run([("sell", {"item": "tea"})], config=bad) == ["Error: Tool 'sell' not found"]
    ((_, failed),) = [event for event in host.events if event[0] == "module:load_failed"]
    assert "limit" in failed["error"] and "colour" in failed["error"]
    assert "s3cret" not in failed["error"]


def test_progress_and_own_events_reach_the_hooks(mounted: Any) -> None:
    """What a tool reports is seen by the session's hooks before the result, and is announced to observers."""
    host = mounted(sell, config_model=ShopConfig, events=["shop:sold"])
    host.run([("sell", {"item": "tea"})])
    assert host.kinds() == ["tool:pre", "tool:progress", "shop:sold", "tool:post"]
    progress, sold = host.events[1][1], host.events[2][1]
    assert (progress["tool_name"], progress["message"]) == ("sell", "selling")
    assert (progress["done"], progress["total"]) == (1, 2)
    assert (sold["item"], sold["when"]) == ("tea", {"day": 1})
    assert host.contributions == [["tool:progress", "shop:sold"]]


class Approvals:
    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        self.asked.append((prompt, options, timeout, default))
        if self.answer == "late":
            raise amplifier_core.approval.ApprovalTimeoutError
        return self.answer


@pytest.mark.parametrize(
    ("answer", "read", "bodies"),
    [
        ("Allow", "deleted a.txt", ["delete"]),
        ("Deny", "Error: A person refused this call.", []),
        ("late", "Error: The call was refused. Nobody answered in time.", []),
    ],
)
def test_approvals_go_to_the_sessions_approval_system(
    mounted: Any, answer: str, read: str, bodies: list[str]
) -> None:
    """A tool that needs approval asks the session's approval system; a denial and silence run nothing."""
    ran.clear()
    approvals = Approvals(answer)
    (got,) = mounted(delete, approvals=approvals).run([("delete", {"path": "a.txt"})])
    assert ran == bodies
    assert got == read
    ((prompt, options, seconds, default),) = approvals.asked
    assert "delete" in prompt and '"a.txt"' in prompt
    assert (options, seconds, default) == (["Allow", "Deny"], 300.0, "deny")


@pytest.mark.parametrize(
    "detail", [10**5_000, {"name": "\ud800"}, object()], ids=["long", "half", "odd"]
)
def test_details_that_are_no_json_are_text(mounted: Any, detail: Any) -> None:
    """`execute` answers also if a failure has details, or reports progress, that JSON cannot express."""

    @FunctionTool
    def fail(context: Context) -> None:
        """Fail."""
        context.emit("tool:progress", detail=detail)
        raise ToolError("It failed.", details={"what": detail, "code": 3})

    host = mounted(fail)

    assert host.run([("fail", {})]) == ["Error: It failed."]
    (result,) = host.results
    assert (result.error["code"], len(str(result.error["what"])) > 5) == (3, True)
    assert json.dumps(result.error, ensure_ascii=False).encode()
    told = [data["detail"] for event, data in host.events if event == "tool:progress"]
    assert told == [result.error["what"]]


def test_a_call_that_is_too_long_to_be_read_is_refused(mounted: Any) -> None:
    """A person sees all of what will run, or is not asked."""
    ran.clear()
    approvals = Approvals("Allow")
    paths = ["a" * 20_000, "b"]
    late, _ = mounted(delete, approvals=approvals).run([("delete", {"path": p}) for p in paths])
    ((prompt, *_),) = approvals.asked
    assert '"b"' in prompt
    assert "Nobody was asked" in late and "A person refused" not in late
    assert ran == ["delete"]


def test_an_approval_shows_all_characters(mounted: Any) -> None:
    """What hides or turns other characters, or moves a terminal's cursor, is written out."""
    approvals = Approvals("Deny")
    mounted(delete, approvals=approvals).run([("delete", {"path": "\u202ea\u200b\x9b2J\x7f é"})])
    ((prompt, *_),) = approvals.asked
    assert r'"\u202ea\u200b\u009b2J\u007f \u00e9"' in prompt
    assert prompt.isascii() and prompt.replace("\n", "").isprintable()


def test_an_approval_shows_where_a_value_is_from(
    mounted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person reads which values did not come from the user, as in every other question of functool."""
    monkeypatch.setattr(trusted, "wanted_results", set())

    @FunctionTool(input_guardrails=[trusted_only("to", ask=True, wrote=lambda context: "")])
    def mail(to: str) -> str:
        """Send a mail."""
        return "sent"

    approvals = Approvals("Deny")
    mounted(mail, approvals=approvals).run([("mail", {"to": "eve@x"})])
    ((prompt, *_),) = approvals.asked
    told = "/to came from the model, which may hold text of strangers"
    assert prompt == f'Allow the tool mail to run with {{"to": "eve@x"}}?\n{told}'


def test_without_an_approval_system_the_call_waits_for_one(host: Host) -> None:
    """With nobody to ask, the body does not run and the failure says that approval is required."""
    ran.clear()
    host.run([("delete", {"path": "a.txt"})])
    assert host.results[0].error["type"] == "ApprovalRequired"
    assert ran == []


def test_cleanup_unmounts_the_tools(host: Host) -> None:
    """After the session's cleanup none of the module's tools is mounted."""
    host.run()
    assert host.after_cleanup == {}


def test_mount_returns_nothing_that_the_host_would_run_as_a_tool() -> None:
    """The answer of `mount` is an async function without parameters, or None when there was nothing to mount."""

    async def main() -> None:
        cleanup = await amplifier.mount(add)(MockCoordinator(), {})
        assert inspect.iscoroutinefunction(cleanup)
        assert list(inspect.signature(cleanup).parameters) == []
        assert await amplifier.mount()(MockCoordinator(), None) is None

    asyncio.run(main())


def test_cleanup_leaves_a_tool_that_replaced_ours() -> None:
    """A tool that another module mounted under the same name stays when ours is cleaned up."""

    async def main() -> None:
        coordinator = MockCoordinator()
        cleanup = await amplifier.mount(add)(coordinator, {})
        other = MockTool(name="add")
        await coordinator.mount("tools", other, name="add")
        await cleanup()
        assert coordinator.get("tools", "add") is other

    asyncio.run(main())


def test_mount_takes_tools_toolsets_and_builders() -> None:
    """One module may mount tools, a toolset, and what a function, sync or async, makes of the configuration."""

    def saying(name: str, text: str) -> Tool:
        return FunctionTool(lambda: text, name=name, description=f"Say the {name}.")

    def build(config: ShopConfig) -> list[Tool]:
        return [saying("currency", config.currency)]

    async def connect(config: ShopConfig) -> Tool:
        return saying("account", f"{config.currency} account")

    async def main() -> None:
        coordinator = MockCoordinator()
        mount = amplifier.mount(add, build, Toolset([delete]), connect, config_model=ShopConfig)
        await mount(coordinator, {"currency": "SEK"})
        assert list(coordinator.get("tools")) == ["add", "currency", "delete", "account"]
        assert (await coordinator.get("tools", "currency").execute({})).output == "SEK"
        assert (await coordinator.get("tools", "account").execute({})).output == "SEK account"

    asyncio.run(main())


def test_a_disabled_tool_is_not_mounted_and_does_not_run() -> None:
    """A tool that is switched off by the configuration is left out; one that is switched off later says so."""
    switch = {"on": False}
    settings = ToolSettings(
        is_enabled=lambda context: switch["on"] and context.deps.currency == "EUR"
    )
    lamp = FunctionTool(lambda: "bright", name="lamp", description="Shine.", settings=settings)

    async def main() -> None:
        coordinator = MockCoordinator()
        mount = amplifier.mount(add, lamp, config_model=ShopConfig)
        await mount(coordinator, {})
        assert list(coordinator.get("tools")) == ["add"]
        switch["on"] = True
        await mount(coordinator, {})
        mounted = coordinator.get("tools", "lamp")
        assert (await mounted.execute({})).output == "bright"
        switch["on"] = False
        assert (await mounted.execute({})).error == {
            "message": "The tool 'lamp' is disabled.",
            "type": "ToolDisabledError",
        }

    asyncio.run(main())


def test_a_tool_sees_that_the_session_is_being_cancelled(mounted: Any) -> None:
    """Amplifier hands no token to a tool: the coordinator in the metadata has it, and a graceful stop lets the tool end."""

    @FunctionTool
    def look(context: Context) -> str:
        """Look at the session's cancellation."""
        token = context.metadata["coordinator"].cancellation
        before = token.is_cancelled
        token.request_graceful()
        return f"{before} {token.is_graceful}"

    host = mounted(look)
    assert host.run([("look", {})], [("look", {})]) == ["False True"]
    assert host.answer == "cancelled"


def test_a_text_that_stands_for_a_value_stays_a_text() -> None:
    """What a guardrail shows with `shown_as` is no data, even where it could be read as JSON."""

    def short(result: ToolResult, context: Context) -> ToolResult:
        return result.shown_as("2")

    short.shows = True
    tool = FunctionTool(lambda: [1, 2], name="count", description="d", output_guardrails=[short])
    assert execute(tool).output == "2"


def test_the_dump_of_a_result_is_json() -> None:
    """A host that shows the model the whole result as JSON finds the value as data."""
    dumped = execute(add, {"a": 6}).model_dump(mode="json")
    assert dumped == {"success": True, "output": 7, "error": None}


def test_two_tools_of_one_name_are_refused() -> None:
    """Amplifier would silently keep the second: that is refused when the module is written."""
    with pytest.raises(DefinitionError, match="add"):
        amplifier.mount(add, Toolset([add]))


@pytest.mark.parametrize(
    ("items", "model", "words"),
    [
        ((add, 3), None, "not 3"),
        (([add],), None, "takes tools"),
        ((add,), dict, "pydantic model"),
        ((add,), ShopConfig(), "pydantic model"),
    ],
)
def test_what_cannot_be_mounted_is_refused_at_once(items: Any, model: Any, words: str) -> None:
    """A module written wrongly is refused when it is imported, not when a session loads it."""
    with pytest.raises(DefinitionError, match=words):
        amplifier.mount(*items, config_model=model)


@pytest.mark.parametrize(("made", "words"), [(["no tool"], "not str"), (3, "returned int")])
def test_a_function_that_makes_no_tool_is_told(
    mounted: Any, caplog: Any, made: Any, words: str
) -> None:
    """A plain function in the place of a tool is taken for a builder: that it made none is why the module is not loaded."""
    host = mounted(lambda config: made)
    with caplog.at_level(logging.CRITICAL, "amplifier_core"):
        host.run()
    ((kind, failed),) = host.events
    assert kind == "module:load_failed" and words in failed["error"]


def test_a_missing_description_is_a_demand() -> None:
    """Amplifier's validators want a description: the check says so, and a plain one is made up for the export."""
    bare = FunctionTool(lambda: 1, name="bare", description="")
    assert amplifier.demands(bare) == [
        "Tool.description should be a non-empty string: give the function a docstring, or the tool a description"
    ]
    assert amplifier.demands(add) == []
    assert amplifier.export(bare).description == "The tool bare."


def test_the_validator_of_amplifier_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """ToolValidator finds nothing wrong with a module made by `mount`."""
    module = ModuleType("amplifier_module_tool_valid")
    module.mount = amplifier.mount(add, picture)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    result = asyncio.run(ToolValidator().validate(module.__name__))
    assert (result.passed, result.errors, result.warnings) == (True, [], [])
    assert [check.message for check in result.checks if check.name == "tool_name"] == [
        "Tool has name: 'add'",
        "Tool has name: 'picture'",
    ]


def test_the_published_schema_is_a_copy() -> None:
    """What a host does to `input_schema` does not reach the tool."""
    exported = amplifier.export(add)
    assert exported.input_schema == add.schema.parameters
    exported.input_schema["properties"].clear()
    assert set(add.schema.parameters["properties"]) == {"a", "b"}


class Native:
    name = "native"
    description = "An Amplifier tool."
    input_schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

    async def execute(self, input: dict[str, Any]) -> NativeResult:
        if input["x"] < 0:
            return NativeResult(success=False, error={"message": "negative", "type": "Domain"})
        return NativeResult(output={"twice": input["x"] * 2})


def test_adopt_makes_a_tool_of_theirs() -> None:
    """An Amplifier tool becomes one of ours: schema, checked arguments, value and failure."""
    tool = amplifier.adopt(Native())
    assert tool.schema.parameters["properties"] == {"x": {"type": "integer"}}
    good = call(tool, {"x": 4})
    assert (good.value, good.text) == ({"twice": 8}, '{"twice":8}')
    bad = call(tool, {"x": -1})
    assert (bad.error.type, bad.error.message, bad.text) == ("Domain", "negative", "negative")
    assert call(tool, {"x": "many"}).error.type == "ArgumentError"


def test_adopt_takes_plain_values_and_output_beside_an_error() -> None:
    """A tool of theirs that returns no ToolResult, and one that shows output with its error, lose nothing."""

    class Plain(Native):
        name = "plain"

        async def execute(self, input: dict[str, Any]) -> Any:
            if input["x"]:
                error = {"message": "failed", "code": 2}
                output = {"exit": 2} if input["x"] == 1 else {"since": date(2026, 1, 2)}
                return NativeResult(success=False, output=output, error=error)
            return [1, 2]

    tool = amplifier.adopt(Plain())
    assert call(tool, {"x": 0}).value == [1, 2]
    failed = call(tool, {"x": 1})
    assert (failed.error.type, failed.error.message) == ("ToolError", "failed")
    assert (failed.text, failed.error.details) == ('failed\n{"exit": 2}', {"code": 2})
    assert call(tool, {"x": 2}).text == 'failed\n{"since":"2026-01-02"}'


def test_adopt_keeps_the_content_of_a_failure() -> None:
    """A picture of what went wrong is shown beside the error."""
    picture = amplifier_core.ImageBlock(
        source={"type": "base64", "media_type": "image/png", "data": "MQ=="}
    )

    class Failing(Native):
        async def execute(self, input: dict[str, Any]) -> Any:
            error = {"message": "failed"}
            return NativeResult(success=False, error=error, content=[picture])

    failed = call(amplifier.adopt(Failing()), {"x": 1})
    assert failed.error.message == "failed"
    assert failed.output[-1] == ImageContent(data=b"1", media_type="image/png")


def test_adopt_takes_amplifiers_own_mock_tool() -> None:
    """Any object with Amplifier's attributes is adopted."""
    assert call(amplifier.adopt(MockTool("mocked", output="yes"))).value == "yes"


@pytest.mark.parametrize("other", [object(), Native])
def test_adopt_refuses_what_is_no_tool(other: Any) -> None:
    """What lacks one of Amplifier's attributes, or is a class, is refused by name."""
    with pytest.raises(DefinitionError, match="needs a name"):
        amplifier.adopt(other)


def test_export_of_adopted_and_back_keeps_the_tool() -> None:
    """Once round keeps name, description, schema, value and failure."""
    tool = amplifier.adopt(Native())
    there = amplifier.export(tool)
    assert (there.name, there.description) == (Native.name, Native.description)
    assert there.input_schema == Native.input_schema
    assert execute(tool, {"x": 1}).output == {"twice": 2}
    assert execute(tool, {"x": -1}).error == {"message": "negative", "type": "Domain"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return amplifier_template.scaffold("pet-shop", tmp_path_factory.mktemp("modules"))


def test_the_new_package_passes_amplifiers_validator(package: Path) -> None:
    """`amplifier-core validate tool PATH` accepts what `functool new amplifier` writes."""
    program = Path(sys.executable).parent / "amplifier-core"
    command = [program, "validate", "tool", package / "amplifier_module_tool_pet_shop"]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # Killed by a signal at its own exit, as its runtime now and then is, the validator has no verdict.
        if done.returncode >= 0:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout


def test_the_new_package_passes_amplifiers_own_tests(package: Path) -> None:
    """The behavioural and structural tests that amplifier-core ships pass, unchanged, with warnings as errors."""
    command = [sys.executable, *"-m pytest -q -W error -p no:cacheprovider".split(), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=package)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout


def installed(folder: Path, name: str, version: str, points: dict[str, str]) -> None:
    """Put the metadata of a package with entry points for Amplifier into a folder."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{key} = {value}" for key, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[amplifier.modules]", *lines]))


def test_the_new_package_is_found_by_its_entry_point(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed, the module is discovered and mounted by the real loader through the group `amplifier.modules`."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["amplifier.modules"]
    installed(package, project["name"], project["version"], points)
    monkeypatch.syspath_prepend(str(package))

    async def main() -> None:
        coordinator = MockCoordinator()
        loader = ModuleLoader(coordinator=coordinator)
        found = [each for each in await loader.discover() if each.id == "tool-pet-shop"]
        assert [(each.id, each.type) for each in found] == [("tool-pet-shop", "tool")]
        mount = await loader.load("tool-pet-shop", {"greeting": "Ahoi"})
        await mount(coordinator)
        result = await coordinator.get("tools", "pet_shop_tool").execute({"name": "Bo"})
        assert result.output == "Ahoi, Bo!"

    asyncio.run(main())


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of examples/amplifier_modules.py, installed: their entry points are on the import path."""
    points = {
        f"tool-{name}": f"examples.amplifier_modules:mount_{name}" for name in ("files", "shell")
    }
    installed(tmp_path / "packages", "amplifier-modules", "1", points)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap (a Debian package)")
def test_the_bundled_tools_are_modules_with_a_configuration(
    modules: None, tmp_path: Path, mounted: Any
) -> None:
    """A session mounts the bundled file and shell tools by entry point, each with its configuration and approvals."""
    work = tmp_path / "work"
    work.mkdir()
    approvals = Approvals("Allow")
    host = mounted(approvals=approvals)
    plan = [
        {"module": "tool-files", "config": {"roots": [str(work)], "max_bytes": 100}},
        {"module": "tool-shell", "config": {"workdir": str(work)}},
    ]
    calls = [
        ("write_file", {"path": "a.txt", "content": "hello"}),
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("write_file", {"path": "b.txt", "content": "x" * 101}),
        ("shell", {"command": "wc -c < a.txt"}),
    ]
    read = host.run(*[[call] for call in calls], tools=plan)
    assert read[1] == "hello" and (work / "a.txt").read_text() == "hello"
    assert "outside" in read[2] and host.results[2].error["type"] == "PathNotAllowed"
    assert host.results[3].success is False and not (work / "b.txt").exists()
    assert read[4].split() == ["5"]
    assert len(approvals.asked) == 1 and "wc -c" in approvals.asked[0][0]


def test_a_bundled_module_with_a_bad_configuration_is_not_loaded(
    modules: None, tmp_path: Path, mounted: Any, caplog: Any
) -> None:
    """A directory that does not exist, and an unknown key, cost that module only, and the session says why."""
    host = mounted()
    plan = [
        {"module": "tool-files", "config": {"roots": [str(tmp_path)], "color": 1}},
        {"module": "tool-files", "config": {"roots": [str(tmp_path / "nowhere")]}},
        {"module": "tool-files", "config": {"roots": [str(tmp_path)], "read_only": True}},
    ]
    with caplog.at_level(logging.CRITICAL, "amplifier_core"):
        turns = [("write_file", {"path": "a", "content": "b"})], [("list_files", {})]
        read = host.run(*turns, tools=plan)
    assert read[0] == "Error: Tool 'write_file' not found"
    errors = [data["error"] for kind, data in host.events if kind == "module:load_failed"]
    assert len(errors) == 2 and "color" in errors[0] and "nowhere" in errors[1]
    assert host.results[-1].success


@pytest.mark.parametrize("name", ["", "Pets", "-x", "x-", "a--b", "../x", "9lives", "x" * 51])
def test_a_bad_module_name_is_refused(name: str, tmp_path: Path) -> None:
    """A name that is no module's name is refused before anything is written."""
    with pytest.raises(DefinitionError, match="small letters"):
        amplifier_template.scaffold(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_underscores_in_a_module_name_are_hyphens(tmp_path: Path) -> None:
    """Amplifier's names have hyphens: an underscore is taken for one."""
    root = amplifier_template.scaffold("pet_shop", tmp_path)
    assert root.name == "amplifier-module-tool-pet-shop"
    assert (root / "amplifier_module_tool_pet_shop" / "__init__.py").is_file()


def test_scaffold_never_overwrites(tmp_path: Path) -> None:
    """A folder that exists is left alone."""
    root = amplifier_template.scaffold("x", tmp_path)
    (root / "README.md").write_text("mine")
    with pytest.raises(FileExistsError):
        amplifier_template.scaffold("x", tmp_path)
    assert (root / "README.md").read_text() == "mine"
