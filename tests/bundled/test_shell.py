"""The shell tool, and what a plain `subprocess.run(shell=True)` would have let happen."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from examples import repair
from functool import DefinitionError, ToolCall, Toolset
from functool.bundled.shell import shell_tool
from functool.guardrails import block

BWRAP = shutil.which("bwrap")


def bwrap_works():
    """Whether bubblewrap can make a sandbox here; where it cannot, its tests say so."""
    probe = [BWRAP, *"--unshare-user --unshare-pid --disable-userns --ro-bind / / true".split()]
    return BWRAP is not None and subprocess.run(probe, capture_output=True).returncode == 0


WORKS = bwrap_works()
needs_bwrap = pytest.mark.skipif(
    not WORKS, reason="SANDBOX UNTESTED: bubblewrap is missing, or may not make namespaces here"
)


@pytest.fixture(params=[pytest.param("bwrap", marks=needs_bwrap), "none"])
def sandbox(request):
    """Each sandbox, and none."""
    return request.param


@pytest.fixture
def work(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    return work


@pytest.fixture
def outside(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("the secret")
    return outside


@pytest.fixture
def token():
    """A number of seconds that no other sleep on the machine has."""
    token = f"{3600 + secrets.randbelow(9)}.{secrets.randbelow(10**12):012}"
    yield token
    for pid in living(token):
        os.kill(pid, signal.SIGKILL)


def living(token):
    """The processes, zombies aside, whose command line holds the token."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if token.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def run(tool, command, **arguments):
    return Toolset([tool]).call_sync(
        ToolCall(name="shell", arguments={"command": command, **arguments})
    )


def plain(command, cwd, **options):
    """The plain implementation."""
    return subprocess.run(command, shell=True, cwd=cwd, capture_output=True, text=True, **options)


def overdue(attempt):
    """What an attempt at a time limit finds, the limit long enough for this machine, however busy it is, to begin the command."""
    for limit in (1, 4, 16, 64):
        if found := attempt(limit):
            break
    return found


def left_behind(command, cwd, token, least=1):
    """What is living after the plain implementation's time limit, once it is at least so many."""

    def attempt(limit):
        with pytest.raises(subprocess.TimeoutExpired):
            plain(command, cwd, timeout=limit)
        return len(living(token)) >= least

    return overdue(attempt)


def test_a_command(work, sandbox):
    """A command runs in the directory; its output is the answer, and the result says which sandbox ran."""
    result = run(
        shell_tool(work, sandbox=sandbox), "pwd; echo hello > made; cat made; echo problem >&2"
    )

    assert result.text == result.value == f"{work}\nhello\nproblem\n"
    assert dict(result.metadata) == {"sandbox": sandbox, "exit_code": 0, "truncated": False}
    assert (work / "made").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 3", 3), ("false", 1), ("kill -9 $$", 137), ("no-such-program", 127), ("-x", 127)],
)
def test_a_failing_command(work, sandbox, command, code):
    """A non-zero exit is an error that keeps the output and tells the code."""
    result = run(shell_tool(work, sandbox=sandbox), "echo before\n" + command)

    assert result.error.type == "CommandFailed"
    assert dict(result.error.details) == {"exit_code": code}
    assert result.error.message == f"The command ended with exit code {code}."
    assert result.output[0].text.startswith("before\n")
    assert result.metadata["sandbox"] == sandbox


def test_output_that_is_no_text(work, sandbox):
    """Bytes that are not UTF-8 come as replacement characters, also at the very end; a plain run raises."""
    command = r"printf 'a\377b\303'"

    assert run(shell_tool(work, sandbox=sandbox), command).value == "a�b�"
    with pytest.raises(UnicodeDecodeError):
        plain(command, work, encoding="utf-8")


@pytest.mark.parametrize("limit", [100, 1_000])
def test_both_ends_are_kept(work, sandbox, limit):
    """Of a long output the beginning and the end are kept, within the limit, with a marker between them."""
    result = run(
        shell_tool(work, sandbox=sandbox, max_output=limit),
        "echo first; yes | head -n 100000; echo last",
    )

    assert len(result.text) == limit
    assert result.text.startswith("first\ny\n")
    assert result.text.endswith("y\nlast\n")
    assert "characters left out" in result.text
    assert result.metadata["truncated"] is True


