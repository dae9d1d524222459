"""Write docs/web.png: the page of `make web-demo` beside the site that the rules made of it.

python scripts/make_web_image.py [web-demo]
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.rounds import BuildFolder, best_number
from visual_tools.images import load_image

TARGET = Path(__file__).parent.parent / "docs" / "web.png"
WIDTH_PX, GAP_PX, HEAD_PX = 700, 24, 44


def main(folder: Path) -> None:
    """Draw it from the folder of a demo."""
    build = BuildFolder(folder / "site-build")
    rounds = build.rounds()
    best = best_number(rounds)
    if best is None:
        sys.exit(f"{folder} holds no demo; run `make web-demo` first")
    ours = build.round_dir(best) / rounds[best]["images"][0]["ours"]
    score = rounds[best]["score"]["score"]
    images = {"The image": build.reference(1), f"The site made of it: score {score:.3f}, no model": ours}
    font = ImageFont.truetype("DejaVuSans.ttf", 20)
    parts = []
    for title, path in images.items():
        page = Image.fromarray(load_image(path))
        page = page.resize((WIDTH_PX, round(page.height * WIDTH_PX / page.width)), Image.Resampling.LANCZOS)
        part = Image.new("RGB", (WIDTH_PX, page.height + HEAD_PX), "white")
        part.paste(page, (0, HEAD_PX))
        draw = ImageDraw.Draw(part)
        draw.text((2, 8), title, "#222", font)
        draw.rectangle((0, HEAD_PX, WIDTH_PX - 1, part.height - 1), outline="#ccc")
        parts.append(np.asarray(part))
    height = max(len(part) for part in parts)
    parts = [np.pad(part, ((0, height - len(part)), (0, 0), (0, 0)), constant_values=255) for part in parts]
    gap = np.full((height, GAP_PX, 3), 255, np.uint8)
    Image.fromarray(np.concatenate([parts[0], gap, parts[1]], axis=1)).save(TARGET, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "web-demo"))
