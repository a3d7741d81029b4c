"""Thousands of tool definitions and calls that nobody here wrote."""

import asyncio
import contextlib
from functools import cache

import pytest

from functool import SchemaError, SchemaTool, ToolCall
from tests.bfcl import lines
from tests.dialects.checks import CHECKS, KNOWN_BY_STRICT, unsaid

CORPUS = 3_469
STRICT = 3_400


async def echo(arguments):
    return dict(arguments)


@cache
def tools() -> dict[str, SchemaTool]:
    return {
        line["uid"]: SchemaTool(line["name"], line["description"], line["parameters"], echo)
        for line in lines("functions")
    }


@cache
def strict_tools() -> dict[str, SchemaTool]:
    """Those that have a strict form: an enum whose values are none of its type, say, has none."""
    found = {}
    for line in lines("functions"):
        with contextlib.suppress(SchemaError):
            tool = SchemaTool(
                line["name"], line["description"], line["parameters"], echo, strict=True
            )
            found[line["uid"]] = tool
    return found


def test_the_corpus_is_whole():
    """Every definition of the corpus becomes a tool, and nearly every one a strict tool."""
    assert len(tools()) == CORPUS
    assert len(strict_tools()) >= STRICT


@pytest.mark.parametrize(
    ("name", "strict"),
    [*((name, False) for name in CHECKS), *((name, True) for name in KNOWN_BY_STRICT)],
)
def test_every_definition_exports_to_every_dialect(name, strict):
    """Each rendering breaks no rule of its provider, but those that no dialect can help, which the losses name."""
    definition, losses, problems = CHECKS[name]

    wrong = [
        (tool.name, unsaid(problems(definition(tool)), losses(tool)))
        for tool in (strict_tools() if strict else tools()).values()
    ]

    assert [found for found in wrong if found[1]] == []


def test_a_dotted_name_is_named_with_its_remedy():
    """Every tool whose name most providers refuse is told so by the losses, and how to rename it."""
    definition, losses, _ = CHECKS["openai"]
    dotted = [tool for tool in tools().values() if "." in tool.name]

    assert len(dotted) > 1_000
    for tool in dotted:
        assert definition(tool)["name"] == tool.name
        assert f"WrapperTool(tool, name={tool.name.replace('.', '_')!r})" in losses(tool)[0]


@pytest.mark.parametrize(("name", "count"), [("calls_valid", 3_102), ("calls_null", 101)])
def test_every_valid_call_is_accepted(name, count):
    """Every call of the corpus is accepted; null for an optional parameter that does not admit it means "not given"."""

    async def refused():
        found = []
        for line in lines(name):
            tool = tools()[line["function"]]
            result = await tool.invoke(ToolCall(name=tool.name, arguments=line["arguments"]))
            if result.is_error:
                found.append((line["test"], result.text))
        return found

    assert len(lines(name)) == count
    assert asyncio.run(refused()) == []


def test_every_valid_call_is_accepted_by_strict_tools():
    """A strict tool takes the plain form of a call too, so one tool can be published to several providers."""

    async def refused():
        found = []
        for line in lines("calls_valid"):
            if (tool := strict_tools().get(line["function"])) is None:
                continue
            result = await tool.invoke(ToolCall(name=tool.name, arguments=line["arguments"]))
            if result.is_error:
                found.append((line["test"], result.text))
        return found

    assert asyncio.run(refused()) == []
