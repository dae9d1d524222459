"""Rules on domains, addresses and networks that decide which hosts may be reached or may receive a secret."""

import contextlib
import fnmatch
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from envs.errors import EnvSetupError
from envs.hosts import (
    DEFAULT_PORTS,
    Address,
    address_of,
    addresses_behind,
    host_and_port,
    is_localhost,
    known_addresses,
    parse_host,
)

_LOCAL_SCHEMES = frozenset({"about", "data", "blob"})
_NAME = re.compile(r"[a-z0-9_*-]+(\.[a-z0-9_*-]+)*")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[]*)(?::(.*))?", re.DOTALL)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Parsed rule: a network (often of one address), or a canonical name that may contain `*`."""

    text: str
    name: str = ""
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    port: int | None = None

    def covers(self, host: str, addresses: Sequence[Address], port: int | None) -> bool:
        """Return True if the rule covers a canonical host and port, by name or by one of its addresses."""
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return any(address in self.network for address in addresses)
        if self.name == "localhost" and any(address.is_loopback or address.is_unspecified for address in addresses):
            return True
        if "*" in self.name:
            return fnmatch.fnmatchcase(host, self.name)
        return host == self.name or host.endswith(f".{self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRules:
    """Allowed and denied domains, addresses and networks.

    `example.com` covers its subdomains; `*` matches any text, and by itself allows every host; `10.0.0.0/8` is a
    network; `localhost` covers all loopback addresses; `host:port` also requires that port. Denied rules take
    precedence over allowed ones. If there are allowed domains, everything else is blocked. A denied address is denied
    in every spelling and under every name; an allowed one does not allow the names that resolve to it, because anyone
    can register such a name.

    Raises:
        EnvSetupError: If a rule has none of these forms.
    """

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    _allowed: tuple[_Rule, ...] = field(init=False, repr=False, compare=False)
    _denied: tuple[_Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        allowed = tuple(map(_parse_rule, self.allowed))
        object.__setattr__(self, "allowed", () if any(rule.name == "*" for rule in allowed) else self.allowed)
        object.__setattr__(self, "_allowed", allowed if self.allowed else ())
        object.__setattr__(self, "_denied", tuple(map(_parse_rule, self.denied)))

    def __bool__(self) -> bool:
        return bool(self.allowed or self.denied)

    def why_blocked(self, url: str) -> str | None:
        """Return why a URL is blocked, naming domain and rule; None if it is not."""
        url = url.removeprefix("blob:")
        if not self or url.partition(":")[0].lower() in _LOCAL_SCHEMES:
            return None
        try:
            return self.why_blocked_place(*host_and_port(url), shown=url)
        except ValueError:
            return f"{url!r} is not an address that the domain rules can judge"

    def why_blocked_place(self, host: str, port: int | None, *, shown: str = "") -> str | None:
        """Return why a canonical host and port are blocked, naming the rule; None if they are not."""
        known = known_addresses(host)
        rule = self._denying(host, known, port)
        if rule is not None:
            return f"the domain {host!r} is denied by the rule {rule.text!r}"
        written = known if not is_localhost(host) else ()
        if self.allowed and not any(rule.covers(host, written, port) for rule in self._allowed):
            return f"the domain {host or shown!r} is outside of the allowed domains ({', '.join(self.allowed)})"
        return None

    def why_blocked_address(self, address: str, port: int) -> str | None:
        """Return why an IP address is denied, regardless of the name it was resolved from; None if it is allowed."""
        host = parse_host(address)
        rule = self._denying(host, known_addresses(host), port)
        return f"the address {address} is denied by the rule {rule.text!r}" if rule is not None else None

    def _denying(self, host: str, addresses: Sequence[Address], port: int | None) -> _Rule | None:
        behind = [reached for address in addresses for reached in addresses_behind(address)]
        return next((rule for rule in self._denied if rule.covers(host, behind, port)), None)


def _parse_rule(text: str) -> _Rule:
    """Parse a rule.

    Raises:
        EnvSetupError: If the rule is invalid; the text gives the reason and the valid forms.
    """
    scheme, separator, rest = text.strip().partition("://")
    place = rest.removesuffix("/") if separator else scheme
    try:
        if separator and scheme.lower() not in DEFAULT_PORTS:
            raise ValueError(f"{scheme}:// is not a scheme of the web; leave it out")
        if "/" in place and (separator or not _is_address(place.partition("/")[0])):
            raise ValueError(f"a rule holds for a whole host; leave {place[place.index('/') :]!r} out")
        if "/" in place:
            return _Rule(text=text, network=_parse_network(place))
        is_bare = place.count(":") > 1 and not place.startswith("[")
        match = _HOST_AND_PORT.fullmatch(place) if not is_bare else None
        host, port = (match[1], match[2]) if match else (place, None)
        if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"{port!r} is not a port, which is a number from 1 to 65535")
        name = _parse_name(host)
        address = address_of(name)
        network = ipaddress.ip_network(address) if address is not None else None
        return _Rule(text=text, name=name, network=network, port=int(port) if port else None)
    except ValueError as error:
        raise EnvSetupError(
            f"the domain rule {text!r} cannot be meant: {error}. Expected a host with or without a port (example.com, "
            "localhost:8000, 10.0.0.1), a network (10.0.0.0/8), or a pattern (*.example.com); one rule for each"
        ) from error


def _is_address(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return address_of(parse_host(text)) is not None
    return False


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    text = text.replace("[", "").replace("]", "")
    network = ipaddress.ip_network(text, strict=False)
    if str(network.network_address) != str(ipaddress.ip_address(text.partition("/")[0])):
        raise ValueError(f"{text} has bits set behind its prefix; write {network}, or the address alone")
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        return ipaddress.IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))
    return network


def _parse_name(text: str) -> str:
    """Return the canonical host of a rule, including its `*`."""
    if not text:
        raise ValueError("it names no host")
    name = parse_host(text)
    if address_of(name) is None and not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not a host")
    *labels, last = name.split(".")
    if "*" in last and last != "*":
        raise ValueError(
            f"{last!r} at its end would also match domains of other owners; end it with a whole name, or with .*"
        )
    if "*" in name and all(label.isdigit() or label == "*" for label in (*labels, last)) and name != "*":
        raise ValueError("addresses have no patterns; write a network such as 192.168.0.0/16")
    if any("*" in label and label.startswith("xn--") for label in labels):
        raise ValueError("a * within a word that is not ASCII matches nothing; put it in place of the whole word")
    return name
