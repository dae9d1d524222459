"""What a kernel sends costs its host time in proportion to its length, and no more than a bounded amount."""

import asyncio
import base64
import json
import struct
import time
from collections.abc import Callable

import pytest

from tests.tables import table
from visual_tools.sandbox import Kernel, KernelLimits
from visual_tools.sandbox.channels import _has_many_parts
from visual_tools.sandbox.collect import Clipped, Collector, clean
from visual_tools.sandbox.zygote.display import LEFT_OUT_KEY, ORIGINAL_KEY

LIMITS = KernelLimits()
HOSTILE = {
    "one line": lambda n: "x" * n,
    "returns": lambda n: "x\r" * (n // 2),
    "only returns": lambda n: "\r" * n,
    "returns and a long line": lambda n: "x\r\n" * (n // 6) + "y" * (n // 2),
    "open colours": lambda n: "\x1b[" * (n // 2),
    "an endless colour": lambda n: "\x1b[" + "0" * n,
    "a colour with spaces": lambda n: "\x1b[" + "0" * (n // 2) + " " * (n // 2),
    "open titles": lambda n: "\x1b]" * (n // 2),
    "an endless title": lambda n: "\x1b]" + "x" * n,
    "controls": lambda n: "\x00\x1b" * (n // 2),
    "blanks": lambda n: " " * n,
    "lines": lambda n: "\n" * n,
}


def processor_s(action: Callable[[], object]) -> float:
    """The least of some tries, which another process on this machine disturbs least."""
    times = []
    for _ in range(3):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize("name", HOSTILE)
def test_cleaning_takes_time_in_proportion(name: str) -> None:
    """Four times the text: sixteen times the time would be quadratic."""
    make, size = HOSTILE[name], 50_000
    short, long = make(size), make(4 * size)
    assert processor_s(lambda: clean(long)) < 9 * processor_s(lambda: clean(short)) + 0.02


def test_cleaning_is_that_of_a_terminal() -> None:
    assert clean("10%\r20%\r30%\ndone\r\nlast\rl") == "30%\ndone\nl"
    assert clean("a\rb\r\nc\r\rd\r") == "b\nd\n"
    assert clean("\x1b[1mbold\x1b[0m \x1b]0;title\x07text\x00\x7f") == "bold text"


@table("name", HOSTILE)
@table("field", ["ename", "evalue", "traceback"])
def test_a_forged_error_is_cut_before_it_is_read(name: str, field: str) -> None:
    text = HOSTILE[name](2_000_000)
    content = {"ename": "E", "evalue": "v", "traceback": ["t"], field: [text] * 5 if field == "traceback" else text}
    collector = Collector(LIMITS)
    assert processor_s(lambda: collector.take("error", content)) < 1.0
    assert collector.error is not None
    assert len(collector.error.name + collector.error.message + collector.error.traceback) < 40_000


def test_pictures_beyond_those_that_are_shown_are_not_decoded() -> None:
    """Each of them is 8 MB that would have to be read."""
    collector = Collector(KernelLimits(num_images=0))
    content = {"data": {"image/png": "A" * 8_000_000}}

    def take_many() -> None:
        for _ in range(100):
            collector.take("display_data", content)

    assert processor_s(take_many) < 0.2
    assert collector.text == "[only the first 0 images are shown]\n"


def png_of(width: int, height: int, length: int = 33) -> bytes:
    """The first bytes of a PNG, which are all that is looked at."""
    return (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)).ljust(length, b"\0")


def encoded(png: bytes) -> str:
    return base64.b64encode(png).decode()


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("\u00e9", "left out, not readable"),
        ("abcde", "left out, not readable"),
        (7, "left out, not a PNG"),
        (encoded(png_of(2, 3)[:32]), "left out, not a PNG"),
        (encoded(b"GIF89a..".ljust(12) + png_of(2, 3)[12:]), "left out, not a PNG"),
        (encoded(png_of(2, 3).replace(b"IHDR", b"IDAT")), "left out, not a PNG"),
        (encoded(png_of(0, 3)), "left out, its size 0x3 px is not allowed"),
        (encoded(png_of(3, 0)), "left out, its size 3x0 px is not allowed"),
        (encoded(png_of(0, 0)), "left out, its size 0x0 px is not allowed"),
        (encoded(png_of(101, 3)), "left out, its size 101x3 px is not allowed"),
        ("A" * 3733, "left out, not readable"),
        ("A" * 3734, "left out, larger than 2 KB"),
    ],
)
def test_what_is_no_picture_is_left_out_and_said(found: object, why: str) -> None:
    collector = Collector(KernelLimits(image_side_px=100, image_bytes=2050))
    collector.take("display_data", {"data": {"image/png": found}})
    assert (collector.images, collector.text) == ([], f"[image 1: {why}]\n")
    assert collector.is_truncated
    assert all("image/png" not in output["data"] for output in collector.outputs)


@pytest.mark.parametrize(
    ("size", "about", "said"),
    [
        ((1, 100), None, "1x100 px"),
        ((100, 1), {ORIGINAL_KEY: [100, 1]}, "100x1 px"),
        ((100, 50), {ORIGINAL_KEY: [4000, 2000]}, "100x50 px, reduced from 4000x2000"),
        ((100, 50), {ORIGINAL_KEY: [999_999, 1]}, "100x50 px, reduced from 999999x1"),
        ((100, 50), {ORIGINAL_KEY: "44"}, "100x50 px"),
        ((100, 50), {ORIGINAL_KEY: [4000]}, "100x50 px"),
        ((100, 50), {ORIGINAL_KEY: [4000, 2000, 1]}, "100x50 px"),
        ((100, 50), {ORIGINAL_KEY: [4000, 0]}, "100x50 px"),
        ((100, 50), {ORIGINAL_KEY: [4000, True]}, "100x50 px"),
        ((100, 50), {ORIGINAL_KEY: [4000.5, 2000]}, "100x50 px"),
        ((100, 50), {ORIGINAL_KEY: [1_000_000, 2000]}, "100x50 px"),
        ((100, 50), [4000, 2000], "100x50 px"),
    ],
)
def test_the_size_of_a_picture_and_the_one_before_it_was_reduced(
    size: tuple[int, int], about: object, said: str
) -> None:
    collector = Collector(KernelLimits(image_side_px=100))
    content = {"data": {"image/png": encoded(png_of(*size))}, "metadata": {"image/png": about}}
    collector.take("display_data", content)
    assert [image.size_px for image in collector.images] == [size]
    assert collector.text == f"[image 1: {said}]\n"
    assert not collector.is_truncated
    assert base64.b64decode(collector.outputs[0]["data"]["image/png"]) == collector.images[0].png


def test_the_pictures_that_are_left_out_are_told_once() -> None:
    collector = Collector(KernelLimits(num_images=2))
    last = "[only the first 2 images are shown]"
    for number in range(5):
        collector.take("execute_result", {"data": {"image/png": encoded(png_of(4, 4))}, "execution_count": number})
        told = ["[image 1: 4x4 px]", "[image 2: 4x4 px]", last][: number + 1]
        assert collector.text.splitlines() == told
    assert [output["execution_count"] for output in collector.outputs] == [0, 1]
    assert (len(collector.images), collector.is_truncated) == (2, True)


@pytest.mark.parametrize(
    ("left_out", "said"),
    [(7, 7), (10**12 - 1, 10**12 - 1), (0, 0), (-5, 0), (10**12, 0), (2.5, 0), ("7", 0), (True, 0)],
)
def test_what_the_kernel_left_out_of_a_text_is_counted(left_out: object, said: int) -> None:
    collector = Collector(KernelLimits(output_chars=6))
    metadata = {"text/plain": {LEFT_OUT_KEY: left_out}}
    collector.take("display_data", {"data": {"text/plain": "abcdef"}, "metadata": metadata})
    assert collector.text == f"abc\n[... {said + 1} characters left out ...]\nef\n"


@pytest.mark.parametrize(("output_chars", "most"), [(100, 4_000_000), (50_000, 10_000_000)])
def test_a_cell_that_puts_out_more_than_anybody_can_read_is_to_be_stopped(output_chars: int, most: int) -> None:
    collector = Collector(KernelLimits(output_chars=output_chars))
    for _ in range(most // 1_000_000):
        collector.take("stream", {"name": "stdout", "text": "x" * 1_000_000})
    assert not collector.is_flooded
    collector.take("stream", {"name": "stderr", "text": "x"})
    assert collector.is_flooded


def test_a_cell_that_shows_pictures_without_end_is_to_be_stopped() -> None:
    collector = Collector(KernelLimits(num_images=1))
    for _ in range(150):
        collector.take("display_data", {"data": {"image/png": ""}})
    assert not collector.is_flooded
    collector.take("display_data", {"data": {"image/png": ""}})
    assert collector.is_flooded


@pytest.mark.parametrize("pieces", [(8,), (1,) * 8, (3, 5), (4, 4), (7, 1), (2, 3, 3)])
def test_head_and_tail_are_kept_however_the_text_comes(pieces: tuple[int, ...]) -> None:
    clipped, letters = Clipped(8), iter("abcdefgh")
    for count in pieces:
        clipped.add("".join(next(letters) for _ in range(count)))
    assert (str(clipped), clipped.is_clipped) == ("abcdefgh", False)
    clipped.add("i")
    assert (str(clipped), clipped.is_clipped) == ("abcd\n[... 1 characters left out ...]\nfghi", True)
    for _ in range(1000):
        clipped.add("xyz")
    assert str(clipped) == "abcd\n[... 3001 characters left out ...]\nzxyz"


def test_the_least_that_is_kept_is_one_character_at_each_end() -> None:
    clipped = Clipped(0)
    clipped.add("abc")
    assert str(clipped) == "a\n[... 1 characters left out ...]\nc"


def test_streams_by_turns_are_outputs_of_their_own_and_others_are_none() -> None:
    collector = Collector(LIMITS)
    for name, text in (("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("x", "d"), ("stderr", ""), ("stdout", "e")):
        collector.take("stream", {"name": name, "text": text})
    collector.take("clear_output", {"data": {"text/plain": "f"}, "ename": "E"})
    assert [(output["name"], output["text"]) for output in collector.outputs] == [
        ("stdout", "ab"),
        ("stderr", "c"),
        ("stdout", "e"),
    ]
    assert (collector.text, collector.error) == ("abce", None)


def test_a_notebook_has_a_thousand_outputs_at_most_and_a_bounded_text() -> None:
    many, long = Collector(LIMITS), Collector(KernelLimits(output_chars=10))
    for _ in range(1001):
        many.take("display_data", {"data": {"text/plain": "x"}})
        long.take("display_data", {"data": {"text/plain": "x" * 100}})
    assert (len(many.outputs), len(long.outputs)) == (1000, 4)


def test_json_of_very_many_values_is_told_from_a_picture() -> None:
    assert _has_many_parts(b"[" + b"[]," * 1_000_000 + b"0]")
    assert not _has_many_parts(json.dumps({"data": {"image/png": "A" * 10_000_000}}).encode())


async def longest_pause(stop: asyncio.Event) -> float:
    """For how long the event loop's own thread computed without a break; waiting for others does not count."""
    longest = 0.0
    while not stop.is_set():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
        await asyncio.sleep(0.005)
    return longest


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_no_message_of_a_kernel_holds_up_the_event_loop(kernel: Kernel) -> None:
    prepare = """
kernel = get_ipython().kernel
def forge(kind, content):
    kernel.session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent())
"""
    stop = asyncio.Event()
    watch = asyncio.create_task(longest_pause(stop))
    for code in (
        "print('x' * 19000)",
        "forge('error', {'ename': 'x' * 200_000, 'evalue': 'x' * 200_000, 'traceback': ['x' * 500_000]})",
        "forge('x', {'values': [[]] * 100_000})",
    ):
        result = await kernel.run(prepare + code)
        assert result.status in ("ok", "error")
    stop.set()
    assert await watch < 0.3
    flood = await kernel.run(prepare + "while True: forge('nothing', {'x': 'y' * 200_000})")
    assert flood.notes[0].partition("its output was too large")[1]
    assert (await kernel.run("1")).text == "1\n"
