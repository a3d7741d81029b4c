"""The house: which file may import which, and how large it may grow."""

from pathlib import Path

import functool

ROOT = Path(functool.__file__).parent

# Floors from the ground up. A file may import lower floors, and what stands before it on its own.
FLOORS = [
    ["content", "approval", "errors"],
    [
        "call",
        "context",
        "executors",
        "schema.json_schema",
        "schema.admits",
        "schema.shapes",
        "schema.subset",
        "schema.steps",
        "schema.strict",
        "schema.docstrings",
        "schema.plain",
        "schema.callables",
        "schema.hints",
        "schema.rewrite",
        "schema.core",
        "schema.parameters",
        "schema.publish",
        "schema.signature",
    ],
    [
        "binding.json_text",
        "binding.problems",
        "binding.engine",
        "binding.foreign",
        "binding.functions",
        "binding.watched_shapes",
        "binding.watch",
        "binding.door",
        "guardrails.asking",
        "guardrails.text",
        "guardrails.calls",
        "guardrails.approval",
        "guardrails.sources",
        "guardrails",
    ],
    ["options", "trip", "tool", "wrapper_tool"],
    [
        "generators",
        "function_tool",
        "tool_model",
        "schema_tool",
        "agent_tool",
        "toolset",
        "factory",
        "testing",
    ],
    [""],
]
PLACES = {
    name: (floor, place) for floor, names in enumerate(FLOORS) for place, name in enumerate(names)
}
ROOMS = {"schema", "binding"}  # Their __init__ files hold a docstring only.
LEAVES = {"dialects", "layers", "integrations", "bundled", "play"}

CORE_LINES = 6_250
"""The aim is 4,800. What a run needs has taken more: standing grants and edited approvals, budgets,
labels, judging a call while it is written, bounded work for foreign schemas."""
