"""Whether a request can be run at all, and when its output ends."""

from model_runtime.engine.contract import EngineRequest, FinishReason, ModelCard
from model_runtime.engine.grammar import GrammarEngine
from model_runtime.engine.output_text import StopChecker, TextOut
from model_runtime.engine.sampling.state import make_state
from model_runtime.engine.sequence import Sequence
from model_runtime.errors import RequestError
from model_runtime.media import Prompt
from model_runtime.tokenizer import Tokenizer


class Admission:
    """Limits of one model."""

    def __init__(self, tokenizer: Tokenizer, card: ModelCard) -> None:
        self.card = card
        self._tokenizer = tokenizer
        self._grammars = GrammarEngine(tokenizer)

    def check(self, request: EngineRequest) -> None:
        """Refuse what cannot be run.

        A `max_tokens` beyond the context is no error: the output then ends with `length` where the context does.

        Raises:
            RequestError: The prompt is empty, too long, or holds what is no token; a value is out of its range.
        """
        request.params.check()
        StopChecker(request.params.stop)
        if request.params.grammar is not None:
            self._grammars.compile(request.params.grammar)  # kept: the engine's own call finds it compiled
        found, most = len(request.prompt.token_ids), self.card.max_prompt_len
        if found > most:
            in_media = sum(span.item.num_tokens for span in request.prompt.media)
            text = f"the prompt has {found} tokens ({in_media} of images or video); the model takes {most} and a reply"
            raise RequestError(
                f"{text}. Send less history or fewer images", param="messages", code="context_length_exceeded"
            )
        check_prompt(request.prompt, self._tokenizer, self.card.vocab_size)

    def make_sequence(self, request: EngineRequest, arrival: int, now: float) -> Sequence:
        """The request as a sequence, ready to queue."""
        left = self.card.max_model_len - len(request.prompt.token_ids)
        return Sequence(
            request=request,
            arrival=arrival,
            arrived_at=now,
            max_tokens=min(left, request.params.max_tokens or left),
            state=make_state(request, self._tokenizer, self.card.stop_token_ids, self._grammars),
            text_out=TextOut(self._tokenizer, request.params.stop),
        )

    def is_end_token(self, sequence: Sequence, token_id: int) -> bool:
        """Whether the newest token ends the sequence: by the grammar, the model's own end, or the request's."""
        if sequence.state is not None and sequence.state.is_complete:
            return True
        params = sequence.request.params
        own = not params.ignore_eos and token_id in self.card.stop_token_ids
        return (own or token_id in params.stop_token_ids) and sequence.num_output > params.min_tokens

    def find_end(self, sequence: Sequence) -> tuple[FinishReason | None, str | int | None]:
        """Why the sequence ends after its newest token, if it does, and the token that the request named."""
        token_id = sequence.token_ids[-1]
        if self.is_end_token(sequence, token_id):
            return "stop", token_id if token_id in sequence.request.params.stop_token_ids else None
        return ("length" if sequence.num_output >= sequence.max_tokens else None), None


def check_prompt(prompt: Prompt, tokenizer: Tokenizer, vocab_size: int) -> None:
    """Refuse a prompt whose tokens or media do not fit together.

    Raises:
        RequestError: It is empty, an id is outside the vocabulary, or placeholders and media differ.
    """
    token_ids, pad = prompt.token_ids, tokenizer.special.media_pad
    if not token_ids:
        raise RequestError("the prompt is empty; expected one token or more", param="prompt")
    low, high = min(token_ids), max(token_ids)
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        raise RequestError(
            f"token id {wrong} is outside the vocabulary; expected 0 to {vocab_size - 1}", param="prompt"
        )
    covered = [i for span in prompt.media for i in range(span.offset, span.end)]
    if covered != [i for i, token_id in enumerate(token_ids) if token_id == pad]:
        places = token_ids.count(pad)
        text = f"the prompt has {places} media placeholders, and media for {len(covered)}"
        raise RequestError(
            f"{text}; each media item takes as many placeholders as it has tokens, in order", param="prompt"
        )
