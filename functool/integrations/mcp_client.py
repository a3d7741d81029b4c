"""Call the tools of any MCP server as ordinary tools."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from typing import Any, TypeAlias

import mcp_types as types
from mcp.client.session import ClientRequestContext

from functool import (
    Context,
    DefinitionError,
    SchemaTool,
    Tool,
    ToolResult,
    Toolset,
    ToolSettings,
)
from functool.executors import in_thread, inline
from functool.integrations import mcp_untrusted as untrusted
from functool.integrations.mcp_link import CLOSE_SECONDS, MAX_LISTED, MAX_TOOLS, Link
from functool.integrations.mcp_transport import Endpoint
from functool.integrations.visible import visible

Answer: TypeAlias = Mapping[str, Any] | None
Elicit: TypeAlias = Callable[[str, dict[str, Any]], Answer | Awaitable[Answer]]
Changed: TypeAlias = Callable[[Toolset], Any]

CONNECT_SECONDS = 30.0
LOGIN_SECONDS = 300.0
"""How long connecting may take with `auth`, because a person may have to log in meanwhile."""

MAX_OPEN_QUESTIONS = 10
"""How many questions of one server may wait for a person at the same time."""

MAX_QUESTION = 100_000
"""How many characters a question and its form may have. No person reads more."""

LARGE = 65_536
"""How many characters a definition has that is read beside the event loop."""

OPTIONS = ("timeout", "input_guardrails", "output_guardrails", "on_error_func", "settings")
"""The options of every tool that an error names."""

MORE = ("prompts", "max_argument_bytes", "strict", "executor")
"""The options of a `SchemaTool` that few connections need. Its `output` comes from the server."""

INVISIBLE = "The tool's schema holds invisible characters; it is refused."
ACCEPTED = "The change was accepted; connect again to use the tool."

logger: logging.Logger = logging.getLogger("functool")


def connect(
    target: Any,
    *,
    prefix: str = "",
    pins: MutableMapping[str, str] | None = None,
    trusted: bool = False,
    elicit: Elicit | None = None,
    mode: str = "auto",
    headers: Mapping[str, str] | None = None,
    auth: Any = None,
    changed: Changed | None = None,
    **options: Any,
) -> AbstractAsyncContextManager[Toolset]:
    """Return an async context manager that connects to an MCP server and yields its tools.

    If the server is lost, calls answer with error results, and the next call connects again. The
    tools work only inside of this block and on its event loop. Elsewhere, also in
    `Toolset.call_sync`, a call is an error result. A tool that the server announces later appears
    in the toolset.

    Args:
        target: A URL, a command (`"npx some-server"` or its words), the SDK's
            `StdioServerParameters` or server, or a function returning a new transport of the SDK's.
        prefix: A prefix for every name. Names that some models do not accept are made valid. A hash
            keeps equal names apart.
        pins: The SHA-256 of each accepted definition, by the server's own name. A tool that is seen
            for the first time is added. A changed tool is refused until `pins` has the hash in the
            refusal's `details["offered"]`.
        trusted: Whether to use the server's hints: title, icon, read-only, destructive, idempotent.
        elicit: `elicit(message, schema)`, sync or async, answers the server's questions to a
            person. It returns an object, or None to decline. If it raises, the question is
            cancelled, and the error is logged. Without it the server is told that there is nobody
            to ask.
        mode: The mode of the SDK: `"auto"`, `"legacy"`, or a protocol revision.
        headers: Headers of every request to a URL, such as `{"Authorization": "Bearer ..."}`.
        auth: An `httpx2.Auth` for a URL, such as the SDK's `OAuthClientProvider`. A person has five
            minutes to log in. Without it, connecting may take 30 seconds.
        changed: `changed(toolset)`, sync or async, is called when new tools have appeared.
        options: For every tool: `timeout` (seconds), `input_guardrails`, `output_guardrails`,
            `on_error_func`. Of `settings` only `untrusted` is used. False says that the results of
            the server can be trusted.

    Raises:
        ConnectionError: The server cannot be reached.
        DefinitionError: There is no such option, or its value is not valid.
        TypeError: Headers or auth were given without a URL.
        ValueError: The value of a header cannot be sent.
    """
    _check_options(options)
    settings = {
        "mode": mode,
        "elicitation_callback": None if elicit is None else _elicitation(elicit),
    }
    endpoint, pins = Endpoint(target, headers, auth), {} if pins is None else pins
    patience = CONNECT_SECONDS if auth is None else LOGIN_SECONDS
    tools = _Tools(prefix, trusted, options, changed)
    return _connected(endpoint, settings, pins, tools, patience)


@asynccontextmanager
async def _connected(
    endpoint: Endpoint,
    settings: dict[str, Any],
    pins: MutableMapping[str, str],
    tools: _Tools,
    patience: float,
) -> AsyncIterator[Toolset]:
    link = Link(endpoint, settings, pins, tools.listed, patience)
    definitions = await link.open()
    telling = asyncio.create_task(tools.tell())
    try:
        await tools.fill(definitions, link)
        yield tools
    finally:
        telling.cancel()
        await link.end()
        await asyncio.wait([telling], timeout=CLOSE_SECONDS)


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse a wrong option, which would otherwise look like a fault of the server's definitions.

    Raises:
        DefinitionError: There is no such option, or its value is not valid.
    """
    known = sorted({*OPTIONS, *signature(connect).parameters} - {"options", "target"})
    for name in options.keys() - {*known, *MORE}:
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        raise DefinitionError(f"connect has no option {name!r}; {hint}")
    _answering("connect", ToolResult, **options)  # An option that no tool takes fails here.


