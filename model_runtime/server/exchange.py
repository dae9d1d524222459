"""What the server notes of one request, for its log line and the metrics; never what was said in it."""

import logging
import re
import time
import uuid
from dataclasses import dataclass, field

from model_runtime.server.replies.usage import Usage

LOG = logging.getLogger("model_runtime.access")

_PROBED = ("/health", "/metrics")
_GIVEN_ID = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request on its way.

    Attributes:
        request_id: The client's `X-Request-Id`, or one of ours.
        status: Of the answer as sent.
        late_status: What it would have been, had it not been streaming already; 499 for a client that left.
        usage: Token counts so far.
        finish_reasons: One for each choice.
        problems: How replies left the model's format.
    """

    request_id: str
    method: str
    path: str
    status: int = 0
    late_status: int | None = None
    usage: Usage = field(default_factory=Usage)
    finish_reasons: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    started_s: float = field(default_factory=time.perf_counter)

    @property
    def took_s(self) -> float:
        """Since the request's head arrived."""
        return time.perf_counter() - self.started_s

    @property
    def shown_status(self) -> int:
        """The status that tells how it ended."""
        return self.late_status or self.status

    def log(self) -> None:
        """The access log's line; what probes ask all day is for debugging only."""
        usage = self.usage
        LOG.log(
            logging.DEBUG if self.path in _PROBED and self.status == 200 else logging.INFO,
            "id=%s %s %s status=%d prompt=%d cached=%d completion=%d ms=%.1f",
            *(self.request_id, self.method, self.path, self.shown_status),
            *(usage.num_prompt, usage.num_cached, usage.num_completion, self.took_s * 1000),
        )


def make_request_id(given: str) -> str:
    """The client's id where it is short printable ASCII, else a new one."""
    return given if _GIVEN_ID.fullmatch(given) else f"req-{uuid.uuid4().hex}"
