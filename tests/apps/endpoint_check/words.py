"""What the fake server makes of a request: tokens of its prompt, and an answer before it is put on the wire."""

import base64
import json
import math
import random
import re
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from apps.endpoint_check.answer import MARKERS
from apps.endpoint_check.probes.media import COLOURS

Body = dict[str, Any]
STORY = "Far out on a rock stood a lighthouse whose keeper, an old sailor, wrote a letter to the sea each night. " * 40
THOUGHT = "The user asks for 17 * 23. That is 17 * 20 + 17 * 3 = 340 + 51 = 391, so I answer 391. "
TOWNS = ("Paris", "Rome", "Oslo")
PIECE = 4


@dataclass
class Words:
    """An answer: pieces of a token each, and calls as (id, name, arguments)."""

    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish: str = "stop"

    @property
    def num_tokens(self) -> int:
        return len(self.reasoning) + len(self.content) + 10 * len(self.calls)


def pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def thinks(body: Body, faults: frozenset[str]) -> bool:
    if "ignores_thinking_flag" in faults:
        return True
    if body.get("thinking", {}).get("type") == "disabled" and "one_spelling" not in faults:
        return False
    return bool(body.get("chat_template_kwargs", {}).get("thinking", True))


# --- tokens of a prompt


def kept(body: Body, faults: frozenset[str]) -> list[Body]:
    """Messages that reach the model."""
    messages: list[Body] = body["messages"]
    if "drops_history" in faults:
        messages = messages[-1:]
    if "keeps_eight" in faults:
        messages = messages[-8:]
    if "drops_system" in faults:
        messages = [told for told in messages if told["role"] != "system"]
    if "drops_answers" in faults:
        messages = [told for told in messages if told["role"] != "assistant" or told.get("tool_calls")]
    if "drops_old_pictures" in faults:
        messages = [*map(_without_pictures, messages[:-1]), messages[-1]]
    return messages


def _without_pictures(message: Body) -> Body:
    content = message.get("content")
    if not isinstance(content, list) or message["role"] == "tool":
        return message
    return {**message, "content": [part for part in content if part["type"] == "text"]}


def prompt_tokens(body: Body, faults: frozenset[str]) -> int:
    messages = kept(body, faults)
    total = 4 + (0 if thinks(body, faults) else 1)
    if "default_system" in faults and not any(message["role"] == "system" for message in messages):
        total += 30
    if body.get("tools") and "tools_not_shown" not in faults:
        total += len(json.dumps(body["tools"])) // 4
    last = max((at for at, told in enumerate(messages) if _is_final(told)), default=-1)
    return total + sum(_message_tokens(told, at > last, faults) for at, told in enumerate(messages))


def _is_final(message: Body) -> bool:
    return message["role"] == "assistant" and not message.get("tool_calls")


