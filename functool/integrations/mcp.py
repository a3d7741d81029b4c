"""Bridge to the Model Context Protocol: serve our tools, and use the tools of a server."""

try:
    from functool.integrations.mcp_client import connect
    from functool.integrations.mcp_server import ToolServer, server
    from functool.integrations.mcp_serving import http_app, serve, serve_async
    from functool.integrations.mcp_untrusted import pin
except ModuleNotFoundError as _error:
    if (_error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "httpx2"):
        raise
    raise ImportError("MCP needs the official SDK: pip install 'functool[mcp]'") from _error

__all__ = ["ToolServer", "connect", "http_app", "pin", "serve", "serve_async", "server"]
