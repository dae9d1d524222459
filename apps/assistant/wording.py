"""Words of the page: labels of settings, and `phrase`, which every message passes on its way to the page or the API.

Messages of the libraries name options as on the command line, and quote texts of Python and of other packages. Here
they become sentences in the words of the page: what was found, what was expected, how to fix it.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pydantic import ValidationError

from cua.config import FIELDS
from cua.json_text import Json, JsonMapping


class SettingText(NamedTuple):
    """Words of the page for a setting: its label, one sentence, and labels of choices whose values say little."""

    label: str
    about: str
    choices: Mapping[str, str] = MappingProxyType({})


SHOWN = {
    "model": SettingText("Model", "Its name at the endpoint, or one of the embedded ones."),
    "base_url": SettingText("Endpoint", "Address of a server that speaks the OpenAI protocol."),
    "api_key": SettingText("Key", "Key of the endpoint; it cannot be read back."),
    "preset": SettingText("Sampling preset", "One of kimi-k2.5, kimi-k2.5-instant, osworld, webarena, none."),
    "fallback_model": SettingText("Second model", "It is asked when the first one does not answer."),
    "viewport": SettingText("Size of the browser", "Width and height of its pages in pixels, such as 1280x720."),
    "screen": SettingText("Size of the desktop", "Width and height of private desktops in pixels, such as 1920x1080."),
    "display": SettingText("Your own display", "The agent uses it instead of a private desktop; such as :0."),
    "monitor": SettingText("Monitor", "Number of the one to use, from 0; empty for all."),
    "headed": SettingText("Visible browser window", "The agent's browser also opens a window of its own."),
    "observation": SettingText(
        "What the agent sees", "The screen's image, alone or with a description of its elements.",
        {"screenshot": "image", "a11y_tree": "image and list of elements", "marks": "image with numbered boxes"},
    ),
    "max_images": SettingText("Images in a request", "Screenshots that the model sees at once."),
    "allow_domains": SettingText("Allowed sites", "The browser opens only these; commas separate them."),
    "deny_domains": SettingText("Denied sites", "The browser does not open these; commas separate them."),
    "approve": SettingText(
        "When it asks", "Steps that wait for your answer.",
        {"ask": "at every step", "auto": "at risky steps", "yolo": "only where a rule says so"},
    ),
    "policy": SettingText("File of rules", "Actions that are allowed, asked about or denied."),
    "max_steps": SettingText("Most steps", "A run ends after this number of steps."),
    "max_time": SettingText("Longest time", "A run ends after this number of seconds."),
    "max_tokens": SettingText("Most tokens", "A run ends after this number of tokens."),
    "max_cost": SettingText("Highest cost", "A run ends after this number of US dollars."),
    "prices": SettingText("File of prices", "Prices of models, from which costs are computed."),
    "secrets": SettingText("File of secrets", "Values that are typed without the model seeing them."),
    "http_auth": SettingText("File of logins", "Names and passwords for sites where the browser asks."),
    "storage_state": SettingText("Kept cookies", "File with the sites' data, loaded first and saved last."),
    "sandbox": SettingText(
        "Sandbox for code", "It keeps the model's code away from your files.",
        {"auto": "the strongest one", "bubblewrap": "Bubblewrap", "landlock": "Landlock", "none": "none (unsafe)"},
    ),
    "search": SettingText("Web search", "Brave, Tavily, or your own SearXNG server as searxng:ADDRESS."),
    "mcp": SettingText("Tool servers (MCP)", "File that names servers whose tools agent mode uses."),
    "runs_dir": SettingText("Folder of the runs", "The history is kept there."),
}  # fmt: skip
"""Settings shown in the app, in this order; the others are set in the command line's files and variables."""


def label_of(name: str) -> str:
    """Return the label of a setting."""
    return SHOWN[name].label if name in SHOWN else name.replace("_", " ").capitalize()


