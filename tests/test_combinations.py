"""Laws that hold for every combination of bodies, guardrails and layers.

tests/compositions.py draws the combinations. These are the laws:

1. A call has exactly one result, with the id of the call. Only a tripwire leaves as an exception.
2. Each guardrail sees what the guardrails before it have left, on every level from the outermost to
   the body. The body gets what the last one saw, and runs at most once.
3. Each guardrail does what its rule says: it passes, replaces, refuses or asks a person. If one
   refuses, no body runs. If none refuses, the body runs.
4. A call that a person has to approve runs only with arguments that a person has approved.
5. A limit of calls holds, and refuses no call before it is reached. Contexts have their own counts.
6. Behind a journal a body runs once for each id. Another context never gets an answer of the cache.
7. A result has the labels of the arguments and of every untrusted tool that ran: in failures, in
   stored answers and in what is kept aside, too. An agent with a thread passes on what it had before.
   Output guardrails see the labels. No result has others.
8. What `redact` removes is not in the result, the events or the messages of the log.
9. The same call has the same answer, unless something counts.
10. `bind`, `watch` and the published schema agree with what the road accepts.
11. The call that was passed in is not changed. Its metadata reaches every guardrail.
12. The result notes guardrails that replaced, and the decision. A tool that waits says so before.
"""

import asyncio
import json
import logging
import os
import re
import time
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace

import jsonschema
import pytest
from hypothesis import given, settings

from functool import (
    ArgumentError,
    Context,
    Decision,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
)
from tests.compositions import (
    AGENTS,
    ASK,
    BASES,
    CALLERS,
    CLAIMS,
    COUNT,
    GUARDED,
    GUARDS,
    LOSES,
    MOST,
    PASS,
    REFUSE,
    RENEWS,
    ROOT,
    SECRET,
    STOP,
    Body,
    Composition,
    Level,
    World,
    compositions,
    normal,
    planned,
    text_of,
)

FEW = min(300, settings().max_examples)  # An example makes up to four calls of many tools.
MANY = int(os.environ.get("FUNCTOOL_COMBINATIONS", "5_000"))
PIECE = SECRET[:3]


@dataclass
class Made:
    """A composition with its tools, and what its calls so far have used up and stored."""

    composition: Composition
    world: World
    tools: list = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    last: dict = field(default_factory=dict)
    stored: list = field(default_factory=list)
    decisions: list = field(default_factory=list)
    counted: set = field(default_factory=set)
    states: list = field(default_factory=list)
    memory: dict = field(default_factory=dict)

    def __post_init__(self):
        self.tools = self.composition.build(self.world)
        self.levels = self.composition.levels
        self.top = len(self.levels) - 1
        self.guarded = [n for n, level in enumerate(self.levels) if level.layer in GUARDED][::-1]

    def stores(self, base, layer):
        """Whether a journal or a cache stands around the body at a level."""
        above = self.levels[base + 1 :]
        end = next((n for n, level in enumerate(above) if level.layer in BASES), len(above))
        return any(level.layer == layer for level in above[:end])

    def asks_below(self, base):
        """Whether the body at a level may return a pause, which no journal stores."""
        return any(
            "asks" in g or "approval" in g for level in self.levels[:base] for g in level.inputs
        )

    def may_answer(self, step):
        """Whether a journal or a cache may answer in the place of the body."""
        for base, call_id, state, arguments in self.stored:
            if base == step.level and (
                (self.stores(base, "once") and call_id == step.call_id)
                or (
                    self.stores(base, "cached")
                    and state is step.state
                    and arguments == normal(step.arguments)
                )
            ):
                return True
        return False

    def lets_through(self, name, step, attempt):
        """Count a call as one of the guardrails that count does, and say whether it may pass."""
        if (name, step.level, attempt) in self.counted:  # An edited call is asked about again.
            return True
        self.counted.add((name, step.level, attempt))
        self.states.append(step.state)  # Keeps the id its own.
        context = id(step.state)
        if name == "max_repeats":
            call = step.tool, json.dumps(step.arguments, sort_keys=True)
            known, times = self.last.get(context, (None, 0))
            self.last[context] = call, times + 1 if call == known else 1
            return self.last[context][1] <= MOST
        key = {
            "budget": (name, context),
            "rate_limit of a context": (name, context, step.tool),
        }.get(name, (name, step.tool))
        if self.counts[key] == MOST:
            return False
        self.counts[key] += 1
        return True


