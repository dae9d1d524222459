"""Keys and text through the XTEST extension: keysyms of names and characters, and the keys that type them.

Characters without a key are temporarily assigned a spare key.

Source: X11/keysymdef.h and X11/XF86keysym.h; characters outside Latin-1 are 0x01000000 plus the code point.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from envs.actions import normalize_key
from envs.desktop.backend import InterruptibleClock, typing_limit_s
from envs.desktop.x11.connection import Connection
from envs.errors import ActionError

if TYPE_CHECKING:
    from Xlib.display import Display

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
"""Keysyms of all named keys."""

_CONTROL = {"\n": 0xFF0D, "\r": 0xFF0D, "\t": 0xFF09, "\b": 0xFF08, "\x1b": 0xFF1B, "\x7f": 0xFFFF}

CAPS_LOCK = 0xFFE5
SHIFT_L = 0xFFE1
_CHUNK = 400  # characters sent before the program gets time to process them
_TAKE_BACK_TIMEOUT_S = 5.0  # keys stay mapped until the window has read them; a window that hangs must not block
_NOTICE_S = 0.03  # for programs to receive a changed mapping
_SLOW_PROGRAM_S = 0.4  # for programs without ping support to look up the pressed keys
_SHIFT, _LOCK, _NUM_LOCK = 1, 2, 16  # Source: X11/X.h ShiftMask, LockMask, Mod2Mask (num lock by convention)


def keysym_of_key(name: str) -> int:
    """Return the keysym of a key by its name in `envs.actions`.

    Raises:
        ActionError: If the key does not exist.
    """
    try:
        key = normalize_key(name)
    except ValueError as error:
        raise ActionError(str(error)) from None
    return _NAMED[key] if key in _NAMED else keysym_of_character(key)


def keysym_of_character(character: str) -> int:
    """Return the keysym that types one character.

    Raises:
        ActionError: If it is a control character or half of a surrogate pair, which no key types.
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
    """Return True if num lock changes what the key of this keysym types."""
    return 0xFFAA <= keysym <= 0xFFB9


class Keymap:
    """Keyboard mapping of a display.

    Keys without a meaning are lent to keysyms without a key; a loan stays until the key is needed for another keysym or
    `restore` is called, since a program may look up the meaning of a key long after it was pressed.

    Args:
        display: python-xlib `Display`.
        min_spare: If fewer keys are free, keys without a name in `envs.actions` are lent too.
    """

    def __init__(self, display: "Display", min_spare: int) -> None:
        self._display = display
        self._min_spare = min_spare
        self._original: dict[int, tuple[int, ...]] = {}
        self._lent: dict[int, int] = {}
        self._table: dict[int, tuple[int, ...]] = {}
        self._strokes: dict[tuple[int, int], tuple[int, bool]] = {}
        self.load()
        self._spare = self._find_spare()

    def load(self) -> None:
        """Reload the mapping after it was changed."""
        info = self._display.display.info
        first, last = info.min_keycode, info.max_keycode
        rows = self._display.get_keyboard_mapping(first, last - first + 1)
        self._table = {first + index: tuple(row) for index, row in enumerate(rows)}
        self._lent = {key: keysym for key, keysym in self._lent.items() if keysym in self._table[key]}
        self._strokes = {}
        for group in (0, 1):
            for shifted in (True, False):  # unshifted last, so that it takes precedence
                column = 2 * group + shifted
                for keycode, keysyms in reversed(self._table.items()):
                    if column < len(keysyms) and keysyms[column]:
                        self._strokes[keysyms[column], group] = keycode, shifted

    def stroke(self, keysym: int, group: int) -> tuple[int, bool] | None:
        """Return key code, and True if shift is needed, in a layout group; None if no key types the keysym."""
        return self._strokes.get((keysym, min(group, 1)))

    def is_lent(self, keysym: int) -> bool:
        """Return True if a key is lent to the keysym."""
        return keysym in self._lent.values()

    def is_native(self, keysym: int, group: int) -> bool:
        """Return True if a key types the keysym without a loan."""
        return self.stroke(keysym, group) is not None and not self.is_lent(keysym)

    def num_free(self) -> int:
        """Return the number of keys that can be lent before others must be taken back."""
        return len(self._spare) - len(self._lent)

    def num_spare(self) -> int:
        """Return the number of keys that can be lent at the same time."""
        return len(self._spare)

    def lend(self, keysyms: Iterable[int]) -> None:
        """Assign a free key to each keysym.

        Raises:
            ActionError: If there are not enough free keys.
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

    def restore(self, kept: Collection[int] = ()) -> None:
        """Restore the keys of all keysyms except the `kept` ones."""
        back = [key for key, keysym in self._lent.items() if keysym not in kept]
        for key in back:
            del self._lent[key]
        self._write({key: self._original[key] or (0, 0) for key in back})

    def _find_spare(self) -> list[int]:
        empty = [key for key, keysyms in self._table.items() if not any(keysyms)]
        unused = [
            key
            for key, keysyms in reversed(self._table.items())
            if any(keysyms) and all(keysym == 0 or _is_unnamed_media_key(keysym) for keysym in keysyms)
        ]
        spare = _longest_runs_first(empty + unused[: max(0, self._min_spare - len(empty))])
        self._original = {key: self._table[key] for key in spare}
        return spare

    def _write(self, changes: Mapping[int, tuple[int, ...]]) -> None:
        """Change keys, with one request for each run of adjacent keys.

        Every request makes all programs reload the mapping, which takes openbox 80 to 150 ms.
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


