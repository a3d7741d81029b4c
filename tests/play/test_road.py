"""The steps of a call, without a browser."""

import asyncio
import sys

import pytest

from functool import Context, FunctionTool
from functool.play.road import run_call


@pytest.mark.parametrize("timeout", [None, 20])
def test_a_tool_that_exits(timeout):
    """A body that ends the program fails, and the page stays."""

    def leave():
        sys.exit(0)

    sent = []
    tool = FunctionTool(leave, timeout=timeout)
    asyncio.run(run_call(tool, "{}", "1", Context(), sent.append))

    assert sent[-1]["error"]["type"] == "SystemExit"
    assert [each["did"] for each in sent if each.get("step") == "body"] == ["started", "failed"]