def follow(made, plan, steps, attempt):
    """Check the steps of one attempt of a call, by the laws 2 to 6. Return whether its body ran."""
    last, ran = None, Counter()
    for step in steps:
        if step.kind in ("approved", "edited"):
            made.decisions.append(step)
        elif step.kind == "ran":
            ran[step.level] += 1
            check_body(made, last, step)
            made.stored.append((step.level, last.call_id, last.state, normal(last.arguments)))
        else:
            check_probe(made, plan, last, step, attempt)
            last = step
    assert not ran or max(ran.values()) == 1, f"a body ran twice: {steps}"
    if plan.form in ("unknown", "twice", "no JSON"):
        assert last is None and not ran, f"a guardrail or a body got wrong arguments: {steps}"
    elif last is not None and not ran[0]:
        check_end(made, plan, last, attempt, ran)
    elif last is None:
        assert not plan.fits, "no guardrail has seen the call"
    return bool(ran[0])


def check_body(made, last, step):
    assert last is not None and last.level == step.level, f"a body ran unseen: {step}"
    assert last.at == len(made.levels[last.level].inputs), (
        f"the guardrails after {last} were not asked"
    )
    assert normal(last.arguments) == normal(step.arguments), f"seen was {last}, but {step} ran"
    assert isinstance(text_of(step.arguments), str), f"a body got wrong arguments: {step}"
    again = [call for call in made.stored if call[:2] == (step.level, last.call_id)]
    broke_off = made.composition.body.outcome in ("CancelledError", "hangs")
    if again and made.stores(step.level, "once") and not (broke_off or made.asks_below(step.level)):
        raise AssertionError(f"the journal let a body run again: {step}")


def check_probe(made, plan, last, step, attempt):
    """Check what a probe saw, by what the probe before it saw and the guardrail between them."""
    composition = made.composition
    if last is None:
        assert (step.level, step.at) == (made.guarded[0], 0)
        if plan.fits:
            arguments = composition.inward(made.top, step.level, deepcopy(plan.meant))
            labels = composition.labels_inward(made.top, step.level, plan.labels)
            assert (normal(step.arguments), step.labels) == (arguments, labels), f"sent was {plan}"
    elif step.level != last.level:
        inputs, place = made.levels[last.level].inputs, made.guarded.index(last.level)
        assert (last.at, step.at) == (len(inputs), 0) and step.level == made.guarded[place + 1]
        arguments = composition.inward(last.level, step.level, deepcopy(last.arguments))
        labels = composition.labels_inward(last.level, step.level, last.labels)
        assert (normal(step.arguments), step.labels) == (arguments, labels), (
            f"from {last} came {step}"
        )
    else:
        check_guard(made, last, step, attempt)
        at_the_top = set(step.labels.get("", ()))
        for place, names in last.labels.items():
            assert {*names} <= {*step.labels.get(place, ())} | at_the_top, f"lost by {last}: {step}"


def check_guard(made, last, step, attempt):
    """Check that the guardrail between two probes of a level has done what its rule says."""
    name = made.levels[last.level].inputs[last.at]
    rule = GUARDS[name].rule(last.arguments, last.labels)
    edits = [d for d in made.decisions if d.kind == "edited" and d.tool == last.tool]
    if step.at == 0:
        assert rule == ASK and any(step.arguments == edit.arguments for edit in edits)
        return
    assert step.at == last.at + 1
    if rule == COUNT:
        assert made.lets_through(name, last, attempt), f"{name} let too many calls through"
        rule = PASS
    if rule == ASK:
        decided = [(d.tool, d.arguments) for d in made.decisions]
        assert (last.tool, last.arguments) in decided, f"nobody has approved {last}"
        rule = PASS
    assert rule not in (REFUSE, STOP), f"{name} had to refuse {last}"
    assert step.arguments == (last.arguments if rule == PASS else rule), f"{name} made {step}"


