"""Probes of tool calls: single, parallel, forced, answered with text and images, and their ids."""

import json
import re
from collections.abc import Sequence

from apps.endpoint_check.answer import ParsedAnswer, ReceivedCall, find_marker
from apps.endpoint_check.endpoint import ON, CheckedEndpoint, user
from apps.endpoint_check.outcome import Outcome, ProbeEnded, failed, inconclusive, not_supported, ok, warning
from apps.endpoint_check.probes.media import image_part
from model_runtime.json_types import Json

K2_ID = re.compile(r"functions\.[\w.-]+:\d+")
PARSERS = "start vLLM with --enable-auto-tool-choice --tool-call-parser kimi_k2 (SGLang: --tool-call-parser kimi_k2)"
NAME = "get_weather"
WEATHER = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Weather of a city, now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city"}},
            "required": ["city"],
        },
    },
}
ONE = [user("What is the weather in Paris? Call the tool get_weather.")]
THREE = [user("Get the weather of Paris, Rome and Oslo: call get_weather three times at once, in one reply.")]
LONG_ID = "call_" + "0123456789abcdef" * 25


def probe_tool_call(endpoint: CheckedEndpoint) -> Outcome:
    """Check a single tool call, with and without thinking."""
    answer = endpoint.ask(ONE, tools=[WEATHER], max_tokens=endpoint.budget(256))
    calls = check_calls(answer)
    thought = endpoint.ask(ONE, tools=[WEATHER], **ON, max_tokens=endpoint.budget(2048))
    check_calls(thought, is_needed=False)
    return ok(f"{calls[0].name}({calls[0].arguments}) with id {calls[0].id}")


def check_calls(answer: ParsedAnswer, *, is_needed: bool = True) -> Sequence[ReceivedCall]:
    """Return the calls of an answer; ends the probe as failed if they are invalid."""
    _check_leaks(answer)
    if answer.finish == "length" and (answer.calls or is_needed):
        raise inconclusive(f"the model did not come to an end within the limit (it wrote {_start(answer)!r})")
    for call in answer.calls:
        _check_call(call)
    ids = [call.id for call in answer.calls]
    if len(set(ids)) < len(ids):
        raise failed(f"calls share an id ({ids[0]}): their results cannot be distinguished")
    if answer.calls and answer.finish != "tool_calls":
        raise failed(f"finish_reason is {answer.finish!r} with calls in the answer, expected 'tool_calls'")
    if is_needed and not answer.calls:
        raise inconclusive(f"the model called no tool (it wrote {_start(answer)!r})")
    return answer.calls


def _start(answer: ParsedAnswer) -> str:
    return (answer.calls[0].arguments if answer.calls else answer.content)[:40]


def _check_leaks(answer: ParsedAnswer) -> None:
    """Check for control tokens in an answer: with a tool's name, they are a call that was not parsed; alone, the model
    may have written them.
    """
    marker = find_marker(answer.content)
    if marker is not None and (answer.calls or NAME in answer.content):
        raise failed(f"{marker} leaks into the content: calls are not parsed; {PARSERS}")
    thought = find_marker(answer.reasoning)
    if thought is not None and NAME in answer.reasoning[answer.reasoning.index(thought) :]:
        raise failed(
            f"{thought} occurs in the thoughts: a call that starts there is lost; vLLM 0.32 ends thoughts there"
        )
    if marker is not None:
        raise ProbeEnded(
            "warning", f"{marker} occurs in the content; no call is near it, so the model may have misplaced it"
        )


def _check_call(call: ReceivedCall) -> None:
    if NAME not in call.name:
        raise inconclusive(f"the model called {call.name[:40]!r}, which is not there")
    if call.name != NAME:
        raise failed(f"the call's name is {call.name[:80]!r}, expected {NAME!r}: its id was not taken apart")
    if find_marker(call.arguments):
        raise failed(f"calls are merged into one: {call.arguments[:80]!r}; upgrade the server (vLLM 0.20.0 or newer)")
    if not call.id:
        raise failed("the call has no id")
    if call.type != "function":
        raise failed(f"the call's type is {call.type!r}, expected 'function'")
    _check_arguments(call.arguments)


def _check_arguments(text: str) -> None:
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        raise failed(f"arguments are not JSON: {text[:80]!r}; vLLM before 0.20.0 cuts long ones") from error
    if text[end:].strip():
        raise failed(f"calls are merged into one: {text[:80]!r}; upgrade the server (vLLM 0.20.0 or newer)")
    if not isinstance(value, dict):
        raise failed(f"arguments are {type(value).__name__}, expected an object")


