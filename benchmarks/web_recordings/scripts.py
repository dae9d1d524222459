"""Thirteen recordings of pages written here, each of which does something else."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from apps.video2web.render import Renderer
from benchmarks.web_recordings.filming import VIEWPORT_PX, Recording, Take, record_take
from benchmarks.web_recordings.pointer_script import PointerScript
from cua.errors import CuaError

_PAGES = Path(__file__).with_name("pages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How a recording is made.

    Attributes:
        play: Moves the pointer.
        page: File of its first page in `pages`.
        fixed: Sides where something stays while the page scrolls.
        is_dark_pointer: A black pointer with a white edge, instead of a white one with a black edge.
        viewport_px: Size of the video.
    """

    play: Callable[[PointerScript], Awaitable[None]]
    page: str
    fixed: tuple[str, ...] = ()
    is_dark_pointer: bool = False
    viewport_px: tuple[int, int] = VIEWPORT_PX


async def record(renderer: Renderer, name: str, folder: Path) -> Recording:
    """Make one of `SCRIPTS` into a video.

    Args:
        renderer: A browser.
        name: Which.
        folder: Where the video and its truth go, NAME.webm and NAME.json.

    Raises:
        CuaError: There is no such recording, or the browser sent no frames.
    """
    if name not in SCRIPTS:
        raise CuaError(f"there is no recording {name!r}; there are: {', '.join(SCRIPTS)}")
    script = SCRIPTS[name]
    take = Take(
        name=name,
        pages={page.name: page.read_text("utf-8") for page in _PAGES.glob("*.html")},
        first=script.page,
        play=script.play,
        viewport_px=script.viewport_px,
        pointer="dark arrow" if script.is_dark_pointer else "arrow",
        fixed=script.fixed,
    )
    return await record_take(renderer, take, folder)


async def _cards(hand: PointerScript) -> None:
    await hand.hover("#card1", "hover", "#card1", 0.3, "ease", away=(160, 520))
    await hand.hover("#card2", "hover", "#card2", 0.5, "ease-out", away=(480, 520))
    await hand.hover("#more", "hover", "#more", 0.2, "ease", away=(700, 560))
    await hand.hover("#buy", "hover", "#buy", 0.3, "linear", away=(480, 500))


async def _dialog(hand: PointerScript) -> None:
    await hand.click("#open", "modal", "#dialog", 0.4, "ease-out")
    await hand.click("#close", "modal", "#dialog", 0.4, "ease-out", is_gone=True)
    await hand.click("#open", "modal", "#dialog", 0.4, "ease-out")


async def _menus(hand: PointerScript) -> None:
    await hand.hover("#hovering", "menu", "#maps", 0.25, "ease-out", away=(480, 480))
    await hand.click("#account", "menu", "#list", 0.25, "ease-out")
    await hand.click("#account", "menu", "#list", 0.25, "ease-out")
    await hand.hover("#word", "tooltip", "#tip", 0.2, "linear", away=(300, 520))


async def _accordion(hand: PointerScript) -> None:
    await hand.click("#h1", "accordion", "main", 0.4, "ease-in-out")
    await hand.click("#h2", "accordion", "main", 0.4, "ease-in-out")
    await hand.click("#h1", "accordion", "main", 0.4, "ease-in-out")


async def _tabs(hand: PointerScript) -> None:
    await hand.click("#t1", "tabs", "main")
    await hand.click("#t2", "tabs", "main")
    await hand.click("#yearly", "toggle", "#yearly", 0.2, "ease")


async def _carousel(hand: PointerScript) -> None:
    await hand.click("#next", "carousel", "#frame", 0.6, "ease-in-out")
    await hand.click("#next", "carousel", "#frame", 0.6, "ease-in-out")
    await hand.click("#back", "carousel", "#frame", 0.6, "ease-in-out")


async def _autoplay(hand: PointerScript) -> None:
    box = await hand.find("#frame")
    await hand.page.evaluate(
        "window.turned = []; belt.addEventListener('transitionrun', () => window.turned.push(Date.now()))"
    )
    await hand.wait(7.2)
    turned = await hand.page.evaluate("window.turned")
    for at in turned:
        hand.note("carousel", "time", box, at / 1000 - hand.started_s, 0.6, "ease-in-out")


async def _reveal(hand: PointerScript) -> None:
    for selector, down_px in (("#shy1", 200), ("#shy2", 320)):
        await hand.page.evaluate(
            "(s) => document.querySelector(s).addEventListener('transitionrun', () => "
            "{ window.shown = window.shown || Date.now() })",
            selector,
        )
        await hand.scroll(down_px)
        await hand.wait(0.9)
        shown = await hand.page.evaluate("window.shown || 0") / 1000
        await hand.page.evaluate("window.shown = 0")
        if shown:
            hand.note("reveal", "scroll", await hand.find(selector), shown - hand.started_s, 0.6, "ease-out")
    await hand.scroll(300)
    await hand.wait(0.3)
    await hand.scroll(-700)


async def _sidebar(hand: PointerScript) -> None:
    await hand.scroll(380)
    await hand.wait(0.4)
    await hand.scroll(340, in_s=0.5)
    await hand.wait(0.4)
    await hand.scroll(-500, in_s=1.0)


async def _form(hand: PointerScript) -> None:
    await hand.click("#name")
    await hand.type("Ada Lovelace", "#name")
    await hand.click("#town")
    await hand.type("London", "#town")
    await hand.click("#send", "toast", "#toast", 0.3, "ease-out")
    await hand.wait(2.6)


async def _night(hand: PointerScript) -> None:
    await hand.click("#dark", "theme", "body", 0.4, "ease")
    await hand.wait(0.4)
    await hand.click("#dark", "theme", "body", 0.4, "ease")


async def _shop(hand: PointerScript) -> None:
    await hand.click("#about", "navigation", "main")
    await hand.wait(0.6)
    await hand.click("#back", "navigation", "main")
    await hand.wait(0.4)


async def _demo(hand: PointerScript) -> None:
    await hand.scroll(330)
    await hand.hover("#c2", "hover", "#c2", 0.3, "ease", away=(880, 560))
    await hand.scroll(-330)
    await hand.click("#buy", "modal", "#order", 0.4, "ease-out")
    await hand.click("#shut", "modal", "#order", 0.4, "ease-out", is_gone=True)


SCRIPTS: dict[str, Script] = {
    "cards": Script(play=_cards, page="cards.html"),
    "menus": Script(play=_menus, page="menus.html", is_dark_pointer=True),
    "dialog": Script(play=_dialog, page="dialog.html"),
    "accordion": Script(play=_accordion, page="accordion.html"),
    "tabs": Script(play=_tabs, page="tabs.html", is_dark_pointer=True),
    "carousel": Script(play=_carousel, page="carousel.html"),
    "autoplay": Script(play=_autoplay, page="carousel.html#auto"),
    "reveal": Script(play=_reveal, page="reveal.html", fixed=("top",)),
    "sidebar": Script(play=_sidebar, page="sidebar.html", fixed=("left",), is_dark_pointer=True),
    "form": Script(play=_form, page="form.html"),
    "night": Script(play=_night, page="form.html"),
    "shop": Script(play=_shop, page="shop.html", is_dark_pointer=True),
    "demo": Script(play=_demo, page="demo.html", fixed=("top",)),
}
"""Every recording by its name."""
