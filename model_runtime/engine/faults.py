"""Faults that cost one request, not the engine."""

from model_runtime.engine.sequence import Sequence

_SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch, on whatever device, says that memory ran out."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


def describe_out_of_memory(sequence: Sequence, error: BaseException) -> str:
    """What the client of the request that was given up is told."""
    media = sum(span.item.num_patches for span in sequence.request.prompt.media)
    first = (str(error).splitlines() or ["MemoryError"])[0][:200]
    found = f"the server ran out of memory on this request ({sequence.num_prompt} prompt tokens, {media} image patches)"
    return f"{found}: {first}. Send fewer or smaller images, or ask the operator for a smaller max_num_batched_tokens"
