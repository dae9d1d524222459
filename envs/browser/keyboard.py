"""The keyboard of a browser page: key names, text, keys held over steps; and the shortcuts of a browser window."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from envs.actions import Action, Hotkey, PressKey, TypeSecret, normalize_key
from envs.browser.bound_texts import BoundTexts
from envs.browser.clipboard import Clipboard
from envs.browser.navigation import explain
from envs.browser.overlays import AddressBar
from envs.browser.session import BrowserSession
from envs.browser.typing_check import TypingCheck
from envs.errors import ActionError
from envs.secret_texts import without_login

if TYPE_CHECKING:
    from playwright.async_api import Page

_NAMES = {
    "alt": "Alt", "altleft": "AltLeft", "altright": "AltRight",
    "ctrl": "Control", "ctrlleft": "ControlLeft", "ctrlright": "ControlRight",
    "shift": "Shift", "shiftleft": "ShiftLeft", "shiftright": "ShiftRight",
    "win": "Meta", "winleft": "MetaLeft", "winright": "MetaRight",
    "enter": "Enter", "esc": "Escape", "tab": "Tab", "space": "Space", "backspace": "Backspace",
    "delete": "Delete", "insert": "Insert", "home": "Home", "end": "End",
    "pageup": "PageUp", "pagedown": "PageDown",
    "up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight",
    "apps": "ContextMenu", "capslock": "CapsLock", "numlock": "NumLock", "scrolllock": "ScrollLock",
    "pause": "Pause", "printscreen": "PrintScreen", "select": "Select", "help": "Help", "clear": "Clear",
    "accept": "Accept", "convert": "Convert", "nonconvert": "NonConvert", "modechange": "ModeChange",
    "add": "NumpadAdd", "subtract": "NumpadSubtract", "multiply": "NumpadMultiply",
    "divide": "NumpadDivide", "decimal": ".",
    "volumeup": "AudioVolumeUp", "volumedown": "AudioVolumeDown", "volumemute": "AudioVolumeMute",
    "nexttrack": "MediaTrackNext", "prevtrack": "MediaTrackPrevious",
    "playpause": "MediaPlayPause", "stop": "MediaStop",
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
    **{f"num{number}": str(number) for number in range(10)},
}  # fmt: skip
_PLAIN = {"altleft": "alt", "altright": "alt", "ctrlleft": "ctrl", "ctrlright": "ctrl",
          "shiftleft": "shift", "shiftright": "shift", "winleft": "win", "winright": "win"}  # fmt: skip
_MODIFIERS = frozenset({"ctrl", "alt", "win", "shift"})
# Keys of a US keyboard by the character on them; with a modifier it is the key that counts.
_CODES = dict(
    zip(
        "`-=[]\\;',./",
        "Backquote Minus Equal BracketLeft BracketRight Backslash Semicolon Quote Comma Period Slash".split(),
        strict=True,
    )
)
_PIECES = re.compile(r"[^\n\t]{1,50}|\n|\t")  # short ones, so that a step that is cancelled ends soon
_LINES = re.compile(r"[^\n\t]+|\n|\t")
_PRESSING = {"\n": "enter", "\t": "tab", " ": "space"}
_WORDS = re.compile(r"[^\n\t ]{1,50}|\n|\t| ")

Ask = Callable[[str, Collection[str], str], Awaitable[None]]
"""Asked before a key goes down or a held one goes up, with its canonical name, all keys that are then down,
and the text that it types; raises `ActionError` to object."""

# Empties the line that an editor began with an indent or a list mark of its own, so that what
# follows stands there as typed. Answers whether something is selected for deletion.
_SELECT_INDENT = """() => {
  const area = document.activeElement;
  if (!(area instanceof HTMLTextAreaElement) || area.selectionStart !== area.selectionEnd) return false;
  const start = area.value.lastIndexOf("\\n", area.selectionStart - 1) + 1;
  if (start === 0 || start === area.selectionStart) return false;
  area.setSelectionRange(start, area.selectionStart);
  return true;
}"""
_HOLDING = frozenset(
    {"ctrl", "ctrlleft", "ctrlright", "shift", "shiftleft", "shiftright", "alt", "altleft", "altright"}
)
_CHORDS = {
    "alt+left": "back",
    "browserback": "back",
    "alt+right": "forward",
    "browserforward": "forward",
    "ctrl+l": "address",
    "alt+d": "address",
    "f6": "address",
    "ctrl+t": "new_tab",
    "ctrl+j": "downloads",
    "ctrl+w": "close_tab",
    "ctrl+f4": "close_tab",
    "ctrl+tab": "next_tab",
    "ctrl+pagedown": "next_tab",
    "ctrl+shift+tab": "previous_tab",
    "ctrl+pageup": "previous_tab",
    "ctrl+r": "reload",
    "f5": "reload",
    "ctrl+f5": "reload",
    "ctrl+shift+r": "reload",
    "browserrefresh": "reload",
    "alt+home": "home",
    "browserhome": "home",
    **{f"ctrl+{number}": f"tab_{number}" for number in range(1, 10)},
}
_SHORTCUTS = {frozenset(chord.split("+")): name for chord, name in _CHORDS.items()}


def canonical(key: str) -> str:
    """Canonical name of a key.

    Raises:
        ActionError: No such key.
    """
    try:
        return normalize_key(key)
    except ValueError as error:
        raise ActionError(str(error)) from error


def chord_of(keys: Collection[str]) -> frozenset[str]:
    """Canonical keys as a set in which left and right are the same and letters are small."""
    return frozenset(_PLAIN.get(key, key.lower() if len(key) == 1 else key) for key in keys)


class Keyboard:
    """Presses keys in the active page.

    Args:
        active_page: Gives it.
        clipboard: That of the session.
        typing: Compares what a field holds with what was typed.
        bound: Types secrets that only some hosts may get.

    Attributes:
        held: Canonical names of the keys that are down, with the page that they went down in.
    """

    def __init__(
        self, active_page: "Callable[[], Page]", clipboard: Clipboard, typing: TypingCheck, bound: BoundTexts
    ) -> None:
        self.held: dict[str, Page] = {}
        self._active_page = active_page
        self._clipboard = clipboard
        self._typing = typing
        self._bound = bound

    async def press(self, key: str, ask: Ask | None = None) -> None:
        """Press and release one canonical key."""
        if ask is not None:
            await ask(key, [*self.held, key], key if len(key) == 1 else "")
        page = self._active_page()
        chord = chord_of([*self.held, key])
        if await self._clipboard.before(page, chord):
            return
        if _is_typed(key):
            await page.keyboard.insert_text(key)
        else:
            await page.keyboard.press(self._name(key, chord_of(self.held)))
        await self._clipboard.after(page, chord)

    async def hotkey(self, keys: Collection[str], ask: Ask | None = None) -> None:
        """Press canonical keys in order, release them in reverse order."""
        page = self._active_page()
        keyboard, chord = page.keyboard, chord_of([*self.held, *keys])
        names = [self._name(key, chord) for key in keys]
        down: list[str] = []
        try:
            for number, (key, name) in enumerate(zip(keys, names, strict=True), start=1):
                if ask is not None:
                    await ask(key, [*self.held, *keys], "")
                pressed = chord_of([*self.held, *list(keys)[:number]])
                if key not in _HOLDING and await self._clipboard.before(page, pressed):
                    continue
                await keyboard.down(name)
                down.append(name)
            await self._clipboard.after(page, chord)
        finally:
            for name in reversed(down):
                await keyboard.up(name)

    async def hold(self, key: str, ask: Ask | None = None) -> None:
        """Put a canonical key down until `let_go`."""
        if ask is not None:
            await ask(key, [*self.held, key], key if len(key) == 1 else "")
        page = self._active_page()
        chord = chord_of([*self.held, key])
        if await self._clipboard.before(page, chord):
            return
        await page.keyboard.down(self._name(key, chord_of(self.held)))
        self.held[key] = page
        await self._clipboard.after(page, chord)

    async def let_go(self, key: str, ask: Ask | None = None) -> None:
        """Let a canonical key up, in the page that it went down in; a button is pressed when space goes up."""
        if ask is not None and key == "space":
            await ask(key, [*self.held, key], "")
        page = self.held.pop(key, None) or self._active_page()
        if not page.is_closed():
            await page.keyboard.up(self._name(key, frozenset()))

    async def type(self, text: str, interval_s: float = 0.0, ask: Ask | None = None) -> None:
        """Type text; a line break is Enter, a tab is Tab. Several lines go into a code editor as one paste.

        By keys, a code editor would add indents, closing brackets and completions of its own to what is typed.
        With `ask` the text goes word by word, because a space or Enter may press a button that has got the focus.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        is_editor = await self._typing.begin(self._active_page(), text, [*self.held])
        if is_editor and "\n" in text.strip() and await self._paste_lines(text, ask):
            return
        pattern = _PIECES if ask is None else _WORDS
        pieces = pattern.findall(text)
        is_elsewhere = True  # nothing is known yet of what has the focus
        for number, piece in enumerate(pieces, start=1):
            if ask is not None and (is_elsewhere or piece in _PRESSING):
                await ask(_PRESSING.get(piece, piece), self.held, piece.strip())
            is_elsewhere = piece in ("\n", "\t")
            page = self._active_page()
            if piece == "\n":
                await page.keyboard.press("Enter")
                if number < len(pieces):
                    await self._clear_indent(page)
            elif piece == "\t":
                await page.keyboard.press("Tab")
            elif not await self._clipboard.before(page, chord_of([*self.held, *piece])):
                await page.keyboard.type(piece, delay=interval_s * 1000)
            if interval_s and piece in "\n\t":
                await asyncio.sleep(interval_s)

    async def type_secret(self, action: TypeSecret, ask: Ask | None = None) -> None:
        """Type text with secrets that only some hosts may get; who gets it is judged again after each Enter and Tab."""
        for piece in _LINES.findall(action.filled.replace("\r\n", "\n").replace("\r", "\n")):
            if ask is not None:  # no page gets the text itself before it is judged
                await ask(_PRESSING.get(piece, "*"), self.held, "" if piece in _PRESSING else "*")
            if piece in _PRESSING:
                await self._active_page().keyboard.press(_NAMES[_PRESSING[piece]])
            else:
                await self._bound.insert(self._active_page(), piece, action.bound)

    async def _paste_lines(self, text: str, ask: Ask | None) -> bool:
        """Put text into the focused editor; False: it does not take a paste."""
        if ask is not None:
            await ask(text.split()[0], self.held, text.strip())
        return await self._clipboard.offer(self._active_page(), {"text/plain": text})

    async def _clear_indent(self, page: "Page") -> None:
        from playwright.async_api import Error

        try:
            if await page.evaluate(_SELECT_INDENT):
                await page.keyboard.press("Delete")
        except Error:  # Enter led to another page
            pass

    @staticmethod
    def _name(key: str, chord: frozenset[str]) -> str:
        if key in _NAMES:
            return _NAMES[key]
        if len(key) == 1 and not _is_typed(key):
            return _code(key) if chord & _MODIFIERS else key
        raise ActionError(f"the key {key!r} does nothing in a browser")


