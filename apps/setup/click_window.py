"""A window full of targets that notes each click: `python -m apps.setup.click_window FILE WIDTH HEIGHT`.

Run by the click test as the program of a private display. One JSON line a click goes to FILE: [x, y] in
screen px, as the X server reports them to whoever is clicked.
"""

import json
import sys
from pathlib import Path
from typing import Any

from apps.setup.click_test import TARGET_SIDE_PX, make_targets
from envs.errors import require


def show_targets(file: Path, size_px: tuple[int, int]) -> None:
    """Cover the screen with targets and write clicks until the display goes away."""
    xlib: Any = require("Xlib.display", "desktop")
    from Xlib import X, Xatom
    from Xlib.error import ConnectionClosedError

    display = xlib.Display()
    screen = display.screen()
    window = screen.root.create_window(
        0,
        0,
        *size_px,
        0,
        screen.root_depth,
        background_pixel=screen.white_pixel,
        event_mask=X.ButtonPressMask | X.ExposureMask,
    )
    window.set_wm_name("click test")
    full = display.intern_atom("_NET_WM_STATE_FULLSCREEN")
    window.change_property(display.intern_atom("_NET_WM_STATE"), Xatom.ATOM, 32, [full])
    window.map()
    pen = window.create_gc()
    with file.open("a", encoding="utf-8") as lines:
        try:
            while True:
                event = display.next_event()
                if event.type == X.Expose:
                    _draw(window, pen, size_px)
                    display.flush()
                elif event.type == X.ButtonPress:
                    lines.write(json.dumps([event.root_x, event.root_y]) + "\n")
                    lines.flush()
        except ConnectionClosedError:
            return


def _draw(window: Any, pen: Any, size_px: tuple[int, int]) -> None:
    half = TARGET_SIDE_PX // 2
    for target in make_targets(size_px):
        red, green, blue = target.rgb
        pen.change(foreground=red << 16 | green << 8 | blue)
        x, y = (round(side) for side in target.middle_px)
        window.fill_rectangle(pen, x - half, y - half, TARGET_SIDE_PX, TARGET_SIDE_PX)


if __name__ == "__main__":
    show_targets(Path(sys.argv[1]), (int(sys.argv[2]), int(sys.argv[3])))
