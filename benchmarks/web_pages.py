"""Pages with known HTML, to be copied from their image: texts, fonts, colours and sizes are drawn from a seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

FONTS = (
    "'DejaVu Sans', sans-serif",
    "'Nimbus Sans', Arial, Helvetica, sans-serif",
    "'DejaVu Serif', serif",
    "'Nimbus Roman', 'Times New Roman', serif",
    "'URW Gothic', sans-serif",
    "sans-serif",
)
_NOUNS = tuple(
    "garden harbour window bicycle teapot lantern notebook mountain river basket compass orchard library kettle "
    "blanket telescope violin saddle anchor meadow cottage ferry lighthouse workshop".split()
)
_ADJECTIVES = tuple(
    "quiet early northern bright patient small sturdy gentle curious honest slow warm open calm".split()
)
_VERBS = tuple("keeps carries opens mends finds holds shows brings follows measures".split())
_NAMES = tuple("Ada Berg,Jon Hale,Mira Sand,Otto Lind,Rosa Vale,Emil Frost,Nora Quinn,Paul Reed,Ines Moor".split(","))
_SCRIPTS = {
    "arabic": (
        "ar",
        "rtl",
        "حديقة ميناء نافذة دراجة إبريق مصباح دفتر جبل نهر سلة بوصلة بستان مكتبة هادئ مبكر صبور",
    ),
    "hebrew": ("he", "rtl", "גינה נמל חלון אופניים קומקום פנס מחברת הר נהר סל מצפן פרדס ספרייה שקט מוקדם צפוני סבלני"),
    "chinese": (
        "zh",
        "ltr",
        "花园 港口 窗户 自行车 茶壶 灯笼 笔记本 高山 河流 篮子 指南针 果园 图书馆 安静 北方 耐心",
    ),
}
"""Language, direction and words of the pages in other scripts."""
_CITIES = tuple("Lisbon Oslo Turin Ghent Porto Bergen Malmo Leeds Graz Bilbao".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePage:
    """A page to be copied.

    Attributes:
        kind: One of `KINDS`.
        seed: What it was drawn with.
        html: The whole page; it needs nothing else.
        viewport_px: Width and height it is looked at in.
    """

    kind: str
    seed: int
    html: str
    viewport_px: tuple[int, int]

    @property
    def name(self) -> str:
        """Kind and seed."""
        return f"{self.kind}-{self.seed}"


class _Draw:
    """Random texts and a style."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        hue, gray = rng.randrange(360), rng.randrange(200, 260)
        self.accent = f"hsl({hue} {rng.randrange(45, 80)}% {rng.randrange(30, 46)}%)"
        self.tint = f"hsl({hue} {rng.randrange(20, 50)}% {rng.randrange(93, 97)}%)"
        self.deep = f"hsl({gray} 25% 18%)"
        self.ink = f"hsl({gray} 15% {rng.randrange(10, 22)}%)"
        self.muted = f"hsl({gray} 10% {rng.randrange(38, 48)}%)"
        self.line = f"hsl({gray} 14% {rng.randrange(80, 88)}%)"
        self.font = rng.choice(FONTS)
        self.size = rng.choice((14, 15, 16, 16, 17, 18))
        self.radius = rng.choice((0, 4, 6, 8, 12))
        self.space = rng.choice((16, 20, 24, 28))

    def words(self, count: int) -> str:
        return " ".join(self.rng.choice((*_NOUNS, *_ADJECTIVES)) for _ in range(count))

    def title(self) -> str:
        return f"The {self.rng.choice(_ADJECTIVES)} {self.rng.choice(_NOUNS)}".capitalize()

    def sentence(self) -> str:
        rng = self.rng
        text = f"The {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)} {rng.choice(_VERBS)} the {rng.choice(_NOUNS)}"
        if rng.random() < 0.6:
            text += (
                f" and the {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)} {rng.choice(_VERBS)} a {rng.choice(_NOUNS)}"
            )
        return text + "."

    def text(self, count: int) -> str:
        return " ".join(self.sentence() for _ in range(count))

    def label(self) -> str:
        return self.rng.choice(_NOUNS).capitalize()

    def price(self) -> str:
        return f"{self.rng.randrange(3, 400)}.{self.rng.choice(('00', '50', '95', '99'))} EUR"

    def art(self, width: int, height: int) -> str:
        """A drawing as an inline SVG."""
        rng = self.rng
        shapes = "".join(
            f'<circle cx="{rng.randrange(width)}" cy="{rng.randrange(height)}" r="{rng.randrange(6, height // 2)}" '
            f'fill="hsl({rng.randrange(360)} 60% {rng.randrange(35, 75)}%)"/>'
            for _ in range(7)
        )
        return (
            f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" style="display:block">'
            f'<rect width="{width}" height="{height}" fill="hsl({rng.randrange(360)} 40% 80%)"/>{shapes}</svg>'
        )

    def header(self, links: int = 4) -> str:
        items = "".join(f"<a>{self.label()}</a>" for _ in range(links))
        return f"<header><b>{self.title()}</b><nav>{items}</nav></header>"

    def page(self, body: str, css: str = "", attributes: str = ' lang="en"') -> str:
        base = f"""*{{box-sizing:border-box}} body{{margin:0;font-family:{self.font};font-size:{self.size}px;
line-height:1.5;color:{self.ink};background:#fff}} h1,h2,h3,p{{margin:0 0 {self.space // 2}px}} h1{{font-size:2.2em;
line-height:1.2}} h2{{font-size:1.5em;line-height:1.25}} h3{{font-size:1.15em}} header{{display:flex;align-items:center;
justify-content:space-between;padding:{self.space // 2}px {self.space * 2}px;background:{self.deep};color:#fff}}
nav a{{margin-left:{self.space}px}} main{{padding:{self.space * 2}px}} .muted{{color:{self.muted}}}
.button{{display:inline-block;padding:10px 20px;background:{self.accent};color:#fff;border-radius:{self.radius}px}}
.card{{border:1px solid {self.line};border-radius:{self.radius}px;padding:{self.space}px}}
.grid{{display:grid;gap:{self.space}px}} footer{{padding:{self.space}px {self.space * 2}px;background:{self.tint};
color:{self.muted}}} input,select,textarea{{font:inherit;border:1px solid {self.muted};border-radius:{self.radius}px;
padding:8px 12px;height:40px}} label{{display:block;margin-bottom:4px}} {css}"""
        return (
            f'<!doctype html><html{attributes}><head><meta charset="utf-8">'
            f"<title>{escape(self.title())}</title><style>{base}</style></head><body>{body}</body></html>"
        )


