"""Tools built from stored configuration."""

import json
import sys
from enum import Enum
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field, SecretStr

from functool import Context, DefinitionError, FunctionTool, Tool, ToolCall, ToolResult, Toolset
from functool.factory import BaseToolConfig, ToolFactory
from functool.testing import MockTool


class Engine(Enum):
    FAST = "fast"
    DEEP = "deep"


class SearchConfig(BaseToolConfig):
    """How to search."""

    engine: Engine = Engine.FAST
    max_results: int = Field(default=5, ge=1, le=50, description="How many results, at most.")
    order: Literal["date", "score"] = "score"
    tool_name: str = "search"
    """What the model calls it."""
    key: SecretStr | None = None


class Search(Tool):
    def __init__(self, config: SearchConfig) -> None:
        super().__init__(
            name=config.tool_name,
            description="Search.",
            parameters={"type": "object", "properties": {}},
        )
        self.config = config

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        return ToolResult.of([self.config.engine.value, self.config.max_results])


class NoConfig(BaseToolConfig):
    pass


def clock(config: NoConfig) -> Tool:
    @FunctionTool
    def now() -> str:
        """Return the time."""
        return "12:00"

    return now


def unresolvable(config: "Nowhere") -> Tool:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError("never built")


def postponed(config: "SearchConfig") -> Tool:
    return Search(config)


@pytest.fixture
def factory() -> ToolFactory:
    made = ToolFactory()
    made.register("search", Search, SearchConfig)
    made.register("clock", clock)
    return made


def test_build_gives_the_tool_its_checked_configuration(factory: ToolFactory) -> None:
    """The tool's class receives its configuration as an instance, JSON values converted."""
    tool = factory.build("search", {"engine": "deep", "max_results": "7"})
    assert isinstance(tool, Search)
    assert tool.config == SearchConfig(engine=Engine.DEEP, max_results=7)
    assert Toolset([tool]).call_sync(ToolCall(name="search")).value == ["deep", 7]


def test_build_takes_defaults_and_a_finished_configuration(factory: ToolFactory) -> None:
    """No configuration means the defaults; an instance of the class is taken as it is."""
    tool = factory.build("search")
    assert isinstance(tool, Search)
    assert tool.config == SearchConfig()
    ready = SearchConfig(tool_name="find")
    assert factory.build("search", ready).name == "find"


def test_the_configuration_class_is_read_from_the_builders_annotation(factory: ToolFactory) -> None:
    """A builder may be a function, and its annotation names the configuration."""
    assert factory.build("clock", {}).name == "now"
    assert factory.config_schema("clock")["title"] == "NoConfig"


def test_a_postponed_annotation_is_understood(factory: ToolFactory) -> None:
    """An annotation written as text names the configuration too."""
    factory.register("postponed", postponed)
    assert factory.build("postponed", {"tool_name": "later"}).name == "later"


def test_a_default_that_does_not_fit_is_found_out() -> None:
    """A configuration class whose default breaks its own rules is bad configuration, not a broken tool."""

    class Wrong(BaseToolConfig):
        limit: int = Field(default=0, ge=1)

    factory = ToolFactory()
    factory.register("wrong", lambda config: clock(NoConfig()), Wrong)
    with pytest.raises(DefinitionError, match="limit"):
        factory.build("wrong")


def test_a_plan_may_limit_how_many_run_at_once(factory: ToolFactory) -> None:
    """`max_concurrency` is handed to the toolset, which checks it."""
    with pytest.raises(DefinitionError, match="max_concurrency"):
        factory.toolset([], max_concurrency=0)


def test_bad_configuration_names_each_field_and_no_value(factory: ToolFactory) -> None:
    """Every bad field stands in one DefinitionError, which never shows a value."""
    with pytest.raises(DefinitionError) as caught:
        factory.build("search", {"max_results": 999, "order": "s3cret", "colour": "s3cret"})
    text = str(caught.value)
    assert "'search'" in text and "max_results" in text and "order" in text and "colour" in text
    assert "999" not in text and "s3cret" not in text
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("config", [[], "text", 3])
def test_configuration_that_is_no_object_is_refused(factory: ToolFactory, config: Any) -> None:
    """A configuration that is not an object is a DefinitionError, not a crash."""
    with pytest.raises(DefinitionError, match="'search': bad configuration"):
        factory.build("search", config)


