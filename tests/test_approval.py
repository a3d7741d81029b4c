"""The values of approvals: requests, decisions and grants."""

import dataclasses
import json
import time
from enum import Enum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PlainSerializer, RootModel, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from functool import ApprovalRequest, FunctionTool, SchemaTool, WrapperTool
from functool.approval import Grant

WORDS = {f"word {number}" for number in range(10, 40)}
SOURCES = {"/to": ["read_mail"], "/items/0": ["search", "fetch"]}


def send(to: str, body: str = "", copies: int = 1) -> str:
    """Send a mail."""
    return "sent"


TOOL = FunctionTool(send)


def request(arguments=None, **options):
    return ApprovalRequest.of("pay", "d" * 64, arguments or {"amount": 5}, "c1", **options)


def test_a_request_holds_a_copy():
    """What happens to the arguments afterwards, at any depth, does not change what is asked."""
    arguments = {"to": {"list": [1]}}
    asked = request(arguments)
    arguments["to"]["list"].append(2)

    assert asked.arguments == {"to": {"list": [1]}} and asked.matches_itself


def test_sources_are_in_the_digest_and_in_the_json():
    """Where values came from is part of what is approved; without sources the JSON and the digest are as they were."""
    plain, labelled = request(), request(sources=SOURCES)

    assert labelled.sources == SOURCES and labelled.matches_itself
    assert plain.digest != labelled.digest
    assert ApprovalRequest.from_json(labelled.to_json()) == labelled
    assert not dataclasses.replace(labelled, sources={"/to": ["ada"]}).matches_itself
    assert not dataclasses.replace(labelled, sources={}).matches_itself
    assert "sources" not in json.loads(plain.to_json()) and plain.sources == {}
    assert json.loads(labelled.to_json())["sources"] == SOURCES


def test_the_dict_of_a_request_is_a_copy():
    """A host may do with it what it wants."""
    asked = request({"a": {"b": 1}}, sources=SOURCES)
    shown = asked.to_dict()
    shown["arguments"]["a"]["b"] = 2
    shown["sources"]["/to"].clear()

    assert asked.matches_itself and json.loads(asked.to_json())["arguments"] == {"a": {"b": 1}}


@pytest.mark.parametrize("sources", [[], {"/to": "read_mail"}, {"/to": [1]}, None])
def test_broken_sources_are_a_value_error(sources):
    """Sources are lists of names."""
    text = json.dumps({**request().to_dict(), "sources": sources})
    with pytest.raises(ValueError, match="^not an approval request: "):
        ApprovalRequest.from_json(text)


# ---- grants


@pytest.mark.parametrize("expires_at", [None, 1.9e9, 2_000_000_000])
def test_a_grant_round_trips_as_json(expires_at):
    """Every part of it comes back, and the keys of its JSON are its names."""
    grant = Grant.of(
        TOOL, {"to": "ada@example.org"}, free=("body",), uses=10, expires_at=expires_at
    )

    assert Grant.from_json(grant.to_json()) == grant
    assert (grant.tool, grant.arguments) == ("send", {"to": "ada@example.org"})
    assert (grant.free, grant.uses, grant.expires_at) == (("body",), 10, expires_at)
    assert json.loads(grant.to_json()) == {
        "id": grant.id,
        "tool": "send",
        "definition": grant.definition,
        "arguments": {"to": "ada@example.org"},
        "free": ["body"],
        "uses": 10,
        "expires_at": expires_at,
    }
    assert Grant.of(TOOL, {}).id != Grant.of(TOOL, {}).id


def test_a_grant_holds_a_copy():
    """What happens to the arguments afterwards does not change what is granted."""
    arguments = {"to": ["ada"]}
    grant = Grant.of(TOOL, arguments)
    arguments["to"].append("eve")

    assert grant.arguments == {"to": ["ada"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uses": 0}, "uses must be a positive int, not 0"),
        ({"uses": -1}, "uses must be a positive int, not -1"),
        ({"uses": True}, "uses must be a positive int, not True"),
        ({"uses": 1.5}, "uses must be a positive int, not 1.5"),
        ({"free": "body"}, "free must be a list of argument names, not 'body'"),
        ({"free": [1]}, r"free must be a list of argument names, not \(1,\)"),
        ({"free": ["to"]}, "an argument is either given or free, not both: to"),
        ({"expires_at": "soon"}, "expires_at must be seconds since the epoch or None, not 'soon'"),
        ({"expires_at": True}, "expires_at must be seconds since the epoch or None, not True"),
        ({"expires_at": float("nan")}, "expires_at must be seconds since the epoch or None, not"),
        ({"arguments": {"to": object()}}, "arguments must hold JSON values: "),
        ({"arguments": {"to": float("inf")}}, "arguments must hold JSON values: "),
    ],
    ids=str,
)
def test_a_grant_refuses_nonsense(options, message):
    """What cannot be meant is refused when the grant is made."""
    with pytest.raises(ValueError, match=f"^{message}"):
        Grant.of(TOOL, **{"arguments": {"to": "ada"}, **options})


