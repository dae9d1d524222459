"""What an office file refers to, and what is hidden in it: macros, links out of it, programs that it would start."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from apps.office.libraries import Element
from apps.office.safe_xml import parse_xml, refuse_entities

_HARMLESS_EXTERNAL = ("hyperlink",)
_MAX_TREE_BYTES = 32 * 2**20
"""Of XML that is read as a tree, which takes some ten times as much memory; larger sheets are searched as they are."""
_FORMULA = re.compile(rb"<(?:\w+:)?f(?:\s[^>]*)?>([^<]+)<")
_DDE = re.compile(rb"\bDDE(?:AUTO)?\b|<ddeLink\b")
_FETCHING = re.compile(r"\b(WEBSERVICE|IMPORTXML|IMPORTDATA|RTD|CALL|REGISTER\.ID)\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something in a file that is not shown but may act: nothing of it is run or fetched here.

    Attributes:
        code: `macro`, `external`, `embedded`, `dde`, `activex` or `script`.
        text: What and where.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """From a part to another one, or out of the file."""

    id: str
    kind: str
    target: str
    is_external: bool


def find_notices(file: str, parts: Mapping[str, bytes]) -> Iterator[Notice]:
    """What is hidden in the parts of a file; each part is read once by the careful parser.

    Raises:
        OfficeError: A part is no XML that is safe to read.
    """
    for name, data in parts.items():
        lower = name.lower()
        if lower.endswith("vbaproject.bin"):
            yield Notice(code="macro", text=f"{name}: macros")
        elif "/activex/" in lower and lower.endswith(".bin"):
            yield Notice(code="activex", text=f"{name}: an ActiveX control")
        elif "/embeddings/" in lower and not _is_chart_data(parts, name):
            yield Notice(code="embedded", text=f"{name}: an embedded file of {len(data):,} bytes")
        elif lower.endswith(".rels"):
            yield from _external_notices(name, parse_xml(data, f"{file}:{name}"))
        elif lower.endswith(".xml") and len(data) > _MAX_TREE_BYTES:
            refuse_entities(data, f"{file}:{name}")
            yield from _formula_notices(
                name, (found[1].decode("utf-8", "replace") for found in _FORMULA.finditer(data))
            )
        elif lower.endswith(".xml"):
            root = parse_xml(data, f"{file}:{name}")  # each part is read once by the careful parser
            if _DDE.search(data):
                yield from _dde_notices(name, root)
            if "/worksheets/" in lower:
                yield from _formula_notices(name, (one.text or "" for one in root.iter("{*}f")))


def _is_chart_data(parts: Mapping[str, bytes], name: str) -> bool:
    """The workbook that holds the numbers of a chart."""
    base = name.rpartition("/")[2].encode()
    return name.endswith(".xlsx") and any("/charts/_rels/" in one and base in parts[one] for one in parts)


def _external_notices(name: str, root: Element) -> Iterator[Notice]:
    for one in read_relationships(root, PurePosixPath()):
        is_script = one.target.lower().startswith(("javascript:", "vbscript:"))
        if is_script:
            yield Notice(code="script", text=f"{name}: a link to a script, {one.target[:80]!r}")
        elif one.is_external and one.kind not in _HARMLESS_EXTERNAL:
            yield Notice(code="external", text=f"{name}: {one.kind} from {one.target[:200]!r}; it is not fetched")


def _dde_notices(name: str, root: Element) -> Iterator[Notice]:
    for one in root.iter():
        if not isinstance(one.tag, str):
            continue
        local = one.tag.rpartition("}")[2]
        text = one.get("{http://schemas.openxmlformats.org/wordprocessingml/2006/main}instr") or one.text or ""
        if local == "ddeLink" or (local in ("instrText", "fldSimple") and text.strip().upper().startswith("DDE")):
            yield Notice(code="dde", text=f"{name}: a DDE link, which starts programs; it is not followed")


def _formula_notices(name: str, formulas: Iterable[str]) -> Iterator[Notice]:
    for text in formulas:
        if "|" in text and "!" in text and re.match(r"^[+=@-]*\s*\w+\|", text):
            yield Notice(
                code="dde", text=f"{name}: the formula {text[:60]!r} starts a program by DDE; it is not followed"
            )
        elif _FETCHING.search(text):
            yield Notice(code="external", text=f"{name}: the formula {text[:60]!r} asks a server; it is not asked")


def read_relationships(root: Element, folder: PurePosixPath) -> Iterator[Relationship]:
    """The entries of a part of relationships, whose targets are relative to a folder."""
    for one in root:
        if not isinstance(one.tag, str):
            continue
        target, is_external = one.get("Target", ""), one.get("TargetMode") == "External"
        if not is_external:
            path = target.lstrip("/") if target.startswith("/") else str(folder / target)
            target = _normal(path)
        kind = one.get("Type", "").rpartition("/")[2]
        yield Relationship(id=one.get("Id", ""), kind=kind, target=target, is_external=is_external)


def _normal(path: str) -> str:
    kept: list[str] = []
    for piece in path.split("/"):
        if piece == "..":
            kept = kept[:-1]
        elif piece not in ("", "."):
            kept.append(piece)
    return "/".join(kept)
