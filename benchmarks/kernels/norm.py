"""Norms, beside torch.compile of the same torch code: that decides whether they stay."""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.kernels import exact, roofline
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import file_peers
from benchmarks.kernels.case import Case, Copy, Inputs
from benchmarks.kernels.cost.hardware import Work
from benchmarks.kernels.inputs import compiled, copies_of, normal, our, reference
from benchmarks.kernels.timing import is_cold

EPS = 1e-6


def cases(bench: Bench) -> Iterator[Case]:
    """Every operator and width at every number of tokens."""
    for kernel, width in list_kernels(bench):
        for tokens in bench.sizes.norm_tokens:
            yield make_case(bench, kernel, width, tokens)


def list_kernels(bench: Bench) -> list[tuple[str, int]]:
    """Operators and widths of the language model."""
    text = bench.sizes.text
    return [("rms_norm", text.hidden_size), ("rms_norm", text.q_lora_rank), ("add_rms_norm", text.hidden_size)]


def make_case(bench: Bench, kernel: str, width: int, tokens: int) -> Case:
    """One of them."""
    setup = {"rms_norm": _norm_inputs, "add_rms_norm": _add_inputs}[kernel]
    function = getattr(bench.reference, kernel)
    peers = [our(bench, kernel), reference(function), compiled(bench, function)]
    return Case(
        kernel=kernel,
        variant=f"width {width}",
        size={"tokens": tokens},
        peers=[*peers, *file_peers(bench.peer_files, kernel, {"tokens": tokens, "width": width})],
        setup=lambda: setup(bench, width, tokens),
    )


def _norm_inputs(bench: Bench, width: int, tokens: int) -> Inputs:
    weight = normal(bench, "weight", width)
    work = roofline.rms_norm(tokens, width)
    copies = copies_of(bench, work.bytes, lambda index: (normal(bench, "x", tokens, width, index=index), weight, EPS))

    def error(call: Callable[[Copy], Any]) -> float:
        rows = exact.sample_rows(tokens, 64)
        return exact.relative_error(call(copies[0])[rows], exact.rms_norm(copies[0][0][rows], weight, EPS))

    return _inputs(bench, copies, work, error)


def _add_inputs(bench: Bench, width: int, tokens: int) -> Inputs:
    weight = normal(bench, "weight", width)
    work = roofline.rms_norm(tokens, width, num_rows=4)

    def make(index: int) -> Copy:
        x, residual = (normal(bench, name, tokens, width, index=index) for name in ("x", "residual"))
        return x, residual, weight, EPS

    copies = copies_of(bench, work.bytes, make)

    def error(call: Callable[[Copy], Any]) -> float:
        rows = exact.sample_rows(tokens, 64)
        x, residual = (part[rows] for part in copies[0][:2])
        found, total = (part[rows] for part in call(copies[0]))
        sums = exact.relative_error(total, x.double() + residual.double())
        return max(sums, exact.relative_error(found, exact.rms_norm(x + residual, weight, EPS)))

    return _inputs(bench, copies, work, error)


def _inputs(bench: Bench, copies: list[Copy], work: Work, error: Callable[..., float]) -> Inputs:
    return Inputs(copies=copies, work=work, error=error, is_cold=is_cold(work.bytes, bench.device.l2_bytes))
