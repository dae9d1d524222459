"""Run the real `cua` command as a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

CUA = str(Path(sys.executable).with_name("cua"))
CLICK = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.5, 0.5)\n```"
WAIT = "## Action:\nWait\n## Code:\n```python\ncomputer.wait()\n```"
DONE = '## Action:\nFinish\n## Code:\n```python\ncomputer.terminate(status="success", answer="42")\n```'
PAGE = "data:text/html,<title>Hello</title><h1>Hello</h1><button>Save</button>"


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object in the last line of stdout."""
        value: dict[str, Any] = json.loads(self.stdout.strip().splitlines()[-1])
        return value


def environment(runs_dir: Path, **more: str) -> dict[str, str]:
    """This process's environment with runs recorded in a folder of the test, and no settings of the user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("K25_", "OPENAI_"))}
    if "K25_BROWSER" in os.environ:
        kept["K25_BROWSER"] = os.environ["K25_BROWSER"]
    return {**kept, "K25_RUNS_DIR": str(runs_dir), "K25_CONFIG": str(runs_dir / "no-config.toml"), **more}


def script(folder: Path, *replies: str) -> str:
    """A `--model` value that replays replies."""
    path = folder / "replies.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return f"scripted:{path}"


def cua(runs_dir: Path, *arguments: str, stdin: str = "", timeout_s: float = 180, **more: str) -> Ended:
    """Run `cua` to its end."""
    done = subprocess.run(
        [CUA, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment(runs_dir, **more),
        cwd=runs_dir,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def start(runs_dir: Path, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    """Start `cua` as the leader of its own process group, as a shell does."""
    return subprocess.Popen(
        [CUA, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment(runs_dir, **more),
        cwd=runs_dir,
        start_new_session=True,
    )


def wait_until_in_charge(process: "subprocess.Popen[str]") -> None:
    """Wait until our code runs and not only Python's start, which no program can make orderly.

    Python catches SIGINT while it starts; the first thing that `cua` does is to give it back.
    """
    wait_until(lambda: _catches_sigint(process.pid))
    with contextlib.suppress(AssertionError):  # on a slow machine the next switch may be connected already
        wait_until(lambda: not _catches_sigint(process.pid), timeout_s=2)


def _catches_sigint(pid: int) -> bool:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(row.split()[1], 16) for row in rows if row.startswith("SigCgt:"))
    return bool(caught >> (signal.SIGINT - 1) & 1)


def press_ctrl_c(process: "subprocess.Popen[str]") -> None:
    """What a terminal does: SIGINT to the whole foreground process group."""
    os.killpg(process.pid, signal.SIGINT)


def descendants(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Every process below a running `cua`."""
    return psutil.Process(process.pid).children(recursive=True)


def names_below(process: "subprocess.Popen[str]") -> set[str]:
    """Names of the programs below a running `cua`; one that ends meanwhile has none."""
    found = set()
    for child in descendants(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(child.name())
    return found


def wait_until_gone(processes: list[psutil.Process], folder: Path) -> None:
    """Wait until these, and all that carry the test's folder in their environment, are gone; bounded."""
    wait_until(lambda: not [process for process in processes if _is_alive(process)] and not _marked(str(folder)))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _marked(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes()
            if arguments and marker.encode() in arguments + (entry / "environ").read_bytes():
                found.append(arguments.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def wait_until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Wait for a condition, bounded."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)
