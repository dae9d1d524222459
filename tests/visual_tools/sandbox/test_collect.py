"""What a kernel sends costs its host time in proportion to its length, and no more than a bounded amount."""

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from visual_tools.sandbox import Kernel, Limits
from visual_tools.sandbox.channels import _has_many_parts
from visual_tools.sandbox.collect import Collector, clean

LIMITS = Limits()
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


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", ["ename", "evalue", "traceback"])
def test_a_forged_error_is_cut_before_it_is_read(name: str, field: str) -> None:
    text = HOSTILE[name](2_000_000)
    content = {"ename": "E", "evalue": "v", "traceback": ["t"], field: [text] * 5 if field == "traceback" else text}
    collector = Collector(LIMITS)
    assert processor_s(lambda: collector.take("error", content)) < 1.0
    assert collector.error is not None
    assert len(collector.error.name + collector.error.message + collector.error.traceback) < 40_000


def test_pictures_beyond_those_that_are_shown_are_not_decoded() -> None:
    """Each of them is 8 MB that would have to be read."""
    collector = Collector(Limits(num_images=0))
    content = {"data": {"image/png": "A" * 8_000_000}}

    def take_many() -> None:
        for _ in range(100):
            collector.take("display_data", content)

    assert processor_s(take_many) < 0.2
    assert collector.text == "[only the first 0 pictures are shown]\n"


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
    assert flood.notes[0].partition("it put out more than anybody can read")[1]
    assert (await kernel.run("1")).text == "1\n"