def _is_unnamed_media_key(keysym: int) -> bool:
    """Return True if a keysym belongs to a multimedia key without a name in `envs.actions`."""
    return 0x10080000 <= keysym <= 0x1008FFFF and keysym not in NAMED_KEYSYMS


def _longest_runs_first(keys: Iterable[int]) -> list[int]:
    """Order keys so that adjacent ones are lent together."""
    runs: list[list[int]] = []
    for key in sorted(keys):
        if runs and runs[-1][-1] == key - 1:
            runs[-1].append(key)
        else:
            runs.append([key])
    return [key for run in sorted(runs, key=len, reverse=True) for key in run]


class X11Keyboard:
    """Keyboard of one display.

    Args:
        connection: Connection to a server with XTEST.
        wait_processed: Waits until the active window has processed its input; None if it cannot report that.
        min_spare: See `Keymap`.
    """

    def __init__(self, connection: Connection, wait_processed: Callable[[float], bool | None], min_spare: int) -> None:
        self._connection = connection
        self._display = connection.display
        self._wait_processed = wait_processed
        self._keymap = Keymap(connection.display, min_spare)
        self._down: dict[str, int] = {}

    def press_key(self, key: str, *, down: bool) -> None:
        """Press or release a key by its name.

        Raises:
            ActionError: If the key does not exist.
        """
        keysym = keysym_of_key(key)
        if not down:
            self._key(self._down.pop(key) if key in self._down else self._stroke(keysym)[0], down=False)
        else:
            state = self._state()
            keycode, shifted = self._stroke(keysym, state)
            if is_keypad(keysym):
                shifted = shifted != bool(state & _NUM_LOCK)
            self._down[key] = keycode
            with_shift = shifted and not state & _SHIFT
            self._shift(down=True, when=with_shift)
            self._key(keycode, down=True)
            self._shift(down=False, when=with_shift)
        self._display.sync()

    def type_text(self, text: str, interval_s: float, clock: InterruptibleClock) -> None:
        """Type text, or nothing if one of its characters cannot be typed.

        Long text is sent in chunks, each processed by the program before the next one, and characters without a key are
        lent keys, as many at a time as there are.

        Raises:
            ActionError: If a character cannot be typed, or the program stops accepting text.
        """
        keysyms = [keysym_of_character(character) for character in text.replace("\r\n", "\n")]
        state = self._state()
        if self._keymap.num_spare() == 0 and self._num_without_key(keysyms, _group(state)):
            raise ActionError("the keyboard of this display has no free key to type such characters with; paste them")
        deadline_s = clock.now_s() + typing_limit_s(text, interval_s)
        # Caps lock would change letters, on lent keys in ways that shift cannot undo.
        self._tap(CAPS_LOCK, when=state & _LOCK)
        try:
            self._type_all(keysyms, interval_s, clock, deadline_s)
        finally:
            self._tap(CAPS_LOCK, when=state & _LOCK)

    def release(self) -> None:
        """Restore the lent keys."""
        self._keymap.restore()
        self._display.sync()

    def _type_all(
        self, keysyms: Sequence[int], interval_s: float, clock: InterruptibleClock, deadline_s: float
    ) -> None:
        begin = 0
        while begin < len(keysyms):
            if begin > 0 and self._wait_processed(deadline_s - clock.now_s()) is False:
                raise ActionError(f"the active window takes no more text: it got {begin} of {len(keysyms)} characters")
            state = self._state()
            end = self._end_of_chunk(keysyms, begin, _group(state))
            clock.pause(0)  # a cancelled step ends here
            self._lend(keysyms[begin:end], _group(state), clock)
            for keysym in keysyms[begin:end]:
                self._type(keysym, state)
                if interval_s > 0:
                    self._display.sync()
                    clock.pause(interval_s)
            self._display.sync()
            begin = end

    def _end_of_chunk(self, keysyms: Sequence[int], begin: int, group: int) -> int:
        """Return where the text must be cut so that there are enough keys for the characters without one."""
        end = min(len(keysyms), begin + _CHUNK)
        new: set[int] = set()
        for index in range(begin, end):
            if not self._keymap.is_native(keysyms[index], group):
                new.add(keysyms[index])
                if len(new) > self._keymap.num_spare():
                    return index
        return end

    def _lend(self, keysyms: Sequence[int], group: int, clock: InterruptibleClock) -> None:
        """Lend keys to the characters that have none."""
        missing = dict.fromkeys(keysym for keysym in keysyms if self._keymap.stroke(keysym, group) is None)
        if not missing:
            return
        if len(missing) > self._keymap.num_free():
            answered = self._wait_processed(_TAKE_BACK_TIMEOUT_S)
            if answered is False:
                raise ActionError("the active window is busy and has not taken the keys before these yet; wait")
            if answered is None:
                clock.pause(_SLOW_PROGRAM_S)
            self._keymap.restore(kept=set(keysyms))
        self._keymap.lend(missing)
        clock.pause(_NOTICE_S)

    def _num_without_key(self, keysyms: Sequence[int], group: int) -> int:
        return sum(1 for keysym in set(keysyms) if not self._keymap.is_native(keysym, group))

    def _type(self, keysym: int, state: int) -> None:
        keycode, shifted = self._stroke(keysym, state)
        with_shift = shifted and not state & _SHIFT
        self._shift(down=True, when=with_shift)
        self._key(keycode, down=True)
        self._key(keycode, down=False)
        self._shift(down=False, when=with_shift)

    def _stroke(self, keysym: int, state: int | None = None) -> tuple[int, bool]:
        group = _group(self._state() if state is None else state)
        stroke = self._keymap.stroke(keysym, group)
        if stroke is None:
            if self._keymap.num_free() == 0:
                self._wait_processed(_TAKE_BACK_TIMEOUT_S)
                self._keymap.restore()
            self._keymap.lend([keysym])
            stroke = self._keymap.stroke(keysym, group)
        if stroke is None:
            raise ActionError("the display did not take the change of its keyboard mapping")
        return stroke

    def _tap(self, keysym: int, *, when: int) -> None:
        if when:
            keycode, _ = self._stroke(keysym)
            self._key(keycode, down=True)
            self._key(keycode, down=False)
            self._display.sync()

    def _shift(self, *, down: bool, when: bool) -> None:
        if when:
            self._key(self._stroke(SHIFT_L, 0)[0], down=down)

    def _key(self, keycode: int, *, down: bool) -> None:
        self._connection.send_key(keycode, down=down)

    def _state(self) -> int:
        """Return held modifiers and the layout group, bits as in X11/X.h; reload a changed mapping."""
        state = int(self._connection.root.query_pointer().mask)
        self._connection.drain()
        if self._connection.mapping_changed:
            self._connection.mapping_changed = False
            self._keymap.load()
        return state


def _group(state: int) -> int:
    return state >> 13 & 3
