"""Check and rewrite a program before it runs.

An `Untrusted` object raises when it is compared, printed or formatted. The interpreter does not
call `__bool__`. So each place that tests a value is rewritten to call a function that raises.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from functool import ToolError

MAX_PROGRAM = 100_000
"""How many characters a program may have."""

CHECKED = {name: f"_functool_{name}" for name in ("bool", "any", "all")}
"""Replacements of the built-in functions that test values. A program cannot redefine them."""

UNTESTED = frozenset({"takewhile", "dropwhile", "filterfalse", "compress"})
"""Functions of `itertools` that test values without a check. Programs cannot use them."""

_TEST = "_functool_test"
_END = "_functool_end"
_CAUGHT = "_functool_caught"
_EACH = "_functool_each"
_UNCHECKED = frozenset({"eval", "exec", "globals", "locals"})
"""Functions that run a text which nothing would check, or that lead to the prelude's functions."""


class ProgramRefused(ToolError):
    """A program was not run. The message says which line is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program as the model wrote it, and as it runs.

    `lines` maps lines of `runs` to lines of `written`.
    """

    written: str
    runs: str
    lines: dict[int, int]

    def line(self, number: int) -> int:
        """Return the number of the line that the model wrote for a line that ran."""
        known = [line for line in self.lines if line <= number]
        return self.lines[max(known)] if known else number

    def text(self, number: int) -> str:
        """Return a line that the model wrote, without its indentation."""
        lines = self.written.splitlines()
        return lines[number - 1].strip()[:200] if 0 < number <= len(lines) else ""


def prepared(code: str, tools: Collection[str]) -> Program:
    """Check a program that calls these functions, and rewrite it.

    Raises:
        ProgramRefused: It is not Python, is too long, or uses the name of a tool in a wrong way.
    """
    if len(code) > MAX_PROGRAM:
        raise ProgramRefused(
            f"The program was not run: it has {len(code)} characters;"
            f" at most {MAX_PROGRAM} are run."
            " Fetch data with tools instead of writing it out."
        )
    try:
        tree = ast.parse(code)
        _Names(tools).visit(tree)
        _refuse_unawaited(tree, tools)
        changed = ast.fix_missing_locations(_Tests().visit(tree))
        runs = ast.unparse(changed)
        lines: dict[int, int] = {}
        for new, old in zip(ast.walk(ast.parse(runs)), ast.walk(changed), strict=True):
            if isinstance(new, (ast.stmt, ast.expr)):
                line = getattr(old, "lineno", 1)
                lines[new.lineno] = min(line, lines.get(new.lineno, line))
    except SyntaxError as error:
        raise ProgramRefused(
            f"The program was not run: it is not Python (line {error.lineno}: {error.msg})."
        ) from None
    except (RecursionError, MemoryError, ValueError):
        raise ProgramRefused(
            "The program was not run: it is nested too deeply, or holds characters that no program"
            " may hold. Write it with fewer levels."
        ) from None
    return Program(code, runs, lines)


