"""Probes of plain chat and of the end of outputs."""

import json
from collections.abc import Mapping

from apps.endpoint_check.answer import ParsedAnswer
from apps.endpoint_check.endpoint import CheckedEndpoint, RawResponse, repeated, user
from apps.endpoint_check.outcome import Outcome, failed, inconclusive, not_supported, ok, warning
from model_runtime.json_types import Json

COUNT = [user("Count from one to ten in words, with commas.")]
UNICODE = "naïve 日本語 Ωμέγα 🙂👍🏽 e\u0301 שלום"
PARAGRAPH = "The quick brown fox jumps over the lazy dog near the river. "


def probe_models(endpoint: CheckedEndpoint) -> Outcome:
    """Check the list of models."""
    raw = endpoint.get("/models")
    data = raw.body.get("data") if isinstance(raw.body, dict) else None
    if raw.status != 200 or not isinstance(data, list):
        raise failed(f"GET /models gives HTTP {raw.status} and no list in `data`; clients look the name up there")
    names = [card.get("id") for card in data if isinstance(card, dict)]
    if endpoint.model not in names:
        raise failed(f"{endpoint.model!r} is not listed, there are {names}; see --served-model-name of the server")
    length = f"{endpoint.context:,} tokens of context" if endpoint.context else "it does not say its context length"
    return ok(f"{endpoint.model}; {length}")


def probe_chat(endpoint: CheckedEndpoint) -> Outcome:
    """Check that an answer has OpenAI's shape."""
    answer = endpoint.ask(COUNT)
    usage = endpoint.usage(answer)
    if usage.prompt <= 0 or usage.total != usage.prompt + usage.completion:
        raise failed(f"usage does not add up: {usage.prompt} + {usage.completion} is not {usage.total}")
    return ok(f"{usage.prompt} tokens in, {usage.completion} out, finish_reason {answer.finish}")


def probe_stream(endpoint: CheckedEndpoint) -> Outcome:
    """Check that a streamed answer equals the whole one."""
    whole, streamed = endpoint.ask(COUNT), endpoint.stream(COUNT)
    if streamed.problems:
        raise failed("; ".join(streamed.problems))
    _check_fields(whole, streamed)
    if streamed.content != whole.content:
        repeated(endpoint, COUNT, whole)
        raise failed(_difference(whole.content, streamed.content))
    if streamed.usage is None:
        return warning("no usage in the stream although stream_options.include_usage asks for it")
    same = (streamed.usage.prompt, streamed.usage.completion) == (whole.usage and whole.usage.prompt, _out(whole))
    if not same:
        raise failed(f"usage differs: {_tokens(streamed)} streamed, {_tokens(whole)} whole")
    return ok("the same text, usage and finish_reason")


def _check_fields(whole: ParsedAnswer, streamed: ParsedAnswer) -> None:
    for name in ("content", "reasoning"):
        if bool(getattr(whole, name)) != bool(getattr(streamed, name)):
            mode = "when it is not streamed" if getattr(whole, name) else "when it is streamed"
            raise failed(f"{name} comes only {mode}: the parsers of the two ways differ")
    if streamed.finish != whole.finish:
        raise failed(f"finish_reason is {streamed.finish} streamed and {whole.finish} whole")


def _difference(whole: str, streamed: str) -> str:
    if len(streamed) < len(whole):
        return f"streaming loses text: {len(streamed)} characters of {len(whole)}"
    return f"streaming gives another text: {streamed[:40]!r} instead of {whole[:40]!r}"


def _tokens(answer: ParsedAnswer) -> str:
    return "none" if answer.usage is None else f"{answer.usage.prompt} in and {answer.usage.completion} out"


def _out(answer: ParsedAnswer) -> int | None:
    return answer.usage.completion if answer.usage else None


