"""Probes of images and videos, and the media they send.

Source: PNG (RFC 2083), AVI (Microsoft RIFF, uncompressed DIB frames).
"""

import base64
import re
import struct
import zlib
from collections.abc import Iterable

from apps.endpoint_check.endpoint import CheckedEndpoint, user
from apps.endpoint_check.outcome import Outcome, failed, inconclusive, not_supported, ok, warning

Colour = tuple[int, int, int]
COLOURS: dict[str, Colour] = {
    "red": (230, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 60, 230),
    "yellow": (250, 220, 20),
}
TINY_PX = 56  # smallest image of a few tokens, so that usage shows each of them


def make_png(width_px: int, height_px: int, colour: Colour) -> bytes:
    """Return a PNG of one colour."""
    row = b"\0" + bytes(colour) * width_px
    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row * height_px)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in chunks)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def make_avi(colours: Iterable[Colour], *, side_px: int = TINY_PX, fps: int = 2) -> bytes:
    """Return an uncompressed AVI with one frame per colour; `side_px` is a multiple of 4."""
    frames = [bytes(reversed(colour)) * (side_px * side_px) for colour in colours]  # BGR; rows need no padding
    size = side_px * side_px * 3
    main = struct.pack(
        "<14I", 1_000_000 // fps, size * fps, 0, 0x10, len(frames), 0, 1, size, side_px, side_px, *[0] * 4
    )
    stream = struct.pack("<4s4sIHHIIIIIIII4H", b"vids", b"DIB ", 0, 0, 0, 0, 1, fps, 0, len(frames), size, 0, 0, 0, 0,
                         side_px, side_px)  # fmt: skip
    image = struct.pack("<IiiHHIIiiII", 40, side_px, side_px, 1, 24, 0, size, 0, 0, 0, 0)
    described = _list(b"strl", _riff_chunk(b"strh", stream) + _riff_chunk(b"strf", image))
    header = _list(b"hdrl", _riff_chunk(b"avih", main) + described)
    movie = _list(b"movi", b"".join(_riff_chunk(b"00db", frame) for frame in frames))
    index = b"".join(
        struct.pack("<4sIII", b"00db", 0x10, 4 + number * (size + 8), size) for number in range(len(frames))
    )
    body = b"AVI " + header + movie + _riff_chunk(b"idx1", index)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _riff_chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _list(kind: bytes, data: bytes) -> bytes:
    return _riff_chunk(b"LIST", kind + data)


def data_url(data: bytes, media_type: str) -> str:
    """Return bytes as a `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def image_part(colour: str, width_px: int = TINY_PX, height_px: int = TINY_PX) -> dict[str, object]:
    """Return a message part with an image of one colour, given by name."""
    url = data_url(make_png(width_px, height_px, COLOURS[colour]), "image/png")
    return {"type": "image_url", "image_url": {"url": url}}


def video_part(colours: Iterable[str]) -> dict[str, object]:
    """Return a message part with a video of two frames per second, one per colour."""
    video = make_avi(COLOURS[name] for name in colours)
    return {"type": "video_url", "video_url": {"url": data_url(video, "video/x-msvideo")}}


EXPECTED = {(1280, 720): 1196, (800, 600): 638}
"""Tokens of an image by its size in px. Source: K2.5's image processor: padded to multiples of 28, one per 28 x 28."""
TINY_TOKENS = 4
MARKERS_PER_ITEM = 3
MANY = 20  # screenshots of a long conversation
SHOWN = ("green", "red", "green", "blue")
FRAMES = ("red",) * 4 + ("blue",) * 4
ADVICE = (
    "K2.5's own code reads video with a package that is not published, so most servers cannot (vLLM issues 42491, "
    "45456); send frames as images"
)


def probe_image_tokens(endpoint: CheckedEndpoint) -> Outcome:
    """Check that images are resized as in the model's training."""
    endpoint.needs(1400)
    base = endpoint.count([user("What is this?", image_part("red"))])
    wrong = []
    for (width, height), expected in EXPECTED.items():
        grown = endpoint.count([user("What is this?", image_part("red", width, height))]) - base + TINY_TOKENS
        if grown != expected:
            wrong.append(f"{width}x{height} is {grown} tokens, expected {expected}")
    if wrong:
        raise failed(f"{'; '.join(wrong)}: another image processor, or usage leaves images out")
    return ok(", ".join(f"{width}x{height} is {number} tokens" for (width, height), number in EXPECTED.items()))


def probe_image_count(endpoint: CheckedEndpoint) -> Outcome:
    """Check requests with one, three and twenty images."""
    single = endpoint.count([user("Describe.", image_part("red"))])
    three = _count_many(endpoint, ["red", "green", "blue"])
    step = (three - single) / 2
    if step < TINY_TOKENS + MARKERS_PER_ITEM:
        raise failed(f"images are lost: three of {TINY_TOKENS} tokens each add {three - single} tokens to one")
    twenty = _count_many(endpoint, ["red"] * MANY)
    if twenty - single != step * (MANY - 1):
        raise failed(f"equal images are merged or lost: {MANY} add {twenty - single} tokens, not {step * (MANY - 1):g}")
    return ok(f"{MANY} at once; each adds {step:g} tokens here")


def _count_many(endpoint: CheckedEndpoint, colours: list[str]) -> int:
    messages = [user("Describe.", *(image_part(colour) for colour in colours))]
    raw = endpoint.post(endpoint.body(messages, max_tokens=1))
    if raw.status == 200:
        return raw.prompt_tokens or 0
    raise failed(
        f"{len(colours)} images are refused (HTTP {raw.status}: {raw.reason}); an agent sends one a step. "
        f"""Start vLLM with --limit-mm-per-prompt '{{"vision_chunk": {MANY}}}' or more"""
    )


def probe_image_order(endpoint: CheckedEndpoint) -> Outcome:
    """Check that the model sees all images in the order they were sent, including identical ones."""
    question = f"There are {len(SHOWN)} images of one colour each. Name their colours in order, with commas, no more."
    answer = endpoint.ask([user(question, *(image_part(name) for name in SHOWN))], max_tokens=48)
    named = re.findall("|".join(COLOURS), answer.content.lower())
    if tuple(named) == SHOWN:
        return ok(f"it names {', '.join(named)}")
    if sorted(named) == sorted(SHOWN):
        raise failed(f"images come out of order: sent {', '.join(SHOWN)}, the model names {', '.join(named)}")
    if named and set(named) == set(SHOWN) and len(named) < len(SHOWN):
        raise failed(f"equal images are merged: sent {', '.join(SHOWN)}, the model names {', '.join(named)}")
    raise inconclusive(f"the model did not name the colours (it wrote {answer.content[:40]!r})")


def probe_video(endpoint: CheckedEndpoint) -> Outcome:
    """Check a video of four seconds."""
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
