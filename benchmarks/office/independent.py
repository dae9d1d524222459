"""Second opinion on the files of the suite `office`: LibreOffice renders and re-saves the solutions, the words survive.

python -m benchmarks.office.independent
"""

import html
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from apps.office import find_kind, open_package, read_pages
from apps.office.suite import all_cases

_TEXT = re.compile(rb"<(?:\w+:)?t(?:\s[^>]*)?>([^<]+)<")

_UNDRAWN = re.compile(r"slideLayout|slideMaster|[nN]otes|[cC]omments")  # parts whose texts are on no page


def words_of(path: Path) -> set[str]:
    """Return the words in the text elements of an office file, on the pages of a PDF file, or of an HTML page."""
    if path.suffix == ".pdf":
        text = " ".join(page.text for page in read_pages(path))
    elif path.suffix == ".html":
        text = html.unescape(re.sub(r"<[^>]*>", " ", path.read_text("utf-8")))
    else:
        parts = [data for part, data in open_package(path).parts.items() if not _UNDRAWN.search(part)]
        text = " ".join(match.decode() for data in parts for match in _TEXT.findall(data))
    return set(re.findall(r"[^\W\d_]{4,}", text))


def convert_all(files: list[Path], ending: str, folder: Path) -> None:
    """Convert many files with one start of LibreOffice, with a profile of its own."""
    if not files:
        return
    argv = ["soffice", "--headless", f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--convert-to", ending]
    subprocess.run([*argv, "--outdir", str(folder), *map(str, files)], capture_output=True, check=False, timeout=900)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        root, files = Path(name), []
        for number, case in enumerate(case for case in all_cases() if not case.lacks()):
            folder = root / f"case{number}"
            folder.mkdir()
            case.prepare(folder)
            before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
            case.solve(folder)
            for path in folder.rglob("*"):
                if path.suffix in (".docx", ".xlsx", ".pptx") and before.get(path) != path.read_bytes():
                    files.append(Path(shutil.copy(path, root / f"{number}-{path.name}")))
        convert_all(files, "pdf", root / "drawn")
        counts: dict[str, Counter[str]] = {}
        for kind in ("docx", "xlsx", "pptx"):
            own = [path for path in files if path.suffix == f".{kind}"]
            convert_all(own, kind, root / "saved")
            convert_all(
                own if kind == "xlsx" else [], "html", root / "shown"
            )  # cells as displayed, whatever their width
            row = counts.setdefault(kind, Counter(files=len(own)))
            for path in own:
                words = words_of(path)
                row["words"] += len(words)
                for what, result in (
                    ("drawn", path.with_suffix(".pdf")),
                    ("shown", path.with_suffix(".html" if kind == "xlsx" else ".pdf")),
                    ("saved", path),
                ):
                    folder = root / ("drawn" if result.suffix == ".pdf" else what)
                    place = folder / result.name
                    if place.is_file() and (what != "saved" or find_kind(place) == kind):
                        row[what] += 1
                        row[f"{what} words"] += len(words & words_of(place))
        print(
            "| kind | files | rendered | words on the pages | whatever the column widths | re-saved | words after that |\n"
            "|---|--:|--:|--:|--:|--:|--:|"
        )
        for kind, row in counts.items():
            shares = [f"{row[f'{what} words'] / max(1, row['words']):.1%}" for what in ("drawn", "shown", "saved")]
            print(
                f"| {kind} | {row['files']} | {row['drawn']} | {' | '.join(shares[:2])} | {row['saved']} | {shares[2]} |"
            )


if __name__ == "__main__":
    main()
