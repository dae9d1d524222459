"""`POST /tokenize` and `POST /detokenize`: what a prompt costs, and what ids stand for."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from model_runtime.errors import RequestError
from model_runtime.server.body import read_body
from model_runtime.server.reading.prompt import read_flags, read_prompt
from model_runtime.server.reading.tools import load_tools
from model_runtime.server.routes.run import state_of
from model_runtime.server.schemas.text import DetokenizeRequest, TokenizeRequest


async def tokenize(request: Request) -> Response:
    """Token ids of a text, or of a conversation with everything the template adds."""
    state = state_of(request)
    asked = await read_body(request, TokenizeRequest, timeout_s=state.options.body_timeout_s)
    state.check_model(asked.model)
    if (asked.prompt is None) == (asked.chat is None):
        raise RequestError("expected prompt or messages, one of them", param="prompt")
    tokenizer = state.engine.tokenizer
    if asked.chat is not None:
        tools = await load_tools(asked.chat, state.options.max_tools)
        chat = await read_prompt(asked.chat, read_flags(asked.chat), tools.declared, state.media, tokenizer)
        ids = list(chat.prompt.token_ids)
    else:
        ids = await asyncio.to_thread(tokenizer.encode, asked.prompt or "")
    return JSONResponse({"count": len(ids), "max_model_len": state.engine.card.max_model_len, "tokens": ids})


async def detokenize(request: Request) -> Response:
    """Text of token ids, control tokens by their names."""
    state = state_of(request)
    asked = await read_body(request, DetokenizeRequest, timeout_s=state.options.body_timeout_s)
    state.check_model(asked.model)
    wrong = next((token_id for token_id in asked.tokens if token_id >= state.engine.card.vocab_size), None)
    if wrong is not None:
        text = f"token id {wrong} is outside the vocabulary; expected 0 to {state.engine.card.vocab_size - 1}"
        raise RequestError(text, param="tokens")
    return JSONResponse({"prompt": await asyncio.to_thread(state.engine.tokenizer.decode, asked.tokens)})
