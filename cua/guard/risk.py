"""Which actions are risky: judged by what they activate first, by what the model claims second."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from cua.guard.words import RiskKind, is_neutral, kind_of, kind_of_hint
from envs import Action, Hotkey, KeyDown, KeyUp, PressKey, Target, TypeText


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One action with one thing that it activates.

    Attributes:
        action: The action, secrets still as placeholders.
        verb: Its class name in lower case: `click`, `typetext`, `hotkey`, ...
        target: What it activates, `UNKNOWN` when the env cannot tell; None when it activates nothing.
        claim: What the model says that it does, the text under `## Action`.
        url: Address of the active page.
        uses_secret: Whether a secret would be typed.
    """

    action: Action
    verb: str
    target: Target | None
    claim: str
    url: str | None
    uses_secret: bool = False

    @property
    def domain(self) -> str:
        """Host of the active page, or an empty text."""
        return (urlsplit(self.url).hostname or "") if self.url else ""


def is_within(host: str, domains: tuple[str, ...]) -> bool:
    """Whether a host is one of the domains or below one of them."""
    return any(host == domain or host.endswith("." + domain) for domain in domains)


_SHELL = re.compile(
    r"\b(?:rm\s+-\w*[rf]|sudo\b|mkfs|dd\s+if=|shutdown|reboot|git\s+push\s+.*(?:-f|--force)|drop\s+(?:table|database)"
    r"|curl[^|]*\|\s*(?:ba)?sh|chmod\s+-R|kill(?:all)?\s+-9)",
    re.I,
)
_SHORT_CHARS = 120
_QUESTION = re.compile(r"[^.!?。？]*[?？]")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|'[^']*'(?!\w)|`[^`]*`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """Why an action is risky.

    Attributes:
        kind: What it does.
        why: The text that says so, one line for a person.
    """

    kind: RiskKind
    why: str


def classify(facts: Facts, allowed_domains: tuple[str, ...] = ()) -> Risk | None:
    """The risk of an action, or None for an ordinary one.

    What the action activates decides, under each of its names; the riskiest one counts. Where no name says
    what it does, what stands around it and the model's own words count. A model may be wrong, or talked
    into lying, about what it does.

    Args:
        facts: The action and what it activates.
        allowed_domains: Leaving these by a link is a risk; empty means that there is nothing to leave.
    """
    action = facts.action
    if facts.uses_secret:
        return Risk(kind="credentials", why=facts.claim or facts.verb)
    if isinstance(action, TypeText) and _SHELL.search(action.text):
        return Risk(kind="delete", why=facts.claim or facts.verb)
    return _of_target(facts, facts.target, allowed_domains) if facts.target is not None else None


def _of_target(facts: Facts, target: Target, allowed_domains: tuple[str, ...]) -> Risk | None:
    if target.url and allowed_domains:
        host = urlsplit(target.url).hostname
        if host and not is_within(host, allowed_domains):
            return Risk(kind="leave_domains", why=_what(facts))
    for name in target.names:
        if kind := kind_of(name):
            return Risk(kind=kind, why=_seen(target, name))
    if target.is_image and (risk := _of_hints(facts, target)):
        return risk
    is_key = isinstance(facts.action, PressKey | Hotkey | KeyDown | KeyUp | TypeText)
    if target.is_element and not is_neutral(target) and not (is_key and target.is_field):
        return None
    for text in target.context:
        if kind := _of_context(text):
            return Risk(kind=kind, why=f"{_what(facts)} ({text})")
    if risk := _of_hints(facts, target):
        return risk
    kind = kind_of(_claim(facts))
    return Risk(kind=kind, why=_what(facts)) if kind else None


def _of_hints(facts: Facts, target: Target) -> Risk | None:
    for hint in target.hints:
        if kind := kind_of_hint(hint):
            return Risk(kind=kind, why=f"{_what(facts)} ({hint})")
    return None


def _of_context(text: str) -> RiskKind | None:
    """What a heading, a dialog or a text beside a button that says nothing speaks of.

    A long text mentions much (a notice about cookies that are shared): its questions count, and all of it for
    what cannot be undone.
    """
    if len(text) <= _SHORT_CHARS:
        return kind_of(text)
    asked = " ".join(_QUESTION.findall(text))
    kind = kind_of(asked) or kind_of(text)
    return kind if kind_of(asked) or kind in ("pay", "delete") else None


def _claim(facts: Facts) -> str:
    """What the model says that it does, without the text that it says it types."""
    if isinstance(facts.action, TypeText):
        claim = facts.claim.replace(facts.action.text.strip() or "\n", " ")
        return _QUOTED.sub(" ", claim)
    return facts.claim


def _seen(target: Target, name: str) -> str:
    """The target under the name that says it, with the place where a long one does."""
    line = target.text_as(name) or name
    if name in line:
        return line
    words = name.split()
    at = next((at for at in range(len(words)) if kind_of(" ".join(words[at : at + 4]))), 0)
    return f"{line} (… {' '.join(words[at : at + 4])} …)"


def _what(facts: Facts) -> str:
    return (facts.target.text if facts.target else None) or facts.claim or facts.verb
