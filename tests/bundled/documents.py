"""OpenAPI documents in few words, and the tools that they become."""

import asyncio

from functool import ToolCall
from functool.bundled.openapi import openapi_tools

HEAD = {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}}


def document(paths, **rest):
    """Return a document with these paths."""
    return {**HEAD, "paths": paths, **rest}


def get(path="/x", operation_id="x", **node):
    """Return one path that is read."""
    return {path: {"get": {"operationId": operation_id, **node}}}


def sending(schema, path="/x", operation_id="x", method="post", kind="application/json", **node):
    """Return one path that is sent a body."""
    body = {"content": {kind: {"schema": schema}}}
    return {path: {method: {"operationId": operation_id, "requestBody": body, **node}}}


def tools_of(spec, **options):
    """Make the tools of a document for a server that no test asks, unless it names another."""
    return openapi_tools(spec, **{"base_url": "https://a.example", **options})


def call(tools, tool, /, **arguments):
    """Call a tool by its name, in an event loop of its own."""
    return asyncio.run(tools.call(ToolCall(name=tool, arguments=arguments)))


def places(node):
    """Yield every container of a document with each of its keys."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        yield node, key
        if isinstance(value, (dict, list)):
            yield from places(value)
