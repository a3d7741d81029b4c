"""What holds of every rendering of every schema."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from functool import DefinitionError, SchemaTool
from tests.dialects import provider_rules
from tests.dialects.checks import CHECKS, KNOWN_BY_STRICT, schema_in, unsaid
from tests.dialects.strategies import ROOTS

LAWS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def tool_of(schema: Any, strict: bool) -> SchemaTool:
    try:
        return SchemaTool("made", "What it does.", schema, lambda arguments: arguments, strict=strict)
    except DefinitionError:
        assume(False)
        raise


@pytest.mark.parametrize(("name", "strict"), [*((name, False) for name in CHECKS), *((name, True) for name in KNOWN_BY_STRICT)])
@LAWS
@given(schema=ROOTS)
def test_every_rendering_is_one_that_the_provider_takes(name, strict, schema):
    """Whatever the schema, its rendering breaks no rule of the provider, but for budgets, which the losses name."""
    definition, losses, problems = CHECKS[name]
    tool = tool_of(schema, strict)

    assert unsaid(problems(definition(tool)), losses(tool)) == []


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "xai", "mistral"])
@LAWS
@given(schema=ROOTS)
def test_no_keyword_is_lost_in_silence(name, schema):
    """What stands in the schema and not in the rendering is named by a loss, at its path or above it."""
    definition, losses, _ = CHECKS[name]
    tool = tool_of(schema, False)
    rendered, said = schema_in(definition(tool)), [loss.removeprefix("made: ") for loss in losses(tool)]
    told = {loss.split(": ")[0]: [] for loss in said}
    for loss in said:
        told[loss.split(": ")[0]].append(loss)

    for path, node in provider_rules.nodes({key: tool.schema.plain[key] for key in tool.schema.plain if "def" not in key[:4]}):
        try:
            there = provider_rules.follow(rendered, path)
        except (KeyError, IndexError, TypeError):
            above = [path[:i] for i, letter in enumerate(path) if letter == "/"]
            assert any(place in told for place in above), f"{path} is gone"
            continue
        if isinstance(node, dict) and isinstance(there, dict):
            for keyword in node.keys() - there.keys():
                assert any(keyword in loss for loss in told.get(path, [])), f"{keyword} at {path} is gone"


@pytest.mark.parametrize("name", CHECKS)
@settings(LAWS, max_examples=30)
@given(schema=ROOTS)
def test_a_definition_is_json_and_new_each_time(name, schema):
    """A definition survives JSON, and changing it changes neither the tool nor the next definition."""
    definition = CHECKS[name][0]
    tool = tool_of(schema, False)
    first = definition(tool)
    before = json.dumps([first, tool.schema.plain])

    first.clear()

    assert json.dumps([definition(tool), tool.schema.plain]) == before
