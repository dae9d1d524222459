"""Screenshots of the assistant's main states, through a real app and browser: docs/assistant.png, and more with --all.

python -m scripts.make_assistant_images [--all FOLDER]
"""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from tests.apps.assistant.running import RunningAssistant

TARGET = Path(__file__).parents[1] / "docs" / "assistant.png"
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


async def walk(app: RunningAssistant, folder: Path | None) -> None:
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
        await in_all(page, folder, "start")
        await practice.click()
        allow = page.get_by_role("button", name="Allow once")
        await allow.wait_for(timeout=120_000)
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
    folder = parser.parse_args().all
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with RunningAssistant() as app:
        asyncio.run(asyncio.wait_for(walk(app, folder), 600))


def shrink(path: Path) -> None:
    """Small enough for a repository."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    image.resize((1200, 750)).quantize(200).save(path, optimize=True)


if __name__ == "__main__":
    main()
