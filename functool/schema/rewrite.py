"""Rewrite pydantic's core schema, so that it takes what its JSON Schema shows."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from pydantic_core import core_schema


def rewritten(core: Any) -> Any:
    """Let a `Literal` of Enum members take the values that its JSON Schema shows.

    pydantic takes the members themselves only.
    """
    if isinstance(core, list):
        return [*map(rewritten, core)]
    if not isinstance(core, dict) or core.get("type") == "model":  # A model validates itself.
        return core
    core = {key: rewritten(part) for key, part in core.items()}
    if core.get("type") == "dict" and (texts := choices_by_key(core.get("keys_schema", {}))):
        core["keys_schema"] = core_schema.no_info_before_validator_function(
            lambda sent: texts.get(sent, sent), core["keys_schema"]
        )
    expected = core.get("expected", ()) if core.get("type") == "literal" else ()
    members = {json.dumps(item.value): item for item in expected if isinstance(item, Enum)}
    if not members:
        return core
    return core_schema.no_info_before_validator_function(
        lambda sent: members.get(json.dumps(sent), sent), core
    )


def choices_by_key(core: Any) -> dict[str, Any]:
    """Map the texts that stand for the choices of a core schema to these choices.

    The keys of a dict are always texts in JSON.
    """
    choices = [*core.get("expected", ()), *(member.value for member in core.get("members", ()))]
    return {str(choice): choice for choice in choices if not isinstance(choice, (str, Enum))}
