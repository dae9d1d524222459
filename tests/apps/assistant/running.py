"""A whole assistant in a process of its own, as `cua assistant` starts it."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[3]
START_S = 120.0


class RunningAssistant:
    """A context manager; `address` lets a browser in.

    Args:
        arguments: Of the command line.
        environment: More variables.
    """

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._arguments = arguments
        self._environment = environment or {}

    def __enter__(self) -> "RunningAssistant":
        self._folder = tempfile.TemporaryDirectory(prefix="k25-test-assistant-")
        self.home = Path(self._folder.name)
        self.runs = self.home / "runs"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("K25_", "OPENAI_"))}
        environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "K25_RUNS_DIR": str(self.runs),
            "OMP_THREAD_LIMIT": "1",
            **self._environment,
        }
        self.log = self.home / "log.txt"
        command = [sys.executable, "-m", "apps.cli.main", "assistant", "--port", "0", "--no-browser", *self._arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.home, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.address = self._wait()
        self.base, _, self.token = self.address.partition("/?token=")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._folder.cleanup()

    @property
    def bearer(self) -> dict[str, str]:
        """What a program sends."""
        return {"authorization": f"Bearer {self.token}"}

    def _wait(self) -> str:
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"http://\S+token=\S+", self.log.read_text(errors="replace"))
            if found:
                return found[0]
            time.sleep(0.1)
        raise RuntimeError(f"the assistant did not start: {self.log.read_text(errors='replace')[-3000:]}")
