"""What machine code must be like to be shipped."""

from collections.abc import Iterator

from model_runtime.kernels.aot.figures import Resources
from model_runtime.kernels.cases import MAX_SHARED_BYTES, Case


def find_violations(case: Case, found: Resources) -> Iterator[str]:
    """Everything that is wrong with a case's machine code, in words; nothing when it may be shipped."""
    if found.stack_bytes or found.spills:
        text = (
            f"spills: {found.stack_bytes} bytes of stack, {found.spills} loads and stores of local memory, expected 0"
        )
        yield f"{text}; use smaller blocks or more warps"
    if found.hazards:
        text = f"{found.hazards} writes to registers that a wgmma under way still reads: wrong results, no warning"
        yield f"{text}; bring its left operand through shared memory"
    if found.registers > case.max_registers:
        yield f"{found.registers} registers, expected at most {case.max_registers}"
    if found.shared_bytes > MAX_SHARED_BYTES:
        text = f"{found.shared_bytes:,} bytes of shared memory, expected at most {MAX_SHARED_BYTES:,}"
        yield f"{text}; use smaller blocks or fewer stages"
    if case.has_wgmma and not found.hgmma:
        yield f"no HGMMA ({found.hmma} HMMA); it takes at least 64 rows and 4 warps"
    if case.has_async_copy and not found.loop_copies:
        yield "no LDGSTS or UTMALDG in its loop: loads are not pipelined; are strides known to be 1 or multiples of 16?"
    if case.max_int_to_float is not None and found.int_to_float > case.max_int_to_float:
        text = f"{found.int_to_float} conversions of integers to floats, expected at most {case.max_int_to_float}"
        yield f"{text}; put the bits of small integers into a float's"
