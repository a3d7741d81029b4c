"""The known names that are most like an unknown one."""

import pytest

from functool import UnknownToolError, close_names


def test_the_work_for_a_close_name_does_not_grow_with_the_known_names(compared):
    """Of very many known names those of a similar length are compared."""
    known = [f"tool_number_{n:05}_delete_things" for n in range(2_000)]

    assert f"Did you mean {known[1_234]!r}" in str(
        UnknownToolError("tool_nmuber_01234_delete_thing", known)
    )
    short = [f"x{n}" for n in range(2_000)]
    compared.clear()
    assert close_names.close_names(known[7], [*short, *known]) == [known[7]]
    assert len(compared) == close_names.MAX_COMPARED
    assert close_names.close_names("", known) == close_names.close_names("a", []) == []


@pytest.mark.parametrize(
    ("name", "known", "close"),
    [
        ("num_result", ["query", "num_results"], ["num_results"]),
        ("qurey", ["num_results", "query"], ["query"]),
        ("ptah", ["text", "path"], ["path"]),
        ("date", ["day", "start_date", "end_date"], ["end_date", "start_date"]),
        ("customerId", ["customer_id", "name"], ["customer_id"]),
        ("limit", ["title", "text"], []),
        ("retries", ["strict", "timeout"], []),
        ("sub", ["body", "subject"], ["subject"]),
        ("a", ["b", "", "ab"], []),
        ("", ["", "a"], []),
    ],
)
def test_names_are_close_if_they_share_most_letters_and_pairs_of_letters(name, known, close):
    """The closest comes first, and a name that shares little is none of them."""
    assert close_names.close_names(name, known, 2) == close
