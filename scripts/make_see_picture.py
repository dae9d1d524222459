"""Draw `docs/see.png`: what `cua see` makes of the examples, six operations on one sheet.

python scripts/make_see_picture.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
CUA = str(Path(sys.executable).with_name("cua"))
CELL_PX, GAP_PX, TITLE_PX = (560, 400), 16, 34


def operations(folder: Path) -> list[list[str]]:
    """Command lines after `cua see`; the coins are a picture that ships inside scikit-image."""
    from skimage import data

    Image.fromarray(data.coins()).save(folder / "coins.png")
    return [
        ["maze", str(EXAMPLES / "maze.png")],
        ["share", str(EXAMPLES / "pie.png")],
        ["diff", str(EXAMPLES / "spot-pair.png")],
        ["count", str(folder / "coins.png")],
        ["ocr", str(EXAMPLES / "spot-pair.png")],
        ["axes", str(EXAMPLES / "axes.png")] if (EXAMPLES / "axes.png").exists() else ["grid", str(folder / "coins.png")],
    ]


def draw(folder: Path) -> Image.Image:
    """Run the operations and lay their pictures out."""
    lines = operations(folder)
    width = 3 * CELL_PX[0] + 4 * GAP_PX
    height = 2 * (CELL_PX[1] + TITLE_PX + GAP_PX) + GAP_PX
    sheet = Image.new("RGB", (width, height), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(20)
    for number, (name, file) in enumerate(lines):
        output = folder / f"{number}.png"
        subprocess.run([CUA, "see", name, file, "--output", str(output)], check=True, stdout=subprocess.DEVNULL)
        left = GAP_PX + number % 3 * (CELL_PX[0] + GAP_PX)
        top = GAP_PX + number // 3 * (CELL_PX[1] + TITLE_PX + GAP_PX)
        pen.text((left, top), f"cua see {name} {Path(file).name}", "#333", font)
        picture = ImageOps.contain(Image.open(output).convert("RGB"), CELL_PX, Image.Resampling.LANCZOS)
        sheet.paste(picture, (left + (CELL_PX[0] - picture.width) // 2, top + TITLE_PX))
    return sheet


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        draw(Path(name)).save(ROOT / "docs" / "see.png", optimize=True)
