"""A model that counts: after token t comes t + 1. It stands where the real one would in tests of the engine."""

import threading

import torch
from torch import Tensor

from model_runtime.engine.contract import EngineOptions, EngineOutput, EngineRequest, ModelCard, WeightUpdate
from model_runtime.engine.engine import Engine
from model_runtime.engine.runner import StepInput
from model_runtime.engine.sampling import SamplingParams
from model_runtime.errors import CheckpointError
from model_runtime.media import MediaSpan, Prompt
from model_runtime.tokenizer import Tokenizer

SPECIAL_FROM = 1024


class CountingExecutor:
    """Computes by counting; can be told to fail.

    Attributes:
        nan_after: A token after which it is not a number what comes next.
        most_tokens: A larger step runs out of memory.
        broken: Raised by the next step.
        can_go_on_after_fault: As one with several ranks cannot.
        gate: Each step waits for it.
    """

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.nan_after: int | None = None
        self.most_tokens = 10_000
        self.broken: BaseException | None = None
        self.can_go_on_after_fault = True
        self.gate = threading.Event()
        self.gate.set()
        self.steps: list[StepInput] = []
        self.updates: list[tuple[int, str]] = []
        self.is_closed = False
        self._encoded: set[bytes] = set()

    @property
    def encoded(self) -> frozenset[bytes]:
        return frozenset(self._encoded)

    def run(self, step: StepInput) -> Tensor:
        assert self.gate.wait(timeout=30)
        if self.broken is not None:
            raise self.broken
        if len(step.token_ids) > self.most_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory: tried to allocate 3 GiB")
        self.steps.append(step)
        self._encoded -= set(step.drop)
        self._encoded |= {item.content_hash for item in step.encode}
        assert {place.content_hash for place in step.placements} <= self._encoded
        logits = torch.zeros(len(step.logit_rows), self.vocab_size)
        for row, index in enumerate(step.logit_rows):
            token = step.token_ids[index]
            logits[row, (token + 1) % SPECIAL_FROM] = 20.0
            if token == self.nan_after:
                logits[row] = float("nan")
        return logits

    def update(self, update: WeightUpdate) -> None:
        if not update.source:
            raise CheckpointError("there are no weights")
        self._encoded.clear()
        self.updates.append((len(self.steps), update.version))

    def close(self) -> None:
        self.is_closed = True


def make_engine(tokenizer: Tokenizer, **options: int) -> tuple[Engine, CountingExecutor]:
    sizes = EngineOptions(**{"block_size": 4, "num_blocks": 64, "max_num_batched_tokens": 64, **options})
    executor = CountingExecutor(tokenizer.vocab_size)
    card = ModelCard(
        name="counting",
        max_model_len=sizes.max_model_len or sizes.num_blocks * sizes.block_size,
        vocab_size=tokenizer.vocab_size,
        stop_token_ids=(tokenizer.special.im_end, tokenizer.special.eos),
    )
    return Engine(executor, tokenizer, card, sizes), executor


def make_request(
    token_ids: list[int], *, name: str = "a", media: tuple[MediaSpan, ...] = (), **params: object
) -> EngineRequest:
    wanted = {"temperature": 0.0, "max_tokens": 4, **params}
    return EngineRequest(
        request_id=name,
        prompt=Prompt(token_ids=tuple(token_ids), media=media),
        params=SamplingParams(**wanted),  # type: ignore[arg-type]
    )


def run_all(engine: Engine) -> dict[str, list[EngineOutput]]:
    outputs: dict[str, list[EngineOutput]] = {}
    for _ in range(500):
        if not engine.has_work:
            return outputs
        for name, output in engine.step():
            outputs.setdefault(name, []).append(output)
    raise AssertionError("it never ends")
