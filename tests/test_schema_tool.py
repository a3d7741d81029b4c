"""SchemaTool: a tool from a JSON Schema that somebody else wrote."""

import threading
import time

import pytest
import referencing

from functool import (
    ArgumentError,
    Context,
    DefinitionError,
    SchemaError,
    SchemaTool,
    ToolCall,
    ToolError,
    ToolResult,
)
from functool.binding import engine
from functool.guardrails import trusted_only
from tests.schemas import INT, STR, any_of, dict_of, obj, ref
from tests.support import call, foreign

PARAMETERS = obj({"city": STR, "days": {**INT, "default": 1}}, required=["city"])


def test_handlers_take_arguments_and_perhaps_the_context():
    """`handler(arguments)` or `handler(arguments, context)`, sync or async, with defaults filled in."""

    async def both(arguments, context):
        return (arguments, context.call.id)

    def one(arguments):
        return (arguments, threading.current_thread() is threading.main_thread())

    def star(*given):
        return len(given)

    def awaitable(arguments):
        return both(arguments, Context().view(call=ToolCall(name="x", id="i")))

    def answer(handler):
        return call(foreign(PARAMETERS, handler), '{"city": "Rome"}').value

    rome = {"city": "Rome", "days": 1}
    assert answer(both) == (rome, "c1")
    assert answer(one) == (rome, False)
    assert answer(star) == 2
    assert answer(awaitable) == (rome, "i")


def test_a_handler_may_change_its_arguments():
    """What a handler takes out of its arguments is still what the model wrote, so `trusted_only` does not trust it."""

    def save(arguments):
        arguments["stops"][0].pop("via")
        return {"saved": arguments.pop("city")}

    stops = {"type": "array", "items": obj({"via": STR})}
    saves = foreign(obj({"city": STR, "stops": stops}), save)
    guard = trusted_only("city", wrote=lambda context: "Book a room.")
    books = foreign(PARAMETERS, lambda arguments: "booked", input_guardrails=[guard])
    context, sent = Context(), {"city": "Eville", "stops": [{"via": "x"}]}

    assert call(saves, sent, context).value == {"saved": "Eville"}
    assert "/city is from the model" in call(books, {"city": "Eville"}, context).text
    assert sent == {"city": "Eville", "stops": [{"via": "x"}]}


def test_a_result_or_an_error_of_the_handler():
    """A handler may return a `ToolResult` or raise."""

    def refuse(arguments):
        raise ToolError("closed")

    assert call(foreign(PARAMETERS, lambda a: ToolResult.failed("no")), {"city": "x"}).text == "no"
    assert call(foreign(PARAMETERS, refuse), {"city": "x"}).text == "closed"


@pytest.mark.parametrize("parameters", [{"type": "array"}, STR, [], None, "object"], ids=str)
def test_parameters_are_the_schema_of_an_object(parameters):
    """Another root is refused at definition."""
    with pytest.raises(DefinitionError, match="object"):
        SchemaTool("f", "F.", parameters, print)


@pytest.mark.parametrize("word", ["enum", "anyOf", "oneOf", "allOf"])
def test_a_keyword_that_is_null_spoils_only_its_own_argument(word):
    """Some servers write null for an empty list. A call without that argument still runs."""
    tool = foreign(obj({"a": INT, "b": {word: None}}))

    assert call(tool, {"a": 1}).value == {"a": 1}
    assert "could not be checked" in call(tool, {"b": 1}).text


