"""How long the embedded model takes for one answer: the first look at a screen, and the next ones.

    python benchmarks/literal.py [--runs 5]

Beside it, in the same run, rapidocr's own pipeline reading the same image, which is what the first
look would cost with the package as it comes.
"""

import argparse
import asyncio
import io
import json
import statistics
import subprocess
import sys
import time

import numpy as np
from PIL import Image

from apps.literal import LiteralModel
from cua.gui_agent.protocol import ProtocolOptions, to_messages
from envs import InstructionTask, Observation, TypeText
from envs.browser import BrowserEnv, BrowserOptions

ROWS = "".join(
    f"<tr><td>Order {n}</td><td>2026-03-{n % 28 + 1:02}</td><td>{n * 7}.50</td><td><button>Delete</button></td></tr>"
    for n in range(1000, 1016)
)
PAGE = (
    "data:text/html,<h1>Orders</h1><label>Search</label> <input autofocus> <button>Find</button>"
    f"<table border=1 cellpadding=4>{ROWS}</table>"
)


async def look_twice() -> tuple[Observation, Observation]:
    """A page full of text, and the same page after something was typed."""
    env = BrowserEnv(BrowserOptions(start_url=PAGE))
    try:
        first = await env.reset(InstructionTask(instruction=""))
        second = (await env.step([TypeText(text="lamp")])).observation
        assert first.screenshot != second.screenshot
        return first, second
    finally:
        await env.close()


async def answer_s(model: LiteralModel, observation: Observation) -> float:
    """Seconds of one answer about a screen."""
    messages = to_messages('Click Delete in the row of "Order 1007".', [], observation, ProtocolOptions())
    started = time.perf_counter()
    reply = await model.generate(messages)
    took = time.perf_counter() - started
    assert "pyautogui.click" in reply.content, reply.content
    return took


def peer_s(observation: Observation) -> float:
    """Seconds that rapidocr takes for the same image, engine loaded."""
    from rapidocr import RapidOCR

    engine = RapidOCR(params={"Global.log_level": "critical", "Global.use_cls": False})
    image = np.asarray(Image.open(io.BytesIO(observation.screenshot)).convert("RGB"))[:, :, ::-1]
    engine(image[:50, :200])
    started = time.perf_counter()
    engine(image)
    return time.perf_counter() - started


def measure_once() -> dict[str, float]:
    """One fresh process's worth: nothing is cached, the engine is loaded."""
    from visual_tools.ocr import read_text

    first, second = asyncio.run(look_twice())
    read_text(np.full((40, 200, 3), 255, np.uint8))  # load the engine
    model = LiteralModel()
    return {
        "first": asyncio.run(answer_s(model, first)),
        "next": asyncio.run(answer_s(model, second)),
        "peer": peer_s(first),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(measure_once()))
        return
    command = [sys.executable, __file__, "--once"]
    done = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(arguments.runs)]
    rows = [json.loads(process.stdout.splitlines()[-1]) for process in done]
    ours, following, peer = (statistics.median(row[name] for row in rows) for name in ("first", "next", "peer"))
    print(f"a page of 16 table rows, 1280x720, median of {arguments.runs} processes, engines loaded")
    print(f"  first look at a screen:        {ours:.2f} s")
    print(f"  next look, little has changed: {following:.2f} s")
    print(f"  rapidocr's own pipeline:       {peer:.2f} s; first look / that: {ours / peer:.2f}x")


if __name__ == "__main__":
    main()
