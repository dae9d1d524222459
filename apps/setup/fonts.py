"""Check by drawing that a browser has fonts: for the most used scripts, and digits of a text font."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page

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
"""Letters of each script by its name; none of them combines with its neighbours."""
_MAX_DIGIT_EM = 0.95
"""Digits of text fonts are 0.5 to 0.65 of the font size wide, those of Noto Color Emoji 1.25."""
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


async def find_font_fault(page: "Page") -> str:
    """Draw letters of each script on a page; returns what is wrong with the fonts, "" when nothing is.

    A script is missing when one of its letters is drawn as nothing, as the box that stands for characters without a
    glyph, or as another of its letters is.
    """
    missing, digit_em = await page.evaluate(_DRAW, SCRIPTS)
    if "Latin" in missing:
        return "none: text is drawn as boxes or not at all"
    if digit_em > _MAX_DIGIT_EM:
        return f"no digits but those of an emoji font: they are drawn {digit_em:.2f} font sizes wide and misread"
    return f"drawn as boxes or not at all: {', '.join(missing)}" if missing else ""
