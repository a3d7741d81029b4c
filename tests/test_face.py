"""The package `functool` itself: what happens to a name that it does not have."""

import functools
import subprocess
import sys

import pytest

import functool


@pytest.mark.parametrize("name", sorted(functools.__all__))
def test_a_name_of_functools_is_told_from_ours(name):
    """Whoever forgets the s of `functools` reads so."""
    with pytest.raises(ImportError, match=f"no '{name}' in 'functool': .* is 'functools'"):
        exec(f"from functool import {name}", {})


def test_an_unknown_name_is_no_attribute():
    """Any other name is missing as usual: for `hasattr`, and for an import."""
    with pytest.raises(AttributeError, match="'functool' has no attribute 'nothing_of_the_kind'"):
        functool.nothing_of_the_kind  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing_of_the_kind'"):
        exec("from functool import nothing_of_the_kind", {})


def test_dir_lists_what_is_imported_late():
    """A console completes names that nobody has used yet."""
    assert {"FunctionTool", "Toolset", "__version__"} <= set(dir(functool))


def test_importing_a_decorator_builds_no_validator():
    """pydantic looks for its plugins when it builds the first one, so the start of a program is fast."""
    code = (
        "import sys; from functool import FunctionTool, Toolset;"
        "print({'pydantic.root_model', 'pydantic.plugin._loader'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
