"""Runner of probes against an endpoint, one after another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from apps.endpoint_check.endpoint import CheckedEndpoint
from apps.endpoint_check.outcome import EndpointReport, NoResponse, Outcome, ProbeEnded
from apps.endpoint_check.probes import PROBES, Probe
from model_runtime.errors import RuntimeFault, did_you_mean

PATIENCE = 2
"""Number of consecutive probes without any answer after which the remaining probes are skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestOptions:
    """Options of a self-test.

    Attributes:
        url: Base address, such as `http://127.0.0.1:8000/v1`.
        model: Name of the model; None for the first that the endpoint lists.
        api_key: Key sent as a bearer token.
        only: Names of the probes to run; all if empty.
        timeout_s: Timeout of one answer.
    """

    url: str
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    only: tuple[str, ...] = ()
    timeout_s: float = 120.0


def run_self_test(options: SelfTestOptions, *, emit: Callable[[str], None] = lambda line: None) -> EndpointReport:
    """Run the probes in order.

    Args:
        options: Endpoint, probes and timeout.
        emit: Called with a line before each probe.

    Raises:
        RuntimeFault: If nothing answers at the address, or no probe has a given name.
    """
    probes = find_probes(options.only)
    endpoint = CheckedEndpoint(options.url, model=options.model, api_key=options.api_key, timeout_s=options.timeout_s)
    try:
        endpoint.open()
        outcomes = tuple(_outcomes(endpoint, probes, emit))
        return EndpointReport(url=endpoint.url, model=endpoint.model, outcomes=outcomes)
    finally:
        endpoint.close()


def find_probes(only: Sequence[str]) -> tuple[Probe, ...]:
    """Return the probes with these names, in their fixed order; all if no name is given.

    Raises:
        RuntimeFault: If no probe has a given name.
    """
    names = [probe.name for probe in PROBES]
    for name in only:
        if name not in names:
            hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
            raise RuntimeFault(f"no probe is named {name!r}{hint}")
    return tuple(probe for probe in PROBES if not only or probe.name in only)


def _outcomes(
    endpoint: CheckedEndpoint, probes: Sequence[Probe], emit: Callable[[str], None]
) -> Iterator[tuple[str, Outcome]]:
    silent = 0
    for number, probe in enumerate(probes, 1):
        if silent >= PATIENCE:
            yield probe.name, Outcome(status="failed", text="not tried: the server no longer answers")
            continue
        emit(f"{number}/{len(probes)} {probe.name}: {probe.about}")
        try:
            outcome = probe.run(endpoint)
            silent = 0
        except ProbeEnded as ended:
            outcome = ended.outcome
            silent = silent + 1 if isinstance(ended, NoResponse) else 0
        yield probe.name, outcome
