"""Writes pyautogui_events.json: what the real pyautogui does for each of our cases, and for our rendering of it.

pyautogui must not be installed beside this project on Linux (its python3-Xlib overwrites python-xlib). So run this
from the repository's root with another virtual environment, on any X display:

    python3 -m venv /tmp/pyautogui
    /tmp/pyautogui/bin/pip install pyautogui==0.9.54 pydantic platformdirs jsonschema pillow
    PYTHONPATH=. xvfb-run -a /tmp/pyautogui/bin/python tests/cua/gui_agent/interpreter/record_pyautogui.py
"""

import json
import sys
import types
from pathlib import Path

sys.modules["mouseinfo"] = types.ModuleType("mouseinfo")  # wants tkinter, and is not needed

import pyautogui  # noqa: E402

from cua.gui_agent.interpreter import run, to_pyautogui  # noqa: E402
from envs import ScreenGeometry  # noqa: E402
from tests.cua.gui_agent.interpreter.device_events import tidy  # noqa: E402
from tests.cua.gui_agent.interpreter.parity_cases import CODES  # noqa: E402

START_PX = (100, 120)
SCREEN_PX = (1920, 1080)


def record(code):
    """Low-level events of real pyautogui code; the platform's functions are replaced by a list."""
    events, pointer = [], list(START_PX)
    platform = pyautogui.platformModule

    def move(x, y):
        pointer[:] = [x, y]
        events.append(["move", x, y])

    def mouse(verb):
        def press_or_release(x, y, button):
            move(x, y)
            events.append([verb, button])

        return press_or_release

    platform._position = lambda: tuple(pointer)
    platform._size = lambda: SCREEN_PX
    platform._moveTo = move
    platform._mouseDown, platform._mouseUp = mouse("down"), mouse("up")
    platform._mouse_is_swapped = lambda: False
    platform._keyDown = lambda key: events.append(["key_down", key])
    platform._keyUp = lambda key: events.append(["key_up", key])
    clock = types.SimpleNamespace(sleep=lambda seconds: events.append(["sleep", seconds]))
    pyautogui.time = clock
    pyautogui.PAUSE, pyautogui.FAILSAFE = 0, False
    exec(code, {"pyautogui": pyautogui, "time": clock})  # our own cases, not a model's
    return tidy(events, START_PX)


def main():
    geometry = ScreenGeometry(native_px=SCREEN_PX, sent_px=SCREEN_PX)
    rows = []
    for code in CODES:
        rendered = to_pyautogui(run(code, geometry, mode="absolute", pointer_px=START_PX))
        rows.append({"code": code, "events": record(code), "rendered": rendered, "rendered_events": record(rendered)})
    target = Path(__file__).with_name("pyautogui_events.json")
    target.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} cases, pyautogui {pyautogui.__version__}, written to {target}")


if __name__ == "__main__":
    main()
