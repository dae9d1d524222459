"""From the vision tower's last layer to the projector: frames averaged, patches normed and merged two by two."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from torch.nn import functional as F

from benchmarks.kernels import exact, roofline
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import file_peers
from benchmarks.kernels.case import Case, Copy, Inputs
from benchmarks.kernels.cost.hardware import Grid, patches_of
from benchmarks.kernels.inputs import compiled, copies_of, normal, our, reference

EPS = 1e-5
MERGE = (2, 2)


def cases(bench: Bench) -> Iterator[Case]:
    """Every input."""
    for variant, grids in bench.sizes.images.items():
        yield make_case(bench, variant, grids)


def make_case(bench: Bench, variant: str, grids: list[Grid]) -> Case:
    """One input."""
    torch_merge = bench.reference.merge_patches
    shapes = {"patches": patches_of(grids), "items": len(grids)}
    return Case(
        kernel="merge_patches",
        variant=variant,
        size={"patches": shapes["patches"]},
        peers=[
            our(bench, "merge_patches"),
            reference(torch_merge),
            compiled(bench, torch_merge),
            *file_peers(bench.peer_files, "merge_patches", shapes),
        ],
        setup=lambda: _make_inputs(bench, grids),
    )


def _make_inputs(bench: Bench, grids: Sequence[Grid]) -> Inputs:
    width, rows = bench.sizes.vision.hidden_size, sum(map(prod, grids))
    work = roofline.merge_patches(bench.sizes.vision, grids)
    weight, bias = normal(bench, "weight", width), normal(bench, "bias", width)

    def make(index: int) -> Copy:
        return normal(bench, "patches", rows, width, index=index), grids, MERGE, weight, bias, EPS

    copies = copies_of(bench, work.bytes, make)

    def error(call: Callable[[Copy], Any]) -> float:
        t, h, w = grids[0]
        mean = copies[0][0][: t * h * w].double().view(t, h, w, width).mean(0)
        normed = F.layer_norm(mean, (width,), weight.double(), bias.double(), EPS)
        wanted = normed[:2, :2].flatten()  # the first row of the result
        return exact.relative_error(call(copies[0])[0], wanted)

    return Inputs(copies=copies, work=work, error=error)
