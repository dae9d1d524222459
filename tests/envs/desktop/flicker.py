"""A window whose whole content changes a hundred times a second. Usage: python flicker.py WIDTH HEIGHT."""

import sys
import time

from Xlib import X, display


def main() -> None:
    width, height = int(sys.argv[1]), int(sys.argv[2])
    server = display.Display()
    screen = server.screen()
    window = screen.root.create_window(50, 50, width, height, 0, X.CopyFromParent, override_redirect=True)
    window.map()
    gc = window.create_gc(foreground=0)
    for number in range(100_000):
        gc.change(foreground=number * 0x010305 & 0xFFFFFF)
        window.fill_rectangle(gc, 0, 0, width, height)
        server.sync()
        time.sleep(0.01)


main()
