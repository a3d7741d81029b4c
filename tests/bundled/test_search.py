"""The embedded index and the search tool."""

import json
import os
import signal
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool import DefinitionError
from functool.bundled.search import SearchIndex, SearchPage, search_tool
from tests.support import call


def filled(**texts):
    index = SearchIndex()
    for id, text in texts.items():
        index.add(id, text)
    return index


def found(index, text, **options):
    return [hit["id"] for hit in index.query(text, **options)["hits"]]


def test_documents_come_and_change_and_go():
    """What is added is found, what is updated is found as it is now, and what is deleted is found no more."""
    index = filled(a="red apples", b="green pears")

    assert found(index, "apples") == ["a"]
    index.update("a", "yellow bananas", title="Fruit", metadata={"n": 1})
    assert (found(index, "apples"), found(index, "bananas")) == ([], ["a"])
    assert found(index, "fruit") == ["a"]
    assert index.query("bananas")["hits"][0]["metadata"] == {"n": 1}
    index.delete("a")
    assert (found(index, "bananas"), len(index)) == ([], 1)


def test_an_id_is_taken_once():
    """An id that is taken, or is not there, is an error, and a batch with a bad one changes nothing."""
    index = filled(a="one")

    with pytest.raises(ValueError, match="'a'"):
        index.add("a", "two")
    with pytest.raises(ValueError, match="'b'"):
        index.add_all([{"id": "b", "text": "x"}, {"id": "b", "text": "y"}])
    for change in (lambda: index.update("c", "x"), lambda: index.delete("c")):
        with pytest.raises(KeyError):
            change()
    with pytest.raises(ValueError, match="JSON"):
        index.add("d", "x", metadata={"n": float("nan")})
    assert (len(index), found(index, "one two x y")) == (1, ["a"])


def test_the_best_comes_first():
    """More of the words, rarer ones and a word in the title count more, and a higher score says so."""
    index = SearchIndex()
    index.add("often", "whale")
    index.add("both", "whale song")
    index.add("title", "the sea", title="song")
    index.add_all({"id": f"n{n}", "text": "whale"} for n in range(20))
    page = index.query("whale song", limit=50)
    hits = page["hits"]
    scores = [hit["score"] for hit in hits]

    assert [hit["id"] for hit in hits][:2] == ["title", "both"]
    assert scores == sorted(scores, reverse=True)
    assert (page["total"], len(hits)) == (23, 23)


def test_a_snippet_shows_the_part_that_fits():
    """The snippet of a long text is the part with the words."""
    index = filled(a=" ".join(["filler"] * 500 + ["needle in", "the hay"] + ["filler"] * 500))
    snippet = index.query("needle")["hits"][0]["snippet"]

    assert "needle in the hay" in snippet
    assert (snippet[0], snippet[-1], len(snippet) < 400) == ("…", "…", True)


@pytest.mark.parametrize("text", ["needle " + "y" * 10_000, "needle " + "-" * 10_000 + " needle"])
def test_a_snippet_is_short(text):
    """A snippet has at most 500 characters, also where a text has no words, or one without end."""
    assert filled(a=text).query("needle")["hits"][0]["snippet"] == text[:499] + "…"


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("Der Zürichsee", "zurichsee", True),
        ("Cafe", "CAFÉ", True),
        ("scho\u0308n", "schön", True),
        ("ΑΘΉΝΑ", "αθήνα", True),
        ("Привет, мир", "привет", True),
        ("東京タワーは高い", "東京", True),
        ("日本の首都は東京です", "首都", True),
        ("日本の首都は東京です", "日本の首都", True),
        ("東京タワー", "京東", False),
        ("한국어를 배웁니다", "한국어", True),
        ("ภาษาไทยง่ายมาก", "ไทย", True),
        ("हिन्दी में खोज", "हिन्दी", True),
        ("שלום עולם", "שלום", True),
        ("𠮷野家で食べる", "野家", True),
        ("👍 nice", "nice", True),
    ],
)
def test_words_of_any_script_are_found(text, query, expected):
    """Case and accents do not matter, and scripts without spaces are searched by their words."""
    index = filled(a=text, b="something else")

    assert found(index, query) == (["a"] if expected else [])


def test_snippets_show_the_text_as_it_was():
    """Nothing of the way in which words are parted shows in a title or snippet."""
    index = SearchIndex()
    index.add("a", "日本の首都は東京です。", title="東京")
    hit = index.query("東京")["hits"][0]

    assert (hit["title"], hit["snippet"]) == ("東京", "日本の首都は東京です。")


@given(st.text(max_size=60))
def test_no_query_is_syntax(text):
    """Whatever is searched for, the query is answered and never read as a query language."""
    index = SHARED

    assert set(found(index, text)) <= {"a"}


SHARED = filled(a="alpha beta")


@pytest.mark.parametrize(
    "text",
    [
        'alpha" OR b',
        "alpha:",
        "alpha*",
        "NEAR(alpha beta)",
        "-alpha",
        "alpha AND",
        "(alpha",
        "^alpha",
    ],
)
def test_operators_are_words(text):
    """What would be an operator of the engine is looked for as a word, where raw text is an error or something else."""
    assert found(SHARED, text) == ["a"]


def test_a_phrase_in_quotes_is_kept_together():
    """Words in double quotes are found side by side only."""
    index = filled(a="new york city", b="york has a new city")

    assert sorted(found(index, "new york")) == ["a", "b"]
    assert found(index, '"new york"') == ["a"]