def _code(char: str) -> str:
    """The key that a character stands on; the character itself where that needs shift."""
    if char.isalpha():
        return f"Key{char.upper()}"
    return f"Digit{char}" if char.isdigit() else _CODES.get(char, char)


def _is_typed(key: str) -> bool:
    """Whether a character stands on no key of a US keyboard and can only be typed."""
    return len(key) == 1 and not key.isascii()


def shortcut_of(action: Action, held: "Collection[str]") -> str | None:
    """Name of the browser shortcut that an action is, with the keys held, or None."""
    match action:
        case Hotkey(keys=keys):
            return _SHORTCUTS.get(chord_of([*held, *keys]))
        case PressKey(key=key):
            return _SHORTCUTS.get(chord_of([*held, key]))
    return None


class Shortcuts:
    """Does what the browser's window would do."""

    def __init__(
        self, session: BrowserSession, viewport_px: tuple[int, int], home_url: str | None, timeout_s: float
    ) -> None:
        self._session = session
        self._viewport_px = viewport_px
        self._home_url = home_url or "about:blank"
        self._timeout_ms = timeout_s * 1000

    async def run(self, name: str) -> None:
        """Carry out a shortcut.

        Raises:
            ActionError: There is no page to go back to, no such tab, and the like.
        """
        tabs = self._session.tabs
        if name.startswith("tab_"):
            self._select_tab(int(name.removeprefix("tab_")))
            return
        match name:
            case "back" | "forward":
                await self._travel(-1 if name == "back" else 1)
            case "reload":
                await self._load(tabs.active.reload)
            case "home":
                await self._session.goto(self._home_url)
            case "address":
                self._open_address_bar(without_login(tabs.active.url))
            case "new_tab":
                await self._session.new_tab()
                self._open_address_bar("")
            case "downloads":
                await self._session.list_downloads()
            case "close_tab":
                await tabs.active.close(run_before_unload=True)
            case "next_tab" | "previous_tab":
                tabs.step(1 if name == "next_tab" else -1)

    def _open_address_bar(self, url: str) -> None:
        self._session.overlay = AddressBar(self._session.tabs.active, url, self._viewport_px, self._session.goto)

    def _select_tab(self, number: int) -> None:
        tabs = self._session.tabs
        if number == 9:
            tabs.select(-1)
        elif number <= len(tabs.pages):
            tabs.select(number - 1)
        else:
            raise ActionError(f"there is no tab {number}; there are {len(tabs.pages)}")

    async def _travel(self, by: int) -> None:
        page = self._session.tabs.active
        session = await page.context.new_cdp_session(page)
        try:
            history = await session.send("Page.getNavigationHistory")
        finally:
            await session.detach()
        if not 0 <= history["currentIndex"] + by < len(history["entries"]):
            raise ActionError(f"there is no page to go {'back' if by < 0 else 'forward'} to")
        await self._load(page.go_back if by < 0 else page.go_forward)

    async def _load(self, go: Callable[..., Awaitable[object]]) -> None:
        """Load a page that was seen before; a PDF or another download ends that without a document.

        Raises:
            ActionError: It did not come.
        """
        from playwright.async_api import Error

        try:
            await go(wait_until="commit", timeout=self._timeout_ms)
        except Error as error:
            if "net::" not in error.message:
                raise
            if "ERR_ABORTED" not in error.message or not self._session.downloads.is_coming():
                raise ActionError(f"the page was not loaded: {explain(error.message)}") from error
