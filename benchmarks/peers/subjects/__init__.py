"""One file a subject. Each makes tools and calls them at its library's own documented entry.

A subject has these names:

- `PACKAGES`: what its environment installs, by name in pins.txt (functool has none: it is the checkout);
- `IMPORT`: the import that somebody who defines a tool writes;
- `ENTRY`: the entry that is called, in words;
- `TAKES`: "text" where the entry takes JSON text, else "dict": then `json.loads`, which a host does, is part of the time;
- `define(func)`: a tool whose definition for the model is made;
- `await caller(tool)`: an async function from the JSON text of the arguments to the text for the model. What it raises is a refusal
  that the host has to word;
- `guarded(func)`, where the entry runs something before and after a body: a tool with one such function a side that lets all pass;
- `limited(func, seconds)`, where the entry has a time limit: a tool with that limit.
"""

import importlib
import pkgutil
from types import ModuleType


def names() -> list[str]:
    """Return the names of all subjects, functool first."""
    return sorted(
        (module.name for module in pkgutil.iter_modules(__path__)),
        key=lambda name: (name != "functool_", name),
    )


def load(name: str) -> ModuleType:
    """Return a subject; its library has to be importable."""
    return importlib.import_module(f"{__name__}.{name}")
