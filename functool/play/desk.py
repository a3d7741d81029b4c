"""The state of a playground: tools, a context, an inbox, a history and a journal."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import islice
from typing import Any
from uuid import uuid4

import anyio

from functool import Context, Tool, ToolResult, Toolset
from functool.approval import Grant
from functool.executors import in_thread
from functool.integrations.visible import indented
from functool.layers.inbox import Inbox
from functool.play.feed import Feed
from functool.play.road import run_call
from functool.play.shown import cut, shown_request, shown_tool, spelling, tool_with_form

KEPT = 200
"""How many calls the history keeps."""

BRIEF = 200
"""How many characters of a call's arguments the history shows."""

LOOK = 0.4
"""Seconds between two reads of the inbox."""

READ = 2.0
"""Seconds between two reads of the journal. Each reads all of its calls."""


class Desk:
    """One person's playground.

    All tabs share one conversation, until the person begins a new one.

    Args:
        tools: The tools of the target. A toolset may grow.
        target: The target that the person typed. It is part of the commands to copy.
        inbox: Where calls wait for approval, also calls of other processes.
        context: The context of calls. If it has no approver, the inbox approves.
        journal: A `Journal` whose calls are part of the history, or None.
    """

    def __init__(
        self,
        tools: Toolset,
        target: str,
        inbox: Inbox,
        context: Context[Any] | None = None,
        journal: Any = None,
    ) -> None:
        self.tools: Toolset = tools
        self.inbox: Inbox = inbox
        self.journal: Any = journal
        self._target = target
        base = context or Context()
        self._base = base if base.approver else base.view(approver=inbox.approver)
        self._context = self._base.fresh()
        self._entries_then: list[dict[str, Any]] = []
        self._read_at = -READ
        self._history: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def listed(self) -> dict[str, Any]:
        """Return the list of tools, and the target."""
        enabled = [tool for tool in self.tools.values() if tool.is_enabled(self._context)]
        return {
            "target": cut(self._target, 500),
            "tools": [shown_tool(tool) for tool in enabled[:5_000]],
            "journal": self.journal is not None,
        }

    def tool(self, name: Any) -> Tool:
        """Return a tool.

        Raises:
            ValueError: There is no tool of this name.
        """
        if not isinstance(name, str) or name not in self.tools:
            raise ValueError("there is no such tool")
        return self.tools[name]

    def tool_with_form(self, name: Any) -> dict[str, Any]:
        """Return a tool with its form."""
        return tool_with_form(self.tool(name))

    def begin_again(self) -> None:
        """Forget the state, approvals and grants of the conversation."""
        self._context = self._base.fresh()

    async def call(self, name: Any, text: str) -> AsyncGenerator[str, None]:
        """Run one call, and yield its messages as lines of JSON. Closing this cancels the call."""
        tool, feed = self.tool(name), Feed()
        entry: dict[str, Any] = {
            "id": f"play-{uuid4().hex[:12]}",
            "tool": tool.name,
            "text": text,
            "at": time.time(),
            "outcome": "running",
            "ms": None,
        }
        self._history.appendleft(entry)
        feed.send({"kind": "call", "id": entry["id"], **self._spelled(tool, text)})

        def send(message: dict[str, Any]) -> None:
            if message["kind"] == "result":
                error = message["error"]
                entry.update(outcome=error["type"] if error else "success", ms=message["ms"])
            feed.send(message)

        async def run() -> None:
            try:
                await run_call(tool, text, entry["id"], self._context, send)
            finally:
                if entry["outcome"] == "running":
                    entry["outcome"] = "cancelled"
                feed.close()

        async for line in feed.lines(run):
            yield line

    def _spelled(self, tool: Tool, text: str) -> dict[str, Any]:
        try:
            arguments = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return {}
        if not isinstance(arguments, dict) or len(text) > 100_000:
            return {}
        return {"spelling": spelling(self._target, tool, arguments)}

    async def live(self) -> AsyncGenerator[str, None]:
        """Yield every part that has changed, as JSON: inbox, grants, history, journal."""
        before: dict[str, str] = {}
        while True:
            now = await in_thread(self._now)
            for name, text in now.items():
                if before.get(name) != text:
                    before[name] = text
                    yield text
            await anyio.sleep(LOOK)

    def _now(self) -> dict[str, str]:
        pending, grants, asks = islice(self.inbox.each(), 50), self.inbox.grants(), self._asks()
        now = {
            "pending": [{**shown_request(each), **asks(each.id)} for each in pending],
            "grants": [{**json.loads(each.to_json()), **asks(each.id)} for each in grants],
            "history": [
                {**entry, "tool": cut(entry["tool"], 200), "text": cut(entry["text"], BRIEF)}
                for entry in list(self._history)
            ],
            "entries": self._entries(),
        }
        return {name: json.dumps({"kind": name, name: part}) for name, part in now.items()}

    def _asks(self) -> Callable[[str], dict[str, str]]:
        """Return a function from the id of a request or a grant to the conversation that asks."""
        own = getattr(self._context.approver, "conversation", None)
        found = self.inbox.conversations()
        return lambda id: {
            "asks": "this page" if found.get(id, "") == own else found.get(id, "")[:6]
        }

    def _entries(self) -> list[dict[str, Any]]:
        """Return the calls of the journal, the newest first."""
        if self.journal is None or time.monotonic() < self._read_at + READ:
            return self._entries_then
        self._read_at = time.monotonic()
        self._entries_then = [
            {
                "key": each.key,
                "run": cut(each.run, 200),
                "tool": cut(each.tool, 200),
                "state": each.state,
                "text": cut(json.dumps(each.arguments), BRIEF),
                "result": cut(each.result.text, 2_000) if each.result else "",
                "at": each.started.timestamp(),
            }
            for each in reversed(deque(self.journal.each(), maxlen=KEPT))
        ]
        return self._entries_then

    def replayed(self, sent: Mapping[str, Any]) -> dict[str, str]:
        """Return the tool and all arguments of a call of the history or the journal.

        Raises:
            ValueError: Neither keeps the call any more.
        """
        for entry in list(self._history):
            if entry["id"] == sent.get("id"):
                return {"tool": entry["tool"], "text": entry["text"]}
        for each in self.journal.each() if self.journal is not None else ():
            if each.key == sent.get("key"):
                text = indented(each.arguments, ensure_ascii=False)
                return {"tool": each.tool, "text": text}
        raise ValueError("this call is not kept any more")

    def answer(self, sent: Mapping[str, Any]) -> None:
        """Approve, edit or deny a request, allow it with the next ones like it, or revoke a grant.

        Raises:
            ValueError: The page sent an invalid answer.
            InboxError: The request does not wait any more.
        """
        id, how = str(sent.get("id", "")), sent.get("how")
        if how == "approve":
            self.inbox.approve(id)
        elif how == "edit":
            self.inbox.approve(id, _object(sent.get("arguments")))
        elif how == "deny":
            self.inbox.deny(id, str(sent.get("reason", ""))[:2_000])
        elif how == "allow":
            self.inbox.approve(id, grant=self._grant(id, sent))
        elif how == "revoke":
            for grant in self.inbox.grants():
                if grant.id == id:
                    self.inbox.revoke(grant)
        else:
            raise ValueError("an answer is approve, edit, deny, allow or revoke")

    def _grant(self, id: str, sent: Mapping[str, Any]) -> Grant:
        """Return a grant for calls like a request. Arguments that are not free have to be equal."""
        request = next((each for each in self.inbox.each() if each.id == id), None)
        if request is None:
            raise ValueError("this request does not wait any more")
        free = tuple(name for name in sent.get("free", ()) if name in request.arguments)
        bound = {name: value for name, value in request.arguments.items() if name not in free}
        minutes = float(sent.get("minutes", 60))
        return Grant(
            tool=request.tool,
            definition=request.definition,
            arguments=bound,
            free=free,
            uses=min(max(int(sent.get("uses", 1)), 1), 1_000),
            expires_at=time.time() + 60 * min(max(minutes, 1.0), 10_080.0),
        )

    def settle(self, sent: Mapping[str, Any]) -> None:
        """Settle or reopen an unknown call of the journal.

        Raises:
            ValueError: There is no journal, or the page sent an invalid answer.
        """
        if self.journal is None:
            raise ValueError("there is no journal: functool play --journal FILE")
        key, text = str(sent.get("key", "")), str(sent.get("text", ""))
        if sent.get("how") == "reopen":
            self.journal.reopen(key)
        elif sent.get("how") == "settle":
            failed = sent.get("failed") is True
            result = ToolResult.failed(text or "It failed.") if failed else ToolResult.of(text)
            self.journal.settle(key, result)
        else:
            raise ValueError("a call of the journal is settled or reopened")
        self._read_at = -READ


def _object(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("the arguments are one JSON object")
    return found
