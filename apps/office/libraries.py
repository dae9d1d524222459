"""Protocols for office libraries without types: elements of lxml, slides and shapes of python-pptx."""

# ruff: noqa: D102  # documented by the libraries themselves

from collections.abc import Iterator, MutableMapping, Sequence
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


class PptxSlide(Protocol):
    """Slide of python-pptx."""

    shapes: Any
    placeholders: Any
    background: object
    slide_layout: object
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
    _element: object
