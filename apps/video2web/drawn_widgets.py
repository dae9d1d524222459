"""Parts of pages that do something, drawn from a seed: markup, style, script, and what a hand does with them.

They share nothing with the pages in `data/recordings`: another markup, other effects, other sizes, speeds and curves.
"""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from string import Template

from apps.video2web.hand import Hand

Play = Callable[[Hand], Awaitable[None]]
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


def _named(curve: str) -> str:
    """What the truth calls a curve: those that have no name are not asked for."""
    return curve if curve in _NAMED else ""


def _fill(text: str, look: Look, **more: object) -> str:
    values = {name: getattr(look, name) for name in ("accent", "ground", "panel", "ink", "line")}
    return Template(text).substitute(values | {"radius": f"{look.radius_px}px"} | more)


async def _away(hand: Hand, on: str) -> tuple[float, float]:
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

    async def play(hand: Hand) -> None:
        for on, changed in zip(chosen, box, strict=True):
            await hand.hover(on, "hover", changed, seconds, _named(curve), away=await _away(hand, on))

    html = f'<section><h2>{look.text(3)}</h2><div class="tiles">{tiles}</div></section>'
    return Widget(html=html, css=_fill(css, look, seconds=seconds, curve=curve), play=play)


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

    async def play(hand: Hand) -> None:
        await hand.hover("#push", "hover", "#push", seconds, _named(curve), away=await _away(hand, "#push"))

    html = f'<section><p>{look.text(9)}</p><button id="push">{look.text(2)}</button></section>'
    return Widget(html=html, css=_fill(css, look, seconds=seconds, curve=curve), play=play)


def make_tip(look: Look) -> Widget:
    """A word with a tip above, below or beside it."""
    place = look.rng.choice(("bottom: 130%; left: -10px", "top: 140%; left: 0", "left: 108%; top: -8px"))
    seconds, curve = look.time(0.12, 0.35)
    css = """#term { position: relative; border-bottom: 2px dotted $accent; cursor: help }
    #tip { position: absolute; $place; background: $ink; color: $panel; padding: 8px 14px; border-radius: 6px;
      white-space: nowrap; opacity: 0; transition: opacity ${seconds}s $curve; z-index: 2; pointer-events: none }
    #term:hover #tip { opacity: 1 }"""

    async def play(hand: Hand) -> None:
        left, _, right, bottom = await hand.find("#term")
        away = (left + right) / 2, bottom + 90
        await hand.hover("#term", "tooltip", "#tip", seconds, _named(curve), away=away)

    words = f'{look.text(4)} <span id="term">{look.text(1)}<span id="tip">{look.text(3)}</span></span> {look.text(5)}'
    return Widget(
        html=f"<section><p>{words}</p></section>",
        css=_fill(css, look, seconds=seconds, curve=curve, place=place),
        play=play,
    )


def make_menu(look: Look) -> Widget:
    """A menu in the header, opened by a click (and closed by one) or by a hover; faded, unrolled or at once."""
    by_hover = look.can_hover and look.rng.random() < 0.4
    effect = look.rng.choice(("fade", "unroll", "once"))
    seconds, curve = look.time(0.15, 0.45)
    open_css = {
        "fade": ("opacity: 0; visibility: hidden; transform: translateY(10px)", "opacity: 1; visibility: visible; transform: none"),
        "unroll": ("clip-path: inset(0 0 100% 0)", "clip-path: inset(0)"),
        "once": ("display: none", "display: block"),
    }[effect]  # fmt: skip
    css = """#choices { position: relative; cursor: pointer; padding: 6px 4px }
    #items { position: absolute; top: 100%; inset-inline-end: 0; width: 190px; background: $panel; color: $ink; padding: 8px 0;
      box-shadow: 0 6px 18px rgba(0, 0, 0, .4); z-index: 5; $shut; transition: all ${seconds}s $curve }
    #items div { padding: 9px 18px } $rule #items { $open }"""
    rule = "#choices:hover" if by_hover else "#choices.open"
    items = "".join(f"<div>{look.text(2)}</div>" for _ in range(look.rng.randint(3, 6)))
    shown = 0.0 if effect == "once" else seconds
    easing = "" if effect == "once" else _named(curve)

    async def play(hand: Hand) -> None:
        if by_hover:
            await hand.hover("#choices", "menu", "#items", shown, easing, away=(12, 420))
            return
        await hand.click("#choices", "menu", "#items", shown, easing)
        box = await hand.find("#items")
        started_s = await hand.press("#choices")
        await hand.wait(seconds + 0.5)
        hand.note("menu", "click", box, started_s, shown, easing)

    script = "choices.onclick = (event) => { if (event.target === choices) choices.classList.toggle('open') }"
    return Widget(
        html=f'<nav id="choices">{look.text(1)} ▾<div id="items">{items}</div></nav>',
        css=_fill(css, look, seconds=seconds, curve=curve, shut=open_css[0], open=open_css[1], rule=rule),
        script="" if by_hover else script,
        play=play,
        where="header",
    )


