"""The Model Context Protocol, both ways: `serve` and `server` offer tools, `connect` brings a server's tools in."""

try:
    from functool.integrations.mcp_client import connect
    from functool.integrations.mcp_server import ToolServer, serve, server
    from functool.integrations.mcp_untrusted import pin
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
        raise
    raise ImportError("MCP needs the official SDK: pip install 'functool[mcp]'") from error

__all__ = ["ToolServer", "connect", "pin", "serve", "server"]
