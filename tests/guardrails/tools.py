"""What the tests of guardrails share: a tool that says something."""

from functool import FunctionTool
from tests.support import call


def echo_tool(value, **options):
    async def echo():
        """Say it."""
        if isinstance(value, Exception):
            raise value
        return value

    return FunctionTool(echo, **options)


def said(value, *output_guardrails):
    """The result of a tool that says something, behind output guardrails."""
    return call(echo_tool(value, output_guardrails=output_guardrails))
