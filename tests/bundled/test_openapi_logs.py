"""What the HTTP clients log of a request: its URL, without the key that stands in its query."""

import asyncio
import logging

import httpx
import httpx2
import pytest

from functool import ToolCall
from functool.bundled.openapi import openapi_tools
from tests.bundled.documents import document, get

KEY = {"type": "apiKey", "in": "query", "name": "api_key"}
SPEC = document(
    get(security=[{"k": []}], parameters=[{"name": "q", "in": "query"}]),
    components={"securitySchemes": {"k": KEY}},
)
SECRET = "s3/cr%t"


@pytest.mark.parametrize("library", [None, httpx2, httpx], ids=["own", "httpx2", "httpx"])
def test_a_key_in_the_query_is_in_no_log(server, library, caplog):
    """A host's client logs the address and the arguments, but not the key; ours logs no address."""
    caplog.set_level(logging.DEBUG)

    async def run(url, client):
        tools = openapi_tools(SPEC, base_url=url, auth={"k": SECRET}, client=client)
        return await tools.call(ToolCall(name="x", arguments={"q": "cats"}))

    async def with_client(url):
        if library is None:
            return await run(url, None)
        async with library.AsyncClient() as client:
            result = await run(url, client)
            await client.get(f"{url}/plain?api_key=other")
            return result

    server.reply("/x", "", status=302, Location=f"/y?api_key={SECRET}")
    server.reply("/y", "ok")
    server.reply("/plain", "ok")
    result = asyncio.run(with_client(server.url))
    seen = [request.path for request in server.seen]

    logged = [record.getMessage() for record in caplog.records]
    assert result.value == "ok" and "api_key=s3%2Fcr%25t" in seen[0]
    assert not [text for text in logged if "s3" in text]
    requests = [text for text in logged if "HTTP Request" in text]
    if library is None:
        assert requests == []
    else:
        assert "/x?q=cats&api_key=[secret]" in requests[0]
        assert "/plain?api_key=other" in requests[-1]
