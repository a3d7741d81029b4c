"""Which addresses are public, and which hosts are within reach."""

import asyncio
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functool import DefinitionError
from functool.bundled.addresses import Reach, UrlNotAllowed, is_public, system_addresses

CLOSED_4 = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
224.0.0.0/4 240.0.0.0/4
""".split()
CLOSED_6 = """
::/128 ::1/128 ::/96 64:ff9b:1::/48 100::/64 2001::/32 2001:2::/48 2001:10::/28 2001:db8::/32
2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
""".split()
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82b::200e",
    "64:ff9b::808:808",
]


def naive_is_public(address):
    """The plain implementation: what everybody writes first."""
    return not (address.is_private or address.is_loopback)


def within(networks, make):
    return st.sampled_from(networks).flatmap(
        lambda network: st.integers(0, make(network).num_addresses - 1).map(
            lambda at: make(network)[at]
        )
    )


@given(within(CLOSED_4, IPv4Network))
def test_no_address_of_a_special_network_is_public(address):
    """An IPv4 address of a private or special network is not public, in any of the shapes that IPv6 has for it."""
    number = int(address)

    assert not is_public(address)
    assert not is_public(IPv6Address((0xFFFF << 32) | number))
    assert not is_public(IPv6Address((0x64FF9B << 96) | number))
    assert not is_public(IPv6Address((0x2002 << 112) | (number << 80)))
    assert not is_public(IPv6Address((0x2001 << 112) | (number << 64)))
    assert not is_public(IPv6Address((0x2606_4700 << 96) | (0x5EFE << 32) | number))
    assert not is_public(IPv6Address(number))


@given(within(CLOSED_6, IPv6Network))
def test_no_special_ipv6_address_is_public(address):
    """An IPv6 address of a private, special or tunnel network is not public."""
    assert not is_public(address)


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text):
    """Addresses of the Internet are public, also behind the translation that IPv6-only networks use."""
    assert Reach().admits_address(text)


def test_the_plain_check_lets_private_addresses_through():
    """The control: asking for private and loopback addresses alone lets through shared, cloud and tunnelled ones."""
    missed = ["100.64.0.1", "168.63.129.16", "224.0.0.1", "64:ff9b::7f00:1", "192.88.99.1"]

    assert [
        text
        for text in missed
        if naive_is_public(IPv4Address(text) if "." in text else IPv6Address(text))
    ] == missed
    assert [text for text in missed if Reach().admits_address(text)] == []


def judged(reach, host):
    try:
        reach.check_host(host)
    except UrlNotAllowed:
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "host", "within_reach"),
    [
        ("example.com", "example.com", True),
        ("example.com", "EXAMPLE.com.", True),
        ("example.com", "www.example.com", False),
        ("example.com", "example.com.evil.test", False),
        ("example.com", "notexample.com", False),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "example.com.evil.test", False),
        ("*", "example.com", True),
        ("*", "127.0.0.1", False),
        ("*", "localhost", False),
        ("localhost", "localhost", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("[::1]", "::1", True),
        ("8.8.8.8", "8.8.4.4", False),
        ("8.8.8.8", "example.com", False),
    ],
)
def test_host_patterns_open_names_and_only_addresses_open_addresses(pattern, host, within_reach):
    """A pattern opens the names it matches; an address that is not public is opened by its own spelling alone."""
    assert judged(Reach([pattern]), host) is within_reach


@pytest.mark.parametrize(
    "entry",
    ["https://example.com", "example.com/path", "a b", "", "bücher.example", "user@host", 5],
)
def test_what_is_no_host_pattern_is_refused_at_definition(entry):
    """An entry that could never match is the author's mistake."""
    with pytest.raises(DefinitionError, match="not a host pattern"):
        Reach([entry])


def test_networks_of_the_standard_library_are_entries():
    """A host may have its networks as objects already."""
    reach = Reach([IPv4Network("10.0.0.0/8")])
    assert judged(reach, "10.1.2.3") and not judged(reach, "11.1.2.3")


def addresses(reach, host, found):
    async def resolve(host, port):
        return found

    return asyncio.run(reach.addresses(host, 80, resolve))


def test_one_bad_address_is_enough():
    """A name with a public and a private address is refused: the other one is not tried."""
    assert addresses(Reach(), "example.test", ["8.8.8.8", "1.1.1.1"]) == ["8.8.8.8", "1.1.1.1"]
    for found in (["8.8.8.8", "127.0.0.1"], ["::1"], ["fe80::1%eth0"], ["garbage"], []):
        with pytest.raises(UrlNotAllowed):
            addresses(Reach(), "example.test", found)


def test_a_name_that_is_allowed_does_not_open_its_private_address():
    """An allowed name that is made to mean a private address is refused, unless that address is allowed too."""
    with pytest.raises(UrlNotAllowed, match="not public"):
        addresses(Reach(["wiki.test"]), "wiki.test", ["10.1.2.3"])

    assert addresses(Reach(["wiki.test", "10.1.2.3"]), "wiki.test", ["10.1.2.3"]) == ["10.1.2.3"]


def test_the_system_resolver_answers_with_addresses():
    """The system's own resolver is asked on a thread, and answers without repeats."""
    assert "127.0.0.1" in asyncio.run(system_addresses("localhost", 80))
