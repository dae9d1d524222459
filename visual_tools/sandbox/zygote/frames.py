"""An error as its reader needs it: the lines of the cells, no frames of libraries or of IPython, no colours."""

import traceback
from types import TracebackType

CELL_PREFIX = "<cell "
_HALF_CHARS = 4000


def _own(error: traceback.TracebackException, folder: str) -> None:
    """Leave only frames of cells and of files in the working folder, here and in all causes."""
    seen: set[int] = set()
    queue: list[traceback.TracebackException | None] = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        own = [f for f in one.stack if f.filename.startswith((CELL_PREFIX, folder + "/"))]
        one.stack = traceback.StackSummary.from_list(own)
        queue += [one.__cause__, one.__context__, *(one.exceptions or ())]


def format_error(kind: type[BaseException], error: BaseException, tb: TracebackType | None, folder: str) -> list[str]:
    """The lines to show.

    Args:
        kind: Class of the error.
        error: The error.
        tb: Where it came from.
        folder: The working folder; files below it are the cell's own too.
    """
    told = traceback.TracebackException(kind, error, tb, lookup_lines=False, compact=True)
    _own(told, folder)
    return clip("".join(told.format()).rstrip()).splitlines()


def clip(text: str) -> str:
    """Text of an error, head and tail when it is very long."""
    left_out = len(text) - 2 * _HALF_CHARS
    return (
        text if left_out <= 0 else f"{text[:_HALF_CHARS]}[... {left_out} characters left out ...]{text[-_HALF_CHARS:]}"
    )
