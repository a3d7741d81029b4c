"""Share code between the bridges to agent frameworks: approvals that pass through a framework."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from pydantic import ValidationError

from functool import (
    ApprovalRequest,
    ApprovalRequired,
    ArgumentError,
    Context,
    Decision,
    GuardrailError,
    Tool,
    ToolCall,
    ToolDisabledError,
    ToolError,
    ToolResult,
    ToolSchema,
    Tripwire,
)
from functool.approval import Grant, defaults_of, definition_of
from functool.call import failure_of, metadata_of, to_json
from functool.executors import inline
from functool.guardrails import require_approval
from functool.integrations.values import levels, reached
from functool.json_values import json_copy, same_json

MOST_ASKED = 100
"""How often an approver is asked about one call of an agent before the call is refused."""

_ASKED = "functool.agents.asked"
_UNASKED = "functool.agents.unasked"
"""The key in `context.state` of the calls that a framework has asked about, and that have not run.

They are a dict from their names and ids to their occurrence and the ids of the grants that cover
them. There is None in place of the ids where a person decides.
"""
_NO_JSON = "The arguments of this call cannot be written as JSON, so nobody was asked."
_TOO_OFTEN = "An approver was asked about this call too often, so it did not run."

USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")
"""The names under which `AgentTool` reports an agent's usage."""


Agreement = tuple[ApprovalRequest | None, Mapping[str, Any] | None]
"""What a person approved: the request that was shown, and the arguments if they were edited.

Without a request, the framework has shown the arguments that the model wrote.
"""


def relayed(
    tool: Tool, call: ToolCall, context: Context[Any], agreements: Sequence[Agreement] = ()
) -> Context[Any]:
    """Return a view of the context for a call that a person approved in the framework.

    The view approves this call and no other. If the body of the tool makes further calls, as an
    agent does, their requests go to the context's own approver. Without one they stay open. Each
    approval is for one call: a wrapper, or the body, may make the same call once more.

    Args:
        tool: The tool that is called.
        call: The call, with the arguments that the model wrote.
        context: The context of the run.
        agreements: All that the person has approved for this call, the latest last. The body may
            have stopped to ask about a call of its own.
    """
    known = [_agreed(tool, call, *agreement) for agreement in agreements or [(None, None)]]
    others: Callable[[ApprovalRequest], Any] | None = context.approver
    used: set[str] = set()  # The digests of the approvals that a call has got.

    def decided(request: ApprovalRequest) -> Decision | None:
        decisions = (agreed(request) for agreed in reversed(known))
        return next((one for one in decisions if one is not None), None)

    def answer(request: ApprovalRequest) -> Any:
        decision = decided(request)
        if decision is not None and request.digest not in used:
            if decision.approved:
                used.add(request.digest)
            return decision
        if others is not None:
            return others(request)
        raise ApprovalRequired.of(request)

    view, own = context.view(approver=answer), arguments_led_to(tool, call)
    shown = [request for request, _ in agreements if request is not None]
    for request in [*shown, *requests_of(tool, call)]:
        # A grant is asked before an approver, and would be used up for nothing.
        if (decision := decided(request)) is not None:
            view.share_decision(request.digest, decision)
            if decision.approved and request.call_id == call.id and request.tool in own:
                used.add(request.digest)
    return view.handing_over(at_once=False)


def requests_of(tool: Tool, call: ToolCall) -> Iterator[ApprovalRequest]:
    """Yield the requests that a call leads to, if no guardrail changes it before it asks."""
    with suppress(ToolError, ValueError):  # The tool refuses such a call.
        for one, made in reached(tool, call):
            sent = one.bind(made.arguments).arguments
            for schema in (level.schema for level in levels(one)):
                yield ApprovalRequest.of(schema.name, definition_of(schema), sent, call.id)


