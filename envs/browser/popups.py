"""Pop-ups of the browser over a page: suggestions for a field, tooltips, pickers."""

from typing import TYPE_CHECKING

from envs.actions import Action, Click, Drag, Hotkey, KeyDown, MouseDown, Move, PressKey, Scroll, TypeText, Wait
from envs.browser.inspector import Inspector
from envs.browser.overlays.overlay import CssRect
from envs.browser.overlays.suggestions import Suggestions

if TYPE_CHECKING:
    from playwright.async_api import Page

_MAX_TEXT = 300
_LISTING = frozenset({"backspace", "delete", "space", "up", "down"})


class Popups:
    """Tracker of the actions of an episode and of the pop-ups that they open.

    Attributes:
        suggestions: Open list of the focused field.
        note: Text for the agent about the open picker of the focused field.
    """

    def __init__(self, inspector: Inspector, viewport_px: tuple[int, int]) -> None:
        self.suggestions: Suggestions | None = None
        self.note: str | None = None
        self._inspector = inspector
        self._viewport_px = viewport_px
        self._is_listing = False
        self._is_resting = False

    def follow(self, action: Action) -> None:
        """Record an input: typing and clicks open the list of a field, a move of the pointer a tooltip."""
        match action:
            case TypeText() | Click(button="left"):
                self._is_listing = True
            case PressKey(key=key):
                self._is_listing = key in _LISTING or len(key) == 1
            case Hotkey() | KeyDown() | MouseDown() | Drag():
                self._is_listing = False
        if not isinstance(action, Wait | Scroll):
            self._is_resting = isinstance(action, Move)

    def close(self) -> None:
        """Close the list until the next input that opens it."""
        self.suggestions, self._is_listing = None, False

    async def refresh(self, page: "Page") -> Suggestions | None:
        """Return the current suggestions for the focused field; None if it has none.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        old, self.suggestions, self.note = self.suggestions, None, None
        if not self._is_listing:
            return None
        answer = await self._inspector.ask_inside(page, "popups.js", {"list": True})
        if "picker" in answer:
            self.note = (
                f"the {answer['picker']} picker takes no clicks: use the arrow keys and Enter; "
                "or Esc, then click the first part of the field and type"
            )
        rows = [(str(value)[:_MAX_TEXT], str(label)[:_MAX_TEXT]) for value, label in answer.get("rows", ())]
        if not rows:
            return None
        left, top, width, height = answer["box"]
        field = CssRect(
            left=round(left - answer["x"]), top=round(top - answer["y"]), width=round(width), height=round(height)
        )
        shown = old if old is not None and old.page is page else Suggestions(page, self._viewport_px, self._choose)
        shown.show(rows, field)
        self.suggestions = shown
        return shown

    async def read_tooltip(self, page: "Page", pointer_px: tuple[int, int]) -> str:
        """Return the title of the element under the resting pointer; empty if there is none.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        if not self._is_resting:
            return ""
        return str((await self._inspector.ask_inside(page, "popups.js", {"point": [*pointer_px]})).get("tooltip", ""))

    async def _choose(self, value: str) -> None:
        if self.suggestions is not None and self.suggestions.page is not None:
            await self._inspector.ask_inside(self.suggestions.page, "popups.js", {"choose": value})
