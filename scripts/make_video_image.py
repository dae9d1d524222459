"""Write docs/video.png: the head of the page that `make video-demo` has made.

python scripts/make_video_image.py [video-demo]
"""

import asyncio
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "docs" / "video.png"
SIZE_PX = (1180, 1490)


async def main(folder: Path) -> None:
    """Show the page in Chromium and keep what is seen."""
    from playwright.async_api import async_playwright

    from envs.browser.launch import find_browser

    page_file, binary = folder / "showcase" / "index.html", find_browser()
    if not page_file.is_file() or binary is None:
        sys.exit(f"{page_file} or a browser is not there; run `make video-demo` and `cua setup browser` first")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=binary.path, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": SIZE_PX[0], "height": SIZE_PX[1]}, color_scheme="light")
        await page.goto(page_file.resolve().as_uri())
        await page.wait_for_timeout(1000)
        await page.screenshot(path=TARGET)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "video-demo")))
