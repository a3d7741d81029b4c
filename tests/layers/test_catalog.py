"""`Catalog`: tools found by searching, and calls of them on their own road."""

import asyncio
import json
import os
import signal
import sqlite3
import threading
from typing import Any

import pytest

from functool import (
    AgentTool,
    Context,
    DefinitionError,
    FunctionTool,
    GuardrailError,
    SchemaTool,
    Tool,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
    WrapperTool,
)
from functool.guardrails import budget, require_approval, truncate, trusted_only
from functool.layers import catalog as catalog_module
from functool.layers import words as word_search
from functool.layers.cache import cached
from functool.layers.catalog import FOUND, Catalog
from functool.layers.journal import Journal
from functool.layers.recorded import recording
from functool.layers.words import WordIndex, words
from tests import bfcl
from tests.support import ask


def tool(name, description="", parameters=None, **options) -> Tool:
    return SchemaTool(name, description, parameters or {}, lambda arguments: arguments, **options)


WEATHER = tool(
    "get_weather",
    "Get the forecast of a place.",
    {
        "properties": {
            "place": {"type": "string", "description": "A city or a village."},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "wind": {"properties": {"gusts": {"type": "boolean", "description": "Storm peaks."}}},
        }
    },
)
MAIL = tool("sendMail", "Send a message to somebody.", settings=ToolSettings(tags=["outlook"]))
SUM = tool("math.sum", "Add numbers.", {"properties": {"numbers": {"type": "array"}}})
TOOLS = [WEATHER, MAIL, SUM]


def names(matches):
    return [match.tool.name for match in matches]


def call(tools, name, arguments, context=None, id="1"):
    return asyncio.run(tools.call(ToolCall(name=name, arguments=arguments, id=id), context))


def recall(questions, renamed):
    """Return the share of wanted tools among the first five, by id and by name."""
    functions = bfcl.lines("functions")
    catalog = Catalog(tool(renamed[f["uid"]], f["description"], f["parameters"]) for f in functions)
    name_of = {f["uid"]: f["name"] for f in functions}
    uid_of = {name: uid for uid, name in renamed.items()}
    ids, by_name = 0.0, 0.0
    for question in questions:
        top = {uid_of[name] for name in names(catalog.search(question["question"]))}
        wanted = set(question["functions"])
        wanted_names = {name_of[uid] for uid in wanted}
        ids += len(wanted & top) / len(wanted)
        by_name += len(wanted_names & {name_of[uid] for uid in top}) / len(wanted_names)
    return ids / len(questions), by_name / len(questions)


def test_real_questions_find_their_tools():
    """Of 3,469 real definitions the first five hold what real questions want, in both halves of them."""
    # Names are said once in a catalogue: the others get a number.
    renamed, seen = {}, {}
    for function in bfcl.lines("functions"):
        number = seen[function["name"]] = seen.get(function["name"], 0) + 1
        renamed[function["uid"]] = function["name"] + (f"_{number}" if number > 1 else "")
    questions = bfcl.lines("questions_dev")

    for half in (questions[::2], questions[1::2]):
        ids, by_name = recall(half, renamed)
        assert ids >= 0.69 - 0.01
        assert by_name >= 0.84


@pytest.mark.parametrize(
    ("query", "found", "why"),
    [
        ("what will the weather be", "get_weather", "name: weather"),
        ("forecasts", "get_weather", "description: forecasts"),
        ("send", "sendMail", "name: send; description: send"),
        ("in Fahrenheit please", "get_weather", "choices: fahrenheit"),
        ("village", "get_weather", "texts of arguments: village"),
        ("storm", "get_weather", "texts of arguments: storm"),
        ("gust", "get_weather", "arguments: gust"),
        ("outlook", "sendMail", "examples and tags: outlook"),
        ("what do these make", "math.sum", "examples and tags: make"),
    ],
)
def test_every_text_of_a_tool_is_searched(query, found, why):
    """Names, descriptions, nested texts, enum values, tags and examples are found, and the match says where."""
    catalog = Catalog(TOOLS, examples={"math.sum": ["What do 3 and 4 make?"]})
    [match] = catalog.search(query)

    assert (match.tool.name, match.why) == (found, why)
    assert match.score > 0


def test_a_search_takes_what_is_enabled():
    """A tool that is switched off in the context is not found, and takes nobody's place."""
    hidden = tool("weather_admin", "weather", settings=ToolSettings(is_enabled=lambda c: c.deps))
    catalog = Catalog([hidden, WEATHER])

    assert names(catalog.search("weather", 1, Context(True))) == ["weather_admin"]
    assert names(catalog.search("weather", 1, Context(False))) == ["get_weather"]


def test_a_long_question_finds_several_tools(monkeypatch):
    """What one tool has answered counts less, so that the second wish of a long question is heard."""
    filler = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda omicron"
    alike = [tool(f"pay_{n}", f"Pay a bill {filler}") for n in ("one", "two", "three")]
    other = tool("transport", "Book a flight ticket alpha beta gamma delta epsilon zeta eta")
    unrelated = [tool(f"unrelated_{n}") for n in range(30)]
    catalog = Catalog([*alike, other, *unrelated])
    long = f"pay the bill {filler} and book the flight ticket"

    assert names(catalog.search(long, 3)) == ["pay_one", "transport", "pay_two"]
    monkeypatch.setattr(word_search, "LONG_QUESTION", 1_000)
    assert names(catalog.search(long, 3)) == ["pay_one", "pay_two", "pay_three"]


