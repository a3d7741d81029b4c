"""What the tests of guardrails share: a tool that says something."""

from functool import Decision, FunctionTool
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


class Person:
    """An approver that gives these answers in turn, the last one for good, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = answers, []

    def __call__(self, request):
        self.asked.append(request)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def edit(**arguments):
    """The decision of a person who lets a call run with other arguments."""
    return Decision(approved=True, arguments=arguments)
