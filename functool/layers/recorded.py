"""Record the calls of a test once, with the real tools, and replay them in later runs.

    calls = recorded("weather.calls.jsonl", ignore=["now"])

    def test_the_agent_finds_the_weather(calls):
        tools = calls([search, forecast])
        ...

The first run calls the real tools and writes the file. Later runs answer from the file, so they
need no network. Delete the file to record the calls again.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from functool import ApprovalRequired, Context, DefinitionError, Tool, ToolCall, ToolResult
from functool.layers.journal_errors import Interrupted
from functool.layers.journal_lines import Recording, lines_of, recordings_in
from functool.layers.journal_record import failure_from, text_of
from functool.layers.journal_replay import (
    Around,
    Entry,
    Proceed,
    Replay,
    arguments_text,
    definition_of,
    is_interrupted,
    label,
    pauses,
)
from functool.layers.some_tools import around_each, each

if sys.platform != "win32":
    import fcntl

Use = Callable[[Any], Any]


def recorded(path: str | os.PathLike[str], *, ignore: Collection[str] = ()) -> Any:
    """Return a pytest fixture that records or replays calls.

    The fixture's value is a function. It takes a tool, several or a toolset, and returns them
    recorded or replayed. Each test has a run of its own in the file.

    Args:
        path: The file, relative to the directory of the test's file. Commit it with the tests.
        ignore: Names of arguments in which a call may differ from the recorded one.

    Raises:
        ImportError: pytest is not installed.
        DefinitionError: `ignore` is not a list of names.
    """
    _check_ignored(ignore)
    try:
        import pytest
    except ModuleNotFoundError as error:
        raise ImportError("recorded needs pytest: pip install pytest") from error

    @pytest.fixture
    def calls(request: pytest.FixtureRequest) -> Iterator[Use]:
        run = request.node.nodeid.partition("::")[2]
        with recording(request.path.parent / path, run, ignore=ignore) as use:
            yield use

    return calls


@contextmanager
def recording(
    path: str | os.PathLike[str], run: str = "recorded", *, ignore: Collection[str] = ()
) -> Iterator[Use]:
    """Yield a function that takes tools and returns them recorded, or replayed if the run is known.

    The file is written at the end of the `with` block, unless the block raises. A call that was
    interrupted, or that waits for an approval, is not recorded.

    Args:
        path: The file.
        run: The name of the run in it.
        ignore: Names of arguments in which a call may differ from the recorded one.

    Raises:
        JournalError: The file holds no recorded calls.
        DefinitionError: A tool is not defined as it was when its calls were recorded.
    """
    _check_ignored(ignore)
    known = _read(Path(path))
    if run in known:
        yield _replayed(known[run], Path(path), ignore)
        return
    new = Recording()
    yield _recording(new)
    with _alone_in(Path(path).parent):
        _write(Path(path), {**_read(Path(path)), run: new})


def _recording(new: Recording) -> Use:
    numbers = itertools.count(1)

    def use(tools: Any) -> Any:
        def noting(tool: Tool) -> Around:
            new.definitions[tool.name] = definition_of(tool).form
            return _noting(tool.name, new.entries, numbers)

        return around_each(tools, noting)

    return use


def _noting(tool: str, entries: list[Entry], numbers: Iterator[int]) -> Around:
    async def note(call: ToolCall, context: Context[Any], proceed: Proceed) -> ToolResult:
        key = f"recorded/{tool}/{next(numbers)}"
        arguments = arguments_text(call.arguments)
        label(call, context)
        # Add the entry now, because calls are recorded in the order in which they begin.
        entries.append(Entry(key, tool, call.id, arguments, None, 0.0))
        done = None
        try:
            result = await proceed()
            if not (pauses(result) or is_interrupted(result)):
                done = text_of(result)
        except (ApprovalRequired, Interrupted):
            raise
        except Exception as error:
            done = text_of(*failure_from(error, context.inner_labels))
            raise
        finally:
            mine = next(i for i, entry in enumerate(entries) if entry.key == key)
            if done is None:
                del entries[mine]
            else:
                entries[mine] = entries[mine]._replace(result=done)
        return result

    return note


def _replayed(known: Recording, path: Path, ignore: Collection[str]) -> Use:
    replay = Replay(known.entries, ignore)

    def use(tools: Any) -> Any:
        def checked(tool: Tool) -> Tool:
            _refuse_changed(tool, known.definitions.get(tool.name), path)
            return tool

        return around_each(each(tools, checked), replay.around)

    return use


def _refuse_changed(tool: Tool, form: str | None, path: Path) -> None:
    """Raise if a tool's definition has changed since its calls were recorded."""
    remedy = f"delete {path.name} to record anew"
    if form is None:
        raise DefinitionError(f"{tool.name!r} had no part in what was recorded: {remedy}")
    was, now = json.loads(form), json.loads(definition_of(tool).form)
    if changed := sorted(name for name in {*was, *now} if was.get(name) != now.get(name)):
        raise DefinitionError(
            f"the definition of {tool.name!r} has changed since its calls were recorded"
            f" ({', '.join(changed)}): {remedy}"
        )


def _read(path: Path) -> dict[str, Recording]:
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as lines:
        return recordings_in(lines, path.name)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keep other processes from writing in a directory: they may record other tests of one file."""
    directory.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":  # It has no such locks.
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # This file system has no locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, recordings: dict[str, Recording]) -> None:
    """Write the whole file, or leave it as it was."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            file.writelines(f"{line}\n" for line in lines_of(recordings))
            file.close()
            Path(file.name).replace(path)
        except BaseException:  # Otherwise the temporary file would stay.
            Path(file.name).unlink()
            raise


def _check_ignored(ignore: Any) -> None:
    if isinstance(ignore, str) or not all(isinstance(name, str) for name in ignore):
        raise DefinitionError(f"ignore takes a list of argument names, not {ignore!r}")