def _agreed(
    tool: Tool, call: ToolCall, shown: ApprovalRequest | None, arguments: Mapping[str, Any] | None
) -> Callable[[ApprovalRequest], Decision | None]:
    """Return a function that decides about the requests which an agreement is about."""
    written, definitions = _led_to(tool, call)
    edits = written
    if arguments is not None:
        edits, _ = _led_to(tool, replace(call, arguments=tool.sent_form(arguments)))
    about_this = shown is None or (shown.call_id == call.id and shown.definition in definitions)

    def is_shown(request: ApprovalRequest) -> bool:
        """Whether the person saw this request, or the same one of another level of the tool."""
        if shown is None:
            seen = [written.get(request.tool)]
        elif request.digest == shown.digest:
            return True
        elif not (about_this and _has_labels_of(shown, request)):
            return False
        else:
            seen = [shown.arguments]
        if arguments is not None:
            seen.append(edits[request.tool])
        return any(same_json(request.arguments, one) for one in seen)

    def decide_on(request: ApprovalRequest) -> Decision | None:
        if request.call_id == call.id and request.tool in edits and is_shown(request):
            edited = None if arguments is None else edits[request.tool]
            return Decision(approved=True, arguments=edited)
        if shown is None or request.digest != shown.digest:
            return None
        if arguments is not None:
            return Decision(approved=False, reason="An edit cannot name another tool.")
        return Decision(approved=True)

    return decide_on


def _has_labels_of(shown: ApprovalRequest, request: ApprovalRequest) -> bool:
    """Whether a person who saw one request has seen every label of the other one."""
    pairs = request.sources.items()
    return all({*names} <= {*shown.sources.get(place, ())} for place, names in pairs)


async def answer_to(tool: Tool, call: ToolCall, context: Context[Any]) -> ToolResult:
    """Run a call, unless the tool is disabled by now. Frameworks ask that earlier, or never."""
    if not tool.is_enabled(context):
        return failure_of(ToolDisabledError.of(tool.name))
    return await tool.invoke(call, context)


@contextmanager
def stopping_with(kind: type[Tripwire]) -> Iterator[None]:
    """Raise a `Tripwire` of this block as `kind`, which ends a run of a framework.

    It keeps its attributes, and is still caught by its own class.
    """
    try:
        yield
    except kind:  # It left an agent inside of the tool.
        raise
    except Tripwire as tripwire:
        stop = _of_both(tripwire, kind)
        Tripwire.__init__(stop, str(tripwire))  # The class of the framework may set attributes.
        stop.args = tripwire.args
        state: Any = object.__getstate__(tripwire)  # Two dicts if it has slots.
        own, slots = state if isinstance(state, tuple) else (state, {})
        vars(stop).update(own or {})
        for name, value in slots.items():
            object.__setattr__(stop, name, value)
        raise stop from tripwire


def _of_both(tripwire: Tripwire, kind: type[Tripwire]) -> Tripwire:
    """Return a new exception of the class of a tripwire and of `kind`, if there can be one."""
    if type(tripwire) is not Tripwire:
        with suppress(TypeError):  # It may allow no subclass, or have a `__new__` of its own.
            both = _class_of_both(tripwire, kind)
            return both.__new__(both)
    return kind.__new__(kind)


def _class_of_both(tripwire: Tripwire, kind: type[Tripwire]) -> type[Tripwire]:
    """Return a class that is that of a tripwire and `kind`.

    No pickle can name it, so what is pickled is the tripwire.
    """

    def reduce(self: Tripwire) -> tuple[Any, ...]:
        return copy.copy, (tripwire,), {"results": self.results}

    own = type(tripwire)
    return type(own.__name__, (own, kind), {"__module__": own.__module__, "__reduce__": reduce})


def refusing(request: ApprovalRequest, reason: str, context: Context[Any]) -> Context[Any]:
    """Return a view that refuses the call of a request, whatever a guardrail makes of the call."""
    context.deny(request, reason)
    others: Callable[[ApprovalRequest], Any] | None = context.approver

    def answer(asked: ApprovalRequest) -> Any:
        if (asked.tool, asked.call_id) == (request.tool, request.call_id):
            return Decision(approved=False, reason=reason)
        if others is None:
            raise ApprovalRequired.of(asked)
        return others(asked)

    return context.view(approver=answer)


def request_of(result: ToolResult) -> ApprovalRequest | None:
    """Return the request that a call waits for, or None. Only a failed call can wait."""
    request = metadata_of(result).get("approval")
    return request if result.is_error and isinstance(request, ApprovalRequest) else None


