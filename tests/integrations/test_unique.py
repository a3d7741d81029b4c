"""functool tools in Unique: the real ToolFactory, ToolBuildConfig, ToolManager, HistoryManager and progress reporter."""

import asyncio
import base64
import logging
import re
import sys
import warnings
from importlib.metadata import requires
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

if sys.version_info < (3, 12):
    pytest.skip("unique-toolkit needs Python 3.12", allow_module_level=True)
pytest.importorskip("unique_toolkit")

from PIL import Image
from pydantic import BaseModel, Field
from unique_toolkit._common.token.image_token_counting import calculate_image_tokens_from_base64
from unique_toolkit.agentic.reference_manager.reference_manager import ReferenceManager
from unique_toolkit.agentic.tools.a2a import A2AManager
from unique_toolkit.agentic.tools.a2a.response_watcher import SubAgentResponseWatcher
from unique_toolkit.agentic.tools.config import (
    ToolBuildConfig,
    ToolIcon,
    ToolSelectionPolicy,
    collect_tool_configuration_errors,
)
from unique_toolkit.agentic.tools.factory import ToolFactory
from unique_toolkit.agentic.tools.mcp.manager import MCPManager
from unique_toolkit.agentic.tools.schemas import BaseToolConfig, ToolCallResponse
from unique_toolkit.agentic.tools.tool import Tool as NativeTool
from unique_toolkit.agentic.tools.tool_manager import ToolManager, ToolManagerConfig
from unique_toolkit.agentic.tools.tool_progress_reporter import ToolProgressReporter
from unique_toolkit.content.schemas import ContentChunk
from unique_toolkit.language_model.infos import LanguageModelInfo
from unique_toolkit.language_model.schemas import (
    LanguageModelAssistantMessage,
    LanguageModelFunction,
    LanguageModelToolDescription,
)
from unique_toolkit.test_utilities.events import TestEventFactory as EventFactory

from functool import (
    ApprovalRequest,
    AudioContent,
    Context,
    DefinitionError,
    FunctionTool,
    ImageContent,
    ToolPrompts,
    ToolResult,
    ToolSettings,
    WrapperTool,
)
from functool.factory import BaseToolConfig as OurConfig
from functool.guardrails import budget, rate_limit, redact, require_approval
from functool.integrations import unique
from functool.layers.passing import is_passing
from functool.layers.spill import Spill
from tests.integrations.odd_tools import (
    HUGE,
    ODD_TOOLS,
    PNG,
    add,
    cleaned_up_when_cancelled,
    delete,
    ran,
)
from tests.support import call

with warnings.catch_warnings():
    # A model of the toolkit's own is written for an older pydantic.
    warnings.simplefilter("ignore")
    from unique_toolkit.agentic.history_manager.history_manager import (
        HistoryManager,
        HistoryManagerConfig,
    )

# Their tools make services of their own that they call deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:unique_toolkit")

logger = logging.getLogger("test")

ENCODED = base64.b64encode(PNG).decode()
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
BMP = base64.b64decode(
    "Qk06AAAAAAAAADYAAAAoAAAAAQAAAAEAAAABABgAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
)
"""One black pixel, in a format that no model takes."""


def noise() -> bytes:
    """A picture that is too large for its head and its first pixels to be all of it."""
    file = BytesIO()
    Image.effect_noise((64, 64), 50).save(file, "PNG")
    return file.getvalue()


def wide() -> bytes:
    """A picture of few bytes that is wider than a provider takes."""
    file = BytesIO()
    Image.new("1", (8_001, 1)).save(file, "PNG")
    return file.getvalue()


WIDE = wide()


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has registries of its own: theirs are global."""
    monkeypatch.setattr(ToolFactory, "tool_map", {})
    monkeypatch.setattr(ToolFactory, "tool_config_map", {})


class Model(LanguageModelInfo):
    """A model whose tokens are bytes: the real tables are downloaded."""

    def get_encoder(self) -> Any:
        return lambda text: list(text.encode())


class Chat:
    """Stands where the platform's HTTP service is: records what would be shown in the chat."""

    def __init__(self, fails: bool = False) -> None:
        self.shown: list[str] = []
        self.fails = fails

    async def modify_assistant_message_async(self, content: str, references: list[Any]) -> None:
        if self.fails:
            raise ConnectionError("no platform")
        self.shown.append(content.strip())