FLOOD = """
import subprocess, sys, tracemalloc
from functool import ToolCall, Toolset
from functool.bundled.shell import shell_tool

command = "head -c 300000000 /dev/zero | tr '\\\\0' 'x'"
tools = Toolset([shell_tool(sys.argv[1], sandbox=sys.argv[2] if sys.argv[2] != "plain" else "none", timeout=3_600)])
tracemalloc.start()
if sys.argv[2] == "plain":
    size = len(subprocess.run(command, shell=True, capture_output=True).stdout)
else:
    size = len(tools.call_sync(ToolCall(name="shell", arguments={"command": command})).unwrap())
print(size, tracemalloc.get_traced_memory()[1] // 1_000_000)
"""


# What Python allocates is counted, and not the peak of the process: the kernel begins that of a new program (ru_maxrss) with its parent's.
def flood(work, how):
    """The characters that a caller gets of 300 MB, and the most memory held meanwhile, in MB."""
    ran = subprocess.run(
        [sys.executable, "-c", FLOOD, str(work), how], capture_output=True, text=True, check=True
    )
    return tuple(map(int, ran.stdout.split()))


def test_a_flood_costs_megabytes(work, sandbox):
    """Three hundred megabytes of output are read to their end in a few megabytes."""
    size, megabytes = flood(work, sandbox)

    assert size == 60_000
    assert megabytes < 32


def test_a_plain_flood(work):
    """The control: a plain run keeps all of it."""
    assert flood(work, "plain")[1] > 280


def test_what_stays_behind_is_ended(work, sandbox, token):
    """What a command leaves in the background, holding the output or not, is dead when the answer comes."""
    command = f"sleep {token} & sleep {token} >/dev/null 2>&1 & echo started"
    result = run(shell_tool(work, sandbox=sandbox), command)

    assert result.value == "started\n"
    assert living(token) == []
    assert left_behind(command, work, token)


@needs_bwrap
def test_the_answer_waits_for_the_last(work, token):
    """Hundreds of processes left behind are dead when the answer comes, not a moment later."""
    for _ in range(5):
        result = run(
            shell_tool(work, timeout=600),
            f"for i in $(seq 300); do setsid sleep {token} >/dev/null 2>&1 & done",
        )
        assert (result.error, living(token)) == (None, [])


def test_the_time_limit_ends_everything(work, sandbox, token):
    """At the time limit a whole group that ignores polite signals is dead; a plain run ends the shell alone."""
    command = f"trap '' TERM INT HUP; for i in 1 2 3 4 5 6 7 8; do sleep {token} >/dev/null 2>&1 & done; echo started; wait"

    def attempt(limit):
        result = run(shell_tool(work, sandbox=sandbox, timeout=limit), command)
        assert living(token) == []
        assert result.error.type == "ToolTimeoutError"
        assert result.error.details == {"timeout": limit}
        return [content.text for content in result.output]

    assert overdue(attempt) == ["started\n"]
    assert left_behind(command, work, token)


@needs_bwrap
def test_sessions_of_their_own_are_ended(work, token):
    """In the sandbox nothing gets away: not by a session of its own, by an orphan, or by numbers."""
    command = (
        f"setsid sleep {token} >/dev/null 2>&1 & (setsid setsid sleep {token} &) & "
        f"for i in $(seq 100); do setsid sleep {token} & done; echo started; sleep {token}"
    )

    def attempt(limit):
        result = run(shell_tool(work, timeout=limit), command)
        assert living(token) == []
        assert result.error.type == "ToolTimeoutError"
        return [content.text for content in result.output]

    assert overdue(attempt) == ["started\n"]
    assert left_behind(command.replace("echo started", "exec >/dev/null 2>&1"), work, token, 100)


def test_cancellation_ends_everything(work, sandbox, token):
    """A call that is cancelled returns when all that it started is dead."""
    tool = shell_tool(work, sandbox=sandbox, timeout=600)

    async def cancelled():
        call = ToolCall(name="shell", arguments={"command": f"sleep {token} & sleep {token}"})
        task = asyncio.ensure_future(tool(call))
        while len(living(f"sleep\0{token}")) < 2:
            assert not task.done()
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return living(token)

    assert asyncio.run(cancelled()) == []


