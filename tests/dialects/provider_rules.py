"""What each provider refuses or ignores, written from its documentation alone, to check what the dialects make.

Nothing here knows the code under test: every function takes what would go over the wire and returns what is wrong with it.
"""

from __future__ import annotations

import re
from typing import Any

NESTED_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
NESTED_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
NESTED = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")

OPENAI_STRICT = set(
    "type properties required additionalProperties items enum const anyOf $ref $defs description title default pattern format multipleOf "
    "minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems minLength maxLength".split()
)
OPENAI_FORMATS = {
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
}
ANTHROPIC_STRICT = set(
    "type properties required additionalProperties items enum const anyOf allOf $ref $defs definitions description title default pattern "
    "format minItems".split()
)
ANTHROPIC_FORMATS = OPENAI_FORMATS | {"uri"}
GEMINI_JSON = set(
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties "
    "additionalProperties required propertyOrdering".split()
)
GEMINI_OPENAPI = set(
    "type nullable enum format items minItems maxItems minimum maximum minLength maxLength pattern minProperties maxProperties anyOf "
    "properties required propertyOrdering default example title description".split()
)
XAI_FORMATS = {"date", "time", "date-time", "email", "uuid", "ipv4", "ipv6", "uri"}
HARD_REGEX = re.compile(r"\(\?=|\(\?!|\(\?<|\\[1-9]|\\b|\\B")


def nodes(schema: Any, path: str = "#"):
    """Every schema inside `schema` with its path, itself first."""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for key in NESTED_MAPS:
        for name, child in (schema.get(key) or {}).items():
            yield from nodes(child, f"{path}/{key}/{name}")
    for key in NESTED_LISTS:
        for i, child in enumerate(schema.get(key) or []):
            yield from nodes(child, f"{path}/{key}/{i}")
    for key in NESTED:
        if isinstance(schema.get(key), (dict, bool)) and key in schema:
            yield from nodes(schema[key], f"{path}/{key}")


def follow(schema: dict, ref: str) -> Any:
    """What a local reference points at; KeyError for a dangling one."""
    node: Any = schema
    for part in ref.removeprefix("#").strip("/").split("/"):
        if part:
            node = node[
                int(part) if isinstance(node, list) else part.replace("~1", "/").replace("~0", "~")
            ]
    return node


def dangling(schema: dict) -> list[str]:
    """References that lead nowhere, or off the machine."""
    wrong = []
    for path, node in nodes(schema):
        if isinstance(node, dict) and "$ref" in node:
            try:
                follow(schema, node["$ref"]) if node["$ref"].startswith("#") else wrong.append(
                    f"{path}: remote {node['$ref']}"
                )
            except (KeyError, IndexError, ValueError, TypeError):
                wrong.append(f"{path}: dangling {node['$ref']}")
    return wrong


def holds_itself(schema: dict, *, optional_is_fine: bool = False) -> bool:
    """Whether following references from some node leads back to it (Gemini: without a non-required property on the way)."""

    def visit(node: Any, way: tuple[str, ...]) -> bool:
        if not isinstance(node, dict):
            return False
        if "$ref" in node:
            return node["$ref"] in way or visit(follow(schema, node["$ref"]), (*way, node["$ref"]))
        for name, child in (node.get("properties") or {}).items():
            free = optional_is_fine and name not in node.get("required", [])
            if not free and visit(child, way):
                return True
        inner = [child for key in NESTED_LISTS for child in node.get(key) or []]
        inner += [node[key] for key in NESTED if isinstance(node.get(key), dict)]
        return any(visit(child, way) for child in inner)

    starts = [schema, *(schema.get("$defs") or {}).values()]
    return any(visit(start, ("#",) if start is schema else ()) for start in starts)


def types(node: dict) -> list[str]:
    kind = node.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def root_problems(schema: dict, *combinators: str) -> list[str]:
    wrong = [] if schema.get("type") == "object" else ["#: type is not object"]
    return wrong + [f"#: {key} at the root" for key in combinators if key in schema]


def openai(tool: dict) -> list[str]:
    """One function tool of the Responses API."""
    schema, strict = tool.get("parameters"), tool.get("strict")
    wrong = [] if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]) else [f"name {tool['name']}"]
    if not isinstance(strict, bool):
        wrong.append("strict is not said")
    wrong += root_problems(schema, "anyOf", "oneOf", "allOf", "enum", "not") + dangling(schema)
    if "properties" not in schema:
        wrong.append("#: object schema missing properties")
    for path, node in nodes(schema):
        if isinstance(node, dict) and "array" in types(node) and "items" not in node:
            wrong.append(f"{path}: array schema missing items")
    return wrong + (openai_strict(schema) if strict else [])


