"""The server that the official conformance suite is run against: every tool it asks for, made with functool."""

import asyncio
import base64
import sys
from typing import Any

import mcp_types as types
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError

from functool import (
    AudioContent,
    Context,
    FileContent,
    FunctionTool,
    ImageContent,
    SchemaTool,
    TextContent,
    Toolset,
)
from functool.integrations import mcp

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M/wHwAEBgIApD5fRAAAAABJRU5ErkJggg=="
)
WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0"


@FunctionTool
def test_simple_text():
    """Answer with text."""
    return "This is a simple text response for testing."


@FunctionTool
def test_image_content():
    """Answer with an image."""
    return ImageContent(data=PNG, media_type="image/png")


@FunctionTool
def test_audio_content():
    """Answer with a sound."""
    return AudioContent(data=WAV, media_type="audio/wav")


@FunctionTool
def test_embedded_resource():
    """Answer with a file."""
    return FileContent(
        data=b"This is an embedded resource content.",
        media_type="text/plain",
        uri="test://embedded-resource",
    )


@FunctionTool
def test_multiple_content_types():
    """Answer with text, an image and a file."""
    data = b'{"test":"data","value":123}'
    return [
        TextContent(text="Multiple content types test:"),
        ImageContent(data=PNG, media_type="image/png"),
        FileContent(data=data, media_type="application/json", uri="test://mixed-content-resource"),
    ]


@FunctionTool
async def test_tool_with_logging(context: Context):
    """Log three times."""
    session = context.deps.session
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await session.send_log_message("info", message, related_request_id=context.deps.request_id)
        await asyncio.sleep(0.05)
    return "done"


test_logging_tool = FunctionTool(test_tool_with_logging.func, name="test_logging_tool")


@FunctionTool
def test_error_handling():
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@FunctionTool
async def test_tool_with_progress(context: Context):
    """Report progress three times."""
    for done in (0, 50, 100):
        context.progress(done=done, total=100)
        await asyncio.sleep(0.05)
    return "done"


@FunctionTool
async def test_sampling(prompt: str, context: Context):
    """Ask the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    answer = await context.deps.session.create_message(
        [message], max_tokens=100, related_request_id=context.deps.request_id
    )
    return f"LLM response: {answer.content.text}"


async def elicited(
    context: Context, message: str, properties: dict[str, Any], required: list[str]
) -> str:
    form = {"type": "object", "properties": properties, "required": required}
    answer = await context.deps.session.elicit_form(
        message, form, related_request_id=context.deps.request_id
    )
    return f"action={answer.action}, content={answer.content}"


@FunctionTool
async def test_elicitation(message: str, context: Context):
    """Ask the client's person."""
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return f"User response: {await elicited(context, message, properties, ['username', 'email'])}"