@pytest.mark.parametrize("draft", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
@pytest.mark.parametrize(
    ("older", "good", "bad"),
    [
        ({"type": "array", "items": [INT, STR]}, [1, "x"], ["x"]),
        ({"type": "array", "items": [INT], "additionalItems": False}, [1], [1, 2]),
        ({"type": "array", "items": [INT, {"$ref": "#/properties/b/items/0"}]}, [1, 2], [1, "x"]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, 0.5, 0),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": False}, 0, -1),
        ({"type": "number", "maximum": 9, "exclusiveMaximum": True}, 5, 9),
        ({"type": "number", "maximum": 9, "exclusiveMaximum": False}, 9, 10),
    ],
    ids=str,
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_tuple_and_a_limit_of_an_older_draft_mean_what_they_meant_there(
    draft, older, good, bad, strict
):
    """MCP servers write tuples as draft 7 does, and OpenAPI 3.0 exclusive limits as draft 4."""
    parameters = {**obj({"b": older}), **draft}
    tool = foreign(parameters, strict=strict)

    assert call(tool, {"b": good}).value == {"b": good}
    assert "could not be checked" not in call(tool, {"b": bad}).text
    assert call(tool, {"b": bad}).is_error
    assert tool.watch().feed('{"b": true') is not None
    assert "$schema" not in tool.schema.plain, "it follows 2020-12 now"
    assert parameters == {**obj({"b": older}), **draft}, "the caller's own is as it was"


@pytest.mark.parametrize(
    "tuples", [{}, {"a": {"type": "array", "items": [INT], "additionalItems": STR}}], ids=str
)
def test_only_a_reference_into_what_was_written_anew_changes(tuples):
    """Further items of an older tuple moved, and what is only called `items` did not."""
    shared = {"items": {"0": STR}}
    parameters = obj({**tuples, "b": ref("items/0"), "c": {"$ref": "#/x-shared/items/0"}})
    parameters |= {"$defs": shared, "x-shared": shared}
    if tuples:
        parameters["properties"]["d"] = {"$ref": "#/properties/a/additionalItems"}
    tool = foreign(parameters)
    sent = {**({"a": [1, "x"], "d": "x"} if tuples else {}), "b": "x", "c": "x"}

    assert call(tool, sent).value == sent
    for name in sent:
        assert not call(tool, {**sent, name: 1}).success


def test_a_schema_that_holds_itself_ends():
    """An author who resolves references in Python gets a schema with a loop, and no endless one."""
    loop = obj({"next": INT})
    loop["properties"]["more"] = loop

    assert foreign(loop).name


@pytest.mark.parametrize(
    "shared",
    [
        {"enum": [f"v{number}" for number in range(20_000)]},
        {"anyOf": [{"const": number} for number in range(20_000)]},
        {"allOf": [{"title": f"t{number}"} for number in range(20_000)]},
    ],
    ids=lambda shared: next(iter(shared)),
)
def test_many_references_to_a_long_list_read_it_once(shared):
    """Twenty thousand optional parameters that refer to a list of as many choices are a tool at once, not after minutes."""
    part = {"$ref": "#/$defs/Long", "title": "a copy"}
    parameters = {**obj({f"p{n}": part for n in range(20_000)}), "$defs": {"Long": shared}}
    tool = SchemaTool("f", "F.", parameters, lambda arguments: arguments, max_argument_bytes=None)
    null_is_left_out = "allOf" not in shared
    assert call(tool, {"p7": None}).value == ({} if null_is_left_out else {"p7": None})


@pytest.mark.parametrize(
    "properties", [[1], {"a": {"anyOf": 7}}, {"a": {"anyOf": [7], "oneOf": 7}, "b": {"oneOf": 7}}]
)
def test_parameters_that_are_no_schema_are_refused(properties):
    """What cannot be read as a JSON Schema is the author's error, at the definition, with the tool's name."""
    with pytest.raises(
        DefinitionError,
        match=r"^f \(.*test_schema_tool.py:\d+\): the parameters are no JSON Schema",
    ):
        SchemaTool("f", "F.", obj(properties), lambda arguments: 1)


def test_empty_parameters_take_no_arguments():
    """`{}` is a tool without arguments."""
    tool = foreign({})

    assert call(tool).value == {}
    assert call(tool, {"x": 1}).is_error


@pytest.mark.parametrize("handler", [lambda: 0, lambda a, b, c: 0, "text"])
def test_a_handler_takes_one_or_two_arguments(handler):
    """Another handler is refused at definition."""
    with pytest.raises(DefinitionError, match="handler"):
        SchemaTool("f", "F.", PARAMETERS, handler)


@pytest.mark.parametrize("executor", ["threads", 5, threading.Thread])
def test_what_is_no_executor_is_refused_at_definition(executor):
    """The error names the tool, the file and the line; it came in each call."""
    said = r"^f \(.*test_schema_tool\.py:\d+\): an executor is "
    with pytest.raises(DefinitionError, match=said):
        SchemaTool("f", "F.", PARAMETERS, print, executor=executor)


def test_a_builtin_handler_gets_the_arguments():
    """A callable without a readable signature, a class too, gets the arguments alone."""
    got = []

    assert call(foreign(PARAMETERS, got.append), {"city": "x"}).success
    assert got == [{"city": "x", "days": 1}]
    assert call(foreign(PARAMETERS, dict), {"city": "x"}).value == {"city": "x", "days": 1}


def test_strict_schemas_are_encoded_and_decoded():
    """A foreign schema has a strict form too, and the handler sees the plain one."""
    schema = obj({"m": dict_of(INT), "n": INT}, required=["m"])
    tool = foreign(schema, strict=True)

    assert tool.schema.parameters["required"] == ["m", "n"] and tool.schema.plain == schema
    assert call(tool, {"m": [{"key": "a", "value": 1}], "n": None}).value == {"m": {"a": 1}}
    assert call(tool, {"m": {"a": 1}}).value == {"m": {"a": 1}}
    with pytest.raises(SchemaError):
        foreign(schema, print, strict="refuse")


def test_the_callers_schema_is_not_shared():
    """Changing the dict afterwards does not change what is checked."""
    schema = obj({"n": {"type": "integer"}})
    tool = foreign(schema)
    schema["properties"]["n"]["type"] = "string"
    schema["properties"]["m"] = {}

    assert call(tool, {"n": 1}).value == {"n": 1}
    assert list(tool.schema.plain["properties"]) == ["n"]


def test_strict_publishes_further_names_as_pairs():
    """What `additionalProperties` admit is published as a list of pairs, and reaches the handler flat, however it was sent."""
    schema = obj({"a": STR}, required=["a"], additionalProperties=INT)
    tool = foreign(schema, strict=True)

    assert list(tool.schema.parameters["properties"]) == ["a", "extra"]
    for arguments in ({"a": "x", "extra": [{"key": "b", "value": 3}]}, {"a": "x", "b": 3}):
        assert call(tool, arguments).value == {"a": "x", "b": 3}


def test_a_name_that_was_not_evaluated_is_refused():
    """`unevaluatedProperties` refuses a name that only another branch knows, and says which."""
    schema = {
        "type": "object",
        "properties": {"kind": STR},
        "if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]},
        "then": {"properties": {"extra": INT}},
        "unevaluatedProperties": False,
    }
    tool = foreign(schema, lambda arguments: "done")

    assert call(tool, {"kind": "x", "extra": 1}).text == "done"
    assert "extra: unknown argument; known: kind" in call(tool, {"kind": "y", "extra": 1}).text


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"items": {"enum": list(range(20_000))}}, [-1] * 200),
        ({"items": {"properties": {f"p{n}": {} for n in range(20_000)}}}, [{}] * 200),
        ({"items": {"required": ["p"] * 20_000}}, [{"p": 1}] * 200),
        ({"items": {"type": ["string"] * 20_000 + ["integer"]}}, [1] * 200),
        ({"items": {"$ref": "#" + "/$defs" * 90}}, [1] * 200),
        ({"items": {"$dynamicRef": "#" + "/$defs" * 90}}, [1] * 200),
        ({"items": {"dependentRequired": {f"p{n}": [] for n in range(20_000)}}}, [{}] * 200),
        ({"items": {"dependentRequired": {"p": ["p"] * 20_000}}}, [{"p": 1}] * 200),
        ({"items": {"dependentSchemas": {f"p{n}": {} for n in range(20_000)}}}, [{}] * 200),
        (
            {"patternProperties": {f"^x{n}$": {} for n in range(2_000)}},
            {f"k{n}": 1 for n in range(200)},
        ),
        ({"pattern": "[ab]*a[ab]{5000}c"}, "ab" * 5_000),
        ({"pattern": "([ab]*a[ab]{50}){100}c"}, "ab" * 5_000),
    ],
)
def test_long_keywords_count_as_much_work(part, value):
    """A keyword that looks at all of its members, or a pattern, is no single step of the budget."""
    nested: dict[str, object] = {}
    for _ in range(90):
        nested = {"$defs": nested}
    tool = _tool({"a": part}, nested)

    assert "too much work" in call(tool, {"a": value}).text