class Host:
    """A real ToolManager made from a plan of ToolBuildConfigs, as an agent of theirs makes it."""

    def __init__(
        self,
        plan: list[dict[str, Any]],
        *,
        chat: Chat | None = None,
        choices: list[str] | None = None,
        disabled: list[str] | None = None,
        services: bool = False,
    ) -> None:
        self.event = EventFactory().get_chat_event(
            name="test", description="test", user_message_text="hi"
        )
        self.event.payload.tool_choices = choices or []
        self.event.payload.disabled_tools = disabled or []
        self.chat = chat or Chat()
        self.builds = [ToolBuildConfig.model_validate(entry) for entry in plan]
        reporter = ToolProgressReporter(self.chat)  # type: ignore[arg-type]
        both: dict[str, Any] = {
            "chat_service": self.chat,
            "language_model_service": SimpleNamespace(),
        }
        self.manager = ToolManager(
            logger=logger,
            config=ToolManagerConfig(tools=self.builds),
            event=self.event,
            tool_progress_reporter=reporter,
            mcp_manager=MCPManager([], self.event, reporter),
            a2a_manager=A2AManager(logger, reporter, SubAgentResponseWatcher()),
            **(both if services else {}),
        )

    def run(self, *calls: tuple[str, Any]) -> list[ToolCallResponse]:
        made = [
            LanguageModelFunction(id=f"call-{n}", name=name, arguments=arguments)
            for n, (name, arguments) in enumerate(calls)
        ]
        return asyncio.run(self.manager.execute_selected_tools(made))

    def names(self) -> list[str]:
        return [tool.name for tool in self.manager.get_tools()]

    def answer(self, name: str, **arguments: Any) -> ToolCallResponse:
        """Make one call."""
        (response,) = self.run((name, arguments))
        return response

    def read(self, response: ToolCallResponse) -> str:
        """What the model reads, by their own HistoryManager."""
        info = LanguageModelInfo.from_name("AZURE_GPT_4o_2024_1120").model_dump()
        history = HistoryManager(
            logger,
            self.event,
            HistoryManagerConfig(),
            Model.model_validate(info),
            ReferenceManager(),
        )
        calls = [LanguageModelFunction(id=response.id, name=response.name)]
        history.add_assistant_message(
            LanguageModelAssistantMessage.from_functions(tool_calls=calls)
        )
        history.add_tool_call_results([response])
        (message,) = history.extract_message_tools()
        return message.response.content


def planned(name: str, /, **configuration: Any) -> dict[str, Any]:
    """One entry of a plan."""
    return {"name": name, "configuration": configuration}


def host_of(*tools: Any, **options: Any) -> Host:
    for tool in tools:
        unique.export(tool)
    return Host([planned(tool.name) for tool in tools], **options)


@pytest.fixture
def host() -> Host:
    return host_of(*ODD_TOOLS)


def test_it_excludes_the_openai_that_openai_agents_needs() -> None:
    """The README says that the two extras cannot be installed together: their versions of openai differ."""
    needed = [line for line in requires("unique-toolkit") or () if re.match("openai[<>=]", line)]

    assert needed[0] == "openai>=1.105.0,<3"


def test_export_is_a_registered_subclass_of_their_tool() -> None:
    """The class is a real Tool, known to their factory together with a real configuration class."""
    made = unique.export(add)
    assert issubclass(made, NativeTool)
    assert ToolFactory.tool_map == {"add": made}
    assert issubclass(ToolFactory.tool_config_map["add"], BaseToolConfig)
    built = ToolFactory.build_tool("add", ToolFactory.build_tool_config("add"))
    assert isinstance(built, made) and built.name == "add"


def test_the_manager_runs_the_tool_and_keeps_the_ids(host: Host) -> None:
    """Several calls at once each get their own answer, under their own id."""
    responses = host.run(("add", {"a": 2, "b": 3}), ("add", {"a": 5}), ("echo", {"value": "deep"}))
    assert [(r.id, r.name, r.content, r.successful) for r in responses] == [
        ("call-0", "add", "5", True),
        ("call-1", "add", "6", True),
        ("call-2", "echo", '{"a":["é"]}', True),
    ]
    added = {"execution_time_s", "is_exclusive", "is_forced"}
    assert [set(r.debug_info or {}) for r in responses] == [added] * 3


