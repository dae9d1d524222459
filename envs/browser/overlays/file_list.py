"""File chooser: a list of the files, or of the folders, that may be uploaded."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from envs.actions import Action, Click, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, Scroll, TypeText
from envs.browser.overlays.overlay import EDGE, GREY, PAPER, CssCanvas, CssRect, TextField
from envs.errors import ActionError, did_you_mean
from envs.target import Target

if TYPE_CHECKING:
    from playwright.async_api import FileChooser, Page

_ROW_PX = 28
_MAX_NAMED = 50  # files that the note names; bounds its tokens


class FileList:
    """Open file chooser; files come from one folder only.

    Attributes:
        is_done: True if a file was chosen or the chooser was cancelled.
    """

    def __init__(self, chooser: "FileChooser", folder: Path | None, viewport_px: tuple[int, int]) -> None:
        self.is_done = False
        self.page: Page | None = chooser.page
        self._chooser = chooser
        self._folder = folder
        self._is_for_folder = False
        self._names = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder is not None else []
        self._field = TextField()
        self._first = 0
        self._viewport_px = viewport_px
        self._lay_out(viewport_px)

    async def detect_folder_input(self) -> None:
        """List folders instead of files if the page asks for a folder.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        self._is_for_folder = await self._chooser.element.get_attribute("webkitdirectory") is not None
        if self._is_for_folder and self._folder is not None:
            folders = sorted(f"{path.name}/" for path in self._folder.iterdir() if path.is_dir())
            self._names = [f"{self._folder.resolve().name}/", *folders]
            self._lay_out(self._viewport_px)

    async def act(self, action: Action, point_px: tuple[int, int]) -> bool:
        """Handle a click on a row or on Cancel, a typed name and Enter, Esc, and the wheel; reject other actions."""
        match action:
            case Click(button="left") | MouseUp(button="left"):
                await self._click(point_px, is_real=isinstance(action, Click))
            case TypeText(text=text):
                await self._type(text)
            case PressKey(key=key, presses=presses):
                for _ in range(presses):
                    await self._press(key)
            case Hotkey(keys=(key,)):
                await self._press(key)
            case Hotkey(keys=("ctrl" | "ctrlleft" | "ctrlright", "a" | "A")):
                self._field.select_all()
            case Scroll(dy=dy):
                last = max(0, len(self._names) - len(self._rows))
                self._first = min(max(self._first - dy, 0), last)
            case Move() | MouseDown() | KeyDown() | KeyUp():
                pass
            case _:
                raise ActionError(self._how_to_choose())
        return True

    def draw(self, canvas: CssCanvas) -> None:
        """Draw the list in the middle of the screen."""
        canvas.shadow(self._box)
        canvas.box(self._box, PAPER, outline=EDGE, radius_px=8)
        left = self._box.left + 20
        title = f"Open {self._kind}" if self._names else f"Open {self._kind}: there are no {self._kind}s"
        canvas.text(left, self._box.top + 16, title, size_px=16)
        canvas.field(self._field_box, self._field.shown(), is_selected=self._field.is_selected)
        for name, box in self._shown():
            canvas.box(box, (248, 249, 250), outline=(232, 234, 237))
            canvas.text(box.left + 10, box.top + 5, name)
        hidden = len(self._names) - len(self._rows)
        if hidden > 0:
            canvas.text(left, self._cancel.top + 8, f"{hidden} more: scroll", GREY)
        canvas.button(self._cancel, "Cancel", is_default=False)

    def target_at(self, x_px: int, y_px: int) -> Target:
        """Return a row, Cancel, or the chooser itself: the page receives no input."""
        name = self._name_at(x_px, y_px)
        if name is not None:
            return Target(role=f"{self._kind} to upload", names=(name,), is_field=True)
        if self._cancel.holds(x_px, y_px):
            return Target(role="file chooser button", names=("Cancel",))
        return Target(role="file chooser", is_field=True)

    def targets_of_key(self, key: str) -> tuple[Target, ...]:
        """Return the typed file for Enter, which uploads it."""
        target = Target(role=f"{self._kind} to upload", names=(self._field.text,), is_field=True)
        return (target,) if key == "enter" else ()

    def notes(self) -> tuple[str, ...]:
        """Return a note that the chooser is open, with its files and how to choose."""
        names = ", ".join(self._names[:_MAX_NAMED]) or "none"
        return (f"a {self._kind} chooser is open; {self._kind}s: {names}. {self._how_to_choose()}",)

    @property
    def _kind(self) -> str:
        return "folder" if self._is_for_folder else "file"

    def _lay_out(self, viewport_px: tuple[int, int]) -> None:
        view_width, view_height = viewport_px
        width = min(520, max(220, view_width - 16))
        num_rows = min(len(self._names), max(1, (view_height - 170) // _ROW_PX), 14)
        height = 46 + 44 + num_rows * _ROW_PX + 64
        left, top = (view_width - width) // 2, max(0, (view_height - height) // 2)
        self._box = CssRect(left=left, top=top, width=width, height=height)
        self._field_box = CssRect(left=left + 20, top=top + 46, width=width - 40, height=34)
        self._rows = [
            CssRect(left=left + 20, top=top + 90 + number * _ROW_PX, width=width - 40, height=_ROW_PX)
            for number in range(num_rows)
        ]
        self._cancel = CssRect(left=left + width - 20 - 96, top=top + height - 50, width=96, height=34)

    def _shown(self) -> list[tuple[str, CssRect]]:
        return list(zip(self._names[self._first :], self._rows, strict=False))

    def _name_at(self, x_px: int, y_px: int) -> str | None:
        return next((name for name, box in self._shown() if box.holds(x_px, y_px)), None)

    async def _click(self, point_px: tuple[int, int], *, is_real: bool) -> None:
        name = self._name_at(*point_px)
        if name is not None:
            await self._choose([name])
        elif self._cancel.holds(*point_px):
            await self._cancel_input()
        elif is_real and not self._field_box.holds(*point_px):
            raise ActionError(self._how_to_choose())

    async def _type(self, text: str) -> None:
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
            if number and not self.is_done:
                await self._press("enter")
            if not self.is_done:
                self._field.type(line)

    async def _press(self, key: str) -> None:
        if self.is_done:
            return
        if key == "enter":
            names = self._field.text.split(";") if self._chooser.is_multiple() else [self._field.text]
            try:
                await self._choose([name.strip().strip('"') for name in names if name.strip()])
            except ActionError:
                self._field.select_all()
                raise
        elif key == "esc":
            await self._cancel_input()
        elif not self._field.press(key):
            raise ActionError(self._how_to_choose())

    async def _cancel_input(self) -> None:
        from playwright.async_api import Error

        self.is_done = True
        with contextlib.suppress(Error):  # the page and its chooser are gone
            await self._chooser.element.dispatch_event("cancel", {"bubbles": True})

    async def _choose(self, names: list[str]) -> None:
        from playwright.async_api import Error

        paths = [self._path(name) for name in names]
        if not paths:
            raise ActionError(self._how_to_choose())
        self.is_done = True
        with contextlib.suppress(Error):  # the page and its chooser are gone
            await self._chooser.set_files(paths)

    def _path(self, name: str) -> Path:
        """Return the path of a file or folder by name; only direct children of the folder for uploads are accepted."""
        if self._is_for_folder:
            name = f"{name.rstrip('/')}/"
        if name in self._names and self._folder is not None:
            top = self._folder.resolve()
            path = top if self._is_for_folder and name == self._names[0] else (top / name).resolve()
            if self._is_for_folder and _leads_out(path, top):
                raise ActionError(
                    f"the folder {name!r} is not uploaded: a link in it leads out of the folder for uploads"
                )
            if path.parent == top or path == top:
                return path
        hint = did_you_mean(name, self._names) or f"; there are: {', '.join(self._names[:10]) or f'no {self._kind}s'}"
        raise ActionError(f"there is no {self._kind} {name!r} to upload{hint}")

    def _how_to_choose(self) -> str:
        several = " (several: a.txt; b.txt)" if self._chooser.is_multiple() else ""
        return f"Click a {self._kind}, or type its name{several} and press Enter; Esc or Cancel closes the chooser"


def _leads_out(path: Path, top: Path) -> bool:
    """Return True if `path`, or a link in it, is outside of `top`."""
    links = (entry for entry in path.rglob("*") if entry.is_symlink())
    return not all(entry.resolve().is_relative_to(top) for entry in (path, *links))
