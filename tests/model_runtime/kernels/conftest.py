"""The kernels in Triton's interpreter, which the conftest of the folder above turns on.

The interpreter multiplies the bit patterns of bf16 operands of `tl.dot`; what the tests of bf16 need is patched below,
in the tests only. Arithmetic on bf16 values is as wrong and not patched: kernels compute in fp32.
"""

import importlib.util

import pytest

MISSING = importlib.util.find_spec("triton") is None
collect_ignore_glob = ["test_*"] if MISSING else []


@pytest.fixture(scope="session", autouse=True)
def _bf16_dots() -> None:
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    if getattr(interpreter, "k25_patched", False):
        return
    dot = interpreter.InterpreterBuilder.create_dot

    def as_fp32(handle):  # type: ignore[no-untyped-def]
        if handle.dtype.scalar == tl.bfloat16:
            values = (handle.data.astype(np.uint32) << 16).view(np.float32)
            return interpreter.TensorHandle(values, tl.float32)
        return handle

    def create_dot(self, a, b, d, *rest, **more):  # type: ignore[no-untyped-def]
        return dot(self, as_fp32(a), as_fp32(b), d, *rest, **more)

    interpreter.InterpreterBuilder.create_dot = create_dot
    interpreter.k25_patched = True
