"""Inputs of a build (images of pages, web pages, a recording, HTML) as references to match."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from apps.video2web.interactions import Interaction, interactions_of, pages_of
from apps.video2web.layout.reading import read_page
from apps.video2web.losses import READABLE
from apps.video2web.pixels import RgbImage
from apps.video2web.recording import read_recording, storyboard_image, to_json
from apps.video2web.recording.frames import is_empty
from apps.video2web.render import MAX_PAGE_PX, OpenPage, Renderer, SiteFiles
from apps.video2web.rounds import RecordedFacts
from apps.video2web.score import Reference, read_reference, rendered_reference
from cua.errors import ConfigError, CuaError
from cua.tool_agent.inputs import kind_of
from envs.browser.launch import launch
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules
from envs.errors import AddressError
from visual_tools.errors import ImageError
from visual_tools.images.files import load_image
from visual_tools.ocr import TextLine

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Response

# Of a whole page, of its loading, and without changes before it is at rest
_PAGE_S, _LOAD_S, _QUIET_S = 60.0, 20.0, 1.5
_MAX_LOOKS = 40  # of a page that moves without end, with the pause below
_LOOK_S = 0.08
_SHOWN_TYPES = ("text/html", "application/xhtml+xml", "image/svg+xml", "text/plain")
_WAYS = {"ERR_NAME_NOT_RESOLVED": "its name is not known", "ERR_CONNECTION_REFUSED": "no server answers there",
         "ERR_INTERNET_DISCONNECTED": "there is no network", "ERR_CERT": "its certificate is not valid",
         "ERR_BLOCKED_BY_CLIENT": "the rules on domains forbid it", "Download is starting": "it is a download",
         "ERR_ABORTED": "it is a download or a file, not a page"}  # fmt: skip
_TELL_S = 3.0  # between two lines of progress
VIEWPORT_PX = (1280, 720)
MAX_PAGES = 12  # bounds the time of a build
NO_RULES = DomainRules()
_VIDEO_SUFFIXES = (".mp4", ".m4v", ".webm", ".mkv", ".mov", ".avi")
_MIN_SIDE_PX, _MAX_WIDTH_PX = 64, 4096  # nothing can be read on smaller images; larger ones are not screens


def is_url(text: str) -> bool:
    """Return whether an input is a URL and not a file."""
    return "://" in text or text.lower().startswith(("about:", "data:", "javascript:", "file:", "mailto:"))


def check_url(text: str) -> str:
    """Check the URL of a web page and return it.

    Raises:
        ConfigError: If the scheme is not http or https, or there is no host.
    """
    from envs.browser.navigation import to_url

    try:
        address = to_url(text)
        parts = urlsplit(address)
        port = parts.port
    except (AddressError, ValueError) as error:
        raise ConfigError(f"{text!r} cannot be opened: {error}") from error
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"{text!r} is not the address of a web page; expected http:// or https://, or an image file")
    return address


async def photograph_pages(
    urls: Sequence[str], viewport_px: tuple[int, int], rules: DomainRules
) -> dict[str, RgbImage]:
    """Take full-page screenshots of web pages, (H, W, 3) uint8 RGB by URL; cut at the height that is compared.

    Args:
        urls: http or https URLs.
        viewport_px: Width and height of the viewport.
        rules: Domains that the browser may reach.

    Raises:
        ConfigError: If a URL is not a web address.
        CuaError: If a page cannot be opened; the message says why.
        EnvSetupError: If there is no browser.
    """
    addresses = {url: check_url(url) for url in dict.fromkeys(urls)}
    options = BrowserOptions(viewport_px=viewport_px, navigation_timeout_s=_LOAD_S)
    launched = await launch(options, rules)
    try:
        context = await launched.browser.new_context(
            viewport={"width": viewport_px[0], "height": viewport_px[1]},
            accept_downloads=False,
            service_workers="block",
            permissions=[],
        )
        return {url: await _photograph_page(context, address, rules) for url, address in addresses.items()}
    finally:
        await launched.close()


async def _photograph_page(context: "BrowserContext", address: str, rules: DomainRules) -> RgbImage:
    why = rules.why_blocked(address)
    if why is not None:
        raise ConfigError(f"{address} is not opened: {why}")
    page = await context.new_page()
    page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.dismiss()))
    try:
        async with asyncio.timeout(_PAGE_S):
            opened = OpenPage(page, await context.new_cdp_session(page))
            _check_answer(address, await _open(opened, address))
            await _look_through(opened)
            return await opened.photograph()
    except TimeoutError as error:
        raise CuaError(f"{address} does not come to rest within {_PAGE_S:g} s") from error
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(page.close(), 5)


async def _open(opened: OpenPage, address: str) -> "Response | None":
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as Late

    await opened.session.send("Emulation.setScrollbarsHidden", {"hidden": True})
    try:
        answer = await opened.page.goto(address, wait_until="domcontentloaded", timeout=_LOAD_S * 1000)
    except Late as error:
        raise CuaError(f"{address} does not answer within {_LOAD_S:g} s") from error
    except Error as error:
        line = error.message.splitlines()[0]
        why = next((reason for sign, reason in _WAYS.items() if sign in line), line)
        raise CuaError(f"{address} cannot be opened: {why}") from error
    for state, seconds in (("load", _LOAD_S), ("networkidle", _QUIET_S)):
        with contextlib.suppress(Late):  # a page that never finishes loading is captured as it is
            await opened.page.wait_for_load_state(state, timeout=seconds * 1000)  # type: ignore[arg-type]  # one of Playwright's
    return answer


def _check_answer(address: str, answer: "Response | None") -> None:
    if answer is None:
        return
    if answer.status >= 400:
        raise CuaError(f"{address} answers {answer.status} {answer.status_text}".rstrip() + "; expected a page")
    kind = answer.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if kind not in _SHOWN_TYPES:
        raise CuaError(f"{address} is of the type {kind}; expected a page of HTML (images are given as files)")


async def _look_through(opened: OpenPage) -> None:
    """Scroll to the end and back, so that lazily loaded content is present."""
    from playwright.async_api import TimeoutError as Late

    page = opened.page
    step = page.viewport_size["height"] if page.viewport_size else 720
    for _ in range(min(_MAX_LOOKS, MAX_PAGE_PX // step + 1)):
        at_end = await opened.look(
            "(dy) => { scrollBy({top: dy, behavior: 'instant'});"
            " return scrollY + innerHeight >= document.documentElement.scrollHeight - 1; }",
            step,
        )
        await asyncio.sleep(_LOOK_S)
        if at_end:
            break
    with contextlib.suppress(Late):
        await page.wait_for_load_state("networkidle", timeout=_QUIET_S * 1000)
    await opened.look("() => scrollTo({top: 0, behavior: 'instant'})")
    await asyncio.sleep(2 * _LOOK_S)


def parse_viewport(text: str) -> tuple[int, int]:
    """Parse the width and height of a viewport from `WIDTHxHEIGHT`.

    Raises:
        ConfigError: If the text has another form.
    """
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise ConfigError(f"the viewport is {text!r}; expected WIDTHxHEIGHT such as 1280x720")
    size = int(width), int(height)
    if not (min(size) >= _MIN_SIDE_PX and max(size) <= _MAX_WIDTH_PX):
        raise ConfigError(f"the viewport is {text!r}; expected sides of {_MIN_SIDE_PX} to {_MAX_WIDTH_PX} px")
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteInputs:
    """Contents of the inputs.

    Attributes:
        pages: References of the pages.
        viewport_px: Width and height of the viewport.
        interactions: Interactions found in a recording.
        recorded: Facts found in the recording.
        warnings: Problems found in the inputs, for people.
    """

    pages: tuple[Reference, ...]
    viewport_px: tuple[int, int]
    interactions: tuple[Interaction, ...] = ()
    recorded: RecordedFacts | None = None
    warnings: tuple[str, ...] = ()


class ReadingStoppedError(Exception):
    """The caller has stopped the reading of a recording."""


class ReadingProgress:
    """Progress of reading a recording in another thread, and the switch to stop it.

    Args:
        say: Callback for each line of progress.
    """

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        self._say = say
        self._stopped = threading.Event()
        self._told_s = time.monotonic()

    def stop(self) -> None:
        """Make the reading end at its next check."""
        self._stopped.set()

    def check(self) -> None:
        """Raise if the reading is to stop.

        Raises:
            ReadingStoppedError: If `stop` was called.
        """
        if self._stopped.is_set():
            raise ReadingStoppedError

    def tell(self, line: str) -> None:
        """Say how far the reading is, at most every few seconds."""
        self.check()
        if time.monotonic() - self._told_s >= _TELL_S:
            self._told_s = time.monotonic()
            self._say(line)


async def take_inputs(
    inputs: Sequence[str],
    viewport_px: tuple[int, int] | None,
    rules: DomainRules = NO_RULES,
    say: Callable[[str], None] = lambda line: None,
) -> SiteInputs:
    """Return references from user inputs: images of pages and URLs, or one recording.

    Args:
        inputs: Files and URLs.
        viewport_px: Width and height of the viewport; None: size of the first image, else 1280x720.
        rules: Domains that the browser may reach.
        say: Callback for lines of progress while a recording is read, from another thread.

    Raises:
        ConfigError: If the inputs cannot be used; the message says what to do.
        CuaError: If a page cannot be opened, or the recording cannot be read or shows no website.
        EnvSetupError: If there is no browser.
    """
    if len(inputs) > MAX_PAGES:
        raise ConfigError(f"{len(inputs)} inputs are given; a site of at most {MAX_PAGES} pages is built at a time")
    urls = [text for text in inputs if is_url(text)]
    window = viewport_px or (VIEWPORT_PX if urls and is_url(inputs[0]) else None)
    shown = await photograph_pages(urls, window or VIEWPORT_PX, rules) if urls else {}
    reading = ReadingProgress(say)
    try:
        return await asyncio.to_thread(read_inputs, inputs, window, shown, reading)
    finally:
        reading.stop()  # a cancelled task leaves its thread behind


def read_inputs(
    inputs: Sequence[str | Path],
    viewport_px: tuple[int, int] | None,
    shown: Mapping[str, RgbImage] = MappingProxyType({}),
    reading: ReadingProgress | None = None,
) -> SiteInputs:
    """Return references from images of pages, or from one screen recording.

    Args:
        inputs: Files, or URLs of `shown`.
        viewport_px: Width and height of the viewport; None: size of the first image.
        shown: Screenshots of the pages, by URL.
        reading: Progress of reading a recording, and the switch to stop it.

    Raises:
        ConfigError: If the inputs cannot be used; the message says what to do.
        CuaError: If the recording cannot be read or shows no website.
    """
    only = Path(inputs[0]) if len(inputs) == 1 and str(inputs[0]) not in shown else None
    if only is not None and only.is_file() and only.stat().st_size and _is_recording(only):
        if viewport_px is not None:
            raise ConfigError("a recording has the size of its own window; leave --viewport out")
        return _read_recording(only, reading or ReadingProgress())
    pages, window = read_images(inputs, viewport_px, shown)
    return SiteInputs(pages=tuple(pages), viewport_px=window, warnings=tuple(_find_flaws(pages)))


def _is_recording(path: Path) -> bool:
    """Return whether a file is a video or has the name of one, so that errors can name the problem."""
    return path.suffix.lower() in _VIDEO_SUFFIXES or kind_of(path) == "video"


def find_demo() -> Path:
    """Return the path of the recording that is shipped for demos."""
    return Path(str(files("apps.video2web").joinpath("data", "demo.webm")))


def _read_recording(path: Path, reading: ReadingProgress) -> SiteInputs:
    """Read the pages of a recording (the first state, and navigation targets) and its interactions.

    Raises:
        RecordingError: If it cannot be read, or shows no website.
        ReadingStoppedError: If the reading is stopped.
    """
    step = "its first frames are read"

    def count_frames(done: int, of: int) -> None:
        nonlocal step
        step = f"frame {done} of about {of} is read" if done < of else "its changes are measured"

    def read_lines(image: RgbImage) -> Sequence[TextLine]:
        reading.tell(f"{path.name}: its texts are read")
        return read_page(image)

    board = read_recording(path, on_progress=count_frames, check_stop=lambda: reading.tell(f"{path.name}: {step}"))
    kept = pages_of(board)[:MAX_PAGES]
    pages = []
    for state in kept:
        reading.check()
        page = read_reference(board.states[state].full_page[:MAX_PAGE_PX], f"{path.name}, state {state}")
        pages.append(page)
    far = f"it needs more than {MAX_PAGES} pages"
    interactions = tuple(
        each if max(each.page, each.leads_to or 0) < len(pages) else replace(each, page=0, leads_to=None, lost=far)
        for each in interactions_of(board)
    )
    return SiteInputs(
        pages=tuple(pages),
        viewport_px=board.size_px,
        interactions=interactions,
        recorded=RecordedFacts(facts=to_json(board, read_lines), sheet=storyboard_image(board)),
        warnings=(*board.warnings, *_find_flaws(pages)),
    )


def _find_flaws(pages: Sequence[Reference]) -> list[str]:
    """Return a warning for each page that shows nothing, and for each that has text in a script that is not read."""
    warnings = []
    for page in pages:
        num_unread = sum(not word.text for word in page.words)
        if not page.blocks and is_empty(page.image):
            empty = "is nearly empty, without text: the page built from it is empty too, and its score says little"
            warnings.append(f"{page.name} {empty}")
        elif num_unread:
            warnings.append(
                f"{page.name}: {num_unread} words could not be read ({READABLE}); they are kept as pictures"
            )
    return warnings


def read_images(
    paths: Sequence[str | Path],
    viewport_px: tuple[int, int] | None,
    shown: Mapping[str, RgbImage] = MappingProxyType({}),
) -> tuple[list[Reference], tuple[int, int]]:
    """Return references from images of pages, and the viewport that they are rendered in.

    An image whose width is a multiple of the viewport's is from a high-density screen and is scaled down.

    Raises:
        ConfigError: If a file is not an image of a page, or the images do not match; the message says what to do.
    """
    if not paths:
        raise ConfigError("nothing is given to build from; name images of pages or addresses, such as page.png")
    if len(paths) > MAX_PAGES:
        raise ConfigError(f"{len(paths)} images are given; a site of at most {MAX_PAGES} pages is built at a time")
    images = [shown[str(path)] if str(path) in shown else _load(Path(path)) for path in paths]
    width, height = viewport_px or (images[0].shape[1], VIEWPORT_PX[1])
    if viewport_px is None and width > _MAX_WIDTH_PX:
        raise ConfigError(f"{paths[0]} is {width} px wide; say how wide its window is with --viewport WIDTHxHEIGHT")
    pages = []
    for path, image in zip(paths, images, strict=True):
        fitted = _fitted(image, width, path)
        if fitted.shape[0] > MAX_PAGE_PX:
            raise ConfigError(f"{path} is {fitted.shape[0]} px high; pages of at most {MAX_PAGE_PX} px are compared")
        pages.append(read_reference(fitted, str(path) if str(path) in shown else Path(path).name))
    return pages, (width, height)


def _load(path: Path) -> RgbImage:
    try:
        if not path.is_file():
            raise ConfigError(f"{path} is not a file; name images of pages, such as page.png, or https://... of a page")
        if path.stat().st_size == 0:
            raise ConfigError(f"{path} is empty; name an image of a page")
        kind = kind_of(path)
        if kind == "video":
            raise ConfigError(f"{path} is a video; a recording is given alone, images of pages together")
        if kind != "image":
            raise ConfigError(f"{path} is not an image; name images of pages, such as page.png")
        image = load_image(path)
    except (ImageError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if min(image.shape[:2]) < _MIN_SIDE_PX:
        raise ConfigError(
            f"{path} is {image.shape[1]}x{image.shape[0]} px; an image of a page has at least {_MIN_SIDE_PX} px a side"
        )
    return image


def _fitted(image: RgbImage, width: int, path: str | Path) -> RgbImage:
    if image.shape[1] == width:
        return image
    scale = image.shape[1] / width
    if scale not in (1.25, 1.5, 2, 3):
        raise ConfigError(
            f"{path} is {image.shape[1]} px wide, the window {width} px; give images of one width, or the width of the "
            "window with --viewport WIDTHxHEIGHT (the images may be 1.25, 1.5, 2 or 3 times as wide)"
        )
    from PIL import Image

    size = width, round(image.shape[0] / scale)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX), np.uint8)


async def render_reference(path: Path, viewport_px: tuple[int, int], renderer: Renderer) -> Reference:
    """Render a reference from local HTML: a file, or a folder with an index.html.

    Raises:
        CuaError: If the page cannot be shown.
    """
    folder, name = find_page(path)
    rendering = await renderer.render(SiteFiles(folder), viewport_px, path=f"/{name}")
    return rendered_reference(rendering, path.name)


def find_page(path: Path) -> tuple[Path, str]:
    """Return the folder of a site and its page, from a folder or an HTML file.

    Raises:
        ConfigError: If there is no page.
    """
    folder, name = (path, "index.html") if path.is_dir() else (path.parent, path.name)
    if not (folder / name).is_file():
        raise ConfigError(f"there is no {folder / name}; name a site's folder or an HTML file")
    return folder, name


def is_html(path: Path) -> bool:
    """Return whether a reference is a site or an HTML page, not an image."""
    return path.is_dir() or path.suffix.lower() in (".html", ".htm")
