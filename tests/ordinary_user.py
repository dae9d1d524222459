"""Run a command as an ordinary user, also where Python or this checkout lies in a folder that only root may enter."""

import os
import shutil
import sys
from pathlib import Path

UID = 65533
ROOT = Path(__file__).parents[1]


def find_obstacle() -> str | None:
    """Why this process cannot become an ordinary user; None when it can, or is one."""
    if os.geteuid() != 0:
        return None
    missing = [name for name in ("setpriv", "unshare") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


def as_ordinary_user(folder: Path) -> list[str]:
    """The beginning of a command line; the command follows.

    In a mount namespace of the command's own, an open folder takes the place of each closed one that Python, the
    virtual environment or the checkout lies in; nothing else of it is in there.

    Args:
        folder: An empty folder to keep things in on the way.
    """
    if os.geteuid() != 0:
        return []
    steps = ["set -e"]
    for number, place in enumerate(_places()):
        closed = [part for part in place.parents if part != Path("/") and not part.stat().st_mode & 0o005]
        if closed:
            keep = folder / f"place-{number}"
            keep.mkdir()
            steps += [
                f"mount --bind {place} {keep}",
                f"[ -e {closed[-1]}/.open ] || mount -t tmpfs -o mode=755 tmpfs {closed[-1]}",
                f"touch {closed[-1]}/.open",
                f"mkdir -p {place}",
                f"mount --bind {keep} {place}",
                f"umount {keep}",
            ]
    steps.append(f'exec setpriv --reuid {UID} --regid {UID} --clear-groups -- "$@"')
    return ["unshare", "--mount", "bash", "-c", "\n".join(steps), "bash"]


def _places() -> list[Path]:
    """Python, the virtual environment, the checkout; one inside another is left out."""
    places = sorted({Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT.resolve()})
    return [place for place in places if not any(other in place.parents for other in places)]
