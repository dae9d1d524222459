"""One request on its way through the engine."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from model_runtime.engine.contract import EngineRequest
from model_runtime.engine.kv_cache import hash_block

if TYPE_CHECKING:
    from model_runtime.engine.output_text import TextOut
    from model_runtime.engine.sampling.state import SamplingState


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """Tokens known so far, and how many of them the cache holds.

    Attributes:
        request: What was asked.
        arrival: Counter of arrivals; with the request's priority it says who goes first.
        arrived_at: Seconds on the monotonic clock.
        max_tokens: Tokens to generate at most.
        token_ids: Prompt, then output.
        num_computed: Tokens from the start whose latents are in the cache.
        num_cached: Prompt tokens that came from the prefix cache, the first time it was admitted.
        block_table: Blocks of the cache, in order.
        hashes: Hash of each full block known so far.
    """

    request: EngineRequest
    arrival: int
    arrived_at: float
    max_tokens: int
    state: "SamplingState | None" = None
    text_out: "TextOut | None" = None
    token_ids: list[int] = field(default_factory=list)
    num_computed: int = 0
    num_cached: int | None = None
    num_published: int = 0
    block_table: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    last_token_at: float | None = None

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt.token_ids)

    @property
    def num_output(self) -> int:
        """Tokens generated."""
        return len(self.token_ids) - self.num_prompt

    @property
    def rank(self) -> tuple[int, int]:
        """Who goes first: lower runs earlier and is preempted later."""
        return self.request.priority, self.arrival

    def hash_up_to(self, num_blocks: int, block_size: int) -> list[bytes]:
        """Hashes of the first `num_blocks` blocks, which must be full of known tokens."""
        while len(self.hashes) < num_blocks:
            start = len(self.hashes) * block_size
            parent = self.hashes[-1] if self.hashes else b""
            tokens = self.token_ids[start : start + block_size]
            self.hashes.append(hash_block(parent, tokens, self.request.prompt.media, start))
        return self.hashes[:num_blocks]
