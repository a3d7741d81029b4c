"""The tools of the demo: look at a small project, edit its code, and run its tests.

Two of them are functool's own, bound to one directory. A guardrail keeps the tests as they are, and
a person is asked before each edit.
"""

import subprocess
import sys
from pathlib import Path

from functool import (
    Context,
    FunctionTool,
    GuardrailError,
    ToolCall,
    ToolError,
    Toolset,
    ToolSettings,
)
from functool.bundled.files import file_tools
from functool.guardrails import require_approval, truncate

CODE = '''
def median(numbers):
    """Return the middle of the numbers; of an even count, the mean of the two in the middle."""
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle] + ordered[middle + 1]) / 2
'''

TESTS = """
import unittest
from median import median


class MedianTest(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(median([3, 1, 2]), 2)

    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)
"""

TASK = "The tests of this project fail. Find out why, mend the code, and run the tests again."


@FunctionTool(
    timeout=30, settings=ToolSettings(read_only=True), output_guardrails=[truncate(2_000)]
)
def run_tests(project: Context[Path]) -> str:
    """Run the tests of the project, and return what they print."""
    command = [sys.executable, "-B", "-m", "unittest"]
    try:
        done = subprocess.run(
            command, cwd=project.deps, capture_output=True, text=True, timeout=20, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError("The tests took longer than 20 seconds and were stopped.") from error
    return done.stderr.replace(f"{project.deps}/", "").strip()


def tests_stay(call: ToolCall, context: Context[Path]) -> None:
    """Refuse to change a test."""
    if Path(call.arguments["path"]).name.startswith("test_"):
        raise GuardrailError("The tests say what is right. Mend the code, not the test.")


def new_project(directory: Path) -> Toolset:
    """Write a project whose tests fail into a directory, and return the tools to mend it."""
    (directory / "median.py").write_text(CODE.lstrip(), encoding="utf-8")
    (directory / "test_median.py").write_text(TESTS.lstrip(), encoding="utf-8")
    files = file_tools(directory)
    files["edit_file"].add_input_guardrails([tests_stay, require_approval()])
    chosen = ("list_files", "read_file", "edit_file")
    return Toolset([run_tests]) | files.filtered(lambda tool: tool.name in chosen)
