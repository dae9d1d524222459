"""Safe parsing of untrusted XML in office files, and conversion of library errors."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from apps.office.libraries import XmlElement
from cua.errors import CuaError
from envs.errors import require

T = TypeVar("T")
FilePath = str | os.PathLike[str]
"""Path of a file, as a text or a `Path`."""


class OfficeError(CuaError):
    """Error for an office file that cannot be read, made or checked."""


def refuse_entities(data: bytes, name: str) -> None:
    """Refuse XML that declares a document type or entities.

    Raises:
        OfficeError: If it does: entities could read files or expand without limit.
    """
    plain = data.replace(b"\0", b"") if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4] else data
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise OfficeError(
            f"{name} declares a document type, which office files never do; entities of it could read files of this "
            "machine. It is not read"
        )


def parse_xml(data: bytes, name: str) -> XmlElement:
    """Return the root element of XML without entities and without a document type.

    Raises:
        OfficeError: If it declares one (it could read files or expand without limit), or is not XML.
    """
    etree = require("lxml.etree", "office")
    refuse_entities(data, name)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=len(data) > 8 * 2**20)
    try:
        root: XmlElement = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise OfficeError(f"{name} is not well-formed XML: {error}") from error
    return root


def open_with(library: str, path: Path, opening: Callable[[], T]) -> T:
    """Open a possibly damaged file with a library.

    Raises:
        OfficeError: If the library raises any exception.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # from openpyxl; find_losses gives details
            return opening()
    except Exception as error:
        raise OfficeError(f"{library} cannot open {path.name}: {type(error).__name__}: {error}") from error
