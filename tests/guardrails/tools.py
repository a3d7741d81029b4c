"""What the tests of guardrails share: a tool that says something."""

from functool import FunctionTool


def echo_tool(value, **options):
    async def echo():
        """Say it."""
        if isinstance(value, Exception):
            raise value
        return value

    return FunctionTool(echo, **options)
