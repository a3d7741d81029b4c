"""A worker of Temporal in a process of its own: `python -m tests.integrations.temporal_process ADDRESS QUEUE FOLDER [journal]`.

Its bodies write what they do into a file of their own call, in FOLDER, so that a test can count it after it killed the worker.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from functool import Context, FunctionTool, Toolset, ToolSettings
from functool.integrations.temporal import activities
from functool.layers.journal import Journal


def note(folder, name, word):
    """Append a line to the file of a call, in one write that a kill cannot cut."""
    file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{word}\n".encode())
    os.close(file)


def tools(folder=None):
    """The tools of host and worker: the host's never run."""

    async def work(name, seconds):
        note(folder, name, "begun")
        await asyncio.sleep(seconds)
        note(folder, name, "ended")
        return name

    @FunctionTool
    async def charge(name: str, seconds: float) -> str:
        return await work(name, seconds)

    @FunctionTool(settings=ToolSettings(idempotent=True))
    async def fetch(name: str, seconds: float) -> str:
        return await work(name, seconds)

    @FunctionTool
    def blocking(name: str, seconds: float) -> str:
        note(folder, name, "begun")
        time.sleep(seconds)
        note(folder, name, "ended")
        return name

    return Toolset([charge, fetch, blocking])


async def main(address, queue, folder, *journal):
    from temporalio.client import Client
    from temporalio.worker import Worker

    folder = Path(folder)
    recorded = Journal(folder / "calls.journal") if journal else None
    client = await Client.connect(address)
    async with Worker(
        client,
        task_queue=queue,
        activities=activities(tools(folder), context=lambda call: Context(), journal=recorded),
    ):
        note(folder, "workers", str(os.getpid()))
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