class _Tools(Toolset):
    """The tools of one server. Tools that it announces later are added.

    A tool that the server no longer offers stays. A call of it says that it is gone.
    """

    def __init__(
        self, prefix: str, trusted: bool, options: Mapping[str, Any], changed: Changed | None
    ) -> None:
        super().__init__()
        self._prefix, self._trusted, self._options = prefix, trusted, options
        self._on_change = changed
        self._link: Link | None = None
        self._local: dict[str, Tool] = {}
        self._known: set[str] = set()
        self._room = MAX_LISTED
        self._filling = asyncio.Lock()
        self._grown = asyncio.Event()

    def __getitem__(self, name: str) -> Tool:
        return self._local[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._local))

    def __len__(self) -> int:
        return len(self._local)

    def __repr__(self) -> str:
        return f"Toolset({list(self._local)})"

    async def fill(self, definitions: list[types.Tool], link: Link) -> bool:
        """Add new tools, and return whether there were any.

        Thousands of tools take seconds, so the event loop does other work in between.
        """
        self._link = link
        async with self._filling:
            begun = len(self._known)
            for definition in definitions:
                if definition.name in self._known:
                    continue
                # A server may list other names each time.
                size = untrusted.size_of(definition)
                if size > self._room or len(self._known) >= MAX_TOOLS:
                    break
                name = untrusted.local_name(self._prefix + definition.name, self._local)
                about = (definition, name, link, self._trusted, self._options)
                # In a thread, because to read a schema of a megabyte takes a second.
                made = _tool(*about) if size < LARGE else await in_thread(_tool, *about)
                # Only now: a listing that was cancelled before leaves the tool to the next one.
                self._room -= size
                self._known.add(definition.name)
                self._local[name] = made
                await asyncio.sleep(0)
            return len(self._known) > begun

    async def listed(self, definitions: list[types.Tool]) -> None:
        """Add the tools of a new listing."""
        if self._link is not None and await self.fill(definitions, self._link):
            self._grown.set()

    async def tell(self) -> None:
        """Call the host's `changed` each time there are new tools.

        Calls wait for a listing, but not for this: the host's function may call the new tools.
        """
        while self._on_change is not None:
            await self._grown.wait()
            self._grown.clear()
            try:
                pending = self._on_change(self)
                if inspect.isawaitable(pending):
                    await pending
            except Exception:
                logger.exception("the changed function of an MCP connection failed")


