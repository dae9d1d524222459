"""Experts for a few tokens, both kinds of weights, beside their definition in float64."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.errors import ConfigError
from model_runtime.kernels import moe_gemv_dense, moe_gemv_int4
from model_runtime.kernels.launch import LaunchError, run
from model_runtime.kernels.moe import align_rows, gemv_down, gemv_gate_up, make_down, make_gate_up
from model_runtime.kernels.repack import HalfSplitExperts, unpack
from model_runtime.kernels.tiles import Tile
from model_runtime.ops.registry import DenseExperts
from scripts.compile_gate.figures import VERSIONS, find_environment
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

Experts = DenseExperts | HalfSplitExperts

KINDS = pytest.mark.parametrize("kind", [moe_gemv_int4, moe_gemv_dense], ids=["int4", "dense"])

WIDE = Tile(block_n=64, block_k=128, num_warps=1)
"""Not the table's: few programs, which is what the interpreter's time goes by."""

CUT_OFF = 2**-7
"""A step of bf16: the interpreter cuts results off, where a GPU rounds them."""

IDS = torch.tensor([[2, -1], [0, 2], [1, 1 << 40], [3, 3], [4, -7], [5, 1], [2, 2], [6, 4]])
"""Eight tokens, top 2 of 5: one expert twice in a token, in several tokens, and experts held elsewhere."""


def make(kind: ModuleType, num_experts: int, hidden: int, inter: int, dtype: torch.dtype = torch.float32) -> Experts:
    """Random weights between guards. What pads rows of bytes to whole blocks is random as well, under the scale 0."""
    if kind is moe_gemv_dense:
        gate_up = torch.randn(num_experts, 2 * inter, hidden) / hidden**0.5
        down = torch.randn(num_experts, hidden, inter) / inter**0.5
        return DenseExperts(gate_up=guarded(gate_up.to(dtype)), down=guarded(down.to(dtype)))

    def pack(num_out: int, num_in: int) -> tuple[Tensor, Tensor]:
        blocks = -(-num_in // 64)
        packed = torch.randint(0, 256, (num_experts, num_out, 32 * blocks), dtype=torch.uint8)
        scale = (torch.rand(num_experts, 2 * blocks, num_out) + 0.5) / (5 * num_in**0.5)
        scale[:, num_in // 32 :] = 0
        return guarded(packed), guarded(scale.bfloat16())

    (gate_up, gate_up_scale), (down, down_scale) = pack(2 * inter, hidden), pack(hidden, inter)
    return HalfSplitExperts(gate_up=gate_up, gate_up_scale=gate_up_scale, down=down, down_scale=down_scale)


def read(packed: Tensor, scale: Tensor, num_in: int) -> Tensor:
    """Value times scale in float64, not rounded."""
    return unpack(packed, num_in).double() * scale.double().transpose(1, 2).repeat_interleave(32, 2)[..., :num_in]


def weights_of(experts: Experts) -> tuple[Tensor, Tensor]:
    if isinstance(experts, DenseExperts):
        return experts.gate_up.double(), experts.down.double()
    return (
        read(experts.gate_up, experts.gate_up_scale, experts.hidden_size),
        read(experts.down, experts.down_scale, experts.intermediate_size),
    )


def exact_gate_up(x: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    weight = weights_of(experts)[0]
    exact = torch.full((ids.numel(), experts.intermediate_size), torch.nan, dtype=torch.float64)
    for pair, expert in enumerate(ids.flatten().tolist()):
        if 0 <= expert < len(weight):
            gate, up = (weight[expert] @ x[pair // ids.shape[1]].double()).chunk(2)
            exact[pair] = F.silu(gate) * up
    return exact


def exact_down(act: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    weight = weights_of(experts)[1]
    exact = torch.full((ids.numel(), weight.shape[1]), torch.nan, dtype=torch.float64)
    for pair, expert in enumerate(ids.flatten().tolist()):
        if 0 <= expert < len(weight):
            exact[pair] = weight[expert] @ act[pair].double()
    return exact


def check(found: Tensor, exact: Tensor, tolerance: float) -> None:
    """Rows of experts held elsewhere stay poisoned, and so does what lies around the result."""
    written = ~exact.isnan()
    assert torch.equal(written, ~found.isnan())
    assert not written.any() or relative_error(found[written], exact[written]) < tolerance
    assert_guards(found)


def check_both(
    kind: ModuleType, x: Tensor, ids: Tensor, experts: Experts, tolerance: float, tile: Tile | None = WIDE
) -> None:
    act = poisoned(ids.numel(), experts.intermediate_size, dtype=x.dtype)
    run(kind.make_gate_up(x, guarded(ids), experts, act, tile))
    check(act, exact_gate_up(x, ids, experts), tolerance)
    partial = poisoned(ids.numel(), experts.down.shape[1], dtype=x.dtype)
    run(kind.make_down(act, guarded(ids), experts, partial, tile))
    check(partial, exact_down(act, ids, experts), tolerance)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize(("num_tokens", "hidden", "inter"), [(1, 160, 96), (3, 32, 64), (8, 64, 32)])
def test_fp32(kind: ModuleType, num_tokens: int, hidden: int, inter: int) -> None:
    experts, x = make(kind, 5, hidden, inter), guarded(torch.randn(num_tokens, hidden))
    check_both(kind, x, IDS[:num_tokens], experts, 1e-6, replace(WIDE, block_n=32 if num_tokens == 1 else 64))


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize(("num_tokens", "hidden", "inter"), [(1, 96, 160), (3, 64, 32), (8, 64, 32)])
def test_bf16(kind: ModuleType, num_tokens: int, hidden: int, inter: int) -> None:
    experts, x = make(kind, 5, hidden, inter, torch.bfloat16), guarded(torch.randn(num_tokens, hidden).bfloat16())
    check_both(kind, x, IDS[:num_tokens], experts, CUT_OFF, replace(WIDE, block_n=32 if num_tokens == 1 else 64))


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tiles_of_the_table_and_a_last_step_that_is_not_full(kind: ModuleType, dtype: torch.dtype) -> None:
    experts, x = make(kind, 2, 1120, 32, dtype), guarded(torch.randn(1, 1120).to(dtype))
    act, ids = poisoned(1, 32, dtype=dtype), torch.tensor([[1]])
    run(make_gate_up(x, ids, experts, act))
    check(act, exact_gate_up(x, ids, experts), 1e-6 if dtype == torch.float32 else CUT_OFF)


def test_dense_widths_that_no_block_divides() -> None:
    experts, x = make(moe_gemv_dense, 3, 40, 20), guarded(torch.randn(2, 40))
    check_both(moe_gemv_dense, x, torch.tensor([[2, 0], [1, 2]]), experts, 1e-6, replace(WIDE, block_n=16, block_k=16))


@pytest.mark.slow
@KINDS
def test_as_many_experts_as_the_release(kind: ModuleType) -> None:
    experts, x = make(kind, 384, 64, 32), guarded(torch.randn(1, 64))
    ids = torch.tensor([[383, 17, 0, 256, 128, 5, 301, 77]])
    check_both(kind, x, ids, experts, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_integers_are_exact(dtype: torch.dtype) -> None:
    """Every nibble meets its own input: any mistake would change an integer."""
    experts, act = make(moe_gemv_int4, 1, 64, 160), guarded(torch.randint(-99, 100, (1, 160)).to(dtype))
    assert isinstance(experts, HalfSplitExperts)
    experts.down_scale.fill_(2.0**-3)
    partial, ids = poisoned(1, 64, dtype=dtype), torch.tensor([[0]])
    run(moe_gemv_int4.make_down(act, ids, experts, partial, WIDE))
    exact = exact_down(act, ids, experts).float()
    if dtype == torch.bfloat16:  # cut off, as the interpreter does
        exact = (exact.view(torch.int32) & -0x10000).view(torch.float32)
    assert torch.equal(partial.float(), exact)


@pytest.mark.parametrize(("byte", "value"), [(0x00, -8), (0x88, 0), (0xFF, 7)])
def test_smallest_value_zero_and_largest(byte: int, value: int) -> None:
    experts, act = make(moe_gemv_int4, 1, 64, 32), guarded(torch.arange(32.0)[None])
    assert isinstance(experts, HalfSplitExperts)
    experts.down.fill_(byte)
    experts.down_scale.fill_(0.5)
    partial = poisoned(1, 64)
    run(moe_gemv_int4.make_down(act, torch.tensor([[0]]), experts, partial, WIDE))
    assert torch.equal(partial, torch.full((1, 64), value * 0.5 * 31 * 16))


def test_scales_of_zero_and_of_each_group() -> None:
    experts, x = make(moe_gemv_int4, 2, 192, 32), guarded(torch.randn(1, 192))
    assert isinstance(experts, HalfSplitExperts)
    experts.gate_up_scale[:, ::3] = 0
    experts.gate_up_scale[:, 1] *= 64
    ids, act = torch.tensor([[1]]), poisoned(1, 32)
    run(moe_gemv_int4.make_gate_up(x, ids, experts, act, WIDE))
    check(act, exact_gate_up(x, ids, experts), 1e-6)
    experts.gate_up_scale.zero_()
    run(moe_gemv_int4.make_gate_up(x, ids, experts, act, WIDE))
    assert torch.equal(act, torch.zeros(1, 32))


@pytest.mark.parametrize("power", [-40, 40])
def test_small_and_large_inputs_lose_nothing(power: int) -> None:
    """Weights are subnormals and inputs scaled against that: this holds for more than activations ever need."""
    experts, act = make(moe_gemv_int4, 1, 64, 96), guarded(torch.randn(1, 96) * 2.0**power)
    partial, ids = poisoned(1, 64), torch.tensor([[0]])
    run(moe_gemv_int4.make_down(act, ids, experts, partial, WIDE))
    check(partial, exact_down(act, ids, experts), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_scales_of_other_dtypes(dtype: torch.dtype) -> None:
    experts, act = make(moe_gemv_int4, 2, 64, 32), guarded(torch.randn(1, 32))
    assert isinstance(experts, HalfSplitExperts)
    experts = replace(experts, down_scale=guarded(experts.down_scale.to(dtype)))
    partial, ids = poisoned(1, 64), torch.tensor([[1]])
    run(moe_gemv_int4.make_down(act, ids, experts, partial, WIDE))
    check(partial, exact_down(act, ids, experts), 1e-6)


@KINDS
def test_same_bits_again_and_in_any_company(kind: ModuleType) -> None:
    experts, act, ids = make(kind, 5, 64, 96), torch.randn(3, 96), torch.tensor([[2], [4], [2]])
    first, again, alone = torch.empty(3, 64), torch.empty(3, 64), torch.empty(1, 64)
    for rows, partial in ((slice(3), first), (slice(3), again), (slice(2, 3), alone)):
        run(kind.make_down(act[rows].clone(), ids[rows], experts, partial, WIDE))
    assert torch.equal(first, again)
    assert torch.equal(first[2:], alone)


@KINDS
def test_rows_may_lie_in_a_wider_tensor(kind: ModuleType) -> None:
    experts, ids = make(kind, 5, 64, 32), torch.tensor([[0, 4], [3, -1]])
    x = guarded(torch.randn(2, 100))[:, 4:68]
    assert align_rows(x) is x
    act = poisoned(4, 32)
    run(kind.make_gate_up(x, ids, experts, act, WIDE))
    check(act, exact_gate_up(x, ids, experts), 1e-6)


@pytest.mark.slow
@KINDS
def test_both_halves_of_tensors_that_cannot_be_read_as_they_are(kind: ModuleType) -> None:
    experts, wide, ids = make(kind, 2, 32, 32), torch.randn(2, 33), torch.tensor([[0], [1]])
    x = wide[:, 1:]
    act = gemv_gate_up(x, ids.expand(2, 2)[:, :1], experts)
    assert relative_error(act, exact_gate_up(x, ids, experts)) < 1e-6
    assert relative_error(gemv_down(act, ids, experts), exact_down(act, ids, experts)) < 1e-6


@KINDS
def test_one_row_may_have_any_stride(kind: ModuleType) -> None:
    experts, x, act = make(kind, 1, 64, 32), torch.randn(1, 67)[:, :64], poisoned(1, 32)
    ids = torch.tensor([[0]])
    run(kind.make_gate_up(x, ids, experts, act, WIDE))
    check(act, exact_gate_up(x, ids, experts), 1e-6)


@KINDS
def test_rows_of_experts_held_elsewhere_are_not_touched(kind: ModuleType) -> None:
    """Not even with NaN, which weights beyond the last expert's would give."""
    experts, ids = make(kind, 2, 64, 32), torch.tensor([[2, -1, 1 << 40]])
    act, partial = torch.full((3, 32), 7.0), torch.full((3, 64), 7.0)
    run(kind.make_gate_up(torch.randn(1, 64), ids, experts, act, WIDE))
    run(kind.make_down(act, ids, experts, partial, WIDE))
    assert (act == 7).all()
    assert (partial == 7).all()