@pytest.mark.parametrize(
    "query",
    ["", "   ", '" OR name:*', "NEAR(a b, 2)", "x AND (", "'; drop table words; --", "\x00",
     "\ud800", "12345", "天気", "погода", "x" * 1_000_000, "💥"],
)  # fmt: skip
def test_odd_queries_are_words_only(query):
    """FTS syntax, numbers, foreign and broken text are searched as words: nothing is found, nothing fails."""
    assert Catalog(TOOLS).search(query) == []


def test_words_like_the_and_of_count_alone():
    """The commonest words count only in a query that has no others."""
    catalog = Catalog([*TOOLS, tool("who_am_i")])

    assert names(catalog.search("who am I")) == ["who_am_i"]
    assert names(catalog.search("who am I to send")) == ["sendMail"]


def test_fts_syntax_is_no_syntax():
    """Operators between words are words."""
    assert names(Catalog(TOOLS).search('weather NOT "forecast" -place')) == ["get_weather"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("获取城市的天气预报", "天气"),
        ("날씨를 알려 줍니다", "날씨"),
        ("Wetter für Größen", "grosse grossen größen"),
        ("узнать погоду", "ПОГОДУ"),
        ("prévisions météo", "meteo"),
        ("พยากรณ์อากาศ", "พยากรณ์"),
    ],
)
def test_other_scripts_are_found(text, query):
    """Scripts without spaces, accents and capitals of other alphabets find their texts."""
    catalog = Catalog([tool("one", "Something else."), tool("two", text)])

    assert names(catalog.search(query)) == ["two"]


def test_words_are_split():
    """Case and underscores split names; short numbers are no words, letters with numbers are."""
    assert words("getHTTPResponse_v2 parse.XML 42 form_941 s3 Größe 天気予報") == (
        ["get", "http", "response", "v2", "parse", "xml", "form", "941", "s3", "größe"]
        + ["天気", "気予", "予報"]
    )


@pytest.mark.parametrize("query", ["form_941", "form 941", "Please fill in form 941.", "941"])
def test_a_number_tells_names_apart(query):
    """A tool is found by the number in its name."""
    forms = [
        tool(f"form_{n}", "Fills in a form.") for n in (1040, 1065, 1099, 1120, 8812, 990, 941)
    ]

    assert names(Catalog(forms).search(query, 1)) == ["form_941"]


def test_numbers_count_in_names_only():
    """A number in a description, such as a year of an example, is no reason to find a tool."""
    catalog = Catalog([tool("report", "The report of a year, such as 2024."), tool("form_2024")])

    assert names(catalog.search("2024")) == ["form_2024"]


def test_tools_that_differ_by_a_number_are_found_by_their_names():
    """Of two thousand names that differ by a number, the one in the query comes first."""
    catalog = Catalog(tool(f"tool_{n}", "Does a thing.") for n in range(2_000))

    assert names(catalog.search("tool_1234", 1)) == ["tool_1234"]


def test_names_that_differ_by_case():
    """Two names that differ by case are two tools."""
    catalog = Catalog([tool("Get", "weather"), tool("get", "weather")])
    fixed = catalog.fixed()

    assert names(catalog.search("get")) == ["Get", "get"]
    assert call(fixed, "call_tool", {"name": "get", "arguments": {}}).success
    assert not call(fixed, "call_tool", {"name": "GET", "arguments": {}}).success


def test_an_empty_catalogue():
    """A catalogue of nothing finds nothing, and says so."""
    catalog = Catalog([])

    assert catalog.search("weather") == []
    assert list(catalog.toolset(Context())) == ["search_tools"]
    answer = call(catalog.fixed(), "search_tools", {"query": "x"})
    assert answer.text == "No tool fits. Try other words."
    assert call(catalog.fixed(), "call_tool", {"name": "x"}).error.type == "UnknownToolError"


@pytest.mark.parametrize("given", [WEATHER, [WEATHER], iter([WEATHER]), Toolset([WEATHER])])
def test_some_tools(given):
    """A tool, an iterable and a toolset make a catalogue."""
    assert names(Catalog(given).search("weather")) == ["get_weather"]