def test_an_unknown_name_lists_the_known_ones(factory: ToolFactory) -> None:
    """A wrong name is answered with the close and the known ones."""
    with pytest.raises(DefinitionError, match="'serch'.*Did you mean 'search'"):
        factory.build("serch", {})
    with pytest.raises(DefinitionError, match="Known tools: search, clock"):
        factory.config_schema("zzzzzz")


def test_a_builder_that_fails_or_returns_no_tool_is_a_definition_error() -> None:
    """What a builder raises is told with the tool's name, and anything but a Tool is refused."""
    factory = ToolFactory()

    def broken(config: NoConfig) -> Tool:
        raise OSError("no route")

    def picky(config: NoConfig) -> Tool:
        raise DefinitionError("the key has expired")

    factory.register("broken", broken)
    factory.register("picky", picky)
    factory.register("wrong", lambda config: 3, NoConfig)  # type: ignore[arg-type,return-value]
    with pytest.raises(DefinitionError, match="'broken' cannot be built: OSError: no route"):
        factory.build("broken")
    with pytest.raises(DefinitionError, match="^the key has expired$"):
        factory.build("picky")
    with pytest.raises(DefinitionError, match="'wrong': the builder returned int"):
        factory.build("wrong")


def test_a_builder_may_be_registered_again(factory: ToolFactory) -> None:
    """The same builder under the same name is no conflict."""
    factory.register("search", Search, SearchConfig)
    assert factory.names() == ["search", "clock"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("search", clock), "already registered"),
        (("x", Search, dict), "BaseToolConfig"),
        (("x", lambda config: clock(config)), "BaseToolConfig"),
        (("x", lambda: clock(NoConfig())), "BaseToolConfig"),
        (("x", Search, "SearchConfig"), "BaseToolConfig"),
        (("x", unresolvable), "BaseToolConfig"),
        (("", clock), "needs a name"),
        (("x", 3, NoConfig), "needs a name"),
    ],
)
def test_register_refuses_what_it_cannot_build_later(
    factory: ToolFactory, given: Any, said: str
) -> None:
    """A name taken by another builder, an empty name and a missing configuration class are refused at once."""
    with pytest.raises(DefinitionError, match=said):
        factory.register(*given)
    assert factory.names() == ["search", "clock"]


def test_a_plan_becomes_a_toolset(factory: ToolFactory) -> None:
    """A whole plan is built in order, one tool class twice under two names."""
    tools = factory.toolset(
        [
            {"tool": "search", "config": {"tool_name": "web"}},
            {"tool": "search", "config": {"tool_name": "files", "engine": "deep"}},
            {"tool": "clock"},
        ]
    )
    assert list(tools) == ["web", "files", "now"]
    assert tools.call_sync(ToolCall(name="files")).value == ["deep", 5]


def test_every_bad_entry_of_a_plan_is_in_one_error(factory: ToolFactory) -> None:
    """The error names each bad entry by its position, and what is wrong with it."""
    with pytest.raises(DefinitionError) as caught:
        factory.toolset(
            [
                {"tool": "search"},
                {"tool": "search", "config": {"max_results": 0}},
                {"tool": "nothing"},
                {"tool": "clock", "konfig": {}},
                "clock",  # type: ignore[list-item]
                {"tool": "search"},
                {},
                {"tool": 3},
            ]
        )
    text = str(caught.value)
    assert "entry 0" not in text
    assert "entry 1: 'search': bad configuration. max_results" in text
    assert "entry 2: There is no tool named 'nothing'" in text
    for entry in (3, 4, 6, 7):
        assert f"entry {entry}: expected an object" in text
    assert "entry 5: a second tool named 'search'" in text


