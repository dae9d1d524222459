"""Functions that are called in the sandbox: paths of its folder as arguments, JSON values as results."""

from collections.abc import Sequence
from pathlib import Path

from apps.office.check.check import check_file
from apps.office.diff import compare_files
from apps.office.markdown import Manuscript, Style, merge_manuscripts, write_docx, write_pdf
from apps.office.safe_xml import OfficeError
from envs.errors import require

_MAX_SHOWN = 5  # images of pages per call: bounds the tokens


def check(name: str, images: str = "", expect: Sequence[str] = ()) -> dict[str, object]:
    """Run `check_file` and return its report as JSON."""
    return check_file(Path(name), Path(images) if images else None, expect).to_json()


def compare(before: str, after: str, images: str = "") -> dict[str, object]:
    """Run `compare_files` and return its result as JSON."""
    return compare_files(Path(before), Path(after), Path(images) if images else None).to_json()


def build_report(count: int, title: str, author: str) -> bool:
    """Merge `chapter-1/` to `chapter-COUNT/` of the folder to `report.docx` and `report.pdf`."""
    whole = merge_manuscripts([_read_chapter(number) for number in range(1, count + 1)], title, author=author)
    style = Style(chapters_on_new_pages=True)
    write_pdf(whole, Path("report.pdf"), style)
    write_docx(whole, Path("report.docx"), style)
    return True


def refused_chapters(count: int) -> dict[int, str]:
    """Return the typesetting errors of chapters, each built alone, by number."""
    refused = {}
    for number in range(1, count + 1):
        chapter = _read_chapter(number)
        try:
            write_pdf(chapter, Path(".alone.pdf"), contents=False)
            write_docx(chapter, Path(".alone.docx"), contents=False)
        except OfficeError as error:
            refused[number] = str(error)
    return refused


def _read_chapter(number: int) -> Manuscript:
    from apps.office.chapters import CHAPTER, WORKS

    folder = Path(f"chapter-{number}")
    return Manuscript(text=(folder / CHAPTER).read_text("utf-8"), bibliography=(folder / WORKS).read_text("utf-8"))


def show_chapter() -> str:
    """Return the errors of `chapter.md` or its counts, and display its pages."""
    from apps.office.chapters import CHAPTER, WORKS, find_chapter_errors

    text = Path(CHAPTER).read_text("utf-8")
    works = Path(WORKS).read_text("utf-8") if Path(WORKS).is_file() else ""
    errors = find_chapter_errors(text, works, Path())
    if errors:
        return "\n".join(f"error: {error}" for error in errors)
    write_docx(Manuscript(text=text, bibliography=works), Path(".chapter.docx"), contents=False)
    return "\n".join(("nothing is missing", show_check(".chapter.docx")))


def show_check(name: str, expect: Sequence[str] = ()) -> str:
    """Return the result of a check and display page images: all pages small, the first ones larger."""
    import tempfile

    from IPython.display import display

    image = require("PIL.Image", "office")
    with tempfile.TemporaryDirectory(prefix="k25-show-") as scratch:
        report = check_file(Path(name), Path(scratch), expect)
        for image_name in report.images[:_MAX_SHOWN]:
            with image.open(Path(scratch) / image_name) as opened:
                display(opened.copy())  # type: ignore[no-untyped-call]
        return report.to_text()
