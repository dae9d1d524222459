"""Other forms of requests: OpenAI's Responses and Anthropic's Messages, as chat completions and back.

Only what agents with tools and images send; anything else is refused by name. Replies go back whole.
Source: platform.openai.com/docs/api-reference/responses, docs.anthropic.com/en/api/messages.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cua.json_text import Json, JsonMapping, read_object
from cua.rollouts.gateway import GatewayError


def responses_to_chat(body: JsonMapping) -> Json:
    """Return a request of `/v1/responses` as one of chat completions.

    Raises:
        GatewayError: If it refers to stored responses, or has an item of an unknown type.
    """
    if body.get("previous_response_id"):
        raise GatewayError("previous_response_id: responses are not stored here; send the whole conversation")
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list):
        raise GatewayError("input is neither a text nor a list of items")
    messages: list[Json] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    for item in items:
        match item:
            case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
                _add_call(messages, str(call_id), str(name), str(arguments))
            case {"type": "function_call_output", "call_id": call_id, "output": output}:
                content = _parts(output, _response_part)
                messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
            case {"type": "reasoning"}:
                pass
            case {"role": str(role), "content": content}:
                role = "system" if role == "developer" else role
                messages.append({"role": role, "content": _parts(content, _response_part)})
            case _:
                raise GatewayError(f"an item of input has the unknown type {_type_of(item)!r}")
    chat: Json = {"messages": messages}
    tools = [_wrapped(tool, tool.get("parameters")) for tool in _functions(body.get("tools"), "function")]
    kept = ("temperature", "top_p", "parallel_tool_calls", "tool_choice", "stream", "seed", "logit_bias")
    chat |= {name: body[name] for name in kept if body.get(name) is not None}
    chat |= ({"tools": tools} if tools else {}) | _renamed(body, "max_output_tokens", "max_tokens")
    return chat


def chat_to_responses(answer: JsonMapping) -> Json:
    """Return an answer of chat completions as one of `/v1/responses`."""
    message, usage = answer["choices"][0]["message"], answer.get("usage") or {}
    output: list[Json] = []
    if message.get("content"):
        text = {"type": "output_text", "text": message["content"], "annotations": []}
        output.append({"type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "content": [text]})
    for at, call in enumerate(message.get("tool_calls") or ()):
        function = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        output.append(
            {"type": "function_call", "id": f"fc_{at}", "call_id": call["id"], "status": "completed", **function}
        )
    is_cut = answer["choices"][0].get("finish_reason") == "length"
    return {
        "id": answer.get("id"),
        "object": "response",
        "created_at": answer.get("created"),
        "model": answer.get("model"),
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "error": None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage.get("prompt_tokens", 0),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.get("completion_tokens", 0),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.get("total_tokens", 0),
        },
    }


def messages_to_chat(body: JsonMapping) -> Json:
    """Return a request of Anthropic's `/v1/messages` as one of chat completions.

    Raises:
        GatewayError: If a block has an unknown type.
    """
    messages: list[Json] = []
    if body.get("system"):
        messages.append({"role": "system", "content": _text_of(body["system"])})
    for message in body.get("messages") or ():
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        if message.get("role") == "assistant":
            text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
            messages.append({"role": "assistant", "content": text})
            for block in blocks:
                if block.get("type") == "tool_use":
                    _add_call(messages, str(block["id"]), str(block["name"]), json.dumps(block.get("input") or {}))
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                parts = _parts(block.get("content") or "", _anthropic_part)
                messages.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": parts})
        rest = [block for block in blocks if block.get("type") != "tool_result"]
        if rest:
            messages.append({"role": "user", "content": _parts(rest, _anthropic_part)})
    tools = [_wrapped(tool, tool.get("input_schema")) for tool in _functions(body.get("tools"), "custom")]
    chat: Json = {"messages": messages, **({"tools": tools} if tools else {})}
    kept = ("temperature", "top_p", "top_k", "max_tokens", "stream")
    chat |= {name: body[name] for name in kept if body.get(name) is not None}
    if (choice := (body.get("tool_choice") or {}).get("type", "auto")) != "auto":
        chat["tool_choice"] = {"any": "required"}.get(choice, choice)
    return chat | _renamed(body, "stop_sequences", "stop")


def chat_to_messages(answer: JsonMapping) -> Json:
    """Return an answer of chat completions as one of Anthropic's `/v1/messages`."""
    choice, usage = answer["choices"][0], answer.get("usage") or {}
    message = choice["message"]
    content: list[Json] = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        arguments = read_object(call["function"]["arguments"]) or {}
        content.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments})
    reasons = {"length": "max_tokens", "tool_calls": "tool_use"}
    return {
        "id": answer.get("id"),
        "type": "message",
        "role": "assistant",
        "model": answer.get("model"),
        "content": content,
        "stop_reason": reasons.get(str(choice.get("finish_reason")), "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": usage.get("prompt_tokens", 0), "output_tokens": usage.get("completion_tokens", 0)},
    }