@FunctionTool
async def test_elicitation_sep1034_defaults(context: Context):
    """Ask with defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await elicited(context, 'Your data?', properties, [])}"


@FunctionTool
async def test_elicitation_sep1330_enums(context: Context):
    """Ask with choices."""
    plain, titled = (
        ["option1", "option2", "option3"],
        [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)],
    )
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await elicited(context, 'Choose', properties, [])}"


@FunctionTool
async def test_reconnection(context: Context):
    """Close the stream in the middle of the call."""
    if context.deps.close_sse_stream is not None:
        await context.deps.close_sse_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed"


@FunctionTool
async def test_trigger_tool_change(context: Context):
    """Change the list of tools."""
    await server.replace(server.toolset)
    return "changed"


@FunctionTool
def test_missing_capability():
    """Need sampling, which the guard below demands of the client."""
    return "sampled"


# Rounds of 2026-07-28: a body may return the SDK's own InputRequiredResult, and finds the answers in `context.deps.params`.


def ask(properties: dict[str, Any], message: str = "Please confirm") -> types.ElicitRequest:
    form = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=form)
    )


def sample(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def rounds(name: str, questions: dict[str, Any], state: str | None, answer: Any) -> FunctionTool:
    """Return a tool that asks until every question has an answer."""

    def run(context: Context):
        params = context.deps.params
        given = params.get("inputResponses") or {}
        whole = all(isinstance(given.get(key), dict) for key in questions)
        if whole and params.get("requestState") == state:
            return answer(given)
        return types.InputRequiredResult(input_requests=questions, request_state=state)

    return FunctionTool(run, name=f"test_{name}", description="Ask, then answer.")


NAME = {"name": {"type": "string"}}
OK = {"ok": {"type": "boolean"}}
WHO = {"user_name": ask(NAME, "What is your name?")}
CAPITAL = {"capital_question": sample("What is the capital of France?")}
CONFIRM = {"confirm": ask(OK)}
ROOTS = {"client_roots": types.ListRootsRequest()}
MANY = {"user_name": ask(NAME), "greeting": sample("Generate a greeting"), **ROOTS}


def says(text: str) -> Any:
    return lambda given: text


def greeting(given: Any) -> str:
    return f"Hello, {given['user_name']['content']['name']}!"


def capital(given: Any) -> str:
    return given["capital_question"]["content"]["text"]


def told_roots(given: Any) -> str:
    return str(given["client_roots"])


input_required = [
    rounds("input_required_result_elicitation", WHO, None, greeting),
    rounds("streaming_elicitation", WHO, None, says("done")),
    rounds("input_required_result_sampling", CAPITAL, None, capital),
    rounds("input_required_result_list_roots", ROOTS, None, told_roots),
    rounds("input_required_result_request_state", CONFIRM, "asked", says("state-ok")),
    rounds("input_required_result_tampered_state", CONFIRM, "asked", says("state-ok")),
    rounds("input_required_result_multiple_inputs", MANY, "asked", says("all answered")),
]


@FunctionTool
def test_input_required_result_multi_round(context: Context):
    """Ask twice."""
    params = context.deps.params
    given, state = params.get("inputResponses") or {}, params.get("requestState")
    if state == "second" and "step2" in given:
        return "both answered"
    if state == "first" and "step1" in given:
        return types.InputRequiredResult(
            input_requests={"step2": ask({"color": {"type": "string"}})}, request_state="second"
        )
    return types.InputRequiredResult(input_requests={"step1": ask(NAME)}, request_state="first")


@FunctionTool
def test_input_required_result_capabilities(context: Context):
    """Ask only for what the client declared."""
    declared = context.deps.session.client_capabilities
    questions = {"model": sample("Hello"), "person": ask(NAME)}
    allowed = {"model": declared.sampling is not None, "person": declared.elicitation is not None}
    return types.InputRequiredResult(
        input_requests={key: question for key, question in questions.items() if allowed[key]}
    )


json_schema_2020_12_tool = SchemaTool(
    "json_schema_2020_12_tool",
    "Tool with JSON Schema 2020-12 features",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    lambda arguments: str(arguments),
)
custom_headers = SchemaTool(
    "test_custom_headers",
    "Take arguments that travel as headers too.",
    {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "priority": {"type": "integer", "x-mcp-header": "Priority"},
            "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
            "query": {"type": "string"},
        },
        "required": ["region"],
    },
    lambda arguments: str(arguments),
)


async def demand_sampling(context: Any, call_next: Any) -> Any:
    """Refuse, as the protocol wants it, a call whose tool needs what the client did not declare."""
    if (
        context.method == "tools/call"
        and (context.params or {}).get("name") == "test_missing_capability"
    ):
        declared = context.session.client_capabilities
        if declared is None or declared.sampling is None:
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                "sampling is needed",
                {"requiredCapabilities": {"sampling": {}}},
            )
    return await call_next(context)


tools = [value for name, value in list(globals().items()) if name.startswith("test_")]
server = mcp.server(
    Toolset([*tools, *input_required, json_schema_2020_12_tool, custom_headers]),
    name="functool-conformance",
    context=lambda request: Context(deps=request),
)
server.middleware.append(demand_sampling)


async def set_level(request: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Take any level: the suite's client sets one before it listens."""
    return types.EmptyResult()


server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)


class Events(EventStore):
    """The messages of every stream, so that a client that comes back gets what it missed."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        stream = self.events[int(last_event_id) - 1][0]
        for place, (of, message) in enumerate(
            self.events[int(last_event_id) :], int(last_event_id) + 1
        ):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(place)))
        return stream


if __name__ == "__main__":
    import uvicorn

    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
