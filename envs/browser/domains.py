"""Which addresses may be reached: rules on domains, decided here, enforced below the agent."""

import fnmatch
import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

_LOCAL_SCHEMES = frozenset({"about", "data", "blob"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRules:
    """Allowed and denied domains.

    `example.com` covers its subdomains; `*` stands for any text; `host:port` asks for that port too.
    Denied wins over allowed. With allowed domains everything else is blocked.
    """

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.allowed or self.denied)

    def why_blocked(self, url: str) -> str | None:
        """Why an address is blocked, naming domain and rule; None when it is not."""
        parts = urlsplit(url)
        if parts.scheme == "blob":
            parts = urlsplit(url[len("blob:") :])
        if parts.scheme in _LOCAL_SCHEMES or not self:
            return None
        return self.why_blocked_place(*_host_port(parts.geturl()), shown=url)

    def why_blocked_place(self, host: str, port: int | None, *, shown: str = "") -> str | None:
        """Why a host and a port are blocked, naming the rule; None when they are not."""
        for pattern in self.denied:
            if _matches(pattern, host, port):
                return f"the domain {host!r} is denied by the rule {pattern!r}"
        if self.allowed and not any(_matches(pattern, host, port) for pattern in self.allowed):
            return f"the domain {host or shown!r} is outside of the allowed domains ({', '.join(self.allowed)})"
        return None

    def why_blocked_address(self, address: str, port: int) -> str | None:
        """Why an IP address is denied, whatever name it was resolved from; None when it is allowed."""
        found = ipaddress.ip_address(address)
        for pattern in self.denied:
            wanted, wanted_port = _split_pattern(pattern)
            if wanted_port not in (None, port):
                continue
            if found == _address(wanted) or (wanted == "localhost" and found.is_loopback):
                return f"the address {address} is denied by the rule {pattern!r}"
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is, one spelling for each; None when it is a name."""
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _matches(pattern: str, host: str, port: int | None) -> bool:
    wanted, wanted_port = _split_pattern(pattern)
    if wanted_port is not None and wanted_port != port:
        return False
    if (address := _address(host)) is not None and address == _address(wanted):
        return True
    if "*" in wanted:
        return fnmatch.fnmatchcase(host, wanted)
    return host == wanted or host.endswith(f".{wanted}")


def _split_pattern(pattern: str) -> tuple[str, int | None]:
    text = pattern.strip()
    return _host_port(text if "://" in text else f"http://{text}", default_port=False)


def _host_port(url: str, *, default_port: bool = True) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    if ":" in host:
        host = f"[{host}]"
    try:
        port = parts.port
    except ValueError:
        port = None
    if port is None and default_port:
        port = {"http": 80, "ws": 80, "https": 443, "wss": 443}.get(parts.scheme)
    return host, port
