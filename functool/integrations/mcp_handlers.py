"""Answer `tools/list` and `tools/call` of the Model Context Protocol with functool's tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from math import inf, isfinite, nextafter
from time import monotonic, time
from typing import Any, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from functool import (
    ApprovalRequest,
    Context,
    DefinitionError,
    Tool,
    ToolCall,
    ToolEvent,
    ToolResult,
    Toolset,
    Tripwire,
)
from functool.executors import in_thread
from functool.integrations import mcp_approval as approval
from functool.integrations.mcp_approval import Approved, Request
from functool.integrations.mcp_contexts import Contexts, MakeContext, call_id
from functool.integrations.mcp_served import Served, answer
from functool.integrations.values import exit_refused, outgoing
from functool.layers.passing import is_passing

Tools: TypeAlias = Tool | Iterable[Tool] | Toolset

STATE_SECONDS = 600.0
"""How long a person may take between the two requests of an approval, in seconds."""

APPROVAL_SECONDS = 300.0
"""How long an approval holds, if a call has to ask about something else first, in seconds."""


_used_approvals: dict[str, float] = {}
"""Until when each used approval is kept. Several servers of a process may share their keys."""


class Handlers:
    """The handlers of a server's tools.

    Args:
        tools: The tools to serve. A toolset may grow while it is served.
        context: `context(request)` makes the Context of a conversation. See `Contexts`.
        page_size: How many tools one page of the list has. None means all of them.

    Raises:
        DefinitionError: A tool cannot be served, two have one name, or the page size is not a
            positive int.
    """

    def __init__(
        self, tools: Tools, context: MakeContext | None = None, page_size: int | None = None
    ) -> None:
        if page_size is not None and (type(page_size) is not int or page_size < 1):
            raise DefinitionError(f"page_size must be a positive int or None, not {page_size!r}")
        self._context_of = Contexts(context)
        self._page_size = page_size
        self._served: dict[str, Served] = {}
        self._replacing = asyncio.Lock()
        self._toolset = _toolset(tools)
        self._served = self._described(self._toolset)

    @property
    def toolset(self) -> Toolset:
        """The tools that are served now."""
        return self._toolset

    async def replace(self, tools: Tools) -> None:
        """Serve these tools from now on, and describe them beside the event loop.

        Raises:
            DefinitionError: A tool cannot be served, or two have one name. The old tools stay.
        """
        async with self._replacing:  # In order: what was asked for last is served in the end.
            tools = _toolset(tools)
            served = await in_thread(self._described, tools)
            self._toolset, self._served = tools, served

    def _described(self, tools: Toolset) -> dict[str, Served]:
        """Describe tools. Those of others may take seconds, so keep what is described already."""
        known = self._served
        return {
            name: known[name] if self._is_known(name, tool) else Served(tool)
            for name, tool in tools.items()
        }

    def _is_known(self, name: str, tool: Tool) -> bool:
        return name in self._served and self._served[name].tool is tool

    def find(self, name: str) -> Served | None:
        """Return the tool that clients call `name`. One that was added since is described first."""
        tool = self._toolset.get(name)
        if tool is not None and not self._is_known(name, tool):
            self._served[name] = Served(tool)
        return None if tool is None else self._served[name]

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, for the SDK's check of headers."""
        served = self.find(name)
        return None if served is None else served.definition.input_schema

    async def list_tools(
        self, request: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Answer `tools/list`."""
        if not all(self._is_known(name, tool) for name, tool in self._toolset.items()):
            async with self._replacing:  # It has grown, and several clients list it.
                self._served = await in_thread(self._described, self._toolset)
        enabled = await self.enabled(request)
        page, cursor = self._page(enabled, params.cursor if params else None)
        shown = [served for name in page if (served := self.find(name))]
        return types.ListToolsResult(
            tools=[served.definition for served in shown], next_cursor=cursor
        )

    async def enabled(self, request: Request) -> list[str]:
        """Return the names of the tools that are enabled for a client."""
        context = await self._context_of(request)
        return [tool.name for tool in self._toolset.enabled(context)]

    def _page(self, names: list[str], cursor: str | None) -> tuple[list[str], str | None]:
        """Return a page of the list, and the cursor of the next page: the last name of this one.

        Raises:
            MCPError: The list does not have this cursor, or no longer has it.
        """
        if cursor is not None and cursor not in names:
            raise MCPError(types.INVALID_PARAMS, "Invalid cursor: begin again without one")
        rest = names if cursor is None else names[names.index(cursor) + 1 :]
        page = rest if self._page_size is None else rest[: self._page_size]
        return page, page[-1] if len(page) < len(rest) else None

    async def call_tool(self, request: Request, params: types.CallToolRequestParams) -> Any:
        """Answer `tools/call`."""
        context = await self._context_of(request)
        served = self.find(params.name)
        new = (None, call_id(request), list[Approved]())
        asked, id, approved = approval.asked_before(params) or new
        call = ToolCall(name=params.name, arguments=params.arguments or {}, id=id)
        asks, latest = approval.can_ask(request), _is_latest(request)
        # A server that answers with single JSON bodies can send no question during a call.
        during = not latest and request.session.can_send_request
        if asks and during and context.approver is None:
            context = context.view(approver=approval.approver(request))
        if asked:
            approved = self._decide(context, asked, approved, params.input_responses or {})
        result = await self._run(request, served, call, context)
        if isinstance(result.value, types.InputRequiredResult):
            return result.value
        question = result.metadata.get("approval")
        if asks and latest and result.is_error and isinstance(question, ApprovalRequest):
            if reason := approval.too_long(question):
                return await answer(ToolResult.failed(reason, type="ApprovalRequired"), served)
            # Where there are no sessions, the next round has a new context.
            kept = approved if is_passing(context) else []
            unused = [each for each in kept if context.has_decision(each[0])]
            return approval.input_required(question, call.id, unused)
        return await answer(result, served)

    async def _run(
        self, request: Request, served: Served | None, call: ToolCall, context: Context[Any]
    ) -> ToolResult:
        # The calls of a conversation share its context. Each has to report only its own progress.
        if served is not None:
            context = context.heard_by(_progress_to(request, served.tool))
        # The client decides which calls run together. `Toolset.call` answers what must not run.
        runs = served is not None and served.tool.is_enabled(context)
        invoke = served.tool.invoke if served and runs else self._toolset.call
        try:
            return await invoke(call, context)
        except Tripwire as stop:
            # Only the host can stop a run. A protocol error reaches the host, and no model.
            text = ToolResult.of(str(stop)).text
            raise MCPError(types.INTERNAL_ERROR, text, {"type": type(stop).__name__}) from stop
        except SystemExit:
            # A call must not end the server. A body that parses a command line exits on a wrong
            # word.
            return exit_refused()

    def _decide(
        self,
        context: Context[Any],
        asked: ApprovalRequest,
        before: list[Approved],
        answers: Mapping[str, Any],
    ) -> list[Approved]:
        """Note what a person decided in the round before. A decision counts once.

        Return what the person has approved, with what was approved `before` and not used.

        Raises:
            MCPError: The decision was used before.
        """
        given = answers.get(approval.APPROVAL)
        if not isinstance(given, types.ElicitResult):
            return []
        if not _is_first_use(asked.id):
            raise MCPError(
                types.INVALID_PARAMS,
                "Invalid or expired requestState",
                {"reason": "invalid_request_state"},
            )
        today = time()
        approved = [each for each in before if each[1] > today]
        if approval.approves(given):
            approved.append((asked, today + APPROVAL_SECONDS))
        else:
            context.deny(asked, approval.refusal(given))
        for each, until in approved:
            context.approve(each, expires_in=until - today)
        return approved


def _is_first_use(approval: str) -> bool:
    """Note that an approval is used, and return whether it was not used before."""
    now = monotonic()
    for old in [id for id, until in list(_used_approvals.items()) if until <= now]:
        _used_approvals.pop(old, None)
    until = now + STATE_SECONDS
    # One step, because the servers of a process may run in several threads.
    return _used_approvals.setdefault(approval, until) is until


def _toolset(tools: Tools) -> Toolset:
    return (
        tools
        if isinstance(tools, Toolset)
        else Toolset([tools] if isinstance(tools, Tool) else tools)
    )


def _is_latest(request: Request) -> bool:
    return request.protocol_version in MODERN_PROTOCOL_VERSIONS


def _progress_to(request: Request, tool: Tool) -> Callable[[ToolEvent], Awaitable[None]]:
    # Just below 0, which may be the first report. One more than this is exactly 1.
    last, data_of = nextafter(0.0, -inf), outgoing(tool)

    async def forward(event: ToolEvent) -> None:
        nonlocal last
        if event.kind != "tool:progress":
            return
        data = data_of(event)
        done, total = data.get("done"), data.get("total")
        # The protocol requires that progress rises with each report. A body may report otherwise.
        if done is None or not isfinite(done):
            last += 1
        else:
            last = max(float(done), nextafter(last, inf))
        text = ToolResult.of(data.get("message") or data.get("value")).text
        known = total if total is not None and isfinite(total) else None
        await request.session.report_progress(last, known, text or None)

    return forward
