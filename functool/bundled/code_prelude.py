"""The definitions that run before a program, in the Python of the interpreter."""

from __future__ import annotations

from collections.abc import Iterable

ADVICE = (
    "an Untrusted value cannot be compared, tested, printed or formatted: pass it to a tool,"
    " use .part(), .each() or .count(), and build texts with join()"
)

_PRELUDE = f"""
def _functool_raise(*_args, **_named):
    raise TypeError({ADVICE!r})

import datetime as _functool_datetime
from collections import deque as _functool_deque

_functool_dict, _functool_list, _functool_str = dict, (list, tuple, _functool_deque), str
_functool_set, _functool_is, _functool_int = (set, frozenset), isinstance, int
_functool_plain = (str, int, float, bool, bytes)
_functool_dates = (_functool_datetime.date, _functool_datetime.time)
_functool_has, _functool_get, _functool_repr, _functool_type = hasattr, getattr, repr, type

# The host gets Python objects. To hash a tuple or a frozenset, Python visits each member, and a
# shared member once for each place. That can take for ever, so the host never gets one to hash.
# Any object may hold one. So an object leaves as a dict of its attributes, or as text, and an
# `Untrusted` one as a `_functool_label`, because a program may replace the methods of `Untrusted`.
class _functool_label:
    def __init__(self, number):
        self.number = number

# The host hashes keys too, and a program may choose numbers that all have one hash. So keys leave
# as texts, whose hashes nobody can choose.
def _functool_key(key):
    return key if _functool_is(key, _functool_str) else _functool_str(key)

def _functool_leaf(value):
    return value is None or _functool_is(value, _functool_plain + _functool_dates)

def _functool_number(value):
    if not _functool_is(value._id, _functool_int):
        raise TypeError("this Untrusted value was not made by a tool")
    return value._id

def _functool_out(value, names, above=()):
    if _functool_is(value, _functool_dict):
        return {{{{
            _functool_key(key): _functool_out(item, names, above) for key, item in value.items()
        }}}}
    if _functool_is(value, _functool_list) or _functool_is(value, _functool_set):
        return [_functool_out(item, names, above) for item in value]
    if _functool_leaf(value):
        return value
    if _functool_is(value, Untrusted):
        return _functool_label(_functool_number(value))
    for other in above:
        if other is value:  # A child that knows its parent.
            return "..."
    known = [name for name in names if _functool_has(value, name)]
    if known:
        above = (*above, value)
        return {{{{
            name: _functool_out(_functool_get(value, name), names, above) for name in known
        }}}}
    return _functool_repr(value)[:200]

def _functool_sent(value):
    if _functool_is(value, _functool_dict):
        for key in value:
            if not _functool_is(key, _functool_str):
                raise TypeError("an argument holds an object whose keys are not texts")
        return {{{{key: _functool_sent(item) for key, item in value.items()}}}}
    if _functool_is(value, _functool_list):
        return [_functool_sent(item) for item in value]
    if _functool_leaf(value):
        return value
    if _functool_is(value, Untrusted):
        return _functool_label(_functool_number(value))
    kind = _functool_type(value).__name__
    raise TypeError("an argument holds a " + kind + ": send texts, numbers, lists and dicts")

def _functool_ask(what, number, arguments):
    answer = _functool_value(what, number, _functool_sent(arguments))
    if answer[0] == 2:
        raise ValueError(answer[1])
    return answer[1]

class Untrusted:
    def __init__(self, _id):
        self._id = _id
    def part(self, *path):
        return Untrusted(_functool_ask("part", _functool_number(self), path))
    def each(self):
        return [Untrusted(number) for number in _functool_ask("each", _functool_number(self), ())]
    def count(self):
        return _functool_ask("count", _functool_number(self), ())
{{methods}}

def join(*parts):
    kind, answer = _functool_ask("join", None, parts)
    return Untrusted(answer) if kind else answer

def _functool_test(value):
    if isinstance(value, Untrusted):
        _functool_raise()
    return value

def _functool_bool(value=False):
    return bool(_functool_test(value))

def _functool_any(values):
    return any([_functool_test(value) for value in values])

def _functool_all(values):
    return all([_functool_test(value) for value in values])

# The names of the tools whose calls no `await` has begun. An exception may keep a program from
# awaiting them, so a program that has caught one is not blamed for the calls before it.
_functool_open = []

def _functool_caught():
    _functool_open.clear()

# What `gather(..., return_exceptions=True)` awaits.
def _functool_each(calls, wanted):
    return [_functool_kept(call) for call in calls] if _functool_test(wanted) else calls

async def _functool_kept(call):
    try:
        return await call
    except Exception as error:
        _functool_caught()
        return error

def _functool_end(value, names):
    for name in _functool_open:
        raise RuntimeError(
            "the program ended, and a call of " + name + " was not awaited, so it did not run:"
            " write `await " + name + "(...)`, or await asyncio.gather of several calls"
        )
    return _functool_out(value, names)

async def _functool_tool(name, arguments):
    if name in _functool_open:
        _functool_open.remove(name)
    answer = await _functool_call(name, _functool_sent(arguments))
    if answer[0] == 2:
        raise RuntimeError(answer[1])
    if answer[0] == 1:
        return Untrusted(answer[1])
    return answer[1]
"""

_REFUSED = (
    *("eq", "ne", "lt", "le", "gt", "ge", "contains", "str", "repr", "format", "hash", "len"),
    *("iter", "getitem", "add", "radd", "mod", "rmod", "int", "float", "bool"),
)


def prelude(functions: Iterable[str]) -> str:
    """Return the definitions for functions of these names, each of which calls a tool."""
    methods = "\n".join(
        f"    def __{name}__(self, *others):\n        _functool_raise()" for name in _REFUSED
    )
    tools = [
        f"def {name}(**arguments):\n"
        f"    _functool_open.append({name!r})\n"
        f"    return _functool_tool({name!r}, arguments)\n"
        for name in functions
    ]
    return "\n".join([_PRELUDE.format(methods=methods), *tools])
