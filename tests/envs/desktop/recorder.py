"""An X program that covers the screen and writes every input event it gets to a file, one JSON list a line.

Usage: python recorder.py FILE WIDTH HEIGHT
"""

import json
import sys
from pathlib import Path

from Xlib import XK, X, display

XK.load_keysym_group("xf86")
NAMES = {value: name.removeprefix("XK_") for name, value in reversed(vars(XK).items()) if name.startswith("XK_")}


def main() -> None:
    path, width, height = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    server = display.Display()
    screen = server.screen()
    mask = X.KeyPressMask | X.KeyReleaseMask | X.ButtonPressMask | X.ButtonReleaseMask | X.PointerMotionMask
    window = screen.root.create_window(
        0, 0, width, height, 0, X.CopyFromParent, background_pixel=0x336699, event_mask=mask, override_redirect=True
    )
    window.set_wm_name("Recorder")
    window.set_wm_class("recorder", "Recorder")
    window.map()
    window.set_input_focus(X.RevertToParent, X.CurrentTime)
    server.sync()
    with Path(path).open("w") as file:
        print(json.dumps(["other", "ready"]), file=file, flush=True)
        while True:
            print(json.dumps(describe(server, server.next_event())), file=file, flush=True)


def describe(server: display.Display, event) -> list:
    if event.type in (X.ButtonPress, X.ButtonRelease):
        return ["down" if event.type == X.ButtonPress else "up", event.detail, event.root_x, event.root_y]
    if event.type == X.MotionNotify:
        return ["motion", event.state >> 8 & 31, event.root_x, event.root_y]
    if event.type in (X.KeyPress, X.KeyRelease):
        keysym = server.keycode_to_keysym(event.detail, event.state & X.ShiftMask)
        keysym = keysym or server.keycode_to_keysym(event.detail, 0)
        name = NAMES.get(keysym, hex(keysym))
        return ["press" if event.type == X.KeyPress else "release", name, event.state & 0xFF]
    if event.type == X.MappingNotify:
        server.refresh_keyboard_mapping(event)
    return ["other", event.type]


main()
