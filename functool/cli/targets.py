"""Load the tools of a TARGET: a file, a module, an object, or an MCP server."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from functool.cli.telling import Stopped

if TYPE_CHECKING:
    from types import ModuleType

    from functool import Tool, Toolset

TARGET_HELP = (
    ("tools.py", "every tool of a file"),
    ("tools.py:search", "one tool, toolset or function of it"),
    ("package.module:object", "the same, of an installed module"),
    ("api.yaml", "an OpenAPI document, .json or .yaml: a tool for each operation"),
    ("https://host/mcp", "an MCP server over HTTP"),
    ('"npx some-server --flag"', "an MCP server that this command starts"),
    ("mcp:TARGET", "an MCP server, if that is not clear"),
)
SERVER = "mcp:"


def headers_of(given: Sequence[str]) -> dict[str, str]:
    """Return the headers that `--header NAME=VARIABLE` asks for, read from the environment.

    Raises:
        UsageError: It is not such a pair, or there is no such variable.
    """
    headers = {}
    for each in given:
        name, sign, variable = each.partition("=")
        if not sign or not re.fullmatch(r"[A-Za-z0-9_-]+", name) or not variable:
            raise click.UsageError("--header is NAME=VARIABLE, as in Authorization=MY_TOKEN")
        headers[name] = variable_of("--header", variable)
    return headers


def variable_of(option: str, name: str) -> str:
    """Return the value of an environment variable that an option names.

    Options name a variable instead of the value, because others can read a secret in a command.

    Raises:
        UsageError: There is no such variable, or it is empty.
    """
    value = os.environ.get(name, "")
    if not value:
        raise click.UsageError(f"{option}: there is no environment variable {name!r}")
    return value


@asynccontextmanager
async def opened(
    target: str,
    *,
    may_be_empty: bool = False,
    yes: Callable[[], bool] = lambda: False,
    headers: Mapping[str, str] | None = None,
    elicit: Any = None,
) -> AsyncIterator[Toolset]:
    """Yield the tools of a target.

    `elicit` answers the questions of a server. By default they are asked at the terminal, and a
    true `yes()` consents without asking.
    """
    if not is_remote(target):
        if headers:
            raise click.UsageError("--header is for an MCP server's URL")
        yield local_toolset(target, may_be_empty)
        return
    from functool.integrations import mcp
    from functool.integrations.click import answer_form

    async with mcp.connect(
        target.removeprefix(SERVER),
        elicit=elicit or (lambda message, form: answer_form(message, form, yes=yes())),
        headers=headers or None,
    ) as toolset:
        yield toolset


def is_remote(target: str) -> bool:
    """Whether a target is an MCP server."""
    if target.startswith(("http://", "https://", SERVER)):
        return True
    if _is_document(target):
        return False
    place, _, name = target.rpartition(":")
    is_path = " " not in place or Path(place).exists()
    if Path(target).exists() or (place and name.isidentifier() and is_path):
        return False
    return " " in target or (not target.endswith(".py") and shutil.which(target) is not None)


def local_toolset(target: str, may_be_empty: bool = False) -> Toolset:
    """Return the tools of a file or module.

    Raises:
        ClickException: It cannot be loaded, or it has no tools.
    """
    from functool import Toolset

    if _is_document(target):
        from functool.bundled.openapi import openapi_tools

        return openapi_tools(Path(target).read_bytes())
    whole = Path(target).exists() or ":" not in target
    place, _, name = (target, "", "") if whole else target.rpartition(":")
    folder = Path(place)
    if folder.is_dir() and not (place.isidentifier() and (folder / "__init__.py").exists()):
        raise click.ClickException(
            f"{place} is a folder: name a file in it (only `functool check` takes a folder)"
        )
    found = list(_tools_of(_module(place), name, target))
    if not found and not may_be_empty:
        raise click.ClickException(
            f"there are no tools in {target}: decorate a function with @FunctionTool"
        )
    return Toolset(found)


def _is_document(target: str) -> bool:
    path = Path(target)
    return path.suffix in (".json", ".yaml", ".yml") and path.is_file()


def object_of(target: str) -> Any:
    """Return the object that `FILE:NAME` names.

    Raises:
        ClickException: There is no such object.
    """
    place, sign, name = target.rpartition(":")
    if not sign:
        raise click.ClickException(f"{target} names no object: write FILE:NAME")
    module = _module(place)
    if not hasattr(module, name):
        from functool.close_names import close_names

        close = close_names(name, vars(module))
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise click.ClickException(f"{module.__name__} has no {name!r}{hint}")
    return getattr(module, name)


def _module(place: str) -> ModuleType:
    from functool import DefinitionError

    path = Path(place)
    try:
        # Standard output is for results, and `serve` uses it for its protocol.
        with redirect_stdout(sys.stderr):
            return _imported(path) if path.suffix == ".py" else _imported_by_name(place)
    except DefinitionError as error:  # Its message names the function's own line.
        raise click.ClickException(f"cannot load {place}: {error}") from None
    except Stopped:
        raise
    except (Exception, SystemExit) as error:  # A script may end the program when it is imported.
        import traceback

        if isinstance(error, ModuleNotFoundError) and error.name == place.partition(".")[0]:
            raise click.ClickException(f"there is no file and no module {place!r}") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if "importlib" in last.filename else f" ({last.filename}, line {last.lineno})"
        reason = f"{type(error).__name__}: {error}{where}"
        raise click.ClickException(f"cannot load {place}: {reason}") from None


def _imported_by_name(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    return import_module(name)


def _imported(path: Path) -> ModuleType:
    """Import a file: by its dotted name if it is part of a package, otherwise by its own name."""
    from importlib.util import module_from_spec, spec_from_file_location

    folder, names = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").exists():
        folder, names = folder.parent, [folder.name, *names]
    sys.path.insert(0, str(folder))
    dotted = ".".join(names[:-1] if names[-1] == "__init__" else names)
    if len(names) > 1 and all(name.isidentifier() for name in names):
        # The file may import other files of the package with `from . import ...`.
        found = _in_package(dotted)
        if found is not None and Path(found.__file__ or "").resolve() == path.resolve():
            return found
    # Use the file's own name, so that other processes can import what they unpickle. Do not use the
    # name of another module that is loaded already.
    for name in (path.stem, f"_{path.stem}"):
        known = sys.modules.get(name)
        if known is None:
            break
        # The tools of a file and its context share the file's classes and global variables.
        if Path(getattr(known, "__file__", None) or "").resolve() == path.resolve():
            return known
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:  # What was read in part must not be found as the whole.
        del sys.modules[name]
        raise
    return module


def _in_package(name: str) -> ModuleType | None:
    """Import a module by its dotted name. Return None if another package has that name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        return None


