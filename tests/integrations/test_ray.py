"""Tools on a real Ray cluster, whose workers and machines are killed."""

import asyncio
import os
import signal
import time
from contextlib import suppress

import pytest

pytest.importorskip("ray", reason="ray is not installed: make test-engines")
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_TOOLS_HOST"] = "1"

import ray

from functool import (
    Context,
    DefinitionError,
    FunctionTool,
    ToolCall,
    Toolset,
    Tripwire,
    WrapperTool,
)
from functool.executors import in_thread
from functool.guardrails import require_approval
from functool.integrations.ray import on_ray
from functool.layers.journal import Journal
from tests.integrations import ray_tools
from tests.support import until

MEMORY = 80_000_000  # Bytes; the least that Ray takes is 75 MiB.
TOOLS = Toolset(tool for tool in vars(ray_tools).values() if isinstance(tool, FunctionTool))


@pytest.fixture(scope="module")
def cluster():
    ray.init(
        num_cpus=4,
        resources={"printer": 1},
        object_store_memory=MEMORY,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"RAY_TOOLS_HOST": ""}},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def tools(cluster):
    """All tools, on two actors."""
    return on_ray(TOOLS, actors=2, chunk=10)


def call(tool, id="1", /, **arguments):
    return ToolCall(name=tool, arguments=arguments, id=id)


def told(folder):
    """What a body told, and the processes that it told it from."""
    path = folder / "told"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[0] for line in lines], [int(line.split()[1]) for line in lines]


async def ended(task):
    """Cancel a task, and wait for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_a_call_runs_on_a_worker(tools):
    """The body runs in another process, and its value comes back under the id of the call."""
    result = tools.call_sync(call("add", "7", a=1))

    assert (result.value, result.text, result.call_id) == (3, "3", "7")
    assert tools.call_sync(call("where")).value != os.getpid()


def test_arguments_arrive_as_they_were_sent(tools):
    """Aliases and variable arguments pass two validations."""
    arguments = {"from": 1, "more": [2, 3], "key": "v"}
    result = tools.call_sync(ToolCall(name="joined", arguments=arguments))

    assert result.text == "1 (2, 3) {'key': 'v'}"


def test_a_turn_is_spread_over_the_workers(tools):
    """Many calls run on all actors, each answer in its place, in more than one chunk."""
    calls = [call("add", str(i), a=i) for i in range(200)]
    places = tools.call_all_sync([call("where", str(i)) for i in range(40)])

    assert [result.value for result in tools.call_all_sync(calls)] == [i + 2 for i in range(200)]
    assert len({result.value for result in places}) == 2


def test_a_slow_call_holds_back_no_other(tools, tmp_path):
    """The answers of a chunk come as they are ready."""

    async def main():
        waiting = asyncio.create_task(tools.call(call("slow", folder=str(tmp_path), seconds=60)))
        quick = await tools.call_all([call("add", str(i), a=i) for i in range(30)])
        await ended(waiting)
        return quick, waiting.cancelled()

    quick, was_waiting = asyncio.run(main())

    assert [result.value for result in quick] == [i + 2 for i in range(30)]
    assert was_waiting


def test_calls_of_one_event_loop_wait_for_no_other(cluster, tmp_path):
    """While one loop has as many calls at an actor as it may, another loop's call runs."""
    [slow, add] = on_ray([ray_tools.slow, ray_tools.add], chunk=1)

    async def run():
        tools = Toolset([slow, add])
        paths = [str(tmp_path / name) for name in "ab"]
        for path in paths:
            os.mkdir(path)
        long = [
            asyncio.create_task(tools.call(call("slow", path, folder=path, seconds=60)))
            for path in paths
        ]
        await until(lambda: all(told(tmp_path / name)[0] for name in "ab"))
        answered = await in_thread(tools.call_sync, call("add", a=1))
        for task in long:
            await ended(task)
        return answered

    assert asyncio.run(asyncio.wait_for(run(), 60)).value == 3