@pytest.mark.parametrize(
    ("tools", "options", "error"),
    [
        ([WEATHER, WEATHER], {}, "two tools are named 'get_weather'"),
        ([tool("call_tool")], {}, "a catalogue has a tool 'call_tool' of its own"),
        ([tool("search_tools")], {}, "a catalogue has a tool 'search_tools' of its own"),
        (TOOLS, {"pinned": ["get_wether"]}, "pinned names .* Did you mean 'get_weather'"),
        (TOOLS, {"examples": {"x": ["y"]}}, "examples names a tool that is not in the catalogue"),
        (len, {}, "a Toolset holds tools, not len: decorate it with @FunctionTool"),
        (TOOLS, {"examples": {"math.sum": "add"}}, "the examples of 'math.sum' must be a list"),
        (TOOLS, {"rank": 3}, "rank must be a sync function"),
        (TOOLS, {"pinned": [tool("get_weather")]}, "two tools are named 'get_weather'"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_at_definition(tools, options, error):
    """Equal names, unknown names and wrong options are the author's errors."""
    with pytest.raises(DefinitionError, match=error):
        Catalog(tools, **options)


def test_an_async_rank_is_refused():
    """`rank` has to be sync, as `search` is."""

    async def rank(query, limit):
        return []

    with pytest.raises(DefinitionError, match="rank must be a sync function"):
        Catalog(TOOLS, rank=rank)


@pytest.mark.parametrize("limit", [0, -1, True, 2.5, "5"])
def test_a_limit_is_a_positive_int(limit):
    """Any other limit is refused."""
    with pytest.raises(ValueError, match="limit must be a positive int"):
        Catalog(TOOLS).search("weather", limit)


def test_a_models_search_reads_no_text_of_the_tools_again(monkeypatch):
    """A host may want to know why a tool fits, and long texts take a while. A model is not told."""
    catalog, read, words = Catalog(TOOLS), [], word_search.words
    monkeypatch.setattr(word_search, "words", lambda text: [*words(read.append(text) or text)])
    found = call(catalog.fixed(), "search_tools", {"query": "storm"})

    assert found.value[0]["name"] == "get_weather"
    assert {*read} == {"storm"}


def test_python_without_fts5(monkeypatch):
    """Where SQLite has no FTS5 the error says so."""

    def connect(*args, **options):
        class Bare(sqlite3.Connection):
            def executescript(self, script):
                raise sqlite3.OperationalError("no such module: fts5")

        return real(*args, **options, factory=Bare)

    real = sqlite3.connect
    monkeypatch.setattr(word_search.sqlite3, "connect", connect)
    with pytest.raises(DefinitionError, match="needs SQLite with FTS5"):
        Catalog(TOOLS)


def test_parameters_of_a_megabyte_are_shown_alone():
    """An answer shows the parameters of several tools as long as they fit, and always those of the first."""
    long = {f"p{n}": {"type": "string"} for n in range(30_000)}
    catalog = Catalog(
        [
            tool("weather_a", "The weather.", {"type": "object", "properties": long}),
            tool("weather_b", "The weather.", {"type": "object", "properties": long}),
            tool("weather_c", "The weather."),
        ]
    )
    tools = catalog.fixed()
    every = call(tools, "search_tools", {"query": "weather"}).value
    alone = call(tools, "search_tools", {"query": "weather_b", "limit": 1}).value
    known = {entry["name"]: entry["parameters"] for entry in every}

    assert sorted(known) == ["weather_a", "weather_b", "weather_c"]
    assert known["weather_c"] == catalog.tools["weather_c"].schema.parameters
    assert [len(known[name].get("properties", ())) for name in known if name != "weather_c"] == [
        30_000,
        0,
    ]
    assert "Search for this tool alone, with limit=1" in str(known)
    assert alone[0]["parameters"] == catalog.tools["weather_b"].schema.parameters


def test_long_parameters_are_shown_beside_the_event_loop():
    """What a search shows is copied on another thread, because a schema may be a megabyte."""
    used: list[int] = []

    class Watched(dict):
        def __deepcopy__(self, memo):
            used.append(threading.get_ident())
            return dict(self)

    catalog = Catalog([tool("weather", "The weather.")])
    catalog.tools["weather"].schema.parameters["properties"] = Watched()
    found = call(catalog.fixed(), "search_tools", {"query": "weather"})

    assert found.success
    assert used
    assert threading.get_ident() not in used


@pytest.mark.parametrize("fixed", [True, False])
def test_a_search_asks_on_the_event_loop_which_tools_are_enabled(fixed):
    """The author's `is_enabled` is called where a toolset calls it, and not on another thread."""
    asked: list[int] = []
    settings = ToolSettings(
        is_enabled=lambda context: bool(asked.append(threading.get_ident())) or True
    )
    catalog, context = Catalog([tool("weather", "The weather.", settings=settings)]), Context()
    tools = catalog.fixed() if fixed else catalog.toolset(context)
    found = call(tools, "search_tools", {"query": "weather"}, context)

    assert [entry["name"] for entry in found.value] == ["weather"]
    assert {*asked} == {threading.get_ident()}


def test_rank_is_fused():
    """The host's own search brings in what no word says; unknown and disabled tools of it are left out."""
    asked = []

    def rank(query, limit):
        asked.append((query, limit))
        return [("gone", 0.9), ("off", 0.8), ("sendMail", 0.7), ("get_weather", 0.1)]

    off = tool("off", settings=ToolSettings(is_enabled=False))
    catalog = Catalog([*TOOLS, off], rank=rank)
    matches = catalog.search("forecast", 5)

    assert names(matches) == ["get_weather", "sendMail"]
    assert [match.why for match in matches] == ["description: forecast; rank: 2", "rank: 1"]
    assert asked == [("forecast", 60)]


def test_a_rank_that_fails_is_an_error_result():
    """What `rank` raises is the answer of `search_tools`, like that of any body."""

    def rank(query, limit):
        raise ConnectionError("no embeddings")

    result = call(Catalog(TOOLS, rank=rank).fixed(), "search_tools", {"query": "mail"})

    assert result.text == "ConnectionError: no embeddings"


def test_a_toolset_holds_what_the_context_found():
    """Pinned tools, the search and the tools found so far, in that order; another context found nothing."""
    catalog = Catalog(TOOLS, pinned=["sendMail"])
    context = Context()
    before = catalog.toolset(context)
    result = call(before, "search_tools", {"query": "weather numbers"}, context)
    call(before, "search_tools", {"query": "send mail weather"}, context)

    assert list(before) == ["sendMail", "search_tools"]
    assert [found["name"] for found in result.value] == ["get_weather", "math.sum"]
    assert result.value[0]["description"] == "Get the forecast of a place."
    assert result.value[0].keys() == {"name", "description"}
    assert list(catalog.toolset(context)) == ["sendMail", "search_tools", "get_weather", "math.sum"]
    assert list(catalog.toolset(Context())) == ["sendMail", "search_tools"]
    assert context.state[FOUND] == ["get_weather", "math.sum", "sendMail"]


def test_pinned_tools_may_be_given_as_tools():
    """A pinned tool that is not in the catalogue is taken into it."""
    clock = tool("clock", "What time it is.")
    catalog = Catalog(TOOLS, pinned=[clock, WEATHER])

    assert list(catalog.toolset(Context())) == ["clock", "get_weather", "search_tools"]
    assert names(catalog.search("time")) == ["clock"]
    assert list(Catalog(TOOLS, pinned=clock).pinned) == ["clock"]
    assert list(Catalog(TOOLS, pinned=Toolset([clock])).pinned) == ["clock"]


def test_a_toolset_needs_a_context():
    """What was found lives in a context: without one there is no toolset."""
    with pytest.raises(TypeError, match="the context must be a Context, not NoneType"):
        Catalog(TOOLS).toolset(None)


def test_the_limit_of_concurrency_is_kept():
    """A toolset's own limit holds in what the catalogue makes of it."""
    catalog = Catalog(Toolset(TOOLS, max_concurrency=2))

    assert catalog.toolset(Context()).max_concurrency == 2
    assert catalog.fixed().max_concurrency == 2


def test_a_tool_removed_between_search_and_call():
    """A found tool that the next catalogue lacks is gone from the toolset, and an unknown tool."""
    context = Context()
    call(Catalog(TOOLS).toolset(context), "search_tools", {"query": "weather"}, context)
    after = Catalog([MAIL, tool("weather_now", "weather")])

    assert list(after.toolset(context)) == ["search_tools"]
    result = call(after.fixed(), "call_tool", {"name": "get_weather"}, context)
    assert result.error.type == "UnknownToolError"
    assert "weather_now" in result.text


def test_a_tool_disabled_between_search_and_call():
    """A tool that is switched off after it was found does not run, through either door."""
    context = Context({"on": True})
    ran = []
    flip = SchemaTool(
        "flip", "flip", {}, lambda a: ran.append(1),
        settings=ToolSettings(is_enabled=lambda c: c.deps["on"]),
    )  # fmt: skip
    catalog = Catalog([flip])
    call(catalog.fixed(), "search_tools", {"query": "flip"}, context)
    context.deps["on"] = False

    assert call(catalog.toolset(context), "flip", {}, context).error.type == "ToolDisabledError"
    through = call(catalog.fixed(), "call_tool", {"name": "flip"}, context)
    assert through.error.type == "ToolDisabledError"
    assert ran == []


@pytest.mark.parametrize("untrusted", [False, True])
def test_values_through_call_tool_are_as_trusted_as_without_it(untrusted):
    """What a tool returned is trusted, but not what it repeats in another form, nor what a wrapper around `call_tool` marks."""

    @FunctionTool
    def find(n: int) -> list[str]:
        return [str(n), "bob"]

    @FunctionTool(input_guardrails=[trusted_only("to", wrote=lambda context: "")])
    def pay(to: str) -> None:
        return None

    through, context = Catalog([find]).fixed()["call_tool"], Context()
    tools = Toolset([pay, WrapperTool(through, settings=ToolSettings(untrusted=untrusted))])
    sent = {"name": "find", "arguments": {"n": "007"}}
    assert call(tools, "call_tool", sent, context).value == ["7", "bob"]

    assert call(tools, "pay", {"to": "7"}, context).is_error
    assert call(tools, "pay", {"to": "bob"}, context).success is not untrusted


def test_a_fixed_toolset_never_changes():
    """Two tools, whose search shows parameters, because no definition will."""
    catalog = Catalog(TOOLS, pinned=["sendMail"])
    fixed = catalog.fixed()
    context = Context()
    [found] = call(fixed, "search_tools", {"query": "forecast"}, context).value

    assert list(fixed) == list(catalog.fixed()) == ["search_tools", "call_tool"]
    assert found["parameters"] == WEATHER.schema.parameters
    assert found["parameters"] is not WEATHER.schema.parameters


def test_what_must_run_alone_is_left_out_of_fixed():
    """A tool that is exclusive or takes control is neither found nor called behind `call_tool`."""
    alone = tool("alone", "weather", settings=ToolSettings(is_exclusive=True))
    control = tool("control", "weather", settings=ToolSettings(takes_control=True))
    catalog = Catalog([alone, control, WEATHER])
    fixed = catalog.fixed()
    found = call(fixed, "search_tools", {"query": "weather"}).value

    assert [each["name"] for each in found] == ["get_weather"]
    for name in ("alone", "control"):
        assert call(fixed, "call_tool", {"name": name}).error.type == "UnknownToolError"
    assert set(names(catalog.search("weather"))) == {"alone", "control", "get_weather"}


def test_the_settings_of_call_tool_are_those_of_its_tools():
    """`call_tool` is read-only if all of its tools are, and destructive if one is."""
    safe = tool("safe", settings=ToolSettings(read_only=True))
    wipe = tool("wipe", settings=ToolSettings(destructive=True))

    assert Catalog([safe]).fixed()["call_tool"].settings.read_only is True
    assert Catalog([safe]).fixed()["call_tool"].settings.destructive is None
    mixed = Catalog([safe, wipe]).fixed()["call_tool"].settings
    assert (mixed.read_only, mixed.destructive) == (None, True)


@FunctionTool
def divide(a: int, b: int = 1) -> float:
    """Divide two numbers."""
    return a / b


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "divide", "arguments": {"a": 6, "b": 3}}, "2.0"),
        ('{"name": "divide", "arguments": {"a": 6}}', "6.0"),
        ('{ "arguments" : {"a": 6, "b": 3} , "name" : "divide" }', "2.0"),
        ('{"name": "divide", "arguments": "{\\"a\\": 6}"}', "6.0"),
        ({"name": "divide", "arguments": '{"a": 6}'}, "6.0"),
        ('{"name": "search_nothing", "arguments": null}', "found"),
        ({"name": "search_nothing", "arguments": None}, "found"),
    ],
)
def test_call_tool_calls(arguments, text):
    """`call_tool` takes arguments as an object or its text, in whatever order they come."""
    nothing = SchemaTool("search_nothing", "", {"type": "object"}, lambda arguments: "found")
    result = call(Catalog([divide, nothing]).fixed(), "call_tool", arguments)

    assert (result.text, result.call_id) == (text, "1")


