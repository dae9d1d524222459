"""Address bar that is drawn while an address is typed, since a headless browser has none."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from envs.actions import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    TypeSecret,
    TypeText,
)
from envs.browser.overlays.overlay import EDGE, GREY, PAPER, CssCanvas, CssRect, TextField
from envs.errors import ActionError
from envs.target import Target

if TYPE_CHECKING:
    from playwright.async_api import Page

_HEIGHT_PX = 44


class AddressBar:
    """Strip over the top of the page with an address that is being typed.

    Attributes:
        is_done: True if the bar was left, or the address was entered.
    """

    def __init__(
        self, page: "Page", url: str, viewport_px: tuple[int, int], go: Callable[[str], Awaitable[None]]
    ) -> None:
        self.page: Page | None = page
        self.is_done = False
        self._field = TextField("" if url == "about:blank" else url)
        self._go = go
        self._box = CssRect(left=0, top=0, width=viewport_px[0], height=_HEIGHT_PX)

    async def act(self, action: Action, point_px: tuple[int, int]) -> bool:
        """Handle typing and editing keys; Enter opens the address, Esc and a click on the page leave the bar."""
        match action:
            case TypeSecret(filled=text) | TypeText(text=text):
                await self._type(text)
            case PressKey(key=key, presses=presses):
                for _ in range(presses):
                    if not await self._press(key):
                        return False
            case Hotkey(keys=keys):
                return await self._hotkey(keys)
            case Click() | MouseDown() | MouseUp() | Drag() | Scroll():
                if self._box.holds(*point_px):
                    return True
                self.is_done = True
                return False
            case KeyDown() | KeyUp() | Move():
                return False
        return True

    def draw(self, canvas: CssCanvas) -> None:
        """Draw the strip."""
        canvas.box(self._box, (241, 243, 244), outline=EDGE)
        canvas.text(12, 13, "Address", GREY)
        field = CssRect(left=80, top=5, width=max(40, self._box.width - 92), height=_HEIGHT_PX - 10)
        canvas.box(field, PAPER, outline=EDGE, radius_px=4)
        canvas.field(field, self._field.shown(), is_selected=self._field.is_selected)

    def target_at(self, x_px: int, y_px: int) -> Target | None:
        """Return the bar where it covers the page."""
        return self._target() if self._box.holds(x_px, y_px) else None

    def targets_of_key(self, key: str) -> tuple[Target, ...]:
        """Return the bar for Enter, which opens the address."""
        return (self._target(),) if key == "enter" else ()

    def notes(self) -> tuple[str, ...]:
        """Return a note on the content of the bar and how to use it."""
        return (
            f"the address bar has the focus and holds {self._field.text!r}; "
            "type an address, Enter opens it, Esc leaves the bar",
        )

    def _target(self) -> Target:
        return Target(role="address bar", url=self._field.text, is_field=True)

    async def _type(self, text: str) -> None:
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
            if number:
                await self._press("enter")
            if line and self.is_done:
                raise ActionError("the address was entered; the text after the line break was not typed")
            self._field.type(line)

    async def _press(self, key: str) -> bool:
        """Handle a key; a key that does not edit leaves the bar."""
        if self.is_done or key == "tab" or self._field.press(key):
            return True
        self.is_done = True
        if key == "enter":
            await self._go(self._field.text)
        return key in ("enter", "esc")

    async def _hotkey(self, keys: tuple[str, ...]) -> bool:
        *modifiers, last = keys
        has_ctrl = any(key.startswith("ctrl") for key in modifiers)
        if has_ctrl and last.lower() == "a":
            self._field.select_all()
            return True
        if has_ctrl and last.lower() in ("c", "v", "x"):
            raise ActionError("copy and paste do not work in the address bar; type the address")
        if all(key.startswith("shift") for key in modifiers):
            return await self._press(last)
        self.is_done = True
        return False
