"""JSON pointers, which name a place inside a JSON value: `/filters/0/name`."""


def escaped(name: str) -> str:
    """Return a name as a JSON pointer writes it."""
    return name.replace("~", "~0").replace("/", "~1")


def unescaped(step: str) -> str:
    """Return the name that a step of a JSON pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")


def argument_at(place: str) -> str | None:
    """Return the argument that a pointer into the arguments leads to; None for all of them."""
    return unescaped(place[1:].partition("/")[0]) if place else None
