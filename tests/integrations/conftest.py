"""What many suites go through: each era of the Model Context Protocol, and each agent framework."""

import pytest


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    """The era of the Model Context Protocol in which a client and a server speak."""
    return request.param


@pytest.fixture(params=["openai-agents", "pydantic-ai", "langchain", "agent-framework"])
def bridge(request):
    """Each agent framework, with functool's bridge to it."""
    from tests.integrations.bridges import BRIDGES

    return next(bridge for bridge in BRIDGES if bridge.name == request.param)
