"""The chunks of OpenAI's Chat Completions, which many servers stream."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from functool.dialects._reply import Reply, Written, mixed_streams, no_such_call
from functool.dialects._wire import COMPLETE, get, listed, mismatch


class ChatChunks:
    """Reads the chunks of the first choice.

    `kinds` are the types of the calls that the host runs, `expected` says what a chunk is, and
    `no_id` is how an SDK spells an id that was not sent.
    """

    def __init__(
        self,
        expected: str = "a ChatCompletionChunk or its dict",
        kinds: Collection[Any] = (None, "function"),
        no_id: str = "",
    ) -> None:
        self.expected = expected
        self._kinds = kinds
        self._no_id = no_id
        self._ids: dict[Any, str] = {}
        self._foreign: set[Any] = set()
        self._last: Any = None
        self._nameless: dict[Any, list[str]] = {}

    def read(self, chunk: Any, reply: Reply) -> None:
        """Read one chunk."""
        choices, error = get(chunk, "choices"), get(chunk, "error")
        # Some servers send the usage without choices, or the reason of the end without a delta.
        named = get(chunk, "object") == "chat.completion.chunk"
        given = () if named and choices is None else choices
        ours = listed(given) and all(_has_delta(one) or (named and _is_bare(one)) for one in given)
        if error is None and not ours:
            raise mismatch(self.expected, chunk)
        reply.check_id(get(chunk, "id"))
        if error is not None:
            reply.fail(get(error, "message") or error)
        for choice in given if error is None else ():
            if not get(choice, "index"):
                self._choice(choice, reply)

    def _choice(self, choice: Any, reply: Reply) -> None:
        delta = get(choice, "delta")
        for text in texts_of(get(delta, "content")):
            reply.say(text)
        reply.say(get(delta, "refusal"), refusal=True)
        for entry in get(delta, "tool_calls", "toolCalls") or ():
            self._call(entry, reply)
        reason = get(choice, "finish_reason", "finishReason")
        if reason:  # Some servers send "" until the end.
            for key in [*self._nameless]:
                self._start(key, "", reply)
            reply.end(reason, complete=reason in COMPLETE)

    def _call(self, entry: Any, reply: Reply) -> None:
        id = get(entry, "id") or ""
        id = "" if id == self._no_id else id
        key = get(entry, "index")
        if key is None:
            key = id or self._last
        self._last = key
        self._ids[key] = id or self._ids.get(key, "")
        if get(entry, "type") not in self._kinds:
            self._foreign.add((key, id))
        function = get(entry, "function")
        if function is None or (key, self._ids[key]) in self._foreign:
            return
        name, arguments = get(function, "name"), get(function, "arguments")
        found = reply.find(key)
        if found is not None and _is_repeated(found, name, id, arguments):
            return
        if found is None or _is_another(found, name, id, arguments):
            is_begun = id or key in self._nameless
            if not name and is_begun and isinstance(arguments, (str, type(None))):
                # Some servers send the name later.
                self._nameless.setdefault(key, []).append(arguments or "")
                return
            if not name:
                raise no_such_call()
            found = self._start(key, name, reply)
        elif name and name != found.name:
            raise mixed_streams("a call changed its name")
        if isinstance(arguments, (str, type(None))):
            reply.add(found, arguments)
        else:  # Mistral's SDK may have read them already.
            reply.finish(found, arguments)

    def _start(self, key: Any, name: str, reply: Reply) -> Written:
        """Begin a call, with the arguments that came before its name."""
        call = reply.start(key, name, self._ids[key])
        reply.add(call, "".join(self._nameless.pop(key, ())))
        return call


def _has_delta(choice: Any) -> bool:
    # Azure's asynchronous content filter sends its own results in choices without a delta.
    return get(choice, "delta", "content_filter_offsets") is not None


def _is_bare(choice: Any) -> bool:
    # A whole message, or the text of a completion, would be lost without a word.
    return not (get(choice, "message") or get(choice, "text"))


def _is_repeated(found: Written, name: Any, id: str, arguments: Any) -> bool:
    """Whether an entry has a whole call for the second time. It must not run twice."""
    same = bool(id) and (id, name) == (found.id, found.name)
    return same and found.brackets.closed and bool(arguments) and arguments == found.text


def _is_another(found: Written, name: Any, id: str, arguments: Any) -> bool:
    """Whether an entry begins another call under a place that is taken.

    Some servers give every call the place 0.
    """
    if not name:
        return False
    other_id = bool(id and found.id and id != found.id)
    return other_id or bool(found.brackets.closed and arguments and str(arguments).strip())


def texts_of(content: Any) -> list[str]:
    """Return the texts of a delta's content: a text, or a list of parts with some."""
    if isinstance(content, str):
        return [content]
    parts = content if listed(content) else []
    return [get(part, "text") or "" for part in parts if get(part, "type") in (None, "text")]