def test_the_members_of_a_keyword_are_counted_once(monkeypatch):
    """To count the choices of an `enum` takes long too, so a list of items shares one count."""
    counted, count = [], engine._count
    monkeypatch.setattr(engine, "_count", lambda *given: counted.append(given) or count(*given))

    assert call(_tool({"a": {"items": {"enum": ["x", "y"]}}}), {"a": ["x"] * 1_000}).text == "ok"
    assert len([word for _, word in counted if word == "enum"]) == 3


@pytest.mark.usefixtures("little_work")
def test_following_a_reference_counts_as_five_steps():
    """It takes five times as long as a keyword of the schema itself."""
    tool = _tool({"a": {"allOf": [ref("n")] * 2_000}, "b": {"allOf": [INT] * 4_000}}, {"n": INT})

    assert "too much work" in call(tool, {"a": 1}).text
    assert "too much work" not in call(tool, {"b": 1}).text


_META = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"a": {"$schema": _META, "pattern": "^(a+)+$"}}}, "a" * 60 + "b"),
        (
            {"properties": {"a": {"$ref": _META}}, "pattern": "^(a+)+$", "$dynamicAnchor": "meta"},
            {"properties": {"x": "a" * 60 + "b"}},
        ),
    ],
)
def test_a_named_meta_schema_changes_no_engine(schema, value):
    """A `$schema`, in the stranger's schema or in one of the specification, leaves patterns linear."""
    tool = foreign({"type": "object", **schema}, lambda arguments: "ok")

    assert call(tool, {"a": value}).error.type == "ArgumentError"


