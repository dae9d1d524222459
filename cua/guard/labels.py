"""Texts of a target as a person reads them."""

import re
import unicodedata

from envs import Target

_INVISIBLE = ("Cf", "Cc")
_SPREAD = re.compile(r"(?<!\w)\w(?:[\W_]{1,3}\w(?!\w)){2,}")


def texts_of(target: Target) -> tuple[str, ...]:
    """All that says what a target is, for a pattern: `button "Next"`, `button "Delete"`; what its dialog or heading
    says comes behind names that say nothing (`OK`).
    """
    texts = tuple(text for name in target.names or ("",) if (text := _line(target, name)))
    return (*texts, *target.context) if is_neutral(target) else texts


def is_neutral(target: Target) -> bool:
    """Whether no name of a target says what it does: there is none, or OK, Yes, Continue."""
    if target.is_field:
        return False
    return all(_NEUTRAL.fullmatch(form) for name in target.names for form in forms(name)[-1:])


def forms(text: str) -> tuple[str, ...]:
    """A text as it is, and as a person reads it: without invisible characters and marks, letters put together."""
    return tuple(dict.fromkeys([text, fold(text)]))


def fold(text: str) -> str:
    """Compatibility forms and accents dissolved, invisible characters dropped, spread letters put together."""
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(
        " " if char in "\n\t" else char
        for char in plain
        if unicodedata.category(char) not in _INVISIBLE or char in "\n\t"
    )
    plain = unicodedata.normalize("NFC", "".join(char for char in plain if unicodedata.category(char) != "Mn"))
    return _SPREAD.sub(lambda found: re.sub(r"[\W_]+", "", found[0]), plain).casefold().strip()


def _line(target: Target, name: str) -> str:
    parts = [target.role, f'"{name}"' if name else "", f"-> {target.url}" if target.url else ""]
    return " ".join(part for part in parts if part)


_NEUTRAL = re.compile(
    r"\W*(?:ok|okay|yes|yep|sure|continue|confirm|proceed|go|go ahead|do it|done|accept|agree|i agree|i understand"
    r"|got it|apply|ja|oui|si|weiter|continuer|continuar|aceptar|是|好|确定|继续)?\W*"
)