@pytest.mark.parametrize(
    "arguments",
    [
        '{"name": "divide", "arguments": {"a": 1, "a": 2}}',
        '{"name": "divide", "arguments": "{\\"a\\": 1, \\"a\\": 2}"}',
        '{"name": "divide", "arguments": {"a": true}}',
        '{"name": "divide", "arguments": {"a": 1, "c": 2}}',
        '{"name": "divide", "arguments": {"a": NaN}}',
        '{"name": "divide", "arguments": {"a": 1' + "0" * 5000 + "}}",
        '{"name": "divide", "arguments": [1]}',
        '{"name": "divide"}',
        '{"name": "divide", "name": "divide", "arguments": {"a": 1}}',
        '{"name": "divide", "arguments": {"a": 1}, "arguments": {"a": 2}}',
        '{"name": "divide", "a": 1}',
        '{"arguments": {"a": 1}}',
        '{"name": "divide", "arguments": {"a": 1}',
        "",
    ],
)
def test_the_rules_of_arguments_hold_behind_call_tool(arguments):
    """A name sent twice, unknown names, NaN, `true` for a number and broken JSON are refused as on the tool's own door."""
    result = call(Catalog([divide]).fixed(), "call_tool", arguments)

    assert result.error.type == "ArgumentError"


def test_the_limit_of_bytes_holds_behind_call_tool():
    """The inner tool's limit of argument bytes bounds the inner arguments, whatever stands around them."""
    small = tool("small", max_argument_bytes=50, parameters={"properties": {"x": {}}})
    large = tool("large", max_argument_bytes=None)
    fixed = Catalog([small]).fixed()

    assert call(fixed, "call_tool", {"name": "small", "arguments": {"x": "a" * 30}}).success
    result = call(fixed, "call_tool", json.dumps({"name": "small", "arguments": {"x": "a" * 60}}))
    assert "more than 50 bytes" in result.text
    assert fixed["call_tool"].max_argument_bytes == 50 + 4_096
    assert Catalog([small, large]).fixed()["call_tool"].max_argument_bytes is None


