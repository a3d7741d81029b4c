"""`functool lock` and `functool check --lock`: which change of a definition breaks a caller."""

import json
from textwrap import dedent

import pytest

pytest.importorskip("click")

from functool.cli import narrowing
from functool.cli.compatibility import changes
from functool.schema.json_schema import resolved
from tests.command_line import run
from tests.schemas import INT, MAYBE_STR, NULL, NUM, STR, any_of, array, ref, tuple_of


def obj(required=(), extra=False, **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": extra,
    }


TREE = {**obj(root=ref("Node")), "$defs": {"Node": obj(name=STR, children=array(ref("Node")))}}
NAMED = {"Node": obj(["name"], name=STR, children=array(ref("Node")))}


def based(base):
    """Arguments with an `a` whose first part is in the definitions, as OpenAPI documents have it."""
    return {**obj(a={"allOf": [ref("Base"), obj(c=INT)]}), "$defs": {"Base": base}}


# The argument `a`: its old schema, the new one, and what is said of each change that breaks a caller.
NARROWER = {
    "another type": (STR, INT, "no longer takes the type string"),
    "narrowed number": (NUM, INT, "no longer takes the type number"),
    "narrowed types": (MAYBE_STR, STR, "no longer takes the type null"),
    "narrowed union": (any_of(STR, NULL), STR, "no longer takes the type null"),
    "another member": (any_of(STR, INT), any_of(STR, NULL), "no longer takes the type integer"),
    "narrowed enum": ({"enum": ["x", "y"]}, {"enum": ["y"]}, 'no longer takes "x"'),
    "enum to const": ({"enum": [1, 2]}, {"const": 1}, "no longer takes 2"),
    "enum instead of any": (STR, {**STR, "enum": ["x"]}, 'no longer takes anything but "x"'),
    "tighter minimum": ({**INT, "minimum": 0}, {**INT, "minimum": 1}, "minimum is tighter"),
    "exclusive minimum": (
        {**INT, "minimum": 0},
        {**INT, "exclusiveMinimum": 0},
        "minimum is tighter",
    ),
    "new maximum": (INT, {**INT, "maximum": 9}, "maximum is tighter"),
    "shorter text": (STR, {**STR, "maxLength": 9}, "maxLength is tighter"),
    "longer list": ({"type": "array"}, {"type": "array", "minItems": 1}, "minItems is tighter"),
    "other steps": ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 3}, "multipleOf is tighter"),
    "new pattern": (STR, {**STR, "pattern": "^x"}, "pattern is new or has changed"),
    "a type beside a union": (
        {"type": "array"},
        {"type": "object", "anyOf": [True, {"minProperties": 1}]},
        "no longer takes the type array",
    ),
    "a type against its union": (
        any_of(STR, NULL),
        {**STR, "anyOf": [STR, NULL]},
        "no longer takes the type null",
    ),
    "members of a oneOf that overlap now": (
        {"oneOf": [INT, STR]},
        {"oneOf": [INT, NUM, STR]},
        "no longer takes the type integer",
    ),
    "a reference to nowhere": (STR, ref("Gone"), "$ref is new or has changed"),
}

# Arguments: the old schema, the new one, and what is said of each change that breaks a caller.
BREAKING = {
    "removed": (obj(a=STR, b=STR), obj(a=STR), ["b: was removed"]),
    "added and required": (obj(a=STR), obj(["b"], a=STR, b=STR), ["b: is new and required"]),
    "required now": (obj(a=STR), obj(["a"], a=STR), ["a: is required now"]),
    "inside of a list": (
        obj(a=array(STR)),
        obj(a=array(INT)),
        ["a[]: no longer takes the type string"],
    ),
    "inside of a tuple": (
        obj(a=tuple_of(STR, STR, items=False)),
        obj(a=tuple_of(STR, items=False)),
        ["a[1]: no longer takes anything that the schema does not name"],
    ),
    "inside of an object": (
        obj(a=obj(b=STR)),
        obj(a=obj(b=INT)),
        ["a.b: no longer takes the type string"],
    ),
    "closed": (
        obj(extra=True),
        obj(),
        ["the arguments: no longer takes anything that the schema does not name"],
    ),
    "values of names": (obj(extra=NUM), obj(extra=INT), ["*: no longer takes the type number"]),
    "named from the rest": (
        obj(extra=INT),
        obj(extra=INT, b=STR),
        ["b: no longer takes the type integer"],
    ),
    "behind a reference": (TREE, {**TREE, "$defs": NAMED}, ["root.name: is required now"]),
    "behind a reference in allOf": (
        based(obj(b=STR)),
        based(obj(["b"], b=STR)),
        ["a.b: is required now"],
    ),
    "behind a reference in another rule": (
        {**obj(a={"not": ref("Base")}), "$defs": {"Base": STR}},
        {**obj(a={"not": ref("Base")}), "$defs": {"Base": INT}},
        ["a: not is new or has changed"],
    ),
    "one more rule": (
        obj(a={"allOf": [STR]}),
        obj(a={"allOf": [STR, {"minLength": 1}]}),
        ["a: allOf is new or has changed"],
    ),
    "names that fitted a pattern": (
        obj(a={**obj(), "patternProperties": {"^x": STR}}),
        obj(a=obj()),
        ["a: patternProperties is new or has changed"],
    ),
}

