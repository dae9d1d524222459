"""Text of fetched content for a model: HTML as Markdown with numbered links, PDF by page, other text unchanged."""

import copy
import html
import re
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from envs.errors import require

HTML_TYPES = ("text/html", "application/xhtml+xml")
MAX_PDF_PAGES = 500
MAX_LINKS = 2000
_MIN_CHARS = 200
_MIN_SHARE = 0.5
"""Minimum share of a page's words, and of its links, that the extractor must keep; a list of links has no article."""
_LINK = re.compile(
    r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]{0,300}\]){0,1000})\]"
    r"\((<[^<>]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]{0,1000}\")?\)"
)
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*\)")
_DROPPED = "script style noscript template svg iframe object nav footer form button select".split()
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])|(?:left|top)\s*:\s*-\d{4}",
    re.I,
)
_BLOCKS = re.compile(r"<(?:/?(?:p|div|li|tr|h[1-6]|br|table|ul|ol|dd|dt|section|article)\b)[^<>]*>", re.I)
_TAGS = re.compile(
    r"<!--(?:(?!<!--).)*?-->|<(script|style|template|noscript)\b(?:(?!<\1\b).)*?</\1\s*>|<[^<>]*>", re.I | re.S
)
_MAX_CELLS = 1000
"""Limit of the cells in a row for trafilatura, whose time is quadratic in their number."""
_LONG_BLANKS = re.compile(r"(\s{100})\s+")
"""Matches more whitespace than a page needs; markdownify's time is quadratic in it."""
_PDFIUM = threading.Lock()
"""Lock for PDFium, which is not thread-safe."""
_TITLE = re.compile(r"<title[^<>]*>((?:(?!<title\b).)*?)</title>", re.I | re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDocument:
    """Page as text.

    Attributes:
        title: Title of the page.
        text: Markdown; a link is `[words](#3)`, 3 its 1-based position in `links`.
        links: Absolute addresses.
        pages: Texts of a PDF's pages; empty for all other types.
        needs_browser: True if scripts must run to fill the page.
    """

    title: str
    text: str
    links: tuple[str, ...] = ()
    pages: tuple[str, ...] = field(default=(), repr=False)
    needs_browser: bool = False


def read_document(body: bytes, media_type: str, url: str) -> WebDocument:
    """Convert fetched content to text; slow, so call it outside the event loop.

    Raises:
        ValueError: If it is not text, and no text can be extracted.
    """
    if body[:5] == b"%PDF-":
        return _read_pdf(body, url)
    if b"\0" in body[:2048]:
        description = media_type if media_type and not media_type.startswith("text/") else "binary data"
        raise ValueError(f"it is not text but {description}; get it with `download`")
    if media_type in HTML_TYPES or (not media_type and body[:200].lstrip()[:1] == b"<"):
        return read_html(decode(body), url)
    text = decode(body)
    return WebDocument(title=_last_part(url), text=text)


def decode(body: bytes) -> str:
    """Decode text of unknown encoding: UTF-8, else the encoding that the page declares, else Latin-1."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        declared = re.search(rb"charset=[\"']?([\w-]+)", body[:2048])
        try:
            return body.decode(declared[1].decode() if declared else "cp1252", "replace")
        except LookupError:
            return body.decode("latin-1")


def read_html(text: str, url: str) -> WebDocument:
    """Convert a page to Markdown: its main content, with tables and links; text hidden from people is dropped."""
    trafilatura: Any = require("trafilatura", "search")
    title = html.unescape(" ".join(match[1].split())) if (match := _TITLE.search(text)) else _last_part(url)
    tree = _parse(text)
    if tree is None:
        return WebDocument(title=title, text="")
    num_scripts = len(tree.findall(".//script"))
    pruned = _without_hidden(tree)
    words = len(" ".join(pruned.itertext()).split())
    num_links = len(pruned.findall(".//a[@href]"))
    markdown = None
    if not any(len(row.xpath("td|th")) > _MAX_CELLS for row in pruned.iter("tr", "table")):
        markdown = trafilatura.extract(
            copy.deepcopy(pruned),
            url=url,
            output_format="markdown",
            include_links=True,
            include_tables=True,
            favor_recall=True,
        )
    is_tabular = pruned.find(".//table") is not None
    if not markdown or _is_poor(markdown, words, num_links, is_tabular=is_tabular):
        markdown = _whole_body(pruned)
    numbered, links = number_links(markdown, url)
    return WebDocument(title=title, text=numbered, links=links, needs_browser=words < 20 and num_scripts > 0)


def _parse(text: str) -> Any:
    """Parse a page to a tree; None for a page without an element."""
    lxml_html: Any = require("lxml.html", "search")
    etree: Any = require("lxml.etree", "search")
    parser = lxml_html.HTMLParser(encoding="utf-8", huge_tree=False)
    try:
        return lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, ValueError):
        return None


def _without_hidden(tree: Any) -> Any:
    for element in list(tree.iter()):
        if not isinstance(element.tag, str):
            continue
        is_hidden = (
            element.tag in _DROPPED
            or element.get("hidden") is not None
            or element.get("aria-hidden") == "true"
            or _HIDDEN.search(element.get("style") or "") is not None
        )
        if is_hidden and element.getparent() is not None:
            element.drop_tree()
    return tree


def _is_poor(markdown: str, num_words: int, num_links: int, *, is_tabular: bool) -> bool:
    """Return True if the extractor dropped too much."""
    if len(_LINK.findall(markdown)) < _MIN_SHARE * num_links:
        return True
    kept = len(_LINK.sub(r"\1", markdown).replace("|", " ").split())
    return len(markdown) < _MIN_CHARS or kept < _MIN_SHARE * num_words or (is_tabular and "|" not in markdown)


def _whole_body(tree: Any) -> str:
    lxml_html: Any = require("lxml.html", "search")
    markdownify: Any = require("markdownify", "search")
    body = tree.find("body")
    source = lxml_html.tostring(tree if body is None else body, encoding="unicode")
    text: str = markdownify.markdownify(_LONG_BLANKS.sub(r"\1", source), heading_style="ATX", bullets="-")
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def number_links(markdown: str, url: str) -> tuple[str, tuple[str, ...]]:
    """Replace links in Markdown by numbers and return their absolute addresses; images become their alt texts."""
    links: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        try:
            target = urljoin(url, match[2].strip("<>"))
            is_web = urlsplit(target).scheme in ("http", "https")
        except ValueError:
            return match[1]
        if not is_web or (target not in links and len(links) >= MAX_LINKS):
            return match[1]
        return f"[{match[1]}](#{links.setdefault(target, len(links) + 1)})"

    return _LINK.sub(number, _IMAGE.sub(r"\1", markdown)), tuple(links)


def _read_pdf(body: bytes, url: str) -> WebDocument:
    with _PDFIUM:
        title, texts = _pdf_texts(body)
    return WebDocument(title=title or _last_part(url), text="\n\n".join(texts), pages=texts)


def _pdf_texts(body: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the title and the texts of the pages."""
    pdfium: Any = require("pypdfium2", "search")
    try:
        document = pdfium.PdfDocument(body)
    except pdfium.PdfiumError as error:
        raise ValueError(f"the PDF cannot be read: {error}") from None
    try:
        pages = [
            document[number].get_textpage().get_text_bounded() for number in range(min(len(document), MAX_PDF_PAGES))
        ]
        title = document.get_metadata_value("Title")
    finally:
        document.close()
    return title, tuple(page.replace("\r\n", "\n").replace("\r", "\n") for page in pages)


def plain_text(text: str) -> tuple[str, str]:
    """Return title and words of a page for an index: fast and approximate."""
    title = html.unescape(" ".join(match[1].split())) if (match := _TITLE.search(text)) else ""
    words = html.unescape(_TAGS.sub(" ", _BLOCKS.sub("\n", text)))
    return title, re.sub(r"[ \t]+", " ", words)


def _last_part(url: str) -> str:
    parts = urlsplit(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2], errors="replace")
    return " ".join(last.split()) or parts.netloc
