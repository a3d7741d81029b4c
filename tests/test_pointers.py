"""JSON pointers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool.pointers import argument_at, escaped, unescaped


@given(st.text("~/01a"))
def test_an_escaped_name_is_one_step_and_comes_back(name):
    """A name has no slash once it is escaped, and unescaping gives it back."""
    assert "/" not in escaped(name)
    assert unescaped(escaped(name)) == name


@pytest.mark.parametrize(
    ("place", "argument"),
    [("", None), ("/", ""), ("/to", "to"), ("/to/0/name", "to"), ("/a~1b~0c/0", "a/b~c")],
)
def test_a_pointer_leads_to_an_argument(place, argument):
    """The first step of a pointer names the argument; the empty pointer is all of them."""
    assert argument_at(place) == argument
