"""`POST /tokenize` and `POST /detokenize`: what a prompt costs, and what ids stand for."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from model_runtime.cancellation import run_in_thread
from model_runtime.errors import RequestError
from model_runtime.server.body import read_body
from model_runtime.server.errors import Json, dump
from model_runtime.server.prompt import load_tools, read_flags, read_prompt
from model_runtime.server.responses import RequestDeadline, state_of
from model_runtime.server.schemas import DetokenizeRequest, TokenizeRequest
from model_runtime.server.state import ServerState
from model_runtime.tokenizer import TokenBudget

MOST_CONTEXTS = 4
"""So many times what the model takes is counted, to say by how much a prompt is too long."""


async def tokenize(request: Request) -> Response:
    """Token ids of a text, or of a conversation with everything the template adds; up to four times the context."""
    state = state_of(request)
    asked = await read_body(request, TokenizeRequest, timeout_s=state.options.body_timeout_s)
    state.check_model(asked.model)
    if (asked.prompt is None) == (asked.chat is None):
        raise RequestError("expected prompt or messages, one of them", param="prompt")
    async with _attend(request, state):
        ids = await _count(asked, state)
        shown = {"count": len(ids), "max_model_len": state.engine.card.max_model_len, "tokens": ids}
        return await _make_answer(lambda: shown)


async def _count(asked: TokenizeRequest, state: ServerState) -> list[int]:
    tokenizer, most = state.engine.tokenizer, MOST_CONTEXTS * state.engine.card.max_model_len
    if asked.chat is None:
        return await run_in_thread(tokenizer.encode, asked.prompt or "", TokenBudget(most))
    tools = await load_tools(asked.chat, state.options.max_tools)
    flags = read_flags(asked.chat)
    chat = await read_prompt(asked.chat, flags, tools.declared, state.media, tokenizer, most_tokens=most)
    return list(chat.prompt.token_ids)


async def detokenize(request: Request) -> Response:
    """Text of token ids, control tokens by their names."""
    state = state_of(request)
    asked = await read_body(request, DetokenizeRequest, timeout_s=state.options.body_timeout_s)
    state.check_model(asked.model)
    most, vocab_size = MOST_CONTEXTS * state.engine.card.max_model_len, state.engine.card.vocab_size
    if len(asked.tokens) > most:
        raise RequestError(f"there are {len(asked.tokens)} tokens; at most {most} are decoded", param="tokens")

    def decode() -> Json:
        wrong = next((token_id for token_id in asked.tokens if token_id >= vocab_size), None)
        if wrong is not None:
            text = f"token id {wrong} is outside the vocabulary; expected 0 to {vocab_size - 1}"
            raise RequestError(text, param="tokens")
        return {"prompt": state.engine.tokenizer.decode(asked.tokens)}

    return await _make_answer(decode)


def _attend(request: Request, state: ServerState) -> RequestDeadline:
    return RequestDeadline(request.receive, timeout_s=state.options.request_timeout_s, queue_timeout_s=None)


async def _make_answer(make: Callable[[], Json]) -> Response:
    """JSON that is made and written in a thread: it can be as long as what was asked."""
    return Response(await run_in_thread(lambda: dump(make())), media_type="application/json")
