"""Docstrings of four styles, odd ones, and the laws they obey."""

import inspect
from textwrap import indent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functool.schema.docstrings import Docstring, parse

GOOGLE = """Search the web.

    Pages come best first: at most ten.

    Args:
        query: The words: all of them.
        limit (int, optional): How many
            at most.

            More costs more.
        *sites: Only these.

    Returns:
        dict[str, int]: Hits by page.

    Raises:
        ValueError: Never.
    """
NUMPY = """Search the web.

    Pages come best first: at most ten.

    Parameters
    ----------
    query : str
        The words: all of them.
    limit : int, optional
        How many
        at most.

        More costs more.
    *sites
        Only these.

    Returns
    -------
    dict[str, int]
        Hits by page.

    Raises
    ------
    ValueError
        Never.
    """
REST = """Search the web.

    Pages come best first: at most ten.

    :param query: The words: all of them.
    :param int limit: How many
        at most.

        More costs more.
    :type query: str, optional
    :param \\*sites: Only these.
    :returns: Hits by page.
    :rtype: dict[str, int]
    :raises ValueError: Never.
    """
EPYDOC = """Search the web.

    Pages come best first: at most ten.

    @param query: The words: all of them.
    @type query: str
    @param limit: How many
        at most.

        More costs more.
    @param *sites: Only these.
    @return: Hits by page.
    @rtype: dict[str, int]
    @raise ValueError: Never.
    """


@pytest.mark.parametrize(
    "text", [GOOGLE, NUMPY, REST, EPYDOC], ids=["google", "numpy", "rest", "epydoc"]
)
def test_styles(text):
    """The four styles say the same: prose without sections, texts by name without stars, and the returned value."""
    expected = Docstring(
        summary="Search the web.\n\nPages come best first: at most ten.",
        params={
            "query": "The words: all of them.",
            "limit": "How many\nat most.\n\nMore costs more.",
            "sites": "Only these.",
        },
        returns="Hits by page.",
    )

    assert parse(text) == expected


def test_plain_text_is_kept():
    """Plain prose is its own cleaned text."""
    text = "Add.\n\n    Two: numbers.\n      - a\n    "

    assert parse(text) == Docstring("Add.\n\nTwo: numbers.\n  - a", {}, "")


