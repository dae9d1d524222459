"""Images and videos: data URLs, the web where it is allowed, what is refused, what is kept."""

import base64
import io
import struct
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

import numpy as np
import pytest
from PIL import Image

from envs.hosts import REACHABLE
from model_runtime.chat.messages import ChatMessage, ImagePart, TextPart, ToolCall, VideoPart
from model_runtime.chat.template import encode_chat, render_chat
from model_runtime.processor.processor import Processor
from model_runtime.server import MediaAccess, ServerOptions
from model_runtime.server.media import is_public
from tests.model_runtime.fakes import TOKENIZER, FakeEngine, FakeProcessor
from tests.tables import table

PATH = "/v1/chat/completions"


def url_of(data: bytes, head: str = "data:image/png;base64,") -> str:
    return head + base64.b64encode(data).decode()


def png(width: int = 40, height: int = 30, mode: str = "RGB", kind: str = "PNG") -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, kind)
    return out.getvalue()


def image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": url if isinstance(url, dict) else {"url": url}}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def test_pictures_and_videos_stand_where_they_were_put(ask: Any) -> None:
    engine, processor = FakeEngine(), FakeProcessor()
    call = {"id": "functions.shot:0", "type": "function", "function": {"name": "shot", "arguments": "{}"}}
    messages = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look: "},
                image({"url": url_of(b"one"), "detail": "high"}),
                {"type": "video_url", "video_url": url_of(b"film", "data:video/mp4;base64,")},
            ],
        },
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.shot:0", "content": [image(url_of(b"two")), image(url_of(b"one"))]},
    ]
    assert ask(engine, processor=processor).post(PATH, json={"messages": messages}).status_code == 200
    one, two = processor.image(b"one"), processor.image(b"two")
    said = [
        ChatMessage(role="user", parts=(TextPart("Look: "), ImagePart(one), VideoPart(processor.video(b"film")))),
        ChatMessage(role="assistant", tool_calls=(ToolCall(id="functions.shot:0", name="shot", arguments="{}"),)),
        ChatMessage(role="tool", tool_call_id="functions.shot:0", parts=(ImagePart(two), ImagePart(one))),
    ]
    expected = encode_chat(render_chat(said), TOKENIZER)
    got = engine.seen[0].prompt
    assert got.token_ids == expected.token_ids
    hashes = [(span.offset, span.item.content_hash) for span in got.media]
    assert hashes == [(span.offset, span.item.content_hash) for span in expected.media]


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64, " + base64.b64encode(png()).decode(),
        "data:image/png;base64,\n" + "\n".join(base64.encodebytes(png()).decode().splitlines()) + "\n ",
        "  " + url_of(png()),
        url_of(png(), "DATA:IMAGE/PNG;BASE64,"),
        url_of(png(), "data:;base64,"),
        url_of(png(), "data:application/octet-stream;base64,"),
        url_of(png(), "data:image/png;charset=utf-8;base64,"),
    ],
)
def test_data_urls_as_people_write_them(ask: Any, url: str) -> None:
    engine = FakeEngine()
    assert ask(engine, processor=Processor()).post(PATH, json=user(image(url))).status_code == 200
    assert engine.seen[0].prompt.media[0].item == Processor().image(png())


@pytest.mark.parametrize(
    ("mode", "kind"), [("CMYK", "JPEG"), ("L", "PNG"), ("1", "PNG"), ("RGBA", "WEBP"), ("P", "GIF")]
)
def test_every_kind_of_picture(ask: Any, mode: str, kind: str) -> None:
    engine = FakeEngine()
    got = ask(engine, processor=Processor()).post(PATH, json=user(image(url_of(png(1, 1, mode, kind)))))
    assert got.status_code == 200
    assert engine.seen[0].prompt.media[0].item.frames.shape == (1, 28, 28, 3)


def bomb() -> bytes:
    """A PNG of a few bytes that says it has 100,000 x 100,000 pixels."""
    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    parts = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (url_of(bomb()), "media_too_large"),
        (url_of(png()[:200]), "invalid_media"),
        (url_of(b"<svg/>", "data:image/svg+xml;base64,"), "invalid_media"),
        (url_of(b"%PDF-1.4"), "invalid_media"),
        ("data:image/png;base64,", "invalid_media"),
        ("data:image/png;base64,A", "invalid_base64"),
        ("data:image/png;base64,****", "invalid_base64"),
        ("data:image/png;base64,AAAA\u00e9", "invalid_base64"),
        ("data:image/png,AAAA", "invalid_data_url"),
        ("data:image/png;base64", "invalid_data_url"),
        ("data:" + "x" * 10_000, "invalid_data_url"),
        (url_of(png(), "data:text/html;base64,"), "invalid_media_type"),
        (url_of(png(), "data:video/mp4;base64,"), "invalid_media_type"),
        (url_of(bytes(3_000_000)), "media_too_large"),
        ("https://example.com/a.png", "forbidden_url"),
        ("file:///etc/passwd", "invalid_url"),
        ("/etc/passwd", "invalid_url"),
        ("javascript:alert(1)", "invalid_url"),
    ],
)
def test_what_is_no_picture_is_refused(ask: Any, url: str, code: str) -> None:
    options = ServerOptions(media=MediaAccess(max_item_bytes=2_000_000))
    body = user({"type": "text", "text": "a"}, image(url))
    error = ask(options=options, processor=Processor()).post(PATH, json=body).json()["error"]
    assert (error["code"], error["param"]) == (code, "messages.0.content.1"), error
    assert len(error["message"]) < 400