def openai_strict(schema: dict) -> list[str]:
    wrong = []
    properties = characters = values = 0
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            wrong += [] if path.endswith("/additionalProperties") else [f"{path}: boolean schema"]
            continue
        wrong += [f"{path}: {key} is not permitted" for key in node.keys() - OPENAI_STRICT]
        if "$ref" in node and len(node) > 1 and path != "#":
            wrong.append(f"{path}: $ref cannot have keywords")
        if not node.keys() & {"type", "anyOf", "$ref"}:
            wrong.append(f"{path}: schema must have a 'type' key")
        if "object" in types(node):
            if node.get("additionalProperties") is not False:
                wrong.append(f"{path}: additionalProperties must be false")
            if (
                set(node.get("required", [])) != set(node.get("properties", {}))
                or "properties" not in node
            ):
                wrong.append(f"{path}: every property must be required")
        if "format" in node and node["format"] not in OPENAI_FORMATS:
            wrong.append(f"{path}: format {node['format']}")
        if "pattern" in node and re.search(r"\(\?(=|!|<=|<!)", node["pattern"]):
            wrong.append(f"{path}: look-around")
        properties += len(node.get("properties", {}))
        characters += sum(map(len, node.get("properties", {}))) + sum(
            map(len, node.get("$defs", {}))
        )
        characters += sum(len(str(value)) for value in node.get("enum", []))
        values += len(node.get("enum", []))
    wrong += ["too many properties"] * (properties > 5000) + ["too many characters"] * (
        characters > 120_000
    )
    return wrong + ["too many enum values"] * (values > 1000)


def anthropic(tools: list[dict]) -> list[str]:
    """All the tools of one Messages request."""
    wrong = []
    strict = [tool["input_schema"] for tool in tools if tool.get("strict")]
    for tool in tools:
        schema = tool["input_schema"]
        wrong += (
            [] if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]) else [f"name {tool['name']}"]
        )
        wrong += root_problems(schema, "anyOf", "oneOf", "allOf") + dangling(schema)
        bad = [
            key
            for key in schema.get("properties", {})
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key)
        ]
        wrong += [f"property key {key}" for key in bad]
        wrong += claude_grammar(schema, ANTHROPIC_STRICT) if tool.get("strict") else []
    if len({tool["name"] for tool in tools}) < len(tools):
        wrong.append("tool names must be unique")
    inside = [node for schema in strict for _, node in nodes(schema) if isinstance(node, dict)]
    optional = sum(
        len(set(node.get("properties", {})) - set(node.get("required", []))) for node in inside
    )
    unions = sum("anyOf" in node or isinstance(node.get("type"), list) for node in inside)
    wrong += ["over 20 strict tools"] * (len(strict) > 20) + ["over 24 optional parameters"] * (
        optional > 24
    )
    return wrong + ["over 16 unions"] * (unions > 16)


def claude_grammar(schema: dict, keywords: set[str]) -> list[str]:
    wrong = ["a recursive schema"] * holds_itself(schema)
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            wrong += [] if path.endswith("/additionalProperties") else [f"{path}: boolean schema"]
            continue
        wrong += [f"{path}: {key} is not supported" for key in node.keys() - keywords]
        if "object" in types(node) and node.get("additionalProperties") is not False:
            wrong.append(f"{path}: additionalProperties must be false")
        if not node.keys() & {"type", "anyOf", "allOf", "$ref", "enum", "const"}:
            wrong.append(f"{path}: any value at all")
        if "format" in node and node["format"] not in ANTHROPIC_FORMATS:
            wrong.append(f"{path}: format {node['format']}")
        if "pattern" in node and HARD_REGEX.search(node["pattern"]):
            wrong.append(f"{path}: pattern {node['pattern']}")
        if node.get("minItems", 0) > 1:
            wrong.append(f"{path}: minItems {node['minItems']}")
        if any(isinstance(value, (list, dict)) for value in node.get("enum", [])):
            wrong.append(f"{path}: complex enum")
        if any("$ref" in member for member in node.get("allOf", [])):
            wrong.append(f"{path}: allOf with $ref")
    return wrong


def bedrock(spec: dict) -> list[str]:
    """One toolSpec of Converse."""
    schema = spec["inputSchema"]["json"]
    wrong = [] if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", spec["name"]) else [f"name {spec['name']}"]
    wrong += ["an empty description"] if spec.get("description", "x") == "" else []
    wrong += root_problems(schema, "anyOf", "oneOf", "allOf") + dangling(schema)
    return wrong + (
        claude_grammar(schema, ANTHROPIC_STRICT | {"minLength", "maxLength"})
        if spec.get("strict")
        else []
    )


def gemini(declaration: dict) -> list[str]:
    """One function declaration, with either field."""
    wrong = (
        []
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", declaration["name"])
        else [f"name {declaration['name']}"]
    )
    schema = (
        declaration.get("parameters_json_schema")
        or declaration.get("parameters")
        or {"type": "object"}
    )
    names = [
        name
        for name in schema.get("properties", {})
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name)
    ]
    wrong += [f"parameter name {name}" for name in names]
    if "parameters" in declaration and "parameters_json_schema" in declaration:
        wrong.append("both fields")
    return wrong + (gemini_openapi(schema) if "parameters" in declaration else gemini_json(schema))


