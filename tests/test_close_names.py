"""The known names that are most like an unknown one."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from functool import UnknownToolError, close_names


def test_the_work_for_a_close_name_does_not_grow_with_the_known_names(compared):
    """Of many known names the most alike are compared, and among a few every one."""
    known = [f"tool_number_{n:05}_delete_things" for n in range(2_000)]

    assert f"Did you mean {known[1_234]!r}" in str(
        UnknownToolError("tool_nmuber_01234_delete_thing", known)
    )
    assert len(compared) == close_names.MAX_COMPARED
    short = [f"x{n}" for n in range(2_000)]
    assert close_names.close_names(known[7], [*short, *known]) == [known[7]]
    assert close_names.close_names("", known) == close_names.close_names("a", []) == []


@given(
    st.lists(st.text("abc", max_size=6), max_size=close_names.MAX_COMPARED),
    st.text("abc", max_size=6),
)
def test_the_close_names_of_a_few_are_those_of_difflib(known, name):
    """With few known names, the answer is that of a full comparison."""
    assert close_names.close_names(name, known, 3) == difflib.get_close_matches(name, known, n=3)
    assert close_names.close_names(name, known) == difflib.get_close_matches(name, known, n=1)


@given(st.text("abc_", max_size=80), st.text("abc_", max_size=80))
def test_likeness_is_the_ratio_of_difflib(one, other):
    """Two texts are alike as difflib says, unless their lengths alone make a ratio of 0.6 impossible."""
    matcher = difflib.SequenceMatcher(None, one, other)
    expected = matcher.ratio() if matcher.real_quick_ratio() >= 0.6 else 0.0

    assert close_names.likeness(one, other) == expected
