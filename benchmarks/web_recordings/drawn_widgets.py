"""Parts of pages that do something, drawn from a seed: markup, style, script, and what a hand does with them.

They share nothing with the pages in `pages`: another markup, other effects, other sizes, speeds and curves.
"""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from string import Template

from benchmarks.web_recordings.pointer_script import PointerScript

Play = Callable[[PointerScript], Awaitable[None]]
CURVES = (
    "linear",
    "ease",
    "ease-in",
    "ease-out",
    "ease-in-out",
    "cubic-bezier(.4, 0, .2, 1)",
    "cubic-bezier(.22, 1, .36, 1)",
)
_NAMED = CURVES[:5]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the widgets of a page have in common.

    Attributes:
        rng: For what is drawn further.
        accent: A strong colour.
        ground: Of the page.
        panel: Of boxes on it.
        ink: Of texts.
        line: Of borders.
        radius_px: Of corners.
        words: Of the page's language.
        can_hover: Whether there is a pointer that hovers.
    """

    rng: random.Random = field(repr=False)
    accent: str
    ground: str
    panel: str
    ink: str
    line: str
    radius_px: int
    words: tuple[str, ...]
    can_hover: bool

    def text(self, count: int) -> str:
        """Words, the first with a capital."""
        return " ".join(self.rng.choice(self.words) for _ in range(count)).capitalize()

    def time(self, low_s: float, high_s: float) -> tuple[float, str]:
        """A length and a curve."""
        return round(self.rng.uniform(low_s, high_s), 2), self.rng.choice(CURVES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """A part of a page.

    Attributes:
        html: Its markup.
        css: Its style.
        play: What is done with it.
        script: Its script.
        where: `flow`, `header` or `over` (laid over the page).
    """

    html: str
    css: str
    play: Play
    script: str = ""
    where: str = "flow"


def name_curve(curve: str) -> str:
    """What the truth calls a curve: those that have no name are not asked for."""
    return curve if curve in _NAMED else ""


def fill(text: str, look: Look, **more: object) -> str:
    """A style or a script with the colours of a look, and other values, in place of their names."""
    values = {name: getattr(look, name) for name in ("accent", "ground", "panel", "ink", "line")}
    return Template(text).substitute(values | {"radius": f"{look.radius_px}px"} | more)


async def find_margin(hand: PointerScript, on: str) -> tuple[float, float]:
    """A place in the nearer margin, on the height of an element."""
    left, top, right, bottom = await hand.find(on)
    width = (hand.page.viewport_size or {"width": 960})["width"]
    return (width - 9 if left + right > width else 9), (top + bottom) / 2


def make_tiles(look: Look) -> Widget:
    """Boxes that a hover lifts, grows, fills, frames, or whose picture it enlarges."""
    count, effect = look.rng.choice((2, 3, 4)), look.rng.choice(("lift", "grow", "fill", "frame", "zoom", "fade"))
    seconds, curve = look.time(0.18, 0.6)
    css = """.tile { flex: 1; background: $panel; border: 2px solid $line; border-radius: $radius; padding: 18px;
      transition: all ${seconds}s $curve; overflow: hidden }
    .tiles { display: flex; gap: 26px } .tile i { display: block; height: 70px; transition: all ${seconds}s $curve;
      background: linear-gradient(120deg, $accent, $line 60%, $ink); margin-bottom: 10px }
    """
    css += {
        "lift": ".tile:hover { transform: translateY(-9px); box-shadow: 0 14px 22px rgba(0, 0, 0, .35) }",
        "grow": ".tile:hover { transform: scale(1.06) }",
        "fill": ".tile:hover { background: $accent; color: $ground }",
        "frame": ".tile:hover { border-color: $accent; box-shadow: 0 0 0 3px $accent }",
        "zoom": ".tile:hover i { transform: scale(1.4) }",
        "fade": ".tile:hover { opacity: .45 }",
    }[effect]
    tiles = "".join(
        f'<div class="tile" id="tile{number}"><i></i><b>{look.text(2)}</b><br>{look.text(4)}</div>'
        for number in range(count)
    )
    chosen = [f"#tile{number}" for number in (0, count - 1)]
    box = [f"{one} i" if effect == "zoom" else one for one in chosen]

    async def play(hand: PointerScript) -> None:
        for on, changed in zip(chosen, box, strict=True):
            await hand.hover(on, "hover", changed, seconds, name_curve(curve), away=await find_margin(hand, on))

    html = f'<section><h2>{look.text(3)}</h2><div class="tiles">{tiles}</div></section>'
    return Widget(html=html, css=fill(css, look, seconds=seconds, curve=curve), play=play)


def make_button(look: Look) -> Widget:
    """A button that a hover fills, inverts, or slides a colour into."""
    effect = look.rng.choice(("fill", "invert", "slide", "glow"))
    seconds, curve = look.time(0.15, 0.5)
    css = """#push { font: inherit; padding: 13px 34px; border: 2px solid $accent; border-radius: $radius; color: $ink;
      background: linear-gradient($accent, $accent) no-repeat left / 0 100% $panel; transition: all ${seconds}s $curve }
    """
    css += {
        "fill": "#push:hover { background-color: $accent; color: $ground }",
        "invert": "#push:hover { background-color: $ink; color: $panel; border-color: $ink }",
        "slide": "#push:hover { background-size: 100% 100%; color: $ground }",
        "glow": "#push:hover { box-shadow: 0 0 14px 4px $accent; letter-spacing: 1px }",
    }[effect]

    async def play(hand: PointerScript) -> None:
        await hand.hover("#push", "hover", "#push", seconds, name_curve(curve), away=await find_margin(hand, "#push"))

    html = f'<section><p>{look.text(9)}</p><button id="push">{look.text(2)}</button></section>'
    return Widget(html=html, css=fill(css, look, seconds=seconds, curve=curve), play=play)


def make_tip(look: Look) -> Widget:
    """A word with a tip above, below or beside it."""
    place = look.rng.choice(("bottom: 130%; left: -10px", "top: 140%; left: 0", "left: 108%; top: -8px"))
    seconds, curve = look.time(0.12, 0.35)
    css = """#term { position: relative; border-bottom: 2px dotted $accent; cursor: help }
    #tip { position: absolute; $place; background: $ink; color: $panel; padding: 8px 14px; border-radius: 6px;
      white-space: nowrap; opacity: 0; transition: opacity ${seconds}s $curve; z-index: 2; pointer-events: none }
    #term:hover #tip { opacity: 1 }"""

    async def play(hand: PointerScript) -> None:
        left, _, right, bottom = await hand.find("#term")
        away = (left + right) / 2, bottom + 90
        await hand.hover("#term", "tooltip", "#tip", seconds, name_curve(curve), away=away)

    words = f'{look.text(4)} <span id="term">{look.text(1)}<span id="tip">{look.text(3)}</span></span> {look.text(5)}'
    return Widget(
        html=f"<section><p>{words}</p></section>",
        css=fill(css, look, seconds=seconds, curve=curve, place=place),
        play=play,
    )