def test_a_found_call_goes_its_own_road():
    """Guardrails of both kinds and time limits of the tool hold behind either door."""

    def refuse(call, context):
        if call.arguments.get("n") == 13:
            raise GuardrailError("not 13")

    guarded = SchemaTool(
        "guarded", "guarded", {"properties": {"n": {"type": "integer"}}}, lambda a: "x" * 100,
        input_guardrails=[budget(calls=2), refuse], output_guardrails=[truncate(60)],
    )  # fmt: skip
    catalog, context = Catalog([guarded]), Context()
    call(catalog.fixed(), "search_tools", {"query": "guarded"}, context)
    ways = [
        lambda n: call(catalog.toolset(context), "guarded", {"n": n}, context),
        lambda n: call(catalog.fixed(), "call_tool", {"name": "guarded", "arguments": {"n": n}}, context),
    ]  # fmt: skip

    assert ways[1](13).text == "not 13"
    assert len(ways[0](1).text) <= 60
    assert ways[1](1).text.startswith("The budget is used up")


def test_approval_behind_call_tool():
    """A person is asked for the inner call, and the same outer call runs once after that."""
    ran = []
    pay = SchemaTool(
        "pay", "pay", {"properties": {"n": {"type": "integer"}}}, lambda a: ran.append(a["n"]),
        input_guardrails=[require_approval()],
    )  # fmt: skip
    fixed, context = Catalog([pay, WEATHER]).fixed(), Context()
    outer = {"name": "pay", "arguments": {"n": 5}}
    paused = call(fixed, "call_tool", outer, context)
    request = paused.metadata["approval"]
    context.approve(request)

    assert fixed["call_tool"].requires_approval
    assert not Catalog([WEATHER]).fixed()["call_tool"].requires_approval
    assert paused.error.type == "ApprovalRequired"
    assert (request.tool, request.arguments) == ("pay", {"n": 5})
    assert call(fixed, "call_tool", outer, context).success
    assert call(fixed, "call_tool", outer, context).error.type == "ApprovalRequired"
    assert ran == [5]


