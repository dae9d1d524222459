"""A pointer with a hand on it: moves, clicks and types on a page as a person would, and notes what happens when."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from playwright.async_api import Page

_REST_S = 0.35
_MOVE_STEP_S = 0.02
_PX_PER_S = 900.0
_IS_FIXED = """(() => {
  for (let one = document.querySelector(s); one; one = one.parentElement)
    if (['fixed', 'sticky'].includes(getComputedStyle(one).position)) return true;
  return false })()"""
_ARROW = (
    '<path d="M1 1 L1 16.5 L4.6 13.2 L7 19 L9.6 17.9 L7.2 12.3 L12 12 Z" fill="{}" stroke="{}" stroke-width="1.2"/>'
)
_SHAPES = {
    "arrow": (_ARROW.format("#fff", "#000"), (0, 0)),
    "dark arrow": (_ARROW.format("#000", "#fff"), (0, 0)),
    "hand": (
        '<path d="M7 1.5 Q9 0 10.5 2 L10.5 10 L18 12 Q20 13 19.5 16 L18 24 L8 24 L2 15 Q1.5 12.5 4 13 L7 15.5 Z" '
        'fill="#fff" stroke="#000" stroke-width="1.3"/>',
        (8, 1),
    ),
    "dot": (
        '<circle cx="13" cy="13" r="11" fill="rgba(226, 62, 87, .55)" stroke="#e23e57" stroke-width="2"/>',
        (13, 13),
    ),
    "beam": ('<path d="M1 1 H9 M5 1 V19 M1 19 H9" stroke="#000" stroke-width="1.6" fill="none"/>', (5, 10)),
}
POINTERS = ("arrow", "dark arrow", "hand", "dot", "system", "none")
"""Shapes of pointers; `system` is a white arrow, a hand over what can be clicked, a beam over fields."""
_POINTER_JS = """(() => {
  const shapes = SHAPES;
  const draw = () => {
    if (document.getElementById('drawn-pointer') || !document.documentElement) return;
    const box = document.createElement('div');
    box.id = 'drawn-pointer';
    box.style.cssText = 'position:fixed;left:0;top:0;width:28px;height:28px;z-index:2147483647;pointer-events:none;'
      + 'transition:none;display:none';
    document.documentElement.append(box);
    let last = '';
    const shapeAt = (x, y) => {
      if (NAME !== 'system') return NAME;
      const under = document.elementFromPoint(x, y);
      const cursor = under ? getComputedStyle(under).cursor : '';
      if (cursor === 'text' || (under && under.matches('input'))) return 'beam';
      return cursor === 'pointer' || (under && under.closest('a[href], button')) ? 'hand' : 'arrow';
    };
    const put = (x, y) => {
      const name = shapeAt(x, y);
      const [svg, tip] = shapes[name];
      if (name !== last) box.innerHTML = `<svg width="28" height="28" style="display:block">${svg}</svg>`;
      last = name;
      box.style.display = 'block';
      box.style.transform = `translate(${x - tip[0]}px,${y - tip[1]}px)`;
    };
    document.addEventListener('mousemove', (event) => put(event.clientX, event.clientY), true);
    const kept = (window.name || '').split(',').map(Number);
    if (kept.length === 2) put(kept[0], kept[1]);
    document.addEventListener('mousemove', (event) => { window.name = `${event.clientX},${event.clientY}`; }, true);
  };
  document.addEventListener('DOMContentLoaded', draw);
  draw();
})();"""


def pointer_script(name: str) -> str:
    """A script that draws a pointer where the mouse is; "" for none.

    Args:
        name: One of `POINTERS`.
    """
    if name == "none":
        return ""
    return _POINTER_JS.replace("SHAPES", json.dumps(_SHAPES)).replace("NAME", json.dumps(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happens in a recording, as the script that made it knows it.

    Attributes:
        kind: As `Transition.kind`.
        trigger: As `Transition.trigger`.
        box_px: Left, top, right and bottom of what changes, in the viewport.
        start_s: When it begins.
        duration_s: How long it takes; 0 for what is there at once.
        easing: The CSS curve; "" where there is none.
    """

    kind: str
    trigger: str
    box_px: tuple[int, int, int, int]
    start_s: float
    duration_s: float = 0.0
    easing: str = ""


