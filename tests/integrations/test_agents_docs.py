"""The blocks of docs/agents.md run, are as short as promised, and its tables say what the tests say."""

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="needs tests/requirements/agents.txt")
pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")
pytest.importorskip("langgraph", reason="needs tests/requirements/agents.txt")
pytest.importorskip("pydantic_ai", reason="needs tests/requirements/agents.txt")

from tests.integrations.bridges import BRIDGES
from tests.integrations.test_matrix import LIMITS
from tests.support import ask

TEXT = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```py(?:thon)?\n(.*?)```", TEXT, re.DOTALL)
TOOLS, RULE, OWN, *AGENTS = BLOCKS
MODELS = dict(
    zip(("openai-agents", "pydantic-ai", "langchain", "agent-framework"), AGENTS, strict=True)
)


def model_of(bridge: Any, *turns: Any) -> Any:
    """Return the framework's scripted model."""
    agent = bridge.agent([], *turns)
    return {"langchain": lambda: agent.scripted, "agent-framework": lambda: agent.client}.get(
        bridge.name, lambda: agent.model
    )()


def run(code: str, **names: Any) -> dict[str, Any]:
    exec(compile(code, "docs/agents.md", "exec"), names)
    return names


def test_own_agent() -> None:
    """The block with an agent of one's own makes a tool that answers."""
    assert ask(run(OWN)["tool"]).text == "HI"


def test_agent_of_a_framework(bridge: Any) -> None:
    """The block of each framework makes a tool that answers and counts, in under ten lines."""
    code = MODELS[bridge.name]
    result = ask(run(code, model=model_of(bridge, "540 m"))["tool"], text="How high is Bern?")

    assert len([line for line in code.splitlines() if line.strip()]) < 10
    assert result.text == "540 m"
    assert "usage" in result.metadata


ROWS = dict(re.findall(r"^\| ([\w-]+) \| `(.*export_all\(tools\).*)` \|$", TEXT, re.MULTILINE))


def test_tools_in_an_agent(bridge: Any) -> None:
    """The line of each framework makes an agent that uses the tool."""
    names = run(TOOLS)
    imports = "\n".join(line for line in MODELS[bridge.name].splitlines() if "import" in line)
    line = {name.lower(): row for name, row in ROWS.items()}[bridge.name]
    model = model_of(bridge, [("c1", "altitude", {"city": "Bern"})], "done")
    agent = run(f"{imports}\nagent = {line}", model=model, tools=names["tools"])["agent"]

    code = "from functool import AgentTool\ntool = AgentTool(agent, 'a', 'd', runner=runner)"
    result = ask(run(code, agent=agent, runner=bridge.runner)["tool"], text="go")

    assert result.text == "done"
    assert result.metadata["usage"].get("requests", 2) == 2


def test_rule_for_approvals() -> None:
    """The block with a rule of agent-framework runs, and its agent answers."""
    (bridge,) = [bridge for bridge in BRIDGES if bridge.name == "agent-framework"]
    model = model_of(bridge, [("c1", "altitude", {"city": "Bern"})], "540 m")
    names = {"model": model, "tools": run(TOOLS)["tools"]}
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    asyncio.run(eval(compile(RULE, "docs/agents.md", "exec", flags=flags), names))

    assert names["answer"].text == "540 m"


def test_approval_table_names_every_bridge(bridge: Any) -> None:
    """Every bridge has its row in the table of edits and grants, or the row says that it has no such answer."""
    table = TEXT.split("| to run an edited call |")[1].split("\n\n")[0]
    name = {"langchain": "langgraph"}.get(bridge.name, bridge.name)
    (row,) = [line for line in table.splitlines() if line.lower().startswith(f"| {name} |")]

    for cell in row.strip("| ").split(" | ")[1:]:
        assert "`" in cell or "it has no such answer" in cell


def test_limits_are_those_of_the_matrix() -> None:
    """The table of what a framework cannot do is the matrix's own."""
    rows = re.findall(r"^\| (\w+) \| ([\w-]+) \| (.*?) \| ([\w.-]+ [\d.]+) \|$", TEXT, re.MULTILINE)

    assert {
        (bridge, scenario): (reason, version) for scenario, bridge, reason, version in rows
    } == {cell: (reason, version) for cell, (reason, version, _) in LIMITS.items()}


def test_tripwire_table_names_every_bridge() -> None:
    """Every bridge has its row in the table of tripwires, and `test_matrix` shows what the row says."""
    table = TEXT.split("## What a Tripwire does")[1].split("## ")[0]

    for bridge in BRIDGES:
        rows = [line for line in table.splitlines() if line.lower().startswith(f"| {bridge.name}")]
        (row,) = rows
        ends = "end first" if bridge.name == "langchain" else "are cancelled"
        assert "`Tripwire`" in row and ends in row
