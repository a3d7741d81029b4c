"""Calls that a model got wrong, in nine ways, made of the valid ones in `data/bfcl`.

The definitions are closed, as those of typed functions are: they admit no other arguments.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from functool import SchemaTool
from tests.bfcl import lines

Arguments = dict[str, Any]
WRONG = {"string": {"text": "x"}, "array": {"items": []}, "object": [{"a": 1}]}
"""A value of another kind. No door makes one of the other: not even of the text of a number."""


def unknown_tool(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """The tool that is called does not exist: see `name_of`."""
    return json.dumps(sent)


def renamed(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """An argument has a name that the tool does not know."""
    chosen = draw.choice([*sent])
    return json.dumps({f"{k}_value" if k == chosen else k: v for k, v in sent.items()})


def invented(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """There is one argument more than the tool knows."""
    items = [*sent.items()]
    items.insert(draw.randint(0, len(items)), ("explanation", "what was asked for"))
    return json.dumps(dict(items))


def wrong_kind(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """A value is of another kind of JSON, or a number is written in words."""
    chosen = draw.choice([*sent])
    if type(sent[chosen]) in (int, float) and draw.random() < 0.5:
        return json.dumps({**sent, chosen: "about a dozen"})
    wrong = WRONG.get(properties[chosen].get("type"), {"value": sent[chosen]})
    return json.dumps({**sent, chosen: wrong})


def wrong_choice(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """A text is none of the choices."""
    listed = [name for name in sent if "enum" in properties[name] and type(sent[name]) is str]
    return json.dumps({**sent, draw.choice(listed): "something else"}) if listed else None


def wrong_item(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """An item of a list is of another kind."""
    listed = [
        name
        for name, value in sent.items()
        if value and type(value) is list and type(value[0]) is not list
    ]
    if not listed:
        return None
    items = [*sent[chosen := draw.choice(listed)]]
    items[draw.randrange(len(items))] = [[]]
    return json.dumps({**sent, chosen: items})


def twice(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """An argument comes again."""
    pairs = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sent.items()]
    chosen = draw.randrange(len(pairs))
    pairs.insert(draw.randint(chosen + 1, len(pairs)), pairs[chosen])
    return f"{{{', '.join(pairs)}}}"


def broken(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """A colon is missing, so that the text is no JSON."""
    pairs = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sent.items()]
    chosen = draw.randrange(len(pairs))
    pairs[chosen] = pairs[chosen].replace('": ', '" ', 1)
    return f"{{{', '.join(pairs)}}}"


def missing(draw: random.Random, properties: Any, sent: Arguments) -> str | None:
    """An argument that the tool needs is left out: nobody can know that before the end."""
    left = dict(sent)
    del left[draw.choice([*left])]
    return json.dumps(left)


KINDS: list[Callable[[random.Random, Any, Arguments], str | None]] = [
    *(unknown_tool, renamed, invented, wrong_kind, wrong_choice, wrong_item),
    *(twice, broken, missing),
]


def closed(function: dict[str, Any], strict: bool = False) -> SchemaTool:
    """A tool of the corpus that admits no other arguments."""
    schema = {"additionalProperties": False, **function["parameters"]}
    about = function["name"], function["description"]
    return SchemaTool(*about, schema, lambda arguments: arguments, strict=strict)


def name_of(kind: str, tool: SchemaTool) -> str:
    """The name under which the call names its tool."""
    return f"{tool.name}_v2" if kind == "unknown_tool" else tool.name


def mutated(strict: bool = False) -> Iterator[tuple[str, SchemaTool, str]]:
    """Every call in each way that makes it invalid: the way, the tool, and the text."""
    draw = random.Random(0)
    functions = {line["uid"]: line for line in lines("functions")}
    tools: dict[str, SchemaTool] = {}
    for line in lines("calls_valid"):
        sent, uid = line["arguments"], line["function"]
        tool = tools[uid] = tools.get(uid) or closed(functions[uid], strict)
        properties = tool.schema.plain.get("properties", {})
        for kind in KINDS:
            # A few calls of the corpus use what their open definitions do not name.
            fits = sent and sent.keys() <= properties.keys()
            text = kind(draw, properties, sent) if fits else None
            if text is not None:
                yield kind.__name__, tool, text
