"""Ask a person about calls in LangGraph, so that each answer reaches the call that was shown.

To resume, LangGraph runs a task again, and gives the answers in order to those who ask. By then a
guardrail may have changed a call, and calls of one task may ask in another order. So this module
remembers, within this process, what each interrupt has shown. An answer that belongs to another
call is kept for that one, and the person is asked about this call as well. An answer about a call
inside of a tool goes to what the tool asks now, because an agent may never make that call again.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, NamedTuple

from functool import ApprovalRequest, Decision, ToolCall
from functool.integrations._agents import missing

try:
    from langgraph.errors import GraphInterrupt
    from langgraph.runtime import ExecutionInfo, Runtime, get_runtime
    from langgraph.types import interrupt
except ImportError as _error:
    raise missing("LangChain", "langchain") from _error

REMEMBERED = 4_096
"""How many tasks of graphs are remembered: the latest ones. Each takes a few short texts."""

_DIGEST = re.compile("[0-9a-f]{64}")

logger: logging.Logger = logging.getLogger("functool")


class _Shown(NamedTuple):
    """What an interrupt has shown, without the arguments, which may be large."""

    own: bool
    tool: str
    call_id: str
    digest: str

    def is_about(self, call: ToolCall, tools: Container[str]) -> bool:
        """Whether a call itself was shown, as that of one of these tools."""
        return self.own and self.call_id == call.id and self.tool in tools


@dataclass
class _Task:
    """What the calls of one task of a graph have asked, by the number of the answer."""

    shown: dict[int, _Shown] = field(default_factory=dict)
    executions: deque[ExecutionInfo] = field(default_factory=lambda: deque(maxlen=8))
    used: set[str] = field(default_factory=set)  # Digests that inner requests were decided by.
    # These belong to the latest execution.
    answered: int = 0
    given: list[tuple[_Shown, Any]] = field(default_factory=list)  # Answers that nobody has used.
    kept: dict[str, Any] = field(default_factory=dict)  # By digest.
    stopped: Callable[[], GraphInterrupt | None] | None = None


_tasks: OrderedDict[tuple[str | None, str], _Task] = OrderedDict()
_lock = Lock()  # LangGraph may run the calls of a task on several threads.


def runtime_of_graph() -> Runtime[Any] | None:
    """Return the runtime of the graph that runs this code, or None outside of a graph."""
    try:
        return get_runtime()
    except (RuntimeError, KeyError):
        return None


def ask_person(request: ApprovalRequest, call: ToolCall, *, own: bool) -> Decision:
    """Return a person's decision about a request, or interrupt the graph to get one.

    Args:
        request: The request.
        call: The call of the exported tool.
        own: Whether the request is about that call itself. An agent inside the tool may ask
            something else when the graph resumes, so the answer to its request must hold the
            digest that was shown.

    Raises:
        GraphInterrupt: Nobody has decided yet.
    """
    about = (request.tool, request.call_id) if own else (call.name, call.id)
    now = _Shown(own, *about, request.digest)
    with _lock:
        task = _task_of_execution()
        if task.stopped is not None:
            # LangGraph shows one interrupt of a task. Let it be the one that is remembered.
            first = task.stopped()
            raise GraphInterrupt(() if first is None else first.args[0])
        while request.digest not in task.kept:
            shown, answer = _taken_for(now, task) or _next_answer(request, now, task)
            if shown is not None and shown.digest in task.used:  # The agent has gone on since.
                task.kept[shown.digest] = answer
            else:
                task.kept[_meant(answer, shown, now)] = answer
        if not own:
            task.used.add(request.digest)
        return _decision(task.kept.pop(request.digest), request, own=own)


def _taken_for(now: _Shown, task: _Task) -> tuple[_Shown, Any] | None:
    """Return the first answer that was taken early and is not about another call of the task."""
    for place, (shown, _) in enumerate(task.given):
        if not shown.own or shown[:-1] == now[:-1]:
            return task.given.pop(place)
    return None


def _next_answer(request: ApprovalRequest, now: _Shown, task: _Task) -> tuple[_Shown | None, Any]:
    """Return the next answer of this task, and what was shown for it, or interrupt the graph."""
    shown = task.shown.get(task.answered)
    try:
        answer = interrupt(_question(request))
    except GraphInterrupt as stop:
        task.shown[task.answered] = now
        task.stopped = weakref.ref(stop)  # It refers to the contexts of the run.
        raise
    task.answered += 1
    return shown, answer


def decided_before(
    requests: Sequence[ApprovalRequest], call: ToolCall
) -> tuple[ApprovalRequest | None, Decision] | None:
    """Return what a person has answered about a call that was shown, before the call runs again.

    Its tool may not ask any more by now: a condition or the grants may have changed.

    Args:
        requests: The requests that the call leads to.
        call: The call of the exported tool.

    Returns:
        The request that was shown and the decision. Without a request, a guardrail has changed the
        call before it was shown, and the person has refused it.
    """
    tools = {request.tool for request in requests}
    with _lock:
        known = _known_task()
        if known is None or not any(one.is_about(call, tools) for one in known.shown.values()):
            return None
        task = _task_of_execution()
        _take_answers(task)
        for shown, answer in [*task.given]:
            if not shown.is_about(call, tools):
                continue
            request = next((one for one in requests if one.digest == shown.digest), None)
            asked = replace(requests[0], tool=shown.tool, digest=shown.digest)
            decision = _decision(answer, asked, own=True)
            if request is not None or not decision.approved:
                task.given.remove((shown, answer))
                return request, decision
    return None


def _take_answers(task: _Task) -> None:
    """Take the answers to what this task has shown, as far as they are there."""
    while task.stopped is None and (shown := task.shown.get(task.answered)) is not None:
        try:
            answer = interrupt(None)
        except GraphInterrupt:  # The next question interrupts the graph.
            return
        task.answered += 1
        task.given.append((shown, answer))


def _known_task() -> _Task | None:
    """Return what is remembered of the task that runs this code, if it has asked before."""
    runtime = runtime_of_graph()
    execution = None if runtime is None else runtime.execution_info
    return None if execution is None else _tasks.get((execution.thread_id, execution.task_id))


def _task_of_execution() -> _Task:
    """Return what is remembered of the task that runs this code.

    Raises:
        GraphInterrupt: The task was interrupted, and runs again already. LangGraph does not wait
            for the calls that ran beside the one that asked.
    """
    runtime = runtime_of_graph()
    if runtime is None or runtime.execution_info is None:
        return _Task()
    # When LangGraph tries a node again, it goes on counting the answers.
    execution = runtime.execution_info.patch(node_attempt=1)
    key = execution.thread_id, execution.task_id
    task = _tasks.setdefault(key, _Task())
    _tasks.move_to_end(key)
    if execution not in task.executions:
        task.executions.append(execution)
        task.answered, task.given, task.kept, task.stopped = 0, [], {}, None
    elif execution != task.executions[-1]:
        raise GraphInterrupt(())
    while len(_tasks) > REMEMBERED:
        _tasks.popitem(last=False)
    return task


def _question(request: ApprovalRequest) -> dict[str, Any]:
    """Return the value of the interrupt. It must be the same whenever the same call asks."""
    shown = request.to_dict()
    return {name: shown[name] for name in shown if name not in ("id", "created")}


def _meant(answer: Any, shown: _Shown | None, now: _Shown) -> str:
    """Return the digest of the request that a person has answered."""
    if shown is None:  # Another process has asked, so trust the order of the answers.
        return _digest_in(answer) or now.digest
    agrees = answer is True or _digest_in(answer) == answer or _is_plain_approval(answer)
    # A refusal and an edit are about the call, whatever a guardrail has made of it since.
    if shown[:-1] == now[:-1] and not (now.own and agrees):
        return now.digest
    return _digest_in(answer) or shown.digest


def _digest_in(answer: Any) -> str:
    """Return the digest that an answer holds, or an empty text."""
    digest = answer.get("digest") if isinstance(answer, dict) else answer
    return digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else ""


def _is_plain_approval(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("type") == "approve"


def _decision(answer: Any, request: ApprovalRequest, *, own: bool) -> Decision:
    """Return the value that a graph was resumed with as a decision.

    An unknown value refuses, and is logged, because the model reads that a person refused.
    """
    same = own or _digest_in(answer) == request.digest
    match answer:
        case str():
            reason = "" if _digest_in(answer) else answer
            return Decision(approved=answer == request.digest, reason=reason)
        case {"type": "approve", "digest": str(digest)}:  # It may be that of another call.
            return Decision(approved=digest == request.digest)
        case True | {"type": "approve"}:
            return Decision(approved=same)
        case {"type": "edit", "edited_action": {"args": dict(arguments), **action}}:
            if action.get("name", request.tool) != request.tool:
                return Decision(approved=False, reason="An edit cannot name another tool.")
            return Decision(approved=same, arguments=arguments)
        case {"type": "reject", "message": str(reason)}:
            return Decision(approved=False, reason=reason)
        case False | {"type": "reject"}:
            return Decision(approved=False)
    kind = type(answer).__name__
    logger.warning("a graph was resumed with a %s that is no decision: the call is refused", kind)
    return Decision(approved=False)
