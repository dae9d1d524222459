"""Exam of a trained nano-K2.5 on pages in Chromium: HTML in the manner of real sites, held out from training.

    python -m benchmarks.nano pages FOLDER [FOLDER ...]
    python -m benchmarks.nano_pages FOLDER_FOR_PICTURES

Twelve kinds of pages (article, sign-in, settings, shop, ...) in four style sheets and four sizes. No training has their
names; half of them are texts of buttons and links of real sites. Boxes are those of the page's elements, as the browser
reports them. `link in text` is a link inside a paragraph.
"""

import asyncio
import io
import itertools
import random
import sys
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from PIL import Image, ImageDraw

from apps.train.exam import ExamSheet
from apps.train.screens.canvas import PixelCanvas
from apps.train.screens.screen import DrawnScreen
from apps.train.screens.theme import draw_theme
from apps.train.screens.widgets import DrawnElement, Kind, Pen
from apps.train.screens.words import DrawnTexts, is_held_out
from apps.train.skills import ScreenQuestion, ask_absent, ask_for, ask_to_type
from envs.browser.launch import launch
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules

if TYPE_CHECKING:
    from playwright.async_api import Page

SEED = 1000
SIZES_PX = ((400, 300), (480, 320), (560, 400), (640, 480))
ROWS = {
    "button": 45,
    "link": 20,
    "link in text": 25,
    "checkbox": 30,
    "radio": 15,
    "field": 15,
    "type": 35,
    "absent": 15,
}
"""Number of questions in each row."""
PER_PAGE, ABSENT_SHARE = 3, 0.1
"""Questions about one page, so that 200 of them are about at least 67 pages; probability that one is about an element
that is not there.
"""
_SAYINGS = (
    "Sign in|Sign out|Log in|Register|Remember me|Forgot password|Search|Cancel|Save|Save changes|Delete|Edit|Add|"
    "Add to cart|Checkout|Buy now|Continue|Back|Next|Previous|Submit|Send|Reply|Share|Print|Download|Upload|Browse|"
    "Settings|Profile|Account|Help|Contact|About|Home|News|Blog|Shop|Products|Prices|Support|Careers|Press|Privacy|"
    "Terms|Imprint|Cookies|Accept|Decline|Reject|Allow|Close|Open|More|Read more|Show all|Details|Overview|History|"
    "Messages|Inbox|Drafts|Archive|Trash|Reports|Orders|Invoices|Customers|Calendar|Tasks|Projects|Files|Photos|Music|"
    "Videos|Maps|Weather|Sports|Travel|Health|Science|Business|Culture|Opinion|Subscribe|Unsubscribe|Follow|Like|"
    "Comment|Copy|Paste|Undo|Redo|Zoom in|Zoom out|Fit|Reset|Refresh|Reload|Retry|Start|Stop|Pause|Play|Record|Export|"
    "Import|Filter|Sort|Apply|Clear|Select all|None|All|Name|First name|Last name|Email|Phone|Street|City|Country|"
    "Postcode|Company|Subject|Message|Password|User name|Date|Time|Quantity|Size|Color|Weight|Express|Standard|Pickup|"
    "Invoice|Credit card|Gift wrap|Newsletter|Daily|Weekly|Monthly|Never|Dark mode|Sounds|Alerts|Backup|Sync|Location|"
    "Camera|Microphone|Bluetooth|Low|Medium|High|Small|Large|Yes|No|Maybe|Today|Tomorrow|Preview|Publish|Draft|Review|"
    "Approve|Assign|Label|Move|Rename|Duplicate|Restore|Upgrade|Learn more|Get started|Try it|Sign up|Join|Donate|Vote"
).split("|")
SAYINGS = tuple(saying for saying in _SAYINGS if is_held_out(saying))
"""Names on real sites that no training has."""
FONTS = ("Arial, sans-serif", "'DejaVu Sans', sans-serif", "Georgia, 'Times New Roman', serif", "Verdana, sans-serif")
_STYLE = """
body { margin: var(--margin); font: var(--font); background: var(--ground); color: var(--ink) }
button, input { font: inherit }
h2, h3, p { margin: 6px 0 }
nav { padding: 4px 0 6px }
nav a { margin-right: 14px }
small { color: #666 }
.row { padding: 4px 0 }
.grid { display: flex; flex-wrap: wrap; gap: 10px }
.cell { min-width: 90px }
.bar { padding: 6px 0 }
.card, .modal { border: 1px solid #ccc; padding: 10px 14px; background: #fff; color: #222 }
.card { width: 260px; margin: auto }
.card div { margin: 5px 0 }
.modal { position: fixed; left: 12%; top: 22%; width: 68%; box-shadow: 0 0 0 999px #0007 }
.lines td { border-bottom: 1px solid #ddd; padding: 4px 8px }
td { padding: 3px 6px 3px 0 }
input:not([type]) { width: 140px }
"""
_CONTROLS = (
    "",  # the browser's own
    """
button { background: var(--accent); color: #fff; border: 0; padding: 6px 12px; border-radius: var(--radius) }
input:not([type]) { border: 1px solid #bbb; border-radius: min(var(--radius), 6px); padding: 5px }
a { color: var(--accent) }
""",
    """
button { background: #fff; color: var(--accent); border: 1px solid; padding: 4px 10px; border-radius: var(--radius) }
input:not([type]) { border: 1px solid #999; padding: 3px }
a { color: var(--accent); text-decoration: none }
""",
    """
button { background: #eee; color: #111; border: 1px solid #aaa; padding: 3px 9px; border-radius: 3px }
a { color: var(--accent) }
nav { border-bottom: 2px solid var(--accent) }
""",
)
"""Styles of buttons, fields and links."""
_MEASURE = """() => [...document.querySelectorAll('[data-kind]')].map(each => {
  const named = each.dataset.for ? document.getElementById(each.dataset.for) : each;
  const range = document.createRange();
  range.selectNodeContents(named);
  const box = each.getBoundingClientRect(), text = range.getBoundingClientRect(), on = each.querySelector('input');
  const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
  return {
    kind: each.dataset.kind, name: each.dataset.name, box: [box.left, box.top, box.right, box.bottom],
    text: [text.left, text.top, text.right, text.bottom], is_on: !!on && on.checked,
    lines: each.getClientRects().length,
    is_free: !!hit && (each.contains(hit) || hit.contains(each)),
  };
})"""


