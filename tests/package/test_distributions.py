"""The sdist and the wheel: what is in them, and that a stranger's bare environment can use them."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AT_ROOT = {
    "functool", "tests", "examples", "benchmarks", "docs", ".ci", ".stubs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE",
    "Makefile", "zensical.toml", "pyproject.toml", "PKG-INFO", ".gitignore",
}  # fmt: skip
SMOKE = """
import functool, importlib.metadata, sys
from functool import FunctionTool, ToolCall, Toolset

@FunctionTool
def add(a: int, b: int = 2) -> int:
    "Add two numbers."
    return a + b

tools = Toolset([add])
assert tools.call_sync(ToolCall(name="add", arguments='{"a": 1}')).text == "3"
assert tools.call_sync(ToolCall(name="add", arguments='{"a": "x"}')).error.type == "ArgumentError"
assert functool.__version__ == importlib.metadata.version("functool")
assert "site-packages" in functool.__file__, functool.__file__
print(functool.__version__)
"""


def run(*command, cwd=None):
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """The sdist, and the wheel that is built from it."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, ROOT)
    (sdist,) = directory.glob("*.tar.gz")
    (wheel,) = directory.glob("*.whl")
    return sdist, wheel


def interpreters():
    """Return minor version -> an interpreter, for each Python from 3.11 that this machine has."""
    listed = run(ROOT / ".ci/find-python", "--list")
    found = {}
    for line in listed.splitlines():
        version, path = line.split(" ", 1)
        major, minor, *_ = (int(part) for part in version.split("."))
        if (major, minor) >= (3, 11):
            found[f"{major}.{minor}"] = path
    return found


FOUND = interpreters()


@pytest.fixture(scope="session", params=sorted({"3.11", "3.12", "3.13", *FOUND}))
def bare(request, distributions, tmp_path_factory):
    """An environment with nothing but the wheel and what it depends on, for each Python."""
    if request.param not in FOUND:
        pytest.skip(f"there is no Python {request.param} on this machine")
    directory = tmp_path_factory.mktemp("bare") / request.param
    run(FOUND[request.param], "-m", "venv", directory)
    python = directory / "bin/python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, distributions[1])
    return python


def test_wheel_holds_the_package_and_no_more(distributions):
    """The wheel has every file of functool/, its licence and metadata, and nothing else."""
    names = set(zipfile.ZipFile(distributions[1]).namelist())
    package = {name for name in names if not re.match(r"functool-[^/]+\.dist-info/", name)}
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "functool").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert package == there
    assert "functool/py.typed" in package
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_sdist_holds_what_is_needed_to_test_it(distributions):
    """The sdist has the sources, the tests and the pages, and no environment, cache or machine's own file."""
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    unwanted = re.compile(r"(^|/)(\.venv|__pycache__|node_modules|build|dist|\.git)(/|$)|\.pyc$")

    assert {name.split("/")[0] for name in names if name} <= AT_ROOT
    assert {"functool/__init__.py", "tests/test_tool.py", "docs/index.md", "Makefile"} <= names
    assert [name for name in names if unwanted.search(name)] == []


def test_no_file_names_a_machine(distributions):
    """No text that is published holds the path of the checkout that it was built in."""
    with tarfile.open(distributions[0]) as archive:
        found = [
            member.name
            for member in archive.getmembers()
            if member.isfile() and str(ROOT).encode() in archive.extractfile(member).read()
        ]

    assert found == []


def test_metadata_renders(distributions):
    """The description of both renders, and twine finds nothing to complain of."""
    told = run(sys.executable, "-m", "twine", "check", "--strict", *distributions)

    assert told.count("PASSED") == 2


def test_a_bare_environment_can_use_it(bare, tmp_path):
    """With the four dependencies alone, in any Python, a tool is made and called, and warns of nothing."""
    version = run(bare, "-W", "error", "-c", SMOKE, cwd=tmp_path).strip()

    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", version)


def test_a_bare_environment_names_the_missing_extra(bare, tmp_path):
    """The command and a leaf say what to install when their extra is not there."""
    done = subprocess.run(
        [str(bare.parent / "functool"), "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "pip install 'functool[cli]'" in done.stderr + done.stdout

    code = "import functool.integrations.mcp"
    done = subprocess.run([str(bare), "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "pip install 'functool[mcp]'" in done.stderr


# Of these packages, public classes and types of functool are made.
BEHIND_TYPES = "cli,mcp,agent-framework,amplifier,langchain,openai-agents,pydantic-ai"
PINNED_BY = ("core", "agents", "mcp", "systems")


def test_types_are_complete(distributions, tmp_path):
    """Every public name that users of the wheel see has a type of its own, by pyright's `--verifytypes`."""
    environment = tmp_path / "typed"
    run(sys.executable, "-m", "venv", environment)
    pip = (environment / "bin/python", "-m", "pip", "install", "--quiet")
    pins = [f"--constraint={ROOT / 'tests/requirements' / name}.txt" for name in PINNED_BY]
    run(*pip, "--disable-pip-version-check", *pins, f"{distributions[1]}[{BEHIND_TYPES}]")
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [
            sys.executable,
            *"-m pyright --outputjson --ignoreexternal --verifytypes functool".split(),
        ],
        cwd=tmp_path,
        env={**os.environ, "VIRTUAL_ENV": str(environment), "PATH": path},
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)["typeCompleteness"]
    incomplete = [
        symbol["name"]
        for symbol in report["symbols"]
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
    ]

    assert sorted(incomplete) == []
    assert report["completenessScore"] == 1
    assert report["exportedSymbolCounts"]["withKnownType"] > 2000


def test_what_is_vendored_has_its_licence(distributions):
    """What somebody else wrote keeps that one's licence beside it, and the wheel's metadata lists those that it holds."""
    data = [path for path in (ROOT / "tests/data").iterdir() if path.is_dir()]
    scripts = list((ROOT / "functool/play/vendor").glob("*.js"))
    names = set(zipfile.ZipFile(distributions[1]).namelist())

    assert data and scripts
    assert [path.name for path in data if not (path / "LICENSE").is_file()] == []
    for script in scripts:
        licence = script.with_suffix(".LICENSE").relative_to(ROOT).as_posix()
        assert [name for name in names if name.endswith(f".dist-info/licenses/{licence}")]
