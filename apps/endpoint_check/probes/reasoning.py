"""Probes of reasoning and of conversation history."""

from collections.abc import Sequence

from apps.endpoint_check.answer import ParsedAnswer, find_marker, parse_answer
from apps.endpoint_check.endpoint import OFF, ON, CheckedEndpoint, Message, user
from apps.endpoint_check.outcome import Outcome, ProbeEnded, failed, inconclusive, ok, warning
from apps.endpoint_check.probes.media import image_part
from apps.endpoint_check.probes.tools import WEATHER
from model_runtime.json_types import Json

SUM = [user("What is 17 * 23? Think first, then answer in one sentence.")]
UNPARSED = "start vLLM or SGLang with --reasoning-parser kimi_k2"
THOUGHT = "I should look at the weather in the town that was named before I say anything at all. " * 4
CALL: Json = {
    "id": "functions.get_weather:0",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}


def probe_reasoning(endpoint: CheckedEndpoint) -> Outcome:
    """Check that reasoning arrives in its own field, whole and streamed."""
    limit = endpoint.budget(1024)
    whole = endpoint.ask(SUM, **ON, max_tokens=limit)
    named = _check_split(whole, "whole", endpoint)
    streamed = endpoint.stream(SUM, **ON, max_tokens=limit)
    if streamed.problems:
        raise failed("; ".join(streamed.problems))
    streamed_named = _check_split(streamed, "streamed", endpoint)
    if named != streamed_named:
        raise failed(f"thoughts come as {named} whole and as {streamed_named} streamed")
    note = "" if named == "reasoning_content" else " (Moonshot's API names it reasoning_content)"
    return ok(f"in the field {named}{note}, no marker in the answer")


def _check_split(answer: ParsedAnswer, how: str, endpoint: CheckedEndpoint) -> str:
    """Return the name of the field that held the reasoning."""
    marker = find_marker(answer.content)
    if marker in ("<think>", "</think>") and not answer.reasoning:
        raise failed(f"{marker} occurs in the content ({how}): thoughts are not parsed; {UNPARSED}")
    if "</think>" in answer.reasoning:
        raise failed(f"</think> occurs in the thoughts ({how}): the parser does not end them there")
    marker = marker or find_marker(answer.reasoning)
    if marker is not None:
        raise ProbeEnded(
            "warning", f"{marker} occurs in the text ({how}): the model misplaced it, the server lets it through"
        )
    if answer.reasoning_field is not None:
        return answer.reasoning_field
    if answer.content and answer.finish == "length":
        raise failed(f"thoughts come as content ({how}); {UNPARSED}")
    number = answer.usage.completion if answer.usage else 0
    if number > len(answer.content) // 2 + 16:
        text = f"{number} tokens were made, {len(answer.content)} characters came ({how})"
        raise failed(f"thoughts are dropped: {text}; an agent has to send them back in a tool loop")
    raise inconclusive(f"the model did not think ({how})")


def probe_thinking_off(endpoint: CheckedEndpoint) -> Outcome:
    """Check that both spellings of the option switch thinking off."""
    counts = {"on": endpoint.count(SUM, **ON), "off": endpoint.count(SUM, **OFF)}
    answer = endpoint.ask(SUM)
    if answer.reasoning and counts["off"] == counts["on"]:
        raise failed("chat_template_kwargs {thinking: false} is ignored: the prompt stays the same and thoughts come")
    if answer.reasoning:
        raise failed(
            "without thinking the answer lands in the reasoning field: the parser must follow the request's "
            "thinking flag, not the model's name"
        )
    if "</think>" in answer.content and counts["off"] == counts["on"]:
        raise failed(f"the flag is ignored, and thoughts are in the content; {UNPARSED}")
    if not answer.content and counts["off"] == counts["on"]:
        raise inconclusive("the model wrote nothing, and the prompt is as long with thinking as without")
    official: Json = {"chat_template_kwargs": {}, "thinking": {"type": "disabled"}}
    raw = endpoint.post(endpoint.body(SUM, **official))
    if raw.prompt_tokens != counts["off"] or parse_answer(raw.body).reasoning:
        seen = "ignored" if raw.status == 200 else f"answered with HTTP {raw.status}"
        return warning(f'by chat_template_kwargs {{"thinking": false}} only; the official thinking.type is {seen}')
    return ok("by chat_template_kwargs and by thinking.type")


