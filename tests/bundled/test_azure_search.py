"""Azure AI Search through its real SDK, against a server on loopback that answers as the service's REST contract says.

Both ends of these tests are ours: the SDK's requests are what the contract describes, the answers are written after it.
"""

import json
import ssl
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
from azure.core.credentials import AccessToken

from functool import DefinitionError
from functool.bundled.azure_search import AzureAISearchTool
from functool.bundled.search import SearchIndex, search_tool
from tests.bundled.loopback import serve
from tests.support import call

SEARCH = "/indexes('docs')/docs/search.post.search"
LAKE = {"query": "lake"}


class Service:
    """The search of one index: SQLite answers, in the words of the REST contract."""

    def __init__(self, server):
        self.server = server
        self.index = SearchIndex()
        self.asked = []
        self.failures = []
        server.call(SEARCH, self.answer)

    def answer(self, handler):
        seen = json.loads(self.server.seen[-1].body)
        self.asked.append(seen)
        status, body = 200, self.page(seen) if not self.failures else None
        if self.failures:
            status = self.failures.pop(0)
            body = {"error": {"code": "Problem", "message": "the inner workings"}}
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        handler.wfile.write(head.encode() + data)

    def page(self, asked):
        text = asked.get("search") or "lake"
        page = self.index.query(text, limit=asked["top"], offset=asked["skip"])
        value = []
        for hit in page["hits"]:
            row = {
                "id": hit["id"],
                "title": hit["title"],
                "content": hit["snippet"],
                "@search.score": hit["score"],
            }
            row |= hit["metadata"]
            if asked.get("highlight"):
                row["@search.highlights"] = {"content": ["warm", "lake"]}
            if asked.get("queryType") == "semantic":
                row |= {
                    "@search.rerankerScore": 2.5,
                    "@search.captions": [{"text": "A caption.", "highlights": ""}],
                }
            value.append(row)
        return {"@odata.count": page["total"], "value": value}


@pytest.fixture
def service(server):
    service = Service(server)
    service.index.add("a", "A warm lake.", title="Lake", metadata={"year": 2026})
    service.index.add("b", "A cold lake.", title="Other", metadata={"year": 2025})
    return service


def tool_for(server, **options):
    return AzureAISearchTool(server.url, "docs", **{"key": "the-key", **options})


def test_documents_are_untrusted(server, service):
    """A hit says that somebody else may have written it, unless the host says otherwise."""
    assert call(tool_for(server), {"query": "lake"}).metadata["sources"] == ["search"]
    trusted = call(tool_for(server, untrusted=False), {"query": "lake"})
    assert trusted.success
    assert "sources" not in trusted.metadata


def test_a_text_query_goes_out_as_the_contract_says(server, service):
    """The request has the index, the API version, the key, the words, the fields and the page."""
    result = call(tool_for(server, metadata_fields=["year"]), {"query": "warm lake", "limit": 1})
    request = server.seen[0]

    assert (request.method, urlsplit(request.path).path) == ("POST", SEARCH)
    assert parse_qs(urlsplit(request.path).query) == {"api-version": ["2026-04-01"]}
    assert {name.lower(): value for name, value in request.headers.items()}["api-key"] == "the-key"
    assert service.asked == [
        {
            "count": True,
            "highlight": "content",
            "highlightPostTag": "",
            "highlightPreTag": "",
            "search": "warm lake",
            "select": "id,title,content,year",
            "skip": 0,
            "top": 1,
        }
    ]
    hit = result.value["hits"][0]
    assert {**hit, "score": 0} == {
        "id": "a",
        "title": "Lake",
        "snippet": "warm … lake",
        "score": 0,
        "metadata": {"year": 2026},
    }
    assert (result.value["total"], result.value["next_offset"]) == (2, 1)


def test_it_has_the_face_of_the_embedded_search():
    """The same arguments and the same answers as `search_tool`."""
    azure = AzureAISearchTool("https://name.search.windows.net", "docs", key="k")
    own = search_tool(SearchIndex())

    assert azure.schema == own.schema
    assert azure.settings == own.settings
    assert azure.timeout == 30.0


def test_pages_follow_each_other(server, service):
    """Offset and limit become skip and top, and the last page says that it is the last."""
    page = call(tool_for(server), {**LAKE, "limit": 1, "offset": 1}).value

    assert (service.asked[0]["skip"], service.asked[0]["top"]) == (1, 1)
    assert (len(page["hits"]), page["total"], page["next_offset"]) == (1, 2, None)


def test_a_service_that_never_ends_a_page_is_bounded(server, service):
    """More rows and further pages than were asked for are not fetched."""
    service.page = lambda asked: {
        "value": [{"id": "a", "@search.score": 1.0}] * 3,
        "@odata.nextLink": f"{server.url}{SEARCH}?api-version=2026-04-01",
        "@search.nextPageParameters": asked,
    }
    page = call(tool_for(server), {**LAKE, "limit": 5}).value

    assert (len(page["hits"]), len(service.asked)) == (5, 2)
    assert page["next_offset"] == 5


