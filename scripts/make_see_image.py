"""Draw `docs/see.png`: what `cua see` makes of the examples, six operations on one sheet.

python scripts/make_see_image.py
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
    """Command lines after `cua see`; the coins are an image that ships inside scikit-image."""
    from skimage import data

    Image.fromarray(data.coins()).save(folder / "coins.png")
    draw_shapes().save(folder / "shapes.png")
    draw_chart(folder / "chart.png")
    return [
        ["maze", str(EXAMPLES / "maze.png")],
        ["share", str(EXAMPLES / "pie.png")],
        ["diff", str(EXAMPLES / "spot-pair.png")],
        ["count", str(folder / "coins.png")],
        ["axes", str(folder / "chart.png")],
        ["polygons", str(folder / "shapes.png")],
    ]


def draw_shapes() -> Image.Image:
    """Some shapes to be named."""
    image = Image.new("RGB", (560, 400), "white")
    pen = ImageDraw.Draw(image)
    pen.polygon([(40, 170), (120, 30), (190, 170)], fill="#2f6db5")
    pen.rectangle((230, 50, 350, 170), fill="#e4572e")
    pen.ellipse((390, 50, 510, 170), fill="#5ba45b")
    pen.polygon([(100, 230), (180, 260), (170, 350), (80, 360), (40, 290)], fill="#7a4f9a")
    pen.rectangle((220, 270, 380, 340), fill="#f3a712")
    pen.ellipse((400, 260, 540, 350), fill="#8fb8de")
    return image


def draw_chart(path: Path) -> None:
    """A line chart with two axes to be read."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.6, 4.0), dpi=100)
    axes.plot([0, 5, 10, 15, 20, 25, 30], [120, 180, 150, 310, 280, 420, 460], color="#2f6db5", marker="o")
    axes.set_xlabel("day")
    axes.set_ylabel("visitors")
    axes.grid(alpha=0.3)
    figure.savefig(path)


def draw(folder: Path) -> Image.Image:
    """Run the operations and lay their images out."""
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
        shrunk = ImageOps.contain(Image.open(output).convert("RGB"), CELL_PX, Image.Resampling.LANCZOS)
        sheet.paste(shrunk, (left + (CELL_PX[0] - shrunk.width) // 2, top + TITLE_PX))
    return sheet


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        draw(Path(name)).quantize(256).save(ROOT / "docs" / "see.png", optimize=True)
