"""Which addresses may be reached: rules on domains, decided here, enforced below the agent."""

import fnmatch
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
        host, port = _host_port(parts.geturl())
        for pattern in self.denied:
            if _matches(pattern, host, port):
                return f"the domain {host!r} is denied by the rule {pattern!r}"
        if self.allowed and not any(_matches(pattern, host, port) for pattern in self.allowed):
            return f"the domain {host or url!r} is outside of the allowed domains ({', '.join(self.allowed)})"
        return None

    def resolver_rules(self) -> str | None:
        """The same rules for Chromium's `--host-resolver-rules`, which also holds for redirects.

        Rules with a port cannot be said there: a denied one is left out, an allowed one is given
        without its port.
        """
        rules = ["MAP * ~NOTFOUND"] if self.allowed else []
        for pattern in self.allowed:
            rules += [f"EXCLUDE {name}" for name in _names(_split_pattern(pattern)[0])]
        for pattern in self.denied:
            host, port = _split_pattern(pattern)
            if port is None:
                rules = [f"MAP {name} ~NOTFOUND" for name in _names(host)] + rules
        return ", ".join(rules) or None


def _names(host: str) -> tuple[str, ...]:
    return (host,) if "*" in host or _is_address(host) else (host, f"*.{host}")


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdigit()


def _matches(pattern: str, host: str, port: int | None) -> bool:
    wanted, wanted_port = _split_pattern(pattern)
    if wanted_port is not None and wanted_port != port:
        return False
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
