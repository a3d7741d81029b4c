"""Functions that nobody wrote as tools: each becomes one, or is refused by the name of what stands in the way."""

import importlib
import importlib.util
import inspect
import pkgutil
import warnings

import pytest

from functool import DefinitionError, FunctionTool, Toolset

PACKAGES = [
    "json", "textwrap", "statistics", "shutil", "calendar", "difflib", "html", "urllib", "email", "asyncio", "tempfile", "random", "fractions", "ipaddress", "zoneinfo",
    "attr", "jsonschema", "referencing", "anyio", "httpx2", "rich", "starlette", "click",
]  # fmt: skip


def functions_of(package):
    """The public, typed functions of a package and its modules."""
    module = importlib.import_module(package)
    modules = [module]
    for info in pkgutil.walk_packages(getattr(module, "__path__", []), f"{package}."):
        if not any(
            part.startswith("_") or part in ("tests", "testing", "contrib")
            for part in info.name.split(".")
        ):
            try:
                modules.append(importlib.import_module(info.name))
            except Exception:  # A module that needs something else to be installed is none of ours.
                continue
    for module in modules:
        for name, func in vars(module).items():
            if (
                inspect.isfunction(func)
                and func.__module__.split(".")[0] == package
                and not name.startswith("_")
            ):
                yield func


@pytest.mark.parametrize("package", PACKAGES)
def test_every_function_is_a_tool_or_refused_by_name(package):
    """None crashes: what cannot be a tool raises a `DefinitionError` that names the function and, of a type, the parameter."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    made = refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Those of other people's modules, on import.
        functions = list(functions_of(package))
    for func in functions:
        try:
            Toolset([FunctionTool(func)])
            made += 1
        except DefinitionError as error:
            text = str(error)
            assert func.__qualname__ in text
            assert "parameter '" in text or "same name" in text, text
            refused += 1

    assert made + refused == len(functions)
    if package in ("json", "textwrap", "statistics", "shutil", "calendar"):
        assert made > 0
