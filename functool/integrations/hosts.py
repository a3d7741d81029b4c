"""Judge who can reach a server, and whether a request has its secret. Every server asks this."""

from __future__ import annotations

import hmac
from hashlib import sha256
from ipaddress import ip_address

EVERYWHERE = ("0.0.0.0", "::")
"""To listen on these is to listen on all addresses. Such a server does not know its own names."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def same_secret(one: bytes, other: bytes) -> bool:
    """Whether two secrets are equal. The time that this takes reveals nothing about them."""
    # Digests have equal lengths, so the time does not even reveal the length.
    return hmac.compare_digest(sha256(one).digest(), sha256(other).digest())
