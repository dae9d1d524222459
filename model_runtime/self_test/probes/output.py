"""How an answer ends and what form it keeps: end token, stop texts, length, JSON by a schema."""

import json
from typing import Any

from model_runtime.self_test.endpoint import Endpoint, user
from model_runtime.self_test.outcome import Outcome, failed, inconclusive, not_supported, ok, warning

STORY = [user("Tell a story about a lighthouse.")]
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "green"]}, "is_round": {"type": "boolean"}},
    "required": ["colour", "is_round"],
    "additionalProperties": False,
}
REFUSED = (400, 404, 405, 415, 422, 501)


def probe_end_token(endpoint: Endpoint) -> Outcome:
    """An answer ends at <|im_end|> (163586), which is not the end token that config.json names."""
    answer = endpoint.ask([user("Answer with the one word: hello")], max_tokens=endpoint.budget(512))
    marker = next((text for text in ("<|im_end|>", "[EOS]") if text in answer.content), None)
    if marker is not None:
        raise failed(
            f"{marker} stands in the text: <|im_end|> (163586) must be a stop token; see generation_config.json"
        )
    if answer.finish != "stop":
        raise inconclusive(f"the model did not end its answer (finish_reason {answer.finish})")
    return ok("the answer ends by itself, without a trace of the end token")


def probe_stop(endpoint: Endpoint) -> Outcome:
    """A stop text ends the answer and is not part of it."""
    text = endpoint.ask(STORY, max_tokens=48).content
    piece = text[len(text) // 2 : len(text) // 2 + 3]
    if len(piece) < 3 or "\ufffd" in piece:
        raise inconclusive("the model's text is too short, or broken where it would be stopped")
    before = text[: text.index(piece)]
    answer = endpoint.ask(STORY, max_tokens=48, stop=[piece])
    if not answer.content.startswith(before.rstrip()):
        raise inconclusive("the same request gives another text each time; nothing to compare")
    if answer.content.rstrip() == before.rstrip():
        if answer.finish != "stop":
            raise failed(f"finish_reason is {answer.finish!r} after a stop text, expected 'stop'")
        return ok(f"the text ends before {piece!r}")
    if answer.content == before + piece:
        raise failed("the stop text is left in the answer")
    raise failed(f"the stop text {piece!r} does not end the answer")


def probe_max_tokens(endpoint: Endpoint) -> Outcome:
    """One token when one is asked for, under both names of the limit."""
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


def probe_json_schema(endpoint: Endpoint) -> Outcome:
    """An answer that a JSON schema forces into its form."""
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
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    is_whole = isinstance(value, dict) and set(value) == {"colour", "is_round"}
    return is_whole and value["colour"] in ("red", "green") and isinstance(value["is_round"], bool)
