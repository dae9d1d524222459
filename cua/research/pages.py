"""What was fetched, as text for a model: HTML as Markdown with numbered links, PDF by page, other text as it is."""

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
"""Of the words and of the links of a page's body that the extractor has to keep; a list of links is no article."""
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
"""In a row that trafilatura is given; it takes the square of their number."""
_LONG_BLANKS = re.compile(r"(\s{100})\s+")
"""More than a page shows; markdownify takes the square of their number."""
_PDFIUM = threading.Lock()
"""PDFium may be in one thread at a time."""
_TITLE = re.compile(r"<title[^<>]*>((?:(?!<title\b).)*?)</title>", re.I | re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A page as text.

    Attributes:
        title: Of the page.
        text: Markdown; a link is `[words](#3)`, 3 its place in `links`, from 1.
        links: Absolute addresses.
        pages: The texts of a PDF's pages; empty for all else.
        needs_browser: Whether it is a page that scripts have yet to fill.
    """

    title: str
    text: str
    links: tuple[str, ...] = ()
    pages: tuple[str, ...] = field(default=(), repr=False)
    needs_browser: bool = False


def read_document(body: bytes, media_type: str, url: str) -> Document:
    """Read what was fetched; slow, so off the event loop.

    Raises:
        ValueError: It is no text, and none can be taken out of it.
    """
    if body[:5] == b"%PDF-":
        return _read_pdf(body, url)
    if b"\0" in body[:2048]:
        what = media_type if media_type and not media_type.startswith("text/") else "binary data"
        raise ValueError(f"it is no text but {what}; get it with `download`")
    if media_type in HTML_TYPES or (not media_type and body[:200].lstrip()[:1] == b"<"):
        return read_html(decode(body), url)
    text = decode(body)
    return Document(title=_last_part(url), text=text)


def decode(body: bytes) -> str:
    """Text of unknown encoding: UTF-8, else what the page declares, else Latin-1."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        declared = re.search(rb"charset=[\"']?([\w-]+)", body[:2048])
        try:
            return body.decode(declared[1].decode() if declared else "cp1252", "replace")
        except LookupError:
            return body.decode("latin-1")


def read_html(text: str, url: str) -> Document:
    """A page as Markdown: its main content, with tables and links; what is hidden from people is left out."""
    trafilatura: Any = require("trafilatura", "search")
    title = html.unescape(" ".join(found[1].split())) if (found := _TITLE.search(text)) else _last_part(url)
    tree = _parse(text)
    if tree is None:
        return Document(title=title, text="")
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
    return Document(title=title, text=numbered, links=links, needs_browser=words < 20 and num_scripts > 0)


def _parse(text: str) -> Any:
    """The tree of a page; None for one without an element."""
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
    """Whether too much was dropped."""
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
    """Markdown whose links are numbers, and their absolute addresses; pictures become their words."""
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


def _read_pdf(body: bytes, url: str) -> Document:
    with _PDFIUM:
        title, texts = _pdf_texts(body)
    return Document(title=title or _last_part(url), text="\n\n".join(texts), pages=texts)


def _pdf_texts(body: bytes) -> tuple[str, tuple[str, ...]]:
    """Title and the texts of the pages."""
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
    """Title and words of a page for an index: quick, and no more exact than that needs."""
    title = html.unescape(" ".join(found[1].split())) if (found := _TITLE.search(text)) else ""
    words = html.unescape(_TAGS.sub(" ", _BLOCKS.sub("\n", text)))
    return title, re.sub(r"[ \t]+", " ", words)


def _last_part(url: str) -> str:
    parts = urlsplit(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2], errors="replace")
    return " ".join(last.split()) or parts.netloc
