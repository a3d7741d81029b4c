"""What the tests of many bundled tools start with."""

import pytest

from tests.bundled.loopback import serve


@pytest.fixture
def server():
    """A web server on this machine, for one test."""
    with serve() as running:
        yield running
