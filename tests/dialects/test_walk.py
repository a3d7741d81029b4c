"""The walker: references, combinators at the root, and what it does not change."""

import copy
import json

import pytest

from functool.dialects import Lost, _walk
from functool.dialects._cycles import cycles
from functool.dialects._rules import Rules, split
from functool.dialects._walk import MAX_NODES, render
from functool.schema.json_schema import Names

ANY = Rules()
CLOSED = Rules(
    closed=True,
    typed=True,
    booleans=False,
    keywords=split("type properties required additionalProperties items anyOf $ref description"),
)
INLINE = Rules(refs="inline", recursion="cut")
CUT = Rules(recursion="cut")


def obj(**properties):
    return {"type": "object", "properties": properties}


def test_a_schema_that_is_understood_stays_as_it_is():
    """Without a rule against it nothing changes, nothing is lost, and the original is another object."""
    schema = {
        **obj(a={"$ref": "#/$defs/A", "description": "x"}),
        "$defs": {"A": {"type": "integer", "minimum": 1}},
    }
    before = copy.deepcopy(schema)

    made, losses = render(schema, ANY)

    assert made == schema == before
    assert losses == []
    made["properties"]["a"]["description"] = "changed"
    assert schema == before


def test_definitions_that_nothing_needs_are_left_out():
    """Only the definitions that are reached go out, the reached ones of reached ones too."""
    schema = {
        **obj(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "null"}, "C": {"type": "integer"}},
    }

    made, losses = render(schema, ANY)

    assert made["$defs"] == {"A": {"$ref": "#/$defs/B"}, "B": {"type": "null"}}
    assert losses == []


def test_references_to_other_places_become_definitions():
    """A reference into `definitions`, or to a property, leads to a definition of its own, and the losses say so."""
    schema = {
        **obj(
            a={"$ref": "#/definitions/A%20b"},
            b={"$ref": "#/properties/c~1d"},
            **{"c/d": {"type": "string"}},
        ),
        "definitions": {"A b": {"type": "integer"}},
    }

    made, losses = render(schema, ANY)

    assert made["properties"]["a"] == {"$ref": "#/$defs/A_b"}
    assert made["properties"]["b"] == {"$ref": "#/$defs/c_d"}
    assert made["$defs"] == {"A_b": {"type": "integer"}, "c_d": {"type": "string"}}
    assert losses == [
        "#/properties/a: $ref #/definitions/A%20b is written as #/$defs/A_b",
        "#/properties/b: $ref #/properties/c~1d is written as #/$defs/c_d",
    ]


def test_two_places_of_one_name_stay_apart():
    """Two references that end alike lead to two definitions."""
    schema = {
        **obj(a={"$ref": "#/$defs/A"}, b={"$ref": "#/definitions/A"}),
        "$defs": {"A": {"type": "integer"}},
        "definitions": {"A": {"type": "string"}},
    }

    assert render(schema, ANY)[0]["$defs"] == {"A": {"type": "integer"}, "A_2": {"type": "string"}}


def test_a_union_beside_a_reference_is_kept_or_told():
    """What stands beside a reference is kept; where only the reference may stand, a union is told in the description."""
    union = [{"required": ["x"]}, {"required": ["y"]}]
    schema = {
        **obj(a={"$ref": "#/$defs/A", "anyOf": union}),
        "$defs": {"A": obj(x={"type": "integer"})},
    }

    made, losses = render(schema, Rules(refs="wrap"))
    note = '[{"required": ["x"]}, {"required": ["y"]}]'

    assert render(schema, ANY) == (schema, [])
    assert made["properties"]["a"] == {
        "anyOf": [{"$ref": "#/$defs/A"}],
        "description": f"anyOf: {note}",
    }
    assert losses[0] == f"#/properties/a: anyOf {note} is moved into the description"


def test_what_is_inlined_keeps_its_own_limits():
    """A keyword beside a reference joins that of its target: neither replaces the other."""
    place = {**obj(x={"type": "integer"}, y={"type": "integer"}), "required": ["x"]}
    schema = {
        **obj(a={"$ref": "#/$defs/A", "required": ["y"], "description": "Where."}),
        "$defs": {"A": place},
    }

    made, _ = render(schema, Rules(refs="inline", all_of="none"))

    assert made["properties"]["a"] == {**place, "required": ["y", "x"], "description": "Where."}