# The argument `a` again: changes that break nobody, since it takes more than before.
WIDER = {
    "wider type": (INT, NUM),
    "wider union": (STR, any_of(STR, NULL)),
    "wider oneOf": ({"oneOf": [INT, STR]}, {"oneOf": [INT, STR, NULL]}),
    "a oneOf that overlaps as before": ({"oneOf": [INT, NUM], "minimum": 1}, {"oneOf": [INT, NUM]}),
    "wider enum": ({"enum": ["x"]}, {"enum": ["y", "x"]}),
    "looser limits": ({**INT, "minimum": 1, "maximum": 5}, {**INT, "exclusiveMinimum": 0}),
    "divided steps": ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 2}),
}

# Arguments again: what is said of changes that break nobody.
HARMLESS = {
    "named where nothing was said of the rest": (
        {"type": "object", "properties": {"a": STR}},
        {"type": "object", "properties": {"a": STR, "b": STR}},
        ["has other argument names, but takes the same calls"],
    ),
    "optional argument": (obj(a=STR), obj(a=STR, b=STR), ["b: takes more than before"]),
    "optional now": (obj(["a"], a=STR), obj(a=STR), ["a: takes more than before"]),
    "open": (obj(), obj(extra=True), ["the arguments: takes more than before"]),
    "another order": (obj(a=STR, b=INT), obj(b=INT, a=STR), []),
    "const and enum": (obj(a={"const": 1}), obj(a={"enum": [1]}), []),
    "an inlined reference": ({**obj(a=ref("A")), "$defs": {"A": STR}}, obj(a=STR), []),
    "descriptions": (
        obj(a={**STR, "description": "old"}),
        obj(a={**STR, "description": "new"}),
        ["descriptions or defaults of its arguments have changed"],
    ),
    "recursion": (TREE, TREE, []),
    "wider behind allOf": (
        based(obj(["b"], b=STR)),
        based(obj(b=STR)),
        ["a.b: takes more than before"],
    ),
}

# Results: the old schema, the new one, and what is said of each change that breaks a caller.
OUTPUTS = {
    "field removed": (
        obj(["a", "b"], a=STR, b=STR),
        obj(["a"], a=STR),
        ["the result's b was removed"],
    ),
    "optional field removed": (obj(a=STR, b=STR), obj(a=STR), ["the result's b was removed"]),
    "field inside removed": (
        array(obj(a=STR, b=STR)),
        array(obj(a=STR)),
        ["the result's [].b was removed"],
    ),
    "optional now": (obj(["a"], a=STR), obj(a=STR), ["the result's a may be absent now"]),
    "another type": (obj(a=STR), obj(a=INT), ["the result's a may be integer now"]),
    "null": (obj(a=STR), obj(a=any_of(STR, NULL)), ["the result's a may be null now"]),
    "no form": (STR, None, ["the result no longer has a schema"]),
    "field added": (obj(["a"], a=STR), obj(["a", "b"], a=STR, b=STR), []),
    "narrower": (obj(a=NUM), obj(a=INT), []),
    "said now": (None, STR, []),
}


def texts(old, new, breaks, part="parameters"):
    known = {"description": "", "parameters": obj(), "output": None}
    found = changes({"tool": {**known, part: old}}, {"tool": {**known, part: new}})
    return [change.text for change in found if change.breaks == breaks]


