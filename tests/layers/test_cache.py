"""`cached`: answers of read-only tools, kept for a time."""

import asyncio
import os
import pickle
import threading

import pytest

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSettings,
    Tripwire,
    WrapperTool,
)
from functool.guardrails import budget, require_approval
from functool.layers.catalog import Catalog
from tests.support import call, foreign, in_threads, mail_readers, python

cache = pytest.importorskip("functool.layers.cache", exc_type=ImportError)
cached = cache.cached

READ_ONLY = ToolSettings(read_only=True)


def counting(value=None, **options):
    """A read-only tool, and the list of its runs."""
    runs = []

    def look(a: float = 1, b: str = "x", c: list[int] | None = None) -> object:
        runs.append((a, b, c))
        if isinstance(value, BaseException):
            raise value
        return value if value is not None else {"n": len(runs)}

    return FunctionTool(look, settings=READ_ONLY, **options), runs


def kept(value=None, **options):
    """The same tool with a cache of a minute, the list of its runs, and a context."""
    tool, runs = counting(value)
    return cached(tool, 60, **options), runs, Context()


def test_a_context_with_kept_answers_is_pickled_without_them():
    """A host can store a context, whatever the answers hold, also while a call runs. The next one runs anew."""

    class Local:
        pass

    tool, runs, context = kept(Local())
    stored = []

    @FunctionTool(settings=READ_ONLY)
    def storing() -> None:
        stored.append(pickle.dumps(context))

    call(tool, {"a": 2}, context)
    call(cached(storing, 60), {}, context)
    call(tool, {"a": 2}, pickle.loads(stored[0]))

    assert len(runs) == 2


def test_an_equal_call_is_answered_from_the_cache():
    """The second of two equal calls runs no body, has its own id, and says that it is stored."""
    tool, runs, context = kept()
    first, second = call(tool, {"a": 2}, context, "1"), call(tool, {"a": 2}, context, "2")

    assert (first.value, second.value) == ({"n": 1}, {"n": 1})
    assert (first.call_id, second.call_id) == ("1", "2")
    assert "cached" not in first.metadata
    assert second.metadata["cached"] is True
    assert second.text == '{"n":1}'
    assert len(runs) == 1


def test_spellings_of_one_call():
    """Order, spaces, defaults that are sent, null for a default and 2.0 for 2 are one call."""
    tool, runs, context = kept()
    for arguments in (
        {"a": 2, "b": "x"},
        '{ "b" : "x" , "a" : 2 }',
        {"a": 2},
        {"a": 2.0},
        '{"a": 2, "c": null, "b": null}',
    ):
        assert call(tool, arguments, context).value == {"n": 1}

    assert len(runs) == 1


@pytest.mark.parametrize("other", [{"a": 3}, {"b": "y"}, {"c": []}, {"a": -1}, {"a": 1.5}])
def test_other_calls_are_others(other):
    """Calls with other arguments run."""
    tool, runs, context = kept()
    call(tool, {}, context)
    call(tool, other, context)

    assert len(runs) == 2


def test_true_is_not_one():
    """JSON values of different kinds are different calls."""
    runs = []
    tool = foreign({"properties": {"x": {}}}, lambda a: runs.append(a) or 1, settings=READ_ONLY)
    tool, context = cached(tool, 60), Context()
    for value in (1, True, "1", [1], None, -0.0, 0):
        call(tool, {"x": value}, context)

    assert len(runs) == 7


def test_an_answer_expires(monkeypatch):
    """After its seconds an answer is gone."""
    now = [0.0]
    monkeypatch.setattr(cache.time, "monotonic", lambda: now[0])
    tool, runs, context = kept()
    for at in (0, 59, 61):
        now[0] = at
        call(tool, {}, context)

    assert len(runs) == 2


def test_the_oldest_go_first():
    """At most `maxsize` answers are kept."""
    tool, runs, context = kept(maxsize=2)
    for a in (1, 2, 3, 1):
        call(tool, {"a": a}, context)

    assert [run[0] for run in runs] == [1, 2, 3, 1]


def test_whose_answers():
    """Answers belong to a context and its views, unless they are the process's."""
    own, runs = counting()
    shared, shared_runs = counting()
    own, shared = cached(own, 60), cached(shared, 60, per="process")
    one, other = Context("ann"), Context("bob")
    for context in (one, one.view(deps="carl"), other):
        call(own, {}, context)
        call(shared, {}, context)
    call(own)
    call(own)
    call(shared)

    assert len(runs) == 4
    assert len(shared_runs) == 1


def test_guardrails_run_for_a_stored_answer():
    """A budget counts stored answers, and each call is approved on its own."""
    tool, runs = counting(input_guardrails=[require_approval(), budget(calls=2)])
    asked = []
    context = Context(approver=lambda request: asked.append(request) or True)
    tool = cached(tool, 60)
    results = [call(tool, {}, context) for _ in range(3)]

    assert [result.success for result in results] == [True, True, False]
    assert len(asked) == 3
    assert len(runs) == 1
    assert call(tool, {}, Context()).error.type == "ApprovalRequired"