def check_end(made, plan, last, attempt, ran):
    """Check that a call ended before its body for a reason."""
    inputs = made.levels[last.level].inputs
    if last.at == len(inputs):
        # Behind `call_tool` the inner tool refuses wrong arguments, which the guardrails have seen.
        reason = ran[last.level] or made.may_answer(last) or not plan.fits
        assert reason, f"the call ended without a reason at {last}"
        return
    rule = GUARDS[inputs[last.at]].rule(last.arguments, last.labels)
    if rule == COUNT:
        assert not made.lets_through(inputs[last.at], last, attempt), f"refused too early: {last}"
    else:
        assert rule in (REFUSE, STOP, ASK), f"{inputs[last.at]} refused {last} without a reason"
        assert rule != ASK or made.composition.policy != "yes", f"approved, but refused: {last}"


def check_result(made, plan, steps, result, events=()):
    """Check the outcome of a call, by the laws 1, 7, 8 and 12."""
    ran = any((step.kind, step.level) == ("ran", 0) for step in steps)
    if isinstance(result, Tripwire):
        stops = [
            GUARDS[g].rule({"text": "dogs"}, {}) for level in made.levels for g in level.inputs
        ]
        assert STOP in stops or any("stops" in level.outputs for level in made.levels)
        return
    assert isinstance(result, ToolResult) and result.call_id == plan.call.id
    known = labels_of(result)
    names = {tool.name for tool in made.tools}
    wanted = {name for place in plan.labels.values() for name in place}
    wanted |= untrusted(made, steps, made.top)
    assert wanted <= known, f"the labels {wanted - known} are lost: {result}"
    assert known <= {"mail", "web", *CLAIMS["sources"], "inner", *names}, f"strange labels: {known}"
    if any("redact" in level.outputs for level in made.levels) and ran:
        shown = [event.data.get("result") for event in events if event.call_id == plan.call.id]
        for each in [result, *(r for r in shown if r is not None)]:
            said = [each.text, each.output, each.value, each.error, each.metadata]
            assert PIECE not in repr(said), f"the secret is shown: {said}"


def labels_of(result):
    return set(result.metadata.get("sources", ()))


def untrusted(made, steps, top):
    """The untrusted tools up to a level that a call has reached."""
    reached = {step.level for step in steps if step.kind == "saw" and step.level <= top}
    found = {made.tools[n].name for n in reached if made.levels[n].untrusted}
    ran = any((step.kind, step.level) == ("ran", 0) for step in steps)
    if made.composition.body.outcome == "hangs":  # Nobody has anything from it.
        return found
    return found | ({"body"} if ran and made.composition.body.settings.untrusted else set())


def check_shown(made, steps, shown):
    """Check that output guardrails saw the labels, by law 7."""
    for each in shown:
        seen = [s for s in steps if s.kind == "saw" and s.level == each.level]
        wanted = {name for s in seen for names in s.labels.values() for name in names}
        wanted |= untrusted(made, steps, each.level)
        assert wanted <= labels_of(each.result), (
            f"at level {each.level} lacks {wanted}: {each.result}"
        )


def check_memory(made, plan, steps, result):
    """Check that an agent with a thread passes on the labels of what it has read before, by law 7."""
    for level, each in enumerate(made.levels):
        ran = any((step.kind, step.level) == ("ran", level) for step in steps)
        elsewhere = made.composition.has("agent elsewhere", above=level)
        if each.layer == "agent with a thread" and ran and not elsewhere:
            known = made.memory.setdefault((plan.kind == "elsewhere", level), set())
            assert isinstance(result, Tripwire) or known <= labels_of(result), f"forgotten: {known}"
            seen = [step for step in steps if step.kind == "saw" and step.level == level]
            known |= {name for names in seen[-1].labels.values() for name in names}
            known |= untrusted(made, steps, level - 1)


def check_notes(made, attempts):
    """Check what a result tells about guardrails and decisions, by law 12."""
    steps, result = attempts[-1]
    if made.composition.has(*AGENTS, *CALLERS):
        return
    waited = [
        r
        for _, r in attempts
        if getattr(getattr(r, "error", None), "type", "") == "ApprovalRequired"
    ]
    assert not waited or made.tools[-1].requires_approval
    if made.composition.has(*RENEWS) or isinstance(result, Tripwire):
        return
    saw = [step for step in steps if step.kind == "saw"]
    replaced = sum(
        one.level == two.level and two.at == one.at + 1 and one.arguments != two.arguments
        for one, two in zip(saw, saw[1:], strict=False)
    )
    given = result.metadata.get("guardrails")
    listed = given if isinstance(given, list) else []  # A body may have claimed something else.
    noted = [note for note in listed if (note["stage"], note["did"]) == ("input", "replaced")]
    assert len(noted) >= replaced, f"not noted: {result}"
    outputs = {name for level in made.levels for name in level.outputs}
    ran = any(step.kind == "ran" for step in steps)
    if (
        ran
        and not outputs & LOSES
        and any(s.kind in ("approved", "edited") for a, _ in attempts for s in a)
    ):
        assert result.metadata["decision"], f"the decision is not noted: {result}"