def test_vectors_of_ones_own_are_sent(server, service):
    """In vector mode the vector is the query; in hybrid mode the words are sent as well."""

    async def embed(text):
        return [1, 0.5] if text == "lake" else []

    vectors = [{"fields": "embedding", "k": 50, "kind": "vector", "vector": [1.0, 0.5]}]
    vector = tool_for(server, mode="vector", vector_field="embedding", embed=embed)
    hybrid = tool_for(server, mode="hybrid", vector_field="embedding", embed=lambda text: [1, 0.5])
    call(vector, LAKE)
    call(hybrid, {**LAKE, "limit": 40, "offset": 30})

    assert (service.asked[0].get("search"), service.asked[0]["vectorQueries"]) == (None, vectors)
    assert service.asked[1].get("search") == "lake"
    assert service.asked[1]["vectorQueries"] == [{**vectors[0], "k": 70}]


def test_the_service_can_make_the_vectors(server, service):
    """Without an embedding function the text is sent, for the vectorizer of the index."""
    call(tool_for(server, mode="hybrid", vector_field="embedding"), LAKE)

    assert service.asked[0]["vectorQueries"] == [
        {"fields": "embedding", "k": 50, "kind": "text", "text": "lake"}
    ]


def test_semantic_ranking_is_asked_for_and_shown(server, service):
    """With a semantic configuration the caption is the snippet and the second ranking the score."""
    hit = call(tool_for(server, semantic_configuration="default"), LAKE).value["hits"][0]
    asked = service.asked[0]

    assert (asked["queryType"], asked["captions"]) == ("semantic", "extractive")
    assert asked["semanticConfiguration"] == "default"
    assert (hit["snippet"], hit["score"]) == ("A caption.", 2.5)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"year": 2026}, "(tenant eq 't1') and year eq 2026"),
        ({"new": True}, "(tenant eq 't1') and new eq true"),
        (
            {"name": "O'Brien' or true or name eq '"},
            "(tenant eq 't1') and name eq 'O''Brien'' or true or name eq '''",
        ),
        ({}, "(tenant eq 't1')"),
    ],
)
def test_filters_are_written_so_that_they_cannot_be_broken_out_of(
    server, service, filters, expected
):
    """The host's filter always applies, and a value of the model's is a value whatever is in it."""
    tool = tool_for(server, filter="tenant eq 't1'", filter_fields=["year", "new", "name"])
    call(tool, {**LAKE, "filters": filters})

    assert service.asked[0]["filter"] == expected


def test_only_open_fields_are_filtered_by(server, service):
    """A field that the host did not open is refused, so that nothing is learnt of it by asking."""
    tool = tool_for(server, filter_fields=["year"])
    refused = "Documents cannot be filtered by 'salary'. Fields for filters: year."

    assert call(tool, {**LAKE, "filters": {"salary": 1}}).error.message == refused
    assert service.asked == []


def test_a_refusal_is_an_error_without_the_services_own_words(server, service):
    """A refusal names the status, and nothing of what the service says to its operators."""
    service.failures = [403]
    result = call(tool_for(server), LAKE)

    assert result.error.type == "SearchFailed"
    assert result.error.message.startswith("The search service answered with status 403")
    assert "inner workings" not in result.error.message


def test_a_passing_failure_is_tried_again(server, service):
    """The SDK asks once more when the service is busy."""
    service.failures = [503]
    tool = tool_for(server, client_options={"retry_backoff_factor": 0})

    assert call(tool, LAKE).value["total"] == 2
    assert len(service.asked) == 2


def test_a_service_that_is_not_there_is_an_error():
    """A closed port is an error that says so."""
    options = {"key": "k", "client_options": {"retry_total": 0}}
    tool = AzureAISearchTool("http://127.0.0.1:9", "docs", **options)

    assert call(tool, LAKE).error.message == "The search service could not be reached."


def test_a_token_credential_is_used_over_https():
    """A credential's token is sent as bearer, for the audience of the cloud in use."""

    class Credential:
        async def get_token(self, *scopes, **options):
            self.scopes = scopes
            return AccessToken("the-token", int(time.time()) + 3_600)

        async def close(self):
            pass

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with serve(tls=context) as server, authority.cert_pem.tempfile() as trusted:
        Service(server).index.add("a", "A warm lake.", title="Lake")
        options = {"audience": "https://search.azure.us", "connection_verify": trusted}
        credential = Credential()
        tool = tool_for(server, key=None, credential=credential, client_options=options)
        result = call(tool, LAKE)

        assert result.value["total"] == 1
        assert server.seen[0].headers["Authorization"] == "Bearer the-token"
        assert credential.scopes == ("https://search.azure.us/.default",)


@pytest.mark.parametrize(
    "options",
    [
        {"key": None},
        {"credential": object()},
        {"mode": "fuzzy"},
        {"mode": "vector"},
        {"vector_field": "embedding"},
    ],
)
def test_options_that_contradict_each_other_are_refused(options):
    """Both or neither of key and credential, an unknown mode, and a mode without its field are the author's mistakes."""
    with pytest.raises(DefinitionError):
        AzureAISearchTool("https://name.search.windows.net", "docs", **{"key": "k", **options})


def test_the_tool_works_on_one_event_loop_after_the_other(server, service):
    """No connection is kept that would belong to a loop that has ended."""
    tool = tool_for(server)

    assert [call(tool, LAKE).value["total"] for _ in range(3)] == [2, 2, 2]


def test_the_missing_extra_names_its_install_command():
    """Without the SDK the module says how to install it."""
    code = "import sys; sys.modules['azure.search.documents.aio'] = None\nimport functool.bundled.azure_search"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "ImportError" in found.stderr and "pip install 'functool[azure-search]'" in found.stderr