def make_risers(look: Look) -> Widget:
    """Boxes far below that rise, slide in or fade in once they are scrolled to."""
    effect = look.rng.choice(("translateY(60px)", "translateX(-90px)", "scale(.8)"))
    seconds, curve = look.time(0.4, 0.9)
    css = """.rise { background: $accent; color: $ground; padding: 34px; margin: 260px 0 40px; border-radius: $radius; opacity: 0;
      transform: $effect; transition: all ${seconds}s $curve } .rise.on { opacity: 1; transform: none }"""
    boxes = "".join(f'<div class="rise" id="rise{n}"><h2>{look.text(2)}</h2>{look.text(9)}</div>' for n in range(2))
    script = """new IntersectionObserver((seen) => seen.forEach((one) => { if (one.isIntersecting && !one.target.at) {
      one.target.at = Date.now(); one.target.classList.add('on') } }), { threshold: .3 }).observe(rise0);
    new IntersectionObserver((seen) => seen.forEach((one) => { if (one.isIntersecting && !one.target.at) {
      one.target.at = Date.now(); one.target.classList.add('on') } }), { threshold: .3 }).observe(rise1)"""

    async def play(hand: PointerScript) -> None:
        for number in range(2):
            began = time.time()
            await hand.bring(f"#rise{number}")
            await hand.wait(seconds + 0.4)
            at = await hand.page.evaluate(f"rise{number}.at || 0") / 1000
            if at > began:
                box = await hand.find(f"#rise{number}")
                hand.note("reveal", "scroll", box, at - hand.started_s, seconds, name_curve(curve))

    html = f"<section>{boxes}</section>"
    return Widget(html=html, css=fill(css, look, seconds=seconds, curve=curve, effect=effect), script=script, play=play)


def make_link(look: Look) -> Widget:
    """A link to another page."""
    css = "#go { color: $accent; font-size: 20px; cursor: pointer }"

    async def play(hand: PointerScript) -> None:
        await hand.click("#go", "navigation", "body")
        await hand.wait(0.7)

    html = f'<section><p>{look.text(6)}</p><a id="go" href="/other.html">{look.text(3)} ›</a></section>'
    return Widget(html=html, css=fill(css, look), play=play)


HOVERED = (make_tiles, make_button, make_tip)
LAST = (make_risers, make_link)
"""What comes at the end of a recording: the page is scrolled far down, or left."""
