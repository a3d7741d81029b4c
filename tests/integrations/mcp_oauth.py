"""The SDK's OAuth client without a browser: the authorization page answers with a redirect."""

import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

REDIRECT = "http://localhost:3000/callback"
CLIENT = "https://conformance-test.local/client-metadata.json"


class Memory:
    """A storage that forgets when the process ends."""

    def __init__(self, client: Any = None) -> None:
        self.tokens: Any = None
        self.client = client

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


def provider(url: str, context: dict[str, Any]) -> httpx2.Auth:
    """Return what `connect(url, auth=...)` takes, with the credentials that a scenario gives."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if scenario == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(
            url, Memory(), context["client_id"], context["client_secret"]
        )
    if scenario == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_key=context["private_key_pem"],
            signing_algorithm=context["signing_algorithm"],
        )
        return PrivateKeyJWTOAuthProvider(
            url, Memory(), context["client_id"], signed.create_assertion_provider()
        )
    return _with_code(url, context)


def _with_code(url: str, context: dict[str, Any]) -> OAuthClientProvider:
    answered: dict[str, str] = {}

    async def redirect(address: str) -> None:
        async with httpx2.AsyncClient() as client:
            location = (await client.get(address)).headers["location"]
        parts = parse_qs(urlsplit(location).query)
        answered.update({key: values[0] for key, values in parts.items()})

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            code=answered["code"], state=answered.get("state"), iss=answered.get("iss")
        )

    known = None
    if "client_id" in context:
        known = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context.get("client_secret"),
            redirect_uris=[REDIRECT],
            issuer=context.get("issuer"),
            token_endpoint_auth_method="client_secret_basic",
        )
    metadata = OAuthClientMetadata(
        client_name="functool conformance",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(
        url, metadata, Memory(known), redirect, callback, client_metadata_url=CLIENT
    )
