"""Pictures of the assistant through a real app and browser: docs/assistant.png; a film of its use with --film.

python -m scripts.make_assistant_images [--all FOLDER] [--film]
"""

import argparse
import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.apps.assistant.running import RunningAssistant

TARGET = Path(__file__).parents[1] / "docs" / "assistant.png"
FILM = TARGET.with_suffix(".mp4")
FILM_PX, FILM_FPS = (1200, 750), 4
SIZES = {"1440": (1440, 900), "1024": (1024, 768), "phone": (390, 844)}


async def shoot(page: Any, path: Path) -> None:
    """One screenshot."""
    await asyncio.sleep(1)
    await page.screenshot(path=path)
    print(f"wrote {path}")


async def in_all(page: Any, folder: Path | None, name: str) -> None:
    """A state in all sizes, light and dark."""
    if folder is None:
        return
    for size, (width, height) in SIZES.items():
        await page.set_viewport_size({"width": width, "height": height})
        for theme in ("dark", "light"):
            await page.evaluate(f"document.body.classList.toggle('dark', {str(theme == 'dark').lower()})")
            await shoot(page, folder / f"{name}-{size}-{theme}.png")
    await page.set_viewport_size(dict(zip(("width", "height"), SIZES["1440"], strict=True)))


@contextlib.asynccontextmanager
async def filming(page: Any) -> AsyncIterator[None]:
    """Write what the page shows inside the block as a film."""
    import av
    from PIL import Image

    def encode(shot: bytes, count: int) -> None:
        image = Image.open(io.BytesIO(shot)).convert("RGB").resize(FILM_PX)
        for _ in range(count):
            file.mux(stream.encode(av.VideoFrame.from_image(image)))

    async def record() -> None:
        num_frames, began_s = 0, time.monotonic()
        while True:
            shot = await page.screenshot(type="jpeg", quality=90)
            due = round((time.monotonic() - began_s) * FILM_FPS) + 1
            await asyncio.to_thread(encode, shot, max(1, due - num_frames))
            num_frames = max(num_frames + 1, due)
            await asyncio.sleep(1 / FILM_FPS)

    with av.open(str(FILM), "w") as file:
        stream = file.add_stream("libx264", rate=FILM_FPS, options={"crf": "30"})
        stream.width, stream.height, stream.pix_fmt = *FILM_PX, "yuv420p"
        recording = asyncio.create_task(record())
        try:
            yield
        finally:
            recording.cancel()
            await asyncio.wait({recording})
            file.mux(stream.encode())
    print(f"wrote {FILM}")


async def walk_filmed(page: Any) -> None:
    """The first minutes of a person: practice task, its question, a further instruction, the steps, the history."""
    ended = page.locator("assistant-screen[data-phase=ended]")
    async with filming(page):
        await asyncio.sleep(2)
        await page.get_by_role("button", name="Try the practice task").click()
        allow = page.get_by_role("button", name="Allow once")
        await allow.wait_for(timeout=300_000)
        await shoot(page, TARGET)
        shrink(TARGET)
        await asyncio.sleep(3)
        await allow.click()
        await ended.wait_for(timeout=300_000)
        await asyncio.sleep(3)
        await page.get_by_label("Instruction", exact=True).press_sequentially("Click Expenses.", delay=60)
        await page.keyboard.press("Enter")
        await ended.wait_for(state="detached")
        await ended.wait_for(timeout=300_000)
        for number in (3, 8):
            await page.locator(".film .cell").nth(number).click()
            await asyncio.sleep(2)
        await page.get_by_role("button", name="Live", exact=True).click()
        await page.locator(".entry[data-page=history]").click()
        await asyncio.sleep(2)
        await page.locator(".grid .run-card").first.click()
        await asyncio.sleep(3)


async def walk(app: RunningAssistant, folder: Path | None, is_film: bool) -> None:
    """The practice task from the start over a question and a take-over to its end; then the other pages."""
    from playwright.async_api import async_playwright

    from envs.browser import find_browser

    async with async_playwright() as playwright:
        found = find_browser()
        browser = await playwright.chromium.launch(executable_path=str(found.path) if found else None)
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.goto(app.address)
        practice = page.get_by_role("button", name="Try the practice task")
        await practice.wait_for()
        if is_film:
            await walk_filmed(page)
            await browser.close()
            return
        await in_all(page, folder, "start")
        await practice.click()
        allow = page.get_by_role("button", name="Allow once")
        await allow.wait_for(timeout=300_000)
        await shoot(page, TARGET)
        shrink(TARGET)
        if folder is not None:
            await in_all(page, folder, "asking")
            await walk_on(page, allow, folder)
        await browser.close()


async def walk_on(page: Any, allow: Any, folder: Path) -> None:
    """From the question to the end, and around."""
    await page.get_by_role("button", name="Take over").click()  # which answers the question with no
    await page.get_by_role("button", name="Hand back").wait_for()
    await in_all(page, folder, "person")
    await page.get_by_role("button", name="Hand back").click()
    ended = page.locator("assistant-screen[data-phase=ended]")
    while not await ended.count():
        if await allow.count():
            await allow.click()
            await allow.wait_for(state="detached")
        await asyncio.sleep(0.2)
    await in_all(page, folder, "ended")
    for name in ("tasks", "settings", "history"):
        await page.locator(f".entry[data-page={name}]").click()
        await in_all(page, folder, name)
    await page.locator(".grid .run-card").first.click()
    await page.locator(".run h2").wait_for()
    await in_all(page, folder, "run")


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, help="Folder for all states, sizes and themes.")
    parser.add_argument("--film", action="store_true", help="Write docs/assistant.mp4 as well, and nothing else.")
    given = parser.parse_args()
    folder = given.all
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with RunningAssistant() as app:
        asyncio.run(asyncio.wait_for(walk(app, folder, given.film), 1200))


def shrink(path: Path) -> None:
    """Small enough for a repository."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    image.resize((1200, 750)).quantize(200).save(path, optimize=True)


if __name__ == "__main__":
    main()
