"""Describe what is wrong with the arguments of a call, without repeating any value."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping, Set
from typing import Any, get_args

from pydantic_core import ValidationError, core_schema

from functool.binding.json_text import shown_name
from functool.close_names import hint_at
from functool.errors import MAX_PROBLEMS, NOUNS
from functool.schema.admits import names_at
from functool.schema.json_schema import property_names
from functool.schema.readings import LONG_PATTERN, MAX_PATTERN, NO_MEMBER
from functool.schema.rewrite import BOOL
from functool.schema.steps import repeats_key

_CHOICE = re.compile(
    r"""(?:^|, | or )(?:<[\w.]+: )?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,>]+)"""
)
_TAG_NAME = re.compile(r"'([^']+)'\Z")  # A tag may also be chosen by a function, or by two names.
_TAG_ERRORS = {"union_tag_not_found": "missing", "union_tag_invalid": "literal_error"}
# Unknown names in a model or TypedDict, and in a dataclass.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
PAIRS = ", or a list of objects with `key` and `value`"
"""What is expected besides an object with any names, where the strict form has pairs."""
_MOST = 1000  # Problems to describe.
_LONG_NAME = 1_000  # Characters of a name in a path.
_MOST_READ = 20_000  # pydantic makes a dict of each, and there may be millions.
_KNOWN_ERRORS = {*get_args(core_schema.ErrorType), BOOL} - {"value_error", "assertion_error"}
_DICT = ("dict_type", "mapping_type")
# What was expected, by pydantic's type of error. For UUIDs and complex numbers, pydantic's own
# messages repeat characters that were sent, or hold a URL.
_EXPECTED = {
    **dict.fromkeys(("missing", "missing_argument"), "required, but missing"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "an integer"),
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("string_type", "bytes_type", "path_type"), "a string"),
    "none_required": "null",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "a list"),
    LONG_PATTERN: f"patterns of at most {MAX_PATTERN:,} characters in all",
    NO_MEMBER: "one of the types of the schema",
    "uuid_parsing": "a valid UUID",
    **dict.fromkeys(("fraction_type", "fraction_parsing"), "a fraction, such as '1/3'"),
    **dict.fromkeys(("complex_type", "complex_str_parsing"), "a complex number, such as '1+2j'"),
}

# What has a length, as pydantic's messages name it: "String should have at least 2 characters".
_NOUN_OF = {"String": "a string", "Data": "a string", "Decimal input": "a number"}
_NOUN_OF |= dict.fromkeys(("List", "Tuple", "NamedTuple", "Set", "Frozenset", "Deque"), "a list")
_NOUN_OF |= {"Dictionary": "an object", "Input": "a value", "Value": "a value"}
_MEASURED = re.compile(
    rf"({'|'.join(_NOUN_OF)}) should (have|match) (.*?)(?: after validation, not \w+)?", re.DOTALL
)
_VERBS = {"have": "with", "match": "that matches"}


def problems_of(
    error: ValidationError,
    sent: Any,
    schema: Mapping[str, Any],
    known: Set[str] | None = None,
    tuples: Mapping[int, list[str]] = {},
    strict: bool = False,
) -> list[dict[str, Any]]:
    """Return the problems, one for each path, without any value that was sent.

    `schema` is the schema of the arguments, `known` its property names at every depth, and `tuples`
    are the fields of named tuples, by their number. `strict` means that the published schema is the
    strict form of it.
    """
    if (count := error.error_count()) > _MOST_READ:
        return [{"path": "", "expected": f"there are {count:,} problems, too many to name"}]
    found: dict[str, dict[str, Any]] = {}
    unknown: set[tuple[Any, ...]] = set()
    known = set(property_names(schema)) if known is None else known
    for detail in error.errors(include_url=False)[:_MOST]:
        steps = _followed(detail["loc"], sent, known)
        if detail["type"] in _UNKNOWN and steps[-1:] == [detail["loc"][-1]]:
            if (*steps,) in unknown:  # Another member of a union has refused it.
                continue
            *above, name = steps
            names = names_at(schema, above, tuples) if above else [*schema["properties"]]
            problem = unknown_name(str(name), names, path_text(above, known), len(unknown))
            unknown.add((*steps,))
        else:
            context, kind = detail.get("ctx", {}), _TAG_ERRORS.get(detail["type"])
            if kind and (named := _TAG_NAME.match(str(context["discriminator"]))):
                steps.append(named[1])
                detail["type"] = kind
                context["expected"] = context.get("expected_tags")
            problem = {"path": path_text(steps, known), **_expected(detail, known)}
            if strict:
                is_open = detail["type"] in _DICT and not names_at(schema, steps, tuples)
                more = repeated_key(detail.get("input"))
                problem["expected"] += PAIRS + more if is_open else more
        earlier = found.setdefault(problem["path"], problem)
        if earlier is not problem and problem["expected"] not in earlier["expected"]:
            earlier["expected"] += f", or {problem['expected']}"
            earlier["choices"] = (*earlier.get("choices", ()), *problem.get("choices", ()))
    return list(found.values())


def repeated_key(sent: Any) -> str:
    """Return an addition to a problem if a dict was sent as pairs with a repeated key."""
    return ", with each key only once" if repeats_key(sent) else ""


def _followed(loc: tuple[int | str, ...], sent: Any, known: Set[str]) -> list[Any]:
    """Return the steps of pydantic's location that exist in the arguments.

    The last step may be a missing name. Other steps are names of union members, and are left out.
    """
    steps: list[Any] = []
    for i, step in enumerate(loc):
        if isinstance(sent, dict) and (step in sent or (i == len(loc) - 1 and step in known)):
            steps.append(step)
            sent = sent.get(str(step))
        elif isinstance(sent, list) and isinstance(step, int):
            steps.append(step)
            sent = sent[step] if step < len(sent) else None
    return steps


def _expected(detail: Any, known: Set[str]) -> dict[str, Any]:
    kind, context = detail["type"], detail.get("ctx")
    if kind in _EXPECTED:
        return {"expected": _EXPECTED[kind]}
    if kind in ("literal_error", "enum"):
        found = _CHOICE.findall(context["expected"])[:50]
        choices = tuple(literal_eval(c) if c[0] in "'\"" else c for c in found)
        return {"expected": "one of the choices", "choices": choices}
    if kind == "union_tag_invalid":
        tags = str(context["expected_tags"])[:1000]
        return {"expected": f"a {context['discriminator']} out of {tags}"}
    message = str(detail["msg"])
    if kind not in _KNOWN_ERRORS:
        message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if _echoes(message := message[:500], detail.get("input"), known):
            return {"expected": "a value that the tool's own check accepts"}
        return {"expected": message, "own_words": True}
    message = message.replace("input is too short", "as ISO 8601 writes it")
    if measured := _MEASURED.fullmatch(message):
        message = f"{_NOUN_OF[measured[1]]} {_VERBS[measured[2]]} {measured[3]}"
    wanted = message.removeprefix("Input should be ").removeprefix("Input ")[:500]
    is_adjective = wanted[:1].islower() and not wanted.startswith((*NOUNS, "should "))
    return {"expected": f"a value {wanted}" if is_adjective else wanted}


def quotes_value(detail: Any, known: Set[str]) -> bool:
    """Whether pydantic's message of a problem may repeat the value. Most of its own never do."""
    kind, message = detail["type"], str(detail["msg"])
    may = kind not in _KNOWN_ERRORS or kind in ("union_tag_invalid", "uuid_parsing")
    return may and _echoes(message, detail["input"], known)


