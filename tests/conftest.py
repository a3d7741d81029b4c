"""How many examples a law gets: a hundred where somebody waits, a thousand and more in CI (`CI=true`)."""

import os

try:
    from hypothesis import settings
except ImportError:
    pass  # Some suites have no law, and their environments no hypothesis.
else:
    settings.register_profile("quick", max_examples=100, deadline=None)
    settings.register_profile("ci", derandomize=True, max_examples=1_000, deadline=None, print_blob=True)
    settings.load_profile("ci" if os.environ.get("CI") else "quick")