def gemini_json(schema: dict) -> list[str]:
    wrong = root_problems(schema) + dangling(schema)
    wrong += ["a cycle through required properties"] * holds_itself(schema, optional_is_fine=True)
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            continue
        wrong += [f"{path}: {key} is ignored" for key in node.keys() - GEMINI_JSON]
        if "$ref" in node and any(not key.startswith("$") for key in node):
            wrong.append(f"{path}: siblings of $ref")
        if any(
            isinstance(value, bool) or not isinstance(value, (str, int, float))
            for value in node.get("enum", [])
        ):
            wrong.append(f"{path}: enum {node['enum']}")
    return wrong


def gemini_openapi(schema: dict) -> list[str]:
    wrong = [] if schema["type"] == "OBJECT" else ["#: type is not OBJECT"]
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            wrong.append(f"{path}: boolean schema")
            continue
        wrong += [f"{path}: unknown name {key}" for key in node.keys() - GEMINI_OPENAPI]
        if not isinstance(node.get("type", ""), str):
            wrong.append(f"{path}: more than one type")
        elif node.get("type", "OBJECT") not in (
            "STRING",
            "NUMBER",
            "INTEGER",
            "BOOLEAN",
            "ARRAY",
            "OBJECT",
            "NULL",
        ):
            wrong.append(f"{path}: type {node['type']}")
        if "type" not in node and "anyOf" not in node:
            wrong.append(f"{path}: no type")
        if any(not isinstance(value, str) for value in node.get("enum", [])):
            wrong.append(f"{path}: enum of other than strings")
        if node.get("type") == "ARRAY" and "items" not in node:
            wrong.append(f"{path}: missing items")
    if not schema.get("properties"):
        wrong.append("#: properties should be non-empty for OBJECT type")
    return wrong


def xai(function: dict) -> list[str]:
    """One function of a chat request."""
    schema = function["parameters"]
    wrong = (
        []
        if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"])
        else [f"name {function['name']}"]
    )
    wrong += (
        root_problems(schema) + dangling(schema) + ["a recursive schema"] * holds_itself(schema)
    )
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            wrong += [] if path.endswith("/additionalProperties") else [f"{path}: boolean schema"]
            continue
        if "object" in types(node) and "additionalProperties" not in node:
            wrong.append(f"{path}: closed by default")
        wrong += [
            f"{path}: {key}"
            for key in ("minContains", "maxContains", "not", "if", "then", "else")
            if key in node
        ]
        wrong += [
            f"{path}: empty {key}" for key in ("enum", "anyOf") if key in node and not node[key]
        ]
        if len(node.get("allOf", [0])) != 1:
            wrong.append(f"{path}: allOf of several")
        if isinstance(node.get("items"), list):
            wrong.append(f"{path}: items as a list")
        if "format" in node and node["format"] not in XAI_FORMATS:
            wrong.append(f"{path}: format {node['format']}")
        if (
            max(node.get("minLength", 0), node.get("maxLength", 0)) > 2048
            or max(node.get("minItems", 0), node.get("maxItems", 0)) > 256
        ):
            wrong.append(f"{path}: beyond the guaranteed bounds")
        if "pattern" in node and (
            HARD_REGEX.search(node["pattern"]) or not re.fullmatch(r"\^.*\$", node["pattern"])
        ):
            wrong.append(f"{path}: pattern {node['pattern']}")
    return wrong


def mistral(function: dict) -> list[str]:
    """One function of a chat request."""
    schema = function["parameters"]
    wrong = (
        []
        if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"])
        else [f"name {function['name']}"]
    )
    return (
        wrong
        + root_problems(schema)
        + dangling(schema)
        + (openai_strict(schema) if function["strict"] else [])
    )


def mcp(tool: dict) -> list[str]:
    """One tool of tools/list."""
    wrong = [] if re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool["name"]) else [f"name {tool['name']}"]
    return wrong + root_problems(tool["inputSchema"]) + dangling(tool["inputSchema"])


COMPATIBLE_UNSAID = {
    "deepseek": "minLength maxLength minItems maxItems pattern format minimum maximum default",
    "groq": "minLength maxLength default",
    "cohere": "minLength maxLength minItems maxItems uniqueItems minimum maximum oneOf allOf not",
}


def compatible(name: str, function: dict) -> list[str]:
    """One function for a server that speaks OpenAI's Chat Completions."""
    schema, strict = function["parameters"], function.get("strict", name == "cohere")
    wrong = (
        []
        if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"])
        else [f"name {function['name']}"]
    )
    wrong += root_problems(schema) + dangling(schema)
    for path, node in nodes(schema):
        keys = node.keys() if isinstance(node, dict) else ()
        lacking = COMPATIBLE_UNSAID[name].split() if strict else []
        wrong += [f"{path}: {key}" for key in lacking if key in keys]
        in_union = re.search(r"/(anyOf|oneOf)/[0-9]+$", path)
        if in_union and "$ref" in keys and not holds_itself(schema):
            wrong.append(f"{path}: $ref in a union")
    return wrong
