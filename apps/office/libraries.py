"""Protocols for the used parts of the office libraries, which are optional and mostly untyped."""

# ruff: noqa: D102  # documented by the libraries themselves

from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Protocol, overload


class XmlElement(Protocol):
    """Element of lxml."""

    tag: str
    text: str | None
    attrib: MutableMapping[str, str]
    nsmap: MutableMapping[str | None, str]

    @overload
    def get(self, key: str) -> str | None: ...
    @overload
    def get(self, key: str, default: str) -> str: ...
    def set(self, key: str, value: str) -> None: ...
    def iter(self, *tags: str) -> Iterator["XmlElement"]: ...
    def iterchildren(self, *tags: str) -> Iterator["XmlElement"]: ...
    def itertext(self) -> Iterator[str]: ...
    def itersiblings(self, *tags: str) -> Iterator["XmlElement"]: ...
    def iterancestors(self, *tags: str) -> Iterator["XmlElement"]: ...
    def find(self, path: str) -> "XmlElement | None": ...
    def findall(self, path: str) -> list["XmlElement"]: ...
    def append(self, child: "XmlElement") -> None: ...
    def insert(self, index: int, child: "XmlElement") -> None: ...
    def remove(self, child: "XmlElement") -> None: ...
    def replace(self, old: "XmlElement", new: "XmlElement") -> None: ...
    def index(self, child: "XmlElement") -> int: ...
    def addnext(self, other: "XmlElement") -> None: ...
    def addprevious(self, other: "XmlElement") -> None: ...
    def getnext(self) -> "XmlElement | None": ...
    def getprevious(self) -> "XmlElement | None": ...
    def getparent(self) -> "XmlElement": ...
    def makeelement(self, tag: str, attrib: MutableMapping[str, str]) -> "XmlElement": ...
    def getroottree(self) -> "XmlTree": ...
    def __iter__(self) -> Iterator["XmlElement"]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> "XmlElement": ...
    def __setitem__(self, index: slice, children: Sequence["XmlElement"]) -> None: ...


class XmlTree(Protocol):
    """Document tree of lxml."""

    def getroot(self) -> XmlElement: ...


class DocxElement(Protocol):
    """Root element of a document of python-docx."""

    body: XmlElement


class Paragraph(Protocol):
    """Paragraph of python-docx."""

    _p: XmlElement
    text: str
    style: Any


class DocxDocument(Protocol):
    """Document of python-docx."""

    element: DocxElement
    paragraphs: Sequence[Any]
    tables: Sequence[Any]
    sections: Sequence[Any]
    inline_shapes: Sequence[Any]
    styles: Any
    comments: Any
    part: Any

    def add_paragraph(self, text: str = "", style: str | None = None) -> Any: ...
    def add_heading(self, text: str, level: int) -> Any: ...
    def add_table(self, rows: int, cols: int, style: str | None = None) -> Any: ...
    def add_comment(self, runs: object, text: str, author: str, initials: str) -> Any: ...
    def save(self, path: str) -> None: ...


class PptxSlide(Protocol):
    """Slide of python-pptx."""

    shapes: Any
    placeholders: Any
    background: Any
    slide_layout: Any
    notes_slide: Any
    has_notes_slide: bool
    follow_master_background: bool
    part: Any
    _element: XmlElement


class Presentation(Protocol):
    """Presentation of python-pptx; lengths in EMU."""

    slides: Any
    slide_layouts: Any
    slide_width: int
    slide_height: int

    def save(self, path: str) -> None: ...


class PptxShape(Protocol):
    """Shape of python-pptx; lengths in EMU, cropped shares from 0 to 1."""

    name: str
    left: int
    top: int
    width: int
    height: int
    crop_left: float
    crop_right: float
    crop_top: float
    crop_bottom: float
    shape_type: int | None
    has_text_frame: bool
    is_placeholder: bool
    placeholder_format: Any
    text_frame: Any
    image: Any
    _element: Any


class Worksheet(Protocol):
    """Worksheet of openpyxl."""

    title: str
    parent: "Workbook"
    max_row: int
    max_column: int
    tables: Any
    freeze_panes: str | None
    sheet_view: Any
    row_dimensions: Any
    column_dimensions: Any
    conditional_formatting: Any
    data_validations: Any
    _pivots: list[Any]
    _charts: list[Any]
    _images: list[Any]

    def append(self, row: Sequence[object]) -> None: ...
    def cell(self, row: int, column: int, value: object = None) -> Any: ...
    def iter_rows(self, min_row: int | None = None, max_row: int | None = None) -> Iterator[Sequence[Any]]: ...
    def delete_rows(self, index: int) -> None: ...
    def add_pivot(self, pivot: object) -> None: ...
    def add_image(self, image: object, anchor: str) -> None: ...
    def add_chart(self, chart: object, anchor: str) -> None: ...
    def add_data_validation(self, rule: object) -> None: ...
    def __getitem__(self, cells: str | int) -> Any: ...
    def __setitem__(self, cell: str, value: object) -> None: ...


class Workbook(Protocol):
    """Workbook of openpyxl."""

    active: Worksheet
    worksheets: list[Worksheet]
    sheetnames: list[str]
    defined_names: Any

    def create_sheet(self, title: str) -> Worksheet: ...
    def save(self, path: Path) -> None: ...
    def __getitem__(self, sheet: str) -> Worksheet: ...


class PdfReader(Protocol):
    """PDF file of pypdf."""

    pages: Sequence[Any]
    trailer: Any
    outline: list[Any]
    named_destinations: MutableMapping[str, Any]

    def get_fields(self) -> MutableMapping[str, Any] | None: ...
    def get_destination_page_number(self, destination: object) -> int: ...
