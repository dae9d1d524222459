"""Which actions are risky: judged by what they land on first, by what the model claims second."""

import re
from typing import Literal
from urllib.parse import urlsplit

from cua.guard.facts import Facts, is_within
from envs import Click, Drag, Hotkey, KeyDown, MouseDown, MouseUp, PressKey, TypeText

Risk = Literal["submit", "pay", "delete", "send", "leave_domains", "credentials"]

_WORDS: dict[Risk, str] = {
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
_WORDS_WITHOUT_SPACES: dict[Risk, str] = {
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
_LINK = re.compile(r"-> (\S+)$")


def classify(facts: Facts, allowed_domains: tuple[str, ...] = ()) -> Risk | None:
    """The risk of an action, or None for an ordinary one.

    The element under the pointer decides when the env can describe it, because a model may be wrong,
    or talked into lying, about what it clicks. Its own words decide only where nothing is known.

    Args:
        facts: The action and its surroundings.
        allowed_domains: Leaving these by a link is a risk; empty means that there is nothing to leave.
    """
    action = facts.action
    if facts.uses_secret:
        return "credentials"
    if isinstance(action, TypeText):
        return "delete" if _SHELL.search(action.text) else None
    if isinstance(action, Click | MouseDown | MouseUp | Drag):
        return _of_target(facts, allowed_domains)
    if isinstance(action, PressKey | Hotkey | KeyDown):
        return _of_keys(facts)
    return None


def _of_target(facts: Facts, allowed_domains: tuple[str, ...]) -> Risk | None:
    if facts.target is None or not facts.is_element_known:
        return _of_words(facts.claim) or _of_words(facts.target or "")
    link = _LINK.search(facts.target)
    label = facts.target[: link.start()] if link else facts.target
    if link and allowed_domains:
        host = urlsplit(link[1]).hostname
        if host and not is_within(host, allowed_domains):
            return "leave_domains"
    return _of_words(label)


def _of_keys(facts: Facts) -> Risk | None:
    keys = facts.action.keys if isinstance(facts.action, Hotkey) else (getattr(facts.action, "key", ""),)
    if "enter" in keys or "delete" in keys:
        return _of_words(facts.claim)
    return None


def _of_words(text: str) -> Risk | None:
    return next((risk for risk, pattern in _PATTERNS.items() if pattern.search(text)), None)
