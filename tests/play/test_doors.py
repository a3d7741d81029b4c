"""Who may use the playground."""

import asyncio
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")

import httpx2

from functool.play.doors import Door
from tests.command_line import PROGRAM
from tests.play.conftest import KIT, TOKEN


@pytest.fixture
def running(playground):
    return playground(str(KIT))


@pytest.fixture
def shared(kit):
    """A playground that other tests use too, with a token that works more than once."""
    return kit


def client(running, **headers):
    return httpx2.Client(base_url=running.origin, headers=headers, timeout=30)


def test_the_token_becomes_a_cookie_once(running):
    """The address opens the page once; the cookie that it leaves opens it from then on."""
    with client(running) as person:
        page = person.get("/", params={"token": running.token})
        [cookie] = page.headers.get_list("set-cookie")

        assert page.status_code == 200
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert running.token not in cookie
        assert running.token not in page.text
        assert person.get("/").status_code == 200
        assert "set-cookie" not in person.get("/").headers
    with client(running) as other:
        assert other.get("/", params={"token": running.token}).status_code == 403
        assert other.get("/").status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?token=",
        "/?token=wrong",
        "/files/app.js",
        "/files/jsoneditor.js",
        "/api/live",
        "/api/tools",
        "/api/call",
        "/nothing",
    ],
)
def test_without_a_cookie(shared, path):
    """Nothing is answered without the cookie, GET or POST."""
    with client(shared) as stranger:
        assert stranger.get(path).status_code == 403
        assert stranger.post(path, json={}, headers={"origin": shared.origin}).status_code == 403
    assert shared.process.poll() is None


def test_a_token_is_taken_at_the_page_only(shared):
    """The token opens the page, and is no key to anything else."""
    with client(shared) as stranger:
        for path in ("/api/tools", "/files/app.js"):
            asked = {"token": shared.token}
            origin = {"origin": shared.origin}
            assert stranger.get(path, params=asked).status_code == 403
            assert stranger.post(path, params=asked, json={}, headers=origin).status_code == 403


@pytest.fixture
def inside(shared):
    """A browser that has the cookie."""
    with client(shared) as person:
        person.get("/", params={"token": shared.token})
        yield person


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"host": "evil.example"},
        {"host": "evil.example:80"},
        {"host": "127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_another_origin_or_host(shared, inside, headers):
    """A request that another page or another name caused gets 403 with the cookie, too."""
    sent = {"origin": shared.origin, **headers}

    assert inside.get("/files/app.js", headers=headers).status_code == 403
    if "sec-fetch-site" not in headers:  # With a right origin a POST is the page's own.
        assert inside.post("/api/tools", json={}, headers=sent).status_code == 403
    assert inside.post("/api/tools", json={}).status_code == 403


def test_the_page_s_own_requests(shared, inside):
    """The page itself is answered, with headers that keep it to itself."""
    answer = inside.post("/api/tools", json={}, headers={"origin": shared.origin})
    page = inside.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    policy = page.headers["content-security-policy"]

    assert answer.status_code == 200
    assert page.status_code == 200  # A link may lead here.
    assert "default-src 'none'" in policy and "script-src 'nonce-" in policy
    assert "unsafe-eval" not in policy and "script-src 'self'" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"
    nonces = {inside.get("/").headers["content-security-policy"] for _ in range(3)}
    assert len(nonces) == 3


@pytest.mark.parametrize(("port", "status"), [(80, 200), (8000, 403)])
def test_the_port_that_browsers_leave_out(port, status):
    """At port 80 the page's own host has no port, and at any other port it has one."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def visit():
        transport = httpx2.ASGITransport(app=Door(app, port=port, token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as person:
            return (await person.get("/", params={"token": TOKEN})).status_code

    with ThreadPoolExecutor(1) as pool:  # Playwright's loop may run on this thread.
        assert pool.submit(asyncio.run, visit()).result() == status


def test_a_proxy_that_adds_tls(playground):
    """Behind a proxy that adds TLS the page works under the proxy's name, and other origins do not."""
    env = {"FUNCTOOL_PLAY_TOKEN": TOKEN}
    running = playground(str(KIT), "--host", "0.0.0.0", env=env)
    name = "play.example.com"
    with client(running, host=name) as person:
        person.get("/", params={"token": TOKEN})
        status = {
            origin: person.post("/api/tools", json={}, headers={"origin": origin}).status_code
            for origin in (
                f"https://{name}",
                "https://evil.example",
                f"https://{name}.evil.example",
            )
        }

    assert list(status.values()) == [200, 403, 403]


@pytest.mark.parametrize("path", ["/files/../app.py", "/files/..%2fapp.py", "/files/index.html"])
def test_only_the_page_s_files(inside, path):
    """No other file of the package, or of the machine, is served."""
    assert inside.get(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/api/tool", {"name": "nothing"}),
        ("/api/tool", {"name": 7}),
        ("/api/call", {"name": None}),
        ("/api/definition", {"name": "say", "dialect": "../x"}),
        ("/api/answer", {"id": "x", "how": "approve"}),
        ("/api/answer", {"id": "x", "how": "nothing"}),
        ("/api/answer", {"id": "x", "how": "allow", "uses": "many"}),
        ("/api/settle", {"key": "x", "how": "reopen"}),
        ("/api/tools", []),
    ],
)
def test_wrong_requests(shared, inside, path, sent):
    """What makes no sense is an error in words, and the server goes on."""
    answer = inside.post(path, json=sent, headers={"origin": shared.origin})

    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_request_that_is_too_large(shared, inside):
    """A request has a limit."""
    headers = {"origin": shared.origin}

    assert "16,000,000" in inside.post("/api/call", content=b"x" * 17_000_000, headers=headers).text
    assert inside.post("/api/call", content=b"{", headers=headers).status_code == 400