def check_front(made, plan, steps):
    """Check that `bind`, `watch` and the schema agree with the road, by law 10."""
    tool, sent = made.tools[-1], plan.call.arguments
    try:
        tool.bind(sent)
        fits = True
    except ArgumentError:
        fits = False
    own = made.composition.has("repaired", "call_tool", *AGENTS)
    if not own:
        assert fits == plan.fits, f"bind says {fits} to {plan}"
    text = sent if isinstance(sent, str) else json.dumps(sent)
    if fits:
        watch = tool.watch()
        pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
        assert all(watch.feed(piece) is None for piece in pieces), f"watch refuses {text}"
    nulls = (
        made.composition.sent.get("count", 0) is None
    )  # Taken for the default, and not published.
    if plan.form == "strict" or (plan.form == "plain" and not nulls):
        schema = tool.schema.parameters if plan.form == "strict" else tool.schema.plain
        jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator)


def check_spilled(made, result, context):
    """Check that a result that is kept aside keeps its labels, its redaction and its owner."""
    kept = re.search(r"kept as (\S+):", "" if isinstance(result, Tripwire) else result.text)
    if made.world.spill is None or kept is None:
        return
    call = ToolCall(name="read_result", arguments={"handle": kept[1]}, id="r")
    read = asyncio.run(made.world.spill.tools.call(call, context))
    assert read.success and labels_of(result) <= labels_of(read), f"of {result} is read {read}"
    assert asyncio.run(made.world.spill.tools.call(call, Context())).is_error
    if any("redact" in level.outputs for level in made.levels):
        assert PIECE not in read.text


def said(result):
    """What a result says, without what differs each time."""
    if isinstance(result, Tripwire):
        return "Tripwire"
    text = re.sub(r"kept as \S+:", "", result.text)
    return text, result.error and result.error.type


def send(made, call, context):
    """Make a call through the door of the composition."""
    tool, door = made.tools[-1], made.composition.door
    tools = Toolset([tool])
    try:
        if door == "invoke":
            return asyncio.run(tool.invoke(call, context))
        if door == "call":
            return asyncio.run(tools.call(call, context))
        if door == "call_all":
            [result] = asyncio.run(tools.call_all([call], context))
            return result
        return tools.call_sync(call, context)
    except Tripwire as tripwire:
        return tripwire


def attempts_of(made, plan, context):
    """Make a call, and make it again while it waits for a person. Return the steps and the results."""
    world, policy, before = made.world, made.composition.policy, deepcopy(plan.call)
    attempts = []
    for _ in range(8):  # Each level may wait once, and once more for an edit.
        world.steps, world.shown = [], []
        result = send(made, plan.call, context)
        attempts.append((world.steps, result))
        assert plan.call == before, "the call was changed"
        if (
            isinstance(result, Tripwire)
            or not result.error
            or result.error.type != "ApprovalRequired"
        ):
            return attempts
        request = result.metadata["approval"]
        decision = world.decide(request, policy)
        if decision.approved:
            context.approve(request, arguments=decision.arguments)
        else:
            context.deny(request, decision.reason)
    raise AssertionError(f"it asks again and again: {result}")


def laws_of_calls(composition, log):
    """Make the calls of a composition one after another, and check all laws."""
    world = World()
    try:
        made = Made(composition, world)
        approver = None if "later" in composition.policy else _approver(made)
        contexts = {True: Context(approver=approver), False: Context(approver=approver)}
        first = None
        for number, plan in enumerate(planned(composition, made.tools)):
            context, events = contexts[plan.kind != "elsewhere"], []
            undo = context.subscribe(events.append, debug=True)
            attempts = attempts_of(made, plan, context)
            undo()
            ran = [follow(made, plan, steps, (number, n)) for n, (steps, _) in enumerate(attempts)]
            if any(ran):
                made.decisions.clear()  # An approval is for one call.
            steps, result = attempts[-1]
            assert not world.faults, world.faults
            assert sum(ran) <= 1, "the body ran, and the call went on"
            check_result(made, plan, steps, result, events)
            check_shown(made, steps, world.shown)
            check_memory(made, plan, steps, result)
            check_notes(made, attempts)
            check_front(made, plan, steps)
            check_spilled(made, result, context)
            assert not any(PIECE in record.getMessage() for record in log), "the log has the secret"
            first = check_same(made, plan, first, result)
    finally:
        world.close()


