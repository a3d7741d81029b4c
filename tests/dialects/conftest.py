"""What every dialect is tried with."""

import pytest

from tests.dialects.checks import EVERY
from tests.dialects.samples import EVERY_RESULT


@pytest.fixture(params=EVERY, ids=lambda dialect: dialect.__name__.rpartition(".")[2])
def dialect(request):
    """Each dialect."""
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "strict"])
def strict(request):
    """Whether the tools are strict."""
    return request.param


@pytest.fixture(params=EVERY_RESULT)
def given(request):
    """A result of each kind."""
    return EVERY_RESULT[request.param]
