"""The models of the demo: each reads what its calls brought, and calls again or answers in words.

`Scripted` is a short program that stands for a language model. `OpenAI` and `Anthropic` are real
ones, behind their providers' own SDKs. Each keeps its conversation in its provider's own format.
"""

import importlib.util
import os
import re
from collections.abc import Callable
from typing import Any, Protocol

from functool import ToolCall, ToolResult, Toolset
from functool.dialects import anthropic, openai_chat

FAILURE = re.compile(
    r'File "(\w+\.py)", line \d+, in \w+\n +(.+)\n(?:[ ^~]+\n)?'
    r"AssertionError: (\S+) != (\S+)"
)
"""The last frame of a failed comparison: file, line of code, and the two values."""

Turn = tuple[str, list[ToolCall]]


class Model(Protocol):
    async def turn(self, results: list[ToolResult]) -> Turn:
        """Read the results of the last calls; return an answer, or the next calls."""
        ...


class Scripted:
    """Mends a failing test by a few rules.

    It knows no file and no line in advance: it reads what the tools answer. It makes mistakes as
    language models do: it invents the name of an argument, and it tries to change the test.
    """

    def __init__(self, task: str, tools: Toolset) -> None:
        self.calls: list[ToolCall] = []
        self.made = 0
        self.code = self.test = self.wrong = self.right = ""
        self.source = ""

    async def turn(self, results: list[ToolResult]) -> Turn:
        if not results:
            return self.ask(("run_tests", {}), ("list_files", {}))
        call, result = self.calls[0], results[0]
        if call.name == "run_tests":
            return self.after_tests(result.text)
        if call.name == "read_file":
            self.source = result.text
            return self.edit(self.test, self.wrong, self.right)
        if result.success:
            return self.ask(("run_tests", {}))
        if call.arguments["path"] == self.test:
            return self.mend()
        return f"I could not change the code: {result.text}", []

    def ask(self, *wanted: tuple[str, dict[str, Any]]) -> Turn:
        """Make calls with new ids."""
        first = self.made + 1
        self.made += len(wanted)
        self.calls = [
            ToolCall(id=f"call_{number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(wanted, first)
        ]
        return "", self.calls

    def edit(self, path: str, old: str, new: str) -> Turn:
        return self.ask(("edit_file", {"path": path, "old": old, "new": new}))

    def after_tests(self, text: str) -> Turn:
        """Find in a traceback the test that fails, what it wanted, and the file under test."""
        if text.endswith("OK"):
            return f"The tests pass. I changed one line of {self.code}.", []
        found = FAILURE.search(text)
        if found is None:
            return f"I do not understand the tests: {text}", []
        self.test, self.wrong, got, expected = found.groups()
        self.right = self.wrong.replace(expected, got)
        self.code = self.test.removeprefix("test_")
        return self.ask(("read_file", {"path": self.code}), ("read_file", {"file": self.test}))

    def mend(self) -> Turn:
        """Change the line that takes the two numbers behind the middle for those around it."""
        for line in self.source.splitlines():
            pair = re.search(r"\((\w+)\[(\w+)\] \+ \1\[\2 \+ 1\]\)", line)
            if pair:
                name, index = pair.groups()
                new = line.replace(pair[0], f"({name}[{index} - 1] + {name}[{index}])")
                return self.edit(self.code, line, new)
        return "I do not understand the failure.", []


class OpenAI:
    """A model behind OpenAI's Chat Completions, or a server that speaks it (OPENAI_BASE_URL)."""

    def __init__(self, task: str, tools: Toolset) -> None:
        need("openai", "OPENAI_API_KEY")
        self.model = os.environ.get("OPENAI_MODEL", "gpt-5")
        self.tools = openai_chat.definitions(tools.values())
        self.talk: list[Any] = [{"role": "user", "content": task}]

    async def turn(self, results: list[ToolResult]) -> Turn:
        import openai

        self.talk += map(openai_chat.result, results)
        try:
            async with openai.AsyncOpenAI() as client:
                answer = await client.chat.completions.create(
                    model=self.model, messages=self.talk, tools=self.tools
                )
        except openai.OpenAIError as error:
            raise SystemExit(f"OpenAI: {error}") from error
        message = answer.choices[0].message
        self.talk.append(message)
        return message.content or "", openai_chat.calls(answer)


class Anthropic:
    """A model behind Anthropic's Messages, or a server that speaks it (ANTHROPIC_BASE_URL)."""

    def __init__(self, task: str, tools: Toolset) -> None:
        need("anthropic", "ANTHROPIC_API_KEY")
        self.model = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-5-5")
        self.tools = anthropic.definitions(tools.values())
        self.talk: list[Any] = [{"role": "user", "content": task}]

    async def turn(self, results: list[ToolResult]) -> Turn:
        import anthropic as sdk

        if results:
            self.talk.append({"role": "user", "content": [*map(anthropic.result, results)]})
        try:
            async with sdk.AsyncAnthropic() as client:
                answer = await client.messages.create(
                    model=self.model, max_tokens=2048, messages=self.talk, tools=self.tools
                )
        except sdk.AnthropicError as error:
            raise SystemExit(f"Anthropic: {error}") from error
        self.talk.append({"role": "assistant", "content": answer.content})
        text = "".join(block.text for block in answer.content if block.type == "text")
        return text, anthropic.calls(answer)


MODELS: dict[str, Callable[[str, Toolset], Model]] = {
    "scripted": Scripted,
    "openai": OpenAI,
    "anthropic": Anthropic,
}


def need(package: str, key: str) -> None:
    """End the program in a line when a provider's SDK or key is missing."""
    if importlib.util.find_spec(package) is None:
        raise SystemExit(f"this model needs its provider's SDK: pip install {package}")
    if not os.environ.get(key):
        raise SystemExit(f"this model needs a key: {key} is not set")