def _landing(draw: _Draw) -> str:
    cards = "".join(f"<div class=card><h3>{draw.label()}</h3><p>{draw.sentence()}</p></div>" for _ in range(3))
    return draw.page(
        f"{draw.header()}<section class=hero><h1>{draw.title()}</h1><p class=muted>{draw.text(2)}</p>"
        f"<span class=button>Start now</span></section><main><h2>{draw.title()}</h2>"
        f"<div class=grid>{cards}</div></main>"
        f"<footer>{draw.title()}, {draw.rng.choice(_CITIES)}</footer>",
        f".hero{{padding:64px 48px;background:{draw.tint};text-align:{draw.rng.choice(('left', 'center'))}}}"
        ".hero p{max-width:620px;margin-left:auto;margin-right:auto} .grid{grid-template-columns:repeat(3,1fr)}",
    )


def _shop(draw: _Draw) -> str:
    items = "".join(
        f"<div class=card>{draw.art(200, 120)}<h3>{draw.label()}</h3><p class=muted>{draw.words(4)}</p>"
        f"<p><b>{draw.price()}</b></p><span class=button>Add to basket</span></div>"
        for _ in range(draw.rng.choice((4, 8)))
    )
    return draw.page(
        f"{draw.header()}<main><h1>{draw.title()}</h1><div class=grid>{items}</div></main>",
        ".grid{grid-template-columns:repeat(4,1fr)} svg{max-width:100%;margin-bottom:12px}",
    )


