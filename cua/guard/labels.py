"""What the names of a target say together."""

from cua.guard.words import says_nothing
from envs import Target


def texts_of(target: Target) -> tuple[str, ...]:
    """All that says what a target is, one line for each of its names: `button "Next"`, `button "Delete"`.

    What its dialog or its heading says comes behind names that say nothing (`OK`).
    """
    texts = tuple(text for name in target.names or ("",) if (text := _line(target, name)))
    return (*texts, *target.context) if is_neutral(target) else texts


def is_neutral(target: Target) -> bool:
    """Whether no name of a target says what it does: there is none, or OK, Yes, Continue."""
    return not target.is_field and all(map(says_nothing, target.names))


def _line(target: Target, name: str) -> str:
    parts = [target.role, f'"{name}"' if name else "", f"-> {target.url}" if target.url else ""]
    return " ".join(part for part in parts if part)