def _elicitation(elicit: Elicit) -> Any:
    """Return the SDK's callback for a server's questions. A few may be open at the same time."""
    places = asyncio.Semaphore(MAX_OPEN_QUESTIONS)

    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        if places.locked():
            return types.ElicitResult(action="cancel")
        async with places:
            return await _answer_to(params, elicit)

    return answer


async def _answer_to(params: types.ElicitRequestParams, elicit: Elicit) -> types.ElicitResult:
    declined = types.ElicitResult(action="decline")
    if not isinstance(params, types.ElicitRequestFormParams):
        return declined
    size = len(params.message) + len(params.model_dump_json(include={"requested_schema"}))
    if size > MAX_QUESTION:
        logger.warning("an MCP server's question has %d characters; it is declined", size)
        return declined
    form = untrusted.cleaned(dict(params.requested_schema))
    if untrusted.has_hidden(form):
        logger.warning("an MCP server's question holds invisible characters; it is declined")
        return declined
    if keyword := untrusted.wrong_keyword(form):
        logger.warning("a value of %r in an MCP server's form is wrong; it is declined", keyword)
        return declined
    try:
        reply = await inline(elicit, visible(params.message), form)
        if reply is None:
            return declined
        return types.ElicitResult(action="accept", content=_content_of(reply))
    except Exception:
        logger.exception("the elicit function failed, so the server hears that nobody answered")
        return types.ElicitResult(action="cancel")


def _content_of(reply: Any) -> dict[str, Any]:
    """Return the host's reply as the content of a form.

    Raises:
        TypeError: It is not an object, such as the True of an approver.
    """
    try:
        return dict(reply)
    except (TypeError, ValueError):
        wrong = f"elicit returned {type(reply).__name__}, expected an object for the form, or None"
        raise TypeError(wrong) from None


def _tool(
    definition: types.Tool, name: str, link: Link, trusted: bool, options: Mapping[str, Any]
) -> Tool:
    if link.refusal(definition.name):
        again = ToolResult.failed(ACCEPTED)
        return _answering(name, lambda: link.refusal(definition.name) or again)
    if reason := untrusted.unusable(definition):
        return _refused(name, reason)

    async def handler(arguments: Mapping[str, Any], context: Context[Any]) -> ToolResult:
        return await link.call(definition.name, arguments, context, check)

    description = visible(definition.description or "")
    settings = untrusted.hints(definition) if trusted else ToolSettings()
    # The results of a server are untrusted, unless the host's settings say otherwise.
    given: ToolSettings | None = options.get("settings")
    settings = replace(settings, untrusted=True if given is None else given.untrusted)
    try:
        parameters = untrusted.cleaned(definition.input_schema)
        output = untrusted.cleaned(untrusted.output_of(definition))
        if untrusted.has_hidden(parameters) or untrusted.has_hidden(output):
            return _refused(name, INVISIBLE)
        check = untrusted.answer_check(definition)
        more = {**options, "settings": settings, "output": output}
        tool = SchemaTool(name, description, parameters, handler, **more)
    except Exception as error:
        # The schema of one tool may break anything. The other tools have to work.
        return _refused(name, f"The tool's definition cannot be used: {visible(str(error))}")
    if keyword := untrusted.wrong_keyword(tool.schema.plain):
        wrong = f"The tool's definition cannot be used: a value of {keyword!r} is no JSON Schema."
        return _refused(name, wrong)
    return tool


def _refused(name: str, reason: str) -> Tool:
    """Return a tool for a definition that cannot be used. Calling it says why."""
    return _answering(name, lambda: ToolResult.failed(reason))


def _answering(name: str, answer: Callable[[], ToolResult], **options: Any) -> Tool:
    async def handler(arguments: Mapping[str, Any]) -> ToolResult:
        return answer()

    description = "This tool is refused; calling it says why."
    return SchemaTool(name, description, {"type": "object"}, handler, **options)