class PointerScript:
    """What a person would do with a mouse and a keyboard, and the notes of what it leads to.

    Args:
        page: The page.
        start: `time.time()` of the first frame.
        at: Where the pointer is.
        px_per_s: How fast it is moved.
    """

    def __init__(
        self, page: "Page", start: float, *, at: tuple[float, float] = (480.0, 560.0), px_per_s: float = _PX_PER_S
    ) -> None:
        self._page, self.started_s = page, start
        self._at, self._px_per_s = at, px_per_s
        self.happenings: list[Happening] = []
        self.scrolled_px = 0

    @property
    def page(self) -> "Page":
        """Playwright's page."""
        return self._page

    def now_s(self) -> float:
        """Seconds of the video."""
        return time.time() - self.started_s

    async def wait(self, seconds: float) -> None:
        """Leave everything as it is."""
        await asyncio.sleep(seconds)

    async def find(self, selector: str) -> tuple[int, int, int, int]:
        """The box of an element in the viewport; of what can be seen of it."""
        box = await self._page.evaluate(
            "(s) => { const r = document.querySelector(s).getBoundingClientRect(); return [Math.max(r.left, 0),"
            "Math.max(r.top, 0), Math.min(r.right, innerWidth), Math.min(r.bottom, innerHeight)] }",
            selector,
        )
        left, top, right, bottom = (round(value) for value in box)
        return left, top, right, bottom

    async def move(self, to: str | tuple[float, float]) -> None:
        """Move the pointer onto the middle of an element, or to a place, as fast as a hand does."""
        if isinstance(to, str):
            left, top, right, bottom = await self.find(to)
            to = (left + right) / 2, (top + bottom) / 2
        (x0, y0), (x1, y1) = self._at, to
        length_s = max(float(np.hypot(x1 - x0, y1 - y0)) / self._px_per_s, 0.15)
        began = time.time()
        while (part := (time.time() - began) / length_s) < 1:
            eased = part * part * (3 - 2 * part)
            await self._page.mouse.move(x0 + (x1 - x0) * eased, y0 + (y1 - y0) * eased)
            await asyncio.sleep(_MOVE_STEP_S)
        await self._page.mouse.move(x1, y1)
        self._at = (x1, y1)

    async def hover(
        self, on: str, kind: str, box: str, duration_s: float, easing: str = "ease", *, away: tuple[float, float]
    ) -> None:
        """Move onto an element, wait, and move away; noted as one happening."""
        await self.bring(on)
        await self._page.evaluate(
            "(s) => document.querySelector(s).addEventListener('mouseenter', () => { window.entered = Date.now() })", on
        )
        await self.move(on)
        before = time.time()
        entered = await self._page.evaluate("window.entered || 0") / 1000
        started_s = (entered or before) - self.started_s
        await self.wait(duration_s + 0.6)
        self.note(kind, "hover", await self.find(box), started_s, duration_s, easing)
        await self.move(away)
        await self.wait(duration_s + 0.5)

    async def click(
        self,
        on: str,
        kind: str = "",
        box: str = "",
        duration_s: float = 0.0,
        easing: str = "",
        *,
        is_gone: bool = False,
    ) -> None:
        """Move onto an element, rest, click; `kind` says what happens then in `box`.

        Args:
            on: Selector of the element.
            kind: Kind of the happening; "" for none.
            box: Selector of what changes.
            duration_s: How long.
            easing: The curve.
            is_gone: The box is what was there before the click.
        """
        await self.bring(on)
        place = await self.find(box) if is_gone else (0, 0, 0, 0)
        started_s = await self.press(on)
        await self.wait(duration_s + 0.6)
        if kind:
            self.note(kind, "click", place if is_gone else await self.find(box), started_s, duration_s, easing)

    async def press(self, on: str) -> float:
        """Move onto an element, rest, click; the second of the video in which the click is done."""
        await self.move(on)
        await self.wait(_REST_S)
        started_s = self.now_s()
        await self._page.mouse.down()
        await self._page.mouse.up()
        return started_s

    async def bring(self, on: str) -> None:
        """Scroll until an element can be seen, where it cannot."""
        by_px = await self._page.evaluate(
            "(s) => { const r = document.querySelector(s).getBoundingClientRect(), middle = (r.top + r.bottom) / 2;"
            "if (middle > 110 && middle < innerHeight - 70) return 0;"
            "const end = document.documentElement.scrollHeight - innerHeight;"
            "return Math.round(Math.min(Math.max(scrollY + middle - innerHeight / 2, 0), end) - scrollY) }",
            on,
        )
        if abs(by_px) > 8 and await self._page.evaluate(f"(s) => !{_IS_FIXED}", on):
            await self.scroll(by_px, in_s=max(abs(by_px) / 600, 0.4))

    async def scroll(self, by_px: int, *, in_s: float = 0.8) -> None:
        """Turn the wheel, in small steps as a touchpad does."""
        started_s, done, began = self.now_s(), 0, time.time()
        while done != by_px:
            part = min((time.time() - began) / in_s, 1.0)
            goal = round(by_px * part * part * (3 - 2 * part))
            if goal != done:
                await self._page.evaluate("(dy) => window.scrollBy({top: dy, behavior: 'instant'})", goal - done)
                done = goal
            await asyncio.sleep(_MOVE_STEP_S)
        width, height = await self._page.evaluate("[innerWidth, innerHeight]")
        self.note("scroll", "scroll", (0, 0, width, height), started_s, self.now_s() - started_s)
        self.scrolled_px = max(self.scrolled_px, await self._page.evaluate("Math.round(scrollY)"))
        await self.wait(0.3)

    async def type(self, text: str, box: str) -> None:
        """Type into the field that has the focus."""
        started_s = self.now_s()
        for char in text:
            await self._page.keyboard.type(char)
            await self.wait(0.09)
        self.note("typing", "typing", await self.find(box), started_s, self.now_s() - started_s)
        await self.wait(0.5)

    def note(
        self,
        kind: str,
        trigger: str,
        box_px: tuple[int, int, int, int],
        start_s: float,
        duration_s: float,
        easing: str = "",
    ) -> None:
        """Write down what happens."""
        self.happenings.append(
            Happening(kind=kind, trigger=trigger, box_px=box_px, start_s=start_s, duration_s=duration_s, easing=easing)
        )
