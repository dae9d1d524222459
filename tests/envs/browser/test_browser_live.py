"""Frames for a person who watches: as the page paints them, not more than asked for, none at rest."""

import asyncio
import io
import time

import pytest
from PIL import Image

from envs import Click, InstructionTask, LiveFrame
from envs.browser import BrowserEnv
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

MOVING = "<script>let n=0; const go=()=>{document.body.textContent=++n; requestAnimationFrame(go)}; go()</script>"
BUTTON = "<button style='width:400px;height:200px' onclick='this.style.background=\"red\"'>Go</button>"


async def watch(env: BrowserEnv, frames: list[LiveFrame], max_fps: float) -> None:
    async for frame in env.live_frames(max_fps):
        frames.append(frame)


@pytest.mark.long
async def test_a_moving_page_comes_as_fast_as_asked_for_and_not_faster(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(InstructionTask(instruction="x"))
    await env.goto(pages.serve(MOVING))
    frames: list[LiveFrame] = []
    watching = asyncio.create_task(watch(env, frames, 5))
    began = time.monotonic()
    while len(frames) < 8:
        await asyncio.sleep(0.02)
        assert time.monotonic() - began < 20
    assert time.monotonic() - began > 6 / 5
    watching.cancel()
    assert {frame.media_type for frame in frames} == {"image/jpeg"}
    assert Image.open(io.BytesIO(frames[-1].image)).size == (1280, 720)


@pytest.mark.long
async def test_a_page_at_rest_sends_nothing_until_it_changes(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(InstructionTask(instruction="x"))
    await env.goto(pages.serve(BUTTON))
    frames: list[LiveFrame] = []
    watching = asyncio.create_task(watch(env, frames, 10))
    await asyncio.sleep(1.5)
    first = len(frames)
    assert first >= 1
    await asyncio.sleep(1)
    assert len(frames) == first
    await env.step([Click(x_px=200, y_px=100)])
    began = time.monotonic()
    while Image.open(io.BytesIO(frames[-1].image)).getpixel((50, 50))[1] > 60:  # red, not grey
        await asyncio.sleep(0.02)
        assert time.monotonic() - began < 5
    watching.cancel()
