"""How many examples a law gets: a hundred at `make test`, a thousand at `make laws` and wherever `CI=true`.

Where `CI=true` the same examples are drawn each time, so that a red run is the change's own.
"""

import gc
import logging
import os
import sys
import time

import pytest

try:
    from hypothesis import settings
except ImportError:
    pass  # Some suites have no law, and their environments no hypothesis.
else:
    IN_CI = os.environ.get("CI") == "true"
    settings.register_profile(
        "quick", derandomize=IN_CI, max_examples=100, deadline=None, print_blob=True
    )
    settings.register_profile(
        "laws", derandomize=IN_CI, max_examples=1_000, deadline=None, print_blob=True
    )
    settings.load_profile("laws" if IN_CI else "quick")


@pytest.fixture(autouse=True)
def the_logger_as_it_was():
    """Leave the level of functool's logger as it was: a page may set it."""
    logger = logging.getLogger("functool")
    level = logger.level
    yield
    logger.setLevel(level)


def pytest_unconfigure():
    """Let the threads of Temporal's SDK end before Python does: one that still runs then crashes the interpreter."""
    if "temporalio" in sys.modules:
        gc.collect()
        time.sleep(0.5)
