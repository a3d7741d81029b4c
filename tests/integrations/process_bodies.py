"""What the tests of the process executor run in their workers: a worker finds it by module and name."""

import asyncio
import contextlib
import functools
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

from functool import Context, FunctionTool, Inject, ToolError
from functool.integrations.processes import ProcessExecutor

processes = ProcessExecutor(max_workers=2)


class Picky(Exception):
    """Cannot be made again from what pickle keeps of it."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __call__(self, add: float) -> float:
        return self.degrees + add

    def fahrenheit(self, add: float = 0.0) -> float:
        return (self.degrees + add) * 9 / 5 + 32

    @staticmethod
    def zero() -> float:
        return -273.15

    @FunctionTool(executor=processes)
    def kelvin(self) -> float:
        """Convert to kelvin."""
        return self.degrees + 273.15


@FunctionTool(executor=processes)
def worker() -> int:
    """Tell which process runs the body."""
    return os.getpid()


@FunctionTool(executor=processes)
def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


@FunctionTool(executor=processes)
async def later(a: int) -> int:
    """Add one, slowly."""
    await asyncio.sleep(0)
    return a + 1


@FunctionTool(executor=processes)
def refuse(how: str) -> object:
    """Fail in one of many ways."""
    if how == "tool":
        raise ToolError("no", details={"why": "so"})
    if how == "picky":
        raise Picky(1, 2)
    if how == "exit":
        raise SystemExit(3)
    if how == "lock":
        return threading.Lock()
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)
    return None


@FunctionTool(executor=processes)
def measured(text: str, factor: Annotated[int, Inject(lambda context: context.deps)]) -> int:
    """Measure a text, in the units of the host."""
    return len(text) * factor


@FunctionTool(executor=processes)
def curious(text: str, context: Context) -> str:
    """Want what cannot cross."""
    return text


@FunctionTool(executor=processes)
def count(to: int):
    """Count."""
    yield from range(to)


def hang(path: str, how: str = "sleep") -> None:
    """Write the process's id and never end."""
    Path(path).write_text(str(os.getpid()))
    if how == "stubborn":
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(60)
    while True:
        if how == "busy":
            pow(7, 10_000_000)
        else:
            time.sleep(60)


hang_tool = FunctionTool(hang, executor=processes, timeout=3)


def die_on_the_way(folder: str) -> bytes:
    """Return 64 MB, and die while they are sent to the host or written into a file of the folder."""
    main = threading.main_thread().ident

    def die() -> None:
        while not list(Path(folder).glob("functool-result-*")):
            if sys._current_frames()[main].f_code.co_name == "_send":
                break
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=die).start()
    return bytes(64_000_000)


def use_up_descriptors() -> None:
    """Leave the worker without a free file descriptor, as a body does that never closes its files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.suppress(OSError):
        while True:
            os.open(os.devnull, os.O_RDONLY)


def note(path: str) -> str:
    """Leave a trace."""
    Path(path).touch()
    return "done"


@functools.lru_cache
def cached(a: int) -> int:
    return a * 2
