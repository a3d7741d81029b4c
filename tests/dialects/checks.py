"""Each dialect beside the rules of its provider, and what the tests ask of both."""

from functool.dialects import (
    anthropic,
    bedrock,
    cohere,
    deepseek,
    gemini,
    groq,
    mcp,
    mistral,
    openai,
    openai_chat,
    xai,
)
from tests.dialects import provider_rules

EVERY = [openai, openai_chat, anthropic, gemini, bedrock, mistral, xai, mcp, cohere, deepseek, groq]


def _openapi(tool):
    return gemini.definition(tool, field="parameters")


def _openapi_losses(*tools):
    return gemini.losses(*tools, field="parameters")


def _inside(key, rules, *names):
    """The rules for what stands under a key of a definition."""
    return lambda made: rules(*names, made[key])


def _compatible(name):
    return _inside("function", provider_rules.compatible, name)


CHECKS = {
    "openai": (openai.definition, openai.losses, provider_rules.openai),
    "openai_chat": (
        openai_chat.definition,
        openai_chat.losses,
        _inside("function", provider_rules.openai),
    ),
    "anthropic": (
        anthropic.definition,
        anthropic.losses,
        lambda made: provider_rules.anthropic([made]),
    ),
    "bedrock": (bedrock.definition, bedrock.losses, _inside("toolSpec", provider_rules.bedrock)),
    "gemini": (gemini.definition, gemini.losses, provider_rules.gemini),
    "gemini-openapi": (_openapi, _openapi_losses, provider_rules.gemini),
    "mistral": (mistral.definition, mistral.losses, _inside("function", provider_rules.mistral)),
    "xai": (xai.definition, xai.losses, _inside("function", provider_rules.xai)),
    "mcp": (mcp.definition, mcp.losses, provider_rules.mcp),
    "cohere": (cohere.definition, cohere.losses, _compatible("cohere")),
    "deepseek": (deepseek.definition, deepseek.losses, _compatible("deepseek")),
    "groq": (groq.definition, groq.losses, _compatible("groq")),
}
"""Name -> definition(tool), losses(*tools), and what is wrong with a definition."""

KNOWN_BY_STRICT = (
    *("openai", "openai_chat", "anthropic", "bedrock", "mistral"),
    *("cohere", "deepseek", "groq"),
)
"""Those whose rendering of a strict tool is another one."""

BUDGETS = {"over 24 optional parameters": "optional arguments", "over 16 unions": "union type"}
UNION = ": $ref in a union"


def unsaid(problems, losses):
    """The problems that no loss names: a dialect changes no name and can not shrink a tool, but it has to say so."""
    said = " ".join(losses)
    if "stays in a union: it is recursive" in said:  # Seen in what the author wrote.
        problems = [problem for problem in problems if not problem.endswith(UNION)]
    names = {
        problem: _name_in(problem)
        for problem in problems
        if problem.startswith(("name ", "parameter name ", "property key "))
    }
    return [
        problem
        for problem in problems
        if BUDGETS.get(problem, names.get(problem, "nothing says so")) not in said
    ]


def _name_in(problem):
    return problem.removeprefix("parameter ").removeprefix("name ").removeprefix("property key ")


def schema_in(definition):
    """The schema of the arguments, wherever a dialect puts it."""
    for key in ("parameters", "parameters_json_schema", "input_schema", "inputSchema"):
        if key in definition:
            return definition[key].get("json", definition[key])
    return schema_in(definition.get("function") or definition.get("toolSpec"))
