"""Names of keys and characters as X keysyms.

Source: X11/keysymdef.h and X11/XF86keysym.h; characters outside Latin-1 are 0x01000000 plus the code point.
"""

from envs.errors import ActionError
from envs.keys import normalize_key

_NAMED = {
    "accept": 0xFF0D,
    "add": 0xFFAB,
    "alt": 0xFFE9,
    "altleft": 0xFFE9,
    "altright": 0xFFEA,
    "apps": 0xFF67,
    "backspace": 0xFF08,
    "browserback": 0x1008FF26,
    "browserfavorites": 0x1008FF30,
    "browserforward": 0x1008FF27,
    "browserhome": 0x1008FF18,
    "browserrefresh": 0x1008FF29,
    "browsersearch": 0x1008FF1B,
    "browserstop": 0x1008FF28,
    "capslock": 0xFFE5,
    "clear": 0xFF0B,
    "convert": 0xFF23,
    "ctrl": 0xFFE3,
    "ctrlleft": 0xFFE3,
    "ctrlright": 0xFFE4,
    "decimal": 0xFFAE,
    "delete": 0xFFFF,
    "divide": 0xFFAF,
    "down": 0xFF54,
    "end": 0xFF57,
    "enter": 0xFF0D,
    "esc": 0xFF1B,
    "execute": 0xFF62,
    "final": 0xFF57,
    "fn": 0x100811D0,
    "hangul": 0xFF31,
    "hanja": 0xFF34,
    "help": 0xFF6A,
    "home": 0xFF50,
    "insert": 0xFF63,
    "junja": 0xFF38,
    "kana": 0xFF2D,
    "kanji": 0xFF21,
    "launchapp1": 0x1008FF40,
    "launchapp2": 0x1008FF41,
    "launchmail": 0x1008FF19,
    "launchmediaselect": 0x1008FF32,
    "left": 0xFF51,
    "modechange": 0xFF7E,
    "multiply": 0xFFAA,
    "nexttrack": 0x1008FF17,
    "nonconvert": 0xFF22,
    "numlock": 0xFF7F,
    "pagedown": 0xFF56,
    "pageup": 0xFF55,
    "pause": 0xFF13,
    "playpause": 0x1008FF14,
    "prevtrack": 0x1008FF16,
    "printscreen": 0xFF61,
    "right": 0xFF53,
    "scrolllock": 0xFF14,
    "select": 0xFF60,
    "separator": 0xFFAC,
    "shift": 0xFFE1,
    "shiftleft": 0xFFE1,
    "shiftright": 0xFFE2,
    "sleep": 0x1008FF2F,
    "space": 0x20,
    "stop": 0x1008FF15,
    "subtract": 0xFFAD,
    "tab": 0xFF09,
    "up": 0xFF52,
    "volumedown": 0x1008FF11,
    "volumemute": 0x1008FF12,
    "volumeup": 0x1008FF13,
    "win": 0xFFEB,
    "winleft": 0xFFEB,
    "winright": 0xFFEC,
    "yen": 0xA5,
}
_NAMED |= {f"f{number}": 0xFFBD + number for number in range(1, 25)}
_NAMED |= {f"num{digit}": 0xFFB0 + digit for digit in range(10)}

NAMED_KEYSYMS = frozenset(_NAMED.values())
"""Keysyms of every named key."""

_CONTROL = {"\n": 0xFF0D, "\r": 0xFF0D, "\t": 0xFF09, "\b": 0xFF08, "\x1b": 0xFF1B, "\x7f": 0xFFFF}

CAPS_LOCK = 0xFFE5
SHIFT_L = 0xFFE1


def keysym_of_key(name: str) -> int:
    """Keysym of a key by its name in `envs.keys`.

    Raises:
        ActionError: There is no such key.
    """
    try:
        key = normalize_key(name)
    except ValueError as error:
        raise ActionError(str(error)) from None
    return _NAMED[key] if key in _NAMED else keysym_of_character(key)


def keysym_of_character(character: str) -> int:
    """Keysym that types one character.

    Raises:
        ActionError: A control character or half of a surrogate pair, which no key types.
    """
    code = ord(character)
    if character in _CONTROL:
        return _CONTROL[character]
    if 0x20 <= code < 0x7F or 0xA0 <= code <= 0xFF:
        return code
    if code < 0xA0 or 0xD800 <= code < 0xE000:
        raise ActionError(f"cannot type the character U+{code:04X}: no key writes it. Leave it out")
    return 0x01000000 | code


def is_keypad(keysym: int) -> bool:
    """Whether num lock changes what this keysym's key types."""
    return 0xFFAA <= keysym <= 0xFFB9