def test_a_grant_is_for_a_tool():
    """A name, a function or a list of pairs is a TypeError that says what was expected."""
    for thing in ("send", send, None):
        with pytest.raises(TypeError, match="^a grant is for a tool, not for "):
            Grant.of(thing, {})
    with pytest.raises(TypeError, match="^arguments must be a mapping, not list$"):
        Grant.of(TOOL, [("to", "ada")])


@pytest.mark.parametrize(
    "change",
    [
        {"uses": "1"},
        {"uses": True},
        {"uses": -1},
        {"free": "body"},
        {"free": [1]},
        {"arguments": []},
        {"expires_at": "x"},
        {"expires_at": True},
        {"id": 1},
        {"more": 1},
    ],
    ids=str,
)
def test_a_broken_grant_is_a_value_error(change):
    """`from_json` takes what `to_json` wrote and nothing else."""
    text = json.dumps({**json.loads(Grant.of(TOOL, {}).to_json()), **change})
    with pytest.raises(ValueError):
        Grant.from_json(text)
    with pytest.raises(ValueError):
        Grant.from_json("{}")


VALUES = st.sampled_from([0, 1, 1.0, True, "1", None, [1], ""])
NAMES = ["to", "body", "copies", "other"]
DEFAULTS = {"body": "", "copies": 1}
ARGUMENTS = st.dictionaries(st.sampled_from(NAMES), VALUES)


@given(ARGUMENTS, ARGUMENTS, st.sets(st.sampled_from(NAMES)))
def test_covers_law(named, sent, free):
    """Law: a call is covered when each argument is free, or is as named, or is not named and at its default."""
    free -= named.keys()
    grant = Grant(tool="send", definition="d" * 64, arguments=named, free=tuple(free))
    asked = ApprovalRequest.of("send", grant.definition, sent, "c1")

    def fits(name):
        if name in free:
            return True
        if name in named:
            return name in sent and json.dumps(sent[name]) == json.dumps(named[name])
        if name in sent:
            return name in DEFAULTS and json.dumps(sent[name]) == json.dumps(DEFAULTS[name])
        return True

    assert grant.covers(asked, DEFAULTS) == all(map(fits, NAMES))


@pytest.mark.parametrize(
    ("place", "covered"),
    [
        ("/to", False),
        ("/to/0", False),
        ("", False),
        ("/a~1b", False),
        ("/~0", False),
        ("/body", True),
        ("/top", True),
        ("/a", True),
    ],
)
def test_a_free_argument_is_not_free_for_an_untrusted_tool(place, covered):
    """A person who lets an argument be anything trusts the model to write it, not a web page."""
    schema = {"properties": {name: {} for name in ("to", "body", "top", "a/b", "a", "~")}}
    tool = SchemaTool("send", "Send a mail.", schema, print)
    named = {"body": "hi", "top": 1, "a": 2}
    sent = {**named, "to": ["ada"], "a/b": 1, "~": 1}

    def covers(source, arguments, **options):
        grant = Grant.of(tool, arguments, **options)
        asked = ApprovalRequest.of("send", grant.definition, sent, "c1", {place: [source]})
        return grant.covers(asked, {})

    assert covers("read_mail", named, free=("to", "a/b", "~")) is covered
    assert covers("the model", named, free=("to", "a/b", "~"))
    assert covers("read_mail", sent), "a person has seen the value"


