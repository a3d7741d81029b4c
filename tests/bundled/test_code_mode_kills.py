"""Code mode with a journal, in processes that are killed at random moments of a program."""

import json
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from functool import ToolResult
from functool.layers.journal import Journal

PROGRAM = """\
import asyncio
done = []
for n in range(6):
    done.append(await step(n=n))
done += await asyncio.gather(*[step(n=n) for n in range(6, 10)])
done
"""
HOST = '''
import asyncio, sys
from functool import ApprovalRequest, Context, FunctionTool, ToolCall
from functool.bundled.code_mode import code_mode
from functool.guardrails import require_approval
from functool.layers.journal import Journal

journal, effects, program, approved = sys.argv[1:]

def mark(line):
    with open(effects, "a") as file:
        file.write(line + "\\n")

@FunctionTool(input_guardrails=[require_approval(lambda call, context: call.arguments["n"] in (3, 7))])
async def step(n: int) -> str:
    """Do a step."""
    mark(f"began {n}")
    await asyncio.sleep(0.03)
    mark(f"ended {n}")
    return f"did {n}"

async def main():
    tool = code_mode([step], journal=Journal(journal), run="r")
    context = Context()
    if approved:
        context.approve(ApprovalRequest.from_json(approved))
    print("go", flush=True)
    result = await tool.invoke(ToolCall(name="run_code", arguments={"code": program}, id="c1"), context)
    if result.error is None:
        print("done", result.text)
    elif result.error.type == "ApprovalRequired":
        print("asks", result.metadata["approval"].to_json())
    else:
        print(result.error.type, result.error.message)

asyncio.run(main())
'''


class Host:
    """Starts one program again and again, until it has ended."""

    def __init__(self, directory, name):
        self.journal = Journal(directory / f"{name}.journal")
        self.effects = directory / f"{name}.effects"
        self.effects.touch()
        self.words = [sys.executable, directory / "host.py", directory / f"{name}.journal"]
        self.approved = ""
        self.asked = set()
        self.reported = set()

    def run(self, kill_after):
        """Run a process; return what it said, "" if it was killed before, and how long it took."""
        words = [*map(str, self.words), str(self.effects), PROGRAM, self.approved]
        root = Path(__file__).parents[2]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=root) as child:
            assert child.stdout.readline() == "go\n"
            begun = time.monotonic()
            killer = threading.Timer(kill_after or 0, child.kill)
            if kill_after is not None:
                killer.start()
            said = child.stdout.read()
            killer.cancel()
        assert child.returncode in (0, -9), said
        return said if said.endswith("\n") else "", time.monotonic() - begun

    def go_on(self, said):
        """Do what a person does about an answer; return whether the program has ended."""
        kind, _, text = said.partition(" ")
        if kind == "asks":
            self.asked.add(json.loads(text)["arguments"]["n"])
            self.approved = text.strip()
        elif kind == "OutcomeUnknown":
            entries = self.journal.calls(run="r", state="unknown")
            assert entries
            for entry in entries:
                self.reported.add(entry.arguments["n"])
                self.journal.settle(entry.key, ToolResult.of(f"did {entry.arguments['n']}"))
        elif kind == "done":
            assert json.loads(text)["value"] == [f"did {n}" for n in range(10)]
            return True
        else:
            assert not said
        return False

    def check(self):
        """Fail where a call began twice, or was interrupted and nobody was told."""
        lines = self.effects.read_text().splitlines()
        began = [int(line[6:]) for line in lines if line.startswith("began")]
        ended = {int(line[6:]) for line in lines if line.startswith("ended")}

        assert len(began) == len(set(began)), lines
        assert set(began) - ended <= self.reported
        assert set(range(10)) - set(began) <= self.reported
        assert self.asked == {3, 7}
        assert self.journal.calls(run="r", state="unknown") == []


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_lose_nothing_and_repeat_nothing(tmp_path, kills):
    """A program that is killed again and again ends; no effect comes twice, and each interrupted is told."""
    (tmp_path / "host.py").write_text(HOST)
    chance, left, number, usual, interrupted = random.Random(7), kills, 0, 0.0, 0
    while left > 0:
        number += 1
        host, ended = Host(tmp_path, f"r{number}"), False
        while not ended:
            measured = usual == 0 or left <= 0
            said, took = host.run(None if measured else chance.uniform(0, 2 * usual))
            usual = took if said else usual  # The machine may be busy now and quiet later.
            left -= not said
            ended = host.go_on(said)
        host.check()
        interrupted += len(host.reported)
    print(f"{kills} kills in {number} programs; {interrupted} calls were interrupted and reported")


def test_two_processes_that_resume_one_program_get_one_answer(tmp_path):
    """Two processes that go on with one program at once make each call once, and give the same answer."""
    (tmp_path / "host.py").write_text(HOST)
    host, ended = Host(tmp_path, "both"), False
    while not ended:
        with ThreadPoolExecutor(2) as pool:
            said = [answer for answer, _ in pool.map(host.run, [None, None])]
        kinds = {answer.partition(" ")[0] for answer in said}
        assert len(kinds) == 1
        ended = host.go_on(said[0])
    host.check()
    assert said[0] == said[1]
