"""What both kinds of `moe_gemv` share: a launch over pairs and blocks of a weight's rows, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import ALIGNMENT, Launch, LaunchError, check_dtype, check_shape, check_unit_stride
from model_runtime.kernels.tiles import Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Each pair's row of inputs times its expert's weight.

    Attributes:
        inputs: (R, num_in); pair p has row p // (P / R). Rows may be strided.
        ids: (T, K) int64, P = T * K.
        weights: The kernel's arguments that belong to the experts, (E, ...) each; None for one that it must not use.
        out: (P, num_out).
        num_out: Rows of the weight, one half of them where the other is the up projection.
        num_in: Its columns.
    """

    inputs: Tensor
    ids: Tensor
    weights: Mapping[str, Tensor]
    out: Tensor
    num_out: int
    num_in: int


def make_launch(kernel: Any, product: Product, num_rows: int, tile: Tile) -> Launch:
    """Check what does not depend on the weights' kind.

    Args:
        kernel: Takes inputs, ids, out, stride, num_experts, the weights, PER_ROW, N, K, BLOCK_N and BLOCK_K.
        product: What is computed.
        num_rows: Rows that the inputs must have.
        tile: Its rows of the weight and step along the sum.

    Raises:
        LaunchError: Shapes, dtypes or strides are others.
    """
    _check(product, num_rows)
    inputs, num_pairs = product.inputs, product.ids.numel()
    return Launch(
        kernel=kernel,
        grid=(num_pairs, triton.cdiv(product.num_out, tile.block_n)),
        args={
            "inputs": inputs,
            "ids": product.ids,
            **product.weights,
            "out": product.out,
            "stride": inputs.stride(0) if num_rows > 1 else product.num_in,
            "num_experts": next(iter(product.weights.values())).shape[0],
        },
        constexprs={
            "PER_ROW": num_pairs // max(num_rows, 1),
            "N": product.num_out,
            "K": product.num_in,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": tile.block_k,
        },
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def _check(product: Product, num_rows: int) -> None:
    inputs, ids, out = product.inputs, product.ids, product.out
    check_shape("ids", ids, (None, None))
    check_dtype("ids", ids, torch.int64)
    check_shape("inputs", inputs, (num_rows, product.num_in))
    check_dtype("inputs", inputs, torch.bfloat16, torch.float32)
    check_unit_stride("inputs", inputs)
    check_shape("out", out, (ids.numel(), product.num_out))
    check_dtype("out", out, inputs.dtype)
    if num_rows > 1 and inputs.stride(0) * inputs.itemsize % ALIGNMENT:
        text = f"rows {inputs.stride(0) * inputs.itemsize} bytes apart, expected a multiple of {ALIGNMENT}"
        raise LaunchError(f"inputs has {text}; pass its contiguous()")
    for name, tensor in {"ids": ids, "out": out, **product.weights}.items():
        if not tensor.is_contiguous():
            raise LaunchError(f"{name} has the strides {tensor.stride()}; pass its contiguous()")


@triton.jit
def swiglu(gate, up):
    """Silu(gate) * up in fp32."""
    return gate / (1 + tl.exp(-gate)) * up
