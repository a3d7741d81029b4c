"""Which addresses a tool may connect to: public ones, and those that the host names itself.

The owner of a name can let it resolve to any address, at any moment. So a name alone decides
nothing. A name is resolved once, every address is checked, and the connection goes to an address
that was checked.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from functool import DefinitionError, ToolError
from functool.executors import in_thread

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

# The IANA special-purpose registries, multicast, and addresses that look public but lead into a
# cloud's own control plane. The tables of `ipaddress` differ between Python versions, so they are
# only checked in addition.
_CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
# Teredo is 2001::/32 and 6to4 is 2002::/16. They are tunnels to an IPv4 address that the sender
# chooses.
_CLOSED_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)

_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NUMERIC = re.compile(r"(\d+|0x[0-9a-f]*)")
_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]+")


class UrlNotAllowed(ToolError):
    """This tool may not use the URL, or an address that it leads to."""


class Reach:
    """The hosts and addresses that a tool may connect to.

    Args:
        allow: Host patterns such as `example.com` and `*.example.com`, addresses and networks.
            None allows every host. An address that is not public is allowed only if an address
            or network here covers it. A name or a pattern never allows such an address.
        trusted: Names of hosts that are always allowed, whatever their addresses are.

    Raises:
        DefinitionError: An entry is none of these.
    """

    def __init__(self, allow: Iterable[str] | None = None, *, trusted: Iterable[str] = ()) -> None:
        self._trusted = frozenset(map(_plain, trusted))
        self._patterns: list[str] | None = None if allow is None else []
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in [allow] if isinstance(allow, str) else allow or ():
            network = _network(entry)
            if network is not None:
                self._networks.append(network)
            elif self._patterns is not None:
                self._patterns.append(_pattern(entry))

    async def addresses(self, host: str, port: int, resolve: Resolve) -> list[str]:
        """Return the addresses of `host` to connect to, after a check of each of them.

        Raises:
            UrlNotAllowed: The host is spelt in a way that is not allowed, or the host or one of
                its addresses is not allowed.
            OSError: The name does not resolve.
        """
        host = _plain(host)
        literal = self.check_host(host)
        found = [host] if literal else await resolve(host, port)
        if host in self._trusted:
            return found
        # One bad address is enough: an answer that mixes public and private ones is an attack or a
        # mistake.
        if not found or not all(self.admits_address(address) for address in found):
            raise UrlNotAllowed(f"The host {host!r} has an address that is not public.")
        return found

    def check_host(self, host: str) -> bool:
        """Check a host without resolving it, and return whether it is an address.

        Raises:
            UrlNotAllowed: The host is spelt in a way that is not allowed, or it is not allowed.
        """
        host = _plain(host)
        literal = _address(host)
        if literal is None and (
            not _HOST.fullmatch(host) or _NUMERIC.fullmatch(host.rsplit(".", 1)[-1])
        ):
            raise UrlNotAllowed("The URL spells its host in a way that is not allowed.")
        if host in self._trusted:
            return literal is not None
        if not self._admits_host(host, literal):
            raise UrlNotAllowed(f"The host {host!r} is not one of those that this tool may reach.")
        if host.rsplit(".", 1)[-1] == "localhost" or (
            literal is not None and not self.admits_address(host)
        ):
            raise UrlNotAllowed(f"The address of {host!r} is not public.")
        return literal is not None

    def admits_address(self, text: str) -> bool:
        """Whether an address is public, or is covered by an address or network of `allow`."""
        address = _address(text)
        if address is None:
            return False
        address = _unmapped(address)
        return is_public(address) or any(address in network for network in self._networks)

    def _admits_host(self, host: str, literal: Address | None) -> bool:
        if self._patterns is None:
            return True
        if literal is not None and any(_unmapped(literal) in network for network in self._networks):
            return True
        return any(fnmatchcase(host, pattern) for pattern in self._patterns)


def is_public(address: Address) -> bool:
    """Whether an address is public, also if it is mapped or translated into IPv6."""
    address = _unmapped(address)
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _CLOSED_4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(_low_32(address))
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP and not is_public(_low_32(address)):
        return False
    return (
        address in _GLOBAL_6
        and address.is_global
        and not any(address in network for network in _CLOSED_6)
    )


async def system_addresses(host: str, port: int) -> list[str]:
    """Ask the system's resolver, on a thread.

    Raises:
        OSError: The name does not resolve.
    """
    found = await in_thread(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _plain(host: str) -> str:
    return host.lower().strip("[]").removesuffix(".")


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(str(text).strip("[]"))
    except ValueError:
        return None


def _pattern(text: str) -> str:
    if not isinstance(text, str) or not _PATTERN.fullmatch(text):
        raise DefinitionError(
            f"{text!r} is not a host pattern: write a host like 'example.com' or '*.example.com', "
            "or an address"
        )
    return text.lower().removesuffix(".")


def _unmapped(address: Address) -> Address:
    return _low_32(address) if isinstance(address, IPv6Address) and address in _MAPPED else address


def _low_32(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
