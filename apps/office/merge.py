"""Merging of docx and PDF files, and filling of PDF forms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.office.package import open_package
from apps.office.safe_xml import FilePath, OfficeError, open_with
from cua.errors import name_choices
from envs.errors import require


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """Field of a form.

    Attributes:
        name: Name used to fill it.
        kind: `text`, `button`, `choice` or `signature`.
        value: Current value.
        options: Allowed values; empty if any value is allowed.
    """

    name: str
    kind: str
    value: str
    options: tuple[str, ...] = ()


_KINDS = {"/Tx": "text", "/Btn": "button", "/Ch": "choice", "/Sig": "signature"}


def merge_documents(paths: Sequence[FilePath], target: FilePath) -> Path:
    """Append docx files to the first one, which defines the styles; numbering, images, footnotes and comments are kept.

    Raises:
        OfficeError: If a file cannot be read, or none is given.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise OfficeError("there are no documents to merge")
    docx, compose = require("docx", "office"), require("docxcompose.composer", "office")
    for path in files:
        if open_package(path).kind != "docx":
            raise OfficeError(f"{path.name} is not a docx file")
    composer = compose.Composer(docx.Document(str(files[0])))
    for path in files[1:]:
        open_with("docxcompose", path, lambda path=path: composer.append(docx.Document(str(path))))  # type: ignore[misc]
    composer.save(str(target))
    return Path(target)


def merge_pdfs(paths: Sequence[FilePath], target: FilePath) -> Path:
    """Concatenate PDF files, with a bookmark for each and its own bookmarks below it.

    Raises:
        OfficeError: If a file cannot be read, or none is given.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise OfficeError("there are no PDF files to merge")
    writer = require("pypdf", "office").PdfWriter()
    for path in files:
        open_with("pypdf", path, lambda path=path: writer.append(str(path), outline_item=path.stem))  # type: ignore[misc]
    writer.write(str(target))
    return Path(target)


def read_form(path: FilePath) -> list[FormField]:
    """Return the fields of a PDF form in order; [] if it has none."""
    path = Path(path)
    reader = open_with("pypdf", path, lambda: require("pypdf", "office").PdfReader(str(path)))
    fields = []
    for name, field in (reader.get_fields() or {}).items():
        options = field.get("/_States_") or field.get("/Opt") or ()
        texts = tuple(str(option[0] if isinstance(option, list) else option) for option in options)
        kind = _KINDS.get(str(field.get("/FT")), "text")
        value = field.get("/V")
        fields.append(FormField(name=name, kind=kind, value="" if value is None else str(value), options=texts))
    return fields


def fill_form(path: FilePath, values: Mapping[str, str], target: FilePath) -> Path:
    """Fill fields of a PDF form.

    Raises:
        OfficeError: If there is no such field, or it does not accept that value.
    """
    path = Path(path)
    fields = {field.name: field for field in read_form(path)}
    for name, value in values.items():
        if name not in fields:
            raise OfficeError(f"{path.name} has no field {name!r}.{name_choices(name, fields)}")
        if fields[name].options and value not in fields[name].options:
            raise OfficeError(f"the field {name!r} takes one of {', '.join(fields[name].options)}, not {value!r}")
    writer = require("pypdf", "office").PdfWriter()
    writer.append(str(path))
    for page in writer.pages:
        writer.update_page_form_field_values(page, dict(values), auto_regenerate=False)
    writer.write(str(target))
    return Path(target)
