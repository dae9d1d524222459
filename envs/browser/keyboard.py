"""Keyboard of a browser page: key names, text, keys held across steps; and the shortcuts of a browser window."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from envs.actions import Action, Hotkey, PressKey, TypeSecret, normalize_key
from envs.browser.bound_texts import BoundTexts
from envs.browser.clipboard import SessionClipboard
from envs.browser.navigation import explain
from envs.browser.overlays.address_bar import AddressBar
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
# Keys of a US keyboard by their character; with a modifier the key is pressed instead of the character.
_CODES = dict(
    zip(
        "`-=[]\\;',./",
        "Backquote Minus Equal BracketLeft BracketRight Backslash Semicolon Quote Comma Period Slash".split(),
        strict=True,
    )
)
_PIECES = re.compile(r"[^\n\t]{1,50}|\n|\t")  # short pieces, so that a cancelled step ends soon
_LINES = re.compile(r"[^\n\t]+|\n|\t")
_PRESSING = {"\n": "enter", "\t": "tab", " ": "space"}
_WORDS = re.compile(r"[^\n\t ]{1,50}|\n|\t| ")

KeyCheck = Callable[[str, Collection[str], str], Awaitable[None]]
"""Callback with (key, keys down, typed text) before a key press or release; raises `ActionError` to reject it."""

# Selects the indent or list mark that an editor inserted at the start of the line, so that it can be deleted. Returns
# true if something is selected.
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
    """Return the canonical name of a key.

    Raises:
        ActionError: If the key does not exist.
    """
    try:
        return normalize_key(key)
    except ValueError as error:
        raise ActionError(str(error)) from error


def chord_of(keys: Collection[str]) -> frozenset[str]:
    """Return canonical keys as a set, with left and right variants merged and letters in lower case."""
    return frozenset(_PLAIN.get(key, key.lower() if len(key) == 1 else key) for key in keys)


class PageKeyboard:
    """Keyboard in the active page.

    Args:
        active_page: Returns the active page.
        clipboard: Clipboard of the session.
        typing: Compares the content of a field with the typed text.
        bound: Types secrets that only some hosts may receive.

    Attributes:
        held: Canonical names of the keys that are down, with the page in which they were pressed.
    """

    def __init__(
        self, active_page: "Callable[[], Page]", clipboard: SessionClipboard, typing: TypingCheck, bound: BoundTexts
    ) -> None:
        self.held: dict[str, Page] = {}
        self._active_page = active_page
        self._clipboard = clipboard
        self._typing = typing
        self._bound = bound

    async def press(self, key: str, check: KeyCheck | None = None) -> None:
        """Press and release one canonical key."""
        if check is not None:
            await check(key, [*self.held, key], key if len(key) == 1 else "")
        page = self._active_page()
        chord = chord_of([*self.held, key])
        if await self._clipboard.before(page, chord):
            return
        if _is_typed(key):
            await page.keyboard.insert_text(key)
        else:
            await page.keyboard.press(self._name(key, chord_of(self.held)))
        await self._clipboard.after(page, chord)

    async def hotkey(self, keys: Collection[str], check: KeyCheck | None = None) -> None:
        """Press canonical keys in order, release them in reverse order."""
        page = self._active_page()
        keyboard, chord = page.keyboard, chord_of([*self.held, *keys])
        names = [self._name(key, chord) for key in keys]
        down: list[str] = []
        try:
            for number, (key, name) in enumerate(zip(keys, names, strict=True), start=1):
                if check is not None:
                    await check(key, [*self.held, *keys], "")
                pressed = chord_of([*self.held, *list(keys)[:number]])
                if key not in _HOLDING and await self._clipboard.before(page, pressed):
                    continue
                await keyboard.down(name)
                down.append(name)
            await self._clipboard.after(page, chord)
        finally:
            for name in reversed(down):
                await keyboard.up(name)

    async def key_down(self, key: str, check: KeyCheck | None = None) -> None:
        """Press a canonical key until `key_up`."""
        if check is not None:
            await check(key, [*self.held, key], key if len(key) == 1 else "")
        page = self._active_page()
        chord = chord_of([*self.held, key])
        if await self._clipboard.before(page, chord):
            return
        await page.keyboard.down(self._name(key, chord_of(self.held)))
        self.held[key] = page
        await self._clipboard.after(page, chord)

    async def key_up(self, key: str, check: KeyCheck | None = None) -> None:
        """Release a canonical key in the page in which it was pressed; releasing space may press a button."""
        if check is not None and key == "space":
            await check(key, [*self.held, key], "")
        page = self.held.pop(key, None) or self._active_page()
        if not page.is_closed():
            await page.keyboard.up(self._name(key, frozenset()))

    async def type(self, text: str, interval_s: float = 0.0, check: KeyCheck | None = None) -> None:
        """Type text; a line break is Enter, a tab is Tab. Several lines are pasted into a code editor at once.

        With key presses a code editor would add indents, closing brackets and completions of its own. With `check` the
        text is typed word by word, because a space or Enter may press a button that has received the focus.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        is_editor = await self._typing.begin(self._active_page(), text, [*self.held])
        if is_editor and "\n" in text.strip() and await self._paste_lines(text, check):
            return
        pattern = _PIECES if check is None else _WORDS
        pieces = pattern.findall(text)
        is_elsewhere = True  # the focused element is not known yet
        for number, piece in enumerate(pieces, start=1):
            if check is not None and (is_elsewhere or piece in _PRESSING):
                await check(_PRESSING.get(piece, piece), self.held, piece.strip())
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

    async def type_secret(self, action: TypeSecret, check: KeyCheck | None = None) -> None:
        """Type text with bound secrets; the recipient is checked again after each Enter and Tab."""
        for piece in _LINES.findall(action.filled.replace("\r\n", "\n").replace("\r", "\n")):
            if check is not None:  # a page must not get the text itself before the check
                await check(_PRESSING.get(piece, "*"), self.held, "" if piece in _PRESSING else "*")
            if piece in _PRESSING:
                await self._active_page().keyboard.press(_NAMES[_PRESSING[piece]])
            else:
                await self._bound.insert(self._active_page(), piece, action.bound)

    async def _paste_lines(self, text: str, check: KeyCheck | None) -> bool:
        """Paste text into the focused editor; return False if it does not handle a paste."""
        if check is not None:
            await check(text.split()[0], self.held, text.strip())
        return await self._clipboard.offer(self._active_page(), {"text/plain": text})

    async def _clear_indent(self, page: "Page") -> None:
        from playwright.async_api import Error

        try:
            if await page.evaluate(_SELECT_INDENT):
                await page.keyboard.press("Delete")
        except Error:  # Enter navigated to another page
            pass

    @staticmethod
    def _name(key: str, chord: frozenset[str]) -> str:
        if key in _NAMES:
            return _NAMES[key]
        if len(key) == 1 and not _is_typed(key):
            return _code(key) if chord & _MODIFIERS else key
        raise ActionError(f"the key {key!r} does nothing in a browser")


