"""Single decisions on saved screens: a web form, a calculator, an open menu and a save dialog of desktop programs."""

import io
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from apps.literal import LiteralModel
from apps.literal.screen import read_screen
from cua.gui_agent.protocol import parse
from cua.messages import ImagePart, Message, TextPart

SCREENS = Path(__file__).parent / "screens"
SIZES = {"form": (1280, 720), "calculator": (1280, 800), "file_menu": (1280, 800), "save_dialog": (1280, 800)}


async def first_code(name: str, instruction: str) -> str:
    picture = ImagePart(data=(SCREENS / f"{name}.png").read_bytes())
    ask = TextPart(text=f"# Task Instruction:\n{instruction}\n\nPlease generate the next move according to it.\n")
    reply = await LiteralModel().generate([Message(role="user", parts=(picture, ask))])
    return parse(reply).code


# The boxes are left, top, right, bottom in pixels, measured by hand on the pictures.
CLICKS = [
    ("form", "click Save", (24, 448, 88, 479)),
    ("form", "click the 'Settings' link", (168, 12, 236, 32)),
    ("form", "click Edit in the row of 'Paper'", (378, 602, 411, 620)),
    ("form", "click the second Delete", (414, 570, 469, 588)),
    ("form", "click 'Delete' below 'Train ticket'", (414, 602, 469, 620)),
    ("form", "type x into Description", (25, 172, 319, 201)),
    ("form", "type x into 'What was it?'", (25, 172, 319, 201)),
    ("form", "type 1 into Amount", (25, 236, 319, 265)),
    ("form", "set Date to 2026-03-04", (25, 300, 60, 331)),
    ("form", "select Travel in Category", (25, 366, 303, 395)),
    ("form", "tick Reimbursable", (28, 415, 42, 428)),
    ("form", "select the Card radio button", (169, 415, 182, 428)),
    ("calculator", "click '7'", (481, 421, 538, 452)),
    ("calculator", "click '='", (741, 501, 798, 572)),
    ("calculator", "click '+'", (676, 541, 733, 572)),
    ("calculator", "click '-'", (676, 501, 733, 532)),
    ("calculator", "click '*'", (676, 461, 733, 492)),
    ("calculator", "click '.'", (546, 541, 603, 572)),
    ("calculator", "click '('", (481, 381, 538, 412)),
    ("calculator", "click '0'", (481, 541, 538, 572)),
    ("calculator", "click AC", (692, 335, 742, 366)),
    ("calculator", "open the View menu", (555, 238, 600, 258)),
    ("file_menu", "click 'Save As...'", (345, 350, 620, 365)),
    ("file_menu", "click Save", (345, 325, 620, 340)),
    ("file_menu", "click New Window", (345, 222, 620, 238)),
    ("file_menu", "click Document", (515, 170, 587, 188)),
    ("save_dialog", "type notes.txt into Name", (160, 30, 1180, 65)),
    ("save_dialog", "click Cancel", (1010, 755, 1090, 785)),
    ("save_dialog", "double-click README.md", (280, 218, 385, 234)),
]


@pytest.mark.parametrize(("name", "instruction", "box"), CLICKS, ids=[f"{case[0]}-{case[1]}" for case in CLICKS])
async def test_point_lies_on_the_target(name: str, instruction: str, box: tuple[int, int, int, int]) -> None:
    code = await first_code(name, instruction)

    found = re.match(r"pyautogui\.(?:click|doubleClick)\((0\.\d{4}), (0\.\d{4})\)", code)
    assert found is not None, code
    x, y = float(found[1]) * SIZES[name][0], float(found[2]) * SIZES[name][1]
    assert box[0] <= x <= box[2] and box[1] <= y <= box[3], (x, y)


CODES = [
    ("form", "untick Reimbursable", "computer.terminate(status='success')"),
    ("form", "select the Cash radio button", "computer.terminate(status='success')"),
    ("form", "tell me the Amount in the row of 'Train ticket'", "time.sleep(0.1)"),
    ("form", "check that 'Add expense' is shown", "computer.terminate(status='success')"),
    ("form", "press ctrl+s", "pyautogui.hotkey('ctrl', 's')"),
    ("form", "type 'a\"b'", "pyautogui.write('a\"b')"),
    ("form", "press Tab 3 times", "pyautogui.press('tab', presses=3)"),
    (
        "form",
        "open example.org",
        "pyautogui.hotkey('ctrl', 'l')\npyautogui.write('example.org')\npyautogui.press('enter')",
    ),
]


@pytest.mark.parametrize(("name", "instruction", "code"), CODES)
async def test_code_is_this(name: str, instruction: str, code: str) -> None:
    assert await first_code(name, instruction) == code


async def test_date_is_typed_in_the_order_that_the_field_shows() -> None:
    code = await first_code("form", "set Date to 2026-03-04")

    assert code.splitlines()[1:] == ["pyautogui.hotkey('ctrl', 'a')", "pyautogui.write('03/04/2026')"]


def test_screens_are_read_by_many_threads_at_once() -> None:
    pictures = []
    for width in range(24, 33):
        buffer = io.BytesIO()
        Image.new("RGB", (width, 16), "white").save(buffer, "PNG")
        pictures.append(buffer.getvalue())
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            widths = list(pool.map(lambda index: read_screen(pictures[index % 9]).width, range(1000)))
    finally:
        sys.setswitchinterval(interval_s)

    assert widths == [24 + index % 9 for index in range(1000)]


@pytest.mark.parametrize("size", [20, 28, 40, 56])
def test_first_letters_that_look_like_a_ring_stay_at_each_text_size(size: int) -> None:
    labels = ["Delete", "Open", "Quit", "Copy", "Done"]
    image = Image.new("RGB", (8 * size, 3 * size * len(labels)), "white")
    for row, label in enumerate(labels):
        ImageDraw.Draw(image).text(
            (size, 3 * size * row + size), label, fill="#a32020", font=ImageFont.truetype("DejaVuSans.ttf", size)
        )
    buffer = io.BytesIO()
    image.save(buffer, "png")
    assert [line.text for line in read_screen(buffer.getvalue()).lines] == labels
