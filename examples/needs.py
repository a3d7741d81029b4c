"""What an example needs beside functool itself: without it, one line says what to install."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(packages: str, module: str) -> Iterator[None]:
    """End the program with one line when an import fails and `module` is being run."""
    try:
        yield
    except ImportError as error:
        if module != "__main__":
            raise
        raise SystemExit(f"This example needs: pip install {packages}") from error
