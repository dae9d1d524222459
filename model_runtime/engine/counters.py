"""What the engine counts and times."""

from dataclasses import dataclass, field
from threading import Lock

from model_runtime.engine.sequence import Sequence

TIMED = ("queue_s", "ttft_s", "tpot_s", "step_s")


@dataclass(slots=True)
class Counters:
    """Counters that only grow, and times observed since they were last read."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    media_encoded: int = 0
    media_cached: int = 0
    faults: int = 0
    _times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TIMED})
    _lock: Lock = field(default_factory=Lock)

    def observe(self, name: str, seconds: float) -> None:
        """Note a time: in the queue, to the first token, per further token, of a step."""
        with self._lock:
            self._times[name].append(seconds)

    def admitted(self, sequence: Sequence, now: float) -> None:
        """A sequence runs for the first time."""
        self.prompt_tokens += sequence.num_prompt
        self.cached_tokens += sequence.num_cached or 0
        self.observe("queue_s", now - sequence.arrived_at)

    def generated(self, sequence: Sequence, now: float) -> None:
        """A sequence got a token."""
        self.generated_tokens += 1
        if sequence.last_token_at is None:
            self.observe("ttft_s", now - sequence.arrived_at)
        else:
            self.observe("tpot_s", now - sequence.last_token_at)
        sequence.last_token_at = now

    def read_times(self) -> dict[str, tuple[float, ...]]:
        """Times observed since the last call."""
        with self._lock:
            times = {name: tuple(values) for name, values in self._times.items()}
            for values in self._times.values():
                values.clear()
        return times
