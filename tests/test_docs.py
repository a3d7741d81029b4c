"""The Python blocks of README.md and docs/ run, and print what the pages say they print.

The blocks of a page run in order and share one module. An `output` block below a Python block is what it prints. A block whose package is not
installed is skipped, and so are the later ones that use its names.
"""

import ast
import asyncio
import codeop
import importlib
import importlib.util
import inspect
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from functool import Context, FunctionTool, ToolSettings
from functool.dialects import StreamBroken, openai_chat
from tests.dialects.loopback import serving

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    page: Path
    line: int
    code: str
    output: str | None = None

    @property
    def id(self):
        return f"{self.page.name}:{self.line}"


@dataclass
class Page:
    module: ModuleType
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    skipped: str = ""


def blocks(page):
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        language = fence["info"].split()[0] if fence["info"].split() else ""
        if language == "python":
            found.append(Block(page, text.count("\n", 0, fence.start()) + 2, fence["body"]))
        elif language == "output":
            assert found and found[-1].output is None, (
                f"{page.name}: an output block belongs below a Python block"
            )
            found[-1].output = fence["body"]
    return found


def missing_package(tree):
    """Return why an import of the block cannot work here, or an empty text; an import that is simply wrong raises."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [
                node.module,
                *(
                    f"{node.module}.{alias.name}"
                    for alias in node.names
                    if node.module.startswith("functool.")
                ),
            ]
        for name in names:
            top = name.partition(".")[0]
            if top not in ("functool", "examples") and importlib.util.find_spec(top) is None:
                return f"{top} is not installed"
            # `google` is a folder that several packages share.
            if name == "google" and not any(map(is_installed, named_by(node))):
                return f"{', '.join(named_by(node))} is not installed"
            if top == "functool" and is_module(name):
                try:
                    importlib.import_module(name)
                except ImportError as error:
                    if not isinstance(error.__cause__ or error.__context__, ModuleNotFoundError):
                        raise
                    return str(error)
    return ""


def named_by(node):
    return [f"{node.module}.{alias.name}" for alias in node.names]


def is_installed(name):
    return importlib.util.find_spec(name) is not None


def is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


@pytest.fixture(scope="module")
def pages():
    opened = {}
    yield opened
    for page in opened.values():
        page.runner.close()
        del sys.modules[page.module.__name__]


@pytest.fixture(scope="module")
def provider():
    """A server that speaks four providers' protocols, for the page that calls them with their SDKs."""
    calls = [
        ("c1", "population", {"city": "Oslo"}),
        ("c2", "population", {"city": "Turin"}),
        ("c3", "book", {"city": "Turin"}),
    ]
    with serving(calls, say=read_aloud) as server:
        yield {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "ANTHROPIC_BASE_URL": server.url,
            "GOOGLE_GEMINI_BASE_URL": server.url,
            **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "none"),
        }


def read_aloud(results):
    texts = [r.get("output", r.get("error")) if isinstance(r, dict) else r for r in results]
    return f"I read: {', '.join(texts)}\n"


# Google's SDK subclasses what aiohttp discourages to.
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize(
    "block", [block for page in PAGES for block in blocks(page)], ids=lambda block: block.id
)
def test_block(block, pages, capsys, tmp_path, monkeypatch, request):
    """A block of the documentation runs as it stands."""
    if block.page not in pages:
        module = ModuleType(f"docs_{block.page.stem.replace('-', '_')}")
        del module.__spec__  # Since Python 3.15 a traceback warns of a spec without a loader.
        pages[block.page] = Page(sys.modules.setdefault(module.__name__, module))
    page = pages[block.page]
    code = "\n" * (block.line - 1) + block.code
    missing = missing_package(ast.parse(code))
    if missing:
        page.skipped = page.skipped or missing
        pytest.skip(missing)
    compiled = compile(
        code, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    monkeypatch.chdir(tmp_path)
    if block.page.name == "loop.md":
        for name, value in request.getfixturevalue("provider").items():
            monkeypatch.setenv(name, value)
    try:
        if compiled.co_flags & inspect.CO_COROUTINE:
            page.runner.run(eval(compiled, page.module.__dict__))
        else:
            exec(compiled, page.module.__dict__)
    except ImportError as error:  # A factory that needs an extra says so when it is called.
        if not isinstance(error.__cause__ or error.__context__, ModuleNotFoundError):
            raise
        page.skipped = page.skipped or str(error)
        pytest.skip(str(error))
    except NameError as error:
        if not page.skipped:
            raise
        pytest.skip(f"{error.name} comes from a block above: {page.skipped}")
    if block.output is not None:
        assert capsys.readouterr().out.rstrip("\n") == block.output.rstrip("\n")


def test_a_loop_is_short():
    """A loop for a provider has at most 30 lines, and there are two for each of four providers."""
    loops = [b.code for b in blocks(ROOT / "docs" / "loop.md") if "for _ in range(turns)" in b.code]

    assert len(loops) == 8
    assert max(len(code.splitlines()) for code in loops) <= 30


@pytest.mark.parametrize("lost", [OSError("connection lost"), None])
def test_a_streamed_loop_says_what_ran(lost):
    """The function that the streamed loops share raises `StreamBroken` itself, also where the connection broke."""
    page = {}
    shared = next(b for b in blocks(ROOT / "docs" / "loop.md") if "async def read(" in b.code)
    exec(shared.code, page)

    @FunctionTool(settings=ToolSettings(read_only=True))
    async def ping() -> str:
        """Answer."""
        return "pong"

    async def chunks():
        entry = {"index": 0, "id": "c1", "function": {"name": "ping", "arguments": "{}"}}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]}
        await asyncio.sleep(0)
        if lost is not None:
            raise lost

    with pytest.raises(StreamBroken) as broken:
        asyncio.run(page["read"](openai_chat.StreamReader(ping), chunks(), Context()))

    assert broken.value.__cause__ is lost
    assert len(broken.value.results) == 1


def test_every_page_is_seen():
    """The README and the guide have blocks to run."""
    assert all(blocks(ROOT / name) for name in ("README.md", "docs/guide.md"))


@pytest.mark.parametrize(
    "block",
    [
        block
        for page in PAGES
        if "python -m asyncio" in page.read_text(encoding="utf-8")
        for block in blocks(page)
    ],
    ids=lambda b: b.id,
)
def test_a_block_can_be_pasted(block):
    """A page that says to paste its blocks into the console has none that the console, which reads line by line, ends too early."""
    compile_command = codeop.CommandCompiler()
    compile_command.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    pending: list[str] = []
    for line in [*block.code.splitlines(), ""]:
        pending.append(line)
        if compile_command("\n".join(pending)) is not None:
            pending = []

    assert pending == []
