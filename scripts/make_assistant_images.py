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
    """One screenshot from the top of the page."""
    await page.evaluate("window.scrollTo(0, 0)")
    await page.screenshot(path=path)
    print(f"wrote {path}")


async def walk(app: RunningAssistant, folder: Path | None) -> None:
    """The practice task up to the first question; then all tabs, sizes and themes."""
    from playwright.async_api import async_playwright

    from envs.browser import find_browser

    async with async_playwright() as playwright:
        found = find_browser()
        browser = await playwright.chromium.launch(executable_path=str(found.path) if found else None)
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.goto(app.address)
        await page.get_by_role("button", name="Try the practice task").click()
        await page.get_by_role("button", name="Allow once").wait_for(timeout=120_000)
        await asyncio.sleep(1)
        await shoot(page, TARGET)
        if folder is not None:
            for theme in ("light", "dark"):
                await page.evaluate(f"document.body.classList.toggle('dark', {str(theme == 'dark').lower()})")
                for name, (width, height) in SIZES.items():
                    await page.set_viewport_size({"width": width, "height": height})
                    for tab in ("Work", "History", "Settings"):
                        await page.get_by_role("tab", name=tab).click()
                        await asyncio.sleep(2)
                        await shoot(page, folder / f"{theme}-{name}-{tab.lower()}.png")
        await browser.close()


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, help="Folder for all states, sizes and themes.")
    folder = parser.parse_args().all
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with RunningAssistant() as app:
        asyncio.run(walk(app, folder))
    shrink(TARGET)


def shrink(path: Path) -> None:
    """Small enough for a repository."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    image.resize((1200, 750)).quantize(200).save(path, optimize=True)


if __name__ == "__main__":
    main()
