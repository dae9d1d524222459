"""Routing of tokens to experts: logits, sigmoid, the best k by score + bias, and their weights.

Two launches. The first multiplies: for few tokens, the sum over the hidden size is split among enough programs for all
multiprocessors to read a part of the weight, and each writes its part of the logits in fp32; for many tokens, one
program computes the whole sum. The second has one program per token: it adds the parts, always in the same order, and
selects the best k one after the other as the maximum of 64-bit numbers: the high half has the bits of a score mapped to
ordered integers, the low half the expert's number, reversed. Equal scores therefore select the lower expert, and no
value, NaN included, selects an expert that does not exist.

Floor: the weight once, 5.5 MB, 1.3 us; 16384 tokens 90 GFLOP, 0.11 ms.

Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2. Sums split among programs: M. Osama et al., "Stream-K"
(arXiv 2301.03598), section 3.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import KernelCase, Launch, check_dtype, check_shape, check_unit_stride, meta, run
from model_runtime.kernels.tiles import Tile, find_tile, fit, next_power
from model_runtime.ops.reference import moe as reference
from model_runtime.ops.registry import RouteOptions

FLOATS = (torch.bfloat16, torch.float32)


def route(hidden: Tensor, weight: Tensor, bias: Tensor, options: RouteOptions) -> tuple[Tensor, Tensor]:
    """Route tokens like `ops.reference.moe.route`, best choice first; of equal ones the lower id.

    Experts in groups, and more choices than experts, are left to the torch reference. Products of bf16 are summed in
    fp32; if either side is fp32, both are converted, and multiplied exactly as fp32. Ids are in 0..E-1 and distinct
    even if hidden is NaN. Rows of hidden and weight may be strided.

    Raises:
        LaunchError: If shapes or dtypes differ.
    """
    num_experts = weight.shape[0]
    if options.n_group > 1 or options.top_k > num_experts:
        return reference.route(hidden, weight, bias, options)
    tile = find_logits_tile(hidden, weight)
    parts = hidden.new_empty(tile.split_k, len(hidden), num_experts, dtype=torch.float32)
    weights = hidden.new_empty(len(hidden), options.top_k, dtype=torch.float32)
    ids = hidden.new_empty(len(hidden), options.top_k, dtype=torch.int64)
    run(make_logits(hidden, weight, parts, tile))
    run(make_select(parts, bias, weights, ids, options))
    return weights, ids


def find_logits_tile(hidden: Tensor, weight: Tensor) -> Tile:
    """Return the table's tile, with `split_k` reduced so that each part of the sum has at least one step.

    Raises:
        LaunchError: If the shapes do not fit.
    """
    check_shape("hidden", hidden, (None, None))
    check_shape("weight", weight, (None, hidden.shape[1]))
    kernel = "router.logits" if hidden.dtype == weight.dtype == torch.bfloat16 else "router.logits_fp32"
    tile = fit(find_tile(kernel, len(hidden)), n=weight.shape[0], k=hidden.shape[1])
    steps = triton.cdiv(hidden.shape[1], tile.block_k)
    return replace(tile, split_k=triton.cdiv(steps, triton.cdiv(steps, tile.split_k)))


def make_logits(hidden: Tensor, weight: Tensor, parts: Tensor, tile: Tile) -> Launch:
    """Return the launch for hidden (N, H) @ weight (E, H) transposed, split by parts of the sum: parts (split_k, N, E)
    fp32.
    """
    num_tokens, width = hidden.shape
    num_experts = weight.shape[0]
    for name, tensor in (("hidden", hidden), ("weight", weight)):
        check_dtype(name, tensor, *FLOATS)
        check_unit_stride(name, tensor)
    rows, columns = triton.cdiv(num_tokens, tile.block_m), triton.cdiv(num_experts, tile.block_n)
    return Launch(
        kernel=logits_kernel,
        grid=(rows * columns, tile.split_k),
        args={
            "hidden": hidden,
            "weight": weight,
            "parts": parts,
            "stride_h": hidden.stride(0),
            "stride_w": weight.stride(0),
            "num_tokens": num_tokens,
            "num_experts": num_experts,
            "width": width,
        },
        constexprs={
            "STEPS": triton.cdiv(triton.cdiv(width, tile.block_k), tile.split_k),
            "IS_FP32": hidden.dtype != torch.bfloat16 or weight.dtype != torch.bfloat16,
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": tile.block_k,
        },
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def make_select(parts: Tensor, bias: Tensor, weights: Tensor, ids: Tensor, options: RouteOptions) -> Launch:
    """Return the launch from parts (S, N, E) and bias (E,) to weights (N, K) and ids (N, K)."""
    num_parts, num_tokens, num_experts = parts.shape
    check_shape("bias", bias, (num_experts,))
    check_dtype("bias", bias, torch.float32)
    check_unit_stride("bias", bias)
    return Launch(
        kernel=select_kernel,
        grid=(num_tokens,),
        args={
            "parts": parts,
            "bias": bias,
            "weights": weights,
            "ids": ids,
            "scale": float(options.scale),
            "num_parts": num_parts,
            "num_tokens": num_tokens,
            "num_experts": num_experts,
        },
        constexprs={
            "PARTS": next_power(num_parts, 1),
            "TOP_K": options.top_k,
            "CHOICES": next_power(options.top_k, 2),
            "EXPERTS": next_power(num_experts, 32),
            "IS_NORMED": options.norm_topk_prob,
        },
        num_warps=max(next_power(num_parts, 1) // 2, 1),  # so that all of a thread's loads overlap
    )


@triton.jit
def logits_kernel(
    hidden, weight, parts, stride_h, stride_w, num_tokens, num_experts, width,
    STEPS: tl.constexpr, IS_FP32: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute logits: hidden (num_tokens, width), weight (num_experts, width), parts (split, num_tokens,
    num_experts).
    """
    columns = tl.cdiv(num_experts, BLOCK_N)
    part = tl.program_id(1)
    token = (tl.program_id(0) // columns) * BLOCK_M + tl.arange(0, BLOCK_M)
    expert = (tl.program_id(0) % columns) * BLOCK_N + tl.arange(0, BLOCK_N)
    hidden_rows = hidden + token.to(tl.int64)[:, None] * stride_h
    weight_rows = weight + expert.to(tl.int64)[:, None] * stride_w
    is_token = (token < num_tokens)[:, None]
    is_expert = (expert < num_experts)[:, None]
    logits = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(STEPS):
        k = ((part * STEPS + step) * BLOCK_K + tl.arange(0, BLOCK_K))[None, :]
        h = tl.load(hidden_rows + k, mask=is_token & (k < width), other=0.0)
        w = tl.load(weight_rows + k, mask=is_expert & (k < width), other=0.0)
        if IS_FP32:
            logits = tl.dot(h.to(tl.float32), w.to(tl.float32).T, logits, input_precision="ieee")
        else:
            logits = tl.dot(h, w.T, logits)
    out = parts + (part * num_tokens + token).to(tl.int64)[:, None] * num_experts + expert[None, :]
    tl.store(out, logits, mask=is_token & is_expert.T)


@triton.jit
def select_kernel(
    parts, bias, weights, ids, scale, num_parts, num_tokens, num_experts,
    PARTS: tl.constexpr, TOP_K: tl.constexpr, CHOICES: tl.constexpr, EXPERTS: tl.constexpr, IS_NORMED: tl.constexpr,
):  # fmt: skip
    """Select experts: parts (num_parts, num_tokens, num_experts), bias (num_experts,), weights and ids (num_tokens,
    TOP_K).
    """
    token = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, EXPERTS)
    is_expert = expert < num_experts
    part = tl.arange(0, PARTS)[:, None]
    place = (part * num_tokens + token) * num_experts + expert[None, :]
    logits = tl.load(parts + place, mask=(part < num_parts) & is_expert[None, :], other=0.0)
    shift = tl.load(bias + expert, mask=is_expert, other=0.0)
    scores = tl.sigmoid(tl.sum(logits, 0))

    # the bits of negative floats are in reverse order; NaN counts as the lowest
    biased = scores + shift
    bits = tl.where(biased == biased, biased, float("-inf")).to(tl.int32, bitcast=True)
    order = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)
    WORST: tl.constexpr = -(2**63)
    keys = tl.where(is_expert, (order << 32) | (EXPERTS - 1 - expert), WORST)
    choice = tl.arange(0, CHOICES)
    chosen = tl.zeros((CHOICES,), tl.int32)
    for k in range(TOP_K):
        best = tl.max(keys)
        chosen = tl.where(choice == k, EXPERTS - 1 - (best & (EXPERTS - 1)).to(tl.int32), chosen)
        keys = tl.where(keys == best, WORST, keys)

    is_choice = choice < TOP_K
    weight = tl.where(is_choice, tl.gather(scores, chosen, 0), 0.0)
    if IS_NORMED:
        weight = weight / (tl.sum(weight) + 1e-20)
    tl.store(weights + token * TOP_K + choice, weight * scale, mask=is_choice)
    tl.store(ids + token * TOP_K + choice, chosen.to(tl.int64), mask=is_choice)