class PageWriter:
    """Writer of one page's elements, each with its kind and name for the exam."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.words = DrawnTexts(rng, held_out=True, near_share=0.1)
        self._sayings = rng.sample(SAYINGS, len(SAYINGS))
        self._num_fields = 0

    def name(self) -> str:
        """Return a name that no other element of the page has."""
        if self._sayings and self.rng.random() < 0.5:
            return self._sayings.pop()
        while True:
            name = self.words.name(12)
            if name not in SAYINGS:
                return name

    def button(self) -> str:
        """Return a button."""
        name = escape(self.name())
        return f'<button data-kind="button" data-name="{name}">{name}</button>'

    def link(self, kind: str = "link") -> str:
        """Return a link."""
        name = escape(self.name())
        return f'<a href="#" data-kind="{kind}" data-name="{name}">{name}</a>'

    def choice(self, kind: str) -> str:
        """Return a checkbox or radio button with its label."""
        name, on = escape(self.name()), " checked" if self.rng.random() < 0.3 else ""
        return f'<label data-kind="{kind}" data-name="{name}"><input type="{kind}"{on}> {name}</label>'

    def field(self, between: str = "") -> str:
        """Return a labelled empty text field; `between` separates the label from the field."""
        self._num_fields += 1
        name, id_ = escape(self.name()), f"label{self._num_fields}"
        return f'<label id="{id_}">{name}</label>{between}<input data-kind="field" data-name="{name}" data-for="{id_}">'

    def prose(self, count: int) -> str:
        """Return words that are never asked for: those that training may have as names."""
        words = iter(lambda: self.words.filler(1), None)
        return " ".join(itertools.islice((word for word in words if not is_held_out(word)), count)).capitalize()

    def paragraph(self, links: int) -> str:
        """Return a paragraph with links in its text."""
        parts = [self.prose(self.rng.randint(3, 7))]
        for _ in range(links):
            parts += [self.link("link in text"), self.prose(self.rng.randint(3, 8)).lower()]
        return f"<p>{' '.join(parts)}.</p>"

    def several(self, part: Callable[[], str], lowest: int, highest: int, between: str = " ") -> str:
        """Return a number of equal parts."""
        return between.join(part() for _ in range(self.rng.randint(lowest, highest)))


def _article(page: PageWriter) -> str:
    nav = f"<nav>{page.several(page.link, 2, 4)}</nav>"
    return f"{nav}<h2>{page.prose(3)}</h2>{page.paragraph(2)}{page.paragraph(1)}{page.paragraph(2)}"


def _sign_in(page: PageWriter) -> str:
    fields = page.several(lambda: f"<div>{page.field('<br>')}</div>", 2, 2, "")
    return (
        f"<div class=card><h3>{page.prose(2)}</h3>{fields}<div>{page.choice('checkbox')}</div>"
        f"<div>{page.button()} {page.link()}</div></div>"
    )


def _contact(page: PageWriter) -> str:
    rows = page.several(lambda: f"<tr><td>{page.field('</td><td>')}</td></tr>", 3, 4, "")
    return f"<h3>{page.prose(2)}</h3><table>{rows}</table><div>{page.choice('checkbox')}</div>{page.button()}"


def _settings(page: PageWriter) -> str:
    boxes = page.several(lambda: f"<div class=row>{page.choice('checkbox')}</div>", 3, 6, "")
    return f"<h2>{page.prose(1)}</h2>{boxes}<div>{page.button()} {page.button()}</div>"


def _shop(page: PageWriter) -> str:
    def card() -> str:
        return f"<div class=cell><b>{page.prose(1)}</b><br>{page.rng.randint(2, 99)}.90<br>{page.button()}</div>"

    return f"<nav>{page.several(page.link, 2, 3)}</nav><div class=grid>{page.several(card, 3, 6, '')}</div>"


def _search(page: PageWriter) -> str:
    def hit() -> str:
        return f"<div class=row>{page.link()}<br><small>{page.prose(6)}</small></div>"

    return f"<div class=bar>{page.field(' ')} {page.button()}</div>{page.several(hit, 2, 4, '')}"


def _table(page: PageWriter) -> str:
    def row() -> str:
        return f"<tr><td>{page.link()}</td><td>{page.prose(2)}</td><td>{page.button()}</td></tr>"

    return f"<h3>{page.prose(2)}</h3><table class=lines>{page.several(row, 3, 5, '')}</table>"


def _survey(page: PageWriter) -> str:
    radios = page.several(lambda: f"<div>{page.choice('radio')}</div>", 3, 5, "")
    return f"<p>{page.prose(6)}?</p>{radios}<div>{page.button()}</div>"


def _dialog(page: PageWriter) -> str:
    box = (
        f"<div class=modal><p>{page.prose(7)}.</p>{page.choice('checkbox')}<div>{page.several(page.button, 2, 3)}</div>"
    )
    return f"<h2>{page.prose(3)}</h2><p>{page.prose(14)}</p><p>{page.prose(20)}</p>{box}</div>"


def _toolbar(page: PageWriter) -> str:
    return f"<div class=bar>{page.several(page.button, 3, 6, '')}</div>{page.paragraph(1)}{page.paragraph(1)}"


def _columns(page: PageWriter) -> str:
    def column() -> str:
        links = page.several(lambda: f"<div>{page.link()}</div>", 3, 4, "")
        return f"<div class=cell><b>{page.prose(1)}</b>{links}</div>"

    return f"<p>{page.prose(10)}</p><div class=grid>{page.several(column, 2, 3, '')}</div>"


def _checkout(page: PageWriter) -> str:
    rows = page.several(lambda: f"<tr><td>{page.field('</td><td>')}</td></tr>", 2, 3, "")
    radios = page.several(lambda: page.choice("radio"), 2, 3)
    return f"<table>{rows}</table><div class=row>{radios}</div><div>{page.choice('checkbox')}</div>{page.button()}"


PAGES: dict[str, Callable[[PageWriter], str]] = {
    "article": _article,
    "sign-in": _sign_in,
    "contact": _contact,
    "settings": _settings,
    "shop": _shop,
    "search": _search,
    "table": _table,
    "survey": _survey,
    "dialog": _dialog,
    "toolbar": _toolbar,
    "columns": _columns,
    "checkout": _checkout,
}


def write_page(rng: random.Random, kind: str) -> str:
    """Return the HTML of a page of one kind, in a style of its own."""
    ground, ink = rng.choice((("#fff", "#222"), ("#fff", "#1b1b1b"), ("#f6f7f9", "#24292f"), ("#fdfaf3", "#33302a")))
    variables = {
        "accent": rng.choice(("#0645ad", "#1a73e8", "#0a7d5a", "#b3261e", "#5b3fc4", "#333333")),
        "ground": ground,
        "ink": ink,
        "radius": f"{rng.choice((0, 3, 6, 16))}px",
        "margin": f"{rng.choice((8, 12, 20))}px",
        "font": f"{rng.choice((13, 14, 15, 16))}px/1.4 {rng.choice(FONTS)}",
    }
    root = "".join(f"--{name}:{value};" for name, value in variables.items())
    style = f":root{{{root}}}{_STYLE}{rng.choice(_CONTROLS)}"
    return f"<!doctype html><meta charset=utf-8><style>{style}</style><body>{PAGES[kind](PageWriter(rng))}</body>"


async def _read_page(
    page: "Page", rng: random.Random, kind: str, size_px: tuple[int, int]
) -> tuple[DrawnScreen, list[str]]:
    """Show a page; return its screenshot with the elements that are visible as a whole, and the row of each."""
    await page.set_viewport_size({"width": size_px[0], "height": size_px[1]})
    await page.set_content(write_page(rng, kind))
    canvas = PixelCanvas(*size_px, (0, 0, 0))
    canvas.pixels[:] = np.asarray(Image.open(io.BytesIO(await page.screenshot())).convert("RGB"))
    rows, targets = [], []
    for found in await page.evaluate(_MEASURE):
        left, top, right, bottom = (round(edge) for edge in found["box"])
        x1, y1, x2, y2 = found["text"]
        is_whole = min(left, top) >= 0 and max(right, x2) <= size_px[0] and max(bottom, y2) <= size_px[1]
        if is_whole and found["is_free"] and found["lines"] == 1:
            rows.append(found["kind"])
            targets.append(
                DrawnElement(
                    kind=cast(Kind, found["kind"].removesuffix(" in text")),
                    name=found["name"],
                    box=(left, top, right, bottom),
                    read_at=((x1 + x2) / 2, (y1 + y2) / 2),
                    is_on=found["is_on"],
                )
            )
    pen = Pen(canvas=canvas, theme=draw_theme(random.Random(0), sizes_px=(12, 12), held_out_fonts=False), rng=rng)
    return DrawnScreen(family=f"{size_px[0]} x {size_px[1]}", targets=tuple(targets), pen=pen), rows


async def make_page_sheets(rows: Mapping[str, int] = ROWS, seed: int = SEED) -> list[ExamSheet]:
    """Return one sheet for each row, with so many questions; the same ones for each seed and browser.

    The family of a screen is its size.
    """
    rng = random.Random(f"pages {seed}")
    items: dict[str, list[tuple[DrawnScreen, tuple[ScreenQuestion, ...]]]] = {row: [] for row in rows}
    launched = await launch(BrowserOptions(), DomainRules(), is_shared=True)
    try:
        page = await launched.browser.new_page()
        for kind in itertools.cycle(PAGES):
            if all(len(items[row]) == count for row, count in rows.items()):
                break
            screen, labels = await _read_page(page, rng, kind, rng.choice(SIZES_PX))
            num_asked = 0
            for label, target in rng.sample(list(zip(labels, screen.targets, strict=True)), len(labels)):
                row = rng.choice(("field", "type", "type")) if label == "field" else label
                row = "absent" if rng.random() < ABSENT_SHARE else row
                if num_asked == PER_PAGE or len(items[row]) == rows[row] or target.is_on:
                    continue
                items[row].append((screen, (_ask(rng, screen, target, row),)))
                num_asked += 1
    finally:
        await launched.close()
    return [ExamSheet(name=row, items=tuple(of_row)) for row, of_row in items.items()]


def _ask(rng: random.Random, screen: DrawnScreen, target: DrawnElement, row: str) -> ScreenQuestion:
    if row == "absent":
        return ask_absent(rng, screen, target)
    if row == "type":
        return ask_to_type(rng, target, DrawnTexts(rng, held_out=True, near_share=0.0).text())
    return ask_for(rng, target)


def save_pictures(folder: Path) -> None:
    """Write the exam's screenshots with the element to click, and print the questions."""
    folder.mkdir(parents=True, exist_ok=True)
    for sheet in asyncio.run(make_page_sheets()):
        for number, (screen, (question,)) in enumerate(sheet.items):
            image = Image.fromarray(screen.pixels)
            if question.target is not None:
                ImageDraw.Draw(image).rectangle(question.target.box, outline="red")
            image.save(folder / f"{sheet.name.replace(' ', '-')}-{number:02}.png")
            print(f"{sheet.name} {number}: {question.instruction}")


if __name__ == "__main__":
    save_pictures(Path(sys.argv[1]))
