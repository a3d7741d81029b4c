"""The time limit of a call, and what is left behind when it ends."""

import asyncio
import gc
import threading

import pytest

from functool import FunctionTool, ToolCall, Toolset, Tripwire, WrapperTool
from functool.executors import in_thread
from tests.support import call, nothing_abandoned


def timed_out(body):
    """Return whether the answer of a call that ran into its time limit says that work may go on."""
    seen = []
    tool = FunctionTool(
        body,
        name="body",
        timeout=0.01,
        on_error_func=lambda error, context: seen.append(error.still_running),
    )
    text = call(tool).text

    assert ("may still be going on" in text, "was stopped" in text) == (seen[0], not seen[0])
    return seen[0]


def test_a_time_limit_knows_what_the_tasks_of_a_body_left_behind(caplog):
    """A body that waited for sync tools, itself or in tasks, alone or under time limits of their own, has left work behind."""
    release = threading.Event()
    hang = FunctionTool(lambda: release.wait(30), name="hang")
    limited, tools, one = WrapperTool(hang, timeout=20), Toolset([hang]), ToolCall(name="hang")

    async def alone():
        await hang(one)

    async def under_a_limit():
        await limited(one)

    async def turn():
        await tools.call_all([one, one])

    async def together():
        async with asyncio.TaskGroup() as group:
            group.create_task(hang(one))
            group.create_task(limited(one))

    try:
        assert [timed_out(body) for body in (alone, under_a_limit, turn, together)] == [True] * 4
        said = "the body of body was abandoned after its time limit: a thread cannot be stopped"
        assert caplog.messages[0] == said
    finally:
        release.set()


def test_work_that_ended_during_the_clean_up_is_not_left_behind(monkeypatch):
    """What has ended before the answer is given is not still running."""
    monkeypatch.setattr("functool.executors.GRACE_SECONDS", 60)
    release = threading.Event()

    async def body():
        try:
            await in_thread(release.wait, 30)
        finally:
            release.set()
            await nothing_abandoned()

    assert timed_out(body) is False


@pytest.mark.parametrize("end", [Tripwire("too late"), asyncio.CancelledError()], ids=repr)
def test_an_abandoned_body_ends_unheard(end, monkeypatch):
    """Whatever leaves a body after its call was answered, the loop has nothing to report."""
    monkeypatch.setattr("functool.executors.GRACE_SECONDS", 0.01)
    reported = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: reported.append(context["message"])
        )
        release = asyncio.Event()

        @FunctionTool(timeout=0.01)
        async def stubborn():
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    pass
            raise end

        result = await stubborn(ToolCall(name="stubborn"))
        release.set()
        await nothing_abandoned()
        gc.collect()
        await asyncio.sleep(0)
        return result.error.type

    assert (asyncio.run(main()), reported) == ("ToolTimeoutError", [])