def probe_unicode(endpoint: CheckedEndpoint) -> Outcome:
    """Check multi-byte characters as text and as escapes, whole and streamed."""
    messages = [user(f"Repeat exactly: {UNICODE}")]
    escaped = endpoint.count(messages)
    request = {**endpoint.body(messages), "max_tokens": 1}
    raw = endpoint.post(json.dumps(request, ensure_ascii=False).encode())
    if raw.prompt_tokens != escaped:
        raise failed(f"the same text is {escaped} tokens as JSON escapes and {raw.prompt_tokens} as UTF-8")
    whole, streamed = endpoint.ask(messages, max_tokens=64), endpoint.stream(messages, max_tokens=64)
    if "\ufffd" in streamed.content and "\ufffd" not in whole.content:
        raise failed("streaming cuts characters in two (U+FFFD): the detokenizer does not hold back part of one")
    repeats = "and repeated exactly" if UNICODE in whole.content else "(the model did not repeat it exactly)"
    return ok(f"read the same both ways, written whole {repeats}")


def probe_usage(endpoint: CheckedEndpoint) -> Outcome:
    """Check the token counts of a prompt that is sent twice, and the number of cached tokens."""
    copies = 40 if endpoint.context is None else max(1, min(40, endpoint.context // 2 // len(PARAGRAPH)))
    messages = [user(PARAGRAPH * copies + "Say hi.")]
    first = endpoint.usage(endpoint.ask(messages, max_tokens=2))
    second = endpoint.usage(endpoint.ask(messages, max_tokens=2))
    if first.prompt != second.prompt:
        raise failed(f"the same prompt is {first.prompt} tokens, then {second.prompt}")
    if second.total != second.prompt + second.completion:
        raise failed(f"usage does not add up: {second.prompt} + {second.completion} is not {second.total}")
    if second.cached is None:
        return warning(
            "usage does not report the cache (prompt_tokens_details.cached_tokens); vLLM reports it with "
            "--enable-prompt-tokens-details, SGLang with --enable-cache-report"
        )
    if second.cached > second.prompt:
        raise failed(f"{second.cached} of {second.prompt} prompt tokens are reported as cached")
    if second.cached == 0:
        return warning("no part of a repeated prompt is cached: each step of an agent pays for all earlier ones again")
    return ok(f"{second.cached} of {second.prompt} tokens of the repeated prompt came from the cache")


BIG_MIB = 24  # the size of a request with many screenshots
BROKEN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def probe_errors(endpoint: CheckedEndpoint) -> Outcome:
    """Check that invalid requests are refused with an error in OpenAI's shape."""
    base = endpoint.body([user("Hi")], max_tokens=1)
    without = {name: value for name, value in base.items() if name != "messages"}
    wrong: Json = {
        "a body that is not JSON": b"{",
        "no messages": without,
        "messages that are a text": {**base, "messages": "Hi"},
        "an image that is none": {**base, "messages": [user("Hi", BROKEN)]},
    }
    faults = [text for case, body in wrong.items() if (text := _fault(case, endpoint.post(body)))]
    if faults:
        raise failed("; ".join(faults))
    other = endpoint.post({**base, "model": "no-such-model"})
    if other.status == 200:
        return warning("refused in OpenAI's shape; but a model of another name is answered too")
    return ok("refused with 4xx and error.message")


def _fault(case: str, raw: RawResponse) -> str | None:
    if raw.status >= 500:
        return f"{case} gives HTTP {raw.status}, expected 4xx: a client's error is reported as the server's"
    if raw.status < 400:
        return f"{case} is accepted (HTTP {raw.status})"
    error = raw.body.get("error") if isinstance(raw.body, Mapping) else None
    if isinstance(error, Mapping) and isinstance(error.get("message"), str):
        return None
    return f"{case} gives HTTP {raw.status} without error.message: clients show nothing useful ({raw.text[:60]!r})"


def probe_big_body(endpoint: CheckedEndpoint) -> Outcome:
    """Check a request as large as one with twenty screenshots."""
    body = json.dumps(endpoint.body([user("Hi")], max_tokens=1)).encode()
    raw = endpoint.post(body[:-1] + b" " * (BIG_MIB * 2**20) + b"}")
    if raw.status == 413:
        raise failed(f"{BIG_MIB} MiB is too large (HTTP 413); behind nginx set client_max_body_size 256m")
    if raw.status != 200:
        raise failed(f"{BIG_MIB} MiB gives HTTP {raw.status}: {raw.reason}")
    return ok(f"{BIG_MIB} MiB are taken")


STORY = [user("Tell a story about a lighthouse.")]
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "green"]}, "is_round": {"type": "boolean"}},
    "required": ["colour", "is_round"],
    "additionalProperties": False,
}
REFUSED = (400, 404, 405, 415, 422, 501)  # statuses with which servers refuse what they do not support


