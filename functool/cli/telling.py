"""How the commands say what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from functool.integrations.visible import visible


@contextmanager
def told() -> Iterator[None]:
    """Say in one line what went wrong, where the one who types can do something about it."""
    from functool import FunctoolError

    try:
        yield
    except BrokenPipeError:
        raise  # The reader has enough: click ends the program in silence.
    except (FunctoolError, ImportError, OSError, ValueError) as error:
        raise click.ClickException(visible(str(error))) from None