def test_arguments_may_be_json_text_or_missing(host: Host) -> None:
    """Their call parses JSON text; None means no arguments."""
    text, nothing, wrong = host.run(("add", '{"a": 2}'), ("picture", None), ("add", None))
    assert text.content == "3"
    assert nothing.successful
    assert wrong.error_message.startswith("Invalid arguments") and "a" in wrong.error_message


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("none", "(no output)"),
        ("zero", "0"),
        ("no", "false"),
        ("list", "[]"),
        ("dict", "{}"),
        ("", "(no output)"),
    ],
)
def test_a_falsy_result_is_not_read_as_no_sources(host: Host, value: str, read: str) -> None:
    """Their history says "No relevant sources found." for an empty content: a falsy result says what it is."""
    assert host.read(host.answer("echo", value=value)) == read


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("add", {}, "Invalid arguments. a"),
        ("add", {"a": None}, "Invalid arguments. a"),
        ("add", {"a": 1, "c": 2}, "Invalid arguments. c"),
        ("boom", {}, "ZeroDivisionError: broken"),
        ("refused", {}, "Not on a Sunday."),
        ("delete", {"path": "a.txt"}, "delete"),
    ],
)
def test_failures_are_error_messages(host: Host, name: str, arguments: Any, words: str) -> None:
    """Bad arguments, a raising body, a refusal and a missing approval become `error_message`; no guarded body runs."""
    ran.clear()
    (response,) = host.run((name, arguments))
    assert (response.successful, response.content) == (False, "")
    assert words in response.error_message
    told = f"Tool call {name} failed with error: {response.error_message}"
    assert host.read(response) == told
    assert ran == []


def test_a_tripwire_is_an_error_of_that_call(host: Host) -> None:
    """Their manager keeps every exception to its own call and has no way to stop a run: the model reads the message."""
    stopped, fine = host.run(("stopped", {}), ("add", {"a": 1}))
    assert (stopped.error_message, fine.content) == ("Stop everything.", "2")


def test_a_huge_result_arrives_whole(host: Host) -> None:
    """Two million characters are handed over as they are."""
    assert host.answer("huge").content == HUGE


def test_an_image_is_a_data_url(host: Host) -> None:
    """A picture travels as a data URL, and the text beside it stays."""
    response = host.answer("picture")
    assert response.content == "A dot:"
    assert response.image_data_urls == [f"data:image/png;base64,{ENCODED}"]


def test_links_sounds_and_images_alone() -> None:
    """An image that is a data URL travels as it is; a link and a sound are named in the text; an image alone has its name as text."""
    url = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    images = [ImageContent(uri=url), ImageContent(uri="https://x.org/a.png")]
    both = FunctionTool(lambda: [*images, AudioContent(data=b"la")], name="both")
    alone = FunctionTool(lambda: ImageContent(data=PNG), name="alone")
    first, second = host_of(both, alone).run(("both", {}), ("alone", {}))
    assert first.image_data_urls == [url]
    assert first.content == "[image/png: https://x.org/a.png]\n[audio/wav: 2 bytes]"
    assert second.content == f"[image/png: {len(PNG)} bytes]" and len(second.image_data_urls) == 1


@pytest.mark.parametrize(
    ("image", "text"),
    [
        (ImageContent(data=SVG, media_type="image/svg+xml"), "[image/svg+xml: 41 bytes]"),
        (ImageContent(data=b"broken"), "[image/png: 6 bytes]"),
        (ImageContent(data=b""), "[image/png: 0 bytes]"),
        (ImageContent(data=noise()[:2_000]), "[image/png: 2000 bytes]"),
        (ImageContent(data=WIDE), f"[image/png: {len(WIDE)} bytes]"),
        (ImageContent(data=BMP, media_type="image/bmp"), f"[image/bmp: {len(BMP)} bytes]"),
        (ImageContent(uri="data:image/svg+xml;base64,PHN2Zy8+"), "[image/svg+xml: 6 bytes]"),
        (ImageContent(uri="data:image/svg+xml,<svg/>"), "[image: a data URL that cannot be read]"),
        (ImageContent(uri="data:image/png;base64,?"), "[image: a data URL that cannot be read]"),
        (ImageContent(uri="data:image/png;base64,"), "[image/png: 0 bytes]"),
    ],
)
def test_an_image_that_cannot_be_shown_is_named_in_the_text(image: ImageContent, text: str) -> None:
    """What their token counter or a model would stop at becomes text, and the image beside it is sent."""
    both = FunctionTool(lambda: [image, ImageContent(data=PNG)], name="both")
    alone = FunctionTool(lambda: image, name="alone")
    first, second = host_of(both, alone).run(("both", {}), ("alone", {}))
    assert (first.content, second.content) == (text, text)
    assert (len(first.image_data_urls), second.image_data_urls) == (1, [])
    for url in first.image_data_urls:
        assert calculate_image_tokens_from_base64(url) == 255


