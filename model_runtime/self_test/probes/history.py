"""The conversation as a whole: no message, call, result or picture of it is left out on the way to the model."""

from collections.abc import Sequence
from typing import Any

from model_runtime.self_test.endpoint import Endpoint, Message, user
from model_runtime.self_test.outcome import Outcome, failed, inconclusive, ok
from model_runtime.self_test.pictures import image_part

TEXT = " The keeper of the lighthouse wrote a letter to the sea every night of that long winter." * 3
LEAST = 20
"""Tokens that the text above adds at least; it has about 50."""
PICTURE_TOKENS = 4
TURNS = 20
CALL: dict[str, Any] = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
WORD = "lighthouse"
AGAIN = "Which word did I tell you? Answer with this one word."
COLOUR = "Which colour has the picture? Answer with one word: red, green or blue."


def probe_history(endpoint: Endpoint) -> Outcome:
    """Every message reaches the model, whatever its role and however old, and so do old pictures."""
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
    lost += _lost_pictures(endpoint, talk)
    if lost:
        raise failed(f"what a conversation holds does not all reach the model; missing: {', '.join(lost)}")
    return ok(f"{len(talk)} messages of every role, the first of {len(long)}, and pictures of earlier turns")


def _talk() -> list[dict[str, Any]]:
    call = {"id": "functions.get_weather:0", "type": "function", "function": CALL}
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


def _grown(message: Message) -> dict[str, Any]:
    if message.get("tool_calls"):
        (call,) = message["tool_calls"]
        arguments = f'{{"city": "Paris", "why": "{TEXT}"}}'
        return {**message, "tool_calls": [{**call, "function": {**CALL, "arguments": arguments}}]}
    return {**message, "content": f"{message['content']}{TEXT}"}


def _lost_pictures(endpoint: Endpoint, talk: Sequence[Message]) -> list[str]:
    """Which of two earlier pictures do not add to a conversation that has one in its last message."""
    shown = [*talk[:-1], user("And now?", image_part("blue"))]
    alone = endpoint.count(shown)
    places = {"a picture of the first question": 1, "a picture of a later question": 3}
    return [
        name
        for name, at in places.items()
        if endpoint.count([*shown[:at], user(str(talk[at]["content"]), image_part("red")), *shown[at + 1 :]]) - alone
        < PICTURE_TOKENS
    ]


def probe_memory(endpoint: Endpoint) -> Outcome:
    """The model answers from what was said and shown before: a bill for the whole prompt does not prove that."""
    told = f"The word is {WORD}."
    said: dict[str, tuple[list[Message], list[Message]]] = {
        "an earlier message": ([user(f"{told} {AGAIN}")], [user(told), _assistant("I keep it in mind."), user(AGAIN)]),
        "the system message": ([user(f"{told} {AGAIN}")], [{"role": "system", "content": told}, user(AGAIN)]),
    }
    shown: dict[str, tuple[list[Message], list[Message]]] = {
        "an earlier picture": (
            [user(COLOUR, image_part("red"))],
            [user("Look.", image_part("red")), _assistant("I see it."), user(COLOUR)],
        )
    }
    states = {name: _recalls(endpoint, *talks, WORD) for name, talks in said.items()}
    states |= {name: _recalls(endpoint, *talks, "red") for name, talks in shown.items()}
    if lost := [name for name, state in states.items() if state is False]:
        raise failed(f"the model knows it when it is said at once, and not from {', '.join(lost)}")
    if unclear := [name for name, state in states.items() if state is None]:
        raise inconclusive(f"the model did not repeat what it was told at once; not seen: {', '.join(unclear)}")
    return ok(f"from {', '.join(states)}")


def _recalls(endpoint: Endpoint, at_once: Sequence[Message], before: Sequence[Message], word: str) -> bool | None:
    """Whether the model answers with the word from before; None where it does not even at once."""
    if word not in endpoint.ask(at_once).content.lower():
        return None
    return word in endpoint.ask(before).content.lower()


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}
