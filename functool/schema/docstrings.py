"""Parse a docstring: the tool's description, and the texts on its arguments and result.

This file splits the text into prose and sections. The package docstring-parser is not used, because
it loses text: it drops a parameter with a colon in its type, joins paragraphs, drops prose after a
section, and fails on a whole docstring for one odd item. Types are skipped, because the annotations
are more reliable.
"""

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

_PARAMS = {
    f"{prefix}{word}"
    for prefix in ("", "other ", "keyword ")
    for word in ("args", "arguments", "params", "parameters")
}
_ATTRIBUTES = {"attribute", "attributes"}
_RETURNS = {"return", "returns", "yield", "yields"}
_DROPPED = {
    *("raise", "raises", "except", "exceptions", "warns"),
    *("example", "examples", "references", "see also"),
}
_READ = _PARAMS | _ATTRIBUTES | _RETURNS
_TITLE = "|".join(sorted(title.replace(" ", r"[ ]") for title in _READ | _DROPPED))
_SECTION = re.compile(
    rf"""^(?P<indent>[ ]*)(?:
        [:@](?:param|parameter|arg|argument|key|keyword|kwarg)[ ]+
            (?:\S[^\n]*?[ ])??(?:\\?[*]){{0,2}}(?P<name>\w+)\??[ ]*:
      | [:@](?P<outcome>returns?|yields?)(?:[ ][^\n:]*)?:
      | [:@](?P<dropped>type|rtype|ytype|raises?|except|exception|[ci]?var)(?:[ ][^\n]*?)?:(?=\s|$)
      | (?P<google>{_TITLE})[ ]*:[ ]*$
      | (?P<numpy>[a-z][\w ]*?)[ ]*\n[ ]*-{{3,}}[ ]*$
    )""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_UNDERLINED = re.compile(r"\n(?= *[a-z][\w ]*\n *-{3,} *$)", re.MULTILINE | re.IGNORECASE)
_OUTCOME = "->"
_NAME = r"[`*\\]{0,4}[^\W\d]\w*[`*]{0,2}"
_ITEM = re.compile(
    rf"(?:[-*•] +)?(?P<names>{_NAME}(?: *, *{_NAME})*)(?: *\(.*?\))? *:(?!//)(?P<text>.*)"
)
_TYPED = re.compile(r"[\w.]+(?:\[.*\])?(?: *\| *[\w.]+(?:\[.*\])?)* *:\s+")


@dataclass(slots=True)
class Docstring:
    """A parsed docstring.

    `summary` is everything but the sections on parameters, return value, exceptions, attributes,
    examples and references. `params` maps the name of each parameter, without stars, to its text.
    `returns` is the text on the returned or yielded value. `attributes` maps the name of each
    attribute of a class to its text.
    """

    summary: str = ""
    params: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


def parse(text: Any) -> Docstring:
    """Parse the docstring `text`.

    Unrecognised sections stay in the summary. Anything that is not a str counts as empty. No
    docstring raises an exception.
    """
    text = inspect.cleandoc(text.replace("\r\n", "\n") if isinstance(text, str) else "")
    found, prose, end = Docstring(), [], 0
    for match in _SECTION.finditer(text):
        if match.start() < end:
            continue
        stop = _end(text, match)
        entries = _read(match, text[match.end() : stop])
        if entries is None:
            continue
        title = (match["google"] or match["numpy"] or "").lower()
        into = found.attributes if title in _ATTRIBUTES else found.params
        for names, about in entries:
            if names == _OUTCOME:
                found.returns = found.returns or about.strip()
            for name in names.split(","):
                if (name := name.strip(" *\\`")).isidentifier():
                    into.setdefault(name, about.strip())
        prose.append(text[end : match.start()].strip())
        end = stop
    prose.append(text[end:].strip())
    found.summary = "\n\n".join(filter(None, prose))
    return found


def _end(text: str, match: re.Match[str]) -> int:
    """Return the position where the section with the title `match` ends."""
    depth = len(match["indent"])
    if match["numpy"]:
        end = _UNDERLINED
    elif not match["google"]:
        end = re.compile(rf"\n(?= {{0,{depth}}}[:@]\w)|\n *\n(?= {{0,{depth}}}\S)")
    elif _ITEM.match(text, match.end() + 1 + depth):
        # The items are indented like their title, for example if it is the docstring's first line.
        # Then a blank line or another title ends the section.
        end = re.compile(rf"\n *\n|\n(?= *(?:{_TITLE}) *: *$)", re.IGNORECASE | re.MULTILINE)
    else:
        end = re.compile(rf"\n(?= {{0,{depth}}}\S)")
    found = end.search(text, match.end())
    return found.start() if found else len(text)


def _read(match: re.Match[str], body: str) -> list[tuple[str, str]] | None:
    """Return the names and texts of a section, or None if it turns out to be prose.

    A section that is dropped, such as `Raises:`, gives an empty list.
    """
    if match["name"] or match["outcome"]:
        return [(match["name"] or _OUTCOME, inspect.cleandoc(body))]
    title = (match["google"] or match["numpy"] or "").lower()
    if match["dropped"] or (body.strip() and title in _DROPPED):
        return []
    if not body.strip() or title not in _READ:
        return None
    if match["numpy"]:
        return _read_numpy(title, body)
    if title not in _RETURNS:
        return _read_items(body) or (None if title in _PARAMS else [])
    body = inspect.cleandoc(body)
    typed = _TYPED.match(body)
    return [(_OUTCOME, inspect.cleandoc(body[typed.end() :]) if typed else body)]


def _read_items(body: str) -> list[tuple[str, str]]:
    items: list[tuple[str, list[str]]] = []
    depth = 0
    for line in body.split("\n"):
        bare = line.lstrip(" ")
        item = _ITEM.match(bare)
        if item and (not items or len(line) - len(bare) <= depth):
            depth = len(line) - len(bare)
            items.append((item["names"], [item["text"]]))
        elif items:
            items[-1][1].append(line)
    return [(names, inspect.cleandoc("\n".join(lines))) for names, lines in items]


def _read_numpy(title: str, body: str) -> list[tuple[str, str]]:
    """Return the names and texts of a NumPy section, in which a text is indented below its name."""
    entries = re.split(r"\n(?=\S)", inspect.cleandoc(body))
    parts = [entry.partition("\n") for entry in entries]
    items = [(first, inspect.cleandoc(f"\n{text}").strip()) for first, _, text in parts]
    if title not in _RETURNS:
        return [(first.partition(":")[0], text) for first, text in items]
    # The first line should hold the type, but many authors write their sentence there.
    typed = [(first.split(":", 1)[-1].strip(), text) for first, text in items]
    return [(_OUTCOME, text or (kind if " " in kind else "")) for kind, text in typed]