def test_labels_pass_through_call_tool():
    """Labels of arguments point into the inner arguments, and those of results come out."""
    seen = []

    def look(call, context):
        seen.append(dict(call.metadata))

    web = tool("web", "web", {"properties": {"q": {}}}, input_guardrails=[look],
               settings=ToolSettings(untrusted=True))  # fmt: skip
    fixed = Catalog([web]).fixed()
    sources = {"/arguments/q": ["mail"], "/name": ["other"], "": ["all"], "/arguments": ["a"]}
    sources["/gone"] = ["lost"]
    outer = ToolCall(
        name="call_tool",
        arguments={"name": "web", "arguments": {"q": 1}},
        metadata={"sources": sources, "host": 7},
    )
    result = asyncio.run(fixed.call(outer))

    assert seen == [{"host": 7, "sources": {"/q": ["mail"], "": ["other", "all", "a", "lost"]}}]
    assert set(result.metadata["sources"]) == {"mail", "other", "all", "a", "web", "lost"}


@pytest.mark.parametrize("untrusted", [True, False])
def test_what_a_stranger_wrote_about_a_tool_is_no_trusted_value(untrusted):
    """A search shows the definitions of untrusted tools. No text of them counts as returned by a trusted tool."""
    wrote = trusted_only("to", wrote=lambda context: "to my boss")
    send = tool("send", "Send.", {"properties": {"to": {}}}, input_guardrails=[wrote])
    parameters = {"properties": {"q": {"default": "a@evil"}}}
    settings = ToolSettings(untrusted=untrusted)
    forecast = tool("forecast", "b@evil", parameters, settings=settings)
    catalog, context = Catalog([send, forecast]), Context()
    for tools in (catalog.fixed(), catalog.toolset(context)):
        assert call(tools, "search_tools", {"query": "forecast"}, context).success

    passed = [
        call(Toolset([send]), "send", {"to": to}, context).success for to in ("a@evil", "b@evil")
    ]
    assert passed == [not untrusted] * 2


@pytest.mark.parametrize("layer", ["journal", "replay", "cache"])
def test_what_a_layer_answers_for_a_search_is_found_as_well(layer, journal):
    """A search that a journal or a cache answers finds its tools, and what strangers wrote stays untrusted."""
    wrote = trusted_only("to", wrote=lambda context: "to my boss")
    send = tool("send", "Send.", {"properties": {"to": {}}}, input_guardrails=[wrote])
    forecast = tool("forecast", "mallory@evil", settings=ToolSettings(untrusted=True))
    catalog = Catalog([send, forecast])
    shared = cached(catalog.toolset(Context())["search_tools"], 60, per="process")
    for again in (False, True):
        context = Context()
        kept = journal.once(catalog.toolset(context), "r")
        replaying = layer == "replay" and again
        tools = journal.replay("r", catalog.toolset(context)) if replaying else kept
        search = shared if layer == "cache" else tools["search_tools"]
        result = call(Toolset([search]), "search_tools", {"query": "forecast"}, context)
        mark = result.metadata.get("journal", {}).get("stored", result.metadata.get("cached"))
        assert mark is (True if again else None)
        assert "forecast" in catalog.toolset(context)
        assert call(Toolset([send]), "send", {"to": "mallory@evil"}, context).is_error


def test_why_reads_only_the_beginning_of_a_long_description():
    """A stranger's description of a million characters is found by all of its words, and explained by the first ones."""
    long = tool("a", "first " + "filler " * 10_000 + "last")
    catalog = Catalog([long, tool("b", "other")])

    assert [match.why for match in catalog.search("first")] == ["description: first"]
    assert [match.why for match in catalog.search("last")] == [""]


@pytest.mark.parametrize("untrusted", [True, False])
def test_an_agent_that_searches_reads_what_strangers_wrote(untrusted):
    """The answer of an agent that has found an untrusted tool has the tool's label."""
    settings = ToolSettings(untrusted=untrusted)
    fixed = Catalog([tool("forecast", "mallory@evil", settings=settings)]).fixed()

    async def run(agent, text, context):
        asked = ToolCall(name="search_tools", arguments={"query": "forecast"})
        return (await fixed.call(asked)).value[0]["description"]

    result = ask(AgentTool("a", "expert", "d", runner=run))

    assert (result.text, result.metadata.get("sources")) == (
        "mallory@evil",
        ["forecast"] if untrusted else None,
    )


def test_layers_around_call_tool_reach_the_tools():
    """What is put around `call_tool` stands inside the inner tool's guardrails, and knows the inner call."""
    order = []

    def look(call, context):
        order.append("guardrail")

    async def around(call, context, proceed):
        order.append((call.name, context.schema.name, dict(call.arguments)))
        return await proceed()

    inner = tool("inner", "x", {"properties": {"n": {}}}, input_guardrails=[look])
    call_tool = Catalog([inner]).fixed()["call_tool"]
    around_it = Toolset([WrapperTool(call_tool.around(around))])
    outer = {"name": "inner", "arguments": {"n": 1}}

    assert call(around_it, "call_tool", outer).value == {"n": 1}
    assert order == ["guardrail", ("inner", "inner", {"n": 1})]
    order.clear()
    inner.add_input_guardrails([lambda call, context: order.append("added later")])
    assert call(around_it, "call_tool", outer).success
    assert order == ["guardrail", "added later", ("inner", "inner", {"n": 1})]
    order.clear()
    inner.input_guardrails.pop()
    assert call(Toolset([call_tool]), "call_tool", outer).success
    assert order == ["guardrail"]


