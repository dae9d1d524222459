"""`POST /v1/chat/completions`."""

from starlette.requests import Request

from model_runtime.chat.parser import ParserOptions, ReplyParser
from model_runtime.engine.contract import EngineRequest
from model_runtime.server.answer import Answer
from model_runtime.server.body import read_body
from model_runtime.server.exchange import Exchange
from model_runtime.server.reading.prompt import read_flags, read_prompt
from model_runtime.server.reading.sampling import chat_params
from model_runtime.server.reading.tools import load_tools
from model_runtime.server.replies.chat import ChatReply
from model_runtime.server.replies.chat_choice import ChatChoice, ChatWishes
from model_runtime.server.replies.reply import ReplyHead, read_wishes
from model_runtime.server.routes.run import Prepared, exchange_of, make_answer, make_reply_id, state_of
from model_runtime.server.schemas.chat import ChatRequest
from model_runtime.server.sequences import make_choices
from model_runtime.server.state import ServerState


async def complete_chat(request: Request) -> Answer:
    """Continue a conversation."""
    state = state_of(request)
    asked = await read_body(request, ChatRequest, timeout_s=state.options.body_timeout_s)
    return make_answer(state, asked, lambda: _prepare(state, asked, exchange_of(request)))


async def _prepare(state: ServerState, asked: ChatRequest, exchange: Exchange) -> Prepared:
    model = state.check_model(asked.model)
    stream = read_wishes(asked)
    flags = read_flags(asked)
    tools = await load_tools(asked, state.options.max_tools)
    params = chat_params(asked, thinking=flags["thinking"], grammar=tools.grammar)
    tokenizer = state.engine.tokenizer
    most_tokens = state.engine.card.max_prompt_len
    chat = await read_prompt(asked, flags, tools.declared, state.media, tokenizer, most_tokens=most_tokens)
    reply_id = make_reply_id("chatcmpl")
    request = EngineRequest(
        request_id=reply_id,
        prompt=chat.prompt,
        params=params,
        starts_in_reasoning=chat.thinking,
        priority=asked.priority or 0,
    )
    wishes = ChatWishes(
        stream=stream,
        with_calls=tools.with_calls,
        max_calls=tools.max_calls,
        with_logprobs=bool(asked.logprobs),
        with_token_ids=bool(asked.return_token_ids),
        prompt_ids=chat.prompt.token_ids,
        call_ids=chat.call_ids,
    )
    reading = ParserOptions(starts_in_reasoning=chat.thinking, tools=tools.declared, special=tokenizer.special)
    choices = [
        ChatChoice(index, ReplyParser(reading), wishes, in_reasoning=chat.thinking, tokenizer=tokenizer)
        for index in range(asked.n or 1)
    ]
    head = ReplyHead(reply_id, "chat.completion.chunk" if stream.is_stream else "chat.completion", model)
    return make_choices(request, asked.n or 1), ChatReply(head, choices, wishes, exchange)
