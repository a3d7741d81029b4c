"""How the events of a context reach its listeners."""

import asyncio

from functool import Context, FunctionTool, ToolCall, Toolset
from functool.delivery import deliver_last


def test_last_words_take_as_long_as_they_need():
    """They are awaited to their end."""
    said = []

    async def speak():
        await asyncio.sleep(0.05)
        said.append("all")

    asyncio.run(deliver_last(speak()))

    assert said == ["all"]


def test_last_words_do_not_hold_up_a_cancellation():
    """Who is being cancelled hears them, and leaves those that do not end, which are cut off."""
    said = []

    async def speak():
        said.append("quick")

    async def hang():
        try:
            await asyncio.Event().wait()
        finally:
            said.append("cut off")

    async def call():
        try:
            await asyncio.Event().wait()
        finally:
            await deliver_last(speak())
            await deliver_last(hang())

    async def main():
        task = asyncio.ensure_future(call())
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=30)
        return bool(done) and task.cancelled()

    assert (asyncio.run(main()), said) == (True, ["quick", "cut off"])


def test_a_task_that_is_cancelled_again_and_again_does_not_keep_the_outcome_from_its_listeners():
    """As anyio cancels: no listener is interrupted at once, and each learns how the call has ended."""
    context, told = Context(), []
    heard = asyncio.Event()

    @FunctionTool
    async def hang() -> None:
        heard.set()
        await asyncio.Event().wait()

    async def listen(event):
        for _ in range(20):
            await asyncio.sleep(0)
        told.append(event.kind)

    async def main():
        context.subscribe(listen)
        context.subscribe(listen)
        task = asyncio.ensure_future(Toolset([hang]).call(ToolCall(name="hang"), context))
        await heard.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    asyncio.run(main())

    assert told == ["tool:pre"] * 2 + ["tool:error"] * 2