def params(text):
    return parse(text).params


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S.\n\nArgs:\n    mode (Literal['x: y']): The mode.\n    n: N.", {"mode": "The mode.", "n": "N."}),
        ("S.\n\nArgs:\n    f (Callable[[int], str]): Called (see: x): y.", {"f": "Called (see: x): y."}),
        ("S.\n\n:param Literal['a: b'] m: Mode.\n:param dict[str, int] d: D.", {"m": "Mode.", "d": "D."}),
        ("S.\n\nParameters\n----------\nm : {'x: y', 'z'}, optional\n    Mode.", {"m": "Mode."}),
        ("S.\nArgs:\n    a: A.\nMore.", {"a": "A."}),
        ("S.\n\n    Args:\n\n        a: A.\n\n        b: B.\n    More.\n    ", {"a": "A.", "b": "B."}),
        ("Args:\n        a: A.\n        b: B.\n    ", {"a": "A.", "b": "B."}),
        ("Args:\n        a: A.\n        b: B.\n        Returns:\n            R: r.", {"a": "A.", "b": "B."}),
        ("S.\n\nArgs:\n\ta: A.\n    b: B.\n", {"a": "A.", "b": "B."}),
        ("S.\n\n  Args:\n      a: A.\n Other text.", {"a": "A."}),
        ("S.\r\n\r\nArgs:\r\n    a: A.\r\n    b: B.\r\n", {"a": "A.", "b": "B."}),
        ("S.\n\nargs:\n    a: A.\nkeyword args:\n    b: B.", {"a": "A.", "b": "B."}),
        ("S.\n\nArgs:\n    a, b: Both.\n    **kw: Rest.", {"a": "Both.", "b": "Both.", "kw": "Rest."}),
        ("S.\n\nArgs:\n    - `a`: A.\n    - `b` (int): B.", {"a": "A.", "b": "B."}),
        ("S.\n\nArgs:\n    * **a**: A.\n    * **b** (int): B.", {"a": "A.", "b": "B."}),
        ("S.\n\n  Args:\n  a: A.\n    b: deeper.\n\n  More.", {"a": "A.\nb: deeper."}),
        ("S.\n\nArgs:\n    a: One.\n    Same depth, no item.\n\n    Nor this.\n    b: B.",
         {"a": "One.\n    Same depth, no item.\n\n    Nor this.".replace("    ", ""), "b": "B."}),
        ("S.\n\nArgs:\n    a: See\n    https://example.org/x\n    b: B.", {"a": "See\nhttps://example.org/x", "b": "B."}),
        ("S.\n\nArgs:\n    a:\n        Below.\n    b: B.", {"a": "Below.", "b": "B."}),
        ("S.\n\nParameters\n---\na, b : int\n    Both.\n*args, **kw\n    Rest.\n",
         {"a": "Both.", "b": "Both.", "args": "Rest.", "kw": "Rest."}),
        ("S.\n\nParameters\n----------\na : int\n    A.\n\nOther Parameters\n----------------\nb\n    B.", {"a": "A.", "b": "B."}),
        ("S.\n\n:param a: See\n  :param: in the middle\n:param b: B.", {"a": "See\n:param: in the middle", "b": "B."}),
        ("S.\n\n@param a: A.\n@return: what param b: says", {"a": "A."}),
        (":param a: First.\n:param a: Second.", {"a": "First."}),
        ("Note: this.\n\nArgs:\n    a: A.\n\n    b: B.", {"a": "A.", "b": "B."}),
        ("S.\n\nArgs:\n    a: A.\n        b: deeper.\n    c: C.", {"a": "A.\nb: deeper.", "c": "C."}),
        ("S.\n\nParameters\n----------\na : int\nb\n    B.", {"a": "", "b": "B."}),
    ],
)  # fmt: skip
def test_parameters(text, expected):
    """A parameter's text survives colons, types, groups, odd indentation and blank lines where authors put them."""
    assert params(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S.\n\nReturns:\n    The hits: all of them.", "The hits: all of them."),
        ("S.\n\nReturns:\n    dict[str, int] | None: Hits.\n    More.", "Hits.\nMore."),
        ("S.\n\nYields:\n    str: Line by line.", "Line by line."),
        ("S.\n\nReturns\n-------\nThe number of hits.\n", "The number of hits."),
        ("S.\n\nReturns\n-------\nn : int\n    The number.\n", "The number."),
        ("S.\n\nReturns\n-------\nint\n", ""),
        ("S.\n\nReturns\n-------\nn :\n", ""),
        ("S.\n\n:returns int: Hits.", "Hits."),
        ("S.\n\n:rtype: int", ""),
    ],
)
def test_returns(text, expected):
    """The returned value's text comes without its type."""
    assert parse(text).returns == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "S.\n\nArgs:\n    a: A.\n\nBehind.\n\nNote:\n    Slow.",
            "S.\n\nBehind.\n\nNote:\n    Slow.",
        ),
        (
            "S.\n\nParameters\n----------\na\n    A.\n\nNotes\n-----\nSlow.",
            "S.\n\nNotes\n-----\nSlow.",
        ),
        ("S.\n\n:param a: A.\n\nBehind.", "S.\n\nBehind."),
        (
            "S.\n\n:mod:`x` helps: yes.\n\n.. note:: Slow.",
            "S.\n\n:mod:`x` helps: yes.\n\n.. note:: Slow.",
        ),
        ("S.\n\nExamples:\n    >>> f()\n\nAttributes:\n    x: y\n\nBehind.", "S.\n\nBehind."),
        ("S.\n\nExamples:\n- a\n- b", "S.\n\nExamples:\n- a\n- b"),
        ("S.\n\nArgs:\n    None.\n", "S.\n\nArgs:\n    None."),
        ("Args:", "Args:"),
        ("Heading\n-------\nS.", "Heading\n-------\nS."),
        ("S.\n\nA table\n---|---", "S.\n\nA table\n---|---"),
        (":\t::\n", ":       ::"),
        ("", ""),
    ],
)
def test_prose(text, expected):
    """Prose stays, before and behind the sections, and so does every section that holds nothing readable."""
    assert parse(text).summary == expected


MARKS = st.sampled_from(
    [
        *("Args:", "Returns:", "Raises:", "Parameters", "----------", ".. note::"),
        *(":param x:", ":type", "@param y:", "@return:", ":\t::"),
        *("x", "x : int", "x (int): y", "*a, **b", "- a: b", ":", "`", "\\", "("),
        *("    ", "  ", "\t", "\n", "\n", "\n\n"),
    ]
)


