"""The steps of a call, without a browser."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

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
    work = run_call(tool, "{}", "1", Context(), sent.append)
    with ThreadPoolExecutor(1) as pool:  # Where a browser is open, this thread has a running loop.
        pool.submit(asyncio.run, work).result()

    assert sent[-1]["error"]["type"] == "SystemExit"
    assert [each["did"] for each in sent if each.get("step") == "body"] == ["started", "failed"]
