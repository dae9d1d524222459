"""From what somebody types into an address bar to a URL."""

import ipaddress
import re

from envs.errors import AddressError

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_KNOWN = frozenset({"http", "https", "about", "data"})
_HOST = re.compile(r"[^\s/?#@:]+(:\d{1,5})?", re.IGNORECASE)


def to_url(text: str, *, more_schemes: frozenset[str] = frozenset()) -> str:
    """Complete an address: `localhost:8000/x` becomes http, `example.com` https.

    Args:
        text: What was typed.
        more_schemes: Schemes to take beside http, https, about and data (`"file"`, say).

    Raises:
        AddressError: This is not an address, or of a scheme that is not taken.
    """
    address = text.strip()
    if not address:
        raise AddressError("the address is empty")
    scheme = _SCHEME.match(address)
    if scheme and ("://" in address or not _looks_like_port(address, scheme.end())):
        name = scheme[1].lower()
        if name in ("http", "https") and not re.match(r"https?:/*[^/?#:\s]", address, re.IGNORECASE):
            raise AddressError(f"{address!r} names no host; write one such as https://example.com/page")
        if name in _KNOWN | more_schemes:
            return address
        raise AddressError(f"addresses of the kind {name + ':'!r} are not taken; write http:// or https://")
    host = re.split(r"[/?#]", address, maxsplit=1)[0]
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    if not _HOST.fullmatch(host) and not _is_ip(name):
        raise AddressError(f"{address!r} is not a web address; write one such as https://example.com/page")
    if _is_local(name):
        return f"http://{address}"
    if "." not in name.strip("."):
        raise AddressError(f"{address!r} is not a web address; write one such as https://example.com/page")
    return f"https://{address}"


def _looks_like_port(address: str, after_colon: int) -> bool:
    return re.match(r"\d{1,5}(?:[/?#]|$)", address[after_colon:]) is not None


def _is_local(host: str) -> bool:
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or _is_ip(host)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