def test_pages_follow_each_other():
    """Limit and offset walk through all hits once, and the last page says that it is the last."""
    index = filled(**{f"d{n:02}": "word" for n in range(25)})
    seen, offset = [], 0
    while offset is not None:
        page = index.query("word", limit=10, offset=offset)
        seen += [hit["id"] for hit in page["hits"]]
        offset = page["next_offset"]

    assert (len(seen), sorted(seen)) == (25, [f"d{n:02}" for n in range(25)])
    past = index.query("word", limit=10, offset=90)
    assert past == {"hits": [], "total": 25, "next_offset": None}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"year": 2026}, ["a"]),
        ({"year": 2026.0}, ["a"]),
        ({"year": "2026"}, []),
        ({"new": True}, ["a"]),
        ({"new": 1}, []),
        ({"new": False}, ["b"]),
        ({"tag": "x' OR 1=1 --"}, ["b"]),
        ({'we"ird.name[0]': "v"}, ["b"]),
        ({"year": 2026, "new": False}, []),
        ({"none": "x"}, []),
        ({"huge": 2**64}, ["a"]),
        ({"year": 2**64}, []),
        ({"year": -(10**4000)}, []),
    ],
)
def test_filters_compare_values_of_metadata(filters, expected):
    """A filter takes documents whose metadata has that very value, of that very type, under any name."""
    index = SearchIndex()
    odd = {"tag": "x' OR 1=1 --", 'we"ird.name[0]': "v"}
    index.add("a", "word", metadata={"year": 2026, "new": True, "huge": 2**64})
    index.add("b", "word", metadata={"year": 2025, "new": False, **odd})

    assert found(index, "word", filters=filters) == expected


def test_an_index_in_a_file_is_there_again(tmp_path):
    """A file holds the index for the next process."""
    index = SearchIndex(tmp_path / "index.db")
    index.add("a", "kept")
    index.close()

    assert found(SearchIndex(tmp_path / "index.db"), "kept") == ["a"]


def test_threads_share_an_index():
    """Any number of threads add and search at once, and nothing is lost."""
    index = SearchIndex()

    def work(number):
        for at in range(50):
            index.add(f"{number}-{at}", f"word {number}")
            index.query("word")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(index), index.query("word")["total"], index.query("3")["total"]) == (400, 400, 50)


def test_the_tool_answers_with_a_page():
    """The tool's value is the page, and its text the same as JSON."""
    index = SearchIndex()
    index.add("a", "A warm lake.", title="Lake", metadata={"year": 2026})
    index.add("b", "A cold lake.")
    arguments = {"query": "warm lake", "limit": 1, "filters": {"year": 2026}}
    result = call(search_tool(index), arguments)

    assert json.loads(result.text) == result.value
    assert {**result.value["hits"][0], "score": 0} == {
        "id": "a",
        "title": "Lake",
        "snippet": "A warm lake.",
        "score": 0,
        "metadata": {"year": 2026},
    }
    assert (result.value["total"], result.value["next_offset"]) == (1, None)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": ""},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 51},
        {"query": "x", "offset": -1},
    ],
)
def test_the_tool_bounds_its_arguments(arguments):
    """An empty query and limits out of bounds are refused."""
    assert call(search_tool(SearchIndex()), arguments).error.type == "ArgumentError"


def test_any_index_with_a_query_will_do():
    """An index of one's own, with an async query, is searched with the same arguments."""

    class Own:
        async def query(self, text, *, limit, offset, filters):
            self.asked = (text, limit, offset, filters)
            return SearchPage(hits=[], total=0, next_offset=None)

    own = Own()

    answer = call(search_tool(own), {"query": "x", "offset": 3})
    assert answer.value == {"hits": [], "total": 0, "next_offset": None}
    assert own.asked == ("x", 10, 3, None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_while_another_thread_uses_the_index():
    """Otherwise the child would wait for ever for a lock that the thread of its parent held."""
    index, begun = filled(a="word"), threading.Event()

    class Slow(dict):
        def __getitem__(self, name):
            begun.set()
            time.sleep(0.1)
            return super().__getitem__(name)

    document = Slow(id="b", text="another word")
    thread = threading.Thread(target=index.add_all, args=([document],))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if index.query("word")["total"] == 2 else 1)
    thread.join()

    assert os.waitpid(child, 0)[1] == 0


def test_documents_may_be_made_while_they_are_added():
    """What makes them may search the index. It may also fork, and would wait for itself."""
    index = filled(a="word")

    def documents():
        for hit in index.query("word")["hits"]:
            yield {"id": f"{hit['id']}2", "text": hit["snippet"]}

    thread = threading.Thread(target=index.add_all, args=(documents(),), daemon=True)
    thread.start()
    thread.join(20)

    assert not thread.is_alive()
    assert index.query("word")["total"] == 2


def test_a_search_takes_a_hundred_filters():
    """More filters than SQLite's parser can nest are refused in words, and nothing is logged."""
    tool = search_tool(filled(a="word"))
    few, many = ({str(n): n for n in range(count)} for count in (100, 1_001))

    assert call(tool, {"query": "word", "filters": few}).success
    refused = call(tool, {"query": "word", "filters": many}).error
    assert (refused.type, refused.message) == ("ToolError", "A search takes at most 100 filters.")


def test_the_schema_of_the_tool_is_small_and_plain():
    """The tool has four arguments, one of them required, and says that it reads only."""
    tool = search_tool(SearchIndex())

    assert list(tool.schema.parameters["properties"]) == ["query", "limit", "offset", "filters"]
    assert tool.schema.parameters["required"] == ["query"]
    assert (tool.name, tool.settings.read_only) == ("search", True)
    assert set(tool.schema.output["properties"]) == {"hits", "total", "next_offset"}


def test_what_is_no_index():
    """An index is looked at when the tool is made, and not at its first call."""
    with pytest.raises(DefinitionError, match="^search_tool takes a SearchIndex, .* not str$"):
        search_tool("index")
