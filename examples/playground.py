"""The demo's tools on a page: look at them, call them, and agree to an edit.

    python -m examples.playground

It is the same as `functool play examples.playground --context examples.playground:project`.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.demo_tools import new_project
from examples.needs import needs
from functool import Context

FOLDER = tempfile.TemporaryDirectory()
TOOLS = new_project(Path(FOLDER.name))


@contextmanager
def project() -> Iterator[Context[Path]]:
    """Give the calls the folder of the project, and remove it in the end."""
    with FOLDER:
        yield Context(Path(FOLDER.name))


if __name__ == "__main__":
    with needs("'functool[cli,play]'", __name__):
        from functool.cli import main
    FOLDER.cleanup()  # The page imports this file under its own name, which makes another one.
    main(["play", "examples.playground", "--context", "examples.playground:project", *sys.argv[1:]])
