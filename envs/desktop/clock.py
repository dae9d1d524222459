"""Time for blocking code that must be interruptible: `close` cuts every pause short."""

import threading
import time


class Interrupted(Exception):
    """A pause was cut short because the env closes or its step was cancelled."""


class Clock:
    """Seconds and pauses, used from one thread and interrupted from another."""

    def __init__(self) -> None:
        self._interrupted = threading.Event()

    def now_s(self) -> float:
        """Seconds of a clock that never jumps."""
        return time.perf_counter()

    def pause(self, duration_s: float) -> None:
        """Wait.

        Raises:
            Interrupted: `interrupt` was called.
        """
        if self._interrupted.is_set():
            raise Interrupted
        if duration_s > 0 and self._interrupted.wait(duration_s):
            raise Interrupted

    def interrupt(self) -> None:
        """Make the current and every later pause raise."""
        self._interrupted.set()

    def resume(self) -> None:
        """Allow pauses again."""
        self._interrupted.clear()
