"""JavaScript dialog drawn as a box over the page, answered by mouse and keyboard."""

import contextlib
from typing import TYPE_CHECKING, Literal

from envs.actions import Action, Click, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, TypeText
from envs.browser.overlays.overlay import EDGE, LINE_PX, PAPER, CssCanvas, CssRect, TextField, text_width_px, wrap
from envs.errors import ActionError
from envs.observation import Dialog
from envs.target import Target

if TYPE_CHECKING:
    from playwright.async_api import Dialog as PageDialog
    from playwright.async_api import Page

_MARGIN_PX = 24
_BUTTON_PX = (88, 36)


class DialogBox:
    """Alert, confirm, prompt or beforeunload dialog that waits for an answer.

    Attributes:
        dialog: Content of the dialog.
        page: Page that it blocks.
        is_done: True if it was answered and closed.
    """

    def __init__(self, page_dialog: "PageDialog", viewport_px: tuple[int, int], asker: str) -> None:
        kinds: dict[str, Literal["alert", "confirm", "prompt", "beforeunload"]] = {
            "confirm": "confirm",
            "prompt": "prompt",
            "beforeunload": "beforeunload",
        }
        self.dialog = Dialog(
            kind=kinds.get(page_dialog.type, "alert"),
            message=page_dialog.message,
            default_text=page_dialog.default_value,
        )
        self.page: Page | None = page_dialog.page
        self.is_done = False
        self._page_dialog = page_dialog
        self._field = TextField(page_dialog.default_value) if self.dialog.kind == "prompt" else None
        is_leaving = self.dialog.kind == "beforeunload"
        self._title = "Leave site?" if is_leaving else f"{asker} says"
        message = self.dialog.message or ("Changes you made may not be saved." if is_leaving else "")
        self._yes = "Leave" if is_leaving else "OK"
        self._focus_on_yes = True
        self._lay_out(viewport_px, message)

    async def act(self, action: Action, point_px: tuple[int, int]) -> bool:
        """Handle clicks on its buttons, Enter, Esc, Tab, Space and typing; reject other actions."""
        match action:
            case Click(button="left") | MouseUp(button="left"):
                await self._click(point_px, is_real=isinstance(action, Click))
            case TypeText(text=text):
                await self._type(text)
            case PressKey(key=key, presses=presses):
                for _ in range(presses):
                    await self._press(key)
            case Hotkey(keys=keys):
                await self._hotkey(keys)
            case Move() | MouseDown() | KeyDown() | KeyUp():
                pass
            case _:
                raise ActionError(self._how_to_answer())
        return True

    def draw(self, canvas: CssCanvas) -> None:
        """Draw the box in the middle of the screen."""
        canvas.shadow(self._box)
        canvas.box(self._box, PAPER, outline=EDGE, radius_px=8)
        left, top = self._box.left + _MARGIN_PX, self._box.top + 20
        canvas.text(left, top, self._title, size_px=16)
        for number, line in enumerate(self._lines):
            canvas.text(left, top + 34 + number * LINE_PX, line)
        if self._field is not None:
            canvas.field(self._field_box, self._field.shown(), is_selected=self._field.is_selected)
        for label, box in self._buttons.items():
            canvas.button(box, label, is_default=(label == self._yes) == self._focus_on_yes)

    def target_at(self, x_px: int, y_px: int) -> Target:
        """Return one of its buttons, or the dialog itself: the page receives no input."""
        label = self._button_at(x_px, y_px)
        if label:
            return self._button(label)
        return Target(role=f"{self.dialog.kind} dialog", names=(self.dialog.message,), is_field=True)

    def targets_of_key(self, key: str) -> tuple[Target, ...]:
        """Return the button that Enter, Space or Esc presses."""
        if key == "enter" or (key == "space" and self._field is None):
            is_yes = self._focus_on_yes or self.dialog.kind == "alert"
            return (self._button(self._yes if is_yes else "Cancel"),)
        return (self._button("Cancel"),) if key == "esc" and self.dialog.kind != "alert" else ()

    def notes(self) -> tuple[str, ...]:
        """Return no notes: the dialog is already part of the observation."""
        return ()

    async def answer(self, *, is_yes: bool) -> None:
        """Accept or dismiss the dialog."""
        from playwright.async_api import Error

        self.is_done = True
        with contextlib.suppress(Error):  # the page and its dialog are gone
            if is_yes:
                await self._page_dialog.accept(self._field.text if self._field is not None else "")
            else:
                await self._page_dialog.dismiss()

    def _button(self, label: str) -> Target:
        says = [self.dialog.message] if self.dialog.message else []
        page_url = self.page.url if self.page is not None else None
        return Target(role="dialog button", names=(label,), context=(*says, self._title), page_url=page_url)

    def _lay_out(self, viewport_px: tuple[int, int], message: str) -> None:
        view_width, view_height = viewport_px
        width = min(460, max(220, view_width - 16))
        field_height = 48 if self._field is not None else 0
        max_lines = max(1, (view_height - 150 - field_height) // LINE_PX)
        self._lines = wrap(message, width - 2 * _MARGIN_PX, max_lines)
        height = 34 + 20 + len(self._lines) * LINE_PX + field_height + 24 + _BUTTON_PX[1] + 16
        left, top = (view_width - width) // 2, max(0, (view_height - height) // 2)
        self._box = CssRect(left=left, top=top, width=width, height=height)
        below = top + 54 + len(self._lines) * LINE_PX + 8
        self._field_box = CssRect(left=left + _MARGIN_PX, top=below, width=width - 2 * _MARGIN_PX, height=36)
        labels = [self._yes] if self.dialog.kind == "alert" else [self._yes, "Cancel"]
        self._buttons: dict[str, CssRect] = {}
        right = left + width - _MARGIN_PX
        for label in reversed(labels):
            button_width = max(_BUTTON_PX[0], text_width_px(label) + 40)
            self._buttons[label] = CssRect(
                left=right - button_width,
                top=top + height - _BUTTON_PX[1] - 16,
                width=button_width,
                height=_BUTTON_PX[1],
            )
            right -= button_width + 8
        self._buttons = dict(reversed(self._buttons.items()))

    def _button_at(self, x_px: int, y_px: int) -> str | None:
        return next((label for label, box in self._buttons.items() if box.holds(x_px, y_px)), None)

    async def _click(self, point_px: tuple[int, int], *, is_real: bool) -> None:
        label = self._button_at(*point_px)
        if label:
            await self.answer(is_yes=label == self._yes)
        elif is_real and not (self._field is not None and self._field_box.holds(*point_px)):
            raise ActionError(self._how_to_answer())

    async def _type(self, text: str) -> None:
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
            if number and not self.is_done:
                await self._press("enter")
            if line and self._field is None:
                raise ActionError(self._how_to_answer())
            if line and self._field is not None and not self.is_done:
                self._field.type(line)

    async def _press(self, key: str) -> None:
        if self.is_done:
            return
        if key == "enter" or (key == "space" and self._field is None):
            await self.answer(is_yes=self._focus_on_yes or self.dialog.kind == "alert")
        elif key == "esc":
            await self.answer(is_yes=False)
        elif key == "tab":
            self._focus_on_yes = not self._focus_on_yes
        elif self._field is None or not self._field.press(key):
            raise ActionError(self._how_to_answer())

    async def _hotkey(self, keys: tuple[str, ...]) -> None:
        if len(keys) == 1:
            await self._press(keys[0])
        elif keys[-1].lower() == "a" and "ctrl" in keys[0] and self._field is not None:
            self._field.select_all()
        elif keys[-1] == "tab":
            self._focus_on_yes = not self._focus_on_yes
        elif keys[-1] in ("enter", "esc"):
            await self._press(keys[-1])
        else:
            raise ActionError(self._how_to_answer())

    def _how_to_answer(self) -> str:
        typing = " (type to fill in its field)" if self._field is not None else ""
        message = self.dialog.message if len(self.dialog.message) < 200 else f"{self.dialog.message[:199]}…"
        return (
            f"the page is blocked by a dialog, {self.dialog.kind}: {message!r}; "
            f"answer it first: click {' or '.join(self._buttons)}, or press Enter or Esc{typing}"
        )