def arguments_led_to(tool: Tool, call: ToolCall) -> dict[str, Any]:
    """Return the canonical arguments of each tool that a call leads to, by its name."""
    return _led_to(tool, call)[0]


def _led_to(tool: Tool, call: ToolCall) -> tuple[dict[str, Any], set[str]]:
    """Return the canonical arguments of each tool that a call leads to, and the definitions."""
    found: dict[str, Any] = {}
    definitions: set[str] = set()
    with suppress(ToolError):  # The tool refuses the call and says why.
        for one, made in reached(tool, call):
            schemas = [level.schema for level in levels(one)]
            arguments: Any = made.arguments
            with suppress(ArgumentError):
                arguments = one.bind(arguments).arguments
            found |= dict.fromkeys((schema.name for schema in schemas), arguments)
            definitions |= {definition_of(schema) for schema in schemas}
    return found, definitions


def covering(call: ToolCall, view: Context[Any]) -> list[Grant]:
    """Return the grants that cover a call. Do not count the use: the guardrail does."""
    schema = view.schema
    assert schema is not None and isinstance(call.arguments, Mapping)
    request = ApprovalRequest.of(schema.name, definition_of(schema), call.arguments, call.id)
    return [grant for grant in view.grants() if grant.covers(request, defaults_of(schema))]


def asker(
    tool: Tool,
    *,
    surely: bool = False,
    granted: Callable[[ToolCall, Context[Any]], object] = covering,
) -> Callable[[Mapping[str, Any] | str, str, Context[Any]], Awaitable[bool]]:
    """Return a function that says whether a person has to be asked about a call before it runs.

    When in doubt it says yes. If it says no and the guardrail asks after all, the framework can no
    longer pause. With `surely` it says no when in doubt. `granted(call, view)` says whether a grant
    covers a call.
    """

    async def asks(arguments: Mapping[str, Any] | str, call_id: str, context: Context[Any]) -> bool:
        sent = ToolCall(name=tool.name, arguments=arguments, id=call_id)
        try:
            for one, made in reached(tool, sent):
                call = replace(made, arguments=one.bind(made.arguments).arguments)
                if await _asks(one, call, context, surely, granted):
                    return True
        except Exception:
            return not surely
        return False

    return asks


async def _asks(
    tool: Tool, call: ToolCall, context: Context[Any], surely: bool, granted: Any
) -> bool:
    """Whether a guardrail of the tool would ask a person about a call with checked arguments."""
    unchanged = True
    for level in levels(tool):
        view = context.view(call=call, schema=level.schema)
        for guardrail in level.input_guardrails:
            when = getattr(guardrail, "asks_approval", None)
            unchanged = unchanged and bool(when)  # Another guardrail may change the call.
            sure = not surely or unchanged or (when is True and not view.grants())
            needed = sure and (when is True or (when and await inline(when, call, view)))
            if needed and not granted(call, view):
                return True
    return False


async def passes_unasked(
    tool: Tool,
    arguments: Mapping[str, Any] | str,
    call_id: str,
    context: Context[Any],
    *,
    occurrence: str = "",
) -> bool:
    """Whether a call may run without a person. Remember it until `passed_unasked`.

    A framework asks this about all calls of a turn before the first of them runs. So a grant lets
    no more calls pass than it has uses. When in doubt the answer is no.

    Args:
        tool: The tool that is called.
        arguments: The arguments that the model wrote.
        call_id: The id of the call.
        context: The context of the run.
        occurrence: Tells the calls of one id apart, where a framework lets them share one. Nobody
            can tell them apart when they run, so only the first of them may pass.
    """
    known: dict[tuple[str, str], tuple[str, list[str] | None]]
    known = context.state.setdefault(_UNASKED, {})
    key = tool.name, call_id
    if key in known and known[key][0] != occurrence:
        return False
    used: list[str] = []
    known[key] = occurrence, used

    def granted(call: ToolCall, view: Context[Any]) -> bool:
        # A grant may be used up when its call runs. So the calls that have passed count as uses.
        taken = Counter(chain.from_iterable(ids or () for _, ids in known.values()))
        left = [grant.id for grant in covering(call, view) if grant.uses > taken[grant.id]]
        used.extend(left[:1])
        return bool(left)

    passes = not await asker(tool, granted=granted)(arguments, call_id, context)
    if not passes:
        known[key] = occurrence, None
    return passes


