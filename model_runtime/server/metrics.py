"""Access log, and Prometheus metrics at `/metrics`: the engine's counters and times, and the server's own.

A record has the data of a request for the log line and the metrics; never its content.
"""

import logging
import re
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from model_runtime.engine.contract import EngineClient, EngineStats
from model_runtime.server.answer_parts import UsageCounter

LOG = logging.getLogger("model_runtime.access")

_PROBED = ("/health", "/metrics")
_GIVEN_ID = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(slots=True, kw_only=True)
class AccessLogRecord:
    """Log record of one request.

    Attributes:
        request_id: The client's `X-Request-Id`, or a generated one.
        status: Status of the answer as sent.
        late_status: Status that an error during streaming would have had; 499 for a client that disconnected.
        usage: Token counts so far.
        finish_reasons: Finish reason of each choice.
        problems: Deviations of replies from the model's format.
    """

    request_id: str
    method: str
    path: str
    status: int = 0
    late_status: int | None = None
    usage: UsageCounter = field(default_factory=UsageCounter)
    finish_reasons: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    started_s: float = field(default_factory=time.perf_counter)

    @property
    def took_s(self) -> float:
        """Seconds since the request's head arrived."""
        return time.perf_counter() - self.started_s

    @property
    def shown_status(self) -> int:
        """Final status, including errors during streaming."""
        return self.late_status or self.status

    def log(self) -> None:
        """Write the access log's line; frequent probes are logged at debug level only."""
        usage = self.usage
        LOG.log(
            logging.DEBUG if self.path in _PROBED and self.status == 200 else logging.INFO,
            "id=%s %s %s status=%d prompt=%d cached=%d completion=%d ms=%.1f",
            *(self.request_id, self.method, self.path, self.shown_status),
            *(usage.num_prompt, usage.num_cached, usage.num_completion, self.took_s * 1000),
        )


def make_request_id(client_id: str) -> str:
    """Return the client's id if it is short printable ASCII, otherwise a new one."""
    return client_id if _GIVEN_ID.fullmatch(client_id) else f"req-{uuid.uuid4().hex}"


PREFIX = "k25_"
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

_GAUGES = {
    "requests_waiting": ("num_waiting", "Requests in the queue"),
    "requests_running": ("num_running", "Requests that are being generated"),
    "cache_blocks": ("num_blocks", "Blocks of the latent cache"),
    "cache_blocks_free": ("num_free_blocks", "Blocks of the latent cache that can be taken"),
}
_COUNTERS = {
    "prompt_tokens": ("prompt_tokens_total", "Tokens of prompts"),
    "prefix_cached_tokens": ("cached_tokens_total", "Tokens of prompts that came from the prefix cache"),
    "generated_tokens": ("generated_tokens_total", "Sampled tokens"),
    "media_encoded": ("media_encoded_total", "Images and chunks that the vision tower encoded"),
    "media_cached": ("media_cached_total", "Images and chunks that came from the cache of encoded media"),
    "preemptions": ("preemptions_total", "Sequences put back into the queue for want of cache"),
    "engine_faults": ("faults_total", "Steps or requests that failed in the engine"),
}
_TIMES = {
    "queue": "From arrival to the first step",
    "ttft": "From arrival to the first token",
    "tpot": "Between two tokens of a sequence",
    "step": "Of one step of the engine",
}


class _EngineCollector:
    """Collector of the engine's current counters."""

    def __init__(self, metrics: "ServerMetrics") -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        stats = self._metrics.stats
        for name, (counter, text) in _GAUGES.items():
            yield GaugeMetricFamily(PREFIX + name, text, value=getattr(stats, counter))
        used = stats.num_blocks - stats.num_free_blocks
        yield GaugeMetricFamily(PREFIX + "cache_blocks_used", "Blocks of the latent cache in use", value=used)
        share = stats.cached_tokens_total / stats.prompt_tokens_total if stats.prompt_tokens_total else 0.0
        yield GaugeMetricFamily(PREFIX + "prefix_cache_hit_ratio", "Of all prompt tokens since the start", value=share)
        for name, (counter, text) in _COUNTERS.items():
            yield CounterMetricFamily(PREFIX + name, text, value=getattr(stats, counter))


class ServerMetrics:
    """All metrics of one server."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self.stats = EngineStats()
        self._registry = CollectorRegistry()
        self._times = {name: self._histogram(name, text) for name, text in _TIMES.items()}
        self._e2e = self._histogram("e2e", "From a request's head to the end of its answer")
        self._requests = Counter(
            PREFIX + "http_requests", "Requests by route and status", ("route", "status"), registry=self._registry
        )
        self._choices = Counter(
            PREFIX + "choices", "Choices by the reason they ended", ("finish_reason",), registry=self._registry
        )
        self._problems = Counter(
            PREFIX + "reply_problems", "How replies left the model's format", ("problem",), registry=self._registry
        )
        self._aborted = Counter(PREFIX + "aborted", "Requests whose client left", registry=self._registry)
        up = Gauge(PREFIX + "up", "1 while the engine takes requests", registry=self._registry)
        up.set_function(lambda: float(engine.fault is None))
        self._registry.register(_EngineCollector(self))

    def poll(self) -> None:
        """Read the engine's counters, and add its times to the histograms."""
        self.stats = self._engine.stats()
        for name, seconds in self.stats.histograms.items():
            if (histogram := self._times.get(name.removesuffix("_s"))) is not None:
                for value in seconds:
                    histogram.observe(value)

    def count(self, record: AccessLogRecord, route: str) -> None:
        """Count a finished request; `route` is `other` for unknown paths."""
        self._requests.labels(route, str(record.shown_status)).inc()
        self._e2e.observe(record.took_s)
        if record.shown_status == 499:
            self._aborted.inc()
        for reason in record.finish_reasons:
            self._choices.labels(reason).inc()
        for problem in record.problems:
            self._problems.labels(problem).inc()

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        self.poll()
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"{PREFIX}{name}_seconds", text, buckets=_BUCKETS_S, registry=self._registry)