def make_window(look: Look) -> Widget:
    """A dialog that fades in, grows, rises, or slides in from the side, over a veil."""
    effect = look.rng.choice(("fade", "grow", "rise", "drawer"))
    seconds, curve = look.time(0.2, 0.7)
    veil = look.rng.choice(("rgba(0, 0, 0, .5)", "rgba(10, 20, 60, .65)", "rgba(0, 0, 0, .35)"))
    start = {"fade": "none", "grow": "scale(.7)", "rise": "translateY(80px)", "drawer": "translateX(-100%)"}[effect]
    place = (
        "inset: 0 auto 0 0; width: 62%; max-width: 300px"
        if effect == "drawer"
        else "margin: 15vh auto 0; width: 78%; max-width: 430px"
    )
    css = """#cover { position: fixed; inset: 0; background: $veil; opacity: 0; visibility: hidden; z-index: 20;
      transition: opacity ${seconds}s $curve, visibility ${seconds}s }
    #pane { position: relative; box-sizing: border-box; background: $panel; color: $ink; padding: 26px; border-radius: $radius;
      $place; transform: $start; transition: transform ${seconds}s $curve }
    #cover.on { opacity: 1; visibility: visible } #cover.on #pane { transform: none }
    .act { background: $accent; color: $ground; padding: 11px 24px; display: inline-block; border-radius: $radius; cursor: pointer }
    """  # fmt: skip
    if effect == "drawer":
        css = css.replace("position: relative; box-sizing", "position: absolute; box-sizing")

    async def play(hand: Hand) -> None:
        await hand.click("#ask", "modal", "#pane", seconds, _named(curve))
        await hand.click("#done", "modal", "#pane", seconds, _named(curve), is_gone=True)

    button, shut = (f'<span class="act" id="{name}">{look.text(2)}</span>' for name in ("ask", "done"))
    over = f'<div id="cover"><div id="pane"><h3>{look.text(3)}</h3><p>{look.text(14)}</p>{shut}</div></div>'
    return Widget(
        html=f"<section><h2>{look.text(2)}</h2><p>{look.text(10)}</p>{button}</section>{over}",
        css=_fill(css, look, seconds=seconds, curve=curve, veil=veil, place=place, start=start),
        script="ask.onclick = () => cover.classList.add('on'); done.onclick = () => cover.classList.remove('on')",
        play=play,
    )


def make_questions(look: Look) -> Widget:
    """Questions whose answers unfold, at once or slowly."""
    seconds, curve = look.time(0.25, 0.6) if look.rng.random() < 0.75 else (0.0, "ease")
    css = """.ask { border-bottom: 1px solid $line; padding: 12px 0; cursor: pointer; font-weight: bold }
    .answer { display: grid; grid-template-rows: 0fr; transition: grid-template-rows ${seconds}s $curve }
    .answer > div { overflow: hidden } .open + .answer { grid-template-rows: 1fr } .answer p { margin: 10px 0 }"""
    rows = "".join(
        f'<div class="ask" id="ask{number}">{look.text(4)}?</div><div class="answer"><div>'
        f"<p>{look.text(12)}</p><p>{look.text(8)}</p></div></div>"
        for number in range(4)
    )
    first, second = look.rng.sample(range(3), 2)
    easing = _named(curve) if seconds else ""

    async def play(hand: Hand) -> None:
        await hand.click(f"#ask{first}", "accordion", "#asks", seconds, easing)
        await hand.click(f"#ask{second}", "accordion", "#asks", seconds, easing)

    script = "document.querySelectorAll('.ask').forEach((one) => one.onclick = () => one.classList.toggle('open'))"
    return Widget(
        html=f'<section id="asks"><h2>{look.text(2)}</h2>{rows}</section>',
        css=_fill(css, look, seconds=seconds, curve=curve),
        script=script,
        play=play,
    )