def test_the_schema_is_fit_for_a_form(factory: ToolFactory) -> None:
    """Titles, descriptions, defaults, limits and choices are all there, and the schema is JSON."""
    schema = factory.config_schema("search")
    json.dumps(schema)
    assert schema["description"] == "How to search."
    assert schema["additionalProperties"] is False
    assert schema["properties"]["max_results"] == {
        "default": 5,
        "description": "How many results, at most.",
        "maximum": 50,
        "minimum": 1,
        "title": "Max Results",
        "type": "integer",
    }
    assert schema["properties"]["order"]["enum"] == ["date", "score"]
    assert schema["properties"]["tool_name"]["description"] == "What the model calls it."
    assert schema["$defs"]["Engine"]["enum"] == ["fast", "deep"]


PLUGIN = '''
from functool import FunctionTool, Tool
from functool.factory import BaseToolConfig

class GreetConfig(BaseToolConfig):
    greeting: str = "hello"

def greet(config: GreetConfig) -> Tool:
    return FunctionTool(lambda name: f"{config.greeting} {name}", name="greet", description="Greet.")

pair = (lambda config: FunctionTool(lambda: config.greeting, name="pair", description="Say."), GreetConfig)

@FunctionTool
def ready() -> str:
    """Say ready."""
    return "ready"

nothing = 3
'''


@pytest.fixture
def installed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a distribution with the given entry points: real metadata on the import path."""

    def install(points: str) -> None:
        (tmp_path / "functool_test_plugin.py").write_text(PLUGIN)
        info = tmp_path / "functool_test_plugin-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: functool-test-plugin\nVersion: 1\n"
        )
        (info / "entry_points.txt").write_text(f"[functool.tools]\n{points}")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    sys.modules.pop("functool_test_plugin", None)


def test_load_registers_installed_entry_points(installed: Any) -> None:
    """A builder, a pair and a finished tool are found by entry point; a second load finds nothing new."""
    installed(
        "greet = functool_test_plugin:greet\npair = functool_test_plugin:pair\nready = functool_test_plugin:ready\n"
    )
    factory = ToolFactory()
    assert sorted(factory.load()) == ["greet", "pair", "ready"]
    assert factory.load() == []
    tools = factory.toolset(
        [{"tool": "greet", "config": {"greeting": "moin"}}, {"tool": "pair"}, {"tool": "ready"}]
    )
    assert tools.call_sync(ToolCall(name="greet", arguments={"name": "Bo"})).text == "moin Bo"
    assert tools.call_sync(ToolCall(name="pair")).text == "hello"
    assert tools.call_sync(ToolCall(name="ready")).text == "ready"


def test_load_names_bad_entry_points_and_keeps_the_good_ones(installed: Any) -> None:
    """A broken package costs no other package its tools, and the error names every broken entry."""
    installed(
        "bad = functool_test_plugin:nothing\ngone = functool_test_plugin_gone:x\nready = functool_test_plugin:ready\n"
    )
    factory = ToolFactory()
    with pytest.raises(DefinitionError, match="(?s)'bad'.*'gone'"):
        factory.load()
    assert factory.names() == ["ready"]


def test_a_message_that_quotes_a_value_is_not_repeated():
    """Some of pydantic's own messages hold the value, which may be a secret."""

    class A(BaseModel):
        kind: Literal["a"]

    class B(BaseModel):
        kind: Literal["b"]

    class Config(BaseToolConfig):
        zone: ZoneInfo | None = None
        mode: Literal["read", "write"] = "read"
        auth: Annotated[A | B, Field(discriminator="kind")] | None = None

    factory = ToolFactory()
    factory.register("t", lambda config: MockTool("t", ""), Config)
    for config, said in (
        ({"mode": "readd"}, "mode: Input should be 'read' or 'write'"),
        ({"zone": "sk-secret"}, "zone: not valid (zoneinfo_str)"),
        ({"auth": {"kind": "sk-secret"}}, "auth: not valid (union_tag_invalid)"),
    ):
        with pytest.raises(DefinitionError) as caught:
            factory.build("t", config)
        assert str(caught.value) == f"'t': bad configuration. {said}"
