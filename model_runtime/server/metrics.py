"""What Prometheus reads at `/metrics`: the engine's counters and times, and the server's own."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from model_runtime.engine.contract import EngineClient, EngineStats
from model_runtime.server.exchange import Exchange

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
    "media_encoded": ("media_encoded_total", "Pictures and chunks that the vision tower encoded"),
    "media_cached": ("media_cached_total", "Pictures and chunks that came from the cache of encoded media"),
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
    """The engine's counters as they stand."""

    def __init__(self, metrics: "Metrics") -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        stats = self._metrics.stats
        for name, (field, text) in _GAUGES.items():
            yield GaugeMetricFamily(PREFIX + name, text, value=getattr(stats, field))
        used = stats.num_blocks - stats.num_free_blocks
        yield GaugeMetricFamily(PREFIX + "cache_blocks_used", "Blocks of the latent cache in use", value=used)
        share = stats.cached_tokens_total / stats.prompt_tokens_total if stats.prompt_tokens_total else 0.0
        yield GaugeMetricFamily(PREFIX + "prefix_cache_hit_ratio", "Of all prompt tokens since the start", value=share)
        for name, (field, text) in _COUNTERS.items():
            yield CounterMetricFamily(PREFIX + name, text, value=getattr(stats, field))


class Metrics:
    """All figures of one server.

    Args:
        engine: Whose counters are shown.

    Attributes:
        stats: The counters as they were last fetched.
    """

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
        """Fetch the engine's counters, and put the times it held into the histograms."""
        self.stats = self._engine.stats()
        for name, seconds in self.stats.histograms.items():
            if (histogram := self._times.get(name.removesuffix("_s"))) is not None:
                for value in seconds:
                    histogram.observe(value)

    def count(self, exchange: Exchange, route: str) -> None:
        """Take note of a request that ended.

        Args:
            exchange: What is known of it.
            route: The path of its route, `other` for unknown paths.
        """
        self._requests.labels(route, str(exchange.shown_status)).inc()
        self._e2e.observe(exchange.took_s)
        if exchange.shown_status == 499:
            self._aborted.inc()
        for reason in exchange.finish_reasons:
            self._choices.labels(reason).inc()
        for problem in exchange.problems:
            self._problems.labels(problem).inc()

    def render(self) -> bytes:
        """Prometheus' text format."""
        self.poll()
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"{PREFIX}{name}_seconds", text, buckets=_BUCKETS_S, registry=self._registry)
