import asyncio

import numpy as np
import pytest
from PIL import ImageChops

from envs import Click, Hotkey, TypeText
from tests.envs.desktop.conftest import MakeEnv, needs_display, needs_program, picture

pytestmark = needs_display
A_LINE = 600
"""Values that a pasted line changes in an image, and a caret does not."""
TEXT = "two\nlines, <tags>, äöü, 漢字, 😀"


@needs_program("mousepad")
async def test_text_goes_to_and_from_a_program(make_env: MakeEnv) -> None:
    env = await make_env(app="mousepad")
    await env.set_clipboard(TEXT)
    empty = picture((await env.step([Click(x_px=400, y_px=300)])).observation)
    seen = picture((await env.step([Hotkey(keys=("ctrl", "v"))])).observation)
    while (
        np.count_nonzero(ImageChops.difference(empty, seen)) < A_LINE
    ):  # the program asks for the text in its own time
        seen = picture((await env.step([])).observation)
    await env.step([TypeText(text="!")])
    await env.step([Hotkey(keys=("ctrl", "a")), Hotkey(keys=("ctrl", "x"))])
    assert await env.get_clipboard() == TEXT + "!"
    await env.set_clipboard("again")
    assert await env.get_clipboard() == "again"


@needs_program("xclip")
@pytest.mark.parametrize("text", [TEXT, "xy", "0123456789é" * 50_000])
async def test_other_programs_read_and_write_any_size(make_env: MakeEnv, text: str) -> None:
    env = await make_env()
    await env.set_clipboard(text)
    assert (await env.run(["xclip", "-selection", "clipboard", "-o"])).stdout == text
    path = env.home / "text"
    await asyncio.to_thread(path.write_text, text[::-1])
    await env.launch(["xclip", "-quiet", "-selection", "clipboard", "-i", str(path)], wait_for_window=False)
    async with asyncio.timeout(10):
        while (found := await env.get_clipboard()) == text:
            await asyncio.sleep(0.02)
    assert found == text[::-1]


async def test_an_empty_clipboard_is_empty_text(make_env: MakeEnv) -> None:
    env = await make_env()
    assert await env.get_clipboard() == ""
    await env.set_clipboard("")
    assert await env.get_clipboard() == ""