def test_an_image_has_the_media_type_of_its_bytes(host: Host) -> None:
    """An image that says it is another kind, or adds words to its kind, is sent as what it is."""
    wrong = [
        ImageContent(data=PNG, media_type="image/svg+xml"),
        ImageContent(data=PNG, media_type="image/png; charset=binary"),
        ImageContent(uri=f"data:image/x-png;base64,{ENCODED}"),
    ]
    response = host_of(FunctionTool(lambda: wrong, name="wrong")).answer("wrong")
    assert response.image_data_urls == [f"data:image/png;base64,{ENCODED}"] * 3


def test_a_registered_name_is_refused() -> None:
    """Another tool of one name is refused, also where only its configuration is known, and the first one stays."""
    unique.export(add)
    first = unique.export(add, ShopConfig)  # The same tool again, with a configuration.
    other = FunctionTool(lambda: "other", name="add")
    with pytest.raises(DefinitionError, match="has another tool of that name.*WrapperTool"):
        unique.export(other)
    assert ToolFactory.tool_map["add"] is first
    ToolFactory.register_tool_config("price", BaseToolConfig)
    with pytest.raises(DefinitionError, match="has another tool of that name"):
        unique.export(FunctionTool(lambda: 1, name="price"))
    assert unique.export(WrapperTool(other, name="add_2")).name == "add_2"


def test_debug_info_is_the_metadata() -> None:
    """What a result says to the host is in `debug_info`, as JSON, beside what the manager adds; the model reads none of it."""

    @FunctionTool
    def look() -> ToolResult:
        """Look."""
        return ToolResult.of("seen", metadata={"took": 3, "who": {"a"}, "raw": object, "note": "x"})

    response = host_of(look).answer("look")
    info = response.debug_info or {}
    assert (info["took"], info["who"], info["note"], response.content) == (3, ["a"], "x", "seen")
    assert isinstance(info["raw"], str)
    response.model_dump_json()


def test_a_pending_approval_is_in_debug_info(host: Host) -> None:
    """The request for approval reaches the host as JSON."""
    response = host.answer("delete", path="a.txt")
    assert response.debug_info["approval"]["tool"] == "delete"
    assert response.debug_info["approval"]["arguments"] == {"path": "a.txt"}


def test_no_later_approval_reaches_a_call() -> None:
    """A context says that its host forgets it, so a program of code mode does not wait in vain."""

    @FunctionTool
    def kept(context: Context) -> bool:
        """Say whether the host keeps the context."""
        return not is_passing(context)

    assert host_of(kept).answer("kept").content == "false"


class ShopConfig(BaseToolConfig):
    currency: str = "EUR"
    max_items: int = Field(default=3, ge=1)


@FunctionTool(
    settings=ToolSettings(display_name="Shop", icon="IconWorld"),
    prompts=ToolPrompts(
        system="S", system_format="SF", user="U", user_format="UF", user_reminder="R"
    ),
)
def price(item: str, context: Context[ShopConfig]) -> str:
    """Tell a price."""
    return f"{item}: 3 {context.deps.currency}, at most {context.deps.max_items}"


def test_the_configuration_is_the_deps() -> None:
    """Inside the function `context.deps` is the checked configuration of the plan, in their camelCase too."""
    unique.export(price, ShopConfig)
    host = Host([planned("price", currency="CHF", maxItems=5)])
    assert isinstance(host.builds[0].configuration, ShopConfig)
    assert host.answer("price", item="tea").content == "tea: 3 CHF, at most 5"


def test_the_calls_of_one_manager_share_their_state() -> None:
    """What calls remember lives as long as the tool of one manager: a rate limit holds for its run, and not for the next."""
    limit = rate_limit(2, 3600, per="context")
    unique.export(FunctionTool(lambda: "in", name="door", input_guardrails=[limit]))
    host, next_host = (Host([planned("door")]) for _ in range(2))
    assert [answer.content for answer in host.run(*[("door", {})] * 3)] == ["in", "in", ""]
    told = "Too many calls: at most 2 in 3600 seconds."
    assert host.answer("door").error_message.startswith(told)
    assert next_host.answer("door").content == "in"


def test_the_tools_of_one_manager_share_their_state() -> None:
    """A budget of two tools counts the calls of both, and one tool reads the long result that another left behind."""
    both, spill = budget(calls=3), Spill(limit=100)
    doors = [FunctionTool(lambda: "in", name=name, input_guardrails=[both]) for name in "ab"]
    long = FunctionTool(lambda: "x" * 1000, name="long", output_guardrails=[spill.guardrail])
    host = host_of(*doors, long, *spill.tools.values())
    answers = host.run(*[("a", {})] * 2, *[("b", {})] * 2)
    assert sorted(answer.content for answer in answers) == ["", "in", "in", "in"]
    handle = re.findall(r"kept as ([^:]+):", host.answer("long").content)[0]
    assert host.answer("read_result", handle=handle).content.startswith("x")
    other = Host([planned("a"), planned("read_result")])
    assert other.answer("a").content == "in"
    assert "No result is kept" in other.answer("read_result", handle=handle).error_message


