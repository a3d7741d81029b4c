"""Tools built from stored configuration: a plan from a file or a form becomes a `Toolset`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from importlib.metadata import entry_points
from inspect import signature
from typing import Any

from pydantic import BaseModel, ValidationError

from functool.binding.problems import quotes_value
from functool.errors import DefinitionError, UnknownToolError
from functool.tool import Tool
from functool.toolset import Toolset

ENTRY_POINTS = "functool.tools"


class BaseToolConfig(
    BaseModel, extra="forbid", use_attribute_docstrings=True, validate_default=True
):
    """The base of a tool's stored configuration: a pydantic model that refuses unknown keys.

    The docstring under a field becomes its description in the schema, as `Field(description=...)`
    does.
    """


Builder = Callable[..., Tool]
"""A `Tool` class or a function that makes a tool. Its first parameter is the configuration."""


class ToolFactory:
    """Builds tools by name. `register` the builders, then `build` a tool or a whole `toolset`."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Builder, type[BaseToolConfig]]] = {}
        self._loaded: set[str] = set()

    def register(
        self, name: str, builder: Builder, config: type[BaseToolConfig] | None = None
    ) -> None:
        """Register `builder` under `name`.

        By default the configuration class is the annotation of the builder's first parameter.

        Raises:
            DefinitionError: The name is empty or used by another builder, or there is no
                configuration class.
        """
        found = config or _annotated_config(builder)
        if not (isinstance(found, type) and issubclass(found, BaseToolConfig)):
            wrong = "the configuration must be a class made from BaseToolConfig"
            raise DefinitionError(f"{name!r}: {wrong}: {found!r}")
        if not name or not callable(builder):
            way = "register(name, tool class, configuration class)"
            raise DefinitionError(f"{name!r}: {way} needs a name and a class")
        if self._known.setdefault(name, (builder, found)) != (builder, found):
            raise DefinitionError(f"{name!r} is already registered, for {self._known[name][0]!r}")

    def build(self, name: str, config: Mapping[str, Any] | BaseToolConfig | None = None) -> Tool:
        """Return the tool called `name`, built from `config`.

        Raises:
            DefinitionError: The name is unknown (the message lists the known names), the
                configuration is invalid (the message names the field, but not its value), or the
                builder failed.
        """
        builder, config_class = self._find(name)
        try:
            checked = config_class.model_validate({} if config is None else config)
        except ValidationError as error:
            # `from None`: pydantic's message shows the values, which may be secrets.
            known = config_class.model_fields.keys()
            problems = "; ".join(_problem(detail, known) for detail in error.errors())
            raise DefinitionError(f"{name!r}: bad configuration. {problems}") from None
        try:
            tool = builder(checked)
        except DefinitionError:
            raise
        except Exception as error:
            wrong = f"{name!r} cannot be built: {type(error).__name__}: {error}"
            raise DefinitionError(wrong) from error
        if not isinstance(tool, Tool):
            given = type(tool).__name__
            raise DefinitionError(f"{name!r}: the builder returned {given}, not a Tool")
        return tool

    def toolset(
        self, plan: Iterable[Mapping[str, Any]], *, max_concurrency: int | None = None
    ) -> Toolset:
        """Return the tools of a whole plan: `[{"tool": name, "config": {...}}, ...]`.

        Raises:
            DefinitionError: Some entries are invalid. The message names each by its position,
                starting from 0.
        """
        tools: dict[str, Tool] = {}
        problems: list[str] = []
        for position, entry in enumerate(plan):
            try:
                tool = self.build(*_entry(entry))
                if tools.setdefault(tool.name, tool) is not tool:
                    raise DefinitionError(f"a second tool named {tool.name!r}")
            except DefinitionError as error:
                problems.append(f"entry {position}: {error}")
        if problems:
            raise DefinitionError("; ".join(problems))
        return Toolset(tools.values(), max_concurrency=max_concurrency)

    def config_schema(self, name: str) -> dict[str, Any]:
        """Return the JSON Schema of a tool's configuration, for example to build a form.

        It has titles, descriptions, defaults and enums.

        Raises:
            DefinitionError: The name is unknown.
        """
        return self._find(name)[1].model_json_schema()

    def names(self) -> list[str]:
        """Return the registered names, in the order of registration."""
        return list(self._known)

    def load(self) -> list[str]:
        """Register the tools of installed packages, and return the new names.

        Packages offer tools as entry points of the group `functool.tools`. The name of an entry is
        the name of the tool. Its object is a builder whose first parameter is annotated with a
        configuration class, a pair (builder, configuration class), or a finished `Tool`.

        Raises:
            DefinitionError: Some entries are invalid. The message names each; the others are
                registered.
        """
        names: list[str] = []
        problems: list[str] = []
        for entry in entry_points(group=ENTRY_POINTS):
            if entry.name in self._loaded:
                continue
            try:
                self.register(entry.name, *_offered(entry.load()))
                self._loaded.add(entry.name)
                names.append(entry.name)
            except Exception as error:
                problems.append(f"entry point {entry.name!r} ({entry.value}): {error}")
        if problems:
            raise DefinitionError("; ".join(problems))
        return names

    def _find(self, name: str) -> tuple[Builder, type[BaseToolConfig]]:
        if name not in self._known:
            raise DefinitionError(str(UnknownToolError(name, self._known)))
        return self._known[name]


def _problem(detail: Any, known: Set[str]) -> str:
    """Return where a configuration is wrong, and why, without its value."""
    where = ".".join(map(str, detail["loc"])) or "config"
    why = f"not valid ({detail['type']})" if quotes_value(detail, known) else detail["msg"]
    return f"{where}: {why}"


def _annotated_config(builder: Builder) -> type[BaseToolConfig] | None:
    try:
        parameters = signature(builder, eval_str=True).parameters.values()
    except (TypeError, ValueError, NameError):
        return None
    return next((parameter.annotation for parameter in parameters), None)


def _entry(entry: Any) -> tuple[str, Any]:
    named = isinstance(entry, Mapping) and isinstance(entry.get("tool"), str)
    if not named or set(entry) - {"tool", "config"}:
        raise DefinitionError('expected an object {"tool": name, "config": {...}}')
    return entry["tool"], entry.get("config")


def _offered(found: Any) -> tuple[Any, ...]:
    if isinstance(found, Tool):
        return (lambda config: found), BaseToolConfig
    return found if isinstance(found, tuple) else (found,)
