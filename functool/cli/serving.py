"""Serve targets over MCP: files, modules, and other MCP servers."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from functool import Context, DefinitionError, Toolset, WrapperTool
from functool.cli.contexts import run_until_stopped
from functool.cli.targets import (
    SERVER,
    headers_of,
    is_remote,
    local_toolset,
    object_of,
    variable_of,
)
from functool.executors import in_thread

STOP_SECONDS = {"stdio": 1.0, "http": 10.0}
"""How long a stopped server may take. One on standard input would only end after the next line.
Over HTTP, calls may run for five more seconds."""

HTTP_ONLY = {
    "host": "--host",
    "port": "--port",
    "allowed_hosts": "--allowed-host",
    "token_env": "--token-env",
}
"""The options of `serve` that are for HTTP only, by their parameters."""

_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(.+)", re.DOTALL)


def serve_targets(
    targets: Sequence[str],
    *,
    transport: Any,
    host: str,
    port: int,
    allowed_hosts: Sequence[str],
    token_env: str | None,
    guardrails: Sequence[str],
    headers: Sequence[str],
    context: str | None = None,
) -> None:
    """Serve the tools of the targets as one server, until it is stopped.

    Raises:
        DefinitionError: Two targets have the same name, or a tool cannot be served.
        UsageError: A target or an option is not valid.
    """
    if transport != "http":
        _refuse_http_options()
    token = variable_of("--token-env", token_env) if token_env else None
    parts = _parts(targets)
    sent, guards = _headers(headers, parts), _guards(guardrails)
    from functool.integrations import mcp

    options: dict[str, Any] = {"token": token, "allowed_hosts": allowed_hosts}

    async def serve(opened: Context[Any] | None) -> None:
        # Conversations share the dependencies. Each has its own state, approvals and grants.
        own = {} if opened is None else {"context": lambda request: opened.fresh()}
        async with AsyncExitStack() as stack:
            proxy = _Proxy(stack, parts, sent, guards, own)
            await mcp.serve_async(await proxy.server(), transport, host, port, **options)

    if context is not None:
        run_until_stopped(context, serve, patience=STOP_SECONDS[transport])
        return
    if not any(target.startswith(SERVER) for _, target in parts):
        tools = [
            tool for prefix, target in parts for tool in _local(prefix, target, guards).values()
        ]
        mcp.serve(tools, transport, host, port, **options)
        return
    import anyio

    if transport == "stdio":  # `mcp.serve` says why.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(serve, None)


def _refuse_http_options() -> None:
    """Refuse options of HTTP that a person has written.

    Raises:
        UsageError: There is one.
    """
    context = click.get_current_context()
    for name, option in HTTP_ONLY.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is for --transport http")


class _Proxy:
    """Several targets as one server. If the tools of a target change, so do the server's."""

    def __init__(
        self,
        stack: AsyncExitStack,
        parts: Sequence[tuple[str, str]],
        headers: dict[str, dict[str, str]],
        guards: list[Any],
        options: dict[str, Any],
    ) -> None:
        self._stack, self._parts, self._headers, self._guards = stack, parts, headers, guards
        self._options = options
        self._toolsets: list[Toolset] = []
        self._server: Any = None
        self._changing = asyncio.Lock()

    async def server(self) -> Any:
        """Return the server, connected to every target."""
        from functool.integrations import mcp

        for prefix, target in self._parts:
            if not target.startswith(SERVER):
                self._toolsets.append(_local(prefix, target, self._guards))
                continue
            connection = mcp.connect(
                target.removeprefix(SERVER),
                prefix=prefix,
                trusted=True,
                headers=self._headers.get(prefix),
                changed=self._changed,
                input_guardrails=self._guards,
            )
            self._toolsets.append(await self._stack.enter_async_context(connection))
        # In a thread, because to describe thousands of tools of others takes seconds.
        make = partial(mcp.server, **self._options)
        async with self._changing:  # What a target announces meanwhile is added afterwards.
            self._server = await in_thread(make, self._tools())
        return self._server

    def _tools(self) -> list[Any]:
        return [tool for toolset in self._toolsets for tool in toolset.values()]

    async def _changed(self, toolset: Toolset) -> None:
        async with self._changing:
            if self._server is None:
                return
            # A server may announce any name later. It must not replace another server's tool, nor
            # keep new tools of others away.
            served = dict(self._server.toolset)
            for tool in self._tools():
                served.setdefault(tool.name, tool)
            await self._server.replace(list(served.values()))


def _headers(given: Sequence[str], parts: Sequence[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Return the headers for each server among the targets, by the server's prefix.

    A header is often a secret of one server. So it goes to one server only.
    """
    sent: dict[str, list[str]] = {prefix: [] for prefix, target in parts if _is_url(target)}
    for each in given:
        if not sent:
            raise click.UsageError("--header is for an MCP server's URL")
        owner, sign, header = each.partition(":")
        if not sign or "=" in owner:
            owner, header = next(iter(sent)).removesuffix("_"), each
            if len(sent) > 1:
                raise click.UsageError(
                    "--header has to name its server, because several are served:"
                    f" --header {owner}:NAME=VARIABLE"
                )
        prefix = f"{owner}_" if owner else ""
        if prefix not in sent:
            known = ", ".join(name.removesuffix("_") for name in sent) or "none"
            raise click.UsageError(f"--header: no server is called {owner!r}; known: {known}")
        sent[prefix].append(header)
    return {prefix: headers_of(headers) for prefix, headers in sent.items()}


def _parts(targets: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of prefix and target. A single target without a name gets no prefix."""
    parts: dict[str, str] = {}
    for each in targets:
        match = _NAMED.fullmatch(each)
        name, target = (match[1], match[2]) if match else (_name_of(each), each)
        if is_remote(target) and not target.startswith(SERVER):
            raise click.UsageError(
                f"this TARGET is an MCP server already: mcp:{target} serves it again"
            )
        if name in parts:
            raise DefinitionError(f"two targets are called {name!r}: name one, as NAME=TARGET")
        parts[name] = target
        if len(targets) == 1 and not match:
            return [("", target)]
    return [(f"{name}_", target) for name, target in parts.items()]


def _name_of(target: str) -> str:
    """Return the name of a target: that of a file or module, a host, or a command."""
    text = target.removeprefix(SERVER)
    if _is_url(target):
        text = urlsplit(text).hostname or ""
    elif target.startswith(SERVER):
        # Use the last word that is not an option. `python weather.py` gives weather, and
        # `npx @org/files` gives files.
        words = [word for word in shlex.split(text) if not word.startswith("-")]
        text = PurePath(words[-1]).stem if words else ""
    else:
        text = PurePath(text.partition(":")[0]).stem.rpartition(".")[2]
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "server"


def _is_url(target: str) -> bool:
    return target.startswith((f"{SERVER}http://", f"{SERVER}https://"))


def _local(prefix: str, target: str, guards: list[Any]) -> Toolset:
    toolset = local_toolset(target)
    if not prefix and not guards:
        return toolset
    return Toolset(
        WrapperTool(tool, name=prefix + name, input_guardrails=guards)
        for name, tool in toolset.items()
    )


def _guards(names: Sequence[str]) -> list[Callable[..., Any]]:
    """Return the guardrails that `--guardrail FILE:NAME` asks for."""
    found: list[Callable[..., Any]] = []
    for name in names:
        given = object_of(name)
        if not isinstance(given, Iterable) and not callable(given):
            kind = type(given).__name__
            raise click.UsageError(f"--guardrail {name} is of type {kind}, and no guardrail")
        found += [given] if callable(given) else list(given)
    return found
