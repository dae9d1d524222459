"""Comparison of addresses as in WebArena-Verified: placeholders for sites, queries by key, patterns.

Source: the documented rules of webarena-verified 1.2.3, and of url-normalize 2.2.1, which it uses to normalize
addresses.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlparse, urlsplit, urlunparse, urlunsplit

from envs.json_fields import JsonMapping
from envs.suites.webarena.task_config import placeholder
from envs.suites.webarena.verified_values import Value, is_pattern

Query = JsonMapping
"""Query values by key: a tuple of texts, or of typed values after a schema was applied."""
_PORTS = {"http": "80", "https": "443"}
_PATH_SAFE, _QUERY_SAFE = "~:/#[]@!$&'()*+,;=", "~:/?[]@!$'()*+,;"
_BASE64 = re.compile(r"[A-Za-z0-9_-]{4,}={0,2}")


@dataclass(frozen=True, slots=True)
class SiteUrls:
    """Addresses of the sites of a task.

    Attributes:
        urls: Addresses by site name, in the task's order.
    """

    urls: Mapping[str, str]

    def fill(self, url: str, *, strict: bool) -> str:
        """Replace the placeholder at the beginning of an address with the site's address.

        Raises:
            ValueError: If the address begins with none of them and `strict` is set.
        """
        for name, site in self.urls.items():
            if url.startswith(placeholder(name)):
                return url.replace(placeholder(name), site)
        if strict:
            raise ValueError(f"{url!r} begins with none of the task's sites, {', '.join(self.urls)}")
        return url

    def abstract(self, url: str, *, strict: bool = False) -> str:
        """Replace the site's address at the beginning of an address with its placeholder.

        Raises:
            ValueError: If the address is on none of the sites and `strict` is set.
        """
        for name, site in sorted(self.urls.items(), key=lambda pair: len(pair[1]), reverse=True):
            if site in url:
                return url.replace(site.rstrip("/"), placeholder(name))
        if strict:
            raise ValueError(f"{url!r} is on none of the task's sites, {', '.join(self.urls)}")
        return url


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlRules:
    """Rules for parsing the addresses of one comparison.

    Attributes:
        sites: Sites of the task.
        strict: True for expected addresses, which must be on one of the sites.
        ignored: Query keys to ignore.
        ignored_patterns: Patterns of query keys to ignore.
        has_base64: True if a part of the path may be a query in base64.
        typed: Function that parses the values of a query by a schema; None keeps them as texts.
    """

    sites: SiteUrls
    strict: bool
    ignored: Sequence[str] = ()
    ignored_patterns: Sequence[str] = ()
    has_base64: bool = False
    typed: Callable[[Query], Query] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    base: str
    query: Query
    is_pattern: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Url:
    """Parsed address, or several alternatives."""

    forms: tuple[_Form, ...]
    sites: SiteUrls
    strict: bool

    def is_met_by(self, other: object) -> bool:
        """Return True if another address, or a text that is not one, is equal, including the query."""
        if isinstance(other, str):
            return any(_unparse(form) == other for form in self.forms)
        if not isinstance(other, Url):
            return False
        return any(
            self._is_same_base(ours, theirs) and _is_same_query(ours.query, theirs.query)
            for ours in self.forms
            for theirs in other.forms
        )

    def has_path_of(self, other: "Url") -> bool:
        """Return True if both are equal except for their queries."""
        return any(self._is_same_base(ours, theirs) for ours in self.forms for theirs in other.forms)

    def _is_same_base(self, ours: _Form, theirs: _Form) -> bool:
        for form, other_form in ((ours, theirs), (theirs, ours)):
            if form.is_pattern and re.match(f"^{self._filled(form.base[1:-1])}$", self._filled(other_form.base)):
                return True
        if ours.is_pattern or theirs.is_pattern:
            return False
        return ours.base.lower().rstrip("/") == theirs.base.lower().rstrip("/")

    def _filled(self, url: str) -> str:
        return self.sites.fill(url, strict=self.strict) if url.startswith("__") else url


def read_url(raw: object, rules: UrlRules, query: Query | None = None) -> Url:
    """Parse an address, or a list of alternatives.

    Args:
        raw: JSON value.
        rules: Parsing rules.
        query: Query to use instead of the address's own.

    Raises:
        ValueError: If it is not an address, or is not on a required site.
    """
    if isinstance(raw, list | tuple) and len(raw) < 2:
        raise ValueError(f"{raw!r} is a list of less than two alternatives")
    texts = raw if isinstance(raw, list | tuple) else (raw,)
    return Url(tuple(_read(text, rules, query) for text in texts), rules.sites, rules.strict)


def _read(raw: object, rules: UrlRules, query: Query | None) -> _Form:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(f"{raw!r} is not an address")
    text = raw.strip()
    if is_pattern(text):
        return _Form(text.rstrip("/"), _counted(query, rules) if query is not None else {}, is_pattern=True)
    text = text.rstrip("/")
    if text.startswith("__"):
        text = rules.sites.fill(text, strict=rules.strict)
    if _is_ssh(text.lower()):
        return _Form(_plain_ssh(text), {})
    parsed = urlparse(rules.sites.abstract(plain_url(text), strict=rules.strict))
    path = f"{parsed.path};{parsed.params}" if parsed.params else parsed.path
    if query is None:
        path, parts = _split_base64(path) if rules.has_base64 else (path, [])
        query = _parse_query("&".join([*parts, parsed.query.strip()] if parsed.query else parts))
    base = urlunparse((parsed.scheme.lower(), parsed.netloc.lower(), path, "", "", parsed.fragment))
    return _Form(base, _counted(query, rules))


def _counted(query: Query, rules: UrlRules) -> Query:
    """Return the compared part of a query: in lower case, sorted, parsed by its schema."""
    kept = {
        key: tuple(sorted(value.lower().strip() if isinstance(value, str) else value for value in values))
        for key, values in query.items()
        if key not in rules.ignored and not any(_finds(pattern, key) for pattern in rules.ignored_patterns)
    }
    return rules.typed(kept) if rules.typed is not None and kept else kept


def _finds(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key, re.IGNORECASE) is not None
    except re.error:
        return False


def _parse_query(text: str) -> Query:
    return {
        unquote(key): tuple(sorted(map(unquote, values)))
        for key, values in parse_qs(text, keep_blank_values=True).items()
    }


def _split_base64(path: str) -> tuple[str, list[str]]:
    """Split a path into the path without its base64 queries, and those queries."""
    kept, queries = [], []
    for part in path.split("/"):
        query = _decode_query(part) if _BASE64.fullmatch(part) else ""
        if query:
            queries.append(query.lstrip("?&"))
        elif part:
            kept.append(part)
    joined = "/".join(kept)
    if not joined:
        return "/" if path.startswith("/") else "", queries
    return f"{'/' if path.startswith('/') else ''}{joined}{'/' if path.endswith('/') else ''}", queries


def _decode_query(part: str) -> str:
    try:
        text = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
    return unquote(text).strip() if "=" in text else ""


def _is_ssh(text: str) -> bool:
    return text.startswith("ssh://") or (text.startswith("git@") and ":" in text and "://" not in text)


def _plain_ssh(text: str) -> str:
    """Normalize `ssh://git@host:2222/PATH` and `git@host:PATH` to `git@__SSH_HOST__:PATH`; host and port are lost."""
    if text.lower().startswith("ssh://"):
        parsed = urlsplit(text)
        user, path = parsed.netloc.partition("@")[0] if "@" in parsed.netloc else "git", parsed.path
    else:
        user, _, rest = text.partition("@")
        path = rest.partition(":")[2]
    return f"{user.lower()}@__SSH_HOST__:{path.lstrip('/').lower()}"


def plain_url(url: str) -> str:
    """Normalize an address: scheme, host, escapes, dot segments and empty parts."""
    scheme, cut, rest = url.partition(":")
    if ":" not in url[:7] and (url.startswith("//") or not url.startswith("/")):
        url = f"https://{url.lstrip('/')}"
    elif cut and scheme.lower() in ("http", "https", "ftp", "ftps"):
        url = f"{scheme}://{rest.lstrip('/')}"
    parts = urlsplit(url.replace("#!", "?_escaped_fragment_=").rstrip("&? "))
    scheme = parts.scheme.lower()
    match = re.search(r"([^@]*@)?([^:]*):?(.*)", parts.netloc)
    assert match is not None  # it matches everything
    user, host, port = match[1] or "", ".".join(filter(None, match[2].lower().split("."))), match[3]
    port = str(int(port)) if port.isdigit() else port
    netloc = f"{'' if user in ('@', ':@') else user}{host}{f':{port}' if port and port != _PORTS.get(scheme) else ''}"
    query = "&".join(_plain_pair(pair) for pair in parts.query.split("&") if pair)
    return urlunsplit((scheme, netloc, _plain_path(parts.path, scheme), query, _requoted(parts.fragment, "~=")))


def _plain_path(path: str, scheme: str) -> str:
    path = _requoted(path, _PATH_SAFE)
    if scheme not in ("", *_PORTS):
        return path
    kept: list[str] = []
    for part in path.split("/"):
        if part == ".." and len(kept) > 1:
            kept.pop()
        elif part not in ("", ".", "..") or (part == "" and not kept):
            kept.append(part)
    if path.rpartition("/")[2] in ("", ".", ".."):
        kept.append("")
    return "/".join(kept) or ("/" if scheme else "")


def _plain_pair(pair: str) -> str:
    key, _, value = (_requoted(part, _QUERY_SAFE) for part in pair.partition("="))
    return f"{key}={value}" if value else key


def _requoted(text: str, safe: str) -> str:
    return quote(unicodedata.normalize("NFC", unquote(text)), safe)


def _is_same_query(ours: Query, theirs: Query) -> bool:
    """Return True if both have the same first value for every key; a missing value equals an empty one."""
    for key in {*ours, *theirs}:
        first, second = _first(ours.get(key)), _first(theirs.get(key))
        pattern = next((form for form in _texts(first) if is_pattern(form)), None)
        if pattern is not None:
            if not re.match(_texts(first)[0], _texts(second)[0]):
                return False
        elif not _is_same(first, second):
            return False
    return True


def _first(values: Any) -> Any:
    return (values[0] if values[0] is not None else "") if values else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value.forms)) if isinstance(value, Value) else (str(value),)


def _is_same(first: object, second: object) -> bool:
    if isinstance(first, Value):
        return first.is_met_by(second)
    return second.is_met_by(first) if isinstance(second, Value) else bool(first == second)


def _unparse(form: _Form) -> str:
    parsed = urlparse(form.base)
    query = "&".join(f"{key}={value}" for key, values in sorted(form.query.items()) for value in values)
    return urlunparse((parsed.scheme, parsed.netloc, parsed.path, "", query, parsed.fragment))