def test_a_reporter_of_the_hosts_own_shares_nothing() -> None:
    """Without one of their reporters each tool has a state of its own."""
    limit = rate_limit(1, 3600, per="context")
    made = unique.export(FunctionTool(lambda: "in", name="door", input_guardrails=[limit]))
    for reporter in (None, SimpleNamespace()):
        tool: Any = made(BaseToolConfig(), None, reporter)
        answer = asyncio.run(tool.run(LanguageModelFunction(id="1", name="door")))
        assert answer.content == "in"


def test_each_manager_has_an_approver_of_its_own() -> None:
    """What a person allows for next time holds for the run of one manager, and not for the next."""
    asked: list[object] = []

    class Remembers:
        """Ask once, and remember it."""

        def __init__(self) -> None:
            self.agreed = False

        def __call__(self, request: ApprovalRequest) -> bool:
            asked.append(self if not self.agreed else None)
            self.agreed = True
            return True

        def fresh(self) -> "Remembers":
            return Remembers()

    door = FunctionTool(lambda: "in", name="door", input_guardrails=[require_approval()])
    unique.export(door, approver=Remembers())
    hosts = [Host([planned("door")]) for _ in range(2)]
    for host in (*hosts, *hosts):
        assert host.answer("door").content == "in"

    assert [each is None for each in asked] == [False, False, True, True]
    assert asked[0] is not asked[1]


def test_a_bad_configuration_disables_the_tool_and_is_collected() -> None:
    """A plan with bad values does not crash the host: the tool is left out, and their helper names it."""
    unique.export(price, ShopConfig)
    host = Host([planned("price", maxItems=0)])
    assert host.names() == []
    errors = collect_tool_configuration_errors(host.builds)
    assert errors == ["Tool 'price' has invalid configuration."]


def test_any_pydantic_model_may_be_the_configuration() -> None:
    """A model that is not theirs, functool's own BaseToolConfig among them, becomes one that is both."""

    class Own(OurConfig):
        """Own."""

        max_items: int = Field(default=2, description="At most.")
        currency: str = "SEK"

    unique.export(price, Own)
    config = ToolFactory.build_tool_config("price", maxItems=7)
    assert isinstance(config, Own) and isinstance(config, BaseToolConfig)
    assert config.max_items == 7
    schema = ToolFactory.tool_config_map["price"].model_json_schema()
    assert schema["properties"]["maxItems"]["description"] == "At most."
    told = Host([planned("price")]).answer("price", item="tea").content
    assert told == "tea: 3 SEK, at most 2"


class _Wrong(BaseModel):
    mcp_source_id: str = ""


@pytest.mark.parametrize(
    ("tool", "config", "policy", "words"),
    [
        (WrapperTool(add, name="a.b"), None, None, "pattern"),
        (WrapperTool(add, name="code_interpreter"), None, None, "built-in"),
        (add, dict, None, "BaseToolConfig"),
        (add, _Wrong, None, "mcp_source_id"),
        (add, None, "Sometimes", "ForcedByDefault, OnByDefault, ByUser"),
    ],
)
def test_what_unique_would_refuse_is_refused_at_export(
    tool: Any, config: Any, policy: Any, words: str
) -> None:
    """A name, a configuration or a policy that they would refuse or drop is a DefinitionError that names the rule."""
    with pytest.raises(DefinitionError, match=words):
        unique.export(tool, config, selection_policy=policy)
    assert ToolFactory.tool_map == {}


def test_every_broken_rule_is_in_one_error() -> None:
    """The error names everything that is wrong, and `demands` what concerns the tool alone."""
    bad = WrapperTool(add, name="a.b")
    with pytest.raises(DefinitionError, match="(?s)pattern.*BaseToolConfig.*ForcedByDefault"):
        unique.export(bad, dict, selection_policy="never")  # type: ignore[arg-type]
    assert len(unique.demands(bad)) == 1 and unique.demands(add) == []


