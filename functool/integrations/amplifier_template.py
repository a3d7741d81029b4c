"""Write the package of a new Amplifier module, for `functool new amplifier NAME`."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from functool import DefinitionError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_PYPROJECT = Template("""\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "amplifier-module-tool-$name"
version = "0.1.0"
description = "The $name tool, as an Amplifier module."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["functool[amplifier]"]

[project.optional-dependencies]
test = ["pytest>=8", "pytest-asyncio>=1"]

[project.entry-points."amplifier.modules"]
tool-$name = "$package:mount"

[tool.hatch.build.targets.wheel]
packages = ["$package"]

[tool.pytest.ini_options]
testpaths = ["tests"]
asyncio_default_fixture_loop_scope = "function"
""")

_README = Template("""\
# amplifier-module-tool-$name

An [Amplifier](https://github.com/microsoft/amplifier) module with one tool, `$function`, written
with functool.

Mount it in a session's plan:

```yaml
tools:
  - module: tool-$name
    config:
      greeting: Hello
```

Check and test it:

```
pip install -e '.[test]'
amplifier-core validate tool $package
pytest
```
""")

_MODULE = Template('''\
"""The $name tool, as an Amplifier module."""

from pydantic import BaseModel, ConfigDict

from functool import Context, FunctionTool
from functool.integrations import amplifier

__amplifier_module_type__ = "tool"


class Config(BaseModel):
    """The configuration that a mount plan may give under `config`."""

    model_config = ConfigDict(extra="forbid")

    greeting: str = "Hello"


@FunctionTool
async def $function(name: str, context: Context[Config]) -> str:
    """Greet somebody.

    Args:
        name: Who to greet.
    """
    return f"{context.deps.greeting}, {name}!"


mount = amplifier.mount($function, config_model=Config)
''')

_TEST = Template('''\
"""The module: Amplifier's own tests of a tool module, and one of the tool."""

import pytest
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests

from $package import mount


class TestBehavior(ToolBehaviorTests):
    """The behaviour that Amplifier expects of every tool."""


class TestStructure(ToolStructuralTests):
    """The structure that Amplifier expects of every tool module."""


@pytest.mark.asyncio
async def test_the_configuration_reaches_the_tool() -> None:
    """The greeting of the mount plan is the one the tool uses."""
    coordinator = MockCoordinator()
    await mount(coordinator, {"greeting": "Moin"})
    result = await coordinator.get("tools", "$function").execute({"name": "Bo"})
    assert result.output == "Moin, Bo!"
''')


def scaffold(name: str, folder: str | Path) -> Path:
    """Write the package of an Amplifier tool module into `folder`. Return its path.

    Args:
        name: The module's name without `tool-`. It begins with a letter and has small letters,
            digits and single hyphens (or underscores).
        folder: The folder in which `amplifier-module-tool-<name>` is made.

    Raises:
        DefinitionError: The name does not fit.
        FileExistsError: The package's folder exists already.
    """
    name = name.replace("_", "-")
    if not _NAME.fullmatch(name) or len(name) > 50:
        raise DefinitionError(
            f"{name!r}: a module's name has small letters, digits and single hyphens, a letter"
            " first, at most 50 in all"
        )
    function = name.replace("-", "_")
    words = {
        "name": name,
        "package": f"amplifier_module_tool_{function}",
        "function": f"{function}_tool",
    }
    root = Path(folder) / f"amplifier-module-tool-{name}"
    files = {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README,
        f"{words['package']}/__init__.py": _MODULE,
        "tests/test_module.py": _TEST,
    }
    root.mkdir(parents=True)
    for path, template in files.items():
        target = root / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(template.substitute(words), encoding="utf-8")
    return root
