"""Canonical host names, as in browsers, and the addresses that reach the same machine."""

import ipaddress
import re
import socket
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import idna

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LOOPBACK: tuple[Address, ...] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
"""Addresses of `localhost` and its subdomains; no resolver is asked."""
DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#/:<>?@\[\\\]^|%]")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_EMBEDDING = tuple(
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (
        ("64:ff9b::/96", 0),  # NAT64
        ("64:ff9b:1::/48", 0),  # NAT64 of a local network
        ("::ffff:0:0:0/96", 0),  # IPv4-translated
        ("::/96", 0),  # IPv4-compatible
        ("2002::/16", 80),  # 6to4
    )
)
"""Networks whose addresses embed an IPv4 address, with the number of bits after it."""
_ISATAP = 0x5EFE
"""Upper half of the interface id of an ISATAP address (RFC 5214), but for the bit that marks a unique IPv4 address."""
REACHABLE = {
    ipaddress.ip_network(network): is_reachable
    for is_reachable, networks in (
        (
            False,
            "0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
            "192.0.0.0/29 192.0.0.8/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.88.99.0/24 192.88.99.2/32 "
            "192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 255.255.255.255/32 "
            "::1/128 ::/128 ::ffff:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:2::/48 "
            "2001:10::/28 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10",
        ),
        (
            True,
            "192.0.0.9/32 192.0.0.10/32 192.31.196.0/24 192.52.193.0/24 192.175.48.0/24 64:ff9b::/96 2001:1::1/128 "
            "2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/28 2001:30::/28 2620:4f:8000::/48",
        ),
        (False, "224.0.0.0/4 ::/0 168.63.129.16/32"),
        (True, "0.0.0.0/0 2000::/3"),
    )
    for network in networks.split()
}
"""True for the networks that are globally reachable; for an address, its longest network decides.

Source: IANA's IPv4 and IPv6 Special-Purpose Address Registries of 2025-10-09, column "Globally Reachable" ("N/A" is
False); IANA's address space registries (multicast; of IPv6 only 2000::/3 is global unicast); and the address of Azure's
platform on each of its machines, which is in no registry. Not `ipaddress.is_global`, which differs by Python's version.
"""


@lru_cache(maxsize=4096)
def parse_host(text: str) -> str:
    """Return the canonical form of a host: lower-case ASCII names, IPv4 as four numbers, IPv6 in brackets.

    Non-ASCII names are mapped by UTS 46 without its transitional rules, as in browsers: `faß.de` is `xn--fa-hia.de`,
    not `fass.de`. Zone ids and trailing dots are removed; an IPv4-mapped address becomes the IPv4 address.

    Source: URL Standard, host parsing.

    Raises:
        ValueError: If the text is not a host.
    """
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if inner.count(":") > 1:
        return _show(ipaddress.IPv6Address(inner))
    name = idna.uts46_remap(unquote(text), False, False).rstrip(".")
    labels = [label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in name.split(".")]
    if not all(labels) or _FORBIDDEN.search(name):
        raise ValueError(f"{text!r} is not a host")
    if not _NUMBER.fullmatch(labels[-1]):
        return ".".join(labels)
    try:
        return str(ipaddress.IPv4Address(socket.inet_aton(name)))
    except OSError:
        raise ValueError(f"{text!r} is not an IPv4 address") from None


def _show(address: ipaddress.IPv6Address) -> str:
    return str(address.ipv4_mapped or f"[{ipaddress.IPv6Address(int(address))}]")


@lru_cache(maxsize=4096)
def address_of(host: str) -> Address | None:
    """Return the IP address of a canonical host; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def host_and_port(url: str) -> tuple[str, int | None]:
    """Return the canonical host of a URL ("" if it has none) and its port, by default the port of its scheme.

    Raises:
        ValueError: If a browser cannot open the URL.
    """
    parts = urlsplit(url.replace("\\", "/"))
    return parse_host(parts.hostname) if parts.hostname else "", parts.port or DEFAULT_PORTS.get(parts.scheme)


def site_of(url: str) -> str:
    """Return the site of a URL: the registrable domain of its host (`example.co.uk`), by the Public Suffix List.

    For IP addresses and names of this machine each host and port is a separate site, since different programs answer
    there. Empty for URLs that are not on the web (`file:`, `about:`) or not valid.
    """
    try:
        host, port = host_and_port(url.removeprefix("blob:"))
    except ValueError:
        return ""
    if port is None:
        return ""
    return f"{host}:{port}" if known_addresses(host) else _suffixes().privatesuffix(host) or host


def is_public_name(host: str) -> bool:
    """Return True if a host ends with a suffix of the Public Suffix List: `a.example.co.uk`, not `notes.txt`."""
    return _suffixes().publicsuffix(host.lower(), accept_unknown=False) is not None


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


def is_localhost(host: str) -> bool:
    """Return True for the canonical name `localhost` and its subdomains."""
    return host == "localhost" or host.endswith(".localhost")


def known_addresses(host: str) -> tuple[Address, ...]:
    """Return the addresses of a canonical host that are known without a resolver; empty for most names."""
    address = address_of(host)
    return LOOPBACK if is_localhost(host) else (address,) if address is not None else ()


def addresses_behind(address: Address) -> tuple[Address, ...]:
    """Return an address and the addresses it reaches: an embedded IPv4 address, or loopback for the unspecified one."""
    if address.is_unspecified:
        return (address, *LOOPBACK)
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return (address,)
    shifts = [shift for network, shift in _EMBEDDING if address in network]
    if int(address) >> 32 & 0xFDFFFFFF == _ISATAP:
        shifts.append(0)
    inner = dict.fromkeys(int(address) >> shift & 0xFFFFFFFF for shift in shifts)
    embedded_addresses = [*map(ipaddress.IPv4Address, inner), *(address.teredo or ())[1:]]
    return (address, *(reached for embedded in embedded_addresses for reached in addresses_behind(embedded)))


def is_globally_reachable(address: Address) -> bool:
    """Return True if an address is globally reachable, and an IPv4 address that is embedded in it too."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return all(map(_is_reachable, addresses_behind(mapped or address)))


def _is_reachable(address: Address) -> bool:
    return REACHABLE[max((net for net in REACHABLE if address in net), key=lambda net: net.prefixlen)]


def is_this_machine(address: Address) -> bool:
    """Return True if an address reaches this machine by any loopback address."""
    return any(reached.is_loopback for reached in addresses_behind(address))
