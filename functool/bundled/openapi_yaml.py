"""Read YAML that somebody else wrote, with the types of JSON only.

The values are made from the events of PyYAML's parser, and are counted meanwhile. Its own
constructors would need seconds and gigabytes before anybody could count.
"""

from __future__ import annotations

import re
from typing import Any

from functool import DefinitionError

MAX_DIRECTIVES = 100
"""How often `%TAG` may appear. The parser compares each such directive with all others."""

_STR = "tag:yaml.org,2002:str"
_TAGS = {
    "ScalarEvent": (None, "!", _STR),
    "MappingStartEvent": (None, "!", "tag:yaml.org,2002:map"),
    "SequenceStartEvent": (None, "!", "tag:yaml.org,2002:seq"),
}
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
)


def read_yaml(text: str, max_values: int, max_depth: int) -> Any:
    """Return the value that a YAML text stands for. A version is not a date, and `no` is a text.

    Args:
        text: The text of one document.
        max_values: The most values. Each alias counts as one.
        max_depth: The most collections inside of each other.

    Raises:
        DefinitionError: It is not valid YAML of JSON's types, or exceeds a limit.
        ValueError: A number has too many digits.
        ImportError: PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as missing:
        raise ImportError(
            "OpenAPI documents in YAML need PyYAML: pip install 'functool[openapi]'"
        ) from missing

    if text.count("%TAG") > MAX_DIRECTIVES:
        raise _invalid("it has too many %TAG directives")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    made = _Made(max_values, max_depth)
    try:
        for event in yaml.parse(text, Loader=loader):
            made.take(event, type(event).__name__)
    except yaml.YAMLError as error:
        raise DefinitionError(
            f"the OpenAPI document is not valid YAML: {str(error)[:200]}"
        ) from error
    return made.root[0] if made.root else None


class _Made:
    """The values that were made so far."""

    def __init__(self, max_values: int, max_depth: int) -> None:
        self.root: list[Any] = []
        self._left = self._max_values = max_values
        self._max_depth = max_depth
        self._anchors: dict[str, tuple[Any, str | None]] = {}
        self._open: list[Any] = [self.root]
        # For each open collection the name whose value comes next, or None.
        self._names: list[str | None] = [None]

    def take(self, event: Any, kind: str) -> None:
        """Take one event of the parser, of the class `kind`."""
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._open.pop()
            self._names.pop()
        elif kind == "AliasEvent":
            if event.anchor not in self._anchors:
                raise _invalid(f"nothing has the anchor {event.anchor[:100]!r}", event)
            self._put(*self._anchors[event.anchor], event)
        elif kind in _TAGS:
            self._begin(event, kind)

    def _begin(self, event: Any, kind: str) -> None:
        """Put a scalar, or a collection that begins."""
        # PyYAML may raise any exception for a tag that does not fit its value.
        if event.tag not in _TAGS[kind]:
            raise _invalid(f"tag {event.tag[:100]!r}", event)
        if event.anchor in self._anchors:
            raise _invalid(f"a second anchor {event.anchor[:100]!r}", event)
        text = event.value if kind == "ScalarEvent" else None
        value = {} if kind == "MappingStartEvent" else [] if text is None else _value(event)
        if event.anchor:
            self._anchors[event.anchor] = value, text
        self._put(value, text, event)
        if text is None:
            self._enter(value, event)

    def _put(self, value: Any, text: str | None, event: Any) -> None:
        """Put a value into the open collection, or its text if it is a name of a mapping."""
        parent, name = self._open[-1], self._names[-1]
        if isinstance(parent, dict) and name is None:
            # A name stays a text. Python could take for ever to find numbers with the same hash.
            if text is None:
                raise _invalid("a collection is no name", event)
            self._names[-1] = text
            return
        self._left -= 1
        if self._left < 0:
            raise DefinitionError(f"the OpenAPI document has more than {self._max_values:,} values")
        if isinstance(parent, dict):
            parent[name] = value
            self._names[-1] = None
        elif parent is self.root and parent:
            raise _invalid("it has more than one document", event)
        else:
            parent.append(value)

    def _enter(self, collection: Any, event: Any) -> None:
        self._open.append(collection)
        self._names.append(None)
        if len(self._open) > self._max_depth + 1:
            raise DefinitionError(
                f"the OpenAPI document is nested more than {self._max_depth} deep,"
                f" at line {_line(event)}"
            )


def _value(event: Any) -> Any:
    """Return the value of a scalar. Only one without quotes and tag is more than a text."""
    text: str = event.value
    if event.style or event.tag:
        return text
    if text == "<<":  # The resulting copies of mappings could grow without limit.
        raise DefinitionError(
            "the OpenAPI document uses YAML merge keys (<<), which are not supported:"
            f" line {_line(event)}"
        )
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _invalid(what: str, event: Any = None) -> DefinitionError:
    where = "" if event is None else f", line {_line(event)}"
    return DefinitionError(f"the OpenAPI document is not valid YAML of JSON's types: {what}{where}")