def _approver(made):
    return lambda request: made.world.decide(request, made.composition.policy)


def check_same(made, plan, first, result):
    """Check that a call that comes again has the answer of the first one, by law 9."""
    if first is None:
        return result
    counts = any(
        GUARDS[g].rule({"text": ""}, {}) == COUNT for level in made.levels for g in level.inputs
    )
    # The inner calls of an agent have one id, and a journal refuses it with other arguments.
    journal = made.composition.has("once")
    broke_off = made.composition.body.outcome in ("CancelledError", "hangs")
    if (
        counts
        or journal
        and (broke_off or "other" in str(made.composition.again) or plan.kind == "elsewhere")
    ):
        return first
    if plan.kind in ("the same", "another id", "elsewhere"):
        assert said(result) == said(first), f"the first answer was {first}, and then {result}"
        if isinstance(first, ToolResult):
            assert labels_of(first) <= labels_of(result), (
                f"the labels of {first} are lost: {result}"
            )
    return first


def laws_of_a_turn(composition):
    """Make the calls of a composition at once, and check the laws of each of them."""
    if composition.body.outcome == "hangs":  # It sets the clock of all calls forward.
        return
    world = World()
    try:
        made = Made(composition, world)
        plans = [
            replace(plan, call=replace(plan.call, id=f"t{n}"))
            for n, plan in enumerate(planned(composition, made.tools))
        ]
        ROOT.set("")
        calls = [plan.call for plan in plans]
        before = deepcopy(calls)
        try:
            work = Toolset([made.tools[-1]]).call_all(calls, Context(approver=_approver(made)))
            results = asyncio.run(work)
        except Tripwire:
            return
        assert [result.call_id for result in results] == [call.id for call in calls]
        assert calls == before and not world.faults
        steps = {plan.call.id: [s for s in world.steps if s.root == plan.call.id] for plan in plans}
        assert sum(map(len, steps.values())) == len(world.steps), "a step of no call"
        check_totals(made, world.steps)
        # The order in which they count and store is open, so `check_totals` looks at all together.
        made.may_answer = lambda step: (
            made.stores(step.level, "once") or made.stores(step.level, "cached")
        )
        made.lets_through = lambda name, step, attempt: attempt is not None
        for plan, result in zip(plans, results, strict=True):
            mine = steps[plan.call.id]
            made.decisions.clear()
            made.stored.clear()
            follow_in_a_turn(made, plan, mine)
            check_result(made, plan, mine, result)
            check_shown(made, mine, [s for s in world.shown if s.root == plan.call.id])
    finally:
        world.close()


def follow_in_a_turn(made, plan, steps):
    """Check the steps of a call. Which of several calls a limit refuses is open."""
    last = next((step for step in reversed(steps) if step.kind == "saw"), None)
    ran = any((step.kind, step.level) == ("ran", 0) for step in steps)
    if last is not None and not ran and last.at < len(made.levels[last.level].inputs):
        name = made.levels[last.level].inputs[last.at]
        if GUARDS[name].rule(last.arguments, last.labels) == COUNT:
            made.lets_through = lambda name, step, attempt: step is not last
    follow(made, plan, steps, ())
    made.lets_through = lambda name, step, attempt: True


def check_totals(made, steps):
    """Check the limits of calls, and that a journal runs a body once, for all calls together."""
    passed, ran, last = {}, Counter(), {}
    for step in steps:
        if step.kind == "ran":
            ran[step.level, last[step.root].call_id] += 1
        elif step.kind == "saw":
            last[step.root] = step
            name = made.levels[step.level].inputs[step.at - 1] if step.at else ""
            key = {
                "budget": (name, id(step.state)),
                "budget of a tool": (name, step.tool),
                "rate_limit": (name, step.tool),
                "rate_limit of a context": (name, step.tool, id(step.state)),
            }.get(name)
            passed.setdefault(key, set()).add((step.root, step.level))
    passed.pop(None, None)
    assert all(len(calls) <= MOST for calls in passed.values()), f"too many calls: {passed}"
    broke_off = made.composition.body.outcome in ("CancelledError", "hangs")
    for (base, _), times in ran.items():
        if made.stores(base, "once") and not (broke_off or made.asks_below(base)):
            assert times == 1, f"the journal let the body of {base} run {times} times"


