"""A launch to machine code for Hopper, exactly as Triton would specialise it at its start.

Triton's own binder decides what is an argument of which type, what is folded in as a constant (ints of 1, None) and
what is known to be a multiple of 16. Tensors on the meta device are at address 0, thus aligned; `launch.run` refuses
others. ptxas comes with Triton's wheel, so neither a driver nor a GPU is needed.

Source: triton 3.6.0 and 3.9.0, `JITFunction.run` in python/triton/runtime/jit.py, up to the compile.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import create_function_from_signature

from model_runtime.errors import ConfigError
from model_runtime.kernels.launch import Launch, check, is_interpreted

TARGET = GPUTarget("cuda", 90, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialisation:
    """What Triton compiles for one launch.

    Attributes:
        signature: Each argument's type; `constexpr` for constants.
        constants: (place,) -> value of each constant.
        attributes: (place,) -> facts of an argument, such as `[["tt.divisibility", 16]]`.
        options: Of the compiler: warps, stages and Triton's defaults.
    """

    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    attributes: dict[tuple[int, ...], Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A compiled launch.

    Attributes:
        cubin: Machine code, an ELF file.
        dynamic_shared_bytes: Shared memory that its start asks for beside the static one in the ELF file.
    """

    cubin: bytes
    dynamic_shared_bytes: int


def specialise(launch: Launch) -> Specialisation:
    """What Triton would compile if this launch was started.

    Raises:
        ConfigError: The kernel was defined for the interpreter, or an argument is of a type that Triton does not take.
    """
    kernel = launch.kernel
    if is_interpreted(kernel):
        text = "was defined with TRITON_INTERPRET set and cannot be compiled; import it in a process without"
        raise ConfigError(f"{launch.name} {text}")
    backend = make_backend(TARGET)
    given = {**launch.args, **launch.constexprs, **launch.options}
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    try:
        bound, specialised, rest = bind(**given)
    except (KeyError, TypeError, AttributeError) as error:
        kinds = ", ".join(f"{name}: {_kind(value)}" for name, value in launch.args.items())
        raise ConfigError(f"Triton takes no such arguments for {launch.name} ({error}): {kinds}") from error
    options, signature, constants, attributes = kernel._pack_args(backend, given, bound, specialised, rest)
    return Specialisation(
        signature=signature, constants=constants, attributes=attributes, options=dict(options.__dict__)
    )


def _kind(value: object) -> str:
    return str(getattr(value, "dtype", type(value).__name__))


def compile_launch(launch: Launch) -> Binary:
    """Compile exactly what this launch would start.

    Raises:
        ConfigError: The launch is malformed; see `launch.check` and `specialise`.
        triton.TritonError: The compiler does not take the kernel.
        RuntimeError: A pass of the compiler failed.
    """
    check(launch)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")  # 3.9 announces 3.10's default
        made = specialise(launch)
        source = ASTSource(launch.kernel, made.signature, made.constants, made.attributes)
        compiled = triton.compile(source, target=TARGET, options=made.options)
    return Binary(cubin=compiled.asm["cubin"], dynamic_shared_bytes=compiled.metadata.shared)
