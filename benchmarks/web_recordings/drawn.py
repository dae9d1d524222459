"""Recordings drawn from seeds: other pages, themes, sizes, pointers, speeds and codecs than those of `recordings`.

They show how well rules do on what nobody has looked at while writing them, as long as seeds are used that are new.
"""

import random
from collections.abc import Sequence

from benchmarks.web_recordings.drawn_clicks import CLICKED
from benchmarks.web_recordings.drawn_widgets import HOVERED, LAST, Look, Play, Widget
from benchmarks.web_recordings.filming import Take, VideoForm
from benchmarks.web_recordings.pointer_script import POINTERS, PointerScript

_SIZES = ((1280, 720), (1024, 768), (800, 600), (1366, 768), (1100, 820))
_PHONE_PX = (390, 844)
_FORMS = (
    VideoForm(codec="h264", fps=30),
    VideoForm(),
    VideoForm(codec="h264", fps=60),
    VideoForm(codec="h264", fps=None),
    VideoForm(codec="h264", fps=20),
    VideoForm(codec="h264", fps=30, bars_px=(0, 60)),
)
_THEMES = (
    ("#ffffff", "#f3f4f6", "#1f2430", "#d0d5dd"),
    ("#10141c", "#1c2330", "#e8ecf3", "#364152"),
    ("#fbf3e4", "#fffdf8", "#40311f", "#ddcba8"),
    ("#e8f1ec", "#ffffff", "#16332a", "#b5cfc2"),
    ("#2a1f3d", "#3a2c54", "#f4eefc", "#5d4c80"),
)
_FONTS = ("'DejaVu Sans'", "'DejaVu Serif'", "'Nimbus Sans', sans-serif", "sans-serif", "'Nimbus Roman', serif")
_ENGLISH = (
    "harvest signal velvet cabin orbit copper willow ribbon summit pocket timber glacier parcel anthem meadow cinder "
    "walnut beacon drift saddle kernel marble spruce thicket ledger canyon"
)
_GERMAN = "Hafen Brücke Werkstatt Morgen Laterne Gärten Schlüssel Fenster Straße Regen Küche Bücher Tafel Wolke Zug"
_ARABIC = "كتاب مدينة سماء نافذة حديقة طريق ورقة بحر جبل مفتاح قهوة مكتبة سوق نهر باب ضوء"
_LANGUAGES = (("en", _ENGLISH), ("en", _ENGLISH), ("de", _GERMAN), ("ar", _ARABIC))
_PAGE = """<!doctype html><html lang="{language}" dir="{direction}"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ margin: 0; background: {ground}; color: {ink}; font: {size}px/1.5 {font}; min-height: 100vh }}
header {{ display: flex; gap: 30px; align-items: center; padding: 14px 30px; background: {panel}; border-bottom: 1px solid {line};
  {sticky} }} header b {{ margin-inline-end: auto; font-size: 1.2em }}
main {{ padding: 20px 48px 60px; {grid} }} section {{ padding: 12px 0 22px; min-width: 0 }}
h1, h2, h3 {{ line-height: 1.2; margin: 0 0 12px }} p {{ margin: 0 0 12px }}
{css}
</style>
<header><b>{title}</b>{header}</header><main><h1>{head}</h1>{body}</main>
<script>{script}</script></html>"""
_PHONE_CSS = "main { padding: 14px 16px 60px } .tiles { flex-wrap: wrap } .labels div { padding: 10px 12px }"


def draw_take(seed: int) -> Take:
    """A recording to be made, the same for the same seed.

    Args:
        seed: Sizes, pointers, forms and widgets take turns from one seed to the next; all else is drawn.
    """
    rng = random.Random(f"recording {seed}")
    is_phone = seed % 6 == 5
    pointer = rng.choice(("dot", "none")) if is_phone else POINTERS[seed % 5]
    ground, panel, ink, line = rng.choice(_THEMES)
    language, words = rng.choice(_LANGUAGES)
    look = Look(
        rng=rng,
        accent=f"hsl({rng.randrange(360)} {rng.randrange(45, 80)}% {rng.randrange(36, 52)}%)",
        ground=ground,
        panel=panel,
        ink=ink,
        line=line,
        radius_px=rng.choice((0, 5, 10, 18)),
        words=tuple(words.split()),
        can_hover=not is_phone,
    )
    widgets = _draw_widgets(seed, look, is_phone=is_phone)
    is_sticky = rng.random() < 0.5
    facts = {"language": language, "direction": "rtl" if language == "ar" else "ltr"}
    facts |= {"ground": ground, "panel": panel, "ink": ink, "line": line}
    facts |= {"size": str(rng.choice((15, 16, 17))), "font": rng.choice(_FONTS), "title": look.text(2)}
    facts["sticky"] = "position: sticky; top: 0; z-index: 4" if is_sticky else ""
    is_grid = not is_phone and rng.random() < 0.3
    facts["grid"] = "max-width: 620px; margin-inline: auto" if not is_grid and rng.random() < 0.4 else ""
    if is_grid:
        facts["grid"] = "display: grid; grid-template-columns: 1fr 1fr; column-gap: 40px; align-items: start"
    other = [Widget(html=f"<p>{look.text(16)}</p>" * 3, css="", play=_rest)]
    return Take(
        name=f"drawn-{seed}",
        pages={
            "index.html": _page(widgets, facts, look, is_phone=is_phone),
            "other.html": _page(other, facts, look, is_phone=is_phone),
        },
        first="index.html",
        play=_play_all(widgets),
        viewport_px=_PHONE_PX if is_phone else _SIZES[seed % len(_SIZES)],
        pointer=pointer,
        px_per_s=rng.uniform(600, 1500),
        fixed=("top",) if is_sticky else (),
        form=_FORMS[seed % len(_FORMS)],
    )


def _draw_widgets(seed: int, look: Look, *, is_phone: bool) -> list[Widget]:
    clicked = [CLICKED[(2 * seed + number) % len(CLICKED)] for number in range(2)]
    makers = clicked if is_phone else [HOVERED[seed % len(HOVERED)], *clicked]
    made = [make(look) for make in makers]
    look.rng.shuffle(made)
    return [*made, LAST[seed % len(LAST)](look)]


def _page(widgets: Sequence[Widget], facts: dict[str, str], look: Look, *, is_phone: bool) -> str:
    css = "\n".join(one.css for one in widgets) + (_PHONE_CSS if is_phone else "")
    return _PAGE.format(
        **facts,
        head=look.text(4),
        css=css,
        header="".join(one.html for one in widgets if one.where == "header") or f"<span>{look.text(1)}</span>",
        body="".join(one.html for one in widgets if one.where == "flow"),
        script=";\n".join(one.script for one in widgets if one.script),
    )


async def _rest(hand: PointerScript) -> None:
    await hand.wait(0.2)


def _play_all(widgets: Sequence[Widget]) -> Play:
    async def play(hand: PointerScript) -> None:
        for one in widgets:
            await one.play(hand)

    return play