def test_failures_are_results(tools):
    """What a body raises, and what the worker's guardrails refuse, comes back as it would without Ray."""
    failed = tools.call_sync(call("fail"))
    refused = tools.call_sync(call("guarded", how="refuse"))

    assert (failed.error.type, failed.error.message) == ("KeyError", "KeyError: 'secret'")
    assert (refused.error.type, refused.text) == ("GuardrailError", "not here")


def test_a_tripwire_stops_the_run_of_the_host(tools):
    """A tripwire on the worker leaves the host's call as one."""
    with pytest.raises(Tripwire, match="^stop$"):
        tools.call_sync(call("guarded", how="trip"))


def test_a_value_that_cannot_travel_goes_as_text(tools):
    """The result says so, and no other call suffers."""
    result = tools.call_sync(call("unpicklable"))

    assert result.text.startswith("<unlocked _thread.lock")
    assert result.value == result.text
    assert result.metadata["ray"] == {"value_is_text": True}


@pytest.mark.parametrize("name", ["leave", "leave_in_time"])
def test_a_body_that_exits_fails_and_its_worker_stays(tools, name):
    """The call is answered, and so are the calls beside it and after it."""
    failed, other = tools.call_all_sync([call(name), call("add", "2", a=1)])

    assert failed.text == "RuntimeError: The tool tried to end its worker: SystemExit."
    assert (other.value, tools.call_sync(call("add", a=2)).value) == (3, 4)


def test_details_that_cannot_travel_go_as_json(tools):
    """The failure keeps what JSON can say of its details and gets no value, and the calls beside it have their own answers."""
    failed, other = tools.call_all_sync([call("fail_with_a_lock"), call("add", "2", a=1)])

    assert failed.value is None
    assert (failed.error.type, failed.error.message, other.value) == ("ToolError", "busy", 3)
    assert failed.error.details["tries"] == 2
    assert failed.error.details["lock"].startswith("<unlocked")


def test_a_value_that_cannot_travel_keeps_its_labels(tools):
    """Where the worker sends the text in place of the value, the untrusted tools that it came from go along."""
    result = tools.call_sync(call("unpicklable_page"))

    assert result.metadata == {"ray": {"value_is_text": True}, "sources": ["page"]}


def test_an_approval_of_the_host_counts_on_the_worker(tools):
    """A person is asked once; without one, the call is a pause, and runs once it is approved."""
    asked = []
    context = Context()
    agreeing = Context(approver=lambda request: asked.append(request) or True)
    result = tools.call_sync(call("pay", amount=3), agreeing)
    paused = tools.call_sync(call("pay", amount=4), context)
    context.approve(paused.metadata["approval"])

    assert (result.value, len(asked)) == ("paid 3", 1)
    assert paused.error.type == "ApprovalRequired"
    assert tools.call_sync(call("pay", amount=4), context).value == "paid 4"


def test_several_approvals_of_the_host_count_on_the_worker(tools):
    """Two guardrails ask once each, with different requests, and the call runs."""
    asked = []
    agreeing = Context(approver=lambda request: asked.append(request.sources) or True)
    result = tools.call_sync(call("send", to="Ada"), agreeing)

    assert result.value == "sent to Ada"
    assert asked == [{}, {"/to": ["the model"]}]


def test_an_approval_of_the_authors_own_is_no_pause(tools):
    """A result may have anything under `approval` in its metadata."""
    result = tools.call_sync(call("order"))

    assert (result.value, result.metadata) == ("ordered", {"approval": {"by": "Bo"}})


