"""What an agent can do to a screen: a closed union, one small class a verb; and the names of keys.

Positions are pixels of the screen frame (see `ScreenGeometry`); `None` means "where the pointer is".
Keys are names from `envs.actions`. An action says what to do, never how: envs translate.

Source: pyautogui.KEY_NAMES (the names that the model was trained to write).
"""

from dataclasses import dataclass, field
from typing import Literal

from envs.errors import did_you_mean
from envs.secret_texts import BoundText

Button = Literal["left", "middle", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Click:
    """Press and release `button` `clicks` times, `interval_s` apart, at a point."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"
    clicks: int = 1
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move the pointer to a point, taking `duration_s`."""

    x_px: int
    y_px: int
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drag:
    """Hold `button` down from where the pointer is to a point, then let go."""

    x_px: int
    y_px: int
    button: Button = "left"
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scroll:
    """Turn the wheel: `dy` notches up (negative is down), `dx` notches right (negative is left)."""

    dy: int = 0
    dx: int = 0
    x_px: int | None = None
    y_px: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeText:
    """Type text, any Unicode; a line break is the Enter key, a tab the Tab key."""

    text: str
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSecret(TypeText):
    """Type text with secrets that only some hosts may get; an env that cannot tell who would get it refuses.

    Attributes:
        filled: What is typed; `text` has placeholders for all secrets. Never shown by `repr`.
        bound: The secrets in it that are bound to hosts.
    """

    filled: str = field(repr=False)
    bound: tuple[BoundText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PressKey:
    """Press and release one key `presses` times, `interval_s` apart."""

    key: str
    presses: int = 1
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hotkey:
    """Press keys in order, release them in reverse order."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDown:
    """Hold a key down, over steps if need be, until `KeyUp`."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUp:
    """Let a held key go."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseDown:
    """Hold a mouse button down at a point, over steps if need be, until `MouseUp`."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseUp:
    """Let a held mouse button go at a point."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Do nothing for `duration_s`."""

    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """End the episode: the agent believes that it succeeded or failed, and may give an answer."""

    status: Literal["success", "failure"]
    answer: str | None = None


UNBINDABLE = "the secret is only for some sites, and it cannot be told here which site would get it; nothing was typed"
"""Answer of an env to a `TypeSecret` that it cannot judge."""

Action = (
    Click
    | Move
    | Drag
    | Scroll
    | TypeText
    | PressKey
    | Hotkey
    | KeyDown
    | KeyUp
    | MouseDown
    | MouseUp
    | Wait
    | Terminate
)


_PRINTABLE = frozenset(chr(code) for code in range(0x20, 0x7F))

_NAMED = frozenset(
    """
    accept add alt altleft altright apps backspace browserback browserfavorites browserforward
    browserhome browserrefresh browsersearch browserstop capslock clear convert ctrl ctrlleft
    ctrlright decimal delete divide down end enter esc execute f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11
    f12 f13 f14 f15 f16 f17 f18 f19 f20 f21 f22 f23 f24 final fn hangul hanja help home insert
    junja kana kanji launchapp1 launchapp2 launchmail launchmediaselect left modechange multiply
    nexttrack nonconvert num0 num1 num2 num3 num4 num5 num6 num7 num8 num9 numlock pagedown pageup
    pause playpause prevtrack printscreen right scrolllock select separator shift shiftleft
    shiftright sleep space stop subtract tab up volumedown volumemute volumeup win winleft winright yen
    """.split()
)

_ALIASES = {
    "\t": "tab",
    "\n": "enter",
    "\r": "enter",
    " ": "space",
    "return": "enter",
    "escape": "esc",
    "del": "delete",
    "pgdn": "pagedown",
    "pgup": "pageup",
    "page_down": "pagedown",
    "page_up": "pageup",
    "print": "printscreen",
    "prntscrn": "printscreen",
    "prtsc": "printscreen",
    "prtscr": "printscreen",
    "hanguel": "hangul",
    "command": "win",
    "cmd": "win",
    "super": "win",
    "meta": "win",
    "windows": "win",
    "option": "alt",
    "optionleft": "altleft",
    "optionright": "altright",
    "control": "ctrl",
    "arrowup": "up",
    "arrowdown": "down",
    "arrowleft": "left",
    "arrowright": "right",
    "spacebar": "space",
    "back": "backspace",
    "menu": "apps",
    "contextmenu": "apps",
    "ins": "insert",
    "plus": "+",
    "minus": "-",
}

KEY_NAMES: frozenset[str] = (_PRINTABLE - {" "}) | _NAMED
"""Every canonical name: one printable character (space is `"space"`), or a word."""

MODIFIERS: frozenset[str] = frozenset(
    "alt altleft altright ctrl ctrlleft ctrlright shift shiftleft shiftright win winleft winright".split()
)


def normalize_key(name: str) -> str:
    """Canonical name of a key.

    Single characters keep their case (`"A"` needs shift, `"a"` does not) and may be any printable
    Unicode character; words are case-blind and may be an alias (`"return"`, `"pgdn"`, `"cmd"`).

    Raises:
        ValueError: No such key; the text names the nearest ones.
    """
    if name in _ALIASES:
        return _ALIASES[name]
    if len(name) == 1 and name.isprintable():
        return name
    word = name.strip().lower()
    word = _ALIASES.get(word, word)
    if word in KEY_NAMES:
        return word
    raise ValueError(f"unknown key {name!r}{did_you_mean(word, sorted(_NAMED | _ALIASES.keys()), 3)}")
