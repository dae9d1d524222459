"""Keyboard shortcuts of a browser's own window, which a headless one does not have."""

from typing import TYPE_CHECKING

from envs.actions import Action, Hotkey, PressKey
from envs.browser.keyboard import chord_of
from envs.browser.overlays import AddressBar
from envs.browser.world import World
from envs.errors import ActionError
from envs.secret_forms import without_login

if TYPE_CHECKING:
    from collections.abc import Collection

_CHORDS = {
    "alt+left": "back",
    "browserback": "back",
    "alt+right": "forward",
    "browserforward": "forward",
    "ctrl+l": "address",
    "alt+d": "address",
    "f6": "address",
    "ctrl+t": "new_tab",
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

    def __init__(self, world: World, viewport_px: tuple[int, int], home_url: str | None, timeout_s: float) -> None:
        self._world = world
        self._viewport_px = viewport_px
        self._home_url = home_url or "about:blank"
        self._timeout_ms = timeout_s * 1000

    async def run(self, name: str) -> None:
        """Carry out a shortcut.

        Raises:
            ActionError: There is no page to go back to, no such tab, and the like.
        """
        tabs = self._world.tabs
        if name.startswith("tab_"):
            self._select_tab(int(name.removeprefix("tab_")))
            return
        match name:
            case "back" | "forward":
                await self._travel(-1 if name == "back" else 1)
            case "reload":
                await tabs.active.reload(wait_until="commit", timeout=self._timeout_ms)
            case "home":
                await self._world.goto(self._home_url)
            case "address":
                self._open_address_bar(without_login(tabs.active.url))
            case "new_tab":
                await self._world.new_tab()
                self._open_address_bar("")
            case "close_tab":
                await tabs.active.close(run_before_unload=True)
            case "next_tab" | "previous_tab":
                tabs.step(1 if name == "next_tab" else -1)

    def _open_address_bar(self, url: str) -> None:
        self._world.overlay = AddressBar(self._world.tabs.active, url, self._viewport_px, self._world.goto)

    def _select_tab(self, number: int) -> None:
        tabs = self._world.tabs
        if number == 9:
            tabs.select(-1)
        elif number <= len(tabs.pages):
            tabs.select(number - 1)
        else:
            raise ActionError(f"there is no tab {number}; there are {len(tabs.pages)}")

    async def _travel(self, by: int) -> None:
        page = self._world.tabs.active
        session = await page.context.new_cdp_session(page)
        try:
            history = await session.send("Page.getNavigationHistory")
        finally:
            await session.detach()
        if not 0 <= history["currentIndex"] + by < len(history["entries"]):
            raise ActionError(f"there is no page to go {'back' if by < 0 else 'forward'} to")
        go = page.go_back if by < 0 else page.go_forward
        await go(wait_until="commit", timeout=self._timeout_ms)
