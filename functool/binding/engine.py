"""A safe jsonschema validator: it fetches no references, and the work of a check is limited.

Patterns run on pydantic's regex engine, which takes linear time. The steps of each check are
counted. Without that limit, a hostile schema or a long list could block the event loop for minutes:
for example, unions of references can double the work at each level.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, cast

from functool.binding.json_text import linear_pattern
from functool.executors import setting
from functool.schema.shapes import CountingMemo

MAX_STEPS = 100_000
"""How many steps one check may take, roughly one for each keyword: about half a second of work."""

_PARTS = 16
"""How many members of a keyword, or items of a value, count as one more step."""

_TOKEN = re.compile(
    r"\\(?:[xuUpP]\{[^}]*}?|[pP]\w|.)|\[(?:\\.|[^]\\])*]?|\{([0-9,]*)\}|.", re.DOTALL
)
_VERBOSE = re.compile(r"\?[a-zA-Z-]*x")
# A class inside a class ends `_TOKEN` too early, so the last bracket is a token of its own.
_UNICODE = re.compile(r"\\[wWdDsSpP]|^]")
_CLASS = 40
"""How many characters a class of Unicode characters is worth when a pattern is compiled."""

_FOLDING = re.compile(r"\(\?[a-zA-Z-]*i")
# What may hold very many characters: a negation, a name, and a range to no ASCII letter or digit.
# Where case is ignored, the engine looks up the cases of each of them, in each class around it.
_WIDE = re.compile(r"\[\^|:\^|-(?![A-Za-z0-9\]])|\\[wWdDsSpP]")
_FOLDED = 700
"""How many steps each of these, and each class of the pattern, takes then: milliseconds of work."""

_MOST_KEPT = 4_000
"""The longest pattern, classes counted so, that stays compiled. That takes about a megabyte."""

_work: ContextVar[CountingMemo] = ContextVar("functool.schema_work")
"""The steps that are left to the checks of one value, and what they compiled and counted once."""

_asks_evaluated: ContextVar[bool] = ContextVar("functool.schema_asks_evaluated", default=False)
"""Whether validators yield what they evaluate, instead of mismatches."""


def bounded_work() -> AbstractContextManager[None]:
    """Limit the work of the checks that run in this `with` block.

    Raises:
        TooMuchWork: The checks took more than `MAX_STEPS` together.
    """
    return setting(_work, CountingMemo(MAX_STEPS))


def _counting(word: str, check: Callable[..., Any]) -> Callable[..., Any]:
    is_reference = word.endswith("ef")

    def step(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        long = len(instance) if isinstance(instance, (list, dict)) else 0
        long *= 2 if isinstance(instance, dict) else 1  # A name takes longer than an index.
        if word == "contains" and wanted is False:  # jsonschema makes a mismatch for each item.
            long *= _PARTS
        # A list of items asks for one keyword a thousand times: its members are counted once.
        work, at = _work.get(), (id(wanted), word)
        if at not in work:
            # Following a reference takes five times as long, and longer if it names many steps.
            work[at] = 4 + len(str(wanted)) // 4 if is_reference else _count(wanted, word) // _PARTS
        work.spend(1 + work[at] + long // _PARTS)
        # jsonschema itself follows a reference to the keywords that evaluate something.
        if _asks_evaluated.get() and not is_reference:
            return _evaluated(word, validator, wanted, instance, schema)
        return _counted(check(validator, wanted, instance, schema))

    return step


def _counted(errors: Any) -> Iterator[Any]:
    """Yield the mismatches of a keyword, and count each as steps.

    jsonschema writes the whole value into each message. Nobody reads it, so it is dropped.
    """
    for error in errors or ():
        if error.message:
            _work.get().spend(4 + len(error.message) // 200)
            error.message, error.args = "", ()
        yield error


def _count(wanted: Any, word: str) -> int:
    """Return how many members a keyword has. Of those that compare lists, inner ones count too."""
    # To compare a number takes twice as long as a text, and a list or an object five times.
    if not isinstance(wanted, (list, dict)):
        return 0 if isinstance(wanted, str) else 1
    inner = wanted.values() if isinstance(wanted, dict) else wanted
    deep = word in ("enum", "const", "dependentRequired")
    return 4 + len(wanted) + (sum(_count(item, word) for item in inner) if deep else 0)


def _evaluated(word: str, validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
    """Yield a mismatch with the path of each name or index that a keyword evaluates.

    jsonschema's own search for them runs patterns on `re`, and is quadratic in their number.
    """
    here = parts = cast(Any, ())
    match instance, word:
        case _, "allOf" | "anyOf" | "oneOf":
            parts = wanted
        case _, "if":
            met = _meets(validator, instance, wanted)
            parts = [wanted, schema.get("then", True)] if met else [schema.get("else", True)]
        case dict(), "dependentSchemas":
            parts = [part for name, part in wanted.items() if name in instance]
        case dict(), "properties":
            here = wanted.keys() & instance.keys()
        case dict(), "patternProperties":
            here = [name for name in instance if any(matches(source, name) for source in wanted)]
        case dict(), "additionalProperties" | "unevaluatedProperties":
            here = instance
        case list(), "prefixItems":
            here = range(min(len(wanted), len(instance)))
        case list(), "contains":
            here = [i for i, item in enumerate(instance) if _meets(validator, item, wanted)]
        case list(), "items" | "unevaluatedItems":
            here = range(len(instance))
    _work.get().spend(len(here) // 2)
    yield from (_mismatch(each) for each in here)
    for part in parts:
        if _meets(validator, instance, part):
            yield from validator.descend(instance, part)


def _meets(validator: Any, instance: Any, part: Any) -> bool:
    with setting(_asks_evaluated, False):
        return next(validator.descend(instance, part), None) is None


def _undeclared(validator: Any, instance: Any, schema: Any) -> Iterator[str]:
    """Yield the names that neither `properties` nor `patternProperties` know."""
    known = schema.get("properties") or ()
    patterns = schema.get("patternProperties") or ()
    _work.get().spend(len(instance) * len(patterns) // 4)
    for name in instance:
        if name not in known and not any(matches(source, name) for source in patterns):
            yield name


def _unevaluated(validator: Any, instance: Any, schema: Any) -> list[Any]:
    """Return the names, or indexes, that no other keyword of the schema evaluates."""
    others = {word: part for word, part in schema.items() if not word.startswith("unevaluated")}
    with setting(_asks_evaluated, True):
        errors = validator.evolve(schema=others).iter_errors(instance)
        found = {error.path[-1] for error in errors if error.path}
    everything = instance if isinstance(instance, dict) else range(len(instance))
    return [each for each in everything if each not in found]


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def matches(pattern: str, text: str) -> bool | None:
    """Whether a pattern matches somewhere in a text; None if the engine does not support it.

    Use it inside `bounded_work`.
    """
    # The time grows with the length of the text times that of the pattern, repetitions expanded.
    _work.get().spend(pattern_length(pattern) * (100 + len(text)) // 500)
    known = _work.get()  # A list of texts may ask for one pattern a thousand times.
    if pattern not in known:
        large = pattern_length(pattern, _CLASS) > _MOST_KEPT
        known[pattern] = _compiled.__wrapped__(pattern) if large else _compiled(pattern)
    search = known[pattern]
    return None if search is None else bool(search(text))


@lru_cache(maxsize=128)
def _compiled(pattern: str) -> Callable[[str], bool] | None:
    _work.get().spend(pattern_length(pattern, _CLASS) // 2)
    if _FOLDING.search(pattern) and (wide := len(_WIDE.findall(pattern))):
        _work.get().spend(_FOLDED * (wide + pattern.count("[")))
    return linear_pattern.__wrapped__(pattern)


@lru_cache(maxsize=512)
def pattern_length(pattern: str, of_class: int = 1) -> int:
    r"""Return the approximate length of a pattern after expanding each `{n}`.

    A class of Unicode characters such as `\w` counts as `of_class`.
    """
    sums, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            if _VERBOSE.match(pattern, token.end()):
                return 500 * MAX_STEPS  # Its spaces and comments hide what is repeated.
            sums.append(0)
        elif token[0] == ")" and len(sums) > 1:
            last = min(sums.pop(), MAX_STEPS * 1_000)  # Python is slow with huge numbers.
            sums[-1] += last
        elif token[1] is not None:
            times = max([1, *(int(n.lstrip("0")[:9] or 0) for n in token[1].split(","))])
            sums[-1] += last * (times - 1)
            last = min(last * times, MAX_STEPS * 1_000)
        else:
            size = of_class if _UNICODE.search(token[0]) else 1 + len(token[0]) * of_class // 640
            sums[-1] += size
            last = last if token[0] in "*+?" else size  # A count may follow: `(...)+{70}`.
    return sum(sums)


def validator_of(schema: Mapping[str, Any]) -> Any:
    """Return a jsonschema validator for a schema. Use it inside `bounded_work`."""
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    text = json.dumps(schema)
    if not any(f'"{word}"' in text for word in ("$id", "$anchor", "$dynamicAnchor")):
        return _validator_class()(schema, registry=Registry())
    # Collect the identifiers once. Otherwise jsonschema walks the schema for each reference.
    resource = DRAFT202012.create_resource(dict(schema))
    place = resource.id() or "urn:functool:schema"
    known: Any = Registry().with_resource(place, resource).crawl()
    return _validator_class()({"$ref": place}, registry=known)


def _mismatch(*path: Any, message: str = "") -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message, path=path)


def _pattern(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
    if isinstance(instance, str) and matches(wanted, instance) is False:
        yield _mismatch(message="the pattern does not match")


def _pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
    for source, part in wanted.items() if isinstance(instance, dict) else ():
        _work.get().spend(len(instance) // 4)
        for name, value in instance.items():
            if matches(source, name):
                yield from validator.descend(value, part, path=name, schema_path=source)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
    """Yield a mismatch if two items are equal as JSON values: 1 equals 1.0, but not true.

    Their texts are compared. A stranger can choose numbers that have the same hash, but no texts.
    """
    if wanted and isinstance(instance, list):
        text = json.dumps(instance)
        _work.get().spend(len(text) // 100 + len(instance) // 3)
        items = json.loads(text, parse_float=_number)
        if len({json.dumps(item, sort_keys=True) for item in items}) < len(items):
            yield _mismatch(message="an item is repeated")


def _rest(find: Any, kind: type, validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
    for name in find(validator, instance, schema) if type(instance) is kind else ():
        if wanted is False:
            yield _mismatch(name)
        else:
            yield from validator.descend(instance[name], wanted, path=name)


# The keywords that jsonschema checks with `re`, or in quadratic time.
_CHECKS: dict[str, Callable[..., Any]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique_items,
    "additionalProperties": partial(_rest, _undeclared, dict),
    "unevaluatedProperties": partial(_rest, _unevaluated, dict),
    "unevaluatedItems": partial(_rest, _unevaluated, list),
}


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    """Return a validator class for 2020-12 that counts steps and uses the linear engine."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checks = {**Draft202012Validator.VALIDATORS, **_CHECKS}
    counted = {word: _counting(word, check) for word, check in checks.items()}
    made: Any = extend(Draft202012Validator, counted)
    evolve = made.evolve

    def counted_evolve(self: Any, **changes: Any) -> Any:
        schema = changes.get("schema", self.schema)
        if not isinstance(schema, dict):
            _work.get().spend(2)
        else:
            # jsonschema looks at unknown keywords too. A schema of only such keywords is one step.
            _work.get().spend(len(schema) // 8 + checks.keys().isdisjoint(schema))
            # A `$schema` would choose another class: without the budget, and with patterns on `re`.
            changes["schema"] = {name: part for name, part in schema.items() if name != "$schema"}
        return evolve(self, **changes)

    made.evolve = counted_evolve
    return made
