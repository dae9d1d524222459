"""Text of fetched content for a model: HTML as Markdown with numbered links, PDF by page, other text unchanged."""

import codecs
import copy
import html
import re
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from envs.errors import require

HTML_TYPES = ("text/html", "application/xhtml+xml")
MAX_PDF_PAGES = 500  # bounds the time to convert one document
MAX_LINKS = 2000  # numbered links of a page; bounds memory, the agent sees only those in the shown part
_MIN_CHARS = 200  # a shorter text is a notice or an empty frame: too much was dropped
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
_MAX_HTML_CHARS = 5 * 2**20
"""Limit of a page that is converted to Markdown; a larger one, which only a local folder holds, loses its markup."""
_HEAD_BYTES = 2048  # enough for a declaration of the character set and a binary file's first zero byte
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.S)
_DECLARED = re.compile(
    rb"<meta\b[^<>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml\b[^<>]*?\bencoding\s*=\s*[\"']?([\w.:-]+)", re.I
)
_LABELS = {
    label: codec
    for codec, labels in {
        "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8",
        "utf-16-le": "unicode ucs-2 iso-10646-ucs-2 csunicode unicodefeff utf-16",
        "utf-16-be": "unicodefffe",
        "iso8859-7": "sun_eu_greek",
        "iso8859-8": "logical visual",
        "iso8859-15": "csisolatin9",
        "cp1252": "ascii iso8859-1 x-user-defined",
        "cp1254": "iso8859-9",
        "cp874": "windows-874 dos-874 iso8859-11 tis-620",
        "cp932": "x-sjis ms932 windows-31j shift_jis",
        "cp949": "windows-949 cseuckr iso-ir-149 ksc5601 ksc_5601 csksc56011987 ks_c_5601-1989 euc_kr",
        "big5hkscs": "x-big5 cn-big5 big5",
        "gb18030": "csgb2312 gb_2312 gb_2312-80 gb2312 gbk",
        "euc_jp": "cseucpkdfmtjapanese",
        "koi8-r": "koi koi8",
        "koi8-u": "koi8-ru",
        "mac-roman": "mac x-mac-roman csmacintosh",
        "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    }.items()
    for label in labels.split()
}
"""Codecs of labels that Python does not know, and of Python's codecs for which browsers use another encoding."""
_CODECS = re.compile(
    r"utf-(?:8|16-[lb]e)|cp(?:125\d|866|874|932|949)|iso8859-\d+|koi8-[ru]|mac-(?:roman|cyrillic)|gb18030|big5hkscs|"
    r"euc_jp|iso2022_jp"
)
"""Codecs of text on the web; Python's others, such as `unicode_escape` and `punycode`, are never used."""
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


def read_document(body: bytes, media_type: str, url: str, charset: str = "") -> WebDocument:
    """Convert fetched content to text; slow, so call it outside the event loop. `charset` is that of the HTTP header.

    Raises:
        ValueError: If it is not text, and no text can be extracted.
    """
    if body[:5] == b"%PDF-":
        return _read_pdf(body, url)
    if not is_text(body, charset):
        what = media_type if media_type and not media_type.startswith("text/") else "binary data"
        raise ValueError(f"it is not text but {what}; get it with `download`")
    text = decode(body, charset)
    if media_type in HTML_TYPES or (not media_type and text[:200].lstrip()[:1] == "<"):
        if len(text) <= _MAX_HTML_CHARS:
            return read_html(text, url)
        title, text = plain_text(text)
        return WebDocument(title=title or _last_part(url), text=text.strip())
    return WebDocument(title=_last_part(url), text=text)


def is_text(body: bytes, charset: str = "") -> bool:
    """Return True if content is text in any supported encoding, by its beginning."""
    return "\0" not in decode(body[:_HEAD_BYTES], charset)


def decode(body: bytes, charset: str = "") -> str:
    """Decode text by its byte order mark, `charset`, the declaration of a page, UTF-8 or Windows-1252.

    A label means the encoding that browsers use for it: "latin1" is Windows-1252. UTF-16 without a mark is detected.

    Source: WHATWG, HTML Standard, "Determining the character encoding", and Encoding Standard, "Names and labels".
    """
    head = body[:_HEAD_BYTES]
    declared = _DECLARED.search(_COMMENT.sub(b"", head))
    of_page = codec_of((declared[1] or declared[2]).decode("ascii", "replace")) if declared else ""
    if of_page.startswith("utf-16"):
        of_page = "utf-8"  # a declaration in ASCII cannot be part of UTF-16
    encoding = next((codec for mark, codec in _MARKS if body.startswith(mark)), "") or codec_of(charset) or _utf16(head)
    if not encoding and head.lstrip()[:1] == b"<":
        encoding = of_page
    try:
        return body.decode(encoding, "replace") if encoding else body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode(of_page or "cp1252", "replace")


def charset_of(content_type: str) -> str:
    """Return the charset that the header Content-Type names; "" without one."""
    match = re.search(r";\s*charset\s*=\s*[\"']?([^\s;\"']{1,40})", content_type, re.I)
    return match[1] if match else ""


def codec_of(label: str) -> str:
    """Return the Python codec of the encoding that browsers use for a label; "" for an unknown label."""
    label = re.sub(r"^x-(?=cp|gbk$|euc-jp$|x-big5$|unicode)|-[ei]$", "", label.strip().lower())
    label = re.sub(r"^(?:cs)?iso8859-?(\d+)[ei]?$", r"iso8859-\1", label)
    try:
        name = codecs.lookup(_LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return ""
    name = _LABELS.get(name, name)
    return name if _CODECS.fullmatch(name) else ""


def _utf16(head: bytes) -> str:
    """Return the codec of UTF-16 without a mark, in which every second byte of most texts is NUL; "" for others."""
    first, second = head[::2].count(0), head[1::2].count(0)
    is_utf16 = not (first and second) and first + second > len(head) // 4
    return ("utf-16-be" if first else "utf-16-le") if is_utf16 else ""


def read_html(text: str, url: str) -> WebDocument:
    """Convert a page to Markdown: its main content, with tables and links; text hidden from people is dropped."""
    trafilatura = require("trafilatura", "search")
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
    lxml_html = require("lxml.html", "search")
    etree = require("lxml.etree", "search")
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
    lxml_html = require("lxml.html", "search")
    markdownify = require("markdownify", "search")
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
    pdfium = require("pypdfium2", "search")
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
