"""Models that are logits alone, behind the real engine: one that speaks at random, one that says what it is told."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model_runtime.engine.contract import EngineOptions, ModelCard, WeightUpdate
from model_runtime.engine.engine import Engine
from model_runtime.engine.runner import StepInput
from model_runtime.engine.thread import EngineThread
from model_runtime.tokenizer import Tokenizer


class RandomModel:
    """An executor with random logits, where control tokens and what closes JSON are likely: replies come to an end.

    Attributes:
        closing: Added to those logits.
    """

    can_go_on_after_fault = True
    encoded: frozenset[bytes] = frozenset()

    def __init__(self, tokenizer: Tokenizer, closing: float = 4.0) -> None:
        self.closing = torch.zeros(tokenizer.vocab_size)
        self.closing[tokenizer.special.first_id :] = closing
        self.closing[[tokenizer.encode(text)[0] for text in ('"', "}", "]", ",", ":")]] = closing
        self._generator = torch.Generator().manual_seed(0)

    def run(self, step: StepInput) -> Tensor:
        shape = (len(step.logit_rows), len(self.closing))
        return torch.randn(shape, generator=self._generator) * 2 + self.closing

    def update(self, update: WeightUpdate) -> None: ...

    def close(self) -> None: ...


class ToldModel:
    """An executor that wants to say one thing; each position has its token, whatever stands before it.

    Attributes:
        wish: Tokens of the reply, or names of control tokens.
        num_prompt: Tokens of the prompt that was seen last.
    """

    can_go_on_after_fault = True
    encoded: frozenset[bytes] = frozenset()

    def __init__(self, tokenizer: Tokenizer, wish: Sequence[str]) -> None:
        special = tokenizer.special
        self.vocab_size = tokenizer.vocab_size
        self.wish = [
            one for text in wish for one in ([special.ids[text]] if text in special.ids else tokenizer.encode(text))
        ]
        self.num_prompt = 0

    def run(self, step: StepInput) -> Tensor:
        logits = torch.zeros(len(step.logit_rows), self.vocab_size)
        for row, index in enumerate(step.logit_rows):
            position = step.positions[index]
            if len(step.token_ids) > 1:
                self.num_prompt = position + 1
            place = position + 1 - self.num_prompt
            if place < len(self.wish):
                logits[row, self.wish[place]] = 50.0
        return logits

    def update(self, update: WeightUpdate) -> None: ...

    def close(self) -> None: ...


def start_spoken(model: RandomModel | ToldModel, tokenizer: Tokenizer) -> EngineThread:
    """An engine over such a model."""
    options = EngineOptions(block_size=64, num_blocks=256)
    card = ModelCard(
        name="spoken",
        max_model_len=8192,
        vocab_size=tokenizer.vocab_size,
        stop_token_ids=(tokenizer.special.im_end, tokenizer.special.eos),
    )
    return EngineThread(Engine(model, tokenizer, card, options), tokenizer)
