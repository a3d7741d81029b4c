"""The command line: `functool`, or `python -m functool`."""

import io
import os
import sys


def main() -> None:
    """Run the command line.

    Raises:
        SystemExit: The command has ended, or its extra is missing: then with the install command.
    """
    try:
        from functool.cli import main as run
    except ImportError as missing:  # Do not show the user of a command a traceback.
        raise SystemExit(f"Error: {missing}") from None
    _prepare_streams()
    run()


def _prepare_streams() -> None:
    """Open what the caller has closed, and let no character end a command that has run a tool.

    A character that the encoding of standard output lacks is written as an escape.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