def test_the_description_is_what_the_model_is_sent() -> None:
    """Name, description, schema and strict reach the OpenAI form; the schema is a copy each time."""
    built = unique.export(add)(ToolFactory.build_tool_config("add"))
    described = built.tool_description()
    sent: Any = described.to_openai()["function"]
    assert (sent["name"], sent["description"], sent["strict"]) == ("add", "Add two numbers.", False)
    assert sent["parameters"] == add.schema.parameters
    described.parameters["properties"].clear()  # type: ignore[union-attr]
    assert set(built.tool_description_as_json()["properties"]) == {"a", "b"}


def test_a_strict_tool_stays_strict() -> None:
    """A strict tool is published in its strict form, and its encoded arguments are understood."""

    @FunctionTool(strict=True)
    def count(words: dict[str, int], start: int = 1) -> int:
        """Count."""
        return start + sum(words.values())

    host = host_of(count)
    (described,) = host.manager.get_tool_definitions()
    assert described.strict is True and described.parameters == count.schema.parameters
    response = host.answer("count", words=[{"key": "a", "value": 4}], start=None)
    assert response.content == "5"


def test_prompts_reach_get_tool_prompts() -> None:
    """What ToolPrompts says is in their `get_tool_prompts` and their prompt methods."""
    unique.export(price, ShopConfig)
    host = Host([planned("price")])
    (prompts,) = host.manager.get_tool_prompts()
    assert (prompts.name, prompts.display_name) == ("price", "Shop")
    assert prompts.tool_description == "Tell a price."
    assert prompts.tool_system_prompt == "S"
    assert prompts.tool_format_information_for_system_prompt == "SF"
    assert prompts.tool_user_prompt == "U"
    assert prompts.tool_format_information_for_user_prompt == "UF"
    assert prompts.tool_system_reminder_for_user_prompt == "R"
    assert prompts.input_model == price.schema.parameters
    (tool,) = host.manager.get_tools()
    assert tool.tool_format_reminder_for_user_prompt() == "R"


def test_the_plan_goes_before_the_tools_own_settings() -> None:
    """Display name, icon and policy come from the plan, else from the tool, else from Unique."""
    unique.export(price, ShopConfig, selection_policy="OnByDefault")
    unique.export(add)
    plan = {"displayName": "Prices", "icon": "IconBook", "selectionPolicy": "ForcedByDefault"}

    def shown(entry: dict[str, Any]) -> tuple[Any, ...]:
        (tool,) = Host([entry]).manager.get_tools()
        return tool.display_name(), tool.icon(), tool.selection_policy()

    policy = ToolSelectionPolicy
    assert shown(planned("price")) == ("Shop", ToolIcon.WORLD, policy.ON_BY_DEFAULT)
    assert shown(planned("price") | plan) == ("Prices", ToolIcon.BOOK, policy.FORCED_BY_DEFAULT)
    assert shown(planned("add")) == ("add", ToolIcon.BOOK, policy.BY_USER)


def named(name: str, **settings: Any) -> FunctionTool[..., Any]:
    return FunctionTool(
        lambda: name, name=name, description=name, settings=ToolSettings(**settings)
    )


def test_an_exclusive_tool_is_offered_alone_and_only_when_chosen() -> None:
    """Their manager leaves an exclusive tool out until the user chooses it, and then offers nothing else."""
    tools = [named("alone", is_exclusive=True), named("other")]
    assert host_of(*tools).names() == ["other"]
    assert host_of(*tools, choices=["alone"]).names() == ["alone"]


def test_a_disabled_tool_is_not_offered() -> None:
    """A tool switched off by its author, by a function of the configuration, by the plan or the event is left out."""
    asked: list[Any] = []

    def only_chf(context: Context[ShopConfig]) -> bool:
        asked.append(context.deps)
        return context.deps.currency == "CHF"

    for tool in (named("off", is_enabled=False), named("on"), named("chosen")):
        unique.export(tool)
    unique.export(named("maybe", is_enabled=only_chf), ShopConfig)
    unique.export(named("broken", is_enabled=lambda context: context.deps.nothing))
    plan = [planned(name) for name in ("off", "on", "maybe", "chosen", "broken")]
    assert Host(plan, disabled=["chosen"]).names() == ["on"]
    plan[2]["configuration"] = {"currency": "CHF"}
    plan[1]["isEnabled"] = False
    assert Host(plan).names() == ["maybe", "chosen"]
    assert isinstance(asked[0], ShopConfig)


def test_a_tool_that_is_switched_off_later_does_not_run() -> None:
    """Their manager asks once whether a tool is on; a call of it asks again."""
    is_on = True
    tool = named("shut", is_enabled=lambda context: is_on)
    host = host_of(tool)
    assert host.run(("shut", {}))[0].content == "shut"
    is_on = False
    refused = host.run(("shut", {}))[0]
    assert (refused.content, refused.error_message) == ("", "The tool 'shut' is disabled.")


