"""Registration of the operators of the backend `triton` on import; the others fall back to the reference.

Each operator has a twin in torch's library, `torch.ops.k25.NAME`, which takes only tensors, numbers and lists: an
opaque node of known shape, which does not break a graph of torch.compile. While torch.compile traces, the operators
call their twins; otherwise they call the kernels directly, which avoids the library's dispatch overhead.
`vision_attention` may overwrite its input, which is declared to the library.

Source: torch.library, "Custom operators", and its `opcheck`, which the tests run on each.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from model_runtime.kernels import latent, merge_patches, mla_decode, mla_prefill, moe, norm, router, vision_attention
from model_runtime.kernels import overlap as overlap  # registers its operator
from model_runtime.kernels.mla_schedule import KernelSchedule
from model_runtime.kernels.moe import PreparedExperts
from model_runtime.kernels.repack import HalfSplitExperts
from model_runtime.ops.registry import CuSeqlens, DenseExperts, RouteOptions, register

define = torch.library.custom_op


def _make_twin(
    name: str, kernel: Callable[..., Any], fake: Callable[..., Any], *, mutates: tuple[str, ...] = ()
) -> Any:
    """Register an operator whose arguments torch's library accepts unchanged.

    Args:
        name: Name of the operator.
        kernel: Function that runs it.
        fake: Function that returns an empty result of the right shape.
        mutates: Names of the arguments that are written to.
    """
    twin = define(f"k25::{name}", mutates_args=mutates)(kernel)
    twin.register_fake(fake)

    def operator(*args: object) -> Any:
        return (twin if is_compiling() else kernel)(*args)

    register(name, "triton")(operator)
    return twin


_rms_norm = _make_twin("rms_norm", norm.rms_norm, lambda x, weight, eps: x.new_empty(x.shape))
_add_rms_norm = _make_twin(
    "add_rms_norm", norm.add_rms_norm, lambda x, residual, weight, eps: (x.new_empty(x.shape), x.new_empty(x.shape))
)
_write_latent = _make_twin("write_latent", latent.write_latent, lambda *args: None, mutates=("cache",))


@define("k25::route", mutates_args=())
def _route(hidden: Tensor, weight: Tensor, bias: Tensor, numbers: list[int], scale: float) -> tuple[Tensor, Tensor]:
    top_k, n_group, topk_group, is_normed = numbers
    options = RouteOptions(
        top_k=top_k, n_group=n_group, topk_group=topk_group, norm_topk_prob=bool(is_normed), scale=scale
    )
    return router.route(hidden, weight, bias, options)


@_route.register_fake
def _(hidden: Tensor, weight: Tensor, bias: Tensor, numbers: list[int], scale: float) -> tuple[Tensor, Tensor]:
    shape = (hidden.shape[0], numbers[0])
    return hidden.new_empty(shape, dtype=torch.float32), hidden.new_empty(shape, dtype=torch.int64)


@register("route", "triton")
def route(hidden: Tensor, weight: Tensor, bias: Tensor, options: RouteOptions) -> tuple[Tensor, Tensor]:
    """Route tokens; see `router.route`."""
    if not is_compiling():
        return router.route(hidden, weight, bias, options)
    numbers = [options.top_k, options.n_group, options.topk_group, int(options.norm_topk_prob)]
    return _route(hidden, weight, bias, numbers, options.scale)


@define("k25::experts", mutates_args=())
def _experts(hidden: Tensor, weights: Tensor, ids: Tensor, matrices: list[Tensor]) -> Tensor:
    return moe.run_experts(hidden, weights, ids, _gather(matrices))


@_experts.register_fake
def _(hidden: Tensor, weights: Tensor, ids: Tensor, matrices: list[Tensor]) -> Tensor:
    return hidden.new_empty(hidden.shape)


@register("experts", "triton")
def experts(hidden: Tensor, weights: Tensor, ids: Tensor, prepared: PreparedExperts) -> Tensor:
    """Run the routed experts; see `moe.run_experts`."""
    if not is_compiling():
        return moe.run_experts(hidden, weights, ids, prepared)
    if isinstance(prepared, DenseExperts):
        return _experts(hidden, weights, ids, [prepared.gate_up, prepared.down])
    return _experts(
        hidden, weights, ids, [prepared.gate_up, prepared.gate_up_scale, prepared.down, prepared.down_scale]
    )


def _gather(matrices: Sequence[Tensor]) -> PreparedExperts:
    if len(matrices) == 2:
        return DenseExperts(gate_up=matrices[0], down=matrices[1])
    gate_up, gate_up_scale, down, down_scale = matrices
    return HalfSplitExperts(gate_up=gate_up, gate_up_scale=gate_up_scale, down=down, down_scale=down_scale)


@define("k25::mla_decode", mutates_args=())
def _mla_decode(
    q: Tensor, cache: Tensor, lists: list[Tensor], numbers: list[int], value_dim: int, scale: float
) -> Tensor:
    items, joins, block_tables = lists
    queries_per_item, num_places, num_programs = numbers
    plan = KernelSchedule(
        items=items,
        joins=joins,
        block_tables=block_tables,
        queries_per_item=queries_per_item,
        num_places=num_places,
        num_programs=num_programs,
    )
    return mla_decode.mla_decode(q, cache, plan, value_dim, scale)


@_mla_decode.register_fake
def _(q: Tensor, cache: Tensor, lists: list[Tensor], numbers: list[int], value_dim: int, scale: float) -> Tensor:
    return q.new_empty(q.shape[0], q.shape[1], value_dim)


@register("mla_decode", "triton")
def decode(q: Tensor, cache: Tensor, plan: KernelSchedule, value_dim: int, scale: float) -> Tensor:
    """Attend over the cache; see `mla_decode.mla_decode`."""
    if not is_compiling() or plan.block_tables is None:
        return mla_decode.mla_decode(q, cache, plan, value_dim, scale)
    numbers = [plan.queries_per_item, plan.num_places, plan.num_programs]
    return _mla_decode(q, cache, [plan.items, plan.joins, plan.block_tables], numbers, value_dim, scale)


@define("k25::mla_prefill", mutates_args=())
def _mla_prefill(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: list[int], cu_seqlens_k: list[int], scale: float
) -> Tensor:
    return mla_prefill.mla_prefill(q, k, v, CuSeqlens(cu_seqlens_q), CuSeqlens(cu_seqlens_k), scale)


@_mla_prefill.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: list[int], cu_seqlens_k: list[int], scale: float) -> Tensor:
    return q.new_empty(q.shape[0], q.shape[1], v.shape[2])


@register("mla_prefill", "triton")
def prefill(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens, scale: float) -> Tensor:
    """Attend over prompts; see `mla_prefill.mla_prefill`."""
    if not is_compiling():
        return mla_prefill.mla_prefill(q, k, v, cu_seqlens_q, cu_seqlens_k, scale)
    return _mla_prefill(q, k, v, list(cu_seqlens_q.bounds), list(cu_seqlens_k.bounds), scale)


@define("k25::vision_attention", mutates_args=("qkv",))
def _vision_attention(qkv: Tensor, rotations: Tensor, cu_seqlens: list[int]) -> Tensor:
    return vision_attention.vision_attention(qkv, rotations, CuSeqlens(cu_seqlens))


@_vision_attention.register_fake
def _(qkv: Tensor, rotations: Tensor, cu_seqlens: list[int]) -> Tensor:
    return qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3, qkv.shape[2])


@register("vision_attention", "triton")
def attend_patches(qkv: Tensor, rotations: Tensor, cu_seqlens: CuSeqlens) -> Tensor:
    """Attend over patches; see `vision_attention.vision_attention`."""
    if not is_compiling():
        return vision_attention.vision_attention(qkv, rotations, cu_seqlens)
    return _vision_attention(qkv, rotations, list(cu_seqlens.bounds))


@define("k25::merge_patches", mutates_args=())
def _merge_patches(x: Tensor, grids: list[int], merge: list[int], weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    triples = list(zip(grids[::3], grids[1::3], grids[2::3], strict=True))
    return merge_patches.merge_patches(x, triples, (merge[0], merge[1]), weight, bias, eps)


@_merge_patches.register_fake
def _(x: Tensor, grids: list[int], merge: list[int], weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    patches = sum(h * w for h, w in zip(grids[1::3], grids[2::3], strict=True))
    area = merge[0] * merge[1]
    return x.new_empty(patches // area, area * x.shape[1])


@register("merge_patches", "triton")
def merge(
    x: Tensor,
    grids: Sequence[tuple[int, int, int]],
    merge_by: tuple[int, int],
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> Tensor:
    """Merge patches; see `merge_patches.merge_patches`."""
    if not is_compiling():
        return merge_patches.merge_patches(x, grids, merge_by, weight, bias, eps)
    return _merge_patches(x, [size for grid in grids for size in grid], list(merge_by), weight, bias, eps)


TWINS: dict[str, Callable[..., Any]] = {
    "rms_norm": _rms_norm,
    "add_rms_norm": _add_rms_norm,
    "route": _route,
    "experts": _experts,
    "write_latent": _write_latent,
    "mla_decode": _mla_decode,
    "mla_prefill": _mla_prefill,
    "vision_attention": _vision_attention,
    "merge_patches": _merge_patches,
}
"""Twin of each operator in torch's library."""
