"""Pop-ups of the browser over a page: suggestions of a text field with a `<datalist>`, tooltips, pickers.

A headless browser does not paint them.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from envs.actions import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    TypeText,
    Wait,
)
from envs.browser.inspector import Inspector
from envs.browser.overlays.overlay import EDGE, GREY, PAPER, CssCanvas, CssRect, text_width_px
from envs.target import Target

if TYPE_CHECKING:
    from playwright.async_api import Page

_ROW_PX = 28
_MAX_SHOWN = 10
_PAD_PX = 10
_HIGHLIGHT = (232, 240, 254)

Row = tuple[str, str]
"""Value and label; an empty label means the value."""
_MAX_TEXT = 300  # of one row; more does not fit into it
_LISTING = frozenset({"backspace", "delete", "space", "up", "down"})


class Suggestions:
    """List below or above a field; its rows depend on the text of the field.

    Attributes:
        page: Page of the field.
        is_done: True if it was closed.
    """

    def __init__(self, page: "Page", viewport_px: tuple[int, int], choose: Callable[[str], Awaitable[None]]) -> None:
        self.page: Page | None = page
        self.is_done = False
        self._viewport_px = viewport_px
        self._choose = choose
        self._rows: Sequence[Row] = ()
        self._boxes: list[CssRect] = []
        self._chosen: int | None = None
        self._first = 0

    def show(self, rows: Sequence[Row], field: CssRect) -> None:
        """Show the rows that match the current text of the field."""
        if rows != self._rows:
            self._chosen, self._first = None, 0
        self._rows = rows
        self._lay_out(field)

    async def act(self, action: Action, point_px: tuple[int, int]) -> bool:
        """Handle clicks, the wheel, Up, Down, Esc, and Enter on a row; Tab on a row takes it and is passed on."""
        box = self._box()
        if isinstance(action, Hotkey) and len(action.keys) == 1:
            action = PressKey(key=action.keys[0])
        match action:
            case PressKey(key="up" | "down" as key, presses=presses):
                self._step(presses if key == "down" else -presses)
            case PressKey(key="esc"):
                self.is_done = True
            case PressKey(key="enter" | "tab" as key) if self._chosen is not None:
                await self._take(self._rows[self._chosen])
                return key == "enter"
            case Click() | MouseUp() | MouseDown() if box.holds(*point_px):
                await self._click(action, point_px)
            case Scroll(dy=dy) if box.holds(*point_px):
                self._first = min(max(self._first - dy, 0), len(self._rows) - len(self._boxes))
            case Move() | Wait():
                return box.holds(*point_px) and isinstance(action, Move)
            case _:
                self.is_done = not isinstance(action, PressKey)
                return False
        return True

    def draw(self, canvas: CssCanvas) -> None:
        """Draw the list."""
        canvas.shadow(self._box())
        canvas.box(self._box(), PAPER, outline=EDGE)
        for number, box in enumerate(self._boxes, start=self._first):
            value, label = self._rows[number]
            if number == self._chosen:
                canvas.box(box, _HIGHLIGHT)
            room_px = box.width - 2 * _PAD_PX
            canvas.text(box.left + _PAD_PX, box.top + 5, shorten(canvas.redact(value), room_px))
            left_px = room_px - text_width_px(value) - 2 * _PAD_PX
            if label and left_px > 3 * _PAD_PX:
                text = shorten(canvas.redact(label), left_px)
                canvas.text(box.left + box.width - _PAD_PX - text_width_px(text), box.top + 5, text, GREY)
        hidden = len(self._rows) - len(self._boxes)
        if hidden:
            bar = self._box()
            length = max(8, bar.height * len(self._boxes) // len(self._rows))
            top = bar.top + (bar.height - length) * self._first // hidden
            canvas.box(CssRect(left=bar.left + bar.width - 6, top=top, width=4, height=length), EDGE)

    def target_at(self, x_px: int, y_px: int) -> Target | None:
        """Return the row at a point; None outside of the list."""
        number = self._row_at((x_px, y_px))
        return self._target(number) if number is not None else None

    def targets_of_key(self, key: str) -> tuple[Target, ...] | None:
        """Return the highlighted row for Enter and Tab, which take it."""
        if key in ("enter", "tab") and self._chosen is not None:
            return (self._target(self._chosen),)
        return () if key in ("up", "down", "esc") else None

    def notes(self) -> tuple[str, ...]:
        """Return no notes: the list is in the screenshot."""
        return ()

    def _target(self, number: int) -> Target:
        return Target(role="suggestion", names=tuple(filter(None, self._rows[number])), is_field=True)

    def _step(self, by: int) -> None:
        """Highlight another row, wrapping around; the first step down highlights the first row."""
        start = self._chosen if self._chosen is not None else (-1 if by > 0 else 0)
        self._chosen = (start + by) % len(self._rows)
        last = self._first + len(self._boxes) - 1
        self._first += min(self._chosen - self._first, 0) + max(self._chosen - last, 0)

    async def _click(self, action: Action, point_px: tuple[int, int]) -> None:
        number = self._row_at(point_px)
        if number is not None and isinstance(action, Click | MouseUp) and action.button == "left":
            await self._take(self._rows[number])

    async def _take(self, row: Row) -> None:
        self.is_done = True
        await self._choose(row[0])

    def _row_at(self, point_px: tuple[int, int]) -> int | None:
        rows = [number for number, box in enumerate(self._boxes) if box.holds(*point_px)]
        return self._first + rows[0] if rows else None

    def _box(self) -> CssRect:
        first = self._boxes[0]
        return CssRect(left=first.left, top=first.top, width=first.width, height=len(self._boxes) * _ROW_PX)

    def _lay_out(self, field: CssRect) -> None:
        """Place the list below the field, or above it if there is more space."""
        view_width, view_height = self._viewport_px
        below, above = view_height - field.top - field.height, field.top
        is_below = below >= min(len(self._rows), 3) * _ROW_PX or below >= above
        number = max(1, min(len(self._rows), _MAX_SHOWN, (below if is_below else above) // _ROW_PX))
        widest = max(text_width_px(f"{value}    {label}"[:80]) for value, label in self._rows[:_MAX_SHOWN])
        width = min(max(field.width, widest + 3 * _PAD_PX, 80), view_width)
        left = min(max(field.left, 0), view_width - width)
        top = field.top + field.height if is_below else field.top - number * _ROW_PX
        self._boxes = [
            CssRect(left=left, top=top + row * _ROW_PX, width=width, height=_ROW_PX) for row in range(number)
        ]
        self._first = min(self._first, len(self._rows) - number)


def shorten(text: str, width_px: int) -> str:
    """Cut a text to `width_px`, with an ellipsis at the cut."""
    if text_width_px(text) <= width_px:
        return text
    while text and text_width_px(f"{text}…") > width_px:
        text = text[: max(0, min(len(text) - 1, len(text) * width_px // max(1, text_width_px(text))))]
    return f"{text}…"


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

    def on_input(self, action: Action) -> None:
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