def _in_lists(value):
    for _ in range(90):
        value = [value]
    return value


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"items": {f"k{n}": 1 for n in range(20_000)}}, [1] * 10_000),
        ({"allOf": [ref("same")] * 500}, [1] * 20_000),
        ({"allOf": [ref("inner")] * 10}, [[[1] * 20_000]]),
        ({"allOf": [{"items": True}] * 50}, [1] * 4_000),
        ({"allOf": [{"contains": True}] * 50}, [1] * 4_000),
        ({"allOf": [{"unevaluatedItems": True}] * 50}, [1] * 4_000),
        ({"allOf": [{"additionalProperties": True}] * 50}, {f"k{n}": 1 for n in range(2_000)}),
        ({"allOf": [{"unevaluatedProperties": True}] * 50}, {f"k{n}": 1 for n in range(2_000)}),
        ({"allOf": [{"propertyNames": True}] * 50}, {f"k{n}": 1 for n in range(2_000)}),
        ({"contains": False}, [1] * 20_000),
        ({"allOf": [{"items": True}] * 4, "unevaluatedItems": False}, [1] * 5_000),
        ({"items": {"enum": [_in_lists(1)] * 15}}, [_in_lists(2)] * 30),
        ({"items": {"enum": [{"a": 1}] * 500}}, [{"a": 2}] * 50),
        ({"items": {"enum": list(range(2_000))}}, [-1] * 45),
    ],
)
def test_long_keywords_and_long_values_count(part, value):
    """Unknown keywords, a long `const`, and long values that each of many keywords looks at, count."""
    long = [1] * 20_000
    tool = _tool({"a": part}, {"same": {"const": long}, "inner": {"const": [[long]]}})

    assert "too much work" in call(tool, {"a": value}).text


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"patternProperties": {"^x": {}}, "allOf": [{"properties": {"a": {}}}]},
            {"x1": 1, "a": 2},
            {"x1": 1, "b": 2},
        ),
        (
            {"$ref": "#/$defs/p", "$defs": {"p": {"patternProperties": {"^x": {}}}}},
            {"x1": 1},
            {"y": 1},
        ),
        (
            {"if": {"required": ["a"]}, "then": {"patternProperties": {".": {}}}},
            {"a": 1, "b": 1},
            {"b": 1},
        ),
        (any_of({"patternProperties": {"^x": {"const": 1}}}, {}), {"x": 1}, {"x": 2}),
        ({"dependentSchemas": {"a": {"patternProperties": {".": {}}}}}, {"a": 1, "b": 1}, {"b": 1}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": {}}, {"y": 1}, None),
        ({"allOf": [{"unevaluatedProperties": INT}]}, {"y": 1}, {"y": "x"}),
    ],
)
def test_what_patterns_match_is_evaluated(schema, good, bad):
    """`unevaluatedProperties` beside `patternProperties` takes the names that match, and no other."""
    tool = foreign({"type": "object", **schema, "unevaluatedProperties": False}, lambda a: "ok")

    assert call(tool, good).text == "ok"
    assert bad is None or call(tool, bad).error.type == "ArgumentError"


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"prefixItems": [{}, {}]}, [1, 2], [1, 2, 3]),
        ({"contains": INT}, [1, 2], [1, "x"]),
        ({"if": {"prefixItems": [{"const": 1}]}, "else": {"items": {}}}, [2, 3], [1, 3]),
        ({"allOf": [{"unevaluatedItems": INT}]}, [1, 2], [1, "x"]),
    ],
)
def test_what_list_keywords_look_at_is_evaluated(part, good, bad):
    """`unevaluatedItems` takes the items that another keyword looks at, and no other."""
    tool = _tool({"a": {**part, "unevaluatedItems": False}})

    assert call(tool, {"a": good}).text == "ok"
    assert call(tool, {"a": bad}).text.startswith(f"Invalid arguments. a[{len(bad) - 1}]:")


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize("part", [{"items": True}, {"contains": True}])
def test_many_evaluated_items_are_counted_once(part):
    """Ten thousand items that are evaluated pass `unevaluatedItems`: the work grows with them."""
    assert call(_tool({"a": {**part, "unevaluatedItems": False}}), {"a": [1] * 10_000}).text == "ok"


