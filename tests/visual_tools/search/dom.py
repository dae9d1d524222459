"""Where a browser says that the texts of a page stand."""

from dataclasses import dataclass
from typing import Any

_READ_TEXTS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim().replace(/\\s+/g, ' ');
    const tag = walker.currentNode.parentElement.tagName;
    if (!text || ['SCRIPT', 'STYLE', 'OPTION'].includes(tag)) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    const isInside = box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
    if (box.width >= 1 && box.height >= 1 && isInside)
      found.push({text, tag, left: box.left, top: box.top, right: box.right, bottom: box.bottom});
  }
  return found;
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """One visible text of a page: its words, the tag around it, and its rectangle in CSS pixels."""

    text: str
    tag: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def center(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


async def read_page_texts(page: Any) -> list[PageText]:
    """The texts that lie on the viewport as a whole."""
    return [PageText(**one) for one in await page.evaluate(_READ_TEXTS)]
