"""Selection of the tokens for the next step, and the state of each running request.

Every running sequence that only decodes gets its one token; the rest of the token budget goes to chunks of prompts,
oldest first. A long prompt therefore delays other sequences' next token by at most one step.

Source: Agrawal et al. 2024, arXiv 2403.02310 (chunked prefill).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from model_runtime.engine.contract import EngineOptions, EngineRequest
from model_runtime.engine.kv_cache import BlockPool, hash_block
from model_runtime.media import MediaSpan

if TYPE_CHECKING:
    from model_runtime.engine.output_text import TextOut
    from model_runtime.engine.sampling.state import SamplingState


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """Tokens of a sequence so far, and the number of them in the cache.

    Attributes:
        arrival: Arrival number; determines the order together with the request's priority.
        arrived_at: Arrival time in seconds on the monotonic clock.
        token_ids: Prompt, then output.
        num_computed: Number of tokens from the start whose latents are in the cache.
        num_cached: Prompt tokens that came from the prefix cache when it was first admitted.
        block_table: Blocks of the cache, in order.
        hashes: Hashes of the full blocks so far.
        salt: Start of the hashes: differs for each version of the weights.
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
    salt: bytes = b""
    last_token_at: float | None = None

    @property
    def num_prompt(self) -> int:
        """Number of prompt tokens."""
        return len(self.request.prompt.token_ids)

    @property
    def num_output(self) -> int:
        """Number of generated tokens."""
        return len(self.token_ids) - self.num_prompt

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: lower runs earlier and is preempted later."""
        return self.request.priority, self.arrival

    def hash_up_to(self, num_blocks: int, block_size: int) -> list[bytes]:
        """Return hashes of the first `num_blocks` blocks, which must be full."""
        while len(self.hashes) < num_blocks:
            start = len(self.hashes) * block_size
            parent = self.hashes[-1] if self.hashes else self.salt
            tokens = self.token_ids[start : start + block_size]
            self.hashes.append(hash_block(parent, tokens, self.request.prompt.media, start))
        return self.hashes[:num_blocks]


MAX_SCORED_TOKENS = 512
"""Maximum number of tokens per step of a prompt with log-probabilities: a row of logits is as wide as the
vocabulary.
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `start` to `end` of a sequence, to be computed in one step."""

    sequence: Sequence
    start: int
    end: int

    @property
    def num_tokens(self) -> int:
        """Number of tokens to compute."""
        return self.end - self.start

    @property
    def is_last(self) -> bool:
        """True if a token is sampled after it."""
        return self.end == len(self.sequence.token_ids)

    def media(self) -> Iterable[MediaSpan]:
        """Yield media with placeholders in it."""
        return (s for s in self.sequence.request.prompt.media if s.offset < self.end and self.start < s.end)


class Scheduler:
    """Waiting and running sequences, and their blocks. Uses tokens and counts, no tensors."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.pool = BlockPool(options.num_blocks)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.num_preemptions = 0
        self.is_admitting = True  # False: only sequences that have output are admitted
        self._salt = b""

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence."""
        sequence.salt = self._salt
        sequence.token_ids = list(sequence.request.prompt.token_ids)
        self.waiting.append(sequence)
        self.waiting.sort(key=lambda s: s.rank)

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence, waiting or running, and release its blocks."""
        for group in (self.waiting, self.running):
            if sequence in group:
                group.remove(sequence)
        self._release(sequence)

    def schedule(self, encoded: frozenset[bytes] | set[bytes] = frozenset()) -> list[Chunk]:
        """Return the next step's chunks, single tokens first; media with `encoded` content hashes cost nothing."""
        budget = _Budget(self.options, set(encoded))
        chunks = self._decode(budget)
        chunks += self._continue_prompts(budget)
        if len(chunks) == len(self.running):  # no sequence was preempted or lacks memory
            chunks += self._admit(budget)
        return sorted(chunks, key=lambda chunk: chunk.num_tokens > 1)

    def computed(self, chunks: Iterable[Chunk]) -> None:
        """Record that the chunks' latents are in the cache; full blocks can be shared from now on."""
        size = self.options.block_size
        for chunk in chunks:
            sequence = chunk.sequence
            sequence.num_computed = chunk.end
            if not self.options.has_prefix_cache:
                continue
            full = chunk.end // size
            hashes = sequence.hash_up_to(full, size)
            for index in range(sequence.num_published, full):
                self.pool.publish(sequence.block_table[index], hashes[index])
            sequence.num_published = max(sequence.num_published, full)

    @property
    def has_begun(self) -> bool:
        """True if a sequence has output, or is running."""
        return bool(self.running) or any(sequence.num_output for sequence in self.waiting)

    def begin_version(self, salt: bytes) -> None:
        """Share no more blocks that were computed before; nothing may be running."""
        self._salt = salt
        self.is_admitting = True
        for sequence in self.waiting:
            sequence.salt = salt
            sequence.hashes.clear()

    def preempt(self, sequence: Sequence) -> None:
        """Release a running sequence's blocks and requeue it; it keeps its tokens and is recomputed later."""
        self.running.remove(sequence)
        self._release(sequence)
        self.waiting.append(sequence)
        self.waiting.sort(key=lambda s: s.rank)
        self.num_preemptions += 1

    def _decode(self, budget: "_Budget") -> list[Chunk]:
        chunks: list[Chunk] = []
        for sequence in sorted(self.running, key=lambda s: s.rank):
            end = len(sequence.token_ids)
            if sequence not in self.running or sequence.num_computed != end - 1:
                continue
            if not self._grow(sequence, end, may_preempt=True):
                continue  # it preempted itself
            chunks.append(budget.spend(Chunk(sequence, end - 1, end)))
        return [chunk for chunk in chunks if chunk.sequence in self.running]

    def _continue_prompts(self, budget: "_Budget") -> list[Chunk]:
        chunks = []
        for sequence in sorted(self.running, key=lambda s: s.rank):
            if sequence.num_computed == len(sequence.token_ids) - 1:
                continue
            end = budget.end_of(sequence)
            if end > sequence.num_computed and self._grow(sequence, end, may_preempt=False):
                chunks.append(budget.spend(Chunk(sequence, sequence.num_computed, end)))
        if not chunks and self.running and all(s.num_computed < len(s.token_ids) - 1 for s in self.running):
            chunks = self._force_oldest(budget)
        return chunks

    def _force_oldest(self, budget: "_Budget") -> list[Chunk]:
        """Preempt the youngest in favour of the oldest sequence; used if all running ones are prompts without enough
        memory.
        """
        oldest = min(self.running, key=lambda s: s.rank)
        end = budget.end_of(oldest)
        if end > oldest.num_computed and self._grow(oldest, end, may_preempt=True):
            return [budget.spend(Chunk(oldest, oldest.num_computed, end))]
        return []

    def _admit(self, budget: "_Budget") -> list[Chunk]:
        chunks: list[Chunk] = []
        if not self.waiting:
            return chunks
        in_flight = {h for s in self.running for h in self._hashes_to_come(s)}
        for sequence in list(self.waiting):
            if budget.tokens <= 0 or len(self.running) >= self.options.max_num_seqs:
                break
            if not self.is_admitting and not sequence.num_output:
                continue
            shared = self._find_prefix(sequence)
            to_come = self._hashes_to_come(sequence, len(shared))
            if to_come and to_come[0] in in_flight:
                continue  # another sequence is computing this block: its result is shared one step later
            if not self._fits(sequence, shared, budget):
                break
            self._start(sequence, shared)
            end = budget.end_of(sequence)
            if end == sequence.num_computed or not self._grow(sequence, end, may_preempt=False):
                self._release(sequence)
                break
            self.waiting.remove(sequence)
            self.running.append(sequence)
            in_flight.update(to_come)
            chunks.append(budget.spend(Chunk(sequence, sequence.num_computed, end)))
        return chunks

    def _find_prefix(self, sequence: Sequence) -> list[int]:
        """Return blocks that already hold the sequence's prefix; at least one token is left to compute."""
        if not self.options.has_prefix_cache or sequence.request.params.prompt_logprobs is not None:
            return []
        blocks = []
        for block_hash in self._hashes_to_come(sequence, 0):
            block = self.pool.find(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def _hashes_to_come(self, sequence: Sequence, first: int | None = None) -> list[bytes]:
        if not self.options.has_prefix_cache:
            return []
        full = (len(sequence.token_ids) - 1) // self.options.block_size
        hashes = sequence.hash_up_to(full, self.options.block_size)
        return hashes[sequence.num_published if first is None else first :]

    def _fits(self, sequence: Sequence, shared: list[int], budget: "_Budget") -> bool:
        """Return True if the whole sequence fits in addition to the running ones, so that it is not preempted soon."""
        total = -(-(len(sequence.token_ids) + 1) // self.options.block_size)
        revived = sum(self.pool.is_free(block) for block in shared)
        room = self.pool.num_free - revived
        reserve = len(self.running) if self.running else 0  # each running sequence may soon need one more
        return total - len(shared) + reserve <= room

    def _start(self, sequence: Sequence, shared: list[int]) -> None:
        sequence.block_table = [self.pool.share(block) for block in shared]
        sequence.num_computed = len(shared) * self.options.block_size
        sequence.num_published = len(shared)

    def _grow(self, sequence: Sequence, num_tokens: int, *, may_preempt: bool) -> bool:
        """Allocate blocks for `num_tokens` tokens; return False if there are too few, or the sequence itself was
        preempted.
        """
        missing = -(-num_tokens // self.options.block_size) - len(sequence.block_table)
        while missing > self.pool.num_free:
            victim = max(self.running, key=lambda s: s.rank, default=None)
            if not may_preempt or victim is None:
                return False
            self.preempt(victim)
            if victim is sequence:
                return False
        sequence.block_table += [self.pool.take() for _ in range(missing)]
        return True

    def _release(self, sequence: Sequence) -> None:
        self.pool.release(sequence.block_table)
        sequence.block_table = []
        sequence.num_computed = sequence.num_published = 0


class _Budget:
    """Remaining budget of one step: tokens, and patches for the vision tower."""

    def __init__(self, options: EngineOptions, encoded: set[bytes]) -> None:
        self.tokens = options.max_num_batched_tokens
        self._patches = options.media_patches_per_step
        self._encoded = encoded
        self._has_encoded = False

    def end_of(self, sequence: Sequence) -> int:
        """Return the end of the sequence's next chunk, limited by the tokens left and by media that this step cannot
        encode.
        """
        most = self.tokens
        if sequence.request.params.prompt_logprobs is not None:
            most = min(most, MAX_SCORED_TOKENS)
        end = min(len(sequence.token_ids), sequence.num_computed + most)
        patches, is_first = self._patches, not self._has_encoded
        for span in sequence.request.prompt.media:
            if span.end <= sequence.num_computed or span.offset >= end or span.item.content_hash in self._encoded:
                continue
            if span.item.num_patches > patches and not is_first:
                return max(span.offset, sequence.num_computed)
            patches, is_first = patches - span.item.num_patches, False
        return end

    def spend(self, chunk: Chunk) -> Chunk:
        """Subtract the chunk's costs, and return the chunk."""
        self.tokens -= chunk.num_tokens
        for span in chunk.media():
            if span.item.content_hash not in self._encoded:
                self._encoded.add(span.item.content_hash)
                self._patches -= span.item.num_patches
                self._has_encoded = True
        return chunk