def test_ordinary_patterns_and_enums_pass_on_long_arguments():
    """The budget is for hostile schemas: a megabyte of base64 and a thousand choices fit."""
    parts = {
        "data": {**STR, "pattern": "^[A-Za-z0-9+/]*={0,2}$"},
        "codes": {"items": {"enum": [f"C{n}" for n in range(250)]}},
        "names": {"items": {"pattern": r"^[\w .-]{1,64}$"}},
    }
    sent = {"data": "ab" * 500_000, "codes": ["C249"] * 1_000, "names": ["a name"] * 1_000}

    assert call(_tool(parts), sent).text == "ok"


@pytest.mark.parametrize("word", ["$anchor", "$id"])
def test_identifiers_are_looked_for_once(word, monkeypatch):
    """Each reference to an identifier would otherwise walk through the whole schema again."""
    walks = []
    crawl = referencing.Registry.crawl
    monkeypatch.setattr(referencing.Registry, "crawl", lambda self: walks.append(1) or crawl(self))
    name, reference = ("here", "#here") if word == "$anchor" else ("urn:here", "urn:here")
    definitions = {"here": {word: name, "type": "integer"}}
    tool = _tool({"a": {"items": {"$ref": reference}}}, definitions)

    assert call(tool, {"a": [1] * 100}).text == "ok"
    assert "a[1]: expected an integer" in call(tool, {"a": [1, "x"]}).text
    assert len(walks) < 10