def test_a_grant_names_arguments_of_the_tool():
    """An unknown name is refused, as in a call; an alias is no name that a grant compares."""

    def pay(amount: Annotated[int, Field(alias="Amount")], to: str = "bob") -> None: ...

    tool = FunctionTool(pay)
    assert Grant.of(tool, {"amount": 1}, free=["to"]).arguments == {"amount": 1}
    with pytest.raises(ValueError, match="unknown argument Amount; known: amount, to"):
        Grant.of(tool, {"Amount": 1})
    for arguments, free in (({"zz": 1}, ()), ({}, ("zz",))):
        with pytest.raises(ValueError, match="unknown argument zz; known: amount, to"):
            Grant.of(tool, arguments, free=free)
        with pytest.raises(ValueError, match="unknown argument zz"):
            Grant.of(WrapperTool(tool), arguments, free=free)
        Grant.of(FunctionTool(lambda **rest: 1, name="f"), arguments, free=free)
        Grant.of(SchemaTool("s", "S.", {"properties": {}}, print), arguments, free=free)


def test_what_ends_a_grant():
    """It covers no call of another tool or definition, none after its time, and none when it is used up."""
    asked = ApprovalRequest.of("send", Grant.of(TOOL, {}).definition, {}, "c1")
    now = time.time()

    def covers(**options):
        return Grant.of(TOOL, {}, **options).covers(asked, {})

    assert covers() and covers(expires_at=now + 60)
    assert not covers(expires_at=now - 1)
    for change in ({"uses": 0}, {"tool": "other"}, {"definition": "0" * 64}):
        assert not dataclasses.replace(Grant.of(TOOL, {}), **change).covers(asked, {})


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_default_that_is_a_set_is_the_same_in_each_process(kind):
    """The order of texts in a set differs from process to process, and an approval outlives one."""
    words = [f"word {number}" for number in range(10, 40)]
    default = kind([*words, 7, None])

    def tag(words: set[str | int | None] = default) -> str:
        return "tagged"

    published = FunctionTool(tag).schema.parameters["properties"]["words"]["default"]
    assert published == [*words, 7, None]


class Words(BaseModel):
    """A model with a set."""

    first: str = "a"
    words: set[str] = set()

    @field_serializer("first")
    def wrapped(self, first: str) -> list[str]:
        return [first]


class Hiding(BaseModel):
    """A model that leaves a set out, so that its list stands there instead."""

    hidden: set[int] = Field(default={1, 2}, exclude=True)
    order: list[int] = [2, 1]
    plans: Annotated[Any, PlainSerializer(lambda plans: ["own", "form"])] = {object()}


@dataclasses.dataclass(slots=True)
class Tags:
    """A dataclass with a set."""

    words: frozenset[str]


@pydantic_dataclass(slots=True)
class Slotted(Tags):
    """A dataclass of pydantic, which has no `__dict__`."""


@pytest.mark.parametrize(
    ("default", "published"),
    [
        ({"a": (WORDS, 1)}, {"a": [sorted(WORDS), 1]}),
        ([Words(words=WORDS)], [{"first": ["a"], "words": sorted(WORDS)}]),
        (Tags(frozenset(WORDS)), {"words": sorted(WORDS)}),
        (Slotted(frozenset(WORDS)), {"words": sorted(WORDS)}),
        ({frozenset(WORDS), "b"}, ["b", sorted(WORDS)]),
        (RootModel[set[str]](WORDS), sorted(WORDS)),
        (Hiding(), {"order": [2, 1], "plans": ["own", "form"]}),
        (b"bytes", "bytes"),
    ],
    ids=[
        "containers",
        "model",
        "dataclass",
        "slots",
        "set",
        "root model",
        "another's place",
        "no set",
    ],
)
def test_a_set_inside_of_a_default_is_the_same_in_each_process(default, published):
    """Sets are sorted at every depth, also inside of models."""

    def tag(words: Any = default) -> str:
        return "tagged"

    assert FunctionTool(tag).schema.parameters["properties"]["words"]["default"] == published


Word = Enum("Word", {word.replace(" ", "_"): word for word in WORDS})


class Marked(BaseModel):
    """A model whose defaults hold sets."""

    words: set[Word] = set(Word)
    by_name: dict[str, frozenset[str]] = {"all": frozenset(WORDS)}
    slotted: Slotted = Slotted(frozenset(WORDS))


def test_a_set_in_the_default_of_a_field_is_the_same_in_each_process():
    """A class inside of the arguments publishes its own defaults, of which enums have no order."""

    def tag(marked: Marked) -> str:
        return "tagged"

    fields = FunctionTool(tag).schema.parameters["$defs"]["Marked"]["properties"]
    assert fields["words"]["default"] == sorted(WORDS)
    assert fields["by_name"]["default"] == {"all": sorted(WORDS)}
    assert fields["slotted"]["default"] == {"words": sorted(WORDS)}
