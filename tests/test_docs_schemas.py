"""The page of schemas is what the code does."""

from tests.docs_schemas import PAGE, page, rows


def test_the_page_is_true():
    """docs/schemas.md is what its generator writes now: run `python -m tests.docs_schemas` after a change."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_type_is_on_the_page():
    """Each type has its row."""
    text = PAGE.read_text(encoding="utf-8")

    assert len(rows()) > 35
    for spelling in rows():
        assert f"| `{spelling.replace('|', chr(92) + '|')}` |" in text