def test_cancelling_a_call_reaches_the_body(tools, tmp_path):
    """The body has cleaned up when the cancelled call ends."""

    async def main():
        task = asyncio.create_task(tools.call(call("slow", folder=str(tmp_path), seconds=60)))
        await until(lambda: told(tmp_path)[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert told(tmp_path)[0] == ["begun", "cancelled"]


def test_cancelling_a_call_again_and_again_reaches_the_body(tools, tmp_path):
    """anyio cancels in each round of the loop until the call has ended."""

    async def main():
        task = asyncio.create_task(tools.call(call("slow", folder=str(tmp_path), seconds=60)))
        await until(lambda: told(tmp_path)[0])
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        await until(lambda: told(tmp_path)[0] == ["begun", "cancelled"])

    asyncio.run(main())


def test_a_time_limit_reaches_the_body(tools, tmp_path):
    """The answer is a time-out, and the body was cancelled."""
    result = tools.call_sync(call("limited", folder=str(tmp_path), seconds=60))

    assert result.error.type == "ToolTimeoutError"
    assert told(tmp_path)[0] == ["begun", "cancelled"]


def lose_the_worker(tools, name, folder, context=None):
    """Make a call, kill its worker in mid-call, and return the answer."""

    async def main():
        made = call(name, folder=str(folder), seconds=60)
        task = asyncio.create_task(tools.call(made, context))
        await until(lambda: told(folder)[0])
        os.kill(told(folder)[1][0], signal.SIGKILL)
        return await task

    return asyncio.run(main())


def test_a_lost_worker_is_an_error(tools, tmp_path):
    """The call did not run again, says what is unknown, and the next calls find workers."""
    result = lose_the_worker(tools, "slow", tmp_path)

    assert result.error.type == "WorkerLost"
    assert "unknown whether this call took effect" in result.text
    assert told(tmp_path)[0] == ["begun"]
    results = tools.call_all_sync([call("add", a=i) for i in range(20)])
    assert [result.value for result in results] == [i + 2 for i in range(20)]


def test_an_idempotent_tool_runs_again(tools, tmp_path):
    """Where running twice is harmless, the loss of a worker is not seen."""
    result = lose_the_worker(tools, "repeatable", tmp_path)

    assert result.value == "done"
    assert told(tmp_path)[0] == ["begun", "begun"]
    assert len(set(told(tmp_path)[1])) == 2


def test_an_approval_inside_of_an_idempotent_body_is_used_once(tools, tmp_path):
    """The body runs again, and its call that a person approved has been made on the lost worker."""
    agreeing = Context(approver=lambda request: True)
    result = lose_the_worker(tools, "around_approved", tmp_path, agreeing)

    assert "its call 'inner' of approved again, which may have run" in result.text
    assert told(tmp_path)[0] == ["begun"]


@pytest.mark.parametrize("recorded", [False, True], ids=["alone", "in a journal"])
def test_each_attempt_of_a_call_has_the_same_key(tools, tmp_path, recorded):
    """A service that knows the key takes the second attempt for the first; another call has another key."""
    if recorded:
        tools = Journal(tmp_path / "calls.journal").once(tools, run="r")

    assert lose_the_worker(tools, "keyed", tmp_path).value == "done"
    tools.call_sync(call("keyed", "2", folder=str(tmp_path), seconds=0))

    first, second, other = (tmp_path / "keys").read_text().splitlines()
    assert first == second != other
    assert not recorded or (first, other) == ("r/keyed/1", "r/keyed/2")


def test_a_call_whose_worker_was_lost_is_unknown_to_a_journal(tools, tmp_path):
    """An operator finds the call, and the same call does not run again."""
    journal = Journal(tmp_path / "calls.journal")
    recorded = journal.once(tools, run="r")

    assert lose_the_worker(recorded, "slow", tmp_path).error.type == "WorkerLost"

    again = recorded.call_sync(call("slow", folder=str(tmp_path), seconds=60))
    assert again.error.type == "OutcomeUnknown"
    assert [entry.state for entry in journal.calls()] == ["unknown"]


def test_a_call_that_was_interrupted_on_its_worker_is_unknown_to_a_journal(tools, tmp_path):
    """What happened there may have had its effect, as after the loss of the worker."""
    journal = Journal(tmp_path / "calls.journal")
    recorded = journal.once(tools, run="r")

    assert recorded.call_sync(call("interrupted")).error.message == "The process died."
    assert recorded.call_sync(call("interrupted")).error.type == "OutcomeUnknown"
    assert [entry.state for entry in journal.calls()] == ["unknown"]


def test_dependencies_are_made_once_in_each_worker(cluster):
    """A named factory makes the `deps` of contexts where the body runs."""
    [tool] = on_ray([ray_tools.made_in], deps="tests.integrations.ray_tools:make_deps")
    first, second = (Toolset([tool]).call_sync(call("made_in")).value for _ in range(2))

    assert first == second
    assert first[0] == first[1] != os.getpid()


@pytest.mark.parametrize("name", ["fail_to_make_deps", "nothing"])
def test_dependencies_that_cannot_be_made_are_said(cluster, name):
    """Nothing is run, and the answer says why."""
    tool = on_ray(ray_tools.add, deps=f"tests.integrations.ray_tools:{name}")
    result = Toolset([tool]).call_sync(call("add", a=1))

    assert result.text.startswith("The call was not run: the worker could not load the tools")
    assert "no database" in result.text or "nothing" in result.text


def test_a_tool_that_the_workers_do_not_know_is_said(tools):
    """Workers with another version of the code run the other calls of the chunk."""
    calls = [call("add", "1", a=1), call("before", "2"), call("add", "3", a=3)]
    first, unknown, last = tools.call_all_sync(calls)

    assert (first.value, last.value) == (3, 5)
    assert unknown.text.startswith("The call was not run") and "before" in unknown.text


def test_a_tool_has_resources_of_its_own(cluster):
    """An actor that runs it takes what it needs, and the others do not."""
    tools = on_ray(
        Toolset([ray_tools.resources, ray_tools.add]),
        resources={"resources": {"printer": 1, "num_cpus": 0}},
    )

    assert tools.call_sync(call("resources")).value == {"printer": 1.0}
    assert tools.call_sync(call("add", a=1)).value == 3


def test_sync_bodies_run_side_by_side(tools):
    """Bodies of sync functions do not hold up the worker."""

    async def main():
        long = asyncio.create_task(tools.call(call("blocking", seconds=60)))
        await asyncio.sleep(0)
        short = await tools.call_all([call("blocking", str(i), seconds=0) for i in range(8)])
        done = long.done()
        await ended(long)
        return [result.value for result in short], done

    assert asyncio.run(main()) == ([0.0] * 8, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"actors": 0}, "actors must be a positive int"),
        ({"chunk": True}, "chunk must be a positive int"),
        ({"deps": "no.function"}, "deps must be"),
        ({"resources": {"other": {}}}, "resources are for no tool: other"),
    ],
)
def test_options_are_checked_at_once(cluster, options, words):
    """An option that cannot be right is the author's error."""
    with pytest.raises(DefinitionError, match=words):
        on_ray(ray_tools.add, **options)


