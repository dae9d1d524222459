"""What the extra `browser` installs is enough for a task with the literal model."""

import json
import os
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = """data:text/html,<h1>Hello</h1><button onclick="this.textContent='Done'">Go</button>"""
RUN = """
import json, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
ABSENT = set(json.loads(sys.argv.pop(1)))
sys.meta_path.insert(0, Absent())
from apps.cli.main import main
sys.exit(main())
"""


def find_absent(extra: str) -> set[str]:
    """Top-level modules of this environment that an installation with only `extra` would not have."""
    installed, waiting = set(), [("cua-k25", frozenset([extra]))]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in installed:
            continue
        installed.add((name, extras))
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            if any(needed.marker is None or needed.marker.evaluate({"extra": one}) for one in extras or [""]):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    names = {name for name, _ in installed}
    return {
        module
        for module, owners in packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & names
    }


@pytest.mark.browser
@pytest.mark.slow
def test_a_task_needs_no_more_than_the_extra_browser(tmp_path: Path) -> None:
    absent = find_absent("browser")
    assert {"scipy", "IPython", "Xlib"} <= absent
    assert not {"playwright", "cv2", "rapidocr", "PIL", "apps"} & absent
    done = subprocess.run(
        [
            *(sys.executable, "-c", RUN, json.dumps(sorted(absent))),
            *("task", "Click Go", "--url", PAGE, "--model", "literal", "--output-format", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )
    result = json.loads(done.stdout)
    assert (result["status"], result["steps"]) == ("unverified", 5), done.stderr