def probe_end_token(endpoint: CheckedEndpoint) -> Outcome:
    """Check that an answer ends at <|im_end|> (163586), which is not the end token that config.json names."""
    answer = endpoint.ask([user("Answer with the one word: hello")], max_tokens=endpoint.budget(512))
    marker = next((text for text in ("<|im_end|>", "[EOS]") if text in answer.content), None)
    if marker is not None:
        raise failed(
            f"{marker} occurs in the text: <|im_end|> (163586) must be a stop token; see generation_config.json"
        )
    if answer.finish != "stop":
        raise inconclusive(f"the model did not end its answer (finish_reason {answer.finish})")
    return ok("the answer ends by itself, without a trace of the end token")


def probe_stop(endpoint: CheckedEndpoint) -> Outcome:
    """Check that a stop text ends the answer and is not part of it."""
    text = endpoint.ask(STORY, max_tokens=48).content
    piece = text[len(text) // 2 : len(text) // 2 + 3]
    if len(piece) < 3 or "\ufffd" in piece:
        raise inconclusive("the model's text is too short, or broken where it would be stopped")
    before = text[: text.index(piece)]
    answer = endpoint.ask(STORY, max_tokens=48, stop=[piece])
    if not answer.content.startswith(before.rstrip()):
        raise inconclusive("the same request gives different texts; they cannot be compared")
    if answer.content.rstrip() == before.rstrip():
        if answer.finish != "stop":
            raise failed(f"finish_reason is {answer.finish!r} after a stop text, expected 'stop'")
        return ok(f"the text ends before {piece!r}")
    if answer.content == before + piece:
        raise failed("the stop text is left in the answer")
    raise failed(f"the stop text {piece!r} does not end the answer")


def probe_max_tokens(endpoint: CheckedEndpoint) -> Outcome:
    """Check that a limit of one token returns one token, under both names of the limit."""
    answer = endpoint.ask(STORY, max_tokens=1)
    usage = endpoint.usage(answer)
    if usage.completion > 1:
        raise failed(f"{usage.completion} tokens came where max_tokens allows 1")
    if answer.finish not in ("length", "stop"):
        raise failed(f"finish_reason is {answer.finish!r} at the limit, expected 'length'")
    newer = {**endpoint.body(STORY), "max_completion_tokens": 1}
    del newer["max_tokens"]
    raw = endpoint.post(newer)
    number = raw.usage.completion if raw.usage else None
    if number != 1:
        return warning(f"max_tokens works, max_completion_tokens does not (HTTP {raw.status}, {number} tokens)")
    return ok("max_tokens and max_completion_tokens are kept")


def probe_json_schema(endpoint: CheckedEndpoint) -> Outcome:
    """Check that a JSON schema constrains the answer."""
    form = {"type": "json_schema", "json_schema": {"name": "thing", "strict": True, "schema": SCHEMA}}
    messages = [user("Describe a ripe tomato as JSON with colour and is_round.")]
    raw = endpoint.post(endpoint.body(messages, response_format=form, max_tokens=1))
    if raw.status in REFUSED:
        raise not_supported(f"response_format json_schema: HTTP {raw.status}: {raw.reason}")
    answer = endpoint.ask(messages, response_format=form, max_tokens=endpoint.budget(256))
    if answer.finish == "length":
        raise inconclusive("the model did not come to an end within the limit")
    if not answer.content:
        raise inconclusive("the model wrote nothing")
    if not _fits(answer.content):
        raise failed(f"the schema is not enforced: {answer.content[:60]!r}; check the server's guided decoding backend")
    return ok("the answer keeps to the schema")


def _fits(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    is_whole = isinstance(value, dict) and set(value) == {"colour", "is_round"}
    return is_whole and value["colour"] in ("red", "green") and isinstance(value["is_round"], bool)
