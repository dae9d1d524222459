"""What the operating system says about a disk, in words that tell how to go on."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cua.errors import TrajectoryError

_ADVICE = {
    errno.ENOSPC: "Free some space there, or set K25_RUNS_DIR to a folder on another disk",
    errno.EDQUOT: "Free some of your quota, or set K25_RUNS_DIR to a folder on another disk",
    errno.EFBIG: "Raise the limit on file sizes (ulimit -f), or set K25_RUNS_DIR to another folder",
    errno.EROFS: "Set K25_RUNS_DIR to a folder that can be written",
    errno.EACCES: "Set K25_RUNS_DIR to a folder that you may use",
    errno.ENOENT: "The folder is gone: leave it in place until the run ends, and start the run again",
    errno.ENOTDIR: "Something that is not a folder stands in its place: set K25_RUNS_DIR to another folder",
}


@contextmanager
def translate_os_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` inside the block into a `TrajectoryError`.

    Args:
        doing: `write` or `read`.
        path: The folder or file in question.

    Raises:
        TrajectoryError: `OSError` came; the text names the path, the cause and the way out.
    """
    try:
        yield
    except OSError as error:
        cause = os.strerror(error.errno) if error.errno else str(error)
        advice = _ADVICE.get(error.errno or 0, "Check that disk, or set K25_RUNS_DIR to another folder")
        raise TrajectoryError(f"cannot {doing} the record of the run in {path}: {cause}. {advice}") from error
