"""Tokens of one sequence to text as it may be shown, and whether the text ends the sequence."""

from collections.abc import Iterable

from model_runtime.engine.contract import Delta
from model_runtime.engine.detokenize import Detokenizer
from model_runtime.engine.stops import StopChecker
from model_runtime.tokenizer import Tokenizer


class TextOut:
    """Bytes to characters, then stop texts: both may hold text back."""

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...]) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopChecker(stop)
        self.stopped_by: str | None = None

    def push(self, token_id: int) -> tuple[Delta, ...]:
        """What a further token lets out."""
        return tuple(self._pass(self._detokenizer.feed(token_id)))

    def finish(self) -> tuple[Delta, ...]:
        """What was held back, when no more tokens come."""
        deltas = list(self._pass(self._detokenizer.finish()))
        if self.stopped_by is None:
            deltas += filter(None, [self._stops.flush()])
        return tuple(deltas)

    def _pass(self, deltas: Iterable[Delta]) -> Iterable[Delta]:
        for delta in deltas:
            if self.stopped_by is not None:
                return
            if isinstance(delta, int):
                yield from filter(None, [self._stops.flush()])
                yield delta
                continue
            safe, self.stopped_by = self._stops.feed(delta)
            if safe:
                yield safe