def test_too_many_pictures(ask: Any) -> None:
    options = ServerOptions(media=MediaAccess(max_items=2))
    got = ask(options=options).post(PATH, json=user(*[image(url_of(b"a"))] * 3))
    assert (got.status_code, got.json()["error"]["code"]) == (400, "too_many_images")


def test_a_picture_that_comes_again_is_not_decoded_again(ask: Any) -> None:
    processor = FakeProcessor()
    item_bytes = processor.image(b"a").frames.nbytes
    processor.num_decoded = 0
    options = ServerOptions(media=MediaAccess(cache_bytes=2 * item_bytes))
    client = ask(options=options, processor=processor)
    for name in (b"a", b"b", b"a", b"c", b"b"):  # room for two: b is dropped for c
        client.post(PATH, json=user(image(url_of(name))))
    assert processor.num_decoded == 4


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        port = self.server.server_port  # type: ignore[attr-defined]
        redirects = {
            "/again": f"http://127.0.0.1:{port}/again",
            "/relative": "/ok",
            "/elsewhere": f"http://localhost:{port}/ok",
            "/file": "file:///etc/passwd",
        }
        if self.path in redirects:
            self.send_response(302)
            self.send_header("location", redirects[self.path])
            self.end_headers()
            return
        status = 200 if self.path in ("/ok", "/large") else 404
        self.send_response(status)
        self.end_headers()
        self.wfile.write(png() if self.path == "/ok" else bytes(3_000_000))

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/ok", None, ""),
        ("/relative", None, ""),
        ("/again", "media_fetch_failed", "more than 3 redirects"),
        ("/elsewhere", "forbidden_url", "'localhost'"),
        ("/file", "media_fetch_failed", "neither http nor https"),
        ("/none", "media_fetch_failed", "404"),
        ("/large", "media_too_large", "larger than 2000000 bytes"),
    ],
)
def test_the_web(ask: Any, web: str, path: str, code: str | None, said: str) -> None:
    access = MediaAccess(allow_http=True, private_hosts=("127.0.0.1",), max_item_bytes=2_000_000)
    engine = FakeEngine()
    client = ask(engine, ServerOptions(media=access), Processor())
    got = client.post(PATH, json=user(image(web + path))).json()
    if code is None:
        assert engine.seen[0].prompt.media[0].item == Processor().image(png())
    else:
        assert got["error"]["code"] == code
        assert said in got["error"]["message"]


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:9", "forbidden_url"),
        ("localhost:9", "forbidden_url"),
        ("127.1:9", "forbidden_url"),
        ("2130706433:9", "forbidden_url"),
        ("0.0.0.0:9", "forbidden_url"),
        ("[::1]:9", "forbidden_url"),
        ("[::ffff:127.0.0.1]:9", "forbidden_url"),
        ("169.254.169.254", "forbidden_url"),
        ("user:word@127.0.0.1", "media_fetch_failed"),
        ("127.0.0.1:99999", "media_fetch_failed"),
        ("", "media_fetch_failed"),
        ("a..b", "media_fetch_failed"),
    ],
)
def test_addresses_that_are_not_public_are_not_reached(ask: Any, host: str, code: str) -> None:
    options = ServerOptions(media=MediaAccess(allow_http=True))
    got = ask(options=options).post(PATH, json=user(image(f"http://{host}/a.png")))
    assert (got.status_code, got.json()["error"]["code"]) == (400, code), got.text


@table(
    ("address", "expected"),
    [
        *((text, True) for text in ("8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808")),
        *((text, False) for text in ("10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "0.0.0.0", "100.64.0.1")),
        *((text, False) for text in ("169.254.169.254", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1")),
        *((text, False) for text in ("fc00::1", "ff02::1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1")),
    ],
)
def test_public_addresses(address: str, expected: bool) -> None:
    assert is_public(ip_address(address)) is expected


SPECIAL = [
    network for network, is_reachable in REACHABLE.items() if not is_reachable and str(network) != "::ffff:0:0/96"
]
"""Networks that are not globally reachable, without the one whose addresses are those of IPv4."""


@table(
    ("address", "expected"),
    [
        *(("2606:4700::5efe:808:808", True), ("2606:4700::5efe:a00:1", False), ("4000::1", False)),
        *((text, False) for text in ("168.63.129.16", "64:ff9b::a83f:8110", "64:ff9b:1::808:808", "2002:808:808::1")),
        *((str(one), False) for network in SPECIAL for one in (network[0], network[-1])),
    ],
)
def test_special_networks_are_not_public(address: str, expected: bool) -> None:
    assert is_public(ip_address(address)) is expected