@given(st.one_of(st.text(), st.lists(MARKS, max_size=30).map("".join)))
@example(":\t::\n")
def test_any_text(text):
    """Any text whatever gives a docstring whose parameter names are Python names."""
    found = parse(text)

    assert all(map(str.isidentifier, found.params))
    assert all(isinstance(words, str) for words in found.params.values())
    assert isinstance(found.summary, str) and isinstance(found.returns, str)


NAMES = st.sampled_from("a query max_size kind x1 _hidden from_ schema note type param".split())
SAID = st.sampled_from(
    "the|query|(see: there)|a: b|int|Returns|`x`|{'a': 1}|-|http://x|größer".split("|")
)
WORDS = st.lists(SAID, min_size=1, max_size=6).map(lambda words: f"Some {' '.join(words)}.")
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map("\n\n".join)


def google(params, returns):
    items = "\n".join(f"{name} (Literal['a: b']): {hang(text)}" for name, text in params.items())
    return f"Args:\n{indent(items, '    ')}\n\nReturns:\n    dict[str, int]: {hang(returns)}"


def numpy(params, returns):
    items = "\n".join(
        f"{name} : {{'a: b'}}, optional\n{indent(text, '    ')}" for name, text in params.items()
    )
    return f"Parameters\n----------\n{items}\n\nReturns\n-------\ndict[str, int]\n{indent(returns, '    ')}"


def rest(params, returns):
    items = (f":param Literal['a: b'] {name}: {hang(text)}\n" for name, text in params.items())
    return "".join(items) + f":returns: {hang(returns)}"


def epydoc(params, returns):
    items = (f"@param {name}: {hang(text)}\n@type {name}: int\n" for name, text in params.items())
    return "".join(items) + f"@return: {hang(returns)}"


def hang(text):
    return indent(text, "        ").lstrip()


@pytest.mark.parametrize("write", [google, numpy, rest, epydoc])
@given(st.dictionaries(NAMES, TEXTS, min_size=1, max_size=4), TEXTS, TEXTS, st.integers(0, 8))
def test_round_trip(write, params, returns, prose, depth):
    """What an author writes in a style, at any indentation, is what is read."""
    text = indent(f"{prose}\n\n{write(params, returns)}\n", " " * depth)

    assert parse(text) == Docstring(prose, params, returns)


@given(st.lists(WORDS, max_size=5).map("\n".join), st.integers(0, 8))
def test_prose_is_kept(prose, depth):
    """Without a section, the summary is the cleaned text."""
    text = indent(prose, " " * depth)

    assert parse(text) == Docstring(inspect.cleandoc(text))


def test_a_heading_inside_of_a_section_is_its_text():
    """What looks like another style's heading within a field is what the field says."""
    assert parse("@return:\nArgs:") == Docstring("", {}, "Args:")


@pytest.mark.parametrize("odd", [None, 5, b"Search.", property()], ids=repr)
def test_what_is_no_text_says_nothing(odd):
    """The `__doc__` of a callable may be anything: what is no text is no docstring."""
    assert parse(odd) == Docstring()


@pytest.mark.parametrize(
    "text",
    [
        ":param a:\n    ",
        ":param a:\n\n  \n",
        "Parameters\n----------\na : int\n     \n",
        "Args:\n    a:  \n     ",
    ],
)
def test_a_text_of_blanks_is_empty(text):
    """Blank lines under the name of a parameter are no description."""
    assert parse(text).params == {"a": ""}
    assert parse(":returns:\n    ").returns == ""


@pytest.mark.parametrize("stars", ["**", r"\*\*", r"\**", "*", r"\*", ""])
def test_stars_of_a_field(stars):
    """A star, escaped or not, is no part of a name: each of two may have a backslash of its own."""
    found = parse(f"Go.\n\n:param {stars}kwargs: All else.\n:param n: A number.")

    assert found.params == {"kwargs": "All else.", "n": "A number."} and found.summary == "Go."


@pytest.mark.parametrize(
    "text",
    [
        "S.\n\nAttributes:\n    x: An x.\n    y (int): A y.\n\nBehind.",
        "S.\n\nAttributes\n----------\nx : int\n    An x.\ny\n    A y.\n",
    ],
)
def test_attributes_are_kept_apart(text):
    """The attributes of a class are read, and are no parameters of a function."""
    found = parse(text)

    assert found.attributes == {"x": "An x.", "y": "A y."} and found.params == {}
    assert found.summary.startswith("S.")