@pytest.mark.parametrize(("old", "new", "said"), NARROWER.values(), ids=NARROWER)
def test_what_refuses_an_old_value_breaks(old, new, said):
    """A change by which a value of an argument no longer fits breaks a caller, and says where."""
    assert texts(obj(a=old), obj(a=new), True) == [f"a: {said}"]


@pytest.mark.parametrize(("old", "new", "said"), BREAKING.values(), ids=BREAKING)
def test_what_refuses_an_old_call_breaks(old, new, said):
    """A change by which a call that fitted no longer fits breaks a caller, and says where."""
    assert texts(old, new, True) == said


@pytest.mark.parametrize(("old", "new"), WIDER.values(), ids=WIDER)
def test_what_admits_every_old_value_does_not(old, new):
    """A change after which every old value of an argument still fits breaks nobody, and is told."""
    assert texts(obj(a=old), obj(a=new), True) == []
    assert texts(obj(a=old), obj(a=new), False) == ["a: takes more than before"]


@pytest.mark.parametrize(("old", "new", "said"), HARMLESS.values(), ids=HARMLESS)
def test_what_admits_every_old_call_does_not(old, new, said):
    """A change after which every old call fits breaks nobody, and is told."""
    assert texts(old, new, True) == []
    assert texts(old, new, False) == said


@pytest.mark.parametrize(("old", "new", "said"), OUTPUTS.values(), ids=OUTPUTS)
def test_what_a_caller_read_has_to_stay(old, new, said):
    """A result may have more than before, and may not lack or be what it never was."""
    assert texts(old, new, True, "output") == said
    assert len(texts(old, new, False, "output")) == (not said)


def test_unions_of_unions_are_compared_once(monkeypatch):
    """Unions that lead to one another are compared in steps that grow with their members, and not with their product."""
    looked = []

    def counting(root, schema):
        looked.append(schema)
        assert len(looked) < 20_000
        return resolved(root, schema)

    monkeypatch.setattr(narrowing, "resolved", counting)
    members = {
        f"{name}{place}": obj(["kind"], next=ref(other), kind={"const": f"{name}{place}"})
        for name, other in ("AB", "BC", "CA")
        for place in range(8)
    }
    unions = {name: any_of(*(ref(f"{name}{place}") for place in range(8))) for name in "ABC"}
    old = {**obj(a=ref("A")), "$defs": {**members, **unions}}
    part = members["C7"]["properties"]
    narrower = {**members["C7"], "properties": {**part, "kind": {"const": "other"}}}
    new = {**old, "$defs": {**old["$defs"], "C7": narrower}}

    assert list(narrowing.narrowed(old, old)) == []
    assert {step.path for step in narrowing.narrowed(old, new)} == {"a"}


def woven(last, count=9):
    """Types of which each refers to all of them; only the last has its own `leaf`."""
    inner = {f"t{place}": ref(f"T{place}") for place in range(count)}
    types = {f"T{place}": obj(leaf=STR, **inner) for place in range(count)}
    return {**obj(a=ref("T0")), "$defs": {**types, f"T{count - 1}": obj(**last, **inner)}}


@pytest.mark.parametrize("part", ["parameters", "output"])
@pytest.mark.parametrize("last", [{"leaf": STR}, {"leaf": INT}, {"other": STR}], ids=str)
def test_types_that_refer_to_one_another_are_told_of_once(part, last):
    """What has changed in a type is told at one path to it; other paths, of which there may be millions, refer to it."""
    breaking = texts(woven({"leaf": STR}), woven(last), True, part)

    told = [text for text in breaking if "has changed like" not in text]
    assert len(told) == (last != {"leaf": STR})
    assert all(".t8.leaf" in text for text in told)
    assert len(breaking) < 9 * 9


def test_the_same_change_of_two_arguments_is_told_of_both():
    """A change without a reference in it is told in full at each of its places."""
    assert texts(obj(a=STR, b=STR), obj(a=INT, b=INT), True) == [
        "a: no longer takes the type string",
        "b: no longer takes the type string",
    ]


