"""Kernels that the ahead-of-time check must refuse, each for one reason, and one that it must let pass."""

from collections.abc import Iterator
from dataclasses import replace

import torch
import triton
import triton.language as tl

from model_runtime.kernels.launch import KernelCase, Launch


@triton.jit
def matmul(
    a,  # (M, K)
    b,  # (K, N)
    out,  # (M, N)
    k_size,
    stride_a_m,
    stride_a_k,
    stride_b_k,
    stride_b_n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k_size, BLOCK_K):
        k = start + inner
        left = tl.load(a + rows[:, None] * stride_a_m + k[None, :] * stride_a_k)
        right = tl.load(b + k[:, None] * stride_b_k + columns[None, :] * stride_b_n)
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * BLOCK_N + columns[None, :], total.to(tl.bfloat16))


@triton.jit(do_not_specialize=["k_size", "stride_a_m", "stride_a_k", "stride_b_k", "stride_b_n"])
def matmul_of_unknown_strides(
    a, b, out, k_size, stride_a_m, stride_a_k, stride_b_k, stride_b_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    matmul(a, b, out, k_size, stride_a_m, stride_a_k, stride_b_k, stride_b_n, BLOCK_M, BLOCK_N, BLOCK_K)


@triton.jit
def centre(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """All values are held at once, between their load and the mean of all."""
    places = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    values = tl.load(x + places)
    tl.store(out + places, values - tl.sum(values) / (ROWS * COLUMNS))


@triton.jit
def widen(x, out, SIZE: tl.constexpr):
    places = tl.arange(0, SIZE)
    tl.store(out + places, tl.load(x + places).to(tl.float32))


@triton.jit
def matmul_of_bytes(a, b, out, SIZE: tl.constexpr, BLOCK_N: tl.constexpr):
    """The left operand is computed, so that it comes to wgmma in registers."""
    rows, columns, inner = tl.arange(0, 64), tl.arange(0, BLOCK_N), tl.arange(0, 64)
    total = tl.zeros((64, BLOCK_N), dtype=tl.float32)
    for start in range(0, SIZE, 64):
        k = start + inner
        left = tl.load(a + rows[:, None] * SIZE + k[None, :]).to(tl.float32) - 8.0
        right = tl.load(b + k[:, None] * BLOCK_N + columns[None, :])
        total = tl.dot(left.to(tl.bfloat16), right, total)
    tl.store(out + rows[:, None] * BLOCK_N + columns[None, :], total.to(tl.bfloat16))


@triton.jit
def cannot_be_compiled(x, SIZE: tl.constexpr):
    tl.static_assert(SIZE > 16, "at least 17")
    tl.store(x, 0.0)


def release_cases() -> Iterator[KernelCase]:
    good = make_matmul(64, 128, 64)
    yield KernelCase(name="aot.good", launch=good, has_wgmma=True, has_async_copy=True, max_int_to_float=0)
    yield KernelCase(name="aot.strides", launch=replace(good, kernel=matmul_of_unknown_strides), has_async_copy=True)
    yield KernelCase(name="aot.shared", launch=make_matmul(128, 256, 128, num_warps=8, num_stages=4))
    yield KernelCase(name="aot.hmma", launch=make_matmul(16, 128, 64), has_wgmma=True)
    yield KernelCase(name="aot.registers", launch=good, max_registers=24)
    yield KernelCase(name="aot.conversions", launch=make_widen(), max_int_to_float=4)
    yield KernelCase(name="aot.spills", launch=make_centre())
    yield KernelCase(
        name="aot.broken",
        launch=Launch(kernel=cannot_be_compiled, grid=(1,), args={"x": meta(1)}, constexprs={"SIZE": 16}),
    )
    yield KernelCase(name="aot.hazards", launch=make_matmul_of_bytes())
    yield KernelCase(name="aot.malformed", launch=replace(good, grid=(1, 70_000)))
    yield KernelCase(
        name="aot.complex",
        launch=Launch(
            kernel=widen, grid=(1,), args={"x": meta(4, dtype=torch.complex64), "out": meta(4)}, constexprs={"SIZE": 4}
        ),
    )


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def make_matmul(block_m: int, block_n: int, block_k: int, num_warps: int = 4, num_stages: int = 3) -> Launch:
    a, b, out = (meta(*shape, dtype=torch.bfloat16) for shape in ((block_m, 1024), (1024, block_n), (block_m, block_n)))
    strides = {"stride_a_m": 1024, "stride_a_k": 1, "stride_b_k": block_n, "stride_b_n": 1}
    return Launch(
        kernel=matmul,
        grid=(1,),
        args={"a": a, "b": b, "out": out, "k_size": 1024, **strides},
        constexprs={"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k},
        num_warps=num_warps,
        num_stages=num_stages,
    )


def make_matmul_of_bytes() -> Launch:
    a, b, out = (
        meta(64, 1024, dtype=torch.uint8),
        meta(1024, 64, dtype=torch.bfloat16),
        meta(64, 64, dtype=torch.bfloat16),
    )
    return Launch(
        kernel=matmul_of_bytes,
        grid=(1,),
        args={"a": a, "b": b, "out": out},
        constexprs={"SIZE": 1024, "BLOCK_N": 64},
        num_stages=4,
    )


def make_widen() -> Launch:
    tensors = {"x": meta(1024, dtype=torch.uint8), "out": meta(1024)}
    return Launch(kernel=widen, grid=(1,), args=tensors, constexprs={"SIZE": 1024})


def make_centre() -> Launch:
    tensors = {"x": meta(64, 256), "out": meta(64, 256)}
    return Launch(kernel=centre, grid=(1,), args=tensors, constexprs={"ROWS": 64, "COLUMNS": 256}, num_warps=1)
