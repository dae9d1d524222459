"""Write docs/web.png: what the recording of `make web-demo` shows beside the site that the rules made of it.

python scripts/make_web_image.py [web-demo]
"""

import asyncio
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.render import Renderer, SitePages, open_page
from apps.video2web.rounds import BuildFolder, BuildRequest, best_number
from visual_tools.images.files import load_image

TARGET = Path(__file__).parent.parent / "docs" / "web.png"
WIDTH_PX, GAP_PX, HEAD_PX = 700, 24, 44


async def click_through(
    build: BuildFolder, number: int, request: BuildRequest
) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """The window of the recording and ours, at first and after the first click that is kept."""
    height = request.viewport_px[1]
    click = next((interaction for interaction in request.interactions if interaction.end_page is not None), None)
    async with Renderer() as renderer, renderer.context(SitePages(build.site(number)), request.viewport_px) as context:
        page = (await open_page(context)).page
        pairs = [(request.pages[0].image[:height], load_image(await page.screenshot()))]
        if click is not None and click.end_page is not None:
            await page.mouse.click(click.act.x_px, click.act.y_px)
            await page.wait_for_timeout(1500)
            pairs.append((click.end_page[:height], load_image(await page.screenshot())))
    return pairs


def main(folder: Path) -> None:
    """Draw it from the folder of a demo."""
    build = BuildFolder(folder / "site-build")
    rounds = build.rounds()
    best = best_number(rounds)
    if best is None:
        sys.exit(f"{folder} holds no demo; run `make web-demo` first")
    score = rounds[best]["score"]["score"]
    pairs = asyncio.run(click_through(build, best, build.request()))
    titles = ("The recording: its page, and after a click", f"The site made of it, without a model: score {score:.3f}")
    font = ImageFont.truetype("DejaVuSans.ttf", 20)
    columns = []
    for title, images in zip(titles, zip(*pairs, strict=True), strict=True):
        head = Image.new("RGB", (WIDTH_PX, HEAD_PX), "white")
        ImageDraw.Draw(head).text((2, 8), title, "#222", font)
        parts = [np.asarray(head)]
        for pixels in images:
            shown = Image.fromarray(pixels)
            shown = shown.resize((WIDTH_PX, round(shown.height * WIDTH_PX / shown.width)), Image.Resampling.LANCZOS)
            ImageDraw.Draw(shown).rectangle((0, 0, WIDTH_PX - 1, shown.height - 1), outline="#ccc")
            parts += [np.asarray(shown), np.full((GAP_PX, WIDTH_PX, 3), 255, np.uint8)]
        columns.append(np.concatenate(parts[:-1]))
    gap = np.full((len(columns[0]), GAP_PX, 3), 255, np.uint8)
    drawn = Image.fromarray(np.concatenate([columns[0], gap, columns[1]], axis=1))
    drawn.quantize(200, dither=Image.Dither.NONE).save(TARGET, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "web-demo"))
