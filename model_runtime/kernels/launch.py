"""A kernel launch as a value: made by a pure function of shapes, checked, then run or compiled ahead of time.

The same value has three uses: `run` starts it on a GPU (or in Triton's interpreter), the ahead-of-time check compiles
exactly this specialisation, and the cost model reads its grid. Launches can therefore be made with tensors on torch's
`meta` device, at any size and without memory.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
from torch import Tensor

from model_runtime.errors import ConfigError
from model_runtime.placement import Enter, use_device

ALIGNMENT = 16
"""Required alignment of addresses in bytes, so that Triton can load 128 bits at once."""

MAX_GRID = (2**31 - 1, 65_535, 65_535)
"""Maximum number of programs along each axis. Source: CUDA C++ programming guide, table of compute capabilities."""


class LaunchError(ConfigError):
    """Error for unsupported kernel arguments; the text has the found and the expected values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A kernel with all arguments of its launch.

    Attributes:
        kernel: Function decorated with `@triton.jit`.
        grid: Programs along one to three axes; with a zero, nothing is launched.
        args: Runtime arguments by name: tensors, ints, floats. None for a pointer that the kernel then must not use.
        constexprs: Arguments that are `tl.constexpr`, by name.
        num_warps: Warps of 32 threads per program.
        num_stages: Depth of the pipeline of loads.
    """

    kernel: Any
    grid: tuple[int, ...]
    args: Mapping[str, Tensor | int | float | None]
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3

    @property
    def name(self) -> str:
        """Name of the kernel's function."""
        return str(self.kernel.__name__)

    @property
    def options(self) -> dict[str, int | bool]:
        """Compiler options; fusion of multiplications and additions is set so that it does not depend on the
        version.
        """
        return {"num_warps": self.num_warps, "num_stages": self.num_stages, "enable_fp_fusion": True}

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Arguments that are tensors."""
        return {name: value for name, value in self.args.items() if isinstance(value, Tensor)}


def run(launch: Launch, *, enter: Enter = use_device) -> None:
    """Check a launch and start it asynchronously on its tensors' device.

    Triton starts a kernel, and allocates its scratch memory, on the current device of the thread.

    Raises:
        LaunchError: If tensors are on several devices, an address is not aligned, the grid is too large, arguments are
            missing, or there is no GPU and the interpreter is off.
    """
    if 0 in launch.grid:
        return
    check(launch)
    options = {} if is_interpreted(launch.kernel) else launch.options
    with enter(next(iter(launch.tensors.values())).device):
        launch.kernel[launch.grid](**launch.args, **launch.constexprs, **options)


def check(launch: Launch) -> None:
    """Check the rules for all launches; kernel-specific checks are in the function that makes the launch.

    Raises:
        LaunchError: See `run`.
    """
    names = set(launch.kernel.arg_names)
    given_names = {*launch.args, *launch.constexprs}
    if given_names != names:
        wrong = ", ".join(sorted(given_names ^ names))
        raise LaunchError(f"{launch.name} takes the arguments {', '.join(sorted(names))}; missing or unknown: {wrong}")
    if any(count > most for count, most in zip(launch.grid, MAX_GRID, strict=False)):
        raise LaunchError(f"{launch.name}: a grid of {launch.grid} programs; the most is {MAX_GRID}. Send less at once")
    devices = {tensor.device for tensor in launch.tensors.values()}
    if len(devices) != 1:
        located = ", ".join(f"{name} on {tensor.device}" for name, tensor in launch.tensors.items())
        raise LaunchError(f"{launch.name}: all tensors must be on one device; found {located}")
    [device] = devices
    if device.type == "cpu" and not is_interpreted(launch.kernel):
        text = "these tensors are on the CPU, where Triton's kernels run only in its interpreter"
        raise LaunchError(f"{launch.name}: {text}. Use the kernels 'torch', or set TRITON_INTERPRET=1 before the start")
    for name, tensor in launch.tensors.items():
        if device.type != "meta" and tensor.data_ptr() % ALIGNMENT and tensor.numel():
            text = f"{name} begins {tensor.data_ptr() % ALIGNMENT} bytes behind a multiple of {ALIGNMENT}"
            raise LaunchError(f"{launch.name}: {text}; pass a tensor that owns its memory, such as its clone()")


def is_interpreted(kernel: object) -> bool:
    """Return True if the kernel was defined with TRITON_INTERPRET=1 set, so that it runs in Triton's interpreter."""
    return not isinstance(kernel, triton.JITFunction)


def check_shape(name: str, tensor: Tensor, shape: tuple[int | None, ...]) -> None:
    """Check a tensor's shape; None matches any size.

    Raises:
        LaunchError: If it differs.
    """
    fits = tensor.dim() == len(shape) and all(
        size in (actual, None) for actual, size in zip(tensor.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise LaunchError(f"{name} has the shape {tuple(tensor.shape)}, expected ({wanted})")


def check_dtype(name: str, tensor: Tensor, *dtypes: object) -> None:
    """Check that a kernel supports a tensor's dtype.

    Raises:
        LaunchError: If it does not.
    """
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise LaunchError(f"{name} is {str(tensor.dtype).removeprefix('torch.')}, expected {wanted}")


def check_unit_stride(name: str, tensor: Tensor) -> None:
    """Check that the last axis of a tensor has stride 1; rows may be strided.

    Raises:
        LaunchError: If it has not.
    """
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise LaunchError(f"{name} has the strides {tensor.stride()}; its last axis must have 1, as after contiguous()")


def check_contiguous(name: str, tensor: Tensor) -> None:
    """Check that a tensor is contiguous.

    Raises:
        LaunchError: If it is not.
    """
    if not tensor.is_contiguous():
        raise LaunchError(f"{name} has the strides {tensor.stride()}; pass its contiguous()")


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return a tensor on the meta device, for launches that are compiled and never run."""
    return torch.empty(shape, dtype=dtype, device="meta")


MODULES = (
    "router",
    "dispatch",
    "moe_gemv_int4",
    "moe_gemv_dense",
    "moe_int4",
    "moe_dense",
    "moe",
    "mla_decode",
    "mla_prefill",
    "vision_attention",
    "merge_patches",
    "norm",
    "latent",
)
"""Files of this package with a `release_cases()` function, which returns `KernelCase`s on the meta
device.
"""

MAX_SHARED_BYTES = 232_448
"""Shared memory of one block on Hopper, 227 KiB. Source: CUDA C++ programming guide, compute capability 9.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCase:
    """A shipped specialisation with the requirements on its compilation. Stack and spills must be 0 for all.

    Attributes:
        name: Unique name: the file's name, a dot, and a description, for example `moe_int4.gate_up M64`.
        launch: Launch with the sizes of the release.
        has_wgmma: True to require Hopper's matrix instruction for a group of four warps.
        has_async_copy: True to require asynchronous copies from global to shared memory (cp.async or TMA).
        max_int_to_float: Maximum number of integer-to-float conversions in the machine code; None for any number.
        max_registers: Maximum registers of a thread; the hardware's limit is 255.
    """

    name: str
    launch: Launch
    has_wgmma: bool = False
    has_async_copy: bool = False
    max_int_to_float: int | None = None
    max_registers: int = 255


def release_cases() -> Iterator[KernelCase]:
    """Yield the cases of all files."""
    for name in MODULES:
        yield from importlib.import_module(f"model_runtime.kernels.{name}").release_cases()
