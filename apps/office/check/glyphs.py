"""Characters that a reader sees as empty boxes, because no font has a glyph for them."""

import io
import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from apps.office.check.findings import CheckReport
from apps.office.libreoffice import find_undrawn
from apps.office.package import OfficePackage
from envs.errors import require

if TYPE_CHECKING:
    from pypdf import PdfReader

_SHOWN = 12  # characters in a finding
_MAX_TEXT_BYTES = 64 * 2**20  # of parts that are searched for characters; bounds time and memory
_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")
_KEY = re.compile(rb'fontKey="\{([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\}"')
_TEXT = re.compile(rb"<(?:\w+:)?(?:t|v|delText)(?:\s[^>]*)?>([^<]*[\x80-\xff&][^<]*)<")


def check_package_glyphs(package: OfficePackage, report: CheckReport) -> None:
    """Report the characters of a document that neither a font of this machine nor one within the document has."""
    data = [part for name, part in package.parts.items() if name.endswith(".xml") and len(part) <= _MAX_TEXT_BYTES]
    letters = {letter for part in data for text in _TEXT.findall(part) for letter in _decode(text)}
    missing = find_undrawn("".join(sorted(letters)))
    if not missing:
        return
    embedded, unread = _read_embedded(package)
    missing = "".join(letter for letter in missing if letter not in embedded)
    if missing and unread:
        text = f"{', '.join(unread)} cannot be read, and may have glyphs that no font here has: {missing[:_SHOWN]!r}"
        report.add("warning", "glyphs-unchecked", text)
    elif missing:
        _report(missing, report)


def _read_embedded(package: OfficePackage) -> tuple[set[str], list[str]]:
    """Return the characters of the fonts within a document, and the names of the fonts that cannot be read.

    Source: ECMA-376 part 4, 17.8.1: the first 32 bytes are combined by XOR with the key of the font, in reverse order.
    """
    ttlib = require("fontTools.ttLib", "office")
    keys = [
        bytes.fromhex(key.decode().replace("-", ""))[::-1]
        for part in package.parts.values()
        for key in _KEY.findall(part)
    ]
    letters: set[str] = set()
    unread = []
    for name, data in package.parts.items():
        if "/fonts/" not in name or name.endswith(".rels"):
            continue
        for key in (bytes(16), *keys):
            head = bytes(byte ^ key[at % 16] for at, byte in enumerate(data[:32]))
            try:
                letters |= {chr(code) for code in ttlib.TTFont(io.BytesIO(head + data[32:]), lazy=True).getBestCmap()}
                break
            except (ttlib.TTLibError, KeyError, ValueError, AssertionError, TypeError, struct.error):
                continue
        else:
            unread.append(name.rpartition("/")[2])
    return letters, unread


def _decode(text: bytes) -> str:
    references = {int(code, 16) for code in re.findall(rb"&#x([0-9a-fA-F]{1,6});", text)}
    references |= {int(code) for code in re.findall(rb"&#(\d{1,7});", text)}
    return text.decode("utf-8", "ignore") + "".join(chr(code) for code in references if code < 0x110000)


def check_pdf_glyphs(reader: "PdfReader", report: CheckReport) -> None:
    """Report the pages of a PDF file that draw the glyph of missing characters, `.notdef`."""
    boxes: dict[int, dict[str, str]] = {}
    for number, page in enumerate(reader.pages, 1):
        resources = page.get("/Resources")
        fonts = resources.get_object().get("/Font") if resources is not None else None
        found: dict[str, str] = {}
        of_name: dict[str, dict[str, str]] = {}
        for name, reference in fonts.get_object().items() if fonts is not None else ():
            key = getattr(reference, "idnum", id(reference))
            boxes[key] = boxes[key] if key in boxes else dict(_boxes_of(reference.get_object()))
            of_name[name] = boxes[key]
        if any(of_name.values()):
            for name, code in _drawn_codes(page, of_name):
                found[f"{name} {code}"] = of_name[name][code]
        if found:
            _report("".join(found.values()), report, f"page {number}")