def make_tabs(look: Look) -> Widget:
    """Labels with a panel: underlined, filled or as pills; the panel fades or changes at once."""
    style = look.rng.choice(("line", "fill", "pill"))
    seconds, curve = look.time(0.2, 0.4) if look.rng.random() < 0.5 else (0.0, "ease")
    css = """.labels { display: flex; gap: 6px; border-bottom: 2px solid $line } .labels div { padding: 10px 20px; cursor: pointer }
    .sheet { display: none; padding: 16px 4px; min-height: 110px } .sheet.on { display: block; animation: come ${seconds}s $curve }
    @keyframes come { from { opacity: 0 } }
    """
    css += {
        "line": ".labels .on { box-shadow: inset 0 -4px $accent }",
        "fill": ".labels .on { background: $accent; color: $ground }",
        "pill": ".labels { border: 0 } .labels div { border-radius: 99px } .labels .on { background: $ink; color: $ground }",
    }[style]
    labels = "".join(
        f'<div id="label{number}" class="{"on" if not number else ""}">{look.text(1)}</div>' for number in range(3)
    )
    sheets = "".join(
        f'<div class="sheet {"on" if not number else ""}"><b>{look.text(3)}</b><p>{look.text(16)}</p></div>'
        for number in range(3)
    )

    async def play(hand: Hand) -> None:
        for label in ("#label1", "#label2"):
            await hand.click(label, "tabs", "#book", seconds, _named(curve) if seconds else "")

    script = """const sheets = [...document.querySelectorAll('.sheet')];
    [...document.querySelectorAll('.labels div')].forEach((one, n, all) => one.onclick = () => {
      all.forEach((other) => other.classList.remove('on')); sheets.forEach((other) => other.classList.remove('on'));
      one.classList.add('on'); sheets[n].classList.add('on') })"""
    return Widget(
        html=f'<section id="book"><div class="labels">{labels}</div>{sheets}</section>',
        css=_fill(css, look, seconds=seconds, curve=curve),
        script=script,
        play=play,
    )


def make_slides(look: Look) -> Widget:
    """Slides that move sideways by arrows, or fade over by dots."""
    is_fading = look.rng.random() < 0.3
    seconds, curve = look.time(0.35, 0.9)
    css = """#stage { position: relative; height: 170px; overflow: hidden; border-radius: $radius; background: $line; direction: ltr }
    .slide { position: absolute; inset: 0; padding: 30px 60px; box-sizing: border-box; color: #fff; transition: all ${seconds}s $curve }
    #prev, #next { display: inline-block; padding: 8px 18px; background: $ink; color: $ground; cursor: pointer; margin-top: 10px }"""
    shades = ("#7a3b69", "#23614d", "#28427e", "#80521b")
    moves = "opacity: {far}" if is_fading else "transform: translateX({way}%)"
    slides = "".join(
        f'<div class="slide" style="background: {shades[number]}; {moves.format(far=int(not number), way=100 * number)}">'
        f"<h2>{look.text(2)}</h2>{look.text(7)}</div>"
        for number in range(4)
    )
    change = (
        "one.style.opacity = n === at ? 1 : 0"
        if is_fading
        else "one.style.transform = `translateX(${100 * (n - at)}%)`"
    )
    script = f"""let at = 0; const turn = (by) => {{ at = (at + by + 4) % 4;
      document.querySelectorAll('.slide').forEach((one, n) => {{ {change} }}) }};
    document.getElementById('prev').onclick = () => turn(-1); document.getElementById('next').onclick = () => turn(1)"""

    async def play(hand: Hand) -> None:
        for arrow in ("#next", "#next", "#prev"):
            await hand.click(arrow, "carousel", "#stage", seconds, _named(curve))

    return Widget(
        html=f'<section><div id="stage">{slides}</div><span id="prev">‹</span> <span id="next">›</span></section>',
        css=_fill(css, look, seconds=seconds, curve=curve),
        script=script,
        play=play,
    )


def make_switch(look: Look) -> Widget:
    """A switch, or a box with a tick."""
    is_switch = look.rng.random() < 0.6
    seconds, curve = look.time(0.15, 0.4)
    css = """#flip { display: inline-block; width: 52px; height: 28px; border-radius: 14px; background: $line; position: relative;
      transition: background ${seconds}s $curve; vertical-align: middle; cursor: pointer }
    #flip::after { content: ''; position: absolute; left: 3px; top: 3px; width: 22px; height: 22px; border-radius: 11px;
      background: #fff; transition: left ${seconds}s $curve } #flip.on { background: $accent } #flip.on::after { left: 27px }"""
    if not is_switch:
        css = """#flip { display: inline-block; width: 26px; height: 26px; border: 2px solid $ink; vertical-align: middle; cursor: pointer }
        #flip.on { background: $accent } #flip.on::after { content: '✓'; color: $ground; font: bold 22px/26px 'DejaVu Sans'; padding-left: 3px }"""
    shown, easing = (seconds, _named(curve)) if is_switch else (0.0, "")

    async def play(hand: Hand) -> None:
        await hand.click("#flip", "toggle", "#flip", shown, easing)

    return Widget(
        html=f'<section><h2>{look.text(2)}</h2><p>{look.text(3)} <span id="flip"></span></p></section>',
        css=_fill(css, look, seconds=seconds, curve=curve),
        script="flip.onclick = () => flip.classList.toggle('on')",
        play=play,
    )


