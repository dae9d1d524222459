"""Sequences with blocks of a cache, driven by hand: what the engine does, without one."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from model_runtime.model import ForwardBatch, K25Model

BLOCK_SIZE = 8


class Drive:
    """A model with a cache; sequences are named and take their blocks from a shuffled pool."""

    def __init__(self, model: K25Model, num_blocks: int = 64) -> None:
        self.model = model
        self.cache = model.make_cache(num_blocks, BLOCK_SIZE)
        self.cache.fill_(torch.nan)  # what no token has written may never count
        self.free = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0)).tolist()
        self.blocks: dict[str, list[int]] = {}
        self.lens: dict[str, int] = {}

    def share(self, name: str, other: str, num_tokens: int) -> None:
        """Let a new sequence begin with another one's cached tokens: whole blocks."""
        assert num_tokens % BLOCK_SIZE == 0
        self.blocks[name], self.lens[name] = self.blocks[other][: num_tokens // BLOCK_SIZE], num_tokens

    def embed(self, token_ids: Sequence[int]) -> Tensor:
        return self.model.embed(torch.tensor(token_ids, device=self.model.device))

    def step(self, chunks: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """One step; sequences of one token that have a past decode. Gives each its (tokens, vocab) logits."""
        return self.step_rows({name: self.embed(ids) for name, ids in chunks.items()})

    def step_rows(self, chunks: Mapping[str, Tensor], *, can_decode: bool = True) -> dict[str, Tensor]:
        """As `step`, with rows in place of tokens."""
        decodes = [name for name in chunks if can_decode and len(chunks[name]) == 1 and self.lens.get(name)]
        names = decodes + [name for name in chunks if name not in decodes]
        positions = [range(self.lens.get(name, 0), self.lens.get(name, 0) + len(chunks[name])) for name in names]
        for name, here in zip(names, positions, strict=True):
            blocks = self.blocks.setdefault(name, [])
            blocks += [self.free.pop() for _ in range(-(-here.stop // BLOCK_SIZE) - len(blocks))]
            self.lens[name] = here.stop
        batch = self._make_batch(names, positions, len(decodes))
        hidden = self.model.forward(torch.cat([chunks[name] for name in names]), batch, self.cache)
        logits = self.model.logits(hidden)
        return dict(zip(names, logits.split([len(chunks[name]) for name in names]), strict=True))

    def _make_batch(self, names: list[str], positions: list[range], num_decodes: int) -> ForwardBatch:
        width = max(len(self.blocks[name]) for name in names)
        slots = [
            self.blocks[name][position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
            for name, here in zip(names, positions, strict=True)
            for position in here
        ]
        bounds = [0]
        for here in positions:
            bounds.append(bounds[-1] + len(here))
        tables = [self.blocks[name] + [0] * (width - len(self.blocks[name])) for name in names]
        return ForwardBatch(
            positions=torch.tensor([position for here in positions for position in here], device=self.model.device),
            slot_mapping=torch.tensor(slots, device=self.model.device),
            block_tables=torch.tensor(tables, dtype=torch.int32, device=self.model.device),
            cu_seqlens_q=tuple(bounds),
            seq_lens=tuple(self.lens[name] for name in names),
            num_decodes=num_decodes,
            block_size=BLOCK_SIZE,
        )


def run_whole(model: K25Model, token_ids: Sequence[int]) -> Tensor:
    """Logits (tokens, vocab) of a sequence in one step."""
    return Drive(model).step({"all": token_ids})["all"]


def make_ids(count: int, seed: int = 0, vocab_size: int = 1024) -> list[int]:
    return torch.randint(0, vocab_size, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return (a.double() - b.double()).abs().max().item()