def _dashboard(draw: _Draw) -> str:
    links = "".join(f"<p>{draw.label()}</p>" for _ in range(6))
    tiles = "".join(
        f"<div class=card><p class=muted>{draw.label()}</p><h2>{draw.rng.randrange(10, 9000)}</h2></div>"
        for _ in range(4)
    )
    rows = "".join(
        f"<tr><td>{draw.rng.choice(_NAMES)}<td>{draw.rng.choice(_CITIES)}<td>{draw.price()}" for _ in range(5)
    )
    return draw.page(
        f"<div class=all><aside><h3>{draw.label()}</h3>{links}</aside><main><h1>{draw.title()}</h1>"
        f"<div class=grid>{tiles}</div><h2>{draw.title()}</h2>"
        f"<table><tr><th>Name<th>Place<th>Sum{rows}</table></main></div>",
        f".all{{display:flex;min-height:720px}} aside{{width:220px;padding:{draw.space}px;background:{draw.deep}}}"
        "aside{color:#fff}"
        f"main{{flex:1}} .grid{{grid-template-columns:repeat(4,1fr);margin-bottom:{draw.space}px}}"
        "table{width:100%;border-collapse:collapse} td,th{text-align:left;padding:10px 12px}"
        f"td,th{{border-bottom:1px solid {draw.line}}}",
    )


def _form(draw: _Draw) -> str:
    fields = "".join(
        f"<div><label>{draw.label()}</label><input placeholder='{draw.label()}' style='width:100%'></div>"
        for _ in range(draw.rng.randrange(3, 6))
    )
    return draw.page(
        f"{draw.header(3)}<main><div class='card form'><h2>{draw.title()}</h2><p class=muted>{draw.sentence()}</p>"
        f"{fields}"
        f"<p><input type=checkbox checked> {draw.words(5)}</p><span class=button>Send</span></div></main>",
        f".form{{width:460px;margin:0 auto}} .form div{{margin-bottom:{draw.space}px}}"
        "input[type=checkbox]{width:16px;height:16px;vertical-align:-2px}",
    )


def _article(draw: _Draw) -> str:
    parts = "".join(f"<h2>{draw.title()}</h2><p>{draw.text(4)}</p><p>{draw.text(3)}</p>" for _ in range(2))
    return draw.page(
        f"{draw.header(3)}<main class=text><h1>{draw.title()}</h1><p class=muted>{draw.rng.choice(_NAMES)}, "
        f"{draw.rng.randrange(1, 28)} May 2026</p><p>{draw.text(3)}</p>{parts}"
        f"<blockquote>{draw.sentence()}</blockquote></main>",
        f".text{{max-width:{draw.rng.choice((640, 720, 800))}px;margin:0 auto}}"
        f"blockquote{{margin:0;padding:8px 20px;border-left:4px solid {draw.accent};color:{draw.muted}}}",
    )


def _table(draw: _Draw) -> str:
    head = "".join(f"<th>{draw.label()}" for _ in range(5))
    rows = "".join(
        f"<tr><td>{draw.rng.choice(_NAMES)}<td>{draw.rng.choice(_CITIES)}<td>{draw.rng.randrange(1, 999)}"
        f"<td>{draw.price()}<td>{draw.words(2)}"
        for _ in range(draw.rng.randrange(7, 13))
    )
    striped = draw.rng.random() < 0.5
    return draw.page(
        f"{draw.header()}<main><h1>{draw.title()}</h1><p class=muted>{draw.sentence()}</p>"
        f"<table><tr>{head}{rows}</table></main>",
        f"table{{width:100%;border-collapse:collapse}} th{{background:{draw.tint};text-align:left}}"
        f"td,th{{padding:9px 12px;border:{0 if striped else 1}px solid {draw.line}}}"
        + (f"tr:nth-child(odd) td{{background:{draw.tint}}}" if striped else ""),
    )


def _gallery(draw: _Draw) -> str:
    shots = "".join(f"<figure>{draw.art(260, 160)}<figcaption>{draw.words(3)}</figcaption></figure>" for _ in range(6))
    return draw.page(
        f"{draw.header(3)}<main><h1>{draw.title()}</h1><div class=grid>{shots}</div></main>",
        ".grid{grid-template-columns:repeat(3,260px)} figure{margin:0}"
        f"figcaption{{color:{draw.muted};padding-top:6px}}",
    )


