"""`python -m functool`: the command line."""

from functool.cli import main

if __name__ == "__main__":
    main()