def test_a_choice_of_nothing_is_told():
    """Every provider refuses an empty union, which moves into the description; beside a reference too."""
    schema = {
        **obj(a={"oneOf": []}, b={"$ref": "#/$defs/A", "anyOf": []}),
        "$defs": {"A": {"type": "integer"}},
    }

    made, losses = render(schema, ANY)

    assert made["properties"] == {
        "a": {"description": "oneOf: []"},
        "b": {"$ref": "#/$defs/A", "description": "anyOf: []"},
    }
    assert losses == [
        "#/properties/a: oneOf [] is moved into the description",
        "#/properties/b: anyOf [] is moved into the description",
    ]


@pytest.mark.parametrize(
    "ref", ["https://example.com/a.json", "#/$defs/Missing", "#anchor", "#/properties/b/3"]
)
def test_a_reference_that_leads_nowhere_is_told(ref):
    """A remote or dangling reference is never followed: the description names it, and so do the losses."""
    made, losses = render(obj(a={"$ref": ref, "description": "What."}, b={"enum": [1]}), ANY)

    assert made["properties"]["a"] == {"description": f"What. (as {ref} describes)"}
    assert losses == [
        f"#/properties/a: $ref {ref} leads nowhere that a model can follow, and is moved into the description"
    ]


def test_the_root_holds_no_reference():
    """A root that is a reference is replaced by what it points at, also where that holds itself."""
    schema = {"$ref": "#/$defs/A", "$defs": {"A": obj(next={"$ref": "#/$defs/A"})}}

    made, losses = render(schema, ANY)

    assert made["properties"] == {"next": {"$ref": "#/$defs/A"}}
    assert made["$defs"] == {"A": obj(next={"$ref": "#/$defs/A"})}
    assert losses == [
        '#: $ref "#/$defs/A" is replaced by what it points at: the arguments are an object'
    ]


def test_a_root_that_only_points_at_itself_is_an_object():
    """A reference that never arrives ends as an object without properties."""
    assert render({"$ref": "#"}, ANY)[0] == {"type": "object", "properties": {}}


def test_the_alternatives_of_the_root_become_its_properties():
    """The root of the arguments gets the properties of all its alternatives, and the description tells which go together."""
    schema = {
        "type": "object",
        "description": "Pay.",
        "properties": {"sum": {"type": "integer"}},
        "anyOf": [
            {"$ref": "#/$defs/Card"},
            {"properties": {"sum": {"type": "string"}, "iban": {"type": "string"}}},
        ],
        "$defs": {"Card": {"properties": {"card": {"type": "string"}}, "required": ["card"]}},
    }

    made, losses = render(schema, ANY)

    assert made["properties"] == {
        "sum": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "card": {"type": "string"},
        "iban": {"type": "string"},
    }
    assert made["description"].startswith('Pay. (anyOf: [{"$ref": "#/$defs/Card"}, ')
    assert "anyOf" not in made
    assert len(losses) == 1


def test_parts_of_the_root_are_put_together():
    """`allOf` at the root is merged where the parts agree."""
    schema = {
        "allOf": [{"$ref": "#/$defs/A"}, {**obj(b={"type": "integer"}), "required": ["b"]}],
        "$defs": {"A": {**obj(a={}), "required": ["a"]}},
    }

    made, losses = render(schema, ANY)

    assert made == {
        "type": "object",
        "properties": {"a": {}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    assert losses == ["#: allOf is merged into the root"]


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "integer"}, {"type": "string"}],
        [{"minimum": 1}, {"minimum": 2}],
        [obj(a={"type": "integer"}), obj(a={"type": "string"})],
        [{**obj(a={}), "additionalProperties": False}, obj(b={})],
    ],
)
def test_parts_that_do_not_agree_are_told(parts):
    """Parts that take more than putting together move into the description whole."""
    made, losses = render(obj(x={"allOf": parts}), Rules(all_of="none"))

    assert made["properties"]["x"].keys() == {"description"}
    assert losses[0].startswith("#/properties/x: allOf [")


