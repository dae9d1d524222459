"""Read the words that name keys: "ctrl+s", "Control-Shift-T", "Enter"."""

import re

from envs.keys import MODIFIERS, normalize_key

_WORDS = {"page down": "pagedown", "page up": "pageup", "arrow down": "down", "arrow up": "up", "arrow left": "left",
          "arrow right": "right", "down arrow": "down", "up arrow": "up", "left arrow": "left", "right arrow": "right",
          "space bar": "space", "caps lock": "capslock", "back space": "backspace", "cntrl": "ctrl", "strg": "ctrl",
          "escape": "esc"}  # fmt: skip


def parse_keys(words: str) -> tuple[str, ...] | None:
    """Keys pressed together, by their canonical names; None when the words are no keys.

    A lone character is a key ("press a"); a lone word is one when keyboards have it ("press Save" is none).
    """
    text = words.strip()
    whole = _read_key(text)
    if whole is not None:
        return (whole,)
    parts = [part for part in re.split(r"\s*\+\s*|\s*-\s*(?=\S)|\s+", text) if part]
    if text.endswith("+") and parts:
        parts.append("+")
    keys = [_read_key(part) for part in parts]
    if len(keys) < 2 or any(key is None for key in keys):
        return None
    known = [key for key in keys if key is not None]
    if not all(key in MODIFIERS for key in known[:-1]):
        return None
    last = known[-1]
    return (*known[:-1], last.lower() if len(last) == 1 else last)


def _read_key(word: str) -> str | None:
    lowered = word.lower()
    name = _WORDS.get(lowered, word if len(word) == 1 else lowered)
    if len(name) > 1 and name in _NOT_KEYS:
        return None
    try:
        return normalize_key(name)
    except ValueError:
        return None


_NOT_KEYS = frozenset(
    "accept add apps back clear command convert decimal divide execute final help menu multiply option play print "
    "select separator sleep stop subtract yen".split()
)
"""Names that pyautogui knows as keys and people mean as buttons."""
