"""Wrap the body of a tool so that each call takes effect at most once."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

from functool import ApprovalRequired, Context, TextContent, Tool, ToolCall, ToolResult
from functool.call import metadata_of
from functool.guardrails.labels import with_labels_of
from functool.large import LARGE, in_thread_if
from functool.layers.journal_errors import (
    Interrupted,
    JournalConflict,
    JournalError,
    conflict_of_arguments,
    conflict_of_versions,
    conflict_without_id,
)
from functool.layers.journal_file import Busy
from functool.layers.journal_owner import Leases, new_lease
from functool.layers.journal_record import failure_from, text_of
from functool.layers.journal_replay import (
    Around,
    Definition,
    Entry,
    Proceed,
    answered,
    arguments_text,
    definition_of,
    is_interrupted,
    label,
    note,
    pauses,
    same_call,
)
from functool.layers.journal_store import Row, Store, retry_while_busy

BUSY_SECONDS = 30.0
"""How many seconds a call tries to write while other processes are writing."""

MAX_KEY = 200
"""The most characters of a key. Payment services commonly accept 255."""

Keep = Callable[[ToolResult], "ToolResult | Awaitable[ToolResult]"]
T = TypeVar("T")

logger: logging.Logger = logging.getLogger("functool")
_running_attempts: ContextVar[tuple[str, ...]] = ContextVar("functool.journal", default=())


class Once:
    """Records calls in `store`, runs their bodies, and answers recorded calls from the store."""

    def __init__(self, store: Store, keep: Keep | None) -> None:
        self._store = store
        self._keep = keep
        # A lease that is not renewed in time makes a running call unknown.
        self._leases = Leases(lambda held: retry_while_busy(lambda: store.renew(held, new_lease())))

    def around(self, tool: Tool, run: str, *, appending: bool = False, through: str = "") -> Around:
        """Return the function that wraps the body of one tool.

        With `appending`, a call needs no id, and a known id with other arguments stands for a new
        call. `through` is the name of the tool that calls this one, such as `call_tool` of a
        catalogue.
        """
        defined: list[Definition] = []

        async def once(call: ToolCall, context: Context[Any], proceed: Proceed) -> ToolResult:
            row = self._new_row(tool, run, call, appending)
            # Change the call in place: the body's context and `ToolCall` are this same object.
            call.metadata = {**call.metadata, "journal": {"key": row.key}}
            label(call, context)
            if not defined:
                defined.append(definition_of(tool))
            definition = defined[0]  # Two threads may have added it.
            try:
                await _retry_while_busy(
                    lambda: self._store.define(definition.digest, lambda: definition.form)
                )
                if through:
                    await self._refuse_older(run, through, row.call_id)
                found = await self._claim(tool, row._replace(definition=definition.digest))
            except JournalError as error:
                logger.error("a call of %s was not run: %s", tool.name, error)
                raise JournalError(
                    f"The call was not run, because it could not be recorded{_reason(error)}."
                ) from error
            if found is not None:
                return await answered(entry_of(found), context)
            return await self._run(row, context, proceed)

        return once

    async def note(self, run: str, name: str, note_id: str, data: Mapping[str, Any]) -> Any:
        """Store data with the calls of a run, and return what is stored under this id.

        Raises:
            JournalError: The data could not be written.
        """
        now = time.time()
        row = Row(
            key=key_of(run, name, note_id),
            run=run,
            tool=name,
            call_id=note_id,
            arguments=json.dumps(dict(data), default=str),  # A program sees the order of keys.
            definition="",
            repeatable=1,
            state="done",
            attempt=uuid4().hex,
            owner=self._leases.owner,
            lease=0.0,
            started=now,
            ended=now,
            result=text_of(ToolResult.of(None)),
        )
        return json.loads(await _retry_while_busy(partial(self._store.note, row)))

    def _new_row(self, tool: Tool, run: str, call: ToolCall, appending: bool) -> Row:
        """Return the row to write for a call before it runs.

        Raises:
            JournalConflict: The call has no id, or an id that cannot be stored.
        """
        call_id, arguments = call.id, arguments_text(call.arguments)
        if isinstance(call_id, str) and not is_utf8(call_id):
            raise JournalConflict(
                "The call was not run: its id is no valid text. The host has to give each call an"
                " id of its own."
            )
        if not isinstance(call_id, str) or not call_id:
            if not appending:
                raise conflict_without_id()
            call_id = uuid4().hex
        elif appending:
            found = self._store.fetch(key_of(run, tool.name, call_id))
            if found is not None and found.arguments != arguments:
                # Not a random number: if this call comes again, it is the same call.
                call_id = f"{call_id}+{sha256(arguments.encode()).hexdigest()[:32]}"
        settings = tool.settings
        return Row(
            key=key_of(run, tool.name, call_id),
            run=run,
            tool=tool.name,
            call_id=call_id,
            arguments=arguments,
            definition="",
            repeatable=int(bool(settings.read_only or settings.idempotent)),
            state="started",
            attempt=uuid4().hex,
            owner=self._leases.owner,
            lease=0.0,
            started=time.time(),
        )

    async def _refuse_older(self, run: str, through: str, call_id: str) -> None:
        """Refuse a call that was recorded under the name of the tool that calls its tool.

        Raises:
            JournalConflict: It was. An older functool did this.
        """
        key = key_of(run, through, call_id)
        if await _retry_while_busy(partial(self._store.fetch, key)) is not None:
            raise conflict_of_versions(through)

    async def _claim(self, tool: Tool, row: Row) -> Row | None:
        """Record that this call begins, and return None; or return the row that answers it.

        A returned row is done, or interrupted. While another call with this key runs, wait for it.

        Raises:
            JournalConflict: The id was used before with other arguments.
            JournalError: The row could not be written.
        """
        pause = 0.005
        while True:
            found = await _retry_while_busy(partial(self._store.fetch, row.key))
            if found is None:
                if await self._try_begin(row, lambda mine: self._store.start(mine)):
                    return None
                continue
            if found.arguments != row.arguments:
                form = await _retry_while_busy(partial(self._store.form, found.definition))
                if not form or not same_call(tool, row.arguments, found.arguments, form):
                    raise conflict_of_arguments(row.tool)
            if found.state == "done":
                return found
            if self.is_running(found):
                _refuse_itself(found)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.25)
            elif not row.repeatable:
                if found.state == "started":
                    await _retry_while_busy(partial(self._store.interrupt, row.key, found.attempt))
                # Look again: the call may have ended after the first look, on another thread.
                last = await _retry_while_busy(partial(self._store.fetch, row.key))
                if last is not None and last.attempt == found.attempt:
                    return last
            elif await self._try_begin(row, partial(self._take_over, found)):
                return None

    async def _try_begin(self, row: Row, write: Callable[[Row], bool]) -> bool:
        """Call `write(row)` with a new lease; return whether it recorded that the call begins."""
        self._leases.hold(row.key, row.attempt)
        began = False
        try:
            began = await _retry_while_busy(
                lambda: write(row._replace(lease=new_lease(), started=time.time()))
            )
        finally:
            if not began:
                self._leases.drop(row.attempt)
        return began

    def _take_over(self, found: Row, row: Row) -> bool:
        return self._store.take_over(row, found.attempt)

    async def _run(self, row: Row, context: Context[Any], proceed: Proceed) -> ToolResult:
        """Run the body of a call that was recorded as started, and record its outcome."""
        outer = _running_attempts.get()
        _running_attempts.set((*outer, row.attempt))
        try:
            result, raised, error = await _outcome(proceed, context)
            if isinstance(error, Interrupted):
                raise error
            is_pause = isinstance(error, ApprovalRequired) or pauses(result)
            try:
                if is_interrupted(result):
                    self._interrupt(row)
                else:
                    await (self._forget(row) if is_pause else self._finish(row, result, raised))
            except JournalError as failure:
                logger.error("what came of the call %s was not recorded: %s", row.key, failure)
                note(context, {"key": row.key, "stored": False})
        except BaseException:  # A cancelled or lost body may have had its effect.
            self._interrupt(row)
            raise
        finally:
            _running_attempts.set(outer)
            self._leases.drop(row.attempt)
        if error is not None:
            raise error
        return result

    async def _forget(self, row: Row) -> None:
        await _retry_while_busy(partial(self._store.forget, row.key, row.attempt))

    async def _finish(self, row: Row, result: ToolResult, raised: str) -> None:
        text = None
        try:
            text = await self._text_to_store(result, raised)
            write = partial(self._store.finish, row.key, row.attempt, text)
            written = await _retry_while_busy(write, large=len(text) >= LARGE)
        except asyncio.CancelledError:  # The body has ended, so its outcome is known.
            if text is None and self._keep is None:
                text = text_of(result, raised)
            if text is not None:
                with suppress(Exception):
                    self._store.finish(row.key, row.attempt, text)
            raise
        if not written:
            logger.warning("the call %s was settled or reopened while it ran", row.key)

    def _interrupt(self, row: Row) -> None:
        """Record that a body was interrupted. If that fails, the end of the lease shows it."""
        try:
            self._store.interrupt(row.key, row.attempt)
        except JournalError as error:
            logger.warning("the interrupted call %s could not be marked: %s", row.key, error)

    async def _text_to_store(self, result: ToolResult, raised: str) -> str:
        """Return the text to store for a result, as `keep` left it."""
        try:
            if self._keep is None:
                return await _written(result, raised)
            kept = self._keep(copy.copy(result))
            kept = await kept if inspect.isawaitable(kept) else kept
            if not isinstance(kept, ToolResult):
                raise TypeError(f"keep must return a ToolResult, not {type(kept).__name__}")
            kept = with_labels_of(result, kept)
            return await _written(kept, raised if kept.is_error else "")
        except Exception:  # The body has run, so the journal must record that it ended.
            logger.error("a result could not be stored, only that there was one", exc_info=True)
            substitute = "The call ended. Its result was not kept."
            if result.error is None:
                return text_of(ToolResult.of(substitute))
            return text_of(ToolResult.failed(substitute, type=result.error.type), raised)

    def is_running(self, row: Row) -> bool:
        """Whether some process runs this call now."""
        running = self._leases.is_running(row.attempt, row.owner, row.lease)
        return row.state == "started" and running


async def _written(result: ToolResult, raised: str) -> str:
    """Return the text to store for a result. A large one is written in a thread."""
    texts = [part.text for part in result.output if isinstance(part, TextContent)]
    # What code gets may be larger than what the model reads.
    hidden = result.structured is None and isinstance(result.value, (str, list, dict, tuple))
    large = sum(map(len, texts)) >= LARGE or hidden
    return await in_thread_if(large, text_of, result, raised)


async def _outcome(
    proceed: Proceed, context: Context[Any]
) -> tuple[ToolResult, str, Exception | None]:
    """Run a body. Return its result, or a failed result with the kind and the exception itself."""
    try:
        return await proceed(), "", None
    except Exception as error:
        return *failure_from(error, context.inner_labels), error


def is_utf8(text: str) -> bool:
    """Whether a text can be stored, which means that it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def key_of(run: str, tool: str, call_id: str) -> str:
    """Return the key of a call: ASCII, at most 200 characters, different for each call."""
    key = "/".join(quote(part, safe="") for part in (run, tool, call_id))
    return key if len(key) <= MAX_KEY else sha256(key.encode()).hexdigest()


