"""Classification of risky actions by the target's texts, the page's code and the model's own text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cua.guard.words import RiskKind, is_neutral, kind_of, kind_of_handler, kind_of_hint
from envs import Action, Click, Hotkey, KeyDown, KeyUp, PressKey, Target, TypeText


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One action with one target that it activates.

    Attributes:
        action: Action, secrets still as placeholders.
        verb: Class name of the action in lower case: `click`, `typetext`, `hotkey`, ...
        target: Activated target, `UNKNOWN_TARGET` if the environment cannot determine it; None if nothing is activated.
        claim: Action as the model describes it under `## Action`; its thought if that is empty.
        url: URL of the active page.
        uses_secret: True if a secret would be typed.
    """

    action: Action
    verb: str
    target: Target | None
    claim: str
    url: str | None
    uses_secret: bool = False

    @property
    def is_key(self) -> bool:
        """True if the action uses the keyboard."""
        return isinstance(self.action, PressKey | Hotkey | KeyDown | KeyUp | TypeText)


_SHELL = re.compile(
    r"\b(?:rm\s+-\w*[rf]|sudo\b|mkfs|dd\s+if=|shutdown|reboot|git\s+push\s(?:(?!git\s+push).)*(?:-f|--force)|drop\s+(?:table|database)"
    r"|curl(?:(?!curl)[^|])*\|\s*(?:ba)?sh|chmod\s+-R|kill(?:all)?\s+-9)",
    re.I,
)
_SHORT_CHARS = 120  # a label is at most this long; longer texts are prose, in which a risky word says little
_CHOICE = re.compile(r"checkbox|radio|switch|slider|range|select|option|combobox|listbox")
_QUESTION = re.compile(r"(?<![^.!?。？])[^.!?。？]*[?？]")
_POINTING = re.compile(r"(?:(?:double|right|left)[- ])?(?:click|tap|select|choose|open|hover|press)\b", re.I)
_PURPOSE = re.compile(r"\s(?:to|so|in order|where|which|that|for)\s", re.I)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”|'[^']*'(?!\w)|`[^`]*`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """Risk of an action.

    Attributes:
        kind: Kind of risk.
        why: Text that indicates the risk, one line for a person.
    """

    kind: RiskKind
    why: str


def classify(facts: Facts) -> Risk | None:
    """Return the risk of an action, or None for an ordinary one.

    All names of the target count, and its handlers and addresses, the key and the model's own text. If no name says
    what the target does, the text around it and the names of its icons count as well.
    """
    action = facts.action
    if facts.uses_secret:
        return Risk(kind="credentials", why=facts.claim or facts.verb)
    if isinstance(action, TypeText) and _SHELL.search(action.text):
        return Risk(kind="delete", why=facts.claim or facts.verb)
    evidence = _evidence(facts, facts.target) if facts.target is not None else ()
    return next((Risk(kind=kind, why=why) for kind, why in evidence if kind), None)


def _evidence(facts: Facts, target: Target) -> Iterator[tuple[RiskKind | None, str]]:
    """Yield all evidence of an action's effect: the kind of risk in it, and the text for a person."""
    is_typed_in = facts.is_key and target.is_field
    is_vague = not target.is_element or is_neutral(target) or is_typed_in
    for name in target.names:
        kind = kind_of(name)
        is_filled_in = isinstance(facts.action, TypeText) and kind == "credentials"
        yield kind if is_filled_in or not is_text_field(target) else None, _seen(target, name)
    if target.is_element and not target.is_field and "delete" in _keys(facts.action):
        yield "delete", f"{_describe(facts)} (the Delete key)"
    is_link = target.url is not None and not target.is_field
    for handler in (*target.handlers, *([f"href {target.url}"] if is_link else ())):
        kind = kind_of_handler(handler)
        yield kind if is_vague or kind == "delete" else None, f"{_describe(facts)} ({handler})"
    for hint in target.hints if target.is_image or is_vague else ():
        yield kind_of_hint(hint), f"{_describe(facts)} ({hint})"
    for text in target.context if is_vague else ():
        kind = _of_context(text)
        yield None if is_typed_in and kind == "delete" else kind, f"{_describe(facts)} ({text})"
    if facts.is_key or not target.is_field:
        for text in _claims(facts, is_vague):
            yield kind_of(text), _describe(facts)


def is_text_field(target: Target) -> bool:
    """Return True if a target takes text: its name says what to type, and using it has no effect by itself."""
    return target.is_field and not _CHOICE.search(target.role)


def shows_by_requests(risk: Risk, facts: Facts) -> bool:
    """Return True if an action of this risk can be left to the check of its requests, if these are held.

    A submitted form sends a request, and so does a choice that is saved at once; a right click opens a menu, and a
    link without handlers another page, though it may delete by a plain GET.
    """
    target = facts.target
    if target is None or not target.is_element:
        return False
    if target.url is not None and not target.handlers and not target.url.endswith("#"):
        return risk.kind != "delete" and not is_neutral(target)
    is_menu = isinstance(facts.action, Click) and facts.action.button == "right"
    return is_menu or (risk.kind != "credentials" and (target.is_field or risk.kind == "submit"))


def _keys(action: Action) -> tuple[str, ...]:
    match action:
        case Hotkey(keys=keys):
            return tuple("delete" if key.lower() == "del" else key.lower() for key in keys)
        case PressKey(key=key) | KeyDown(key=key):
            return _keys(Hotkey(keys=(key,)))
    return ()


def _of_context(text: str) -> RiskKind | None:
    """Return the risk in the heading, the dialog or the text next to a button with a neutral name.

    A long text mentions many subjects (a notice about shared cookies): only its questions count, and the whole text for
    `pay` and `delete`.
    """
    if len(text) <= _SHORT_CHARS:
        return kind_of(text)
    asked = " ".join(_QUESTION.findall(text))
    kind = kind_of(asked) or kind_of(text)
    return kind if kind_of(asked) or kind in ("pay", "delete") else None


def _claims(facts: Facts, is_vague: bool) -> tuple[str, ...]:
    """Return the model's description without addresses and without the text to type; quoted texts are separate.

    For a click on something with a clear name only the main clause counts: `Click Help to find out how ...`.
    """
    claim = " ".join(word for word in facts.claim.split() if not _is_address(word))
    if isinstance(facts.action, TypeText):
        return (_QUOTED.sub(" ", facts.claim.replace(facts.action.text.strip() or "\n", " ")),)
    if not (is_vague or facts.is_key) and _POINTING.match(claim):
        claim = _PURPOSE.split(claim, maxsplit=1)[0]
    quoted = [] if facts.is_key else _QUOTED.findall(claim)  # with a key, quotes contain what was typed before
    return (_QUOTED.sub(" ", claim), *(text[1:-1] for text in quoted))


def _is_address(word: str) -> bool:
    return "://" in word or word.startswith("www.") or ("/" in word and ("." in word or word.startswith("/")))


def _seen(target: Target, name: str) -> str:
    """Describe the target by a name, with an excerpt if the name is too long to be shown."""
    line = target.text_as(name) or name
    if name in line:
        return line
    words = name.split()
    at = next((at for at in range(len(words)) if kind_of(" ".join(words[at : at + 4]))), 0)
    return f"{line} (… {' '.join(words[at : at + 4])} …)"


def _describe(facts: Facts) -> str:
    return (facts.target.text if facts.target else None) or facts.claim or facts.verb