def test_a_field_of_a_type_that_may_be_null_is_lost():
    """A type that contains itself, or null, is looked into once."""
    node = {"a": any_of(ref("Node"), NULL)}
    old = {**obj(a=ref("Node")), "$defs": {"Node": obj(leaf=STR, **node)}}
    new = {**old, "$defs": {"Node": obj(**node)}}

    assert "the result's a.leaf was removed" in texts(old, new, True, "output")


def test_removed_renamed_and_new_tools():
    """A tool that is gone breaks a caller, with a hint at its new name; a new one breaks nobody."""
    tool = {"description": "", "parameters": obj(query=STR), "output": None}
    other = {**tool, "parameters": obj(path=STR)}

    found = changes(
        {"search": tool, "gone": other}, {"look_up": tool, "extra": {**other, "parameters": obj()}}
    )

    assert [(c.tool, c.breaks, c.text) for c in found] == [
        ("gone", True, "it was removed"),
        ("search", True, "it was removed; was it renamed to look_up?"),
        ("extra", False, "it is new"),
        ("look_up", False, "it is new"),
    ]


def test_a_description_breaks_nobody():
    """Another description is told and breaks nobody."""
    tool = {"description": "old", "parameters": obj(), "output": None}

    [change] = changes({"t": tool}, {"t": {**tool, "description": "new"}})

    assert change == ("t", False, "its description has changed")


def test_a_change_of_the_digest_alone_is_told():
    """A change that no rule names, such as to a strict schema, is told too: grants name the digest."""
    tool = {"digest": "1", "description": "", "parameters": obj(a=STR), "output": None}

    [change] = changes({"t": tool}, {"t": {**tool, "digest": "2"}})

    assert change == ("t", False, "its published schema has changed, but takes the same calls")


TOOLS = '''
from functool import FunctionTool

@FunctionTool
def search(query: str, limit: int = 3) -> dict[str, str]:
    """Search."""
    return {}
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "locked_tools.py").write_text(dedent(TOOLS))
    return tmp_path


def test_lock_and_check(folder):
    """What `lock` wrote is what `check --lock` compares: 0 for no or harmless changes, 1 for others."""
    run("lock", "locked_tools.py")
    locked = json.loads((folder / "functool.lock.json").read_text())
    same = run("check", "locked_tools.py", "--lock", "functool.lock.json")
    (folder / "wider_tools.py").write_text(TOOLS.replace("limit: int = 3", "limit: float = 3"))
    wider = run("check", "wider_tools.py", "--lock", "functool.lock.json")
    (folder / "other_tools.py").write_text(TOOLS.replace("query: str", "text: str"))
    other = run("check", "other_tools.py", "--lock", "functool.lock.json", "--json", code=1)

    assert list(locked["tools"]) == ["search"] and len(locked["tools"]["search"]["digest"]) == 64
    assert same.output == ""
    assert wider.output.startswith("ok\tsearch: limit: takes more")
    assert [c["change"] for c in json.loads(other.output) if c["breaks"]] == [
        "text: is new and required",
        "query: was removed",
    ]


def test_lock_writes_where_it_is_told(folder):
    """Another file, or standard output, always the same bytes."""
    run("lock", "locked_tools.py", "--to", "here.json")
    shown = run("lock", "locked_tools.py", "--to", "-").stdout

    assert shown == (folder / "here.json").read_text()
    run("lock", "absent.py", code=1)


ODD = ["{", "[" * 100_000, "[]", '{"tools": {}}', '{"version": 2, "tools": {}}']


ODD_TOOLS = [
    f'{{"version": 1, "tools": {{"search": {tool}}}}}' for tool in ("5", "{}", '{"parameters": 5}')
]


@pytest.mark.parametrize("text", [*ODD, *ODD_TOOLS])
def test_a_file_of_another_kind_is_one_line(folder, text):
    """A file that `lock` did not write, or a later version, is an error of one line."""
    (folder / "bad.json").write_text(text)

    result = run("check", "locked_tools.py", "--lock", "bad.json", code=1)

    assert result.output.startswith("Error: bad.json")
    run("check", "locked_tools.py", "--lock", "absent.json", code=2)


def test_all_tools_may_be_gone(folder):
    """A target without tools lacks every one that was locked."""
    run("lock", "locked_tools.py")
    (folder / "empty_tools.py").write_text("")

    result = run("check", "empty_tools.py", "--lock", "functool.lock.json", code=1)

    assert "search: it was removed" in result.output