def _message_tokens(message: Body, is_running: bool, faults: frozenset[str]) -> int:
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if message["role"] == "tool" and "tool_pictures_dropped" in faults:
        parts = [part for part in parts if part["type"] == "text"]
    total = 4 + sum(_part_tokens(part, faults) for part in _merged(parts, faults))
    for name in ("tool_call_id", "id"):
        for holder in (message, *(message.get("tool_calls") or ())):
            if name in holder:
                total += 6 if not faults & {"verbatim_ids", "sanitised_ids"} else len(holder[name]) // 2
    total += sum(len(call["function"]["arguments"]) // PIECE for call in message.get("tool_calls") or ())
    names = ("reasoning",) if "only_reasoning_field" in faults else ("reasoning_content", "reasoning")
    keeps = (is_running and "thoughts_not_kept" not in faults) or "preserves_thoughts" in faults
    return total + (sum(len(message.get(name) or "") // PIECE for name in names) if keeps else 0)


def _merged(parts: list[Body], faults: frozenset[str]) -> list[Body]:
    if "merges_equal_pictures" not in faults:
        return parts
    return [part for at, part in enumerate(parts) if part not in parts[:at]]


def _part_tokens(part: Body, faults: frozenset[str]) -> int:
    if part["type"] == "text":
        text = part["text"]
        if "control_tokens" in faults:
            text = text.replace("<|im_end|>", "")
            return len(text) // PIECE + part["text"].count("<|im_end|>")
        return math.ceil(len(text.encode()) / PIECE)
    data = _data(part)
    if part["type"] == "image_url":
        width, height = struct.unpack(">II", data[16:24])
        return 5 + (1 if "pictures_uncounted" in faults else math.ceil(width / 28) * math.ceil(height / 28))
    frames = struct.unpack("<I", data[48:52])[0]
    return 0 if "video_dropped" in faults else math.ceil(frames / 4) * (4 + 5 + 8)


def _data(part: Body) -> bytes:
    return base64.b64decode(part[part["type"]]["url"].partition(",")[2])


def check_pictures(body: Body) -> None:
    for part in _parts(body, "image_url"):
        width, height = struct.unpack(">II", _data(part)[16:24])
        assert width and height


def _parts(body: Body, kind: str) -> list[Body]:
    lists = [told["content"] for told in body["messages"] if isinstance(told.get("content"), list)]
    return [part for parts in lists for part in parts if part["type"] == kind]


def num_pictures(body: Body) -> int:
    return len(_parts(body, "image_url"))


def has_video(body: Body) -> bool:
    return bool(_parts(body, "video_url"))


def has_tool_pictures(body: Body) -> bool:
    return any(isinstance(told.get("content"), list) for told in body["messages"] if told["role"] == "tool")


# --- answers


def answer(body: Body, faults: frozenset[str]) -> Words:
    body = {**body, "messages": kept(body, faults | ({"drops_history"} if "forgets" in faults else set()))}
    made = _babble(body, faults) if faults & {"babbles", "babbles_markers"} else _sensible(body, faults)
    limit = 10**6 if "ignores_max_tokens" in faults else body.get("max_tokens") or body.get("max_completion_tokens")
    if made.num_tokens > (limit or 10**6):
        made.reasoning = made.reasoning[:limit]
        made.content = made.content[: limit - len(made.reasoning)]
        made.calls, made.finish = made.calls[: limit // 100], "length"
    return _stopped(made, body.get("stop") or [], faults)


def _babble(body: Body, faults: frozenset[str]) -> Words:
    """What a model with random weights writes: it never ends and calls nothing."""
    chance = random.Random(json.dumps(body["messages"], sort_keys=True))
    text = ["".join(chance.choices("qxzjkvw\ufffd ", k=PIECE)) for _ in range(3000)]
    if "babbles_markers" in faults:
        ends = ("<|im_end|>", "[EOS]", *(["</think>"] if thinks(body, faults) else []))  # these end what they stand in
        markers = [marker for marker in MARKERS if marker not in ends]
        text = [chance.choice(markers) if chance.random() < 0.1 else piece for piece in text]
    if body.get("tool_choice") == "required" and "babbles" in faults:
        return Words(calls=[("functions.get_weather:0", "get_weather", '{"city": "qzx')] * 30)
    return Words(reasoning=text) if thinks(body, faults) else Words(content=text)


def _sensible(body: Body, faults: frozenset[str]) -> Words:
    made = Words(reasoning=pieces(THOUGHT) if thinks(body, faults) else [])
    question = _question(body)
    choice = "auto" if "ignores_none" in faults else body.get("tool_choice")
    towns = _towns(question) if body.get("tools") and choice != "none" else ()
    if choice == "required":
        towns = () if "never_forced" in faults else TOWNS[:1]
    if towns:
        made.calls = [(f"functions.get_weather:{at}", "get_weather", _json(town)) for at, town in enumerate(towns)]
        made.finish = "tool_calls"
    else:
        made.content = pieces(_text(body, question, faults))
    return made


def _json(town: str) -> str:
    return json.dumps({"city": town})


def _towns(question: str) -> tuple[str, ...]:
    return TOWNS if "three times" in question else TOWNS[:1] if "Call the tool" in question else ()


def _question(body: Body) -> str:
    content = body["messages"][-1].get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _text(body: Body, question: str, faults: frozenset[str]) -> str:
    if "response_format" in body and "schema_ignored" not in faults:
        return '{"colour": "red", "is_round": true}'
    if "colours in order" in question:
        return ", ".join(_colours(_parts(body, "image_url"), faults))
    if "one word" in question and "hello" not in question:
        return _recalled(body, question)
    if question.startswith("Repeat exactly: "):
        return question.removeprefix("Repeat exactly: ")
    if "one word: hello" in question:
        return "hello<|im_end|>" if "end_token_shown" in faults else "hello"
    if "weather" in question:
        return "It is mild."
    if "ten in words" in question:
        return "one, two, three, four, five, six, seven, eight, nine, ten"
    return "17 * 23 is 391." if "17 * 23" in question else STORY


def _recalled(body: Body, question: str) -> str:
    if "colour" in question:
        colours = _colours(_parts(body, "image_url"), frozenset())
        return colours[-1] if colours else "none"
    return "lighthouse" if "The word is lighthouse" in json.dumps(body["messages"]) else "I do not know."


def _colours(parts: list[Body], faults: frozenset[str]) -> list[str]:
    names = {value: name for name, value in COLOURS.items()}
    named = [names[_first_pixel(_data(part))] for part in _merged(parts, faults)]
    return sorted(named) if "sorts_pictures" in faults else named


def _first_pixel(png: bytes) -> tuple[int, int, int]:
    start = png.index(b"IDAT") + 4
    rows = zlib.decompressobj().decompress(png[start:])
    return rows[1], rows[2], rows[3]


def _stopped(made: Words, stops: list[str], faults: frozenset[str]) -> Words:
    text = "".join(made.content)
    found = [(text.index(stop), stop) for stop in stops if stop in text]
    if found and "ignores_stop" not in faults:
        at, stop = min(found)
        made.content = pieces(text[: at + len(stop)] if "keeps_stop" in faults else text[:at])
        made.finish = "stop"
    return made


def raw_section(calls: list[tuple[str, str, str]]) -> str:
    inside = "".join(
        f"<|tool_call_begin|>{given}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
        for given, _, arguments in calls
    )
    return f"<|tool_calls_section_begin|>{inside}<|tool_calls_section_end|>"


def sanitised(given: str) -> str:
    return "call_" + re.sub(r"\W", "", given)