def test_references_are_seen_from_the_identifier_of_the_root():
    """A schema that names itself may refer to its parts by relative names."""
    schema = {
        "$id": "https://example.com/root.json",
        "type": "object",
        "properties": {"a": {"$ref": "part.json"}, "b": ref("part")},
        "$defs": {"part": {**INT, "$id": "part.json"}},
    }
    tool = foreign(schema, lambda given: "ok")

    assert call(tool, {"a": 1, "b": 2}).text == "ok"
    assert "a: expected an integer" in call(tool, {"a": "x"}).text


def test_an_unknown_name_is_compared_with_some_of_the_known_ones():
    """A schema of many names costs no more than one of a few hundred."""
    parts = {f"name_{n}": {} for n in range(50_000)}
    schema = {"properties": parts, "additionalProperties": False}
    result = call(_tool({"a": schema}), {"a": {"nome_7": 1, "nome_49999": 1}})

    assert "a.nome_7: unknown argument; did you mean 'name_7'?" in result.text
    assert "'name_49999'" not in result.text


def _tool(parts, definitions=None):
    async def handler(arguments):
        return "ok"

    schema = {"type": "object", "properties": parts, "$defs": definitions or {}}
    return SchemaTool("x", "", schema, handler, max_argument_bytes=None)


def looking(properties, **keywords):
    """A tool with a stranger's schema."""
    schema = {"type": "object", "properties": properties, **keywords}
    return SchemaTool("look", "Look.", schema, lambda arguments: "looked")


def levels(count, members, last):
    """Definitions in which each refers to the next one several times."""
    unions = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * members} for i in range(count)}
    return {**unions, f"a{count}": last}


@pytest.mark.parametrize(
    ("definitions", "answer"),
    [
        (levels(30, 30, {"type": "string"}), "looked"),
        (levels(30, 30, {"type": "array"}), "too much work"),
        ({"a0": {"allOf": [{"$ref": "#/$defs/a0"}] * 10}}, "could not be checked"),
        ({f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(5_000)}, "could not be checked"),
    ],
    ids=["texts", "lists", "itself", "a chain"],
)
def test_a_definition_that_is_used_again_and_again_is_looked_at_once(definitions, answer):
    """Unions of references doubled the work at each level, and 30 levels never ended."""
    tool = looking({f"p{i}": {"$ref": "#/$defs/a0"} for i in range(500)}, **{"$defs": definitions})
    assert answer in call(tool, {"p0": "x"}).text


def test_a_schema_that_is_nested_too_deeply_is_a_definition_error():
    """It is the stranger's mistake, and no RecursionError."""
    part = {"type": "string"}
    for _ in range(3_000):
        part = {"type": "array", "items": part}
    with pytest.raises(DefinitionError, match="look .*no JSON Schema"):
        looking({"x": part})


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({"anyOf": [{"type": "integer"}] * 100}, "x" * 100_000),
        ({"anyOf": [{"required": [f"n{i}" for i in range(1_000)]}] * 3}, {}),
        ({"allOf": [{"pattern": rf"\w{{90}}|{i}"} for i in range(6)]}, "x"),
        ({"allOf": [{"pattern": rf"\w{{140}}|{i}"} for i in range(4)]}, "x"),
    ],
    ids=["messages", "names", "patterns", "large patterns"],
)
def test_what_a_mismatch_costs_counts_as_work(part, sent):
    """A mismatch repeats the value, and is an object; a class is large."""
    assert "too much work" in call(looking({"x": part}), {"x": sent}).text


@pytest.mark.parametrize("pattern", [r"^[\w.+-]{1,64}@[\w-]{1,63}\.[a-z]{2,}$", r"^[\w@.]{1,128}$"])
def test_a_large_pattern_is_compiled_once_in_a_check(pattern):
    """Twenty addresses took too much work, because the pattern was compiled for each of them."""
    tool = looking({"x": {"type": "array", "items": {"pattern": pattern}}})
    assert call(tool, {"x": ["ada@example.com"] * 100}).success
    assert "pattern" in call(tool, {"x": ["ada@example.com", "a da"]}).text