def test_a_tool_that_takes_control_runs_alone() -> None:
    """Called beside another, neither runs and both are told why; alone it runs."""
    host = host_of(named("deep", takes_control=True), named("other"))
    assert all(r.content.startswith("ERROR:") for r in host.run(("deep", {}), ("other", {})))
    assert host.answer("deep").content == "deep"
    assert host.manager.does_a_tool_take_control([LanguageModelFunction(name="deep")]) is True


@FunctionTool(settings=ToolSettings(display_name="Baker"))
async def bake(fail: bool, context: Context) -> str:
    """Bake."""
    context.progress("mixing")
    context.progress("in the oven", done=1, total=2)
    if fail:
        raise ValueError("burnt")
    return "cake"


def test_progress_reaches_their_reporter() -> None:
    """Each progress is shown while the tool runs, and the last one ends as finished."""
    host = host_of(bake)
    assert host.answer("bake", fail=False).content == "cake"
    assert [
        (shown.split("**")[1], shown.split()[-2:], "🟡" in shown) for shown in host.chat.shown
    ] == [
        ("Baker", ["🟡:", "mixing"], True),
        ("Baker", ["oven", "(1/2)"], True),
        ("Baker", ["oven", "(1/2)"], False),
    ]
    assert "🟢" in host.chat.shown[-1]


def test_progress_of_a_failed_call_ends_as_failed() -> None:
    """A call that reported and then failed is shown as failed, with the reason."""
    host = host_of(bake)
    assert host.answer("bake", fail=True).error_message == "ValueError: burnt"
    assert "🔴" in host.chat.shown[-1] and "ValueError: burnt" in host.chat.shown[-1]


def test_a_tool_that_reports_nothing_shows_nothing(host: Host) -> None:
    """Without progress the chat is left alone."""
    host.answer("add", a=1)
    assert host.chat.shown == []


def test_a_broken_reporter_costs_nothing_but_its_messages() -> None:
    """When the platform cannot be reached, the call still has its result."""
    host = host_of(bake, chat=Chat(fails=True))
    assert host.answer("bake", fail=False).content == "cake"


def test_progress_without_a_total_and_without_a_reporter() -> None:
    """A count without a total is shown as a count; without a manager there is nobody to show it to."""

    @FunctionTool
    async def count(context: Context) -> str:
        """Count."""
        context.progress("pages", done=3)
        context.emit("count:done")
        return "counted"

    host = host_of(count)
    assert host.answer("count").content == "counted"
    assert host.chat.shown[0].endswith("pages (3)") and len(host.chat.shown) == 2
    bare = unique.export(count)(ToolFactory.build_tool_config("count"))
    assert asyncio.run(bare.run(LanguageModelFunction(name="count"))).content == "counted"


def test_progress_of_a_generator_is_shown() -> None:
    """Each value that a generator yields is shown."""

    @FunctionTool
    def steps() -> Any:
        """Step."""
        yield "one"
        yield {"n": 2}

    host = host_of(steps)
    assert host.answer("steps").content == '{"n":2}'
    assert [shown.split(": ", 1)[1] for shown in host.chat.shown[:2]] == ["one", '{"n":2}']


def test_a_yield_that_no_guardrail_has_seen_is_not_shown() -> None:
    """What a generator yields may be its result: the reporter gets no text of a tool with output guardrails."""

    @FunctionTool(output_guardrails=[redact([r"sk-\w+"])])
    def secret(context: Context) -> Any:
        """Yield a secret."""
        context.progress("looking")
        yield "key: sk-abc"

    host = host_of(secret)
    assert host.answer("secret").content == "key: [redacted]"
    assert "looking" in host.chat.shown[0]
    assert not any("sk-abc" in shown for shown in host.chat.shown)


def test_injected_services_are_accepted() -> None:
    """Their manager may hand over its services; the tool runs all the same, and without any event too."""
    assert host_of(add, services=True).answer("add", a=1).content == "2"
    bare = unique.export(add)(ToolFactory.build_tool_config("add"))
    response = asyncio.run(bare.run(LanguageModelFunction(id="x", name="add", arguments={"a": 4})))
    assert (response.id, response.content) == ("x", "5")