@pytest.mark.parametrize(
    ("member", "merged"),
    [
        ({"$ref": "#/$defs/A"}, obj(a={})),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, {"$ref": "#/$defs/A"}),
    ],
    ids=["near", "deep"],
)
def test_a_reference_in_all_of_is_merged_where_it_may_not_stand(member, merged):
    """A provider that takes allOf without references never meets one in it, also where it comes of an inner allOf."""
    schema = {**obj(x={"allOf": [member, {"description": "What."}]}), "$defs": {"A": obj(a={})}}

    made, losses = render(schema, Rules(all_of="no-ref"))

    assert made["properties"]["x"] == {**merged, "description": "What."}
    assert set(losses) == {"#/properties/x: allOf is merged into the node"}


def test_recursion_is_cut_at_the_way_back():
    """Where nothing may hold itself, the reference that closes the circle becomes a value of the same kind."""
    schema = {
        **obj(a={"$ref": "#/$defs/A"}),
        "$defs": {
            "A": obj(b={"$ref": "#/$defs/B"}),
            "B": {"type": "array", "items": {"$ref": "#/$defs/A", "description": "x"}},
        },
    }

    made, losses = render(schema, CUT)

    assert made["$defs"]["A"]["properties"]["b"] == {"$ref": "#/$defs/B"}
    assert made["$defs"]["B"]["items"] == {
        "type": "object",
        "description": "x (the same shape as A)",
    }
    assert losses == [
        "#/$defs/B/items: $ref #/$defs/A is cut: the provider takes no recursive schema here"
    ]
    whole = render(obj(a={"$ref": "#"}), CUT)[0]
    assert whole["properties"]["a"] == {
        "type": "object",
        "description": "the same shape as the whole",
    }


def test_a_circle_is_cut_where_nothing_in_it_may_be_left_out():
    """A definition met first below an optional property may close a circle through required ones: that is cut, and only that."""
    schema = {
        **obj(a={"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}),
        "required": ["a"],
        "$defs": {
            "A": obj(b={"$ref": "#/$defs/B"}),
            "B": {"type": "array", "items": {"$ref": "#"}},
        },
    }
    whole = {"type": "object", "description": "the same shape as the whole"}

    made, losses = render(schema, Rules(recursion="optional"))

    assert made["properties"]["a"] == {
        "anyOf": [{"$ref": "#/$defs/A"}, {"type": "array", "description": "the same shape as B"}]
    }
    assert made["$defs"] == {
        "A": obj(b={"$ref": "#/$defs/B"}),
        "B": {"type": "array", "items": {"$ref": "#"}},
    }
    assert losses == [
        "#/properties/a/anyOf/1: $ref #/$defs/B is cut: the provider takes no recursive schema here"
    ]
    made, losses = render(
        {**schema, "$defs": {**schema["$defs"], "A": obj(b={"type": "null"})}},
        Rules(recursion="optional"),
    )
    assert made["$defs"]["B"] == {"type": "array", "items": whole}


def test_inlining_ends():
    """A schema that would grow without bound when inlined is cut at a limit."""
    defs = {
        f"D{n}": obj(a={"$ref": f"#/$defs/D{n + 1}"}, b={"$ref": f"#/$defs/D{n + 1}"})
        for n in range(40)
    }
    schema = {**obj(a={"$ref": "#/$defs/D0"}), "$defs": {**defs, "D40": {"type": "null"}}}

    made, losses = render(schema, INLINE)

    assert "$ref" not in str(made)
    assert len(losses) < 3 * MAX_NODES
    assert any("is cut" in loss for loss in losses)


def doubling(depth, **leaf):
    """Definitions that each hold the next one twice in a union."""
    defs = {
        f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}, obj(a={"$ref": f"#/$defs/D{n + 1}"})]}
        for n in range(depth)
    }
    return {**obj(a={"anyOf": [{"$ref": "#/$defs/D0"}]}), "$defs": {**defs, f"D{depth}": leaf}}


