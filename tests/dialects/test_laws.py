"""What holds of every rendering of every schema."""

import json
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings

from functool import DefinitionError, SchemaTool
from tests.dialects import provider_rules
from tests.dialects.checks import CHECKS, KNOWN_BY_STRICT, schema_in, unsaid
from tests.dialects.strategies import ROOTS

LAWS = settings(suppress_health_check=list(HealthCheck))


def tool_of(schema: Any, strict: bool) -> SchemaTool:
    try:
        return SchemaTool(
            "made", "What it does.", schema, lambda arguments: arguments, strict=strict
        )
    except DefinitionError:
        assume(False)
        raise


HIDDEN_RECURSION = {"type": "object", "patternProperties": {"^x": {"$ref": "#/$defs/A"}}}
"""A type that holds itself only where no provider looks."""


@LAWS
@given(schema=ROOTS)
@example(
    {
        "type": "object",
        "properties": {"a": {"type": "array", "prefixItems": [{}, {"$ref": "#/$defs/A"}]}},
        "$defs": {"A": HIDDEN_RECURSION},
    }
)
def test_every_rendering_is_one_that_the_provider_takes(schema):
    """Whatever the schema, no rendering breaks a rule of its provider, but for budgets, which the losses name."""
    tool = tool_of(schema, False)

    wrong = {
        name: unsaid(problems(definition(tool)), losses(tool))
        for name, (definition, losses, problems) in CHECKS.items()
    }

    assert wrong == dict.fromkeys(CHECKS, [])


@LAWS
@given(schema=ROOTS)
def test_every_strict_rendering_is_one_that_the_provider_takes(schema):
    """Whatever the schema, no rendering of a strict tool breaks a rule of its provider, but for budgets."""
    tool = tool_of(schema, True)
    known = {name: CHECKS[name] for name in KNOWN_BY_STRICT}

    wrong = {
        name: unsaid(problems(definition(tool)), losses(tool))
        for name, (definition, losses, problems) in known.items()
    }

    assert wrong == dict.fromkeys(known, [])


@LAWS
@given(schema=ROOTS)
def test_no_keyword_is_lost_in_silence(schema):
    """What stands in the schema and not in the rendering is named by a loss, at its path or above it."""
    tool = tool_of(schema, False)
    plain = {
        key: value
        for key, value in tool.schema.plain.items()
        if key not in ("$defs", "definitions")
    }

    for name in ("openai", "anthropic", "gemini", "xai", "mistral", "deepseek", "groq", "cohere"):
        definition, losses, _ = CHECKS[name]
        rendered = schema_in(definition(tool))
        told: dict[str, list[str]] = {}
        for loss in losses(tool):
            told.setdefault(loss.split(": ")[1], []).append(loss)
        for path, node in provider_rules.nodes(plain):
            try:
                there = provider_rules.follow(rendered, path)
            except (KeyError, IndexError, TypeError):
                above = [path[:i] for i, letter in enumerate(path) if letter == "/"]
                assert any(place in told for place in above), f"{name}: {path} is gone"
                continue
            if isinstance(node, dict) and isinstance(there, dict):
                for keyword in node.keys() - there.keys():
                    assert any(keyword in loss for loss in told.get(path, [])), (
                        f"{name}: {keyword} at {path} is gone"
                    )


@LAWS
@given(schema=ROOTS)
def test_a_definition_is_json_and_new_each_time(schema):
    """A definition survives JSON, and changing it changes neither the tool nor the next definition."""
    tool = tool_of(schema, False)
    for definition, _, _ in CHECKS.values():
        first = definition(tool)
        before = json.dumps([first, tool.schema.plain])

        first.clear()

        assert json.dumps([definition(tool), tool.schema.plain]) == before