def files():
    """`call_tool` of a catalogue with two tools that take the same arguments, and what they did."""
    did = []

    def named(name):
        def body(arguments):
            did.append(name)
            return f"{name} {arguments['path']}"

        return SchemaTool(name, "d", {"properties": {"path": {"type": "string"}}}, body)

    return Catalog([named("read"), named("delete")]).fixed(), did


def through(tools, name, id="1"):
    """Call a tool behind `call_tool`."""
    arguments = {"name": name, "arguments": {"path": "x"}}
    return asyncio.run(tools.call(ToolCall(name="call_tool", arguments=arguments, id=id)))


def test_a_journal_tells_the_tools_behind_call_tool_apart(journal):
    """Two tools with one id and the same arguments are two calls, as they are without `call_tool`."""
    fixed, did = files()
    for tools in (journal.once(fixed, "r"), journal.once([WrapperTool(fixed["call_tool"])], "r")):
        kept = tools if isinstance(tools, Toolset) else Toolset(tools)
        answers = [through(kept, "read").text, through(kept, "delete").text]
        assert answers == ["read x", "delete x"]

    assert did == ["read", "delete"]
    assert [entry.tool for entry in journal.calls()] == did
    assert journal.calls()[0].arguments == {"path": "x"}


def test_a_call_that_an_older_version_recorded_does_not_run_again(journal):
    """A journal that names `call_tool` where the called tool should stand refuses the same call."""
    fixed, did = files()
    old = SchemaTool("call_tool", "d", {"properties": {"path": {}}}, lambda arguments: "read x")
    call(Toolset([journal.once(old, "r")]), "call_tool", {"path": "x"})
    replayed = journal.replay("r", fixed)
    appending = journal.replay("r", fixed, strict=False)

    for tools in (journal.once(fixed, "r"), appending):
        refused = through(tools, "read").error
        assert refused.type == "JournalConflict" and "may have taken effect" in refused.message
    assert through(replayed, "read").error.type == "NotRecorded"
    assert did == []
    assert through(journal.once(fixed, "r"), "read", id="2").text == "read x"
    assert through(appending, "read", id="3").text == "read x"


def test_a_search_that_a_journal_kept_in_another_form_is_answered(tmp_path):
    """What `keep` of a journal made of the found tools is the answer when the search comes again."""
    for kept in ([WEATHER.name], [{"tool": 1}, {"name": []}], "one tool"):
        journal = Journal(
            tmp_path / str(len(kept)), keep=lambda result, kept=kept: ToolResult.of(kept)
        )
        tools = journal.once(Catalog(TOOLS).fixed(), "r")
        first, second = (call(tools, "search_tools", {"query": "forecast"}) for _ in range(2))
        assert first.value[0]["name"] == WEATHER.name and second.value == kept


def test_a_replay_tells_the_tools_behind_call_tool_apart(journal, tmp_path):
    """A call of one tool is never answered with the recorded result of another."""
    fixed, did = files()
    through(journal.once(fixed, "r"), "read")
    with recording(tmp_path / "calls") as use:
        through(use(fixed), "read")
    replayed = journal.replay("r", fixed)
    with recording(tmp_path / "calls") as use:
        for tools in (replayed, use(fixed)):
            assert through(tools, "delete").error.type == "NotRecorded"
            assert through(tools, "read").text == "read x"

    assert did == ["read", "read"]


def test_a_catalogue_behind_call_tool_of_another(journal):
    """A function around `call_tool` knows the tool, however many catalogues lie between."""
    inner, did = files()
    nested = Catalog([WrapperTool(inner["call_tool"], name="more")]).fixed()
    tools = journal.once(nested, "r")
    for name in ("read", "delete", "read"):
        arguments = {"name": name, "arguments": {"path": "x"}}
        outer = {"name": "more", "arguments": arguments}
        asyncio.run(tools.call(ToolCall(name="call_tool", arguments=outer, id="1")))

    assert did == ["read", "delete"]


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_tools(count):
    """A catalogue of many tools finds the one, and an unknown name among them is answered shortly."""
    many = [tool(f"tool_{chr(97 + n % 26)}{n}", f"Does thing number w{n}.") for n in range(count)]
    catalog = Catalog(many)

    assert names(catalog.search("w12345", 1)) == [many[12345].name]
    result = call(catalog.fixed(), "call_tool", {"name": "nothing"})
    assert len(result.text) < 300


def test_searches_may_run_on_several_threads():
    """A catalogue may be searched from any thread."""
    catalog = Catalog(TOOLS)

    async def both():
        return await asyncio.gather(
            *(asyncio.to_thread(catalog.search, f"forecasting zebra{n}") for n in range(40))
        )

    assert {tuple(names(found)) for found in asyncio.run(both())} == {("get_weather",)}


