"""Whether a device computes faster in bf16 than in fp32."""

import time

import torch

ROWS, WIDTH, INNER = 2048, 128, 768
"""A matrix product of the small model's vision tower: patches of a batch by its MLP."""
TRIES, ROUNDS = 15, 5
"""Products that are timed together, and how often for each precision in turn: the shortest time counts, since one that
something else delayed would decide on the precision of a whole run."""


def is_bf16_faster(device: torch.device) -> bool:
    """Whether matrix products of a small model take less time in bf16.

    Processors that can compute in bf16 differ: a step of the tower took a fifth less on one (an EPYC), single products
    twice as long on another (a Xeon without AMX), and both name the same instructions (AVX-512 BF16). So products are
    timed there, which takes half a second.
    """
    if device.type != "cpu":
        return True
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several wait for each other, and waiting is counted, too
    try:
        pairs = [(_time_products(torch.bfloat16), _time_products(torch.float32)) for _ in range(ROUNDS)]
        return min(bf16 for bf16, _ in pairs) < min(fp32 for _, fp32 in pairs)
    finally:
        torch.set_num_threads(threads)


def _time_products(dtype: torch.dtype) -> float:
    """Seconds of CPU time that products take, which other work hardly changes; some count it in steps of 10 ms."""
    rows, weight = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(INNER, WIDTH, dtype=dtype)
    torch.nn.functional.linear(rows, weight)
    started = time.process_time()
    for _ in range(TRIES):
        torch.nn.functional.linear(rows, weight)
    return time.process_time() - started
