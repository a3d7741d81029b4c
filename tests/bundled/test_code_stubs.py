"""The stubs of code mode: the checker accepts what a tool accepts, and refuses what it refuses."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from functool import FunctionTool, SchemaTool, ToolSettings
from functool.bundled.code_mode import code_mode
from functool.bundled.code_stubs import Stubs
from tests.bundled.programs import run, value_of
from tests.schemas import INT, STR, any_of, array, obj, ref


class Inner(BaseModel):
    x: int = 1


class Point(BaseModel):
    a: int
    inner: Inner | None = None
    tags: list[str] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Nothing(BaseModel):
    pass


def gives(name, kind, value):
    """A tool without arguments that returns a value of a type."""

    def give():
        return value

    give.__annotations__ = {"return": kind}
    return FunctionTool(give, name=name, description="Give.")


def takes(name, kind):
    """A tool with one argument of a type."""

    def take(data):
        return "taken"

    take.__annotations__ = {"data": kind, "return": str}
    return FunctionTool(take, name=name, description="Take.")


@FunctionTool
def more(a: int, **others: Any) -> list[str]:
    """Take more arguments."""
    return [*others]


@FunctionTool
def numbered(a: int, **others: int) -> list[str]:
    """Take more numbers."""
    return [*others]


@FunctionTool(settings=ToolSettings(untrusted=True))
def mail() -> list[int]:
    """Read."""
    return [1, 2]


TOOLS = [
    gives("ints", list[int], [1, 2]),
    gives("counts", dict[str, int], {"a": 1}),
    gives("point", Point, Point(a=1)),
    gives("points", list[Point], [Point(a=1)]),
    takes("take_floats", list[float]),
    takes("take_maybes", list[int | None]),
    takes("take_texts", list[str]),
    takes("take_tables", list[list[float]]),
    takes("take_numbers", dict[str, float]),
    takes("take_any", dict[str, Any]),
    takes("take_rows", list[dict[str, Any]]),
    takes("take_point", Point),
    takes("take_points", list[Point]),
    takes("take_open", Open),
    takes("take_nothing", Nothing | None),
    more,
    numbered,
]


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize(
    "code",
    [
        "await take_floats(data=await ints())",
        "await take_floats(data=[n * 2 for n in await ints()])",
        "await take_maybes(data=await ints())",
        "await take_tables(data=[await ints(), [1.5]])",
        "await take_numbers(data=await counts())",
        "await take_any(data=await point())",
        "await take_rows(data=await points())",
        "await take_rows(data=[await point(), {'b': [1]}])",
        "await take_point(data=await point())",
        "await take_points(data=await points())",
        "await take_points(data=[{'a': 1, 'inner': {'x': 2}, 'tags': ['t']}, await point()])",
        "await take_point(data={**await point(), 'a': 2})",
        "p: TakePointPoint = {'a': 1}\nawait take_point(data=p)",
        "p: Open = {'a': 1}\nawait take_open(data=p)",
        "await take_open(data={'a': 1, 'b': 2})",
        "await take_nothing(data={})",
        "await take_texts(data='a b'.split())",
        "await more(a=1, b='x')",
        "await numbered(a=1, b=2)",
    ],
)
def test_what_a_tool_takes_passes_the_check(code, untrusted):
    """A program may pass on what another tool returned, and send all that a tool accepts."""
    result = run(code_mode([*TOOLS, mail] if untrusted else TOOLS), code)

    assert result.success, result.text


@pytest.mark.parametrize(
    "code",
    [
        "print(max(await points(), key=lambda p: p['a']))",
        "d = {'x': 1}\nprint(max(d, key=lambda key: d[key]), min(d.items(), key=lambda p: p[1]))",
        "print(1, sep='', end='', flush=True)",
    ],
)
def test_what_is_printed_passes_the_check(code):
    """The checker knows the type of what a lambda gets, also inside of `print`."""
    result = run(code_mode(TOOLS), code)

    assert result.success, result.text


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize(
    "code",
    [
        "await take_texts(data='abc')",
        "await take_texts(data=await ints())",
        "await take_floats(data={'a': 1})",
        "await take_floats(data=['a'])",
        "await take_numbers(data={'a': 'x'})",
        "await take_any(data=[1])",
        "await take_any(data='x')",
        "await take_points(data=[{'b': 1}])",
        "await take_points(data=await point())",
        "await take_point(data={'a': 1, 'b': 2})",
        "await take_point(data={'a': 1, 'tags': 'xy'})",
        "await take_point(data={'a': 1, 'inner': {'x': 'y'}})",
        "await numbered(a=1, b='x')",
        "await take_floats(data=None)",
    ],
)
def test_what_no_tool_takes_is_refused_before_anything_runs(code, untrusted):
    """The checker names the line and the types, in the words of the stubs."""
    result = run(code_mode([*TOOLS, mail] if untrusted else TOOLS), f"await ints()\n{code}")

    assert "The program was not run, and nothing happened" in result.text
    assert "- line 2: " in result.text
    assert "_functool" not in result.text


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("_look_up", "tool_look_up"),
        ("2fa-send", "tool_2fa_send"),
        ("查询", "tool__"),
        ("datetime", "datetime_"),
        ("json", "json_"),
    ],
)
def test_a_tool_of_any_name_can_be_called(name, function):
    """The checker knows the function that the description shows, also beside the modules."""
    tool = code_mode([SchemaTool(name, "Answer.", {}, lambda arguments: name)])

    assert f"async def {function}(" in tool.description
    code = f"import datetime, json\n[await {function}(), datetime.date(2024, 1, 2).year]"
    assert value_of(tool, code) == [name, 2024]


def test_an_untrusted_value_may_stand_in_further_arguments():
    """A value that nobody may look at goes where a number is wanted, also by a name of its own."""
    result = run(code_mode([*TOOLS, mail]), "m = await mail()\nawait numbered(a=1, b=m.part(0))")

    assert result.metadata["sources"] == ["mail"]
    assert [call["outcome"] for call in result.metadata["calls"]] == ["done", "done"]


def test_a_dict_in_a_variable_is_told_its_type():
    """The checker does not know the fields of a dict in a variable, so the error says what to write."""
    result = run(code_mode(TOOLS), "p = {'a': 1}\nawait take_point(data=p)")

    assert "A dict in a variable needs its type: d: TakePointPoint = {...}." in result.text


ADDS = {"$defs": {"A": obj({"a": INT})}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (obj({"a": INT}, type=["object", "null"]), None),
        (obj({"a": INT}, type=["object", "string"]), "x"),
        (obj({"a": INT}, additionalProperties=INT), {"a": 1, "b": 2}),
        (obj({"a": INT}, patternProperties={"^x": STR}), {"a": 1, "xx": "y"}),
        (obj({"a": INT}, anyOf=[obj({"b": INT}), obj({"c": INT})]), {"a": 1, "b": 2}),
        (obj({"a": INT}, allOf=[obj({"b": INT}), obj({"c": INT})]), {"a": 1, "b": 2, "c": 3}),
        (obj({"a": INT}, **{"if": {"required": ["a"]}, "then": obj({"b": INT})}), {"a": 1, "b": 2}),
        (ref("A", properties={"b": INT}), {"a": 1, "b": 2}),
        ({"allOf": [ref("A")], "properties": {"b": INT}}, {"a": 1, "b": 2}),
        ({"type": "array", "prefixItems": [INT], "items": STR}, [1, "x"]),
        (any_of({"type": "null"}, obj({"a": INT})), {"a": 1}),
        (ref("A"), {"a": 1}),
    ],
)
def test_what_a_strangers_schema_takes_passes_the_check(schema, value):
    """Where several parts of a schema describe one value, the checker refuses nothing."""
    parameters = {"type": "object", "properties": {"data": schema}, **ADDS}
    tool = SchemaTool("foreign", "Foreign.", parameters, lambda given: given["data"])
    assert tool.bind({"data": value}).arguments == {"data": value}

    result = run(code_mode([tool]), f"await foreign(data={value!r})")

    assert result.success, result.text
    assert result.value["value"] == value


def test_an_argument_named_others_stays_apart():
    """A tool with an argument `others` and further ones takes both."""
    parameters = obj({"others": INT}, additionalProperties=True)
    tool = SchemaTool("foreign", "Foreign.", parameters, lambda given: given)

    assert "(*, others: int = ..., **others_2: Any)" in code_mode([tool]).description
    result = run(code_mode([tool]), "await foreign(others=1, more=[2])")
    assert result.value["value"] == {"others": 1, "more": [2]}


@pytest.mark.parametrize("value", [{"k1": 1}, [{"k1": 1}]])
def test_a_union_of_very_many_parts_stops_no_program(value):
    """The interpreter reads a long union as a deep nesting, and would refuse every program."""
    union = any_of(*(obj({f"k{n}": INT}) for n in range(300)))
    data = array(union) if isinstance(value, list) else union
    tool = SchemaTool("foreign", "Foreign.", obj({"data": data}), lambda given: given["data"])

    assert value_of(code_mode([tool, mail]), f"await foreign(data={value})") == value
    assert value_of(code_mode([*TOOLS, tool]), "await ints()") == [1, 2]


def test_long_names_make_no_long_stubs():
    """Names of parameters and fields count too. A tool beyond the limit still takes its arguments."""
    names = [f"a_long_name_of_a_parameter_{n}" for n in range(20_000)]
    wide = SchemaTool("wide", "Wide.", obj(dict.fromkeys(names, INT)), len)
    deep = SchemaTool("deep", "Deep.", obj({"data": obj(dict.fromkeys(names, INT))}), len)
    stubs = Stubs([wide, deep, wide, deep])

    assert len(stubs.checked) < 2_500_000
    tool = code_mode([wide, deep, SchemaTool("last", "Last.", obj({"data": INT}), len)])
    code = f"[await deep(data={{{names[0]!r}: 1}}), await wide({names[1]}=1), await last(data=3)]"
    assert value_of(tool, code) == [1, 1, 1]


@pytest.mark.parametrize(
    ("stranger", "ours", "other"),
    [("send-mail", "send_mail", "send_mail_"), ("open", "open_", "open__2")],
)
def test_a_tool_keeps_its_own_name(stranger, ours, other):
    """A tool whose name is no identifier does not take the name of another, wherever it stands."""
    strange = FunctionTool(lambda: "strange", name=stranger, description="Send.")
    tool = FunctionTool(lambda: "ours", name=ours, description="Send.")

    for tools in ([strange, tool], [tool, strange]):
        both = value_of(code_mode(tools), f"[await {ours}(), await {other}()]")
        assert both == ["ours", "strange"]