class NativeSearch(NativeTool[ShopConfig]):
    name = "native_search"

    def tool_description(self) -> LanguageModelToolDescription:
        class Arguments(BaseModel):
            query: str

        return LanguageModelToolDescription(
            name=self.name, description="Search.", parameters=Arguments
        )

    def tool_description_for_system_prompt(self) -> str:
        return "Search first."

    def takes_control(self) -> bool:
        return True

    def evaluation_check_list(self) -> list[Any]:
        return []

    def get_evaluation_checks_based_on_tool_response(
        self, tool_response: ToolCallResponse
    ) -> list[Any]:
        return []

    async def run(self, tool_call: LanguageModelFunction) -> ToolCallResponse:
        query = (tool_call.arguments or {})["query"]
        fields: dict[str, Any] = {
            "content": f"{self.config.currency} {query} {tool_call.id}",
            "debug_info": {"n": 1},
            "image_data_urls": ["data:image/png;base64,AAEC", "https://x.org/a.png"],
        }
        if query == "chunks":
            chunks = [
                ContentChunk(id=text, text=text, order=order)
                for order, text in enumerate(("one", "two"))
            ]
            fields = {"content_chunks": chunks, "system_reminder": "Cite."}
        if query == "bad":
            fields = {"error_message": "nothing found", "debug_info": {"n": 0}}
        return ToolCallResponse(id=tool_call.id, name=self.name, **fields)


@pytest.fixture
def native() -> NativeTool[Any]:
    ToolFactory.register_tool(NativeSearch, ShopConfig)
    return ToolFactory.build_tool("native_search", ShopConfig(currency="NOK"))


def test_adopt_makes_a_tool_of_theirs(native: NativeTool[Any]) -> None:
    """A tool of theirs becomes one of ours: schema, settings, prompts, id, images, metadata and failures."""
    tool = unique.adopt(native)
    assert (tool.name, tool.description) == ("native_search", "Search.")
    assert tool.settings.takes_control is True
    assert tool.prompts.system == "Search first."
    assert tool.schema.parameters["required"] == ["query"]
    good = call(tool, {"query": "tea"}, id="call-7")
    assert (good.value, good.metadata["n"]) == ("NOK tea call-7", 1)
    assert good.output[1].data == b"\x00\x01\x02"
    assert good.output[2] == ImageContent(uri="https://x.org/a.png")
    bad = call(tool, {"query": "bad"})
    assert (bad.error.message, bad.metadata["n"]) == ("nothing found", 0)
    assert call(tool).error.type == "ArgumentError"


def test_adopt_reads_chunks_and_the_reminder(native: NativeTool[Any]) -> None:
    """What their history would show of a response is what our model reads: the chunks and the reminder."""
    assert call(unique.adopt(native), {"query": "chunks"}).text == "one\ntwo\nCite."


def test_adopt_names_an_image_that_cannot_be_read(
    native: NativeTool[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data URL of theirs that holds no base64 costs its image and not the call."""

    async def run(call: LanguageModelFunction) -> ToolCallResponse:
        urls = ["data:image/png;base64,?", "data:image/png;base64,AAEC"]
        return ToolCallResponse(id=call.id, name=call.name, content="see", image_data_urls=urls)

    monkeypatch.setattr(native, "run", run)
    result = call(unique.adopt(native), {"query": "tea"})
    assert result.text == "see\n[image: a data URL that cannot be read]\n[image/png: 3 bytes]"


def test_adopt_refuses_a_class(native: NativeTool[Any]) -> None:
    """A class has no configuration yet: build it first."""
    with pytest.raises(DefinitionError, match="build it"):
        unique.adopt(NativeSearch)  # type: ignore[arg-type]


def test_an_approver_given_at_export_is_asked() -> None:
    """Unique has no approvals of its own: `approver` decides, and finds what is asked."""
    ran.clear()
    asked: list[Any] = []

    def approver(request: Any) -> bool:
        asked.append((request.tool, request.arguments))
        return request.arguments["path"] == "a.txt"

    unique.export(delete, approver=approver)
    host = Host([planned("delete")])
    agreed, denied = host.run(("delete", {"path": "a.txt"}), ("delete", {"path": "b.txt"}))
    assert (agreed.content, denied.successful) == ("deleted a.txt", False)
    assert [arguments["path"] for _, arguments in asked] == ["a.txt", "b.txt"]
    assert ran == ["delete"]


def test_cancelling_the_manager_cancels_the_tool() -> None:
    """Their manager keeps exceptions to a call, but a cancellation reaches the body, and its cleanup has run."""

    def start(tool: FunctionTool) -> Any:
        host = host_of(tool)
        return lambda: host.manager.execute_selected_tools(
            [LanguageModelFunction(id="x", name="wait", arguments={})]
        )

    assert cleaned_up_when_cancelled(start) == ["done"]