def _pricing(draw: _Draw) -> str:
    plans = "".join(
        f"<div class=card><h3>{draw.label()}</h3><h1>{draw.rng.randrange(5, 90)} EUR</h1>"
        + "".join(f"<p>{draw.words(3)}</p>" for _ in range(4))
        + "<span class=button>Choose</span></div>"
        for _ in range(3)
    )
    return draw.page(
        f"<main><h1>{draw.title()}</h1><p class=muted>{draw.sentence()}</p><div class=grid>{plans}</div></main>",
        "main{text-align:center;max-width:1080px;margin:0 auto} .grid{grid-template-columns:repeat(3,1fr)}",
    )


def _dark(draw: _Draw) -> str:
    cards = "".join(f"<div class=card><h3>{draw.label()}</h3><p class=muted>{draw.text(2)}</p></div>" for _ in range(4))
    return draw.page(
        f"{draw.header()}<main><h1>{draw.title()}</h1><p>{draw.text(2)}</p><div class=grid>{cards}</div></main>",
        f"body{{background:#14171f;color:#e6e9ef}} .muted{{color:#9aa4b5}} header{{background:#0c0e13}}"
        ".card{background:#1d222d;border-color:#2c3342}"
        f".grid{{grid-template-columns:repeat(2,1fr);margin-top:{draw.space}px}}",
    )


def _right_to_left(draw: _Draw) -> str:
    cards = "".join(f"<div class=card><h3>{draw.label()}</h3><p>{draw.sentence()}</p></div>" for _ in range(3))
    return draw.page(
        f"{draw.header()}<main><h1>{draw.title()}</h1><p>{draw.text(3)}</p><div class=grid>{cards}</div></main>",
        ".grid{grid-template-columns:repeat(3,1fr)} nav a{margin:0 24px 0 0}",
        ' lang="en" dir="rtl"',
    )


def _in_script(kind: str) -> Callable[[_Draw], str]:
    """Return how a page in the words of another script is made."""
    language, direction, listed = _SCRIPTS[kind]

    def make(draw: _Draw) -> str:
        def words(count: int) -> str:
            return ("" if kind == "chinese" else " ").join(draw.rng.choice(listed.split()) for _ in range(count))

        links = "".join(f"<a>{words(1)}</a>" for _ in range(3))
        cards = "".join(f"<div class=card><h3>{words(1)}</h3><p>{words(6)}</p></div>" for _ in range(3))
        return draw.page(
            f"<header><b>{words(2)}</b><nav>{links}</nav></header><main><h1>{words(2)}</h1><p>{words(12)}</p>"
            f"<div class=grid>{cards}</div></main>",
            ".grid{grid-template-columns:repeat(3,1fr)}",
            f' lang="{language}" dir="{direction}"',
        )

    return make


def _phone(draw: _Draw) -> str:
    rows = "".join(
        f"<div class=card><h3>{draw.label()}</h3><p class=muted>{draw.sentence()}</p></div>" for _ in range(3)
    )
    return draw.page(
        f"<header><b>{draw.label()}</b><span>Menu</span></header><main>{draw.art(342, 150)}<h1>{draw.title()}</h1>"
        f"<p>{draw.text(2)}</p><span class=button>Go on</span>{rows}</main>",
        "header{padding:14px 24px} main{padding:24px} h1{font-size:1.7em;margin-top:16px} .card{margin-top:16px}",
    )


KINDS: dict[str, Callable[[_Draw], str]] = {
    "landing": _landing,
    "shop": _shop,
    "dashboard": _dashboard,
    "form": _form,
    "article": _article,
    "table": _table,
    "gallery": _gallery,
    "pricing": _pricing,
    "dark": _dark,
    "right-to-left": _right_to_left,
    "phone": _phone,
    **{kind: _in_script(kind) for kind in _SCRIPTS},
}
"""How a page of each kind is made; `right-to-left` is a mirrored layout with Latin words."""


def make_page(kind: str, seed: int) -> SamplePage:
    """Draw a page.

    Args:
        kind: One of `KINDS`.
        seed: Same seed, same page.
    """
    viewport = (390, 844) if kind == "phone" else (1280, 720)
    return SamplePage(kind=kind, seed=seed, html=KINDS[kind](_Draw(f"{kind}-{seed}")), viewport_px=viewport)
