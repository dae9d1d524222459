"""Parts of pages that a click or keys change, drawn from a seed: menus, windows, tabs, fields."""

from benchmarks.web_recordings.drawn_widgets import Look, Widget, fill, name_curve
from benchmarks.web_recordings.pointer_script import PointerScript


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
    easing = "" if effect == "once" else name_curve(curve)

    async def play(hand: PointerScript) -> None:
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
        css=fill(css, look, seconds=seconds, curve=curve, shut=open_css[0], open=open_css[1], rule=rule),
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

    async def play(hand: PointerScript) -> None:
        await hand.click("#ask", "modal", "#pane", seconds, name_curve(curve))
        await hand.click("#done", "modal", "#pane", seconds, name_curve(curve), is_gone=True)

    button, shut = (f'<span class="act" id="{name}">{look.text(2)}</span>' for name in ("ask", "done"))
    over = f'<div id="cover"><div id="pane"><h3>{look.text(3)}</h3><p>{look.text(14)}</p>{shut}</div></div>'
    return Widget(
        html=f"<section><h2>{look.text(2)}</h2><p>{look.text(10)}</p>{button}</section>{over}",
        css=fill(css, look, seconds=seconds, curve=curve, veil=veil, place=place, start=start),
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
    easing = name_curve(curve) if seconds else ""

    async def play(hand: PointerScript) -> None:
        await hand.click(f"#ask{first}", "accordion", "#asks", seconds, easing)
        await hand.click(f"#ask{second}", "accordion", "#asks", seconds, easing)

    script = "document.querySelectorAll('.ask').forEach((one) => one.onclick = () => one.classList.toggle('open'))"
    return Widget(
        html=f'<section id="asks"><h2>{look.text(2)}</h2>{rows}</section>',
        css=fill(css, look, seconds=seconds, curve=curve),
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

    async def play(hand: PointerScript) -> None:
        for label in ("#label1", "#label2"):
            await hand.click(label, "tabs", "#book", seconds, name_curve(curve) if seconds else "")

    script = """const sheets = [...document.querySelectorAll('.sheet')];
    [...document.querySelectorAll('.labels div')].forEach((one, n, all) => one.onclick = () => {
      all.forEach((other) => other.classList.remove('on')); sheets.forEach((other) => other.classList.remove('on'));
      one.classList.add('on'); sheets[n].classList.add('on') })"""
    return Widget(
        html=f'<section id="book"><div class="labels">{labels}</div>{sheets}</section>',
        css=fill(css, look, seconds=seconds, curve=curve),
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
    gradients = ("#7a3b69", "#23614d", "#28427e", "#80521b")
    moves = "opacity: {far}" if is_fading else "transform: translateX({way}%)"
    slides = "".join(
        f'<div class="slide" style="background: {gradients[number]}; {moves.format(far=int(not number), way=100 * number)}">'
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

    async def play(hand: PointerScript) -> None:
        for arrow in ("#next", "#next", "#prev"):
            await hand.click(arrow, "carousel", "#stage", seconds, name_curve(curve))

    return Widget(
        html=f'<section><div id="stage">{slides}</div><span id="prev">‹</span> <span id="next">›</span></section>',
        css=fill(css, look, seconds=seconds, curve=curve),
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
    shown, easing = (seconds, name_curve(curve)) if is_switch else (0.0, "")

    async def play(hand: PointerScript) -> None:
        await hand.click("#flip", "toggle", "#flip", shown, easing)

    return Widget(
        html=f'<section><h2>{look.text(2)}</h2><p>{look.text(3)} <span id="flip"></span></p></section>',
        css=fill(css, look, seconds=seconds, curve=curve),
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

    async def play(hand: PointerScript) -> None:
        await hand.click("#save", "toast", "#note", seconds, name_curve(curve))
        await hand.wait(1.5)

    script = "save.onclick = () => { note.classList.add('on'); setTimeout(() => note.classList.remove('on'), 1300) }"
    return Widget(
        html=f'<section><p>{look.text(8)}</p><span id="save">{look.text(1)}</span></section><div id="note">{look.text(3)}</div>',
        css=fill(css, look, seconds=seconds, curve=curve, place=place),
        script=script,
        play=play,
    )


def make_theme(look: Look) -> Widget:
    """A word in the header that inverts the page."""
    seconds, curve = look.time(0.2, 0.6) if look.rng.random() < 0.6 else (0.0, "ease")
    css = """html { background: #fff; transition: filter ${seconds}s $curve } html.flipped { filter: invert(1) hue-rotate(180deg) }
    #shade { cursor: pointer; padding: 6px }"""

    async def play(hand: PointerScript) -> None:
        await hand.click("#shade", "theme", "body", seconds, name_curve(curve) if seconds else "")

    return Widget(
        html=f'<nav id="shade">◐ {look.text(1)}</nav>',
        css=fill(css, look, seconds=seconds, curve=curve),
        script="shade.onclick = () => document.documentElement.classList.toggle('flipped')",
        play=play,
        where="header",
    )


def make_field(look: Look) -> Widget:
    """A field that is typed into."""
    css = """#wish { font: inherit; padding: 11px 14px; width: 70%; max-width: 380px; border: 2px solid $line; border-radius: $radius;
      background: $panel; color: $ink } #wish:focus { outline: 0; border-color: $accent }"""

    async def play(hand: PointerScript) -> None:
        await hand.click("#wish")
        await hand.type(look.text(3), "#wish")

    html = f'<section><h2>{look.text(2)}</h2><p>{look.text(3)}</p><input id="wish"></section>'
    return Widget(html=html, css=fill(css, look), play=play)


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
