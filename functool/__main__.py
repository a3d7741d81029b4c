"""The command line: `functool`, or `python -m functool`."""


def main() -> None:
    """Run the command line.

    Raises:
        SystemExit: The command has ended, or its extra is missing: then with the install command.
    """
    try:
        from functool.cli import main as run
    except ImportError as missing:  # Do not show the user of a command a traceback.
        raise SystemExit(f"Error: {missing}") from None
    run()


if __name__ == "__main__":
    main()
