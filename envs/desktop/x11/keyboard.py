"""Keys and text through the XTEST extension."""

from collections.abc import Callable, Sequence

from envs.desktop.backend import Clock, typing_limit_s
from envs.desktop.x11.connection import Connection
from envs.desktop.x11.keymap import CAPS_LOCK, SHIFT_L, Keymap, is_keypad, keysym_of_character, keysym_of_key
from envs.errors import ActionError

_CHUNK = 400  # characters sent before the program gets time to take them
_TAKE_BACK_TIMEOUT_S = 5.0
_NOTICE_S = 0.03  # for programs to hear of a changed mapping
_SLOW_PROGRAM_S = 0.4  # for programs that do not answer pings to look up the keys pressed
_SHIFT, _LOCK, _NUM_LOCK = 1, 2, 16  # Source: X11/X.h ShiftMask, LockMask, Mod2Mask (num lock by custom)


class Keyboard:
    """One display's keyboard.

    Args:
        connection: A connection to a server with XTEST.
        wait_processed: Waits until the active window has worked off its input; None if it does not tell.
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
            ActionError: There is no such key.
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

    def type_text(self, text: str, interval_s: float, clock: Clock) -> None:
        """Type text; nothing of it if one of its characters cannot be typed.

        Long text goes in chunks, each worked off by the program before the next one, and characters
        that no key types are lent keys, as many at a time as there are.

        Raises:
            ActionError: A character cannot be typed, or the program takes no more of the text.
        """
        keysyms = [keysym_of_character(character) for character in text.replace("\r\n", "\n")]
        state = self._state()
        if self._keymap.num_spare() == 0 and self._num_without_key(keysyms, _group(state)):
            raise ActionError("the keyboard of this display has no free key to type such characters with; paste them")
        deadline_s = clock.now_s() + typing_limit_s(text, interval_s)
        # Caps lock would change letters, with lent keys in ways that shift cannot undo.
        self._tap(CAPS_LOCK, when=state & _LOCK)
        try:
            self._type_all(keysyms, interval_s, clock, deadline_s)
        finally:
            self._tap(CAPS_LOCK, when=state & _LOCK)

    def release(self) -> None:
        """Give back the keys that were lent."""
        self._keymap.give_back()
        self._display.sync()

    def _type_all(self, keysyms: Sequence[int], interval_s: float, clock: Clock, deadline_s: float) -> None:
        begin = 0
        while begin < len(keysyms):
            if begin > 0 and self._wait_processed(deadline_s - clock.now_s()) is False:
                raise ActionError(f"the active window takes no more text: it got {begin} of {len(keysyms)} characters")
            state = self._state()
            end = self._end_of_chunk(keysyms, begin, _group(state))
            clock.pause(0)  # a step that was cancelled ends here
            self._lend(keysyms[begin:end], _group(state), clock)
            for keysym in keysyms[begin:end]:
                self._type(keysym, state)
                if interval_s > 0:
                    self._display.sync()
                    clock.pause(interval_s)
            self._display.sync()
            begin = end

    def _end_of_chunk(self, keysyms: Sequence[int], begin: int, group: int) -> int:
        """Where the text must be cut so that there are keys enough for the characters without one."""
        end = min(len(keysyms), begin + _CHUNK)
        new: set[int] = set()
        for index in range(begin, end):
            if not self._keymap.is_native(keysyms[index], group):
                new.add(keysyms[index])
                if len(new) > self._keymap.num_spare():
                    return index
        return end

    def _lend(self, keysyms: Sequence[int], group: int, clock: Clock) -> None:
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
            self._keymap.give_back(kept=set(keysyms))
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
        found = self._keymap.stroke(keysym, group)
        if found is None:
            if self._keymap.num_free() == 0:
                self._wait_processed(_TAKE_BACK_TIMEOUT_S)
                self._keymap.give_back()
            self._keymap.lend([keysym])
            found = self._keymap.stroke(keysym, group)
        if found is None:
            raise ActionError("the display did not take the change of its keyboard mapping")
        return found

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
        """Modifiers held and the layout group, bits as in X11/X.h; follows changes of the mapping."""
        state = int(self._connection.root.query_pointer().mask)
        self._connection.drain()
        if self._connection.mapping_changed:
            self._connection.mapping_changed = False
            self._keymap.load()
        return state


def _group(state: int) -> int:
    return state >> 13 & 3