def test_a_query_of_many_words_is_cut():
    """Of more words than a search takes the rarest count."""
    rare = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(300)]
    index = WordIndex([[f"{word} common"] + [""] * 5 for word in rare])
    terms = index.terms(" ".join([*rare, "common"]))

    assert len(terms) == word_search.MAX_TERMS
    assert "common" not in terms


@pytest.mark.parametrize(
    ("begun", "word"),
    [('{"name": 3', "name"), ('{"tool": ', "tool"), ('{"name": "x", "arguments": [', "arguments")],
)
def test_a_stream_of_call_tool_is_judged(begun, word):
    """What `call_tool` can never take is refused while it is written; the inner arguments wait for their end."""

    @FunctionTool
    def divide(a: int, b: int) -> float:
        return a / b

    call_tool = Catalog([divide]).fixed()["call_tool"]

    assert word in str(call_tool.watch().feed(begun))
    whole = '{"name": "divide", "arguments": {"a": [], "c": 1}}'
    assert call_tool.watch().feed(whole) is None
    as_text = json.dumps({"name": "divide", "arguments": '{"a": 1, "b": 2}'})
    assert call_tool.watch().feed(as_text) is None


class Passing(WrapperTool):
    """A wrapper with a `run` of its own."""

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        return await self.tool.invoke(call, context)


def inside(search: Tool) -> Tool:
    """A tool whose body searches."""

    @FunctionTool(name="helper")
    async def helper(query: str, context: Context) -> Any:
        call = ToolCall(name=search.name, arguments={"query": query})
        return (await search.invoke(call, context)).value

    return helper


@pytest.mark.parametrize(
    "around",
    [
        lambda search: search,
        WrapperTool,
        Passing,
        lambda search: Passing(WrapperTool(search), input_guardrails=[require_approval()]),
        lambda search: Toolset([search]).prefixed("x_")["x_search_tools"],
        inside,
    ],
    ids=["bare", "wrapper", "own run", "approved", "prefixed", "body"],
)
def test_what_a_search_shows_of_untrusted_tools_is_no_trusted_value(around: Any) -> None:
    """What an untrusted tool says of itself is not trusted, whatever stands around the search."""

    @FunctionTool(settings=ToolSettings(untrusted=True))
    def mail() -> None:
        """eve@example.com"""

    @FunctionTool(input_guardrails=[trusted_only(wrote=lambda context: "hello")])
    def send(to: str) -> str:
        return to

    context = Context(approver=lambda request: True)
    search = around(Catalog([mail, send]).fixed()["search_tools"])
    found = call(Toolset([search]), search.name, {"query": "mail"}, context)

    assert "eve@example.com" in found.text
    assert "the model" in call(Toolset([send]), "send", {"to": "eve@example.com"}, context).text


def test_a_query_reads_none_of_the_words_of_the_definitions():
    """A word that no definition has is looked up as quickly among many words as among few."""

    def pages(count):
        index = WordIndex([_texts(count)])
        index.terms("unknown")
        return index._stems._database.execute("PRAGMA page_count").fetchone()

    assert pages(20_000) == pages(6)


def _texts(count):
    """Six texts with so many different words in all."""
    words = [f"{n:x}".translate(str.maketrans("0123456789", "ghijklmnop")) for n in range(count)]
    return [" ".join(words[place::6]) for place in range(6)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_while_another_thread_searches():
    """Otherwise the child would wait for ever for a lock that the thread of its parent held."""
    catalog, ended = Catalog([tool("pay", "Pay an invoice.")]), threading.Event()

    def search():
        while not ended.is_set():
            catalog.search(" ".join(f"unknown{n}" for n in range(1_000)))

    def child():
        if process := os.fork():
            return process
        signal.alarm(20)
        os._exit(0 if names(catalog.search("invoices")) == ["pay"] else 1)

    thread = threading.Thread(target=search)
    thread.start()
    endings = [os.waitpid(child(), 0)[1] for _ in range(10)]
    ended.set()
    thread.join()

    assert endings == [0] * 10


@pytest.mark.parametrize(("items", "beside"), [([[]], False), ([[]] * 100_000, True)])
def test_the_inner_call_of_a_large_call_is_read_in_a_thread(monkeypatch, items, beside):
    """`call_tool` finds the inner arguments on the event loop only if they are not large."""
    seen, as_sent = [], catalog_module._as_sent

    def noting(sent, given):
        seen.append(threading.current_thread().name)
        return as_sent(sent, given)

    monkeypatch.setattr(catalog_module, "_as_sent", noting)

    @FunctionTool
    async def take(items: list[object]) -> int:
        return len(items)

    sent = json.dumps({"name": "take", "arguments": {"items": items}})
    calling = Catalog([take]).fixed().call(ToolCall(name="call_tool", arguments=sent))

    assert asyncio.run(calling).value == len(items)
    assert [name == "functool" for name in seen] == [beside]


def test_a_large_call_of_an_unknown_tool_asks_on_the_event_loop():
    """The author's `is_enabled` is called there, as always."""
    seen = []

    def enabled(context):
        seen.append(threading.current_thread().name)
        return True

    tool = FunctionTool(lambda: None, name="take", settings=ToolSettings(is_enabled=enabled))
    sent = json.dumps({"name": "takes", "arguments": {"items": [[]] * 100_000}})
    calling = Catalog([tool]).fixed().call(ToolCall(name="call_tool", arguments=sent))

    assert "take" in asyncio.run(calling).text
    assert seen and "functool" not in seen
