"""Get and compile pydantic's core schema of an annotation, which drives its validation.

A core schema is rewritten twice. `rewritten` changes what a type accepts, and the JSON Schema is
made from that form. `compiled` adds what limits the work and what no JSON Schema expresses, for the
validator only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, get_args

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import SchemaError, SchemaValidator

from functool.errors import DefinitionError
from functool.schema.hashes import FEW_ITEMS, compared, is_hashed
from functool.schema.hints import Unresolved, unreadable
from functool.schema.parts import MANY, inside
from functool.schema.readings import bounded, counted, counted_pattern, is_slow, timed
from functool.schema.rewrite import rewritten, without_bools
from functool.schema.tags import with_tags

T = TypeVar("T")


def cached(make: Callable[[Any], T]) -> Callable[[Any], T]:
    """Cache a function of an annotation, for the annotations that can be the key of a cache."""

    @functools.lru_cache(maxsize=512, typed=True)
    def known(annotation: Any, text: str) -> T:
        return make(annotation)

    def ask(annotation: Any) -> T:
        try:
            hash(annotation)
        except TypeError:
            return make(annotation)
        # Different annotations may be equal: Annotated[int, Ge(1)] == Annotated[int, Ge(True)], and
        # A | B == B | A, although the first of the members that fit wins.
        return known(annotation, str(annotation) if get_args(annotation) else "")

    return ask


def core_of(annotation: Any, name: str, known: Mapping[str, Any] = {}) -> Any:
    """Return the core schema of the annotation of the parameter `name`.

    The postponed annotations of a class in it, such as a dataclass, may use the `known` names.

    Raises:
        Unresolved: The annotation names a class that does not exist yet.
        DefinitionError: The annotation has no schema.
    """
    try:
        with suppress(PydanticUserError):
            return _core(annotation)
        # A class in a function: pydantic does not know the local names that it uses.
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.rebuild(raise_errors=False, _types_namespace=known)
        return rewritten(dict(adapter.core_schema))
    except PydanticUserError as error:
        reason = str(error).split("\n")[0].split(". ")[0].rstrip(".")
        if error.code == "class-not-fully-defined":
            raise Unresolved(f"parameter {name!r}: {reason}") from error
        remedy = "Use a type that JSON can express, or hide it with Annotated[T, Inject(...)]"
        wrong = f"the type {annotation!r} has no schema: {reason}. {remedy}"
        raise DefinitionError(f"parameter {name!r}: {wrong}") from error
    except Exception as error:
        raise unreadable(annotation, name, error) from error


def compiled(core: Any, *, brief: bool, strict_only: bool = False) -> Callable[..., Any]:
    """Compile a rewritten core schema to a function that validates JSON with limited work.

    Beside what limits the work, true and false are no numbers; see `without_bools`. With `brief`,
    lists and dicts stop at the first wrong item, and recursive unions do not describe members. With
    `strict_only`, always call the function with `strict=True`: in lax mode it takes true for 1.
    """
    definitions = {part["ref"]: part for part in core.get("definitions", ())}
    found: set[str] = set()

    def changed(part: Any, is_long: bool = False) -> Any:
        made = inside(part, partial(changed, is_long=is_long))
        if brief and part["type"] in MANY:
            made = {**made, "fail_fast": True}
        is_union = part["type"] == "union"
        made = with_tags(part, made, definitions) if is_union else made
        bounds = counted(part, made, definitions, brief) if is_union else counted_pattern(made)
        if bounds is not made:
            found.add("limited")
        limit = compared if is_hashed(made) else timed if is_slow(part, definitions) else None
        if limit is not None:
            found.add("slow")
            bounds = limit(bounds) if is_long else bounds
        refuses_bools = strict_only and part["type"] in ("int", "float")
        return bounds if refuses_bools else without_bools(part, bounds)

    short = _compiled(changed(core))
    short = bounded(short, brief) if "limited" in found else short
    if "slow" not in found:
        return short

    long = functools.cache(lambda: bounded(_compiled(changed(core, is_long=True)), brief))

    def validate(text: str, **options: Any) -> Any:
        return (short if len(text) < FEW_ITEMS else long())(text, **options)

    return validate


def _compiled(core: Any) -> Callable[..., Any]:
    # With `_use_prebuilt`, pydantic would use the existing validator of each model, which lacks
    # what was rewritten inside the model.
    try:
        return SchemaValidator(core, _use_prebuilt=False).validate_json
    except SchemaError as error:  # A type that cannot be required, such as `OnErrorOmit`.
        wrong = str(error).splitlines()[-1].partition("SchemaError: ")[2] or str(error)
        raise DefinitionError(f"the parameters cannot be checked together: {wrong}") from error


@cached
def _core(annotation: Any) -> Any:
    # For a class that is not complete yet pydantic returns a placeholder. `dict` makes it raise.
    return rewritten(dict(TypeAdapter(annotation).core_schema))


def hoist(core: Any, definitions: dict[str, Any]) -> Any:
    """Move the definitions of a core schema into `definitions`, and return the rest."""
    if core["type"] != "definitions":
        return core
    for definition in core["definitions"]:
        definitions.setdefault(definition["ref"], definition)
    return core["schema"]
