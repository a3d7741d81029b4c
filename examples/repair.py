"""An agent that repairs a failing test. Its tools cannot leave their directory.

    python -m examples.repair

The model is a small scripted one: it knows no answer in advance, but reads what the tools say and
goes on from there.
Linux and bubblewrap (`apt-get install bubblewrap`) are needed.
"""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from examples import demo_tools
from examples.scripted import converse
from functool import ToolCall, ToolResult, Toolset
from functool.bundled.files import file_tools
from functool.bundled.shell import shell_tool

TESTS = f"""{demo_tools.TESTS}
    def test_pair(self):
        self.assertEqual(median([1, 2]), 1.5)
"""

PYTHON = Path(sys.executable).resolve()
RUN_TESTS = ToolCall(name="shell", arguments={"command": f"{PYTHON} -B -m unittest", "timeout": 20})


class ScriptedModel:
    """Stands for a language model: given what the last call brought, it says what to do next."""

    def __init__(self) -> None:
        self.looked_at = ""
        self.tried: list[tuple[str, str]] = []

    def turn(self, last: ToolCall | None, result: ToolResult | None) -> ToolCall | str:
        if last is None or result is None or last.name == "edit_file":
            return RUN_TESTS
        if last.name == "shell":
            return self.after_tests(result)
        return self.after_reading(result)

    def after_tests(self, result: ToolResult) -> ToolCall | str:
        if result.success:
            return f"The tests pass. I changed {len(self.tried)} line(s) in {self.looked_at}."
        if result.error is None or result.error.type != "CommandFailed":
            return f"I cannot run the tests: {result.text}"
        # The innermost frame that is not a test's is where the failure came from.
        frames = re.findall(r'File "[^"]*?([^/"]+\.py)", line (\d+)', result.text)
        ours = [name for name, _ in frames if not name.startswith("test_") and (name != "case.py")]
        self.looked_at = ours[-1] if ours else "median.py"
        return ToolCall(name="read_file", arguments={"path": self.looked_at})

    def after_reading(self, result: ToolResult) -> ToolCall | str:
        for line in result.text.splitlines():
            pair = re.search(r"\((\w+\[\w+\]) \+ (\w+\[(\w+) \+ 1\])\) / 2", line)
            if pair:
                name, index = pair[1].partition("[")[0], pair[3]
                new = line.replace(pair[0], f"({name}[{index} - 1] + {pair[1]}) / 2")
                self.tried.append((line, new))
                return ToolCall(
                    name="edit_file", arguments={"path": self.looked_at, "old": line, "new": new}
                )
        return "I do not understand the failure."


def main() -> None:
    with tempfile.TemporaryDirectory() as workdir:
        Path(workdir, "median.py").write_text(demo_tools.CODE)
        Path(workdir, "test_median.py").write_text(TESTS)
        # Beside /usr, the directory of the interpreter is all that the sandbox shows of the host's
        # programs.
        tools = file_tools(workdir) | Toolset([shell_tool(workdir, readable=[sys.base_prefix])])
        print(f"answer  {asyncio.run(converse(ScriptedModel(), tools))}")


if __name__ == "__main__":
    main()
