"""Key names: one canonical name for each key, those of pyautogui.

Source: pyautogui.KEY_NAMES (the names that the model was trained to write).
"""

from envs.errors import did_you_mean

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
