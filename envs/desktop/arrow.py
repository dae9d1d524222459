"""A drawn pointer, for systems that do not tell what theirs looks like."""

from envs.desktop.backend import Cursor

_ROWS = """
X
XX
X.X
X..X
X...X
X....X
X.....X
X......X
X.......X
X........X
X.....XXXXX
X..X..X
X.X X..X
XX  X..X
X    X..X
     X..X
      XX
""".strip("\n").splitlines()
_WIDTH = max(map(len, _ROWS))
_PIXELS = {"X": b"\0\0\0\xff", ".": b"\xff\xff\xff\xff", " ": b"\0\0\0\0"}
_BGRA = b"".join(_PIXELS[pixel] for row in _ROWS for pixel in row.ljust(_WIDTH))


def arrow_at(x_px: int, y_px: int) -> Cursor:
    """A white arrow with a black edge whose tip is at a point of the screen frame."""
    return Cursor(bgra=_BGRA, size_px=(_WIDTH, len(_ROWS)), left_px=x_px, top_px=y_px)
