"""Code mode: expenses of three teams, and one payment that waits for a person in another process.

Run it twice with the same file: `python -m examples.code_mode expenses.journal`. The first run
stops where a person has to agree, and its process is killed. The second goes on from there.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from examples.needs import needs
from functool import Context, FunctionTool, ToolCall, ToolResult
from functool.guardrails import require_approval
from functool.layers.journal import Journal

with needs("'functool[code-mode]'", __name__):
    from functool.bundled.code_mode import code_mode


EXPENSES = {"design": [120.0, 80.5], "sales": [2400.0, 310.0], "support": [45.0]}

PROGRAM = """
totals = {}
for team in await list_teams():
    items = await expenses_of(team=team)
    totals[team] = sum([item["amount"] for item in items])
for team, total in totals.items():
    print(await reimburse(team=team, amount=total))
totals
"""


@FunctionTool
def list_teams() -> list[str]:
    """List the teams."""
    return list(EXPENSES)


@FunctionTool
def expenses_of(team: str) -> list[dict[str, float]]:
    """List the expenses of a team, in euros.

    Args:
        team: A name that list_teams returned.
    """
    return [{"amount": amount} for amount in EXPENSES[team]]


@FunctionTool(
    input_guardrails=[require_approval(lambda call, context: call.arguments["amount"] > 1000)]
)
def reimburse(team: str, amount: float) -> str:
    """Pay a team's expenses. Large amounts need a person's approval."""
    print(f"(the bank pays {team} {amount})", flush=True)
    return f"{team}: paid {amount}"


async def answer(path: str, context: Context) -> ToolResult:
    """Run the program, or go on with it."""
    tool = code_mode(
        [list_teams, expenses_of, reimburse], journal=Journal(path), run="expenses-2026-11"
    )
    call = ToolCall(name="run_code", arguments={"code": PROGRAM}, id="call_1")
    return await tool.invoke(call, context)


def main(path: str) -> None:
    context = Context()
    known = Path(path).exists()
    result = asyncio.run(answer(path, context))
    request = result.metadata.get("approval")
    if request is None:
        print(result.text)
    elif not known:
        print(f"waiting: {request.tool} {request.arguments}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        print(f"a person approves: {request.tool} {request.arguments}", flush=True)
        context.approve(request)
        print(asyncio.run(answer(path, context)).text)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "expenses.journal")
