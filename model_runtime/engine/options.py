"""How much the engine takes on at once."""

from dataclasses import dataclass

from model_runtime.errors import CapacityError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Sizes of cache, batch and queue.

    Attributes:
        block_size: Tokens in one block of the latent cache; prefixes are shared in whole blocks.
        num_blocks: Blocks in the cache.
        max_model_len: Longest sequence, prompt and output; None for what model and cache allow.
        max_num_seqs: Sequences that run at once.
        max_num_batched_tokens: Tokens of one step; a longer prompt is computed in pieces, between which others decode.
        max_waiting: Requests that may queue before new ones are turned away.
        media_patches_per_step: Patches the vision tower encodes in one step, beyond the first item.
        feature_cache_bytes: Memory for encoded media, so that a picture that is sent again is not encoded again.
        has_prefix_cache: Share the cache of equal beginnings.
        has_cuda_graphs: On a GPU with Triton's kernels, decode by CUDA graphs, which are captured at the start.
    """

    block_size: int = 64
    num_blocks: int = 1024
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 4096
    max_waiting: int = 1024
    media_patches_per_step: int = 16_384
    feature_cache_bytes: int = 1 << 30
    has_prefix_cache: bool = True
    has_cuda_graphs: bool = True

    def check(self) -> "EngineOptions":
        """The options themselves when they can work.

        Raises:
            CapacityError: A size is too small to run one sequence.
        """
        low = {"block_size": 1, "num_blocks": 2, "max_num_seqs": 1, "max_num_batched_tokens": 1, "max_waiting": 1}
        for name, least in low.items():
            if getattr(self, name) < least:
                raise CapacityError(f"{name} is {getattr(self, name)}; expected {least} or more")
        if self.max_num_batched_tokens < self.max_num_seqs:
            text = (
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, less than max_num_seqs ({self.max_num_seqs})"
            )
            raise CapacityError(
                f"{text}: each running sequence takes one token a step; raise the first or lower the second"
            )
        return self