def test_failures_are_not_kept():
    """After a failure the next call runs."""
    tool, runs = counting(ConnectionError("down"))
    failing, failed = counting(ToolResult.failed("no"))
    context = Context()
    tool, failing = cached(tool, 60), cached(failing, 60)
    for _ in range(2):
        assert call(tool, {}, context).text == "ConnectionError: down"
        assert call(failing, {}, context).text == "no"

    assert (len(runs), len(failed)) == (2, 2)


def slow(outcome):
    """A read-only async tool, its runs, and the event that lets it end."""
    runs, go = [], asyncio.Event()

    async def look() -> object:
        runs.append(1)
        await go.wait()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return FunctionTool(look, settings=READ_ONLY), runs, go


@pytest.mark.parametrize("outcome", [{"n": 1}, ValueError("bad"), ToolResult.failed("no")])
def test_parallel_equals_run_once(outcome):
    """Of equal calls at one time one runs, and all get its answer."""

    async def main():
        tool, runs, go = slow(outcome)
        tools = Toolset([cached(tool, 60)])
        turn = asyncio.ensure_future(
            tools.call_all([ToolCall(name="look", id=str(n)) for n in range(20)], Context())
        )
        await asyncio.sleep(0.01)
        go.set()
        return await turn, runs

    results, runs = asyncio.run(main())

    assert len(runs) == 1
    assert [result.call_id for result in results] == [str(n) for n in range(20)]
    assert len({result.text for result in results}) == 1


def test_a_cancelled_call_takes_nobody_along():
    """When the running call is cancelled the next one runs; a waiting one that is cancelled stops nobody."""

    async def main():
        tool, runs, go = slow("done")
        tool, context = cached(tool, 60), Context()
        first, second, third = (
            asyncio.ensure_future(tool.invoke(ToolCall(name="look"), context)) for _ in range(3)
        )
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0.01)
        go.set()
        others = await asyncio.gather(first, second, return_exceptions=True)
        return (await third).value, runs, others

    value, runs, others = asyncio.run(main())

    assert (value, len(runs)) == ("done", 2)
    assert all(isinstance(other, asyncio.CancelledError) for other in others)


def test_a_tripwire_of_the_body_is_not_shared():
    """What stops one run stops no other one."""
    tool, runs, context = kept(Tripwire("stop"))
    for _ in range(2):
        with pytest.raises(Tripwire):
            call(tool, {}, context)

    assert len(runs) == 2


def test_threads_share_one_flight():
    """Equal calls from loops on several threads run one body."""
    runs, go = [], threading.Event()

    def look() -> str:
        runs.append(1)
        go.wait(60)
        return "done"

    tools = Toolset([cached(FunctionTool(look, settings=READ_ONLY), 60, per="process")])
    threading.Timer(0.05, go.set).start()  # Whoever comes later is answered all the same.
    results = in_threads(5, lambda: tools.call_sync(ToolCall(name="look")))

    assert [result.value for result in results] == ["done"] * 5
    assert len(runs) == 1


def test_nobody_changes_a_stored_answer():
    """Code that changes a value it got changes no other call's."""
    tool, _, context = kept()
    call(tool, {}, context).value["n"] = "changed"
    call(tool, {}, context).value["n"] = "changed again"

    assert call(tool, {}, context).value == {"n": 1}


def test_what_cannot_be_copied_is_not_kept():
    """A value that cannot be copied is answered, and runs anew the next time."""
    tool, runs, context = kept(threading.Lock())

    assert call(tool, {}, context).success
    assert call(tool, {}, context).success
    assert len(runs) == 2


def test_the_kind_that_came_in():
    """A tool gives a tool, a toolset a toolset with its limit, a tuple a tuple, any other iterable a list."""
    tool, runs = counting()
    other = WrapperTool(tool, name="other")
    tools = cached(Toolset([tool, other], max_concurrency=2), 60)

    assert isinstance(cached(tool, 60), FunctionTool)
    assert (type(tools), list(tools), tools.max_concurrency) == (Toolset, ["look", "other"], 2)
    assert isinstance(cached((tool,), 60), tuple)
    assert isinstance(cached(iter([tool]), 60), list)
    context = Context()
    for name in ("look", "other", "look", "other"):
        assert asyncio.run(tools.call(ToolCall(name=name), context)).success
    assert len(runs) == 2
    assert tool is not tools["look"]
    call(tool, {}, context)
    assert len(runs) == 3


def test_a_fixed_catalogue_can_be_cached():
    """Around `call_tool` the inner calls are cached, each tool's own."""
    one, runs = counting()
    two = WrapperTool(one, name="two")
    tools, context = cached(Catalog([one, two]).fixed(), 60), Context()
    for name in ("look", "two", "look", "two"):
        asyncio.run(tools.call(ToolCall(name="call_tool", arguments={"name": name}), context))

    assert len(runs) == 2


