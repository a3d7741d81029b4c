"""Programs of code mode that wait for a person in the middle, over MCP: elicitation, and sealed state."""

import asyncio
import json
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("mcp")

import mcp_types as types
from mcp import Client

from functool import FunctionTool, ToolSettings
from functool.bundled.code_mode import code_mode
from functool.guardrails import trusted_only
from functool.integrations import mcp
from functool.integrations.mcp_contexts import one_client
from functool.layers.journal import Journal
from tests.integrations.office import Office

CODE = """
a = await note(text="a")
b = await pay(amount=7)
c = await pay(amount=8)
[a, b, c, await note(text="b")]
"""


class Called(Office):
    """An office whose program's tool a client calls."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[str] = []

    def call(self, mode: str, code: str = CODE, refuse: str = "none", one: bool = False) -> Any:
        """Call the program's tool, and answer the server's questions."""

        async def elicit(context: Any, params: Any) -> Any:
            self.asked.append(params.message)
            approve = refuse not in params.message
            return types.ElicitResult(action="accept", content={"approve": approve})

        async def main() -> Any:
            with one_client() if one else nullcontext():
                server = mcp.server([self.tool])
                async with Client(server, mode=mode, elicitation_callback=elicit) as client:
                    return await client.call_tool("run_code", {"code": code})

        return asyncio.run(main())


def text_of(answer: Any) -> str:
    return "\n".join(part.text for part in answer.content)


def value_of(answer: Any) -> Any:
    return json.loads(text_of(answer))["value"]


@pytest.mark.parametrize(("mode", "one"), [("legacy", False), ("auto", True)])
def test_a_program_goes_on_after_the_clients_person_was_asked(mode: str, one: bool) -> None:
    """In each era the person sees the inner calls, and each effect comes once."""
    office = Called()
    answer = office.call(mode, one=one)

    assert value_of(answer) == ["noted a", "paid 7", "paid 8", "noted b"]
    assert office.done == ["a", 7, 8, "b"]
    assert len(office.asked) == 2
    assert "pay" in office.asked[0]
    assert '"amount": 7' in office.asked[0]


@pytest.mark.parametrize(("mode", "one"), [("legacy", False), ("auto", True)])
def test_a_refusal_reaches_the_program(mode: str, one: bool) -> None:
    """A call that the person did not approve raises in the program."""
    office = Called()
    answer = office.call(mode, refuse='"amount": 8', one=one)

    assert answer.is_error
    assert "did not approve" in text_of(answer)
    assert office.done == ["a", 7]


def test_without_sessions_a_program_does_not_wait() -> None:
    """Where each round has a context of its own, a program ends instead of repeating its effects."""
    office = Called()
    answer = office.call("auto")

    assert "would forget what the program has done" in text_of(answer)
    assert office.done == ["a"]
    assert office.asked == []


def test_without_sessions_a_program_that_did_nothing_waits() -> None:
    """A program whose first call waits has nothing to repeat."""
    office = Called()
    answer = office.call("auto", "await pay(amount=7)")

    assert value_of(answer) == "paid 7"
    assert office.done == [7]
    assert len(office.asked) == 1


def test_with_a_journal_no_session_is_needed(tmp_path: Any) -> None:
    """The sealed state names the call, and the journal has what it did."""
    office = Called(journal=Journal(tmp_path / "j"), run="r")
    answer = office.call("auto")

    assert value_of(answer) == ["noted a", "paid 7", "paid 8", "noted b"]
    assert office.done == ["a", 7, 8, "b"]
    assert len(office.asked) == 2


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_clients_person_sees_where_a_value_comes_from(mode: str) -> None:
    """A person who approves what a program sends reads which of it an untrusted tool wrote."""
    asked: list[str] = []

    @FunctionTool(settings=ToolSettings(untrusted=True, read_only=True))
    def mail() -> dict[str, str]:
        """Read a mail."""
        return {"account": "X1"}

    @FunctionTool(input_guardrails=[trusted_only("to", ask=True)])
    def send(to: str) -> str:
        """Send money."""
        return "sent"

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True})

    async def main() -> Any:
        server = mcp.server(code_mode([mail, send]))
        async with Client(server, mode=mode, elicitation_callback=elicit) as client:
            code = 'found = await mail()\nawait send(to=found.part("account"))'
            return await client.call_tool("run_code", {"code": code})

    assert not asyncio.run(main()).is_error
    (message,) = asked
    assert '"to": "X1"' in message
    assert message.endswith("\n/to came from mail, which may hold text of strangers")
