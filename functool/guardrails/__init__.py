"""The built-in guardrails.

A guardrail is a plain callable that lets a call or a result pass, replaces it, or refuses it.
`functool/guardrails/asking.py` describes how tools call guardrails.
"""

from functool.guardrails.approval import require_approval
from functool.guardrails.asking import InputGuardrail, OutputGuardrail
from functool.guardrails.calls import block, budget, max_repeats, rate_limit
from functool.guardrails.text import redact, truncate
from functool.guardrails.trusted import trusted_only

__all__ = [
    "InputGuardrail",
    "OutputGuardrail",
    "block",
    "budget",
    "max_repeats",
    "rate_limit",
    "redact",
    "require_approval",
    "truncate",
    "trusted_only",
]
