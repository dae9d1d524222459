"""Office documents: additions to python-docx, openpyxl, python-pptx and typst, a verifier, and an agent.

    from apps.office import add_comment, replace_tracked, add_pivot, save_workbook, check_file

Importing this package loads nothing heavy; each name loads its module on first use.
"""

import importlib

_HOMES = {
    "apps.office.package": ("OfficePackage", "open_package", "find_kind"),
    "apps.office.safe_xml": ("OfficeError",),
    "apps.office.libreoffice": ("convert", "render_pdf"),
    "apps.office.pages": ("read_pages", "contact_sheet"),
    "apps.office.word.comments": ("add_comment", "reply_to", "resolve", "read_comments"),
    "apps.office.word.revisions": (
        *("replace_tracked", "delete_tracked", "insert_tracked"),
        *("read_revisions", "accept_revisions", "reject_revisions"),
    ),
    "apps.office.word.fields": (
        *("add_contents", "number_contents", "add_caption", "add_reference", "add_footnote", "headings"),
    ),
    "apps.office.sheets.pivot_writer": ("add_pivot",),
    "apps.office.sheets.pivots": ("read_pivots", "check_pivot"),
    "apps.office.sheets.recalculate": ("calculate", "fill_values"),
    "apps.office.sheets.workbook": (
        *("open_workbook", "save_workbook", "iterate_rows", "write_text", "csv_safe", "find_losses"),
    ),
    "apps.office.check.check": ("check_file",),
    "apps.office.diff": ("compare_files",),
    "apps.office.markdown": ("Manuscript", "Style", "write_docx", "write_pdf", "merge_manuscripts"),
    "apps.office.merge": ("merge_documents", "merge_pdfs", "read_form", "fill_form"),
    "apps.office.slides": ("new_slide", "fill_body", "place_image", "fit_text", "save_presentation"),
    "apps.office.corrections": ("tidy",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    """Load the module that defines a public name."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'apps.office' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
