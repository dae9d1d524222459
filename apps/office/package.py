"""Safe opening of untrusted office files: kind, safety checks, hidden contents."""

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from apps.office.libraries import XmlElement
from apps.office.safe_xml import FilePath, OfficeError, parse_xml, refuse_entities
from envs.errors import require

_HARMLESS_EXTERNAL = ("hyperlink",)
_MAX_TREE_BYTES = 32 * 2**20
"""Size limit of XML parsed as a tree (about ten times as much memory); larger sheets are searched as bytes."""
_FORMULA = re.compile(rb"<(?:\w+:)?f(?:\s[^>]*)?>([^<]+)<")
_DDE = re.compile(rb"\bDDE(?:AUTO)?\b|<ddeLink\b")
_FETCHING = re.compile(r"\b(WEBSERVICE|IMPORTXML|IMPORTDATA|RTD|CALL|REGISTER\.ID)\s*\(", re.IGNORECASE)
Kind = Literal["docx", "xlsx", "pptx", "pdf"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CONTENT_TYPES = "[Content_Types].xml"
_OLE_MAGIC, _ZIP_MAGIC, _PDF_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK\x03\x04", b"%PDF-"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MAIN_TYPES: Mapping[str, Kind] = {
    "wordprocessingml.document.main": "docx",
    "ms-word.document.macroEnabled.main": "docx",
    "wordprocessingml.template.main": "docx",
    "spreadsheetml.sheet.main": "xlsx",
    "ms-excel.sheet.macroEnabled.main": "xlsx",
    "spreadsheetml.template.main": "xlsx",
    "presentationml.presentation.main": "pptx",
    "presentationml.slideshow.main": "pptx",
    "presentationml.template.main": "pptx",
    "ms-powerpoint.presentation.macroEnabled.main": "pptx",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageNotice:
    """Hidden active content of a file; nothing of it is run or fetched here.

    Attributes:
        code: `macro`, `external`, `embedded`, `dde`, `activex` or `script`.
        text: Description with the location.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """Relationship from a part to another part or to an external target."""

    id: str
    kind: str
    target: str
    is_external: bool


def find_notices(file: str, parts: Mapping[str, bytes]) -> Iterator[PackageNotice]:
    """Find hidden contents in the parts of a file; each part is parsed once by the safe parser.

    Raises:
        OfficeError: If a part is not safe XML.
    """
    for name, data in parts.items():
        lower = name.lower()
        if lower.endswith("vbaproject.bin"):
            yield PackageNotice(code="macro", text=f"{name}: macros")
        elif "/activex/" in lower and lower.endswith(".bin"):
            yield PackageNotice(code="activex", text=f"{name}: an ActiveX control")
        elif "/embeddings/" in lower and not _is_chart_data(parts, name):
            yield PackageNotice(code="embedded", text=f"{name}: an embedded file of {len(data):,} bytes")
        elif lower.endswith(".rels"):
            yield from _external_notices(name, parse_xml(data, f"{file}:{name}"))
        elif lower.endswith(".xml") and len(data) > _MAX_TREE_BYTES:
            refuse_entities(data, f"{file}:{name}")
            yield from _formula_notices(
                name, (formula[1].decode("utf-8", "replace") for formula in _FORMULA.finditer(data))
            )
        elif lower.endswith(".xml"):
            root = parse_xml(data, f"{file}:{name}")  # each part is parsed once by the safe parser
            if _DDE.search(data):
                yield from _dde_notices(name, root)
            if "/worksheets/" in lower:
                yield from _formula_notices(name, (formula.text or "" for formula in root.iter("{*}f")))


def _is_chart_data(parts: Mapping[str, bytes], name: str) -> bool:
    """Return whether a part is the workbook with the numbers of a chart."""
    base = name.rpartition("/")[2].encode()
    return name.endswith(".xlsx") and any("/charts/_rels/" in part and base in parts[part] for part in parts)


def _external_notices(name: str, root: XmlElement) -> Iterator[PackageNotice]:
    for relation in read_relationships(root, PurePosixPath()):
        is_script = relation.target.lower().startswith(("javascript:", "vbscript:"))
        if is_script:
            yield PackageNotice(code="script", text=f"{name}: a link to a script, {relation.target[:80]!r}")
        elif relation.is_external and relation.kind not in _HARMLESS_EXTERNAL:
            yield PackageNotice(
                code="external", text=f"{name}: {relation.kind} from {relation.target[:200]!r}; it is not fetched"
            )


def _dde_notices(name: str, root: XmlElement) -> Iterator[PackageNotice]:
    for element in root.iter("*"):
        local = element.tag.rpartition("}")[2]
        text = element.get("{http://schemas.openxmlformats.org/wordprocessingml/2006/main}instr") or element.text or ""
        if local == "ddeLink" or (local in ("instrText", "fldSimple") and text.strip().upper().startswith("DDE")):
            yield PackageNotice(code="dde", text=f"{name}: a DDE link, which starts programs; it is not run")


def _formula_notices(name: str, formulas: Iterable[str]) -> Iterator[PackageNotice]:
    for text in formulas:
        if "|" in text and "!" in text and re.match(r"^[+=@-]*\s*\w+\|", text):
            yield PackageNotice(
                code="dde", text=f"{name}: the formula {text[:60]!r} starts a program by DDE; it is not run"
            )
        elif _FETCHING.search(text):
            yield PackageNotice(
                code="external", text=f"{name}: the formula {text[:60]!r} requests data from a server; it is not run"
            )


def read_relationships(root: XmlElement, folder: PurePosixPath) -> Iterator[Relationship]:
    """Yield the entries of a relationships part, whose targets are relative to a folder."""
    for element in root.iterchildren("*"):
        target, is_external = element.get("Target", ""), element.get("TargetMode") == "External"
        if not is_external:
            path = target.lstrip("/") if target.startswith("/") else str(folder / target)
            target = _normal(path)
        kind = element.get("Type", "").rpartition("/")[2]
        yield Relationship(id=element.get("Id", ""), kind=kind, target=target, is_external=is_external)


def _normal(path: str) -> str:
    kept: list[str] = []
    for piece in path.split("/"):
        if piece == "..":
            kept = kept[:-1]
        elif piece not in ("", "."):
            kept.append(piece)
    return "/".join(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageLimits:
    """Limits beyond which a file is refused.

    Attributes:
        file_bytes: Size on disk.
        unpacked_bytes: Size of all parts together.
        part_bytes: Size of one part.
        num_parts: Number of parts.
        ratio: Unpacked size over packed size of a part of more than 10 MB.
    """

    file_bytes: int = 256 * 2**20
    unpacked_bytes: int = 2**30
    part_bytes: int = 512 * 2**20
    num_parts: int = 20_000
    ratio: float = 250.0


@dataclass(slots=True, kw_only=True)
class OfficePackage:
    """Parts of an OOXML file in memory.

    Attributes:
        path: Path of the file.
        kind: Kind of document.
        parts: Bytes by name, without a leading slash.
        notices: Hidden contents.
    """

    path: Path
    kind: Kind
    parts: dict[str, bytes]
    notices: list[PackageNotice] = field(default_factory=list)

    def xml(self, name: str) -> XmlElement:
        """Parse a part and return its lxml root element.

        Raises:
            OfficeError: If there is no such part, or it is not safe XML.
        """
        if name not in self.parts:
            raise OfficeError(f"{self.path.name} has no part {name!r}: the file is damaged")
        return parse_xml(self.parts[name], f"{self.path.name}:{name}")

    def set_xml(self, name: str, root: XmlElement) -> None:
        """Replace the contents of a part by an element."""
        etree = require("lxml.etree", "office")
        self.parts[name] = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)

    def relationships(self, name: str) -> list[Relationship]:
        """Return the relationships of a part; `""` is the package itself."""
        part = relationships_name(name)
        if part not in self.parts:
            return []
        return list(read_relationships(self.xml(part), PurePosixPath(name).parent))

    def save(self, path: FilePath) -> Path:
        """Write all parts; content types come first, as readers expect."""
        path = Path(path)
        names = [CONTENT_TYPES, *(name for name in self.parts if name != CONTENT_TYPES)]
        temporary = path.with_name(f".{path.name}.part")
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as file:
            for name in names:
                info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                file.writestr(info, self.parts[name])
        temporary.replace(path)
        return path


def relationships_name(name: str) -> str:
    """Return the name of the part with another part's relationships."""
    path = PurePosixPath(name)
    return str(path.parent / "_rels" / f"{path.name}.rels") if name else "_rels/.rels"


def find_kind(path: FilePath) -> Kind:
    """Determine the kind of a file from its first bytes and its main part.

    Raises:
        OfficeError: If it is not one of the four kinds, or cannot be read; the message says what it seems to be.
    """
    path = Path(path)
    head = _head(path)
    if head.startswith(_PDF_MAGIC) or _PDF_MAGIC in head[:1024]:
        return "pdf"
    if head.startswith(_ZIP_MAGIC):
        with _open_zip(path) as file:
            return _kind_of(path, _read(file, CONTENT_TYPES, path, PackageLimits()))
    raise _format_error(path, head)


def open_package(path: FilePath, limits: PackageLimits | None = None) -> OfficePackage:
    """Read a docx, xlsx or pptx file within limits, and find hidden contents.

    Raises:
        OfficeError: If it is encrypted, damaged, too large, a zip bomb, or declares entities.
    """
    path = Path(path)
    limits = limits or PackageLimits()
    head = _head(path)
    if not head.startswith(_ZIP_MAGIC):
        raise _format_error(path, head)
    size = path.stat().st_size
    if size > limits.file_bytes:
        raise OfficeError(
            f"{path.name} has {size / 1e6:.0f} MB; files of up to {limits.file_bytes / 1e6:.0f} MB are read. Save a "
            "smaller one (fewer rows or images), or split it"
        )
    with _open_zip(path) as file:
        _check_sizes(file, path, limits)
        kind = _kind_of(path, _read(file, CONTENT_TYPES, path, limits))
        parts = {info.filename: _read(file, info.filename, path, limits) for info in file.infolist() if _is_part(info)}
    package = OfficePackage(path=path, kind=kind, parts=parts)
    package.notices = list(find_notices(path.name, package.parts))
    return package


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise OfficeError(f"{path} cannot be read: {error.strerror or error}") from error


def _format_error(path: Path, head: bytes) -> OfficeError:
    expected = "expected a docx, xlsx, pptx or pdf file"
    if not head:
        return OfficeError(f"{path.name} is empty; {expected}")
    if head.startswith(_OLE_MAGIC):
        if _ENCRYPTED in path.open("rb").read(64 * 2**20):
            return OfficeError(f"{path.name} is encrypted with a password; open it in its program and save it without")
        return OfficeError(
            f"{path.name} has the old binary format (doc, xls, ppt); save it as docx, xlsx or pptx: "
            f"soffice --headless --convert-to docx {path.name}"
        )
    if head.lstrip()[:1] == b"<":
        return OfficeError(f"{path.name} is HTML or XML with another ending; {expected}")
    return OfficeError(f"{path.name} is none of these by its first bytes ({head[:8].hex(' ')}); {expected}")


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise OfficeError(f"{path.name} is damaged: {error}. Get a new copy of it") from error


def _is_part(info: zipfile.ZipInfo) -> bool:
    return not info.is_dir()


def _check_sizes(file: zipfile.ZipFile, path: Path, limits: PackageLimits) -> None:
    infos = file.infolist()
    names = [info.filename for info in infos]
    if len(infos) > limits.num_parts:
        raise OfficeError(
            f"{path.name} has {len(infos)} parts, more than {limits.num_parts}: no office program writes that many"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OfficeError(f"{path.name} has the part {twice!r} twice: programs would read it differently")
    total = sum(info.file_size for info in infos)
    if total > limits.unpacked_bytes:
        raise OfficeError(
            f"{path.name} would unpack to {total / 1e6:,.0f} MB from {path.stat().st_size / 1e6:.1f} MB; up to "
            f"{limits.unpacked_bytes / 1e6:,.0f} MB are read. It is too large, or a zip bomb"
        )
    for info in infos:
        if info.flag_bits & 1:
            raise OfficeError(f"{path.name} is a zip file with a password; expected one without")
        if info.filename.startswith("/") or ".." in PurePosixPath(info.filename).parts or "\\" in info.filename:
            raise OfficeError(f"{path.name} holds {info.filename!r}, a path outside of the archive")
        if info.file_size > 10_000_000 and info.file_size > limits.ratio * max(1, info.compress_size):
            raise OfficeError(
                f"{path.name}: the part {info.filename!r} unpacks to {info.file_size / 1e6:,.0f} MB from "
                f"{info.compress_size / 1e3:,.0f} kB, like a zip bomb; it is not read"
            )


def _read(file: zipfile.ZipFile, name: str, path: Path, limits: PackageLimits) -> bytes:
    try:
        with file.open(name) as part:
            data = part.read(limits.part_bytes + 1)
    except KeyError as error:
        raise OfficeError(f"{path.name} is a zip file without {name}; expected a docx, xlsx or pptx file") from error
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise OfficeError(f"{path.name} is damaged in {name!r}: {error}") from error
    except Exception as error:  # zlib.error, and what other decoders raise for garbage
        raise OfficeError(f"{path.name} is damaged in {name!r}: {error}") from error
    if len(data) > limits.part_bytes:
        raise OfficeError(f"{path.name}: the part {name!r} has more than {limits.part_bytes / 1e6:,.0f} MB")
    return data


def _kind_of(path: Path, types: bytes) -> Kind:
    root = parse_xml(types, f"{path.name}:{CONTENT_TYPES}")
    for element in root:
        content_type = element.get("ContentType", "").removesuffix("+xml").removeprefix("application/vnd.")
        kind = _MAIN_TYPES.get(content_type.removeprefix("openxmlformats-officedocument."))
        if kind is not None:
            return kind
    raise OfficeError(f"{path.name} is a zip file, but not docx, xlsx or pptx: none of its parts is a document")