def probe_reasoning_history(endpoint: CheckedEndpoint) -> Outcome:
    """Check that the model receives reasoning of a running tool loop, but not of finished turns."""
    plain = endpoint.count(_loop({}), **ON)
    grown = {name: endpoint.count(_loop({name: THOUGHT}), **ON) - plain for name in ("reasoning_content", "reasoning")}
    if max(grown.values()) < 20:
        raise failed(
            "thoughts of a running tool loop do not reach the model, so it starts to think again at each call; "
            "the template has to render reasoning_content"
        )
    if grown["reasoning_content"] < 20:
        return warning("only the field `reasoning` reaches the model, reasoning_content is dropped: send the former")
    done = _done({"reasoning_content": THOUGHT})
    if endpoint.count(done, **ON) - endpoint.count(_done({}), **ON) >= 20:
        return warning("thoughts of finished turns are kept as well (preserve_thinking): long talks fill the context")
    return ok("kept within a running tool loop, dropped after it")


def _loop(more: dict[str, str]) -> list[Json]:
    call = {"role": "assistant", "content": "", "tool_calls": [CALL], **more}
    result = {"role": "tool", "tool_call_id": CALL["id"], "content": "18 degrees"}
    return [user("What is the weather in Paris?"), call, result]


def _done(more: dict[str, str]) -> list[Json]:
    return [user("Good morning"), {"role": "assistant", "content": "Hello.", **more}, user("How are you?")]


COPIES = 8


def probe_template(endpoint: CheckedEndpoint) -> Outcome:
    """Check that tools reach the prompt and that no system prompt is added."""
    alone = endpoint.count([user("Good morning")])
    with_tools = endpoint.count([user("Good morning")], tools=[WEATHER])
    if with_tools - alone < 10:
        raise failed("tools do not reach the prompt; is --enable-auto-tool-choice --tool-call-parser kimi_k2 missing?")
    with_system = endpoint.count([{"role": "system", "content": "Be brief"}, user("Good morning")])
    if with_system - alone < 4:
        return warning("a system prompt is added where none is sent; K2.5's own template has none")
    return ok(f"a greeting is {alone} tokens, a tool adds {with_tools - alone}")


def probe_control_tokens(endpoint: CheckedEndpoint) -> Outcome:
    """Check that user text cannot become a control token."""
    plain = endpoint.count([user("x ")])
    grown = endpoint.count([user("x " + "<|im_end|>" * COPIES)]) - plain
    if grown <= COPIES + 1:
        return warning(
            f"{COPIES} x '<|im_end|>' in a user's text are {grown} tokens: pages and files that an agent reads can end "
            "its message and speak in another role. Only the server can fix it; break such texts up before sending"
        )
    return ok("'<|im_end|>' in a user's text stays text")


TEXT = " The keeper of the lighthouse wrote a letter to the sea every night of that long winter." * 3
LEAST = 20
"""Minimum number of tokens that the text above adds; it has about 50."""
IMAGE_TOKENS = 4
TURNS = 20
WEATHER_CALL: Json = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
WORD = "lighthouse"
AGAIN = "Which word did I tell you? Answer with this one word."
COLOUR = "Which colour has the image? Answer with one word: red, green or blue."