class _Names(ast.NodeVisitor):
    """Refuse a program that redefines the name of a tool, or uses a reserved name."""

    def __init__(self, tools: Collection[str]) -> None:
        self._taken = {*tools, *CHECKED, "join", "Untrusted"}

    def _refuse(self, name: str | None, node: ast.AST) -> None:
        """Raise if a program may not use this name here."""
        if name in self._taken:
            fault = (
                "gives {} another meaning, which is the name of a tool or a built-in function."
                " Use another name."
            )
        elif name in UNTESTED:
            fault = "uses {}, which is not there. Use a loop or a comprehension."
        elif name is not None and name.startswith("_functool"):
            fault = "uses {}. Names that begin with _functool are reserved."
        elif name in _UNCHECKED:
            fault = "uses {}. Write the code itself."
        else:
            return
        line = getattr(node, "lineno", 1)
        raise ProgramRefused(f"The program was not run: line {line} {fault.format(repr(name))}")

    def _refuse_own_name(self, node: Any) -> None:
        self._refuse(node.name, node)
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _refuse_own_name
    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = _refuse_own_name

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load) or node.id not in self._taken:
            self._refuse(node.id, node)

    def visit_arg(self, node: ast.arg) -> None:
        self._refuse(node.arg, node)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self._refuse((node.asname or node.name).split(".")[0], node)
        if node.name in UNTESTED:
            self._refuse(node.name, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in UNTESTED:
            self._refuse(node.attr, node)
        self.generic_visit(node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._refuse(node.rest, node)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self._refuse(name, node)

    def visit_TypeVar(self, node: ast.AST) -> None:
        self._refuse(getattr(node, "name", None), node)

    visit_ParamSpec = visit_TypeVarTuple = visit_TypeVar


class _Tests(ast.NodeTransformer):
    """Wrap each value that the program tests in a call that raises if it is untrusted."""

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        if not node.body:
            return node
        if not isinstance(last := node.body[-1], ast.Expr):
            last = ast.copy_location(ast.Expr(ast.Constant(None)), last)
            node.body.append(last)
        # The value that the program returns. A call that was not awaited is an error.
        names = ast.Tuple([ast.Constant(name) for name in _attributes(node)], ast.Load())
        call = ast.Call(ast.Name(_END, ast.Load()), [last.value, names], [])
        last.value = ast.copy_location(call, last)
        return node

    def _checked(self, node: ast.expr) -> ast.expr:
        call = ast.Call(ast.Name(_TEST, ast.Load()), [node], [])
        return ast.copy_location(call, node)

    def _with_checked_test(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = self._checked(node.test)
        return node

    visit_If = visit_While = visit_IfExp = visit_Assert = _with_checked_test

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs = [self._checked(test) for test in node.ifs]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        self.generic_visit(node)
        node.guard = None if node.guard is None else self._checked(node.guard)
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        self.generic_visit(node)
        node.subject = self._checked(node.subject)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = self._checked(node.operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        node.values = [*map(self._checked, node.values[:-1]), node.values[-1]]
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        call = ast.Call(ast.Name(_CAUGHT, ast.Load()), [], [])
        node.body.insert(0, ast.copy_location(ast.Expr(call), node.body[0]))
        return node

    # The functions that test values are replaced everywhere, also where they are used as values.
    # Only a name that means the type `bool` is not replaced.

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in CHECKED and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Name(CHECKED[node.id], ast.Load()), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        kinds = node.args[1:] if _asks_for_type(node) else []
        node.args = node.args[:1] if kinds else node.args
        self.generic_visit(node)
        node.args += kinds
        named = [keyword.arg for keyword in node.keywords]
        if _called(node) == "gather" and named == ["return_exceptions"]:
            # The `gather` of the interpreter has no such parameter.
            [keyword], calls = node.keywords, ast.List(node.args, ast.Load())
            each = ast.Call(ast.Name(_EACH, ast.Load()), [calls, keyword.value], [])
            node.args, node.keywords = [ast.Starred(each, ast.Load())], []
        if _called(node) == "next" and node.args and isinstance(node.args[0], ast.GeneratorExp):
            # In the interpreter a generator expression gives a list, which is no iterator.
            node.args[0] = ast.Call(ast.Name("iter", ast.Load()), [node.args[0]], [])
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [*map(self._compared, [node.left, *node.comparators])]
        for place, kind in enumerate(node.ops):
            if isinstance(kind, (ast.In, ast.NotIn)):  # `in range(9)` would be False.
                sides[place] = self._checked(sides[place])
        node.left, node.comparators = sides[0], sides[1:]
        return node

    def _compared(self, side: ast.expr) -> ast.expr:
        """Return one side of a comparison, where `bool` is a type: `kind in (bool, int)`."""
        if isinstance(side, ast.Name):
            return side
        if isinstance(side, (ast.Tuple, ast.List, ast.Set)):
            side.elts = [*map(self._compared, side.elts)]
            return side
        found: ast.expr = self.visit(side)
        return found

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        node.kwd_patterns = [self.visit(pattern) for pattern in node.kwd_patterns]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.target = self.visit(node.target)
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def _without_returns(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _without_returns


def _attributes(tree: ast.AST) -> list[str]:
    """Return the names of all attributes that a program sets, or declares in a class."""
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found[node.attr] = None
        elif isinstance(node, ast.ClassDef):
            declared = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
            found |= {name.id: None for name in declared if isinstance(name, ast.Name)}
    return list(found)


def _asks_for_type(node: ast.Call) -> bool:
    """Whether a call is `isinstance(value, kinds)`."""
    known = isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass")
    return known and len(node.args) == 2


def _called(node: ast.Call) -> str:
    """Return the name of what a call calls, of `asyncio.gather` the last part."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def _refuse_unawaited(tree: ast.AST, tools: Collection[str]) -> None:
    """Refuse a call of a tool that the program never awaits, because it would never run."""
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign)):
            continue
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        kept = any(not isinstance(t, ast.Name) or t.id in used for t in targets if t is not None)
        if call.func.id in tools and not kept:
            name = call.func.id
            raise ProgramRefused(
                f"The program was not run: line {node.lineno} calls {name} without await. Write"
                f" `await {name}(...)`, or pass several calls to asyncio.gather and await that."
            )