def make_notice(look: Look) -> Widget:
    """A button far from the corner or the edge in which a notice comes and goes."""
    place = look.rng.choice(
        ("right: 20px; bottom: 20px", "left: 20px; bottom: 20px", "left: 30%; right: 30%; top: 14px")
    )
    seconds, curve = look.time(0.2, 0.4)
    css = """#note { position: fixed; $place; background: $ink; color: $ground; padding: 14px 22px; border-radius: $radius; opacity: 0;
      transition: opacity ${seconds}s $curve; z-index: 9 } #note.on { opacity: 1 }
    #save { background: $accent; color: $ground; padding: 11px 26px; display: inline-block; cursor: pointer }"""

    async def play(hand: Hand) -> None:
        await hand.click("#save", "toast", "#note", seconds, _named(curve))
        await hand.wait(1.5)

    script = "save.onclick = () => { note.classList.add('on'); setTimeout(() => note.classList.remove('on'), 1300) }"
    return Widget(
        html=f'<section><p>{look.text(8)}</p><span id="save">{look.text(1)}</span></section><div id="note">{look.text(3)}</div>',
        css=_fill(css, look, seconds=seconds, curve=curve, place=place),
        script=script,
        play=play,
    )


def make_theme(look: Look) -> Widget:
    """A word in the header that inverts the page."""
    seconds, curve = look.time(0.2, 0.6) if look.rng.random() < 0.6 else (0.0, "ease")
    css = """html { background: #fff; transition: filter ${seconds}s $curve } html.flipped { filter: invert(1) hue-rotate(180deg) }
    #shade { cursor: pointer; padding: 6px }"""

    async def play(hand: Hand) -> None:
        await hand.click("#shade", "theme", "body", seconds, _named(curve) if seconds else "")

    return Widget(
        html=f'<nav id="shade">◐ {look.text(1)}</nav>',
        css=_fill(css, look, seconds=seconds, curve=curve),
        script="shade.onclick = () => document.documentElement.classList.toggle('flipped')",
        play=play,
        where="header",
    )


def make_field(look: Look) -> Widget:
    """A field that is typed into."""
    css = """#wish { font: inherit; padding: 11px 14px; width: 70%; max-width: 380px; border: 2px solid $line; border-radius: $radius;
      background: $panel; color: $ink } #wish:focus { outline: 0; border-color: $accent }"""

    async def play(hand: Hand) -> None:
        await hand.click("#wish")
        await hand.type(look.text(3), "#wish")

    html = f'<section><h2>{look.text(2)}</h2><p>{look.text(3)}</p><input id="wish"></section>'
    return Widget(html=html, css=_fill(css, look), play=play)


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

    async def play(hand: Hand) -> None:
        for number in range(2):
            began = time.time()
            await hand.bring(f"#rise{number}")
            await hand.wait(seconds + 0.4)
            at = await hand.page.evaluate(f"rise{number}.at || 0") / 1000
            if at > began:
                box = await hand.find(f"#rise{number}")
                hand.note("reveal", "scroll", box, at - hand.started_s, seconds, _named(curve))

    html = f"<section>{boxes}</section>"
    return Widget(
        html=html, css=_fill(css, look, seconds=seconds, curve=curve, effect=effect), script=script, play=play
    )


def make_link(look: Look) -> Widget:
    """A link to another page."""
    css = "#go { color: $accent; font-size: 20px; cursor: pointer }"

    async def play(hand: Hand) -> None:
        await hand.click("#go", "navigation", "body")
        await hand.wait(0.7)

    html = f'<section><p>{look.text(6)}</p><a id="go" href="/other.html">{look.text(3)} ›</a></section>'
    return Widget(html=html, css=_fill(css, look), play=play)


HOVERED = (make_tiles, make_button, make_tip)
CLICKED = (
    make_menu,
    make_window,
    make_questions,
    make_tabs,
    make_slides,
    make_switch,
    make_notice,
    make_theme,
    make_field,
)
LAST = (make_risers, make_link)
"""What comes at the end of a recording: the page is scrolled far down, or left."""
