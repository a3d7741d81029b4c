"""How the laws of several files draw JSON."""

from typing import Any

from hypothesis import strategies as st

SINGLE = st.none() | st.booleans()


def nested(
    leaves: st.SearchStrategy[Any],
    names: st.SearchStrategy[Any] = st.text(max_size=4),
    most: int = 3,
    max_leaves: int = 8,
) -> st.SearchStrategy[Any]:
    """Draw one of the leaves, or lists and objects of them, one inside of the other."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=most) | st.dictionaries(names, inner, max_size=most),
        max_leaves=max_leaves,
    )