@KINDS
def test_no_tokens(kind: ModuleType) -> None:
    experts, none = make(kind, 2, 64, 32), torch.empty(0, 3, dtype=torch.int64)
    assert gemv_gate_up(torch.empty(0, 64), none, experts).shape == (0, 32)
    assert gemv_down(torch.empty(0, 32), none, experts).shape == (0, 64)


@KINDS
def test_what_it_cannot_do_is_said(kind: ModuleType) -> None:
    experts, x, ids = make(kind, 2, 64, 32), torch.randn(2, 64), torch.tensor([[0, 1], [1, 0]])
    act, partial = torch.empty(4, 32), torch.empty(4, 64)

    def refuses(text: str, *args: Tensor | Experts, make=make_gate_up) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(LaunchError, match=re.escape(text)):
            make(*args)

    refuses("ids is int32, expected int64", x, ids.int(), experts, act)
    refuses("ids has the shape (4,), expected (any, any)", x, ids.flatten(), experts, act)
    refuses("ids has the strides (1, 2); pass its contiguous()", x, ids.t(), experts, act)
    refuses("inputs has the shape (2, 32), expected (2, 64)", x[:, :32], ids, experts, act)
    refuses("inputs has the shape (2, 32), expected (4, 32)", act[:2], ids, experts, partial, make=make_down)
    refuses("last axis must have 1", torch.randn(64, 2).t(), ids, experts, act)
    refuses("inputs has rows 260 bytes apart, expected a multiple of 16", torch.randn(2, 65)[:, :64], ids, experts, act)
    refuses("out has the shape (4, 64), expected (4, 32)", x, ids, experts, partial)
    refuses("out is bfloat16, expected float32", x, ids, experts, act.bfloat16())
    refuses("out has the strides (64, 1)", x, ids, experts, partial[:, :32])
    refuses("float16", x.half(), ids, experts, act.half())


