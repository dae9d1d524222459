"""Pictures and video: how many tokens they become, how many are taken, in which order, and whether video works."""

import re

from model_runtime.self_test.endpoint import Endpoint, user
from model_runtime.self_test.outcome import Outcome, failed, inconclusive, not_supported, ok, warning
from model_runtime.self_test.pictures import COLOURS, image_part, video_part

EXPECTED = {(1280, 720): 1196, (800, 600): 638}
"""Tokens of a picture by its size in px. Source: K2.5's image processor: padded to multiples of 28, one per 28 x 28."""
TINY_TOKENS = 4
MARKERS_PER_ITEM = 3
MANY = 20
SHOWN = ("green", "red", "green", "blue")
FRAMES = ("red",) * 4 + ("blue",) * 4
ADVICE = (
    "K2.5's own code reads video with a package that is not published, so most servers cannot (vLLM issues 42491, "
    "45456); send frames as pictures"
)


def probe_image_tokens(endpoint: Endpoint) -> Outcome:
    """Pictures are resized as the model was trained."""
    endpoint.needs(1400)
    base = endpoint.count([user("What is this?", image_part("red"))])
    wrong = []
    for (width, height), expected in EXPECTED.items():
        grown = endpoint.count([user("What is this?", image_part("red", width, height))]) - base + TINY_TOKENS
        if grown != expected:
            wrong.append(f"{width}x{height} is {grown} tokens, expected {expected}")
    if wrong:
        raise failed(f"{'; '.join(wrong)}: another image processor, or usage leaves pictures out")
    return ok(", ".join(f"{width}x{height} is {number} tokens" for (width, height), number in EXPECTED.items()))


def probe_image_count(endpoint: Endpoint) -> Outcome:
    """One, three and twenty pictures in a request."""
    one = endpoint.count([user("Describe.", image_part("red"))])
    three = _count_many(endpoint, ["red", "green", "blue"])
    step = (three - one) / 2
    if step < TINY_TOKENS + MARKERS_PER_ITEM:
        raise failed(f"pictures are lost: three of {TINY_TOKENS} tokens each add {three - one} tokens to one")
    twenty = _count_many(endpoint, ["red"] * MANY)
    if twenty - one != step * (MANY - 1):
        raise failed(f"equal pictures are merged or lost: {MANY} add {twenty - one} tokens, not {step * (MANY - 1):g}")
    return ok(f"{MANY} at once; each adds {step:g} tokens here")


def _count_many(endpoint: Endpoint, colours: list[str]) -> int:
    messages = [user("Describe.", *(image_part(colour) for colour in colours))]
    raw = endpoint.post(endpoint.body(messages, max_tokens=1))
    if raw.status == 200:
        return raw.prompt_tokens or 0
    raise failed(
        f"{len(colours)} pictures are refused (HTTP {raw.status}: {raw.reason}); an agent sends one a step. "
        f"""Start vLLM with --limit-mm-per-prompt '{{"vision_chunk": {MANY}}}' or more"""
    )


def probe_image_order(endpoint: Endpoint) -> Outcome:
    """The model sees all pictures, equal ones too, in the order they were sent."""
    question = f"There are {len(SHOWN)} pictures of one colour each. Name their colours in order, with commas, no more."
    answer = endpoint.ask([user(question, *(image_part(name) for name in SHOWN))], max_tokens=48)
    named = re.findall("|".join(COLOURS), answer.content.lower())
    if tuple(named) == SHOWN:
        return ok(f"it names {', '.join(named)}")
    if sorted(named) == sorted(SHOWN):
        raise failed(f"pictures come out of order: sent {', '.join(SHOWN)}, the model names {', '.join(named)}")
    if named and set(named) == set(SHOWN) and len(named) < len(SHOWN):
        raise failed(f"equal pictures are merged: sent {', '.join(SHOWN)}, the model names {', '.join(named)}")
    raise inconclusive(f"the model did not name the colours (it wrote {answer.content[:40]!r})")


def probe_video(endpoint: Endpoint) -> Outcome:
    """A video of four seconds."""
    messages = [user("What happens?", video_part(FRAMES))]
    raw = endpoint.post(endpoint.body(messages, max_tokens=1))
    if raw.status >= 500:
        endpoint.ask([user("Are you still there?")], max_tokens=1)
        return warning(f"HTTP {raw.status} for a video instead of a refusal ({raw.reason}); {ADVICE}")
    if raw.status != 200:
        raise not_supported(f"HTTP {raw.status}: {raw.reason}; {ADVICE}")
    grown = (raw.prompt_tokens or 0) - endpoint.count([user("What happens?")])
    chunks = len(FRAMES) // 4
    least = chunks * (TINY_TOKENS + MARKERS_PER_ITEM)
    if grown < least:
        raise failed(f"the video adds {grown} tokens, expected {least} or more: frames do not reach the model")
    if grown > 40 * chunks:
        return warning(f"the video adds {grown} tokens; {chunks} chunks of 4 frames are {TINY_TOKENS} each and a time")
    return ok(f"{len(FRAMES)} frames add {grown} tokens, times included")