def test_a_tool_that_cannot_travel_is_refused(cluster):
    """A worker could not find a local function; the error says where to define it."""

    @FunctionTool
    def local() -> None: ...

    with pytest.raises(DefinitionError, match="'local' cannot go to another machine.*top level"):
        on_ray(local)


def test_a_wrapper_that_cannot_travel_is_refused(cluster):
    """A wrapper travels with its guardrails; the error says to wrap what `on_ray` returns, and that works."""
    asked = WrapperTool(ray_tools.add, input_guardrails=[require_approval()])
    with pytest.raises(DefinitionError, match="put wrappers around what on_ray returns"):
        on_ray(asked)

    outside = WrapperTool(on_ray(ray_tools.add), input_guardrails=[require_approval()])
    given = ToolCall(name="add", arguments={"a": 1})
    result = asyncio.run(outside.invoke(given, Context(approver=lambda request: True)))
    assert result.value == 3


def test_the_same_kind_comes_back(cluster):
    """A tool, a list, a tuple and a toolset stay what they are; an iterator gives a list."""
    assert isinstance(on_ray(ray_tools.add), FunctionTool)
    assert [tool.name for tool in on_ray([ray_tools.add])] == ["add"]
    assert [type(on_ray(given)) for given in ([], (), iter(()))] == [list, tuple, list]
    assert on_ray(Toolset([ray_tools.add], max_concurrency=7)).max_concurrency == 7


