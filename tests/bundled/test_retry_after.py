"""`Retry-After`: the network tools ask a busy server once more when it wants to be asked, and else say when."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

pytest.importorskip("httpx2", reason="needs functool[fetch]")

from functool.bundled import retry_after
from functool.bundled.fetch import fetch_tool
from functool.bundled.openapi import openapi_tools
from functool.bundled.retry_after import retry_seconds
from tests.bundled import documents
from tests.support import call


def busy(server, path, times, status=429, wait="0"):
    """Let a path say so many times that it is busy, then answer."""
    left = [times]

    def answer(handler):
        said = status if left[0] else 200
        left[0] -= bool(left[0])
        body = b"busy" if said != 200 else b"done"
        handler.send_response(said)
        handler.send_header("Content-Type", "text/plain")
        handler.send_header("Content-Length", str(len(body)))
        if said != 200:
            handler.send_header("Retry-After", wait)
        handler.end_headers()
        handler.wfile.write(body)

    server.call(path, answer)


def fetch(url):
    tool = fetch_tool(allow=["127.0.0.1"])
    return call(tool, {"url": url})


def api(server, method):
    spec = documents.document({"/x": {method: {"operationId": "x"}}})
    return documents.call(openapi_tools(spec, base_url=server.url), "x")


@pytest.mark.parametrize("status", [429, 503])
def test_fetch_asks_once_more(server, status):
    """A busy server is asked once more after the time it names, and a second time is told to the model."""
    busy(server, "/once", 1, status)
    busy(server, "/twice", 2, status)
    once, twice = fetch(f"{server.url}/once"), fetch(f"{server.url}/twice")

    assert once.text == "done"
    assert (
        twice.error.message == f"The server answered with status {status}. Try again in 0 seconds."
    )
    assert twice.error.details == {"status": status, "retry_after": 0.0}
    assert [seen.path for seen in server.seen] == ["/once"] * 2 + ["/twice"] * 2


def test_a_long_wait_is_the_models(server):
    """A wait that takes too long is told, and the server is asked once."""
    busy(server, "/x", 1, wait="120")
    result = fetch(f"{server.url}/x")

    assert result.error.message == "The server answered with status 429. Try again in 120 seconds."
    assert len(server.seen) == 1


def test_an_api_is_asked_again_for_reads_only(server):
    """A read is sent once more; what changes something is sent once, and the model is told when."""
    busy(server, "/x", 1)
    read = api(server, "get")
    reads = len(server.seen)
    busy(server, "/x", 1)
    write = api(server, "post")
    writes = len(server.seen) - reads

    assert (read.text, reads) == ("done", 2)
    assert (write.error.details, writes) == ({"status": 429, "retry_after": 0.0}, 1)


def test_the_time_is_waited(monkeypatch):
    """The tool waits as long as the server says."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(retry_after.asyncio, "sleep", sleep)

    assert asyncio.run(retry_after.waited(3.0, 0))
    assert not asyncio.run(retry_after.waited(3.0, 1))
    assert not asyncio.run(retry_after.waited(retry_after.MAX_WAIT + 1, 0))
    assert not asyncio.run(retry_after.waited(None, 0))
    assert slept == [3.0]


@pytest.mark.parametrize(
    ("status", "said", "seconds"),
    [
        (429, "7", 7.0), (503, " 0 ", 0.0), (429, "9" * 400, 999_999_999.0), (429, "", None),
        (429, "soon", None), (429, "-1", None), (429, "1.5", None), (429, "٣", None),
        (200, "7", None), (500, "7", None), (429, "Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        (429, "Wed, 99 Oct 2015 07:28:00 GMT", None),
        (429, "Wed, 21 Oct 2015 07:28:00 -" + "9" * 26, None),
    ],
)  # fmt: skip
def test_what_the_header_says(status, said, seconds):
    """Seconds and dates are read on 429 and 503; anything else says nothing."""
    response = SimpleNamespace(status_code=status, headers={"retry-after": said})

    assert retry_seconds(response) == seconds


def test_a_date_in_the_future():
    """A date is so many seconds from now."""
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    response = SimpleNamespace(status_code=429, headers={"retry-after": then})

    assert 50 < retry_seconds(response) <= 60