def test_writing_out_unions_ends(monkeypatch):
    """Beyond a limit references stay in unions, which is a loss. Recursion is looked for once."""
    looked = []
    monkeypatch.setattr(_walk, "cycles", lambda names: looked.append(1) or cycles(names))
    monkeypatch.setattr(_walk, "MAX_NODES", 500)
    made, losses = render(doubling(40, type="null"), Rules(refs="unions"))
    kept = [loss for loss in losses if "stays in a union: written out" in loss]

    assert looked == [1]
    assert len(json.dumps(made)) < 200_000
    assert kept and all(isinstance(loss, Lost) for loss in kept)


@pytest.mark.parametrize("rules", [INLINE, Rules(refs="unions")], ids=["inline", "unions"])
def test_the_characters_that_are_written_out_are_limited(rules, monkeypatch):
    """A long definition is not written out thousands of times."""
    monkeypatch.setattr(_walk, "MAX_COPIED", 100_000)
    words = [f"word {n}" for n in range(1_000)]

    assert len(json.dumps(render(doubling(12, enum=words), rules)[0])) < 300_000


def test_merging_definitions_ends(monkeypatch):
    """Definitions in allOf are merged up to the limit, and described beyond it."""
    monkeypatch.setattr(_walk, "MAX_NODES", 500)
    defs = {
        f"D{n}": obj(
            **{
                name: {"allOf": [{"$ref": f"#/$defs/D{n + 1}"}], "minProperties": 1}
                for name in ("a", "b")
            }
        )
        for n in range(40)
    }
    schema = {**obj(a={"$ref": "#/$defs/D0"}), "$defs": {**defs, "D40": {"type": "null"}}}
    made, losses = render(schema, Rules(all_of="none"))

    assert len(json.dumps(made)) < 200_000
    assert any("is moved into the description" in loss for loss in losses)


def test_wide_schemas_are_read_in_linear_time():
    """One pass over each list and object: to copy or search them for each part would take minutes."""
    names = [f"n{n}" for n in range(10_000)]
    fields = {name: {"const": name} for name in names}
    wide = {**obj(**fields), "required": names}
    alike = {f"d{n}": obj(x={"const": n}) for n in range(10_000)}
    refs = {name: {"$ref": f"#/$defs/d{n}/properties/x"} for n, name in enumerate(names)}
    parts = [{**obj(**{name: {"const": name}}), "required": [name]} for name in names]
    tuples = {"type": "array", "prefixItems": [*fields.values(), *fields.values()]}
    optional = Rules(recursion="optional")

    assert render(wide, optional) == (wide, [])
    assert len(render({**obj(**refs), "$defs": alike}, optional)[0]["$defs"]) == 10_000
    assert render(obj(a={"allOf": parts}), Rules(all_of="none"))[0]["properties"]["a"] == wide
    made = render(obj(a=tuples), CLOSED)[0]["properties"]["a"]
    assert len(made["properties"]) == 20_000
    made = render(obj(a=tuples), Rules(keywords=split("type properties items anyOf const")))[0]
    assert made["properties"]["a"]["items"]["anyOf"] == [*fields.values()]


def test_cycles_are_found_in_linear_time():
    """A ring of 20,000 definitions, and as many beside it that lead into it."""
    ring = {f"r{n}": {"items": {"$ref": f"#/$defs/r{(n + 1) % 20_000}"}} for n in range(20_000)}
    beside = {f"b{n}": {"items": {"$ref": f"#/$defs/r{n}"}} for n in range(20_000)}
    links = {name: {"$ref": f"#/$defs/{name}"} for name in beside}
    found = cycles(Names({**obj(**links), "$defs": {**ring, **beside}}))

    assert sorted(found) == sorted(ring)


def test_a_definition_that_is_needed_again_is_not_followed_again(monkeypatch):
    """A reference that closed no cycle before closes none now."""
    followed = []
    reachable = _walk._reachable
    monkeypatch.setattr(_walk, "_reachable", lambda *a: followed.append(1) or reachable(*a))
    fields = {f"n{n}": {"$ref": "#/$defs/A"} for n in range(50)}
    schema = {**obj(**fields), "required": [*fields], "$defs": {"A": {"type": "null"}}}

    assert render(schema, Rules(recursion="optional")) == (schema, [])
    assert followed == [1]