def test_another_host_needs_a_token():
    """A host that others can reach is refused without a token of the operator's, and a short one too."""
    with pytest.raises(ValueError, match="--token"):
        Door(None, host="0.0.0.0")
    with pytest.raises(ValueError, match="at least 16"):
        Door(None, host="0.0.0.0", token="short")
    assert Door(None, host="0.0.0.0", token="x" * 16).token == "x" * 16


def test_the_command_refuses_in_a_line(tmp_path):
    """The command says what to do, before it listens."""
    words = [*PROGRAM, "play", str(KIT), "--host", "0.0.0.0"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("Error: 0.0.0.0 can be reached by others")
    assert done.stdout == ""


def test_nothing_is_logged(running):
    """No log of requests keeps the token, and Ctrl-C ends it without a traceback."""
    with client(running) as person:
        person.get("/", params={"token": running.token})
        person.get("/nothing")
    running.process.send_signal(signal.SIGINT)
    out, errors = running.process.communicate(timeout=30)

    assert (out, errors) == ("", "")
    assert running.process.returncode == 130


CLOSING = """
import asyncio
import sys
from contextlib import contextmanager

from functool import Context, FunctionTool


def tell(text):
    print(text, file=sys.stderr, flush=True)


@contextmanager
def shop():
    yield Context("shop")
    tell("close")


@FunctionTool
async def hold(context: Context) -> None:
    try:
        context.progress("begun")
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(0.1)
        tell("ended")
"""


def test_a_call_ends_before_its_context(playground, tmp_path):
    """A playground that is stopped closes what its context has opened after the calls that use it."""
    (tmp_path / "closing.py").write_text(CLOSING)
    running = playground("closing.py", "--context", "closing.py:shop")
    with client(running) as person:
        person.get(running.url)
        person.headers["Origin"] = running.origin
        with person.stream("POST", "/api/call", json={"name": "hold", "text": "{}"}) as answer:
            lines = answer.iter_lines()  # As long as somebody holds this, the client is there.
            while "begun" not in next(lines):
                pass
            _, rest = running.stop()

    assert rest.index("ended") < rest.index("close")