def test_a_list_without_repetitions_is_recognised():
    """Numbers that a stranger has chosen to have one hash take no more work than others."""
    tool = looking({"x": {"uniqueItems": True}})

    assert call(tool, {"x": [1, 2**61, 2**62 - 1, True, "1", [1], [True], {"a": 1}]}).success
    assert call(tool, {"x": "aa"}).success
    assert "uniqueItems" in call(tool, {"x": [1, 2**61, 2, 2**61]}).text
    same_hash = [(2**61 - 1) * i for i in range(1, 20_000)]
    assert call(tool, {"x": same_hash}).success
    assert "uniqueItems" in call(tool, {"x": [*same_hash, same_hash[0]]}).text


@pytest.mark.usefixtures("little_work")
def test_each_item_that_is_compared_with_the_others_counts_as_work():
    """Nine times the same rule about a megabyte of short items took four seconds."""
    ids = {"x": [*range(10_000)]}
    assert call(looking({"x": {"uniqueItems": True}}), ids).success
    assert "too much work" in call(looking({"x": {"allOf": [{"uniqueItems": True}] * 9}}), ids).text
    assert "too much work" in call(looking({"x": {"uniqueItems": True}}), {"x": [1] * 40_000}).text


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize(
    "pattern",
    [
        r"\pL{190}",
        r"\p{L}{190}",
        rf"\p{{L{'_' * 100}}}{{190}}",
        r"\w+{190}",
        r"\w{0000000190}",
        r"\w{1000000000}",
        r"[[a]\w]{190}",
        f"[{''.join(map(chr, range(0x400, 0x784, 3)))}]{{800}}",
        r"(?x)\w {190}",
        r"(?x)\w{1 90}",
    ],
)
def test_a_large_pattern_counts_in_every_spelling(pattern):
    """A schema of 19 kB with such patterns took half a minute and 5 GB to check one letter."""
    part = {"allOf": [{"pattern": f"{pattern}|{i}|x"} for i in range(6)]}
    assert "too much work" in call(looking({"x": part}), {"x": "x"}).text


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)" + "[\u0100-\uffff]" * 200,
        f"(?si:[{'[!-~]' * 200}])",
        "x(?i)" + r"\p{Any}" * 200,
        "(?i)" + "[[^a]x]" * 200,
        "(?i)" + "[[:^alpha:]x]" * 200,
        "(?i)" + (f"{'[' * 60}[^a]{'x]' * 60}") * 4,
    ],
    ids=["ranges", "in one class", "names", "negations", "negated names", "classes in classes"],
)
def test_a_range_counts_where_a_pattern_ignores_case(pattern):
    """The engine looks up the cases of each character: 4 kB took seven seconds."""
    assert "too much work" in call(looking({"x": {"pattern": pattern}}), {"x": "x"}).text
    mail = {"pattern": r"(?i)^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$"}
    assert call(looking({"x": mail}), {"x": "a@b.COM"}).success


def test_ordinary_patterns_that_ignore_case_are_no_work():
    """A range of ASCII letters is compiled in microseconds, so a hundred such patterns are checked."""
    mails = [rf"(?i)^[A-Z0-9._%+-]{{1,{i + 2}}}@[A-Z0-9.-]+\.[A-Z]{{2,}}$" for i in range(100)]
    tool = looking({f"p{i}": {"pattern": mail} for i, mail in enumerate(mails)})
    assert call(tool, {f"p{i}": "a@b.ch" for i in range(100)}).success


def test_a_pattern_is_measured_in_linear_time():
    """To look for the end of each name would take minutes, as would the whole number of nested repetitions."""
    nested = f"{'(' * 80_000}a{'){999999999}' * 80_000}"
    start = time.perf_counter()
    assert "too much work" in call(looking({"x": {"pattern": nested}}), {"x": "x"}).text
    # The engine does not support a name without an end.
    assert call(looking({"x": {"pattern": r"\p{" * 300_000}}), {"x": "x"}).success
    assert time.perf_counter() - start < 4


