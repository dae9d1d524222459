"""Which actions are risky: judged by what they activate first, by what the model claims second."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from cua.guard.facts import Facts, is_within
from cua.guard.labels import forms, is_neutral
from envs import Hotkey, KeyDown, KeyUp, PressKey, Target, TypeText

RiskKind = Literal["submit", "pay", "delete", "send", "leave_domains", "credentials"]

_WORDS: dict[RiskKind, str] = {
    "pay": r"pay|buy|purchase|checkout|check out|place (?:the |your )?order|order now|subscribe|donate|transfer"
    r"|bezahlen|kaufen|überweisen|payer|acheter|pagar|comprar",
    "delete": r"delete|remove|erase|discard|destroy|trash|uninstall|format|wipe|empty (?:the )?(?:bin|trash)|reset"
    r"|deactivate|löschen|entfernen|supprimer|effacer|eliminar|borrar",
    "send": r"send|post|publish|share|reply|tweet|invite|forward|broadcast"
    r"|senden|absenden|teilen|veröffentlichen|envoyer|publier|enviar|publicar",
    "submit": r"submit|sign up|register|apply|agree|accept terms|confirm|book|reserve|unsubscribe"
    r"|einreichen|bestätigen|anmelden|soumettre|confirmer|confirmar",
    "credentials": r"log ?in|sign ?in|password|passphrase|api key|secret key|pin code|credit card|cvv|cvc"
    r"|passwort|mot de passe|contraseña",
}
_WORDS_WITHOUT_SPACES: dict[RiskKind, str] = {
    "pay": "支付|付款|购买|下单",
    "delete": "删除|移除|清空",
    "send": "发送|发布|分享",
    "submit": "提交|确认|注册",
    "credentials": "密码|登录",
}
_PATTERNS = {
    risk: re.compile(rf"(?<!\w)(?:{words})(?!\w)|{_WORDS_WITHOUT_SPACES[risk]}", re.I) for risk, words in _WORDS.items()
}
_SHELL = re.compile(
    r"\b(?:rm\s+-\w*[rf]|sudo\b|mkfs|dd\s+if=|shutdown|reboot|git\s+push\s+.*(?:-f|--force)|drop\s+(?:table|database)"
    r"|curl[^|]*\|\s*(?:ba)?sh|chmod\s+-R|kill(?:all)?\s+-9)",
    re.I,
)
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
            return Risk(kind=kind, why=target.text_as(name) or name)
    is_key = isinstance(facts.action, PressKey | Hotkey | KeyDown | KeyUp | TypeText)
    if target.is_element and not is_neutral(target) and not (is_key and target.is_field):
        return None
    for text in target.context:
        if kind := kind_of(text):
            return Risk(kind=kind, why=f"{_what(facts)} ({text})")
    kind = kind_of(_claim(facts))
    return Risk(kind=kind, why=_what(facts)) if kind else None


def kind_of(text: str) -> RiskKind | None:
    """The kind of risk that a text speaks of."""
    return next((kind for kind, pattern in _PATTERNS.items() if any(map(pattern.search, forms(text)))), None)


def _claim(facts: Facts) -> str:
    """What the model says that it does, without the text that it says it types."""
    if isinstance(facts.action, TypeText):
        claim = facts.claim.replace(facts.action.text.strip() or "\n", " ")
        return _QUOTED.sub(" ", claim)
    return facts.claim


def _what(facts: Facts) -> str:
    return (facts.target.text if facts.target else None) or facts.claim or facts.verb