@pytest.mark.parametrize("settings", [ToolSettings(), ToolSettings(read_only=False)])
def test_only_read_only_tools(settings):
    """A tool that does not say that it is read-only is refused."""
    tool = FunctionTool(lambda: 1, name="write", settings=settings)

    with pytest.raises(DefinitionError, match="'write' cannot be cached: its settings do not say"):
        cached([tool], 60)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [((0,), {}), ((-1,), {}), (("60",), {}), ((True,), {}), ((60, 0), {}), ((60, 2.5), {}),
     ((60,), {"per": "user"})],
)  # fmt: skip
def test_mistakes_are_refused_at_definition(arguments, options):
    """Times, sizes and scopes that are none are the author's errors."""
    with pytest.raises(DefinitionError):
        cached(counting()[0], *arguments, **options)


def test_a_missing_extra_says_what_to_install():
    """Without cachetools the import names the extra."""
    code = "import sys; sys.modules['cachetools'] = None; import functool.layers.cache"
    done = python(code)

    assert "pip install 'functool[cache]'" in done.stderr


def test_a_stream_is_judged_through_a_cache():
    """A cache hands arguments on as they come, so a wrong one is refused while it is written."""

    @FunctionTool(settings=ToolSettings(read_only=True))
    def look(number: int) -> int:
        return number

    assert "number" in str(cached(look, 60).watch().feed('{"number": ['))
    assert cached(look, 60).watch().feed('{"number": 3}') is None


def test_an_answer_from_the_cache_keeps_the_labels_of_inner_calls():
    """A cached text, and an error that equal calls share, come from the untrusted tool as well."""
    context = Context()
    digest, fail = (cached(tool, 60) for tool in mail_readers(read_only=True))

    async def twice(tool):
        calls = [ToolCall(name=tool.name, id=id) for id in "12"]
        return await asyncio.gather(*(tool.invoke(each, context) for each in calls))

    for tool in (digest, fail):
        assert [r.metadata["sources"] for r in asyncio.run(twice(tool))] == [["mail"]] * 2
    again = call(digest, {}, context)
    assert again.metadata == {"cached": True, "sources": ["mail"]}


@pytest.mark.parametrize(("items", "beside"), [(10, False), (20_000, True)])
def test_a_large_result_is_copied_beside_the_event_loop(items, beside):
    """A result with many values is copied on another thread, when it is stored and at each hit."""
    used = []

    class Watched(dict):
        def __deepcopy__(self, memo):
            used.append(threading.get_ident() != here)
            return Watched(self)

    here = threading.get_ident()
    tool, runs = counting([*range(items), Watched(a=1)])
    tools, context = Toolset([cached(tool, 60)]), Context()

    async def main():
        return [await tools.call(ToolCall(name="look"), context) for _ in range(3)]

    first, *hits = asyncio.run(main())

    assert [hit.value for hit in hits] == [first.value] * 2
    assert len(runs) == 1
    assert used == [beside] * 3


def test_a_value_that_cannot_be_counted_is_cached():
    """A value that raises when somebody looks into it is a result all the same."""

    class Closed(dict):
        def values(self):
            raise RuntimeError("closed")

    tool, runs, context = kept(ToolResult(value=Closed(a=1)))
    first, second = call(tool, {}, context), call(tool, {}, context)

    assert (first.value, second.value) == ({"a": 1}, {"a": 1})
    assert second.metadata["cached"] is True
    assert len(runs) == 1


FORK = """
import asyncio, os, threading
from functool import FunctionTool, ToolCall, Toolset, ToolSettings
from functool.layers.cache import cached

runs, going_on = threading.Event(), threading.Event()

def look():
    runs.set()
    going_on.wait(60)
    return os.getpid()

tools = Toolset([cached(FunctionTool(look, settings=ToolSettings(read_only=True)), 60, per="process")])

async def main():
    calls = [ToolCall(name="look")] * 2
    results = await asyncio.wait_for(tools.call_all(calls), 30)
    return [result.value == os.getpid() for result in results]

first = threading.Thread(target=lambda: asyncio.run(main()))
first.start()
runs.wait(60)
child = os.fork()
if child == 0:
    going_on.set()
    print(asyncio.run(main()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
going_on.set()
first.join()
print(asyncio.run(main()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_does_not_wait_for_a_call_of_its_parent():
    """A call that ran in the parent during the fork runs again in the child."""
    done = python(FORK)

    assert done.stdout == "[True, True]\n" * 2, done.stderr


@pytest.mark.parametrize(("items", "beside"), [([[]], False), ([[]] * 20_000, True)])
def test_the_key_of_a_large_call_is_made_in_a_thread(monkeypatch, items, beside):
    """The event loop makes the key of a call itself only if its arguments are not large."""
    seen, canonical = [], cache._canonical

    def noting(arguments):
        seen.append(threading.current_thread().name)
        return canonical(arguments)

    monkeypatch.setattr(cache, "_canonical", noting)

    @FunctionTool(settings=READ_ONLY)
    async def take(items: list[object]) -> int:
        return len(items)

    assert call(cached(take, 60), {"items": items}).value == len(items)
    assert [name == "functool" for name in seen] == [beside]
