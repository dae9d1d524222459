"""Names of keys and characters as X keysyms, which key types what, and spare keys lent to characters that have none.

Source: X11/keysymdef.h and X11/XF86keysym.h; characters outside Latin-1 are 0x01000000 plus the code point.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from envs.actions import normalize_key
from envs.errors import ActionError

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
    """Keysym of a key by its name in `envs.actions`.

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


class Keymap:
    """The keyboard mapping of a display.

    Keys without a meaning are lent to keysyms that no key types; the loans stay until the key is
    needed for another keysym or `give_back` is called, since a program may look up what a key means
    long after it was pressed.

    Args:
        display: python-xlib `Display`.
        min_spare: If fewer keys than that are free, keys that no name of `envs.actions` uses are lent too.
    """

    def __init__(self, display: Any, min_spare: int) -> None:
        self._display = display
        self._min_spare = min_spare
        self._original: dict[int, tuple[int, ...]] = {}
        self._lent: dict[int, int] = {}
        self._table: dict[int, tuple[int, ...]] = {}
        self._strokes: dict[tuple[int, int], tuple[int, bool]] = {}
        self.load()
        self._spare = self._find_spare()

    def load(self) -> None:
        """Read the mapping anew, because somebody has changed it."""
        info = self._display.display.info
        first, last = info.min_keycode, info.max_keycode
        rows = self._display.get_keyboard_mapping(first, last - first + 1)
        self._table = {first + index: tuple(row) for index, row in enumerate(rows)}
        self._lent = {key: keysym for key, keysym in self._lent.items() if keysym in self._table[key]}
        self._strokes = {}
        for group in (0, 1):
            for shifted in (True, False):  # unshifted last, so that it wins
                column = 2 * group + shifted
                for keycode, keysyms in reversed(self._table.items()):
                    if column < len(keysyms) and keysyms[column]:
                        self._strokes[keysyms[column], group] = keycode, shifted

    def stroke(self, keysym: int, group: int) -> tuple[int, bool] | None:
        """Key code, and whether shift is needed, in a layout group; None when no key types the keysym."""
        return self._strokes.get((keysym, min(group, 1)))

    def is_lent(self, keysym: int) -> bool:
        """Whether a key is lent to the keysym."""
        return keysym in self._lent.values()

    def is_native(self, keysym: int, group: int) -> bool:
        """Whether a key types the keysym without a loan."""
        return self.stroke(keysym, group) is not None and not self.is_lent(keysym)

    def num_free(self) -> int:
        """How many keysyms can be lent a key before others must give theirs back."""
        return len(self._spare) - len(self._lent)

    def num_spare(self) -> int:
        """How many keysyms can be lent a key at the same time."""
        return len(self._spare)

    def lend(self, keysyms: Iterable[int]) -> None:
        """Give each keysym a free key.

        Raises:
            ActionError: There are not enough of them.
        """
        free = iter([key for key in self._spare if key not in self._lent])
        changes = {}
        for keysym in keysyms:
            key = next(free, None)
            if key is None:
                raise ActionError("the keyboard of this display has no free key left to type that character with")
            changes[key] = (keysym, keysym)
            self._lent[key] = keysym
        self._write(changes)

    def give_back(self, kept: Collection[int] = ()) -> None:
        """Take keys back from all keysyms but the `kept` ones."""
        back = [key for key, keysym in self._lent.items() if keysym not in kept]
        for key in back:
            del self._lent[key]
        self._write({key: self._original[key] or (0, 0) for key in back})

    def _find_spare(self) -> list[int]:
        empty = [key for key, keysyms in self._table.items() if not any(keysyms)]
        unused = [
            key
            for key, keysyms in reversed(self._table.items())
            if any(keysyms) and all(keysym == 0 or _is_luxury(keysym) for keysym in keysyms)
        ]
        spare = _longest_runs_first(empty + unused[: max(0, self._min_spare - len(empty))])
        self._original = {key: self._table[key] for key in spare}
        return spare

    def _write(self, changes: Mapping[int, tuple[int, ...]]) -> None:
        """Change keys, one request for each run of neighbours.

        Every request makes all programs read the mapping anew, for which openbox takes 80 to 150 ms.
        """
        keys = sorted(changes)
        while keys:
            run = [keys.pop(0)]
            while keys and keys[0] == run[-1] + 1 and len(changes[keys[0]]) == len(changes[run[0]]):
                run.append(keys.pop(0))
            self._display.change_keyboard_mapping(run[0], [changes[key] for key in run])
        if changes:
            self._display.sync()
            self.load()


def _is_luxury(keysym: int) -> bool:
    """Whether a keysym is of a multimedia key that `envs.actions` does not name."""
    return 0x10080000 <= keysym <= 0x1008FFFF and keysym not in NAMED_KEYSYMS


def _longest_runs_first(keys: Iterable[int]) -> list[int]:
    """Order keys so that neighbours are lent together."""
    runs: list[list[int]] = []
    for key in sorted(keys):
        if runs and runs[-1][-1] == key - 1:
            runs[-1].append(key)
        else:
            runs.append([key])
    return [key for run in sorted(runs, key=len, reverse=True) for key in run]
