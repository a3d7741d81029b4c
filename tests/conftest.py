"""How many examples a law gets: a hundred at `make test`, a thousand at `make laws` and wherever `CI=true`.

The same examples are drawn each time, so that a red run is the change's own; `FUNCTOOL_RANDOM=1` draws new ones.
"""

import gc
import logging
import os
import sys
import time
from weakref import WeakKeyDictionary

import pytest

from functool.binding import engine
from functool.guardrails.trusted import wanted_results

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass  # Some suites have no law, and their environments no hypothesis.
else:
    for name, examples in {"quick": 100, "laws": 1_000}.items():
        settings.register_profile(
            name,
            derandomize=os.environ.get("FUNCTOOL_RANDOM") != "1",
            max_examples=examples,
            deadline=None,  # A busy machine is no failure, and neither is slow drawing.
            suppress_health_check=[HealthCheck.too_slow],
            print_blob=True,
        )
    settings.load_profile("laws" if os.environ.get("CI") == "true" else "quick")


def pytest_make_parametrize_id(val):
    """Write a lone surrogate as its escape: mutmut runs tests by their ids, and no file can hold one."""
    if isinstance(val, str) and not val.isascii():
        return val.encode("ascii", "backslashreplace").decode()
    return None


@pytest.fixture(autouse=True)
def forgetful():
    """`trusted_only(wrote=...)` makes all contexts of the process remember values: undo that."""
    before = {*wanted_results}
    yield
    wanted_results.intersection_update(before)


@pytest.fixture(autouse=True)
def the_logger_as_it_was():
    """Leave the level of functool's logger as it was: a page may set it."""
    logger = logging.getLogger("functool")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def little_work(monkeypatch):
    """Let the checks of a foreign schema take a tenth of the steps, so that tests reach the limit soon."""
    monkeypatch.setattr(engine, "MAX_STEPS", engine.MAX_STEPS // 10)


@pytest.fixture
def compared(monkeypatch):
    """The known names that unknown ones are compared with, from now on."""
    from functool import close_names

    names = []
    likeness = close_names.likeness

    def counting(parts, known):
        names.append(known)
        return likeness(parts, known)

    monkeypatch.setattr(close_names, "likeness", counting)
    return names


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    """Forget what functool has cached while mutmut breaks it: a mutant behind a full cache would never run."""
    if "MUTANT_UNDER_TEST" not in os.environ:
        return
    # What stands between a mutated function and its caller is functool's, where an error names a line.
    sys.modules["mutmut.mutation.trampoline"].__dict__["__name__"] = "functool.mutated"
    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith("functool") else ():
            if isinstance(value, WeakKeyDictionary):
                value.clear()
            elif hasattr(value, "cache_clear") and not isinstance(value, type):
                value.cache_clear()


def pytest_unconfigure():
    """Let the threads of Temporal's SDK end before Python does: one that still runs then crashes the interpreter."""
    if "temporalio" in sys.modules:
        gc.collect()
        time.sleep(0.5)
