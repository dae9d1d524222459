"""Corrections of schema violations by the libraries, part by part in the saved file; nothing else is changed."""

from collections.abc import Callable
from pathlib import Path

from apps.office.libraries import XmlElement
from apps.office.package import OfficePackage, open_package
from apps.office.safe_xml import FilePath

FONT_ORDER = "b i strike condense extend outline shadow u vertAlign sz color name family charset scheme".split()
"""Order of a font's properties. Source: Open XML SDK's schema of `x:font`, which is stricter than ECMA-376's."""
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_AXIS_IDS = ("axId", "crossAx")


def tidy(path: FilePath) -> Path:
    """Correct a file of openpyxl, python-pptx or pandoc: fonts, ids of pivot tables and axes, words in equations."""
    path = Path(path)
    package = open_package(path)
    is_changed = False
    for name in list(package.parts):
        if not name.endswith(".xml"):
            continue
        if name.endswith("/styles.xml") and package.kind == "xlsx":
            is_changed |= _change(package, name, _order_fonts)
        elif "/pivotTables/pivotTable" in name:
            is_changed |= _change(package, name, _drop_ids)
        elif name == "word/document.xml":
            is_changed |= _change(package, name, _fix_equations)
        elif "/charts/chart" in name:
            is_changed |= _change(package, name, _make_ids_positive)
    return package.save(path) if is_changed else path


def _change(package: OfficePackage, name: str, change: Callable[[XmlElement], bool]) -> bool:
    root = package.xml(name)
    if not change(root):
        return False
    package.set_xml(name, root)
    return True


def _order_fonts(root: XmlElement) -> bool:
    is_changed = False
    for font in root.iter("{*}font"):
        order = [child.tag.rpartition("}")[2] for child in font]
        if order != sorted(order, key=_rank):
            font[:] = sorted(font, key=lambda child: _rank(child.tag.rpartition("}")[2]))
            is_changed = True
    return is_changed


def _rank(name: str) -> int:
    return FONT_ORDER.index(name) if name in FONT_ORDER else len(FONT_ORDER)


def _drop_ids(root: XmlElement) -> bool:
    """Remove the `r:id` that openpyxl writes on a pivot table; only the workbook's list of caches may have one."""
    keys = [key for key in root.attrib if key.endswith("}id")]
    for key in keys:
        del root.attrib[key]
    return bool(keys)


def _fix_equations(root: XmlElement) -> bool:
    """Fix pandoc's equations: words have both `m:nor` and a style, and the count of matrix columns comes too late."""
    late = [element for element in root.iter(f"{_MATH}count") if element.getprevious() is not None]
    for element in late:
        element.getparent().insert(0, element)
    styles = [
        element
        for properties in root.iter(f"{_MATH}rPr")
        if properties.find(f"{_MATH}nor") is not None
        for element in properties.findall(f"{_MATH}sty") + properties.findall(f"{_MATH}scr")
    ]
    for element in styles:
        element.getparent().remove(element)
    return bool(styles or late)


def _make_ids_positive(root: XmlElement) -> bool:
    """Make the negative axis ids of python-pptx positive, in 31 bits as programs expect."""
    is_changed = False
    for name in _AXIS_IDS:
        for element in root.iter(f"{{*}}{name}"):
            value = element.get("val", "")
            if value.startswith("-") and value[1:].isdigit():
                element.set("val", str(int(value) % 2**31))
                is_changed = True
    return is_changed
