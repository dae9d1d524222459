"""Checker of the `Model` contract, which the tests of every model client run; users can check their own models.

    await check_model(lambda: MyModel(...))

Each clause of the contract is one function below; the error names the broken clause. The content of replies does
not matter, only its handling by the client. About 20 calls are made; for a sampled model, use a cheap one.
"""

import asyncio
import io
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, get_args

from cua.errors import ModelError
from cua.json_text import JsonMapping
from cua.messages import (
    FinishReason,
    ImagePart,
    Message,
    Reply,
    ReplyTokens,
    Sampling,
    TextPart,
    ThinkPart,
    ToolCall,
    ToolResult,
    Usage,
)
from cua.model import Model, Tool

SamplingField = Literal["max_tokens", "stop", "seed"]
_CANCELLED_AFTER_S = 0.05  # long enough for a call to start, shorter than a reply of any model
_MAX_TOKEN_CHARS = 200
"""Number of characters that no token of current vocabularies exceeds."""
_NUM_AT_ONCE = 4  # more than one, so that mixed-up replies show; few, so that small endpoints accept them


class ModelContractError(AssertionError):
    """Raised when a model client breaks the contract; the text starts with the name of the clause."""


@dataclass(slots=True)
class _ProbeTool(Tool):
    """Tool that is offered and never called."""

    name: str = "look_up"
    description: str = "Look a word up."
    parameters: JsonMapping = field(
        default_factory=lambda: {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    )

    async def call(self, arguments: JsonMapping) -> ToolResult:
        return ToolResult(parts=())


async def check_model(
    make_model: Callable[[], Model],
    *,
    ignores: Collection[SamplingField] = (),
    make_unreachable: Callable[[], Model] | None = None,
    timeout_s: float = 60.0,
) -> None:
    """Run every clause of the contract against new models.

    Args:
        make_model: Creates a new model; called several times.
        ignores: Sampling fields that have no effect on this model, according to its documentation; all others must
            be applied, or refused by a `ModelError` that is not retryable.
        make_unreachable: Creates a model that cannot be reached (a server that is off). Without it that clause is
            skipped.
        timeout_s: Timeout of one call in seconds.

    Raises:
        ModelContractError: If a clause is broken.
    """
    model = make_model()
    probe = _Probe(model, timeout_s)
    try:
        await _check_plain(probe)
        await _check_images(probe)
        await _check_tools(probe)
        await _check_odd_conversations(probe)
        await _check_tokens(probe)
        for name, check in (("max_tokens", _check_max_tokens), ("stop", _check_stop), ("seed", _check_seed)):
            if name not in ignores:
                await check(probe)
        await _check_at_once(probe)
        await _check_cancel(probe)
    finally:
        await model.close()
    await _check_closed(probe)
    if make_unreachable is not None:
        await _check_unreachable(_Probe(make_unreachable(), timeout_s))


@dataclass(frozen=True, slots=True)
class _Probe:
    """Caller of a model that accepts only results and errors that the contract allows."""

    model: Model
    timeout_s: float

    async def ask(self, request: str, messages: Sequence[Message], sampling: Sampling | None = None) -> Reply:
        """Return a reply; an error breaks the contract."""
        reply = await self.try_to_ask(request, messages, sampling)
        if isinstance(reply, ModelError):
            _broken("an ordinary conversation is answered", f"{request}: {type(reply).__name__}: {reply}")
        return reply

    async def try_to_ask(
        self,
        request: str,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        tools: Sequence[_ProbeTool] = (),
    ) -> Reply | ModelError:
        """Return a reply, or the `ModelError` that was raised instead."""
        before = tuple(messages)
        try:
            async with asyncio.timeout(self.timeout_s):
                reply = await self.model.generate(messages, tools, sampling)
        except ModelError as error:
            if not str(error) or not isinstance(error.retryable, bool):
                _broken("a ModelError says what to do", f"{request}: {error!r}, retryable {error.retryable!r}")
            return error
        except TimeoutError:
            _broken("a call ends", f"{request}: it went on for {self.timeout_s:g} s")
        except Exception as error:
            _broken("what fails is a ModelError", f"{request}: {type(error).__name__}: {error}")
        if tuple(messages) != before:
            _broken("the messages stay as they are", request)
        _check_reply(request, reply)
        return reply


async def _check_plain(probe: _Probe) -> None:
    name: object = probe.model.name
    if not isinstance(name, str) or not name:
        _broken("a model has a name", f"found {name!r}")
    await probe.ask("a first question", _conversation())
    await probe.ask("a question with no sampling of its own", _conversation(), None)
    await probe.ask("a conversation that goes on", [*_conversation(), _assistant(), *_conversation()])


async def _check_images(probe: _Probe) -> None:
    for media_type in ("image/png", "image/jpeg", "image/webp"):
        image = ImagePart(data=_image(media_type), media_type=media_type)
        reply = await probe.try_to_ask(media_type, _conversation(image=image))
        _check_refusal("images are taken, or refused for good", media_type, reply)


async def _check_tools(probe: _Probe) -> None:
    call = ToolCall(id="functions.look_up:0", name="look_up", arguments='{"word": "a"}')
    result = Message(role="tool", parts=(TextPart(text="a letter"), _png()), tool_call_id=call.id, name="look_up")
    called = Message(role="assistant", parts=(ThinkPart(text="I look it up."),), tool_calls=(call,))
    for request, messages in (
        ("a tool is offered", _conversation()),
        ("a tool was called", [*_conversation(), called, result]),
    ):
        reply = await probe.try_to_ask(request, messages, tools=(_ProbeTool(),))
        _check_refusal("tools are taken, or refused for good", request, reply)


async def _check_odd_conversations(probe: _Probe) -> None:
    """Check that unusual requests lead to a reply or an error of a known class."""
    await probe.try_to_ask("no messages", [])
    await probe.try_to_ask("an empty text", [Message(role="user", parts=(TextPart(text=""),))])
    await probe.try_to_ask("no parts", [Message(role="user", parts=())])
    await probe.try_to_ask("an image that is none", [Message(role="user", parts=(ImagePart(data=b"no image"),))])
    await probe.try_to_ask("half a character", [Message(role="user", parts=(TextPart(text="\ud800"),))])


async def _check_tokens(probe: _Probe) -> None:
    reply = await probe.try_to_ask("with_tokens", _conversation(), Sampling(with_tokens=True))
    _check_refusal("with_tokens gives tokens or none, or is refused for good", "with_tokens", reply)


async def _check_max_tokens(probe: _Probe) -> None:
    clause = "max_tokens is honoured, or refused for good"
    reply = await probe.try_to_ask("max_tokens=1", _conversation(), Sampling(max_tokens=1))
    if isinstance(reply, ModelError):
        _check_refusal(clause, "max_tokens=1", reply)
        return
    num_chars = len(reply.reasoning) + len(reply.content)
    if reply.usage.output_tokens > 1 or num_chars > _MAX_TOKEN_CHARS:
        _broken(clause, f"1 was asked for, {reply.usage.output_tokens} tokens came, {num_chars} characters")


async def _check_stop(probe: _Probe) -> None:
    clause = "stop is honoured, or refused for good"
    words = (await probe.ask("a first question", _conversation())).content.split()
    if not words:
        return
    word = words[len(words) // 2]
    reply = await probe.try_to_ask(f"stop={word!r}", _conversation(), Sampling(stop=(word,)))
    _check_refusal(clause, f"stop={word!r}", reply)
    if isinstance(reply, Reply) and word in reply.content:
        _broken(clause, f"{word!r} occurs in {reply.content[:200]!r}")


async def _check_seed(probe: _Probe) -> None:
    clause = "seed is honoured, or refused for good"
    replies = [await probe.try_to_ask("seed=7", _conversation(), Sampling(seed=7)) for _ in range(2)]
    for reply in replies:
        _check_refusal(clause, "seed=7", reply)
    texts = [(reply.reasoning, reply.content) for reply in replies if isinstance(reply, Reply)]
    if len(set(texts)) > 1:
        _broken(clause, f"twice the same request and seed gave {texts[0][1][:100]!r} and {texts[1][1][:100]!r}")


async def _check_at_once(probe: _Probe) -> None:
    clause = "calls at the same time do not meet"
    marks = [f"mark-{number}{number}" for number in range(_NUM_AT_ONCE)]
    replies = await asyncio.gather(*(probe.ask("calls at the same time", _conversation(mark)) for mark in marks))
    for mark, reply in zip(marks, replies, strict=True):
        strange = [other for other in marks if other != mark and other in reply.content]
        if strange and mark not in reply.content:
            _broken(clause, f"the question with {mark} got the answer of {strange[0]}")


async def _check_cancel(probe: _Probe) -> None:
    clause = "a call that is cancelled ends at once"
    call = asyncio.ensure_future(probe.model.generate(_conversation()))
    await asyncio.wait({call}, timeout=_CANCELLED_AFTER_S)
    if not call.done():
        call.cancel()
        await asyncio.wait({call}, timeout=probe.timeout_s)
        if not call.done():
            _broken(clause, f"it went on for {probe.timeout_s:g} s")
        if not call.cancelled():
            _broken(clause, f"the cancellation was swallowed: {call.exception() or 'it gave a reply'}")
    else:
        call.exception()  # the call had ended before: this model does not wait
    await probe.ask("a question after one that was cancelled", _conversation())


async def _check_closed(probe: _Probe) -> None:
    await _expect_quiet("close may be called twice", probe.model.close)
    await probe.try_to_ask("a question after close", _conversation())
    await _expect_quiet("close may be called again", probe.model.close)


async def _check_unreachable(probe: _Probe) -> None:
    clause = "a server that is off is a ModelError worth retrying"
    try:
        reply = await probe.try_to_ask("a server that is off", _conversation())
        if not isinstance(reply, ModelError) or not reply.retryable:
            _broken(clause, f"it gave {reply!r}")
    finally:
        await probe.model.close()


async def _expect_quiet(clause: str, call: Callable[[], Awaitable[None]]) -> None:
    try:
        await call()
    except Exception as error:
        _broken(clause, f"{type(error).__name__}: {error}")


def _check_refusal(clause: str, request: str, reply: Reply | ModelError) -> None:
    if isinstance(reply, ModelError) and reply.retryable:
        _broken(clause, f"{request}: a retryable {type(reply).__name__}: {reply}")


def _check_reply(request: str, reply: object) -> None:
    if not isinstance(reply, Reply):
        _broken("generate returns a Reply", f"{request} gave {type(reply).__name__}")
    if not (isinstance(reply.content, str) and isinstance(reply.reasoning, str)):
        _broken("content and reasoning are texts", f"{request} gave {reply.content!r} and {reply.reasoning!r}")
    if reply.finish_reason not in get_args(FinishReason):
        _broken("finish_reason is one of the closed set", f"{request} gave {reply.finish_reason!r}")
    if reply.finish_reason == "length":
        _broken("a reply that was cut is a TruncatedReplyError", f"{request} gave finish_reason 'length'")
    if not (math.isfinite(reply.duration_s) and reply.duration_s >= 0):
        _broken("duration_s is a number of seconds", f"{request} gave {reply.duration_s}")
    _check_calls(request, reply.tool_calls)
    _check_usage(request, reply.usage)
    if reply.tokens is not None:
        _check_reply_tokens(request, reply.tokens)


def _check_calls(request: str, calls: object) -> None:
    if not isinstance(calls, tuple) or not all(isinstance(call, ToolCall) for call in calls):
        _broken("tool_calls is a tuple of ToolCall", f"{request} gave {calls!r}")
    for call in calls:
        if not (call.id and call.name and isinstance(call.arguments, str)):
            _broken("a tool call has an id, a name and the text of its arguments", f"{request} gave {call}")
    if len({call.id for call in calls}) != len(calls):
        _broken("the ids of tool calls differ", f"{request} gave {[call.id for call in calls]}")


def _check_usage(request: str, usage: object) -> None:
    if not isinstance(usage, Usage):
        _broken("usage is a Usage", f"{request} gave {type(usage).__name__}")
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    if not all(isinstance(count, int) and count >= 0 for count in counts) or counts[2] > counts[0]:
        _broken("usage counts tokens, cached ones among those of the input", f"{request} gave {usage}")
    if usage.cost_usd is not None and not (math.isfinite(usage.cost_usd) and usage.cost_usd >= 0):
        _broken("cost_usd is money, or None where no price is known", f"{request} gave {usage.cost_usd}")


def _check_reply_tokens(request: str, tokens: ReplyTokens) -> None:
    clause = "logprobs, sampled and num_kept go with the ids, or are empty"
    lists = {"logprobs": tokens.logprobs, "sampled": tokens.sampled, "num_kept": tokens.num_kept}
    for name, values in lists.items():
        if values and len(values) != len(tokens.ids):
            _broken(clause, f"{request}: {len(tokens.ids)} ids and {len(values)} {name}")
    if any(not value <= 0.0 for value in tokens.logprobs):
        _broken("log-probabilities are not above 0", f"{request} gave {max(tokens.logprobs)}")


def _conversation(mark: str = "Save", image: ImagePart | None = None) -> list[Message]:
    """Return the first request of the GUI protocol."""
    text = f'# Task Instruction:\nClick "{mark}".\n\nPlease generate the next move.\n'
    return [
        Message(role="system", parts=(TextPart(text="You are a GUI agent."),)),
        Message(role="user", parts=(image or _png(), TextPart(text=text))),
    ]


def _assistant() -> Message:
    return Message(role="assistant", parts=(TextPart(text="## Action:\nWait\n"),))


def _png() -> ImagePart:
    return ImagePart(data=_image("image/png"))


def _image(media_type: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (160, 120), (245, 245, 245)).save(buffer, media_type.partition("/")[2].upper())
    return buffer.getvalue()


def _broken(clause: str, observed: str) -> NoReturn:
    raise ModelContractError(f"{clause}: {observed}")