def release_cases() -> Iterator[KernelCase]:
    """Yield cases for 384 experts top 8, hidden 7168; every line of the table."""
    bf16, fp32 = FLOATS
    for num_tokens in (1, 16, 64, 256, 1024, 4096, 16384):
        yield from _make_cases(num_tokens, bf16, bf16)
    for num_tokens, dtype in ((1, fp32), (16384, fp32), (1, bf16), (16384, bf16)):
        yield from _make_cases(num_tokens, dtype, fp32)


def _make_cases(num_tokens: int, hidden_dtype: torch.dtype, weight_dtype: torch.dtype) -> Iterator[KernelCase]:
    hidden = meta(num_tokens, 7168, dtype=hidden_dtype)
    weight = meta(384, 7168, dtype=weight_dtype)
    tile = find_logits_tile(hidden, weight)
    parts = torch.empty(tile.split_k, num_tokens, 384, device="meta")
    weights = torch.empty(num_tokens, 8, device="meta")
    name = f"T{num_tokens} {hidden_dtype} {weight_dtype}".replace("torch.", "")
    is_bf16 = weight_dtype == torch.bfloat16
    yield KernelCase(
        name=f"router.logits {name}",
        launch=make_logits(hidden, weight, parts, tile),
        has_wgmma=is_bf16 and tile.block_m >= 64,
        has_async_copy=True,
    )
    options = RouteOptions(top_k=8, scale=2.827)
    launch = make_select(parts, torch.empty(384, device="meta"), weights, weights.long(), options)
    yield KernelCase(name=f"router.select {name}", launch=launch)