@pytest.mark.parametrize("pattern", ["(?:.{70})+{70}y", "(?x).{1 0 0 0 0}y"])
def test_what_is_repeated_counts_for_each_letter(pattern):
    """A quantifier, or the spaces of a verbose pattern, hid how often the rest is repeated: 400 kB took half a minute."""
    assert "too much work" in call(looking({"x": {"pattern": pattern}}), {"x": "ab" * 50_000}).text


@pytest.mark.parametrize("pattern", [r"\(?ext\. ?\d{2,5}", r"\u{1F600}{1,64}|e", r"\p{L}{1,64}"])
def test_an_ordinary_pattern_is_checked(pattern):
    """An optional bracket is no flag, and the number of a character does not repeat it."""
    tool = looking({"x": {"type": "array", "items": {"pattern": pattern}}})
    assert call(tool, {"x": ["ext. 12"] * 100}).success
    assert "pattern" in call(tool, {"x": ["ext. 12", "?"]}).text


def test_a_problem_lists_at_most_fifty_choices_or_names():
    """A union of unions had thousands of choices, each of any length."""
    inner = {"anyOf": [{"enum": [f"{i}-{j}" for j in range(50)]} for i in range(10)]}
    refused = looking({"x": {"anyOf": [inner] * 10}}).bind
    with pytest.raises(ArgumentError) as error:
        refused({"x": "no"})
    assert len(error.value.problems[0]["choices"]) == 50
    with pytest.raises(ArgumentError) as error:
        looking({}, required=[f"n{i}" for i in range(500)]).bind({})
    assert error.value.problems[0]["expected"].endswith(" n49")


def test_a_schema_that_leads_back_to_itself_is_an_error_result():
    """Wherever the stack ends, also in a library that is written in Rust, the call gets its result."""
    kinds = ["object", "array"]
    node = {"type": kinds, "not": {"type": kinds, "allOf": [{"$ref": "#/$defs/node"}]}}
    tool = looking({"a": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": node}})

    def below(frames):
        return below(frames - 1) if frames else call(tool, {"a": {}}).text

    for frames in range(0, 120, 3):
        assert "could not be checked against the tool's schema" in below(frames)


def test_an_interrupted_check_is_no_answer(monkeypatch):
    """A KeyboardInterrupt during a check leaves the call."""

    def interrupted(schema):
        raise KeyboardInterrupt

    monkeypatch.setattr("functool.binding.foreign.validator_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        looking({}).bind({})


@pytest.mark.usefixtures("little_work")
def test_patterns_of_usual_size_are_no_hostile_work():
    """The first call compiles all of them, and is answered like the later ones."""
    parts = {f"p{i}": {**STR, "pattern": rf"^\w{{1,64}}-number-{i}$"} for i in range(5)}
    tool = looking(parts)
    sent = {name: f"a-number-{name[1:]}" for name in parts}

    assert call(tool, sent).text == call(tool, sent).text == "looked"


def test_a_strict_call_is_decoded_within_a_limit_of_work():
    """Some 100 kilobytes for a stranger's chain of unions held the event loop for a minute."""
    links = {
        f"A{i}": any_of(
            ref(f"A{i + 1}"), {**obj({"a": ref(f"A{i + 1}"), "t": STR}), "required": ["a"]}
        )
        for i in range(10)
    }
    schema = {**obj({"x": {"type": "array", "items": ref("A0")}}), "$defs": {**links, "A10": STR}}
    tool = SchemaTool("t", "d", schema, lambda arguments: "ran", strict=True)

    assert call(tool, {"x": [{"a": "b", "t": None}]}).text == "ran"
    error = call(tool, {"x": [{"a": {"a": i}} for i in range(10_000)]}).error
    assert error.type == "ArgumentError"
    assert "too much work" in error.message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_only_javascript_calls_a_number_is_no_json(number):
    """A schema that takes anything takes no number that JSON lacks."""
    result = call(foreign({"type": "object"}), '{"a": [%s]}' % number)

    assert result.text.startswith("Invalid arguments. the arguments are not valid JSON")
