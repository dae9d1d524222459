"""Where runs live and what their folders are called."""

import os
import re
import secrets
import time
from pathlib import Path

TRAJECTORY = "trajectory.jsonl"
REPORT = "report.html"


def default_runs_dir() -> Path:
    """`$K25_RUNS_DIR`, else `k25/runs` in the user's state folder."""
    chosen = os.environ.get("K25_RUNS_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_state_path("k25", appauthor=False) / "runs"


def make_run_dir(runs_dir: Path, title: str, started_at: float) -> Path:
    """Make a new folder `<UTC time>-<words of the title>-<random>`, which nobody else has.

    Args:
        runs_dir: Made when it is not there.
        title: The instruction; only a few words of it go into the name.
        started_at: Unix time in seconds.

    Returns:
        The folder, readable by its owner only: screenshots show private things.

    Raises:
        OSError: It cannot be made.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_at))
    while True:
        run_dir = runs_dir / f"{stamp}-{slug(title)}-{secrets.token_hex(3)}"
        try:
            run_dir.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return run_dir


def slug(title: str, max_chars: int = 32) -> str:
    """Lower-case letters, digits and dashes of a title, cut at a word: `"Add 2 items!"` is `add-2-items`."""
    words = re.findall(r"[a-z0-9]+", title[:1000].lower())
    text = ""
    for word in words:
        if len(text) + len(word) + 1 > max_chars:
            break
        text = f"{text}-{word}" if text else word
    return text or (words[0][:max_chars] if words else "run")
