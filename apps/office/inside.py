"""What is called in the sandbox: paths of its folder go in, JSON values come out, images lie in the folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apps.office.check.check import check_file


def check(name: str, images: str = "", expect: Sequence[str] = ()) -> dict[str, Any]:
    """`check_file`, as JSON."""
    return check_file(Path(name), Path(images) if images else None, expect).to_json()
