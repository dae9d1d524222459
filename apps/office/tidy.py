"""Corrections of schema violations by the libraries, part by part in the saved file; nothing else is changed."""

from collections.abc import Callable
from pathlib import Path

from apps.office.libraries import Element
from apps.office.package import Package, open_package

_FONT_ORDER = "b i strike condense extend outline shadow u vertAlign sz color name family charset scheme".split()
"""Order of a font's properties. Source: Open XML SDK's schema of `x:font`, which is stricter than ECMA-376's."""
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_AXIS_IDS = ("axId", "crossAx")


def tidy(path: Path) -> Path:
    """Correct a file of openpyxl, python-pptx or pandoc: fonts, ids of pivot tables and axes, words in equations."""
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
            is_changed |= _change(package, name, _mend_equations)
        elif "/charts/chart" in name:
            is_changed |= _change(package, name, _make_ids_positive)
    return package.save(path) if is_changed else path


def _change(package: Package, name: str, change: Callable[[Element], bool]) -> bool:
    root = package.xml(name)
    if not change(root):
        return False
    package.set_xml(name, root)
    return True


def _order_fonts(root: Element) -> bool:
    is_changed = False
    for font in root.iter("{*}font"):
        order = [child.tag.rpartition("}")[2] for child in font]
        if order != sorted(order, key=_rank):
            font[:] = sorted(font, key=lambda child: _rank(child.tag.rpartition("}")[2]))
            is_changed = True
    return is_changed


def _rank(name: str) -> int:
    return _FONT_ORDER.index(name) if name in _FONT_ORDER else len(_FONT_ORDER)


def _drop_ids(root: Element) -> bool:
    """Remove the `r:id` that openpyxl writes on a pivot table; only the workbook's list of caches may have one."""
    found = [key for key in root.attrib if key.endswith("}id")]
    for key in found:
        del root.attrib[key]
    return bool(found)


def _mend_equations(root: Element) -> bool:
    """Fix pandoc's equations: words have both `m:nor` and a style, and the count of matrix columns comes too late."""
    late = [one for one in root.iter(f"{_MATH}count") if one.getprevious() is not None]
    for one in late:
        one.getparent().insert(0, one)
    found = [
        one
        for properties in root.iter(f"{_MATH}rPr")
        if properties.find(f"{_MATH}nor") is not None
        for one in properties.findall(f"{_MATH}sty") + properties.findall(f"{_MATH}scr")
    ]
    for one in found:
        one.getparent().remove(one)
    return bool(found or late)


def _make_ids_positive(root: Element) -> bool:
    """Make the negative axis ids of python-pptx positive, in 31 bits as programs expect."""
    is_changed = False
    for name in _AXIS_IDS:
        for one in root.iter(f"{{*}}{name}"):
            value = one.get("val", "")
            if value.startswith("-") and value[1:].isdigit():
                one.set("val", str(int(value) % 2**31))
                is_changed = True
    return is_changed
