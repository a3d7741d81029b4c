"""What the tests of journals share."""

import pytest

from functool.layers.journal import Journal


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "calls.journal")
    yield journal
    journal.close()