def probe_history(endpoint: CheckedEndpoint) -> Outcome:
    """Check that every message reaches the model, whatever its role and age, including old images."""
    endpoint.needs(900)
    talk = _talk()
    alone = endpoint.count(talk)
    lost = [
        name
        for name, at in PLACES.items()
        if endpoint.count([*talk[:at], _grown(talk[at]), *talk[at + 1 :]]) - alone < LEAST
    ]
    long: list[Message] = [
        {"role": ("user", "assistant")[at % 2], "content": f"Number {at}."} for at in range(2 * TURNS)
    ]
    long.append(user("Thank you."))
    if endpoint.count([_grown(long[0]), *long[1:]]) - endpoint.count(long) < LEAST:
        lost.append(f"the first of {len(long)} messages")
    lost += _lost_images(endpoint, talk)
    if lost:
        raise failed(f"what a conversation holds does not all reach the model; missing: {', '.join(lost)}")
    return ok(f"{len(talk)} messages of every role, the first of {len(long)}, and images of earlier turns")


def _talk() -> list[Json]:
    call = {"id": "functions.get_weather:0", "type": "function", "function": WEATHER_CALL}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Good morning."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "18 degrees"},
        {"role": "assistant", "content": "It is mild."},
        {"role": "user", "content": "And now?"},
    ]


PLACES = {
    "the system message": 0,
    "the first question": 1,
    "the first answer": 2,
    "a later question": 3,
    "arguments of a call": 4,
    "a tool's result": 5,
    "the last answer": 6,
}


def _grown(message: Message) -> Json:
    if message.get("tool_calls"):
        (call,) = message["tool_calls"]
        arguments = f'{{"city": "Paris", "why": "{TEXT}"}}'
        return {**message, "tool_calls": [{**call, "function": {**WEATHER_CALL, "arguments": arguments}}]}
    return {**message, "content": f"{message['content']}{TEXT}"}


def _lost_images(endpoint: CheckedEndpoint, talk: Sequence[Message]) -> list[str]:
    """List which of two earlier images add no tokens to a conversation whose last message has an image."""
    shown = [*talk[:-1], user("And now?", image_part("blue"))]
    alone = endpoint.count(shown)
    places = {"an image of the first question": 1, "an image of a later question": 3}
    return [
        name
        for name, at in places.items()
        if endpoint.count([*shown[:at], user(str(talk[at]["content"]), image_part("red")), *shown[at + 1 :]]) - alone
        < IMAGE_TOKENS
    ]


def probe_memory(endpoint: CheckedEndpoint) -> Outcome:
    """Check that the model answers from earlier text and images: a bill for the whole prompt does not prove that."""
    statement = f"The word is {WORD}."
    stated: dict[str, tuple[list[Message], list[Message]]] = {
        "an earlier message": (
            [user(f"{statement} {AGAIN}")],
            [user(statement), _assistant("I keep it in mind."), user(AGAIN)],
        ),
        "the system message": ([user(f"{statement} {AGAIN}")], [{"role": "system", "content": statement}, user(AGAIN)]),
    }
    shown: dict[str, tuple[list[Message], list[Message]]] = {
        "an earlier image": (
            [user(COLOUR, image_part("red"))],
            [user("Look.", image_part("red")), _assistant("I see it."), user(COLOUR)],
        )
    }
    states = {name: _recalls(endpoint, *talks, WORD) for name, talks in stated.items()}
    states |= {name: _recalls(endpoint, *talks, "red") for name, talks in shown.items()}
    if lost := [name for name, state in states.items() if state is False]:
        raise failed(f"the model knows it within one message, but not from {', '.join(lost)}")
    if unclear := [name for name, state in states.items() if state is None]:
        raise inconclusive(f"the model did not repeat it even within one message; not checked: {', '.join(unclear)}")
    return ok(f"from {', '.join(states)}")


def _recalls(
    endpoint: CheckedEndpoint, at_once: Sequence[Message], before: Sequence[Message], word: str
) -> bool | None:
    """Return True if the model answers with the earlier word; None if it fails even within one message."""
    if word not in endpoint.ask(at_once).content.lower():
        return None
    return word in endpoint.ask(before).content.lower()


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}