def _echoes(message: str, sent: Any, known: Set[str]) -> bool:
    """Whether a message may repeat a value that was sent.

    It may if it contains four successive characters of the value, or all of a short value.
    """
    if isinstance(sent, (dict, list)):
        items = [*sent.values(), *(sent.keys() - known)] if isinstance(sent, dict) else sent
        return any(_echoes(message, item, known) for item in items)
    text, message = str(sent).casefold(), message.casefold()
    if len(text) < 4:
        return bool(text) and text in message
    return any(message[i : i + 4] in text for i in range(len(message) - 3))


def unknown_name(name: str, names: list[str], path: str = "", number: int = 0) -> dict[str, Any]:
    """Return the problem for an unknown name, with the closest known name.

    `number` counts the problems before it: those that no message shows get no hint.
    """
    # In a union, another member may know the name, and several members may have the same names.
    names = [known for known in dict.fromkeys(names) if known != name]
    where = f"{path}.{shown_name(name)}".removeprefix(".")
    if number >= MAX_PROBLEMS:
        return {"path": where, "expected": "unknown argument"}
    none = "no other names are known here" if path else "the tool takes none"
    hint = hint_at(name, names) if names else none
    return {"path": where, "expected": f"unknown argument; {hint}"}


def path_text(steps: Any, known: Set[str]) -> str:
    """Return steps as a path such as `items[2].price`.

    A key that is not in the schema may hold a secret, so it is shown as `[key]`. So is a long one:
    each of many problems may name it.
    """
    text = ""
    for step in steps:
        is_shown = step in known and len(step) <= _LONG_NAME
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if is_shown else ".[key]"
    return text.removeprefix(".")
