"""Redaction of secrets in texts: values in the encodings that programs use, and logins in URLs.

A value is found as it is; percent-encoded, also twice, with `+` for spaces; escaped as in JSON, Python and HTML; in
base64, as in basic authentication; and wrapped over lines or with invisible characters between its letters. It is not
found if it is hashed, encrypted, compressed or spelled differently.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from envs.domain_rules import DomainRules

MIN_BASE64_CHARS = 6
"""Minimum length of the alignment-independent part of a base64 text; a shorter one would match everywhere."""
MIN_WRAPPED_CHARS = 6
"""Minimum length of a value that is also searched across line ends."""

_HTML_NAMES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos", "\xa0": "nbsp"}
_ESCAPED = {"\n": "n", "\r": "r", "\t": "t"}
_SLASHES = r"\\{1,8}+"
"""Backslashes before an escape; each level of quoting doubles them. Possessive, so matching needs no backtracking."""
_GAP = "[\xad\u200b-\u200f\u2060\ufeff]{0,4}+(?:(?:\r?\n|" + _SLASHES + "n)[ \t]{0,40}+)?"
_LOGIN = re.compile(r"(?<=://)(?!git@)[^\s/?#\"<>\\]{1,300}@")
_LOGIN_BEGUN = re.compile(r":(?:/(?:/[^\s/?#\"<>\\]{0,300})?)?$")
_LONGEST_LOGIN_CHARS = 304
_NOT_WORD = re.compile(r"[\W_]+")
_RUNS = re.compile(r"\\+|[^\\]", re.DOTALL)
_LONGEST_FORM_CHARS = 120
"""Maximum length of one escaped character: a gap with its line end and spaces, and several levels of escapes."""


class SecretForms:
    """Replacement of secret values in texts, in any encoding.

    Args:
        replacements: Pairs of a value and its replacement; longer values are matched first.

    Attributes:
        longest_chars: Upper bound of the length of an encoded value.
    """

    def __init__(self, replacements: Sequence[tuple[str, str]]) -> None:
        ordered = sorted(replacements, key=lambda pair: len(pair[0]), reverse=True)
        self._words = [word for _, word in ordered]
        self._pattern = re.compile("|".join(f"({_any_form(value)})" for value, _ in ordered)) if ordered else None
        self.longest_chars = max((len(value) for value, _ in ordered), default=0) * _LONGEST_FORM_CHARS

    def __call__(self, text: str) -> str:
        """Return the text without the values, and without the user names and passwords of URLs."""
        text = _LOGIN.sub("***@", text) if "@" in text else text
        return self._pattern.sub(self._word, text) if self._pattern is not None else text

    def is_in(self, text: str) -> bool:
        """Return True if a text contains one of the values."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def cut_at(self, text: str) -> int:
        """Return a position where a text can be cut without splitting a value that may continue after its end."""
        cut = self._cut_behind_values(text)
        begun = _LOGIN_BEGUN.search(text, max(0, cut - _LONGEST_LOGIN_CHARS), cut)
        return begun.start() if begun is not None else cut

    def _cut_behind_values(self, text: str) -> int:
        limit = max(0, len(text) - self.longest_chars)
        for match in self._pattern.finditer(text) if self._pattern is not None else ():
            if match.end() > limit:
                return min(limit, match.start())
        return limit

    def _word(self, match: re.Match[str]) -> str:
        return self._words[(match.lastindex or 1) - 1]


def without_login(url: str) -> str:
    """Return a URL without its user name and password."""
    return _LOGIN.sub("", url, count=1) if "@" in url else url


def _any_form(value: str) -> str:
    """Return a pattern for a value in all encodings; every quantifier is bounded, so matching takes linear time."""
    has_gaps = len(value) >= MIN_WRAPPED_CHARS and value.isprintable()
    pieces = [_any_slashes(len(run)) if run[0] == "\\" else _any_char(run) for run in _RUNS.findall(value)]
    return "|".join([(_GAP if has_gaps else "").join(pieces), *_base64_forms(value)])


def _any_slashes(num: int) -> str:
    """Return a pattern for consecutive backslashes, which quoting doubles."""
    return rf"(?:\\{{{num},{8 * num}}}|(?i:%(?:25){{0,3}}5c|\\u005c|\\x5c|&#92;|&#x5c;){{{num}}})"


