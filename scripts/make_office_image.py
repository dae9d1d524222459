"""Make docs/office.png: pages of the files that `cua office --demo` makes, as the verifier draws them.

python -m scripts.make_office_image FOLDER        # the folder of `cua office --demo -o FOLDER`
"""

import sys
from pathlib import Path

from PIL import Image

SHOWN = ("report.docx/page-002.png", "report.pdf/page-001.png", "sales.xlsx/page-004.png", "slides.pptx/page-002.png")
HEIGHT, GAP = 560, 14


def main() -> None:
    """Draw it from the folder of a demo."""
    folder = Path(sys.argv[1]) / "check"
    pages = [Image.open(folder / name).convert("RGB") for name in SHOWN]
    tall = [one.resize((round(one.width * HEIGHT / one.height), HEIGHT)) for one in pages[:2]]
    half = (HEIGHT - GAP) // 2
    wide = [one.resize((round(one.width * half / one.height), half)) for one in pages[2:]]
    width = sum(one.width for one in tall) + max(one.width for one in wide) + 4 * GAP
    sheet = Image.new("RGB", (width, HEIGHT + 2 * GAP), "#d8d8d8")
    x = GAP
    for one in tall:
        sheet.paste(one, (x, GAP))
        x += one.width + GAP
    for at, one in enumerate(wide):
        sheet.paste(one, (x, GAP + at * (half + GAP)))
    sheet.save(Path(__file__).parents[1] / "docs" / "office.png", optimize=True)


if __name__ == "__main__":
    main()