def _code(char: str) -> str:
    """Return the key of a character; the character itself if it needs shift."""
    if char.isalpha():
        return f"Key{char.upper()}"
    return f"Digit{char}" if char.isdigit() else _CODES.get(char, char)


def _is_typed(key: str) -> bool:
    """Return True if a character has no key on a US keyboard and can only be inserted."""
    return len(key) == 1 and not key.isascii()


def shortcut_of(action: Action, held: "Collection[str]") -> str | None:
    """Return the name of the browser shortcut for an action and the held keys, or None."""
    match action:
        case Hotkey(keys=keys):
            return _SHORTCUTS.get(chord_of([*held, *keys]))
        case PressKey(key=key):
            return _SHORTCUTS.get(chord_of([*held, key]))
    return None


class Shortcuts:
    """Shortcuts of a browser window."""

    def __init__(
        self, session: BrowserSession, viewport_px: tuple[int, int], home_url: str | None, timeout_s: float
    ) -> None:
        self._session = session
        self._viewport_px = viewport_px
        self._home_url = home_url or "about:blank"
        self._timeout_ms = timeout_s * 1000

    async def run(self, name: str) -> None:
        """Run a shortcut.

        Raises:
            ActionError: If it is impossible, for example without a page to go back to.
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
        """Load a page from the history; a PDF or another download ends that without a document.

        Raises:
            ActionError: If it does not load.
        """
        from playwright.async_api import Error

        try:
            await go(wait_until="commit", timeout=self._timeout_ms)
        except Error as error:
            if "net::" not in error.message:
                raise
            if "ERR_ABORTED" not in error.message or not self._session.downloads.is_coming():
                raise ActionError(f"the page was not loaded: {explain(error.message)}") from error