def _named(module: ModuleType, name: str) -> Any:
    from functool import Tool, Toolset

    if not hasattr(module, name):
        tools = [key for key, value in vars(module).items() if isinstance(value, (Tool, Toolset))]
        known = ", ".join(tools) or "none"
        raise click.ClickException(f"{module.__name__} has no {name!r}; its tools: {known}")
    return getattr(module, name)


def _tools_of(module: ModuleType, name: str, target: str) -> Iterable[Tool]:
    """Return the tools in the object called `name`, or in all public names, each tool once."""
    if name:
        value = _named(module, name)
        tools = _tools_in(value)
        found = _made_of(value, target) if tools is None else tools
    else:
        public = [value for key, value in vars(module).items() if key[0] != "_"]
        found = [tool for value in public for tool in _tools_in(value, module.__name__) or ()]
    return {id(tool): tool for tool in found}.values()


def _tools_in(value: Any, home: str = "") -> Sequence[Tool] | None:
    """Return the tools in a tool, a toolset or a ToolModel; None for anything else.

    With `home`, a ToolModel counts only in the module of this name, which defines it.
    """
    from functool import Tool, ToolModel, Toolset

    if isinstance(value, Tool):
        return [value]
    if isinstance(value, Toolset):
        return list(value.values())
    if isinstance(value, type) and issubclass(value, ToolModel):
        return [value.tool()] if home in ("", value.__module__) else []
    return None


def _made_of(value: Any, target: str) -> Sequence[Any]:
    """Return the tools in an object that was named as a target and is not a tool itself."""
    from functool import FunctionTool

    if callable(value):
        return [FunctionTool(value)]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    kind = type(value).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    raise click.ClickException(
        f"{target} is {article} {kind}: "
        "a target is a tool, a list of tools, a Toolset, a ToolModel or a function"
    )