@pytest.fixture(scope="module")
def log():
    """The records of functool's logger, which nobody else gets meanwhile: one has a traceback."""
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("functool")
    level, logger.propagate = logger.level, False
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    yield records
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = True


@settings(max_examples=FEW)
@given(compositions())
def test_calls_keep_the_laws(log, composition):
    """Calls of any composition, one after another, keep every law."""
    log.clear()
    laws_of_calls(composition, log)


@settings(max_examples=FEW)
@given(compositions())
def test_the_calls_of_a_turn_keep_the_laws(log, composition):
    """Calls of any composition at the same time keep the laws."""
    laws_of_a_turn(composition)


MAIL = Body(settings=ToolSettings(untrusted=True, read_only=True))
STORED = [["caller of text"], ["cached"], ["around with a result"]]
LONG = Body(outcome="long text", settings=ToolSettings(untrusted=True))


def of(*levels, **more):
    """A composition of these levels: each a layer, its input guardrails and its output guardrails."""
    return Composition([Level(*level) for level in levels], **more)


def loses_labels(trip, result):
    return result


def forgets(*given, **more):
    """Do nothing."""


async def asks_nobody(trip, guardrails):
    for number in range(len(guardrails) // 2 + 1):
        guardrails[2 * number](trip.call, trip.view)


def always(answer):
    return lambda *given, **more: answer


@pytest.mark.parametrize(
    ("broken", "instead", "composition", "law"),
    [
        (
            "functool.trip.Trip.with_labels",
            loses_labels,
            of(["body"], *STORED, body=MAIL, again=["the same"]),
            "the labels .* are lost",
        ),
        (
            "functool.guardrails.labels.with_labels_of",
            lambda result, new: new,
            of(["body", [], ["a new result", "spill"]], body=LONG),
            "lacks {'body'}",
        ),
        (
            "functool.trip.Trip.ask_input",
            asks_nobody,
            of(["body", ["block"]], ["wrapper"], sent={"text": "bad"}),
            "block had to refuse",
        ),
        (
            "functool.trip.Trip.ask_input",
            asks_nobody,
            of(["body", ["require_approval"]]),
            "nobody has approved",
        ),
        (
            "functool.trip.refuse_changed",
            forgets,
            of(["body", ["in place"]]),
            "in place had to refuse",
        ),
        (
            "functool.context.Context.use_decision",
            always(Decision(approved=True)),
            of(["body", ["require_approval"]], policy="no"),
            "nobody has approved",
        ),
        (
            "functool.guardrails.text._replace_matches",
            lambda patterns, text: text,
            of(["body", [], ["redact"]], body=Body(outcome="contents")),
            "the secret is shown",
        ),
        (
            "functool.layers.journal_once.key_of",
            lambda run, tool, id: f"{run} {time.monotonic_ns()}",
            of(["body"], ["once"], again=["the same"]),
            "the journal let a body run again",
        ),
        (
            "functool.layers.cache._canonical",
            always(""),
            of(["body"], ["cached"], body=MAIL, again=["other text"]),
            "ended without a reason",
        ),
        (
            "functool.guardrails.calls._counting",
            lambda count, per: forgets,
            of(["body", ["budget"]], again=["another id"] * 2),
            "budget let too many calls through",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_laws_can_fail(log, monkeypatch, broken, instead, composition, law):
    """A law is broken where a part of functool does not do its work."""
    log.clear()
    laws_of_calls(composition, log)
    monkeypatch.setattr(broken, instead)
    with pytest.raises(AssertionError, match=law):
        laws_of_calls(composition, log)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(compositions())
def test_many_calls_keep_the_laws(log, composition):
    """Many more compositions keep the laws, as `FUNCTOOL_COMBINATIONS` says."""
    log.clear()
    laws_of_calls(composition, log)
    laws_of_a_turn(composition)