def test_cancellation_at_any_moment(work, sandbox, token):
    """Whenever a call is cancelled, no process and no descriptor is left."""
    tool = shell_tool(work, sandbox=sandbox, timeout=600)
    call = ToolCall(name="shell", arguments={"command": f"sleep {token} & sleep {token}"})

    async def cancelled(moment):
        task = asyncio.ensure_future(tool(call))
        for _ in range(moment):
            await asyncio.sleep(0)
        await asyncio.sleep(moment / 4_000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def all_moments():
        before = set(os.listdir("/proc/self/fd"))
        for moment in range(40):
            await cancelled(moment)
        return set(os.listdir("/proc/self/fd")) - before, settled(token)

    assert asyncio.run(all_moments()) == (set(), [])


def settled(token):
    """What is living once a sandbox that was ended before its command began has had its moment to go."""
    for _ in range(1_000):
        if not (found := living(token)):
            break
        time.sleep(0.01)
    return found


HOST = """
import json, sys
from functool import ToolCall, Toolset
from functool.bundled.shell import shell_tool

tools = Toolset([shell_tool(sys.argv[1], timeout=600, **json.loads(sys.argv[3]))])
print(tools.call_sync(ToolCall(name="shell", arguments={"command": sys.argv[2]})).text, end="")
"""


def host(work, command, **options):
    """How another process runs a command."""
    return [sys.executable, "-c", HOST, str(work), command, json.dumps(options)]


@needs_bwrap
def test_the_host_dies(work, token):
    """When the host is killed, the sandbox dies with it."""
    with subprocess.Popen(host(work, f"setsid sleep {token} & sleep {token}")) as process:
        while len(living(f"sleep\0{token}")) < 2:
            assert process.poll() is None
        process.kill()

    assert settled(token) == []


def field(pid, number):
    """A field of the status of a process: 0 is the state, 1 the parent."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[number]


def sandbox_program(tmp_path, script):
    """A program that stands where bubblewrap would be."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def held_program(tmp_path):
    """Bubblewrap, whose first process waits at a gate until `let_go`."""
    os.mkfifo(tmp_path / "held")
    return sandbox_program(tmp_path, f'exec {BWRAP} --block-fd 9 "$@" 9<>{tmp_path}/held')


def let_go(tmp_path):
    """Open the gate of a held program, and return what keeps it open."""
    released = os.open(tmp_path / "held", os.O_RDWR)
    os.write(released, b"x")
    return released


@needs_bwrap
def test_the_host_dies_before_the_sandbox_is_there(work, tmp_path, token):
    """A host that is killed before its sandbox asked to die with it leaves no command that runs on."""
    orphan = f'host=$PPID; echo > {tmp_path}/started; while kill -0 $host; do sleep 0.01; done 2>/dev/null; exec {BWRAP} "$@"'
    program = sandbox_program(tmp_path, orphan)
    command = f"touch made; sleep {token}"
    with subprocess.Popen(host(work, command, sandbox_path=program)) as process:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
        process.kill()

    assert settled(token) == []
    assert not (work / "made").exists()


@needs_bwrap
def test_the_host_dies_while_the_sandbox_starts(work, tmp_path, token):
    """A host that is killed when the sandbox's first process, but not yet the command, is there, leaves no command."""
    program = held_program(tmp_path)
    command = f"touch made; sleep {token}"
    with subprocess.Popen(host(work, command, sandbox_path=program)) as process:
        while len(living(token)) < 3:  # the host, bubblewrap and the first process of the sandbox
            assert process.poll() is None
        process.kill()
    released = let_go(tmp_path)

    assert settled(token) == []
    os.close(released)
    assert not (work / "made").exists()


@needs_bwrap
def test_a_sandbox_whose_outer_half_died(work, tmp_path, token):
    """The first process that lost bubblewrap before it asked to die with it is not let through the gate."""
    tool = shell_tool(work, timeout=600, sandbox_path=held_program(tmp_path))
    call = ToolCall(name="shell", arguments={"command": f"touch made; sleep {token}"})

    async def orphaned():
        task = asyncio.ensure_future(tool(call))
        while len(living(token)) < 2:
            await asyncio.sleep(0.01)
        outer = next(pid for pid in living(token) if field(pid, 1) == str(os.getpid()))
        os.kill(outer, signal.SIGKILL)
        while field(outer, 0) != "Z":
            await asyncio.sleep(0.01)
        released = let_go(tmp_path)
        result = await task
        os.close(released)
        return result

    assert asyncio.run(orphaned()).error.type == "SandboxUnavailable"
    assert settled(token) == []
    assert not (work / "made").exists()


def test_the_model_may_only_lower_the_limit(work, sandbox):
    """A longer time limit than the host's is the host's; a shorter one holds."""
    tool = shell_tool(work, sandbox=sandbox, timeout=1)

    assert run(tool, "sleep 600", timeout=600).error.details == {"timeout": 1}
    assert run(tool, "sleep 600", timeout=0.25).error.details == {"timeout": 0.25}
    assert run(tool, "true", timeout=0).error.type == "ArgumentError"
    assert run(tool, "true", timeout=-1).error.type == "ArgumentError"


def test_nothing_of_the_environment_is_inherited(work, sandbox, monkeypatch):
    """A command sees the variables that it was given, and no other; a plain run hands out the keys."""
    monkeypatch.setenv("API_KEY", "the secret")
    result = run(shell_tool(work, sandbox=sandbox, env={"GIVEN": "yes", "LANG": "C"}), "env | sort")

    seen = dict(line.split("=", 1) for line in result.value.splitlines())
    assert seen["GIVEN"] == "yes"
    assert seen["LANG"] == "C"
    assert set(seen) <= {"GIVEN", "LANG", "HOME", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}
    assert "the secret" in plain("env", work).stdout


@needs_bwrap
def test_the_environment_is_for_the_command_alone(work, tmp_path):
    """The sandbox program, which stands outside, gets no variable (LD_PRELOAD would let the command's files run there) and shows none."""
    seen = tmp_path / "seen"
    record = f'{{ export -p; echo "$*"; }} > "{seen}"\nexec {BWRAP} "$@"'
    program = sandbox_program(tmp_path, record)

    result = run(
        shell_tool(work, sandbox_path=program, env={"CHOSEN": "by\nthe = host"}),
        'printf "%s" "$CHOSEN"',
    )

    assert result.text == "by\nthe = host"
    assert "--json-status-fd" in seen.read_text()
    assert "CHOSEN" not in seen.read_text().split("sh -c")[0]
    assert "the = host" not in seen.read_text()


def test_there_is_no_input(work, sandbox):
    """A command that reads finds the end at once, and not what the host has on its standard input; in a plain run it does."""
    inherited = {"input": b"the secret\n", "stdout": subprocess.PIPE, "check": True}

    ran = subprocess.run(host(work, "cat; echo end", sandbox=sandbox), **inherited)
    assert ran.stdout == b"end\n"
    assert plain("cat; echo end", work, input="the secret\n").stdout == "the secret\nend\n"


def test_no_descriptor_is_inherited(work, outside, sandbox):
    """A descriptor that the host holds open, even an inheritable one, is not the command's; a careless plain run hands it on."""
    descriptor = os.open(outside / "secret.txt", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    command = f"cat /proc/self/fd/{descriptor}; ls /proc/self/fd | wc -l"
    try:
        result = run(shell_tool(work, sandbox=sandbox), command)
        assert "the secret" not in result.text
        assert result.value.endswith("4\n")
        assert "the secret" in plain(command, work, close_fds=False).stdout
    finally:
        os.close(descriptor)


@needs_bwrap
def test_the_rest_of_the_disk(work, outside):
    """Outside of its directory a command reads no file of the host's and writes none; a plain run does both."""
    command = f"cat {outside}/secret.txt; echo changed > {outside}/secret.txt; ls {outside}; true"
    result = run(shell_tool(work), command)

    assert "the secret" not in result.text
    assert "secret.txt\n" not in result.text.splitlines()
    assert (outside / "secret.txt").read_text() == "the secret"
    assert "the secret" in plain(command, work).stdout
    assert (outside / "secret.txt").read_text() == "changed\n"


@needs_bwrap
@pytest.mark.parametrize(
    "target",
    [
        "/usr/made",
        "/etc/made",
        "/made",
        "/dev/made",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/swappiness",
    ],
)
def test_the_system_is_read_only(work, target):
    """What is shown of the system cannot be written, not even by root."""
    before = Path(target).read_text() if Path(target).exists() else None
    result = run(shell_tool(work), f"echo x > {target}")

    assert result.error.type == "CommandFailed"
    assert "Read-only file system" in result.text or os.geteuid() != 0
    assert (Path(target).read_text() if Path(target).exists() else None) == before


@needs_bwrap
@pytest.mark.parametrize("path", ["/etc/shadow", "/root", "/home", "/var", "/run", "/sys"])
def test_what_is_not_shown(work, path):
    """Accounts' secrets, homes, sockets and the kernel's settings are not there."""
    assert Path(path).exists()
    assert run(shell_tool(work), f"test -e {path}").error.details == {"exit_code": 1}


@needs_bwrap
def test_links_lead_nowhere(work, outside):
    """A link that a command leaves in its directory leads the next command to nothing."""
    tool = shell_tool(work)
    assert run(tool, f"ln -s {outside} away").success

    assert (work / "away" / "secret.txt").read_text() == "the secret"
    assert run(tool, "cat away/secret.txt").error.type == "CommandFailed"


@needs_bwrap
def test_processes_of_the_host(work, token):
    """A command sees no process of the host's and cannot end one; a plain run can."""
    with subprocess.Popen(["sleep", token]) as victim:
        command = f"kill -9 {victim.pid}"
        assert run(shell_tool(work), f"{command}; kill -9 -1; true").error is None
        seen = run(shell_tool(work), "ls /proc | grep -c '^[0-9]'; exit 0").value
        assert 3 <= int(seen) <= 6
        assert victim.poll() is None
        plain(command, work)
        assert victim.wait() == -9


@needs_bwrap
def test_no_further_rights(work):
    """A command has no capability, cannot get any, and cannot make namespaces of its own."""
    result = run(
        shell_tool(work),
        "grep Cap /proc/self/status; unshare -U true || echo refused; grep NoNewPrivs /proc/self/status",
    )

    assert {line.split()[1] for line in result.value.splitlines() if line.startswith("Cap")} == {
        "0" * 16
    }
    assert "refused" in result.value
    assert "NoNewPrivs:\t1" in result.value


@needs_bwrap
@pytest.mark.parametrize("kind", ["user", "pid", "mnt", "ipc", "uts", "net"])
def test_namespaces(work, kind):
    """A command has its own view of users, processes, mounts, shared memory, the host's name and the network."""
    seen = run(shell_tool(work), f"readlink /proc/self/ns/{kind}").value.strip()

    assert seen != os.readlink(f"/proc/self/ns/{kind}")


@needs_bwrap
def test_the_network(work):
    """Without `network` a command reaches not even this machine; with it, and in a plain run, it does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}'"
        assert run(shell_tool(work), command).error.type == "CommandFailed"
        assert run(shell_tool(work, network=True), command).success
        assert plain(command, work).returncode == 0


@needs_bwrap
def test_sockets_of_the_host(work, outside):
    """A socket in the file system or in the abstract space of the host is out of reach."""
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        named.bind(str(outside / "socket"))
        named.listen()
        abstract.bind("\0" + outside.name + secrets.token_hex(8))
        abstract.listen()
        for address in (str(outside / "socket"), abstract.getsockname().decode()):
            script = f"import socket; socket.socket(socket.AF_UNIX).connect({address!r})"
            python = Path(sys.executable).resolve()
            tool = shell_tool(work, readable=[sys.base_prefix])
            assert subprocess.run([python, "-c", script]).returncode == 0
            assert run(tool, f"{python} -c 'print(1)'").value == "1\n"
            (work / "connect.py").write_text(script)
            assert run(tool, f"{python} connect.py").error.type == "CommandFailed"


def test_the_largest_file(work, sandbox):
    """No file grows beyond the limit; a plain run fills the disk."""
    command = "head -c 5000000 /dev/zero > big"
    assert run(shell_tool(work, sandbox=sandbox, max_file_size=1_000_000), command).is_error
    assert 900_000 <= (work / "big").stat().st_size <= 1_000_000

    plain(command, work)
    assert (work / "big").stat().st_size == 5_000_000


@needs_bwrap
def test_memory_that_looks_like_files(work):
    """The sandbox's own /tmp and /dev/shm, which are memory, hold a limited amount, and nothing from call to call."""
    tool = shell_tool(work, max_file_size=100_000)
    command = "for i in $(seq 30); do head -c 90000 /dev/zero > {0}/$i || exit 9; done"
    for place in ("/tmp", "/dev/shm"):
        assert "No space left" in run(tool, command.format(place)).text
        assert run(tool, f"ls {place} | grep -v work; true").value.split() in ([], [work.parts[2]])


@needs_bwrap
@pytest.mark.parametrize("kind", ["a list", "a text", "a path"])
def test_more_to_read(work, outside, kind):
    """A host may show one place more or several, to be read and not to be written."""
    given = {"a list": [outside], "a text": str(outside), "a path": outside}
    tool = shell_tool(work, readable=given[kind])

    assert run(tool, f"cat {outside}/secret.txt").value == "the secret"
    assert run(tool, f"echo x > {outside}/secret.txt").error.type == "CommandFailed"
    assert (outside / "secret.txt").read_text() == "the secret"


def test_places_that_are_no_paths(work):
    """What is no path is refused as the option that it was given for."""
    with pytest.raises(DefinitionError, match="shell_tool: workdir='5' cannot be used"):
        shell_tool(5)
    if WORKS:
        with pytest.raises(DefinitionError, match="shell_tool: readable='5' does not exist"):
            shell_tool(work, readable=[5])


def test_the_directory_is_held(work, outside, sandbox):
    """A link that takes the name of the working directory leads no command out; a plain run follows it."""
    tool = shell_tool(work, sandbox=sandbox)
    (work / "mine.txt").write_text("mine")
    work.rename(work.parent / "moved")
    work.symlink_to(outside)

    assert run(tool, "cat mine.txt").value == "mine"
    assert run(tool, "cat secret.txt").error.type == "CommandFailed"
    assert run(tool, "echo x > secret.txt").success
    assert (outside / "secret.txt").read_text() == "the secret"
    assert (work.parent / "moved" / "secret.txt").read_text() == "x\n"
    assert plain("cat secret.txt", work).stdout == "the secret"


def test_a_directory_that_is_gone(work, sandbox):
    """Where the working directory was taken away no command runs, whatever has its name now."""
    tool = shell_tool(work, sandbox=sandbox)
    work.rmdir()
    work.mkdir()
    result = run(tool, "touch made")

    assert result.is_error
    assert list(work.iterdir()) == []


def test_a_host_that_ignores_the_end_of_its_children(work, sandbox):
    """The system would not tell it that a command has ended, or how. So no command runs."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        result = run(shell_tool(work, sandbox=sandbox, timeout=1), "touch made")
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert "signal.signal(signal.SIGCHLD, signal.SIG_DFL)" in result.text
    assert list(work.iterdir()) == []


@needs_bwrap
def test_what_may_be_read_is_held(work, outside, tmp_path):
    """A link that takes the name of a readable directory shows nothing else."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "a.txt").write_text("shared")
    tool = shell_tool(work, readable=[shared])
    shared.rename(tmp_path / "kept")
    shared.symlink_to(outside)

    assert run(tool, f"cat {shared}/a.txt").value == "shared"
    assert run(tool, f"cat {shared}/secret.txt").error.type == "CommandFailed"


def contents(directory):
    """What the library of a directory holds, wherever it is."""
    return {path.name: path.read_text() for path in (directory / "vendor/deep/lib").glob("*")}


@pytest.fixture
def library(work):
    """A directory inside of the working directory, and deeper than its first level."""
    library = work / "vendor" / "deep" / "lib"
    library.mkdir(parents=True)
    (library / "a.txt").write_text("fixed")
    return library


@needs_bwrap
@pytest.mark.parametrize(
    "attack",
    [
        "echo x > vendor/deep/lib/a.txt",
        "echo x > vendor/deep/lib/b.txt",
        "rm -rf vendor",
        "mv vendor away; echo x > away/deep/lib/a.txt",
        "mv vendor/deep vendor/away; echo x > vendor/away/lib/a.txt",
        "mv vendor/deep/lib vendor/away; echo x > vendor/away/a.txt",
        "ln vendor/deep/lib/a.txt twin; echo x > twin",
        "ln -s vendor/deep/lib/a.txt twin; echo x > twin",
        "umount vendor/deep/lib; mount -o remount,rw vendor/deep/lib; echo x > vendor/deep/lib/a.txt",
    ],
)
def test_what_may_only_be_read_inside(work, library, tmp_path, attack):
    """What is readable inside of the working directory cannot be changed there, not by this command and not by the next."""
    shutil.copytree(work, tmp_path / "before")
    tool = shell_tool(work, readable=[library, library / "a.txt"])
    assert run(tool, f"cat {library}/a.txt; echo y > vendor/deep/mine").value == "fixed"

    for _ in range(2):
        run(tool, attack)
        assert (library / "a.txt").read_text() == "fixed"
        assert sorted(entry.name for entry in library.iterdir()) == ["a.txt"]
    shutil.copytree(tmp_path / "before", tmp_path / "plain")
    plain(attack, tmp_path / "plain")
    assert contents(tmp_path / "plain") != contents(tmp_path / "before")


@needs_bwrap
@pytest.mark.parametrize(
    "by", ["the directory", "one above it", "a link in its place", "another in its place"]
)
def test_what_may_only_be_read_was_moved(work, library, by):
    """Once somebody else has moved what is readable inside of the working directory no command runs."""
    tool = shell_tool(work, readable=[library])
    moved = library if by == "the directory" else work / "vendor"
    moved.rename(work / "away")
    if by == "a link in its place":
        (work / "vendor").symlink_to("away")
    if by == "another in its place":
        library.mkdir(parents=True)
    result = run(tool, "touch made; echo x > away/deep/lib/a.txt; echo x > away/a.txt")

    assert result.error.type == "SandboxUnavailable"
    assert "was moved" in result.text
    assert not (work / "made").exists()


@needs_bwrap
def test_names_of_what_may_only_be_read_inside(work, library, tmp_path):
    """A name from elsewhere, and a link inside, protect the very directory that they lead to."""
    (tmp_path / "alias").symlink_to(work)
    (work / "link").symlink_to("vendor/deep/lib")
    for name in (tmp_path / "alias" / "vendor" / "deep" / "lib", work / "link"):
        tool = shell_tool(work, readable=[name])
        assert run(tool, f"cat {name}/a.txt").value == "fixed"
        assert run(tool, f"echo x > {name}/a.txt").is_error
        assert run(tool, "echo x > vendor/deep/lib/a.txt").is_error


@needs_bwrap
def test_a_directory_inside_of_what_may_be_read(work, outside):
    """The working directory may lie inside of what is readable, and is the only part of it that commands write."""
    inner = outside / "inner"
    inner.mkdir()
    tool = shell_tool(inner, readable=[outside])

    assert run(tool, "cat ../secret.txt; echo x > made").value == "the secret"
    assert run(tool, "echo x > ../secret.txt").is_error
    assert (inner / "made").read_text() == "x\n"


def test_a_sandbox_that_is_missing(work):
    """Without the sandbox program there is no tool; nothing falls back to a plain run."""
    with pytest.raises(DefinitionError, match="bubblewrap"):
        shell_tool(work, sandbox_path="/nothing/bwrap")


def test_a_path_without_a_sandbox(work, monkeypatch):
    """The program is looked for along PATH, and its absence says how to install it."""
    monkeypatch.setenv("PATH", str(work))
    with pytest.raises(DefinitionError, match="apt-get install bubblewrap"):
        shell_tool(work)


@pytest.mark.parametrize(
    "script", ["echo 'bwrap: No permissions to create a new namespace' >&2; exit 1", "exit 0"]
)
def test_a_sandbox_that_fails(work, tmp_path, script):
    """A sandbox that cannot be set up is an error that says why, whatever its exit status; the command does not run."""
    fake = sandbox_program(tmp_path, script)
    result = run(shell_tool(work, sandbox_path=fake), "touch made")

    assert result.error.type == "SandboxUnavailable"
    assert "exit 0" in script or "No permissions" in result.text
    assert not (work / "made").exists()


def test_a_sandbox_that_is_too_old(work, tmp_path):
    """A bubblewrap that cannot bind by descriptor is an error that names the version to have."""
    script = "echo 'bwrap: Unknown option --bind-fd' >&2; exit 1"
    result = run(shell_tool(work, sandbox_path=sandbox_program(tmp_path, script)), "touch made")

    assert result.error.type == "SandboxUnavailable"
    assert "needs bubblewrap 0.10" in result.text


def test_a_sandbox_that_hangs(work, tmp_path, token):
    """A sandbox program that never comes to the command is ended at the time limit."""
    fake = sandbox_program(tmp_path, f"sleep {token}")
    result = run(shell_tool(work, sandbox_path=fake, timeout=1), "touch made")

    assert result.error.type == "ToolTimeoutError"
    assert living(token) == []


@needs_bwrap
def test_where_the_sandbox_is(work):
    """The sandbox program may be named."""
    assert run(shell_tool(work, sandbox_path=BWRAP), "echo hi").metadata["sandbox"] == "bwrap"


def test_commands_that_cannot_start(work, sandbox):
    """A command with a NUL, one beyond the system's limit, and an empty one are refused in words."""
    tool = shell_tool(work, sandbox=sandbox)

    assert "NUL" in run(tool, "echo a\0b").text
    too_long = run(tool, "é" * 90_000)
    assert too_long.text == "The command could not be started: Argument list too long."
    assert run(tool, "").error.type == "ArgumentError"
    assert run(tool, "x" * 100_001).error.type == "ArgumentError"


def test_a_list_of_words_is_advice(work):
    """A guardrail stops a forbidden word, and a model that writes it another way gets through: only the sandbox holds."""
    tool = shell_tool(work, sandbox="none", input_guardrails=[block(["touch"], argument="command")])

    assert run(tool, "touch made").error.type == "GuardrailError"
    assert not (work / "made").exists()
    assert run(tool, "to''uch made").success
    assert (work / "made").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": None}, "timeout"),
        ({"max_output": 99}, "max_output"),
        ({"max_file_size": 0}, "max_file_size"),
        ({"env": {"": "x"}}, "env has ''"),
        ({"env": {"A=B": "x"}}, "env has 'A=B'"),
        ({"env": {"A": "x\0"}}, "env has 'A'"),
        ({"env": {"A": 1}}, "env has 'A'"),
        ({"sandbox": "docker"}, "sandbox"),
        ({"network": "no"}, "network"),
        ({"workdir": "missing"}, "workdir"),
        ({"workdir": "nul\0"}, "workdir"),
        ({"workdir": sys.executable}, "not a directory"),
    ],
)
def test_definitions(work, options, problem):
    """A limit that is none, an unknown sandbox and a directory that is none are errors at definition."""
    with pytest.raises(DefinitionError, match=problem):
        shell_tool(**{"workdir": work, "sandbox": "none", **options})