def is_inside() -> bool:
    """Whether this runs inside the body of a call that a journal records."""
    return bool(_running_attempts.get())


def idempotency_key(context: Context[Any]) -> str:
    """Return the key of the running call, to send to a service that accepts idempotency keys.

    Use it as `Annotated[str, Inject(idempotency_key)]`. Each attempt of a call has the same key,
    also on workers of Temporal and Ray. The same call that comes again has it too, with a journal
    or on Temporal. Otherwise each call has a new key.
    """
    noted = None if context.call is None else metadata_of(context.call).get("journal")
    if isinstance(noted, Mapping) and "key" in noted:
        return str(noted["key"])
    return str(context.notes.setdefault("idempotency_key", uuid4().hex))


async def _retry_while_busy(write: Callable[[], T], *, large: bool = False) -> T:
    """Return `write()`. While another process is writing, retry without blocking the event loop.

    Args:
        write: Writes to the file.
        large: Whether it writes so much that a thread has to do it.

    Raises:
        Busy: Other processes kept writing for `BUSY_SECONDS`.
    """
    end, pause = time.monotonic() + BUSY_SECONDS, 0.001
    while True:
        try:
            return await in_thread_if(large, write)
        except Busy:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 0.05)


def _refuse_itself(found: Row) -> None:
    """Raise if a call inside the body of `found` would wait for `found`, and so for itself."""
    if found.attempt in _running_attempts.get():
        raise JournalConflict(
            "The call was not run: it is running already, and this one is inside of it. Put a tool"
            " into one journal once, and give inner calls ids of their own."
        )


def entry_of(row: Row) -> Entry:
    """Return a row as the entry that a replay uses."""
    return Entry(row.key, row.tool, row.call_id, row.arguments, row.result, row.started)


def _reason(error: JournalError) -> str:
    """Return SQLite's message for the model. The log for the operator names the file as well."""
    cause = error.__cause__
    return f" ({cause})" if cause is not None and type(cause).__module__ == "sqlite3" else ""