def test_weights_that_do_not_fit() -> None:
    experts, ids, x = make(moe_gemv_int4, 2, 64, 32), torch.tensor([[0]]), torch.randn(1, 64)
    assert isinstance(experts, HalfSplitExperts)
    act = torch.empty(1, 32)
    wide = experts.gate_up.repeat(1, 1, 2)
    for text, changed in (
        ("gate_up is int8, expected uint8", {"gate_up": experts.gate_up.view(torch.int8)}),
        ("gate_up_scale is float64", {"gate_up_scale": experts.gate_up_scale.double()}),
        ("gate_up has the shape (2, 64, 64), expected (2, 64, 32)", {"gate_up": wide}),
        ("gate_up_scale has the shape (2, 1, 64)", {"gate_up_scale": experts.gate_up_scale[:, :1]}),
        ("gate_up has the strides (4096, 64, 1); pass", {"gate_up": wide[..., :32]}),
        ("gate_up has 48 inputs, expected a multiple of 32", {"down": experts.down[:, :48]}),
    ):
        with pytest.raises(LaunchError, match=re.escape(text)):
            make_gate_up(x, ids, replace(experts, **changed), act)
    with pytest.raises(LaunchError, match="gate_up would have 32 outputs in blocks of 24, steps of 64"):
        moe_gemv_int4.make_gate_up(x, ids, experts, act, replace(WIDE, block_n=24))
    dense = make(moe_gemv_dense, 2, 64, 32)
    with pytest.raises(LaunchError, match="gate_up is float32, expected bfloat16"):
        make_gate_up(x.bfloat16(), ids, dense, act.bfloat16())
    with pytest.raises(LaunchError, match="down is float32, expected bfloat16"):
        make_down(act.bfloat16(), ids, dense, x.bfloat16())
    with pytest.raises(LaunchError, match=re.escape("gate_up has the shape (2, 63, 64), expected (2, 64, 64)")):
        make_gate_up(x, ids, DenseExperts(gate_up=dense.gate_up[:, 1:], down=dense.down), act)