def message_events(message: JsonMapping) -> list[tuple[str, Json]]:
    """Return the events of Anthropic's stream for a whole message: each block comes as one piece."""
    start = {**message, "content": [], "stop_reason": None}
    events: list[tuple[str, Json]] = [("message_start", {"type": "message_start", "message": start})]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty: Json = {"type": "text", "text": ""}
            delta: Json = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            ("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}),
            ("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}),
            ("content_block_stop", {"type": "content_block_stop", "index": index}),
        ]
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append(("message_delta", {"type": "message_delta", "delta": ended, "usage": message["usage"]}))
    return [*events, ("message_stop", {"type": "message_stop"})]


def response_events(response: JsonMapping) -> list[tuple[str, Json]]:
    """Return the events of a stream of `/v1/responses` for a whole response: each item comes as one piece."""
    events: list[tuple[str, Json]] = []

    def add(kind: str, **fields: object) -> None:
        events.append((kind, {"type": kind, "sequence_number": len(events), **fields}))

    add("response.created", response={**response, "status": "in_progress", "output": []})
    for index, item in enumerate(response["output"]):
        add("response.output_item.added", output_index=index, item=item)
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            add("response.output_text.delta", **place, content_index=0, delta=text, logprobs=[])
            add("response.output_text.done", **place, content_index=0, text=text, logprobs=[])
        else:
            add("response.function_call_arguments.delta", **place, delta=item["arguments"])
            add("response.function_call_arguments.done", **place, arguments=item["arguments"], name=item["name"])
        add("response.output_item.done", output_index=index, item=item)
    add("response.completed", response=dict(response))
    return events


def chat_events(answer: JsonMapping) -> list[tuple[str, Json]]:
    """Return the events of a stream of chat completions: a whole answer as one piece, then its usage."""
    head = {name: answer.get(name) for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = answer["choices"][0]
    calls = [{"index": at, **call} for at, call in enumerate(choice["message"].get("tool_calls") or ())]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    pieces = [{"index": 0, "delta": delta, "finish_reason": None}]
    pieces.append({"index": 0, "delta": {}, "finish_reason": choice.get("finish_reason")})
    events = [("", {**head, "choices": [piece]}) for piece in pieces]
    return [*events, ("", {**head, "choices": [], "usage": answer.get("usage")})]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Form of requests and answers.

    Attributes:
        to_chat: Returns a request as one of chat completions.
        from_chat: Returns an answer in this form.
        events: Returns the events of a stream, each with its name or "", for an answer in this form.
        end: Last line of a stream.
    """

    to_chat: Callable[[JsonMapping], Json]
    from_chat: Callable[[JsonMapping], Json]
    events: Callable[[JsonMapping], list[tuple[str, Json]]]
    end: str = ""

    def read(self, body: JsonMapping) -> Json:
        """Return a request as one of chat completions.

        Raises:
            GatewayError: If it is not of this form, or has something that cannot be converted.
        """
        try:
            return self.to_chat(body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise GatewayError(f"the request is not of this form: {error!r}"[:300]) from error


DIALECTS = {
    "chat/completions": Dialect(to_chat=dict, from_chat=dict, events=chat_events, end="data: [DONE]\n\n"),
    "responses": Dialect(to_chat=responses_to_chat, from_chat=chat_to_responses, events=response_events),
    "messages": Dialect(to_chat=messages_to_chat, from_chat=chat_to_messages, events=message_events),
}
"""Dialects by the end of their path."""


def _add_call(messages: list[Json], call_id: str, name: str, arguments: str) -> None:
    """Add a call to the last assistant message, or to a new one."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    messages[-1].setdefault("tool_calls", []).append(call)


def _parts(content: object, read: Callable[[Mapping[str, object]], Json]) -> str | list[Json]:
    """Return a text as it is, and a list as parts; a single text part as a text, as replies have it."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise GatewayError("content is neither a text nor a list of parts")
    parts = [read(part) for part in content]
    return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _response_part(part: Mapping[str, object]) -> Json:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "input_image" | "computer_screenshot", "image_url": str(url)}:
            return {"type": "image_url", "image_url": {"url": url}}
    raise GatewayError(f"a part of a message has the unknown type {_type_of(part)!r}")


def _anthropic_part(part: Mapping[str, object]) -> Json:
    match part:
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}:
            return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    raise GatewayError(f"a block of a message has the unknown type {_type_of(part)!r}")


def _functions(tools: object, kind: str) -> list[JsonMapping]:
    given: Sequence[JsonMapping] = tools if isinstance(tools, list) else []
    for tool in given:
        if tool.get("type", kind) != kind:
            raise GatewayError(f"the tool {_type_of(tool)!r} runs at the vendor; expected tools of the type {kind!r}")
    return list(given)


def _wrapped(tool: JsonMapping, parameters: object) -> Json:
    function = {"name": tool.get("name"), "description": tool.get("description") or "", "parameters": parameters or {}}
    return {"type": "function", "function": function}


def _renamed(body: JsonMapping, name: str, new_name: str) -> Json:
    return {new_name: body[name]} if body.get(name) is not None else {}


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else "".join(str(part.get("text", "")) for part in value)  # type: ignore[attr-defined]


def _type_of(value: object) -> str:
    return str(value.get("type")) if isinstance(value, dict) else type(value).__name__