def passed_unasked(call: ToolCall, context: Context[Any]) -> bool:
    """Whether a call, which runs now, has passed without a person. Forget it."""
    _, used = context.state.get(_UNASKED, {}).pop((call.name, call.id), ("", None))
    return used is not None


async def decide(call: ToolCall, context: Context[Any]) -> Decision:
    """Return a person's decision about a call that waits in an agent.

    The decision has `arguments` only if the person edited them. The reason of a refusal is the text
    that the model reads.

    Raises:
        ApprovalRequired: Nobody has decided yet.
        ValueError: The arguments hold an object that is no JSON value, such as a date.
    """
    asked: Counter[tuple[str, str]] = context.notes.setdefault(_ASKED, Counter())
    asked[call.name, call.id] += 1
    if asked[call.name, call.id] > MOST_ASKED:
        return Decision(approved=False, reason=_TOO_OFTEN)
    try:
        json_copy(call.arguments)  # type: ignore[arg-type]
    except ValueError as error:
        if isinstance(error.__cause__, TypeError):  # No model writes it, but an agent's own code.
            raise
        return Decision(approved=False, reason=_NO_JSON)  # The tool would refuse it as well.
    schema = ToolSchema(name=call.name, description="", parameters={}, plain={})
    ask: Any = require_approval()
    try:
        edited = await ask(call, context.view(call=call, schema=schema))
    except ApprovalRequired:
        raise
    except GuardrailError as refusal:
        return Decision(approved=False, reason=str(refusal))
    return Decision(approved=True, arguments=None if edited is None else edited.arguments)


def as_it_was(decision: Decision) -> bool | str:
    """Return True if the call may run unchanged, or the text for the model if it may not.

    Use this for a framework that cannot run an edited call. An edit becomes a refusal that tells
    the model which arguments to send.
    """
    if not decision.approved:
        return decision.reason
    if decision.arguments is None:
        return True
    wanted = to_json(dict(decision.arguments))
    return f"A person changed this call, so it did not run. Make it with these arguments: {wanted}"


def missing(integration: str, extra: str) -> ImportError:
    """Return the error for a framework that is not installed."""
    return ImportError(f"the {integration} integration needs: pip install 'functool[{extra}]'")


def key_of(bridge: str, context: Context[Any], text: str) -> str:
    """Return the key of a paused run in the context's state. The same call finds it again."""
    tool = context.schema.name if context.schema else ""
    return json.dumps([bridge, tool, context.call.id if context.call else "", text])


@contextmanager
def put_back(context: Context[Any], key: str, paused: Any) -> Iterator[None]:
    """Keep a paused run in the context's state if this block, which asks a person, raises.

    The labels of what its agent has read are kept with it.
    """
    try:
        yield
    except BaseException:  # Nothing has run: the same call may go on here later.
        context.state[key] = paused, [*(context.inner_labels or ())]
        raise


def taken_up(context: Context[Any], key: str) -> Any:
    """Return a paused run, or None. Its labels are those of this call as well."""
    context.notes.pop(_ASKED, None)  # A runner may be used with a context that lives on.
    paused, labels = context.state.pop(key, (None, ()))
    context.add_labels(labels)
    return paused


def went_on() -> ToolError:
    """Return the error for a paused call whose conversation another call has used since."""
    return ToolError(
        "The agent's conversation has gone on since this call stopped to ask a person, so it cannot"
        " go on there, and what it asked for did not run. Call the agent anew."
    )


def argument_error(invalid: ValidationError) -> ArgumentError:
    """Return a framework's validation error as an `ArgumentError` without the values sent."""
    errors = invalid.errors(include_url=False, include_context=False, include_input=False)
    return ArgumentError(
        {"path": ".".join(map(str, e["loc"])), "expected": e["msg"]} for e in errors
    )