_QUOTED = re.compile(r"""(?<![\w'])'(?:[^'\\]|\\.)*'(?!\w)|"[^"]*\"""")
_CLAUSES = re.compile(r";\s+|(?<=[.?!])\s+(?=\S)")
_FIRST_WORD = re.compile(r"^[a-z']+(?=[,:]?(?:\s|$))")  # neither an address nor a path
_COMMAND = re.compile(r"`(?:cua|pip)\b[^`]*`|(?:^|\s)--(?!set\b)[a-z][a-z-]+")
_OPTION = re.compile(
    r"--set ([a-z_]+)=?|--([a-z][a-z-]*)|\bK25_([A-Z_]+)\b"
    r"|\b(?:options|settings)\.(\w+)|^(\w+)(?= is )|(?<![\w./-])([a-z]+(?:_[a-z]+)+)(?![\w./-])"
)
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\[Errno -?\d+\] ", ""),
        (r"\b(?:[a-z_]+\.)*[A-Z]\w*(?:Error|Exception|Timeout|Failure|Protocol|URL): ", ""),
        (r"(?i)no model endpoint is configured: .*", "no endpoint is set; enter its address under Settings"),
        (r"(?i)all connection attempts failed|connection refused|connect call failed[^.;]*", "nothing answers there"),
        (r"(?i)(?:temporary failure in name resolution|name or service not known|nodename nor servname[^.;]*"
         r"|no address associated with hostname)", "no server has this name"),
        (r"(?i)server disconnected without sending a response\.?|connection reset by peer|peer closed connection[^.;]*",
         "the server closed the connection"),
        (r"(?i)request URL (?:has an unsupported protocol [^.;]*|is missing an? [^.;]*)\.?",
         "addresses begin with http:// or https://"),
        (r"(?i)invalid port: \S+", "its port is not a number"),
        (r"\bOPENAI_BASE_URL\b", "Endpoint"),
        (r"\bOPENAI_API_KEY\b", "Key"),
        (r"(?:the model's )?base URL\b", "the endpoint"),
        (r"is not an http\(s\) URL", "is not a web address"),
        (r"the API key from the api_key setting", "the key"),
        (r"pass its variable with --api-key-env NAME", "enter another one"),
        (r"--resume goes on", "Resume continues it"),
        (r"(?i)value error, |assertion failed, ", ""),
        (r"(?i)input should be", "expected"),
        (r"(?i)field required", "is missing"),
        (r"(?i)extra inputs are not permitted", "is not known here"),
        (r"(?i)string should have at most (\d+) characters?", r"expected \1 characters or fewer"),
        (r"(?i)string should have at least 1 character", "is empty"),
        (r"(?i)(\w+) should have at most (\d+) items? after validation, not (?:more|\d+)", r"expected \2 or fewer"),
        (r"(?i)string should match pattern '.*'", "has characters that are not allowed here"),
        (r"\ba valid dictionary", "a JSON object"),
        (r"\b(an?) valid (?=\w)", r"\1 "),
        (r", unable to (?:parse|interpret) [^.;]*", ""),
        (r"(?i)JSON decode error", "not JSON"),
        (r": (?:Expecting [^.;]*?|Extra data|Unterminated string[^.;]*?|Invalid control character[^.;]*?)"
         r"(?:: line \d+ column \d+ \(char \d+\))?(?=$|[.;])", ""),
        (r"(?i)((?:no such file or|is a|not a) directory|permission denied): \0\d+\0", r"\1"),
    )
)  # fmt: skip
"""Texts of options, Python and other packages, in the words of the page; applied in this order."""


def phrase(error: Exception | str) -> str:
    """Return a message as sentences in the words of the page. Texts in quotation marks are kept."""
    if isinstance(error, ValidationError):
        return phrase_invalid(error.errors())
    text = error if isinstance(error, str) else str(error) or "an error without a message"
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    text = _QUOTED.sub(keep, " ".join(text.replace("\0", "").split()))
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    clauses = [_OPTION.sub(_named, clause) for clause in _CLAUSES.split(text) if clause]
    clauses = [clause for clause in clauses if not _COMMAND.search(clause)] or clauses
    sentences = [
        _FIRST_WORD.sub(lambda word: word[0].capitalize(), clause).rstrip(",;:") for clause in clauses if clause
    ]
    text = " ".join(one if one.endswith((".", "?", "!", "…")) else f"{one}." for one in sentences)
    return re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], text)


def _named(match: re.Match[str]) -> str:
    """Return the label of the setting that an option names; other options are kept."""
    name = next(filter(None, match.groups())).lower().replace("-", "_")
    name = name if name in FIELDS else f"{name}s"  # an option that may be given more than once
    return label_of(name) + " " * match[0].endswith("=") if name in FIELDS else match[0]


_GAVE_UP = "the agent gave up: "
"""Beginning of a reason that continues with words of the model."""


def phrase_reason(reason: str) -> str:
    """Return the reason why a run ended in the words of the page; words of a model are kept."""
    return phrase(reason) if reason and not reason.startswith(_GAVE_UP) else reason


_PLACES = ("body", "query", "path", "header")
_FIELD_WORDS = {"url": "address", "app": "program", "when": "time", "where": "address", "way": "drag"}


def phrase_invalid(errors: Sequence[JsonMapping]) -> str:
    """Return the errors of a schema, as pydantic lists them, as sentences in the words of the page."""
    texts = (f"{_field_of(error['loc'])}: {error['msg'][:1].lower()}{error['msg'][1:]}" for error in errors)
    return " ".join(re.sub(r": (is|has) ", r" \1 ", phrase(text)) for text in texts)


def invalid_object(errors: Sequence[JsonMapping]) -> Json:
    """Return the answer of the API to a request that does not match its schema; it does not repeat the values."""
    details = [{"loc": each["loc"], "msg": each["msg"], "type": each["type"]} for each in errors]
    return {"error": phrase_invalid(errors), "detail": details}


def _field_of(location: Sequence[int | str]) -> str:
    names = [place for place in location if place not in _PLACES] or ["request"]
    words = [f"item {name + 1}" if isinstance(name, int) else _FIELD_WORDS.get(name, name) for name in names]
    return f"the {', '.join(words).replace('_', ' ')}"