def probe_parallel_calls(endpoint: CheckedEndpoint) -> Outcome:
    """Check several calls in one reply: the streamed reply has as many as the whole one."""
    options: Json = {"tools": [WEATHER], "max_tokens": endpoint.budget(512)}
    whole = check_calls(endpoint.ask(THREE, **options))
    streamed = endpoint.stream(THREE, **options)
    if streamed.problems:
        raise failed("; ".join(streamed.problems))
    number = len(check_calls(streamed, is_needed=False))
    if number < len(whole):
        again = len(check_calls(endpoint.stream(THREE, **options), is_needed=False))
        if again < len(whole):
            lost = f"streaming loses calls: {number} of {len(whole)} come"
            raise failed(f"{lost}; vLLM does so before 0.20.0 (vllm-project/vllm 41182)")
    if len(whole) == 1:
        raise inconclusive("the model made one call where three were asked for")
    return ok(f"{len(whole)} calls, whole and streamed")


def probe_tool_choice(endpoint: CheckedEndpoint) -> Outcome:
    """Check that a call can be forced and forbidden."""
    forced = endpoint.post(endpoint.body(ONE, tools=[WEATHER], tool_choice="required", max_tokens=1))
    if forced.status != 200:
        raise not_supported(f"tool_choice required: HTTP {forced.status}: {forced.reason}")
    forbidden = endpoint.ask(ONE, tools=[WEATHER], tool_choice="none", max_tokens=endpoint.budget(256))
    if forbidden.calls:
        raise failed("tool_choice none is ignored: a call came")
    answer = endpoint.ask(ONE, tools=[WEATHER], tool_choice="required", max_tokens=endpoint.budget(256))
    if not check_calls(answer, is_needed=answer.finish == "length"):
        return warning(
            "tool_choice required does not force a call; known of vLLM with this family (vllm-project/vllm 44906)"
        )
    return ok("required and none are kept")


def probe_tool_result(endpoint: CheckedEndpoint) -> Outcome:
    """Check that the model receives a tool result with text and with an image."""
    text = endpoint.count(_answered("functions.get_weather:0", "18 degrees"), tools=[WEATHER])
    image = [{"type": "text", "text": "18 degrees"}, image_part("red")]
    try:
        shown = endpoint.count(_answered("functions.get_weather:0", image), tools=[WEATHER])
    except ProbeEnded as ended:
        advice = "send screenshots as a user message after the result"
        raise failed(f"an image in a tool result is refused ({ended.outcome.text}); {advice}") from ended
    if shown - text < 7:
        raise failed(f"an image in a tool result does not reach the model (it adds {shown - text} tokens)")
    return ok(f"text and images; an image of 4 tokens adds {shown - text}")


def probe_tool_ids(endpoint: CheckedEndpoint) -> Outcome:
    """Check ids in the style of other servers and clients, in the history and in new calls."""
    own = endpoint.count(_answered("functions.get_weather:0", "18 degrees"), tools=[WEATHER])
    try:
        grown = [
            endpoint.count(_answered(call_id, "18 degrees"), tools=[WEATHER]) - own
            for call_id in ("call_" + "0123456789abcdef" * 4, LONG_ID)
        ]
    except ProbeEnded as ended:
        raise failed(f"a foreign or long id in the history is refused: {ended.outcome.text}") from ended
    calls = endpoint.ask(ONE, tools=[WEATHER], max_tokens=endpoint.budget(256)).calls
    foreign = next((call.id for call in calls if not K2_ID.fullmatch(call.id)), None)
    if max(grown) <= 0:
        return ok(f"ids of the history are rewritten for the model; new ones look like {calls[0].id if calls else '-'}")
    verbatim = f"ids of the history reach the model as they are (a long one adds {grown[1]} tokens)"
    if foreign is not None:
        raise failed(
            f"{verbatim}, and new calls get ids such as {foreign!r} that the model does not know: it imitates them and "
            "later calls break. Keep the model's functions.NAME:INDEX"
        )
    return warning(f"{verbatim}: clients must send back functions.NAME:INDEX unchanged, or the model imitates theirs")


def _answered(call_id: str, content: object) -> list[Json]:
    function = {"name": NAME, "arguments": '{"city": "Paris"}'}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        user("What is the weather in Paris?"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": content},
    ]