def test_a_name_that_is_a_keyword_is_only_a_name():
    """Properties called like keywords are properties."""
    schema = obj(
        properties={"type": "integer"},
        **{"$ref": {"type": "string"}, "allOf": {"type": "boolean"}, "const": {"type": "null"}},
    )

    assert render(schema, CLOSED)[0]["properties"] == schema["properties"]


def test_a_closed_object_says_what_else_it_takes():
    """Where every object is closed, an open one is a list of pairs, and one with names and more gets a name for the rest."""
    schema = {
        **obj(
            d={"type": "object", "additionalProperties": {"type": "integer"}},
            e={**obj(extra={"type": "null"}), "additionalProperties": {"type": "string"}},
            f={"type": ["object", "null"]},
            g=obj(),
        )
    }
    pairs = {"type": "object", "required": ["key", "value"], "additionalProperties": False}
    made = render(schema, CLOSED)[0]["properties"]

    assert made["d"] == {
        "type": "array",
        "items": {**pairs, "properties": {"key": {"type": "string"}, "value": {"type": "integer"}}},
    }
    assert made["e"]["properties"]["extra_"]["items"]["properties"]["value"] == {"type": "string"}
    assert made["e"]["additionalProperties"] is False
    assert made["f"]["type"] == ["array", "null"]
    assert made["g"]["type"] == "array"
    assert render(obj(), CLOSED)[0] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_boolean_schemas_are_spelled_out():
    """`true` is any value; a property that nothing fits is left out."""
    made, losses = render(obj(a=True, b=False, c={"type": "array", "items": True}), CLOSED)
    scalars = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}

    assert made["properties"] == {"a": scalars, "c": {"type": "array", "items": scalars}}
    assert "#/properties/b: a property that no value fits is left out" in losses


def test_infinite_numbers_are_no_json():
    """A default that JSON cannot say moves into the description."""
    made, losses = render(obj(a={"type": "number", "default": float("inf")}), ANY)

    assert made["properties"]["a"] == {"type": "number", "description": "default: Infinity"}
    assert losses == ["#/properties/a: default Infinity is moved into the description"]


def test_a_root_of_another_type_is_an_object():
    """Arguments are an object, whatever the schema says."""
    made, losses = render({"type": ["object", "null"]}, ANY)

    assert made == {"type": "object", "properties": {}}
    assert losses == ['#: type ["object", "null"] is written as object']


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": ["integer"]}, {"type": "integer"}),
        (
            {"type": "array", "items": [{"type": "integer"}]},
            {"type": "array", "prefixItems": [{"type": "integer"}]},
        ),
        (
            {
                "type": "array",
                "items": [{"type": "integer"}],
                "additionalItems": {"type": "string"},
            },
            {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 1},
        ),
        (
            {"type": "integer", "maximum": 1, "exclusiveMaximum": False},
            {"type": "integer", "maximum": 1},
        ),
    ],
)
def test_what_older_drafts_said_is_said_as_today(old, new):
    """A tuple as a list of items, and a bound that is a boolean, are written as JSON Schema 2020-12 has them."""
    made, losses = render(obj(a=old), ANY)

    assert made["properties"]["a"] == new
    assert len(losses) == 1
    assert losses[0].startswith("#/properties/a: ")


def test_the_definitions_that_hold_themselves():
    """A definition that leads back to itself, straight or round a corner, if the schema uses it."""

    def found(**links):
        defs = {name: {"items": {"$ref": f"#/$defs/{to}"}} for name, to in links.items()}
        return sorted(cycles(Names({"$ref": "#/$defs/A", "$defs": defs})))

    assert found(A="A") == ["A"] and found(A="B", B="C", C="A") == ["A", "B", "C"]
    assert found(A="B", B="C") == [] and found(A="B", C="C") == []
    assert cycles(Names({"items": {"$ref": "#"}})) == ["#"]


def test_very_many_recursive_definitions_are_found():
    """What only leads into a ring is not recursive."""
    chain = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(1_200)}
    ring = {**chain, "a1200": {"$ref": "#/$defs/a1"}}
    straight = {**chain, "a1200": {"type": "string"}}

    assert len(cycles(Names({"$ref": "#/$defs/a0", "$defs": ring}))) == 1_200
    assert cycles(Names({"$ref": "#/$defs/a0", "$defs": straight})) == []
