"""Actions of an agent on a screen, as a closed union of small classes, and the names of keys.

Positions are pixels in the screen frame (see `ScreenGeometry`); `None` means the current pointer position. Key names
are listed in this module. An action describes the input; the environments implement it.

Source: pyautogui.KEY_NAMES (the names that the model was trained to write).
"""

from dataclasses import dataclass, field
from typing import Literal

from envs.errors import did_you_mean
from envs.secret_texts import BoundText

Button = Literal["left", "middle", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Click:
    """Mouse click: press and release `button` `clicks` times, `interval_s` apart, at a point."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"
    clicks: int = 1
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move of the pointer to a point, taking `duration_s`."""

    x_px: int
    y_px: int
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drag:
    """Drag from the current pointer position to a point, with `button` held down."""

    x_px: int
    y_px: int
    button: Button = "left"
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scroll:
    """Wheel scroll by `dy` notches up (negative: down) and `dx` notches right (negative: left)."""

    dy: int = 0
    dx: int = 0
    x_px: int | None = None
    y_px: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeText:
    """Text input, any Unicode; a line break is the Enter key, a tab the Tab key."""

    text: str
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSecret(TypeText):
    """Text input with secrets bound to hosts; an env that cannot determine the receiving host refuses it.

    Attributes:
        filled: Text to type, with the secret values; `text` has placeholders for them. Never shown by `repr`.
        bound: Secrets in the text that are bound to hosts.
    """

    filled: str = field(repr=False)
    bound: tuple[BoundText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PressKey:
    """Key press and release, `presses` times, `interval_s` apart."""

    key: str
    presses: int = 1
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hotkey:
    """Key combination: press keys in order, release them in reverse order."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDown:
    """Key press without release; the key is held, across steps if needed, until `KeyUp`."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUp:
    """Release of a held key."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseDown:
    """Mouse button press without release; the button is held, across steps if needed, until `MouseUp`."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseUp:
    """Release of a held mouse button at a point."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Pause of `duration_s`."""

    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """End of the episode, with the outcome that the agent claims and optionally an answer."""

    status: Literal["success", "failure"]
    answer: str | None = None


RECIPIENT_UNKNOWN = (
    "the secret is only for some sites, and which site would get it cannot be determined here; nothing was typed"
)
"""Error text of an environment that cannot determine which site would receive a `TypeSecret`."""

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
"""All canonical key names: one printable character (space is `"space"`), or a word."""

MODIFIERS: frozenset[str] = frozenset(
    "alt altleft altright ctrl ctrlleft ctrlright shift shiftleft shiftright win winleft winright".split()
)


def normalize_key(name: str) -> str:
    """Return the canonical name of a key.

    Single characters keep their case (`"A"` needs shift, `"a"` does not) and may be any printable Unicode character;
    words are case-insensitive and may be an alias (`"return"`, `"pgdn"`, `"cmd"`).

    Raises:
        ValueError: If the key does not exist; the text lists the nearest names.
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