def _report(letters: str, report: CheckReport, place: str = "") -> None:
    names = [unicodedata.name(letter, "UNKNOWN").split()[0] for letter in letters]
    scripts = ", ".join(dict.fromkeys(name.split("-")[0] for name in names))
    shown = "".join(dict.fromkeys(letters))
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    what = f"{shown[:_SHOWN]!r}{more} ({scripts})" if shown else "characters"
    is_asian = any(name.startswith(_ASIAN) for name in names)
    remedy = (
        "cua setup office installs a font for Chinese, Japanese and Korean"
        if is_asian or not shown
        else "install a font of this script"
    )
    report.add("error", "missing-glyphs", f"{what} have no glyph and are drawn as empty boxes; {remedy}", place)


def _boxes_of(font: Any) -> Iterator[tuple[str, str]]:
    """Yield each code of an embedded font that draws `.notdef`, with its character if the file names it.

    Codes of composite fonts with the encoding Identity are glyph numbers. Programs that renumber the glyphs of a simple
    font copy `.notdef`, so its outline is compared.
    """
    if font.get("/Subtype") == "/Type0":
        if str(font.get("/Encoding", "")).startswith("/Identity"):
            yield "\0\0", ""
        return
    descriptor = font.get("/FontDescriptor")
    file = descriptor.get_object().get("/FontFile2") if descriptor is not None else None
    if file is None or "/ToUnicode" not in font:
        return
    ttlib = require("fontTools.ttLib", "office")
    try:
        program = ttlib.TTFont(io.BytesIO(file.get_object().get_data()), lazy=True)
        data, places = program.reader["glyf"], _read_places(program.reader["head"], program.reader["loca"])
        box = data[places[0] : places[1]]
        codes = [table.cmap for table in program["cmap"].tables]
        unicodes = _read_unicodes(font["/ToUnicode"].get_object().get_data())
    except (ttlib.TTLibError, KeyError, ValueError, AssertionError, IndexError, struct.error):
        return  # a damaged font is a matter of other checks
    for table in codes:
        for code, name in table.items():
            at = program.getGlyphID(name)
            if box and at and data[places[at] : places[at + 1]] == box:
                yield chr(code & 0xFF), unicodes.get(code & 0xFF, "")


def _read_places(head: bytes, loca: bytes) -> list[int]:
    """Return the offsets of the glyphs; the field indexToLocFormat of `head` tells their size."""
    is_long = head[51:52] == b"\1"
    offsets = struct.unpack(f">{len(loca) // (4 if is_long else 2)}{'I' if is_long else 'H'}", loca)
    return [offset if is_long else 2 * offset for offset in offsets]


def _read_unicodes(data: bytes) -> dict[int, str]:
    """Return the single characters of a map from codes of one byte to Unicode."""
    pairs = re.findall(rb"<([0-9A-Fa-f]{2})>\s*<([0-9A-Fa-f]{4,8})>", data)
    return {int(code, 16): bytes.fromhex(text.decode()).decode("utf-16-be", "ignore") for code, text in pairs}


def _drawn_codes(page: Any, of_name: dict[str, dict[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield font and code of each `.notdef` that the content of a page draws."""
    contents = page.get_contents()
    name = ""
    for operands, operator in contents.operations if contents is not None else ():
        if operator == b"Tf" and operands:
            name = str(operands[0])
        elif operator in (b"Tj", b"'", b'"', b"TJ") and of_name.get(name):
            pieces: Sequence[Any] = operands[0] if operator == b"TJ" else operands[-1:]
            for piece in pieces:
                yield from ((name, code) for code in _codes_in(piece, of_name[name]))


def _codes_in(piece: Any, codes: dict[str, str]) -> Iterator[str]:
    raw = getattr(piece, "original_bytes", b"")
    width = len(next(iter(codes)))
    units = {raw[at : at + width].decode("latin-1") for at in range(0, len(raw), width)}
    yield from (code for code in codes if code in units)
