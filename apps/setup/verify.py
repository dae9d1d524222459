"""Functional tests: start a browser and draw text, start a display and take a screenshot."""

import asyncio
import importlib.util
import io
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from apps.setup.command import run_command
from envs import EnvError, InstructionTask
from envs.errors import require

if TYPE_CHECKING:
    from playwright.async_api import Page

    from envs.browser.launch import BrowserBinary

SCRIPTS = {
    "Latin": "Wié",
    "simplified Chinese": "录确认删",
    "traditional Chinese": "錄確認刪",
    "Devanagari (Hindi)": "तजभर",
    "Arabic": "بجعپ",
    "Bengali": "বলকম",
    "Cyrillic": "Жщяб",
    "Japanese kana": "あカのメ",
    "Telugu": "తలగన",
    "Korean": "로인확뷁",
    "Tamil": "தமழர",
    "Thai": "ไทยภ",
    "Gujarati": "ગજરત",
    "Kannada": "ಕನಡಮ",
    "Burmese": "မနသက",
    "Malayalam": "മലയള",
    "Odia": "ଓଡଆକ",
    "Gurmukhi (Punjabi)": "ਪਜਬਸ",
    "Ethiopic (Amharic)": "አማርኛ",
    "Sinhala": "සහලක",
    "Khmer": "ខមរក",
    "Greek": "Ωλξψ",
    "Hebrew": "עברי",
    "Georgian": "ქართ",
    "Armenian": "Հայե",
    "Lao": "ລາວກ",
    "emoji": "😀🛒🔍",
}
"""Letters of each script by its name; no letter combines with its neighbours."""
_MAX_DIGIT_EM = 0.95
"""Maximum width of digits: 0.5 to 0.65 of the font size in text fonts, 1.25 in Noto Color Emoji."""
_DRAW = """scripts => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 48, height: 48});
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const draw = letter => {
    pen.clearRect(0, 0, 48, 48);
    pen.font = '24px sans-serif';
    pen.fillText(letter, 4, 34);
    return pen.getImageData(0, 0, 48, 48).data.join();
  };
  const boxes = [' ', '\\u0378', '\\ue123', '\\u{10fffd}'].map(draw);  // nothing, and what no font has
  const isDrawn = letters => {
    const images = [...letters].map(draw);
    return new Set(images).size === images.length && !images.some(image => boxes.includes(image));
  };
  const digitEm = family => {
    pen.font = `40px ${family}`;
    return pen.measureText('0'.repeat(20)).width / 800;
  };
  const missing = Object.keys(scripts).filter(name => !isDrawn(scripts[name]));
  return [missing, Math.max(...['sans-serif', 'serif', 'monospace'].map(digitEm))];
}"""
_TIMEOUT_S = 30.0  # of one page in a new browser on a busy machine
_TEXT_PAGE = "data:text/html,<title>k25</title><body style='margin:20px;border-top:9px solid'>"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """Result of a trial.

    Attributes:
        works: True if it worked.
        detail: Observation, or reason of the failure; one line.
        font_fault: For a browser: problem with the text that it draws; "" if there is none.
        is_driver_broken: For a browser: True if the fault is in Playwright and not in the browser.
    """

    works: bool
    detail: str
    font_fault: str = ""
    is_driver_broken: bool = False


async def check_driver() -> str | None:
    """Return why Playwright's driver (a bundled Node.js program) does not start; None if it does.

    On a minimal system a library is missing, which Playwright reports as a closed connection.
    """
    spec = importlib.util.find_spec("playwright")
    if spec is None or not spec.submodule_search_locations:
        return "the package 'playwright' is not installed. Install it with: pip install 'cua-k25[browser]'"
    node = os.environ.get("PLAYWRIGHT_NODEJS_PATH") or f"{spec.submodule_search_locations[0]}/driver/node"
    try:
        result = await run_command((node, "--version"), timeout_s=_TIMEOUT_S, say=lambda line: None)
    except OSError as error:
        return f"Playwright's driver does not start: {error}"
    return None if result.code == 0 else f"Playwright's driver does not start: {result.why.removeprefix(f'{node}: ')}"


async def verify_browser(binary: "BrowserBinary") -> TrialResult:
    """Start the browser, open a page, take a screenshot, and draw letters of many scripts."""
    started = time.perf_counter()
    problem = await check_driver()
    if problem is not None:
        return TrialResult(works=False, detail=problem, is_driver_broken=True)
    playwright = require("playwright.async_api", "browser")
    try:
        async with asyncio.timeout(_TIMEOUT_S), playwright.async_playwright() as driver:
            browser = await driver.chromium.launch(
                executable_path=binary.path, args=["--no-sandbox", "--disable-gpu"], timeout=_TIMEOUT_S * 1000
            )
            page = await browser.new_page(viewport={"width": 320, "height": 200})
            await page.goto(_TEXT_PAGE)
            image = await page.screenshot()
            font_fault = await find_font_fault(page)
            version = browser.version
            await browser.close()
    except (playwright.Error, TimeoutError, OSError) as error:
        return TrialResult(works=False, detail=f"does not start: {_first_telling_line(str(error))}")
    if not _has_ink(image):
        return TrialResult(works=False, detail="starts, but its screenshot is blank")
    took = time.perf_counter() - started
    return TrialResult(works=True, detail=f"version {version}, drew a page in {took:.1f} s", font_fault=font_fault)


async def find_font_fault(page: "Page") -> str:
    """Draw letters of each script on a page; return the problem with the fonts, "" if there is none.

    A script is missing if one of its letters is drawn as nothing, as the box for missing glyphs, or like another of its
    letters.
    """
    missing, digit_em = await page.evaluate(_DRAW, SCRIPTS)
    if "Latin" in missing:
        return "none: text is drawn as boxes or not at all"
    if digit_em > _MAX_DIGIT_EM:
        return f"no digits but those of an emoji font: they are drawn {digit_em:.2f} font sizes wide and misread"
    return f"drawn as boxes or not at all: {', '.join(missing)}" if missing else ""


async def verify_desktop() -> TrialResult:
    """Start a private display with its window manager and take a screenshot."""
    from envs.desktop.env import DesktopEnv
    from envs.desktop.options import DesktopOptions

    started = time.perf_counter()
    env = DesktopEnv(DesktopOptions(screen_px=(640, 400)))
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            seen = await env.reset(InstructionTask(instruction=""))
    except (EnvError, TimeoutError, OSError) as error:
        return TrialResult(works=False, detail=f"does not start: {error}")
    finally:
        await env.close()
    if seen.geometry.native_px != (640, 400):
        return TrialResult(works=False, detail=f"the display is {seen.geometry.native_px}, not (640, 400)")
    return TrialResult(works=True, detail=f"a private display started in {time.perf_counter() - started:.1f} s")


def check_writable(folder: Path) -> str | None:
    """Return None if files can be created in `folder` (created if missing), else the reason why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{error.strerror or error}"


def _has_ink(png: bytes) -> bool:
    from PIL import Image

    darkest, lightest = Image.open(io.BytesIO(png)).convert("L").getextrema()
    return bool(lightest != darkest)


def _first_telling_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error while loading" in line or "No such file" in line]
    return (telling or lines or ["no reason given"])[0][:200]