def _any_char(char: str) -> str:
    """Return a pattern for a character in all encodings."""
    code = ord(char)
    percent = "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    units = char.encode("utf-16-be", "surrogatepass").hex()
    escaped = "".join(rf"{_SLASHES}u{units[at : at + 4]}" for at in range(0, len(units), 4))
    entity = r"&(?:amp;){0,3}"
    forms = [rf"\\{{0,8}}+{re.escape(char)}" if char in "\"'/" else re.escape(char)]
    forms += [f"{_SLASHES}{_ESCAPED[char]}"] if char in _ESCAPED else []
    forms += [r"\+"] if char == " " else []
    forms += [f"(?i:{percent}|{escaped}|{entity}#0{{0,4}}{code};?|{entity}#x0{{0,4}}{code:x};?)"]
    forms += [rf"(?i:{_SLASHES}x{code:02x})"] if code < 0x100 else []
    forms += [f"{entity}{_HTML_NAMES[char]};"] if char in _HTML_NAMES else []
    return f"(?:{'|'.join(forms)})"


def _base64_forms(value: str) -> list[str]:
    """Return the base64 encodings of a value inside a longer base64 text, for its three possible alignments."""
    data = value.encode("utf-8", "surrogatepass")
    forms = []
    for place, num_shared in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(b"\0" * place + data).decode()
        core = whole.rstrip("=")[num_shared:]
        has_tail = (place + len(data)) % 3 != 0
        core = core[:-1] if has_tail else core
        if len(core) >= MIN_BASE64_CHARS:
            pattern = "".join(_base64_char(char) for char in core)
            forms.append(f"{'[A-Za-z0-9+/_-]?' if num_shared else ''}{pattern}{'[A-Za-z0-9+/_-]?' if has_tail else ''}")
    return forms


def _base64_char(char: str) -> str:
    return {"+": r"(?:\+|-|%2[bB])", "/": r"(?:\\?/|_|%2[fF])"}.get(char, char)


_MIN_PART_CHARS = 4  # shorter parts of a secret occur in texts by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundText:
    """Secret that only some hosts may receive.

    Attributes:
        name: Name of the secret for the model.
        value: Secret value. Never shown by `repr`.
        domains: Allowed hosts, as domain rules; subdomains are included.
    """

    name: str
    value: str = field(repr=False)
    domains: tuple[str, ...]

    def is_for(self, origin: str | None) -> bool:
        """Return True if documents of an origin may receive it; those without an origin (data:, sandboxed) may not.

        Raises:
            EnvSetupError: If a domain rule is invalid.
        """
        parts = urlsplit(origin or "")
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            return False
        return DomainRules(allowed=self.domains).why_blocked(f"{parts.scheme}://{parts.netloc}") is None

    def is_within(self, text: str) -> bool:
        """Return True if a text contains the value in any encoding, or half of it, ignoring spaces and punctuation."""
        value, squeezed = (_NOT_WORD.sub("", part).casefold() for part in (self.value, text))
        size = max(_MIN_PART_CHARS, -(-len(value) // 2))
        parts = {value[at : at + size] for at in range(max(1, len(value) - size + 1))} - {""}
        return any(part in squeezed for part in parts) or SecretForms([(self.value, "")]).is_in(text)


MIN_PASSWORD_CHARS = 3
"""Minimum length of a password that is masked by itself; a shorter one would match in every text."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HTTP_LOGIN = re.compile(r"(https?):[/\\]*([^/?#\\]*)@", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLogin:
    """Credentials for HTTP authentication at one origin.

    Attributes:
        origin: The only origin that receives them: scheme, host and, if not the default, port; `https://host:8443`.
        username: User name.
        password: Never shown by `repr`.
    """

    origin: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if origin_of(self.origin) != self.origin.lower().rstrip("/"):
            raise ValueError(f"{self.origin!r} is not an origin; expected one such as https://intranet.example.com")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must be masked."""
        alone = self.password or self.username
        both = f"{self.username}:{self.password}"
        return (both, alone) if len(alone) >= MIN_PASSWORD_CHARS else (both,)


def origin_of(url: str) -> str | None:
    """Return scheme, host and port of a URL, as a browser writes an origin; None if it has none."""
    try:
        parts = urlsplit(url.replace("\\", "/"))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        return None
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + (f":{port}" if port not in (None, _DEFAULT_PORTS[parts.scheme]) else "")


def split_login(url: str) -> tuple[str, HttpLogin | None]:
    """Split a URL into the URL without login, and the login."""
    match = _HTTP_LOGIN.match(url.strip())
    if match is None:
        return url, None
    plain = f"{match[1].lower()}://{url.strip()[match.end() :]}"
    origin = origin_of(plain)
    username, _, password = match[2].partition(":")
    if origin is None or not (username or password):
        return plain, None
    return plain, HttpLogin(origin=origin, username=unquote(username), password=unquote(password))
