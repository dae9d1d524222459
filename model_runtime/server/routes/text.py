"""`POST /v1/completions`: text or token ids in, text and token ids out."""

from starlette.requests import Request

from model_runtime.cancellation import run_in_thread
from model_runtime.engine.contract import EngineRequest
from model_runtime.errors import RequestError
from model_runtime.media import Prompt
from model_runtime.server.answer import Answer
from model_runtime.server.body import read_body
from model_runtime.server.exchange import Exchange
from model_runtime.server.reading.sampling import text_params
from model_runtime.server.replies.reply import ReplyHead, read_wishes
from model_runtime.server.replies.text import TextChoice, TextReply, TextWishes
from model_runtime.server.routes.run import Prepared, exchange_of, make_answer, make_reply_id, state_of
from model_runtime.server.schemas.common import MAX_CHOICES
from model_runtime.server.schemas.text import TextRequest
from model_runtime.server.sequences import make_choices
from model_runtime.server.state import ServerState
from model_runtime.tokenizer import TokenBudget, Tokenizer


async def complete_text(request: Request) -> Answer:
    """Continue a text, or token ids."""
    state = state_of(request)
    asked = await read_body(request, TextRequest, timeout_s=state.options.body_timeout_s)
    return make_answer(state, asked, lambda: _prepare(state, asked, exchange_of(request)))


async def _prepare(state: ServerState, asked: TextRequest, exchange: Exchange) -> Prepared:
    model = state.check_model(asked.model)
    params = text_params(asked)
    wishes = TextWishes(
        stream=read_wishes(asked),
        has_echo=bool(asked.echo),
        is_echo_only=asked.max_tokens == 0,
        with_logprobs=asked.logprobs is not None,
        with_prompt_logprobs=asked.prompt_logprobs is not None,
        with_token_ids=bool(asked.return_token_ids),
        with_control_tokens=asked.skip_special_tokens is False,
    )
    tokenizer = state.engine.tokenizer
    prompts = await run_in_thread(read_prompts, asked, tokenizer, state.engine.card.max_prompt_len)
    n, reply_id = asked.n or 1, make_reply_id("cmpl")
    requests: list[EngineRequest] = []
    for number, token_ids in enumerate(prompts):
        request = EngineRequest(
            request_id=f"{reply_id}-{number}",
            prompt=Prompt(token_ids=tuple(token_ids)),
            params=params,
            priority=asked.priority or 0,
        )
        requests += make_choices(request, n)
    choices = [TextChoice(i, one.prompt.token_ids, wishes, tokenizer) for i, one in enumerate(requests)]
    head = ReplyHead(reply_id, "text_completion", model)
    return requests, TextReply(head, choices, n, wishes, exchange)


def read_prompts(asked: TextRequest, tokenizer: Tokenizer, most_tokens: int) -> list[list[int]]:
    """Token ids of each prompt.

    Raises:
        RequestError: There are too many, one is empty or too long, or one holds placeholders of media.
    """
    given = asked.prompt
    texts = [given] if isinstance(given, str) else [one for one in given if isinstance(one, str)]
    lists = [one for one in given if isinstance(one, list)]
    num_prompts = len(texts) or len(lists) or 1
    if num_prompts * (asked.n or 1) > MAX_CHOICES:
        text = f"{num_prompts} prompts with n {asked.n or 1} make more than {MAX_CHOICES} choices; send fewer"
        raise RequestError(text, param="prompt")
    encode = tokenizer.encode_with_special if asked.parse_special_tokens else tokenizer.encode
    prompts = [encode(text, TokenBudget(most_tokens)) for text in texts]
    if not texts and not isinstance(given, str):
        prompts = lists or [[one for one in given if isinstance(one, int)]]
    for token_ids in prompts:
        TokenBudget(most_tokens).spend(len(token_ids))
        if not token_ids:
            raise RequestError("the prompt is empty; expected one token or more", param="prompt")
        if tokenizer.special.media_pad in token_ids:
            text = (
                "the prompt holds <|media_pad|>, for which there is no picture here; send pictures to the chat endpoint"
            )
            raise RequestError(text, param="prompt")
    return prompts
