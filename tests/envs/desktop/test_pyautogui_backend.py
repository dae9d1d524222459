"""Other systems: every call that reaches pyautogui, recorded by an object in its place."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from envs import ActionError, Click, Drag, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, Scroll, TypeText
from envs.actions import Action
from envs.desktop.backend import InterruptibleClock, ScreenFrame, ScreenRegion
from envs.desktop.pyautogui_backend import PyAutoGuiBackend
from envs.desktop.screenshot import ScreenCamera
from envs.desktop.session import DesktopActionExecutor


class Recorded:
    """Behaves like the module where the backend asks back, and writes all other calls down."""

    PAUSE = 0.1
    FAILSAFE = True

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.at = (5, 5)

    def size(self) -> tuple[int, int]:
        return 100, 80

    def position(self) -> tuple[int, int]:
        return self.at

    def moveTo(self, x: int, y: int) -> None:
        self.at = (x, y)
        self.calls.append(("moveTo", x, y))

    def isValidKey(self, key: str) -> bool:
        return key.isascii() and key not in ("yen", "hangul")

    def getActiveWindowTitle(self) -> str:
        return "Notes"

    def __getattr__(self, name: str) -> Any:
        return lambda *values, **named: self.calls.append((name, *values, *named.values()))


class Clipboard:
    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self.text = "before"
        self._calls = calls

    def copy(self, text: str) -> None:
        self.text = text
        self._calls.append(("copy", text))

    def paste(self) -> str:
        return self.text


class Pixels:
    def grab(self, region: ScreenRegion) -> ScreenFrame:
        return ScreenFrame(bgrx=bytearray(region.width_px * region.height_px * 16), size_px=(200, 160))

    def close(self) -> None:
        pass


def make(system: str = "win32") -> tuple[PyAutoGuiBackend, Recorded]:
    gui = Recorded()
    return PyAutoGuiBackend(gui, Clipboard(gui.calls), Pixels(), system=system), gui  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        (Click(x_px=9, y_px=8), [("moveTo", 9, 8), ("mouseDown", "left"), ("mouseUp", "left")]),
        (Click(button="right", clicks=2), [("mouseDown", "right"), ("mouseUp", "right")] * 2),
        (Move(x_px=99, y_px=79), [("moveTo", 99, 79)]),
        (Scroll(dy=3, x_px=1, y_px=2), [("moveTo", 1, 2), ("scroll", 3)]),
        (Scroll(dx=-2), [("hscroll", -2)]),
        (PressKey(key="Return"), [("keyDown", "enter"), ("keyUp", "enter")]),
        (Hotkey(keys=("ctrl", "c")), [("keyDown", "ctrl"), ("keyDown", "c"), ("keyUp", "c"), ("keyUp", "ctrl")]),
        (KeyDown(key="shift"), [("keyDown", "shift")]),
        (KeyUp(key="shift"), [("keyUp", "shift")]),
        (MouseDown(x_px=1, y_px=1), [("moveTo", 1, 1), ("mouseDown", "left")]),
        (MouseUp(button="middle"), [("mouseUp", "middle")]),
        (TypeText(text="a<\r\n"), [("write", "a"), ("write", "<"), ("write", "\n")]),
        (TypeText(text="né"), [("copy", "né"), ("hotkey", "ctrl", "v"), ("copy", "before")]),
    ],
)
def test_actions(action: Action, calls: list[tuple[Any, ...]]) -> None:
    backend, gui = make()
    DesktopActionExecutor(backend, backend.screen(), InterruptibleClock()).execute(action)
    assert gui.calls == calls


def test_a_drag_holds_the_button_on_the_way() -> None:
    backend, gui = make()
    DesktopActionExecutor(backend, backend.screen(), InterruptibleClock()).execute(Drag(x_px=29, y_px=17))
    assert gui.calls[0] == ("mouseDown", "left")
    assert gui.calls[-2:] == [("moveTo", 29, 17), ("mouseUp", "left")]
    assert [call[0] for call in gui.calls[1:-1]] == ["moveTo"] * 12


def test_macos_pastes_with_command() -> None:
    backend, gui = make("darwin")
    backend.type_text("é", 0.0, InterruptibleClock())
    assert ("hotkey", "command", "v") in gui.calls


def test_a_key_that_the_system_lacks_is_refused() -> None:
    backend, gui = make()
    with pytest.raises(ActionError, match="the key 'yen' does not exist on this system"):
        DesktopActionExecutor(backend, backend.screen(), InterruptibleClock()).execute(PressKey(key="yen"))
    assert gui.calls == []


def test_screen_and_settings() -> None:
    backend, gui = make()
    assert (gui.PAUSE, gui.FAILSAFE) == (0, False)
    assert backend.monitors() == (ScreenRegion(left_px=0, top_px=0, width_px=100, height_px=80),)
    assert backend.grab(backend.screen()).size_px == (200, 160)
    assert (backend.pointer_px(), backend.active_title(), backend.wait_processed(1.0)) == ((5, 5), "Notes", None)
    backend.close()


def test_a_prepared_frame_shows_the_pointer_where_it_is_in_the_end() -> None:
    backend, gui = make()  # gives no image of the pointer, so an arrow is drawn at its position
    camera = ScreenCamera(backend, ScreenRegion(left_px=0, top_px=0, width_px=40, height_px=30), draw_cursor=True)
    frame = ScreenFrame(bgrx=bytearray(40 * 30 * 4), size_px=(40, 30))
    gui.at = (3, 4)
    first = camera.encode(frame)
    camera.prepare(frame)
    gui.at = (20, 10)
    second = camera.encode(frame)
    shown = [np.asarray(Image.open(io.BytesIO(data))).any(axis=2) for data in (first, second)]
    assert shown[0].any()
    assert np.array_equal(shown[1], np.roll(shown[0], (6, 17), axis=(0, 1)))