def test_without_a_cluster_it_says_what_to_do(monkeypatch):
    """Ray is not started behind the user's back."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(DefinitionError, match="call ray.init"):
        on_ray(ray_tools.add)


def test_a_call_after_the_end_of_ray_is_an_error(tools, monkeypatch, caplog):
    """The call is answered, nothing runs, and no second cluster is started."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    result = tools.call_sync(call("add", a=1))

    assert result.text == "The call of add was not run: no worker can be reached."
    assert "connect it" in caplog.text
    monkeypatch.undo()
    assert tools.call_sync(call("add", a=1)).value == 3


def test_a_call_that_ray_does_not_take_is_an_error(cluster, monkeypatch, caplog):
    """Ray raises errors of many kinds, as for an actor of another cluster: no call waits for ever."""
    tool = on_ray(ray_tools.add)
    assert Toolset([tool]).call_sync(call("add", a=1)).value == 3

    def raising(*args):
        raise Exception("Can't find actor")

    monkeypatch.setattr(ray.actor.ActorMethod, "remote", raising)
    results = Toolset([tool]).call_all_sync([call("add", str(i), a=i) for i in range(120)])

    told = {result.error.message for result in results}
    assert told == {"The call of add was not run: no worker can be reached."}
    monkeypatch.undo()
    assert Toolset([tool]).call_sync(call("add", a=1)).value == 3


def test_a_worker_that_was_lost_with_its_cluster_holds_back_no_call(cluster, monkeypatch, tmp_path):
    """A worker that cannot even be asked whether it is back gets the calls, so that they fail at once."""
    tools = Toolset([on_ray(ray_tools.slow)])
    assert lose_the_worker(tools, "slow", tmp_path).error.type == "WorkerLost"

    def raising(*args):
        raise Exception("Can't find actor")

    monkeypatch.setattr(ray.actor.ActorMethod, "remote", raising)
    result = tools.call_sync(call("slow", folder=str(tmp_path), seconds=60))

    assert result.text == "The call of slow was not run: no worker can be reached."


def test_more_calls_than_fit_run_while_the_others_get_ready(cluster):
    """A full chunk leaves at once, and every call is answered in its place."""
    tools = on_ray(Toolset([ray_tools.add], max_concurrency=None), actors=2, chunk=3)
    results = tools.call_all_sync([call("add", str(i), a=i) for i in range(100)])

    assert [result.value for result in results] == [i + 2 for i in range(100)]
    assert [result.call_id for result in results] == [str(i) for i in range(100)]


def test_a_result_keeps_all_that_it_has(tools):
    """What a model reads, what code reads and what the host reads arrive as they were."""
    result = tools.call_sync(call("shown", words="long"))

    assert (result.text, result.value, result.structured) == ("short", "long", None)
    assert result.metadata == {"cost": 3}
    many = tools.call_sync(call("pictures"))
    assert [content.media_type for content in many.output] == ["image/png", "image/png"]


@pytest.mark.slow
def test_a_machine_that_is_lost(tmp_path):
    """A node is killed in mid-call: the call is an error, and the next ones run on the other node."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": MEMORY},
    )
    try:
        first = nodes.add_node(num_cpus=1, object_store_memory=MEMORY)
        ray.init(address=nodes.address, log_to_driver=False)
        tools = on_ray(TOOLS)

        async def main():
            task = asyncio.create_task(tools.call(call("slow", folder=str(tmp_path), seconds=600)))
            await until(lambda: told(tmp_path)[0])
            nodes.add_node(num_cpus=1, object_store_memory=MEMORY)
            nodes.remove_node(first, allow_graceful=False)
            begun = time.monotonic()
            lost = await task
            noticed = time.monotonic() - begun
            return lost, await tools.call(call("add", a=1)), noticed, time.monotonic() - begun

        lost, result, noticed, back = asyncio.run(main())
        print(f"noticed after {noticed:.1f} s, back after {back:.1f} s")

        assert lost.error.type == "WorkerLost"
        assert result.value == 3
        assert told(tmp_path)[0] == ["begun"]
    finally:
        ray.shutdown()
        nodes.shutdown()