@KINDS
def test_cases_of_the_release(kind: ModuleType) -> None:
    cases = list(kind.release_cases())
    assert len({case.name for case in cases}) == len(cases) == 4
    assert [case.launch.grid for case in cases[:2]] == [(8, 256), (8, 896)]
    assert {case.launch.tensors["ids"].device.type for case in cases} == {"meta"}


COMPILE = """
import subprocess, tempfile
from scripts.compile_gate.compile import compile_launch
from scripts.compile_gate.machine_code import TOOLS
from model_runtime.kernels.moe_gemv_int4 import release_cases

launches = [case.launch for case in release_cases() if case.name == "moe_gemv_int4.down bfloat16"]
with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
    file.write(compile_launch(launches[0]).cubin)
    file.flush()
    subprocess.run([TOOLS / "cuobjdump", "--dump-sass", file.name], check=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_compiler_does_not_flush_subnormals(version: str) -> None:
    """Weights are subnormals: a version of Triton that flushes them would give zeros for weights."""
    root = Path(__file__).parents[3]
    try:
        environment = find_environment(version, root)
    except ConfigError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    environment.pop("TRITON_INTERPRET")
    command = [sys.executable, "-c", COMPILE]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "FFMA " in done.stdout
    assert ".FTZ" not in done.stdout