@needs_bwrap
def test_the_whole_disk_is_no_working_directory():
    """A sandbox whose commands could write everywhere is none."""
    with pytest.raises(DefinitionError, match="working directory is /"):
        shell_tool("/")


@needs_bwrap
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/nothing", "does not exist"),
        (".", "which commands write"),
        ("/", "part of the sandbox"),
        ("/proc/self", "part of the sandbox"),
    ],
)
def test_what_cannot_be_shown(work, monkeypatch, path, problem):
    """What is to be shown has to be there, and to lie outside of what the sandbox makes itself."""
    monkeypatch.chdir(work)
    with pytest.raises(DefinitionError, match=problem):
        shell_tool(work, readable=[path])


def test_what_a_model_and_a_host_are_told(work, sandbox):
    """The description says where the command runs; the arguments are those of the contract; the tool is marked destructive."""
    tool = shell_tool(work, sandbox=sandbox, timeout=12)

    assert tool.name == "shell"
    assert ("without a sandbox" in tool.schema.description) == (sandbox == "none")
    assert "12 seconds" in tool.schema.description
    assert list(tool.schema.parameters["properties"]) == ["command", "timeout"]
    assert tool.schema.parameters["required"] == ["command"]
    settings = tool.settings
    assert (settings.read_only, settings.destructive, settings.idempotent) == (False, True, False)


@needs_bwrap
def test_the_repair_example(capsys):
    """The example's agent runs the tests, reads the code, mends it and sees the tests pass."""
    repair.main()
    printed = capsys.readouterr().out
    steps = [
        line.split("(")[0].split()[-1] for line in printed.splitlines() if line.startswith("call ")
    ]

    assert steps == ["shell", "read_file", "edit_file", "shell"]
    assert "IndexError: list index out of range" in printed
    assert printed.endswith("answer  The tests pass. I changed 1 line(s) in median.py.\n")
