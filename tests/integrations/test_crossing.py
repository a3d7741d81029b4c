"""The example that crosses four frameworks runs offline, and its one trace shows every call."""

import asyncio

import pytest

pytest.importorskip("agents", reason="needs tests/requirements/agents.txt")
pytest.importorskip("langgraph", reason="needs tests/requirements/agents.txt")
pytest.importorskip("opentelemetry.sdk", reason="needs tests/requirements/agents.txt")
pytest.importorskip("pydantic_ai", reason="needs tests/requirements/agents.txt")

from examples import crossing


def test_crossing(capsys: pytest.CaptureFixture[str]) -> None:
    """The outer agent gets the answer and the refusal; all spans are one trace, each below the one that called it."""
    asyncio.run(crossing.main())

    answer, told, *tree = capsys.readouterr().out.splitlines()
    assert answer == "Bern lies at 540 m."
    assert told == "540; Only Swiss cities."
    assert [line.rstrip() for line in tree] == [
        "traveller",
        "  execute_tool ask_geographer",
        "    execute_tool altitude",
        "      execute_tool altitude",
        "    execute_tool altitude ToolError",
        "      execute_tool altitude GuardrailError",
    ]
    spans = crossing.exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans}) == 1
    assert {span.attributes.get("gen_ai.tool.call.id") for span in spans} >= {"c1", "Bern", "Oslo"}
