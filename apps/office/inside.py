"""What is called in the sandbox: paths of its folder go in, JSON values come out, images lie in the folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apps.office.check.check import check_file
from apps.office.diff import compare_files
from envs.errors import require

_MAX_SHOWN = 5


def check(name: str, images: str = "", expect: Sequence[str] = ()) -> dict[str, Any]:
    """`check_file`, as JSON."""
    return check_file(Path(name), Path(images) if images else None, expect).to_json()


def compare(before: str, after: str, images: str = "") -> dict[str, Any]:
    """`compare_files`, as JSON."""
    return compare_files(Path(before), Path(after), Path(images) if images else None).to_json()


def show_check(name: str, expect: Sequence[str] = ()) -> None:
    """Print what a check found, and display images of the pages: all of them small, the first ones larger."""
    import tempfile

    from IPython.display import display

    image = require("PIL.Image", "office")
    with tempfile.TemporaryDirectory(prefix="k25-show-") as scratch:
        report = check_file(Path(name), Path(scratch), expect)
        print(report.to_text())
        for one in report.images[:_MAX_SHOWN]:
            with image.open(Path(scratch) / one) as opened:
                display(opened.copy())  # type: ignore[no-untyped-call]
