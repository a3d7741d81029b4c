"""A law over approvals: a call runs only by the newest decision of each who asks, and once by each.

A wrapper and the tool inside of it ask. The call waits before each of them and before its body, so
a person decides at any moment of it. It pauses, is cancelled, and comes again.
"""

import asyncio
from random import Random

from functool import Context, FunctionTool, ToolCall, WrapperTool
from functool.guardrails import require_approval

ASKERS = ("outer", "pay")
MOVES = (*["step"] * 5, "approve", "approve", "deny", "deny", "cancel")


class Approvals:
    """One call, a person, and what has gone wrong."""

    def __init__(self):
        self.context = Context()
        self.requests = {}  # The last one of each asker.
        self.newest = dict.fromkeys(ASKERS)  # True, False, or None: no decision waits.
        self.used = set()  # The askers whose approval this attempt has used.
        self.gate = asyncio.Event()
        self.task = None
        self.wrong = []

        async def pay():
            if self.used != {*ASKERS}:
                self.wrong.append(f"the body runs by {self.used}")

        tool = FunctionTool(pay, input_guardrails=[*self.asker("pay"), self.waits])
        self.tool = WrapperTool(tool, name="outer", input_guardrails=self.asker("outer"))

    async def waits(self, call, context):
        self.gate.clear()
        await self.gate.wait()

    def asker(self, name):
        def passed(call, context):
            if self.newest[name] is not True:
                self.wrong.append(f"{name} lets it pass by {self.newest[name]}")
            self.newest[name] = None
            self.used.add(name)

        return [self.waits, require_approval(), passed]

    async def move(self, move, name):
        """The call goes on to its next wait, or a person decides, or the call is cancelled."""
        if move == "step":
            await self.step()
        elif move == "cancel":
            await self.cancel()
        elif name in self.requests:
            getattr(self.context, move)(self.requests[name])
            self.newest[name] = move == "approve"

    async def step(self):
        if self.task is None:
            self.used = set()
            call = ToolCall(name="outer", id="c1")
            self.task = asyncio.create_task(self.tool.invoke(call, self.context))
        self.gate.set()
        while not self.task.done():
            await asyncio.sleep(0)
            if not self.gate.is_set():
                return
        self.told(self.task.result())

    def told(self, result):
        self.task = None
        if result.error is None:
            return
        if result.error.type == "ApprovalRequired":
            request = result.metadata["approval"]
            self.requests[request.tool] = request
            for name in self.used:  # A newer decision stays.
                self.newest[name] = True if self.newest[name] is None else self.newest[name]
        else:
            refused_by = next(name for name in ASKERS if name not in self.used)
            if self.newest[refused_by] is not False:
                self.wrong.append(f"{refused_by} refuses by {self.newest[refused_by]}")
            self.newest[refused_by] = None

    async def cancel(self):
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            self.task = None


def test_the_law():
    """No order of decisions lets a call run without one, twice by one, or against a newer one."""

    async def life(random):
        law = Approvals()
        moves = [(random.choice(MOVES), random.choice(ASKERS)) for _ in range(30)]
        for move in moves:
            await law.move(*move)
            assert not law.wrong, moves
        await law.cancel()
        return len(law.requests)

    async def lives():
        return [await life(Random(seed)) for seed in range(300)]

    assert max(asyncio.run(lives())) == len(ASKERS)
