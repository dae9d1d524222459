"""Documents from one Markdown source, style and bibliography: docx by pandoc, PDF by pandoc and typst."""

import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.office.corrections import tidy
from apps.office.libreoffice import find_soffice, render_pdf
from apps.office.safe_xml import FilePath, OfficeError
from apps.office.word.fields import add_caption, add_contents, append_field, headings, number_contents
from apps.office.word.numbering import number_equations, number_headings
from envs.errors import require

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

_PANDOC_S = 300.0  # bounds a text that is crafted to block; hundreds of pages take less
_READER = "markdown+tex_math_dollars+footnotes+pipe_tables+table_captions+implicit_figures+link_attributes-raw_html"
_REFERENCE = re.compile(r"\[?@((?:fig|tbl|eq|sec):[\w-]+(?:\.[\w-]+)*)\]?")
_EQUATION_LABEL = re.compile(r"(\$\$(?:(?!\$\$).)+\$\$)[ \t]*(\{#eq:[\w.-]+\})", re.DOTALL)
_CAPTION_STYLES = {"Image Caption": "Figure", "Table Caption": "Table", "Captioned Figure": ""}
REFERENCES = "References"
IMAGE = re.compile(r"!\[(?:(?!!\[)[^\]])*\]\(([^)\s]+)")
"""Image of Markdown; the first group is its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Style of a document, the same in all programs.

    Attributes:
        font: Font of the text; `Liberation Serif` comes with LibreOffice and has the widths of Times New Roman.
        heading_font: Font of headings.
        color: Colour of headings, six hexadecimal digits.
        size_pt: Font size of the text.
        margin_cm: Margin on all sides.
        chapters_on_new_pages: True to start each first-level heading on a new page.
        language: Language for hyphenation and screen readers.
    """

    font: str = "Liberation Serif"
    heading_font: str = "Liberation Sans"
    color: str = "1F3864"
    size_pt: float = 11.0
    margin_cm: float = 2.5
    chapters_on_new_pages: bool = False
    language: str = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manuscript:
    """Text with its resources.

    Attributes:
        text: Markdown with LaTeX equations (`$...$`, `$$...$$`), footnotes, citations (`[@key]`), figures
            (`![Caption](image.png){#fig:name}`), labels of tables, equations (`$$...$$ {#eq:name}`) and sections
            (`# Title {#sec:name}`), and references to them (`@fig:name`). Headings with `{-}` have no number.
        title: Title of the document.
        author: Author below the title; "" for none.
        date: Date below the author; "" for none.
        bibliography: BibTeX; "" for none.
        folder: Folder of its images.
    """

    text: str
    title: str = ""
    author: str = ""
    date: str = ""
    bibliography: str = ""
    folder: Path = Path()

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))


def write_docx(manuscript: Manuscript, path: FilePath, style: Style | None = None, *, contents: bool = True) -> Path:
    """Write a docx file with numbered captions, equations and headings, and a table of contents with page numbers.

    Raises:
        OfficeError: If pandoc rejects the text, or an image or a cited work is missing.
    """
    path = Path(path)
    style, numbers = style or Style(), _read_numbers(manuscript)
    with tempfile.TemporaryDirectory(prefix="k25-pandoc-") as scratch:
        reference = Path(scratch) / "reference.docx"
        _write_reference(reference, style)
        options = ["-t", "docx", "--reference-doc", str(reference), "-o", str(path.absolute())]
        _run_pandoc(manuscript, numbers, Path(scratch), options)
    docx = require("docx", "office")
    document = docx.Document(str(path))
    _number_captions(document)
    number_equations(document)
    number_headings(document, numbers.headings)
    _fit_tables(document)
    if contents and headings(document):
        add_contents(document)
    document.save(str(path))
    if contents and headings(document) and find_soffice() is not None:
        with tempfile.TemporaryDirectory(prefix="k25-contents-") as scratch:
            number_contents(path, render_pdf(path, Path(scratch) / "pages.pdf"))
    return tidy(path)


def write_pdf(manuscript: Manuscript, path: FilePath, style: Style | None = None, *, contents: bool = True) -> Path:
    """Write a PDF file with typeset equations, links and bookmarks; fonts are embedded.

    Raises:
        OfficeError: If `write_docx` would raise, or typst rejects pandoc's output.
    """
    path = Path(path)
    typst = require("typst", "office")
    style, numbers = style or Style(), _read_numbers(manuscript)
    with tempfile.TemporaryDirectory(prefix="k25-typst-") as scratch:
        body = Path(scratch) / "body.typ"
        _run_pandoc(manuscript, numbers, Path(scratch), ["-t", "typst", "-o", str(body)])
        source = manuscript.folder.absolute() / ".typeset.typ"
        text = re.sub(r"\[(Figure|Table|Equation|Section) ([\d.]+)\]", r"[\1 \2]", body.read_text("utf-8"))
        source.write_text(_preamble(manuscript, style, contents=contents) + text, "utf-8")
        try:
            typst.compile(str(source), output=str(path.absolute()), root=str(manuscript.folder.absolute()))
        except RuntimeError as error:
            raise OfficeError(f"typst cannot typeset the text: {error}") from error
        finally:
            source.unlink(missing_ok=True)
    return path


def merge_manuscripts(chapters: Sequence[Manuscript], title: str, *, author: str = "", date: str = "") -> Manuscript:
    """Merge manuscripts into one: labels and footnotes are kept distinct, each work is listed once.

    Args:
        chapters: Chapters in order; each begins with a first-level heading; their images are below one folder.
        title: Title of the merged document.
        author: Author of the merged document.
        date: Date of the merged document.

    Raises:
        OfficeError: If two chapters use one key for different works.
    """
    texts = [_with_own_labels(chapter.text, number) for number, chapter in enumerate(chapters, 1)]
    return Manuscript(
        text="\n\n".join(texts),
        title=title,
        author=author,
        date=date,
        bibliography=merge_bibliographies([chapter.bibliography for chapter in chapters]),
        folder=chapters[0].folder if chapters else Path(),
    )


def merge_bibliographies(texts: Sequence[str]) -> str:
    """Merge several BibTeX texts, each work once.

    Raises:
        OfficeError: If one key is used for different works.
    """
    works: dict[str, str] = {}
    for text in texts:
        for key, work in works_by_key(text).items():
            if not is_same_work(works.setdefault(key, work), work):
                raise OfficeError(f"the key {key!r} is used for two different works; use another key for one of them")
    return "\n\n".join(works[key] for key in sorted(works))


def is_same_work(entry: str, other: str) -> bool:
    """Return whether two BibTeX entries are equal except for spaces, case and punctuation."""
    first, second = (re.sub(r"\W+", "", text).lower() for text in (entry, other))
    return first == second


def cited_keys(text: str) -> set[str]:
    """Return the keys of the works that a text cites."""
    plain = re.sub(r"`[^`]*`|\$[^$]*\$", "", text)
    keys = re.findall(r"(?<![\w.])@([A-Za-z][\w:.-]*\w)", plain)
    return {key for key in keys if not key.startswith(("fig:", "tbl:", "sec:", "eq:"))}


def works_by_key(text: str) -> dict[str, str]:
    """Return the entries of a BibTeX text by key."""
    return {entry.partition("{")[2].partition(",")[0].strip(): entry.strip() for entry in _entries(text)}


def _entries(text: str) -> list[str]:
    """Split a BibTeX text into its entries by their braces."""
    entries, depth, start = [], 0, -1
    for at, letter in enumerate(text):
        if letter == "@" and depth == 0:
            start = at
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0 and start >= 0:
                entries.append(text[start : at + 1])
                start = -1
    return entries


def _with_own_labels(text: str, number: int) -> str:
    text = re.sub(r"\[\^([\w-]+)\]", rf"[^c{number}-\1]", text)
    text = re.sub(r"\{#((?:fig|tbl|sec|eq):)([\w.-]+)", rf"{{#\1c{number}-\2", text)
    return re.sub(r"@((?:fig|tbl|sec|eq):)([\w-]+)", rf"@\1c{number}-\2", text)


@dataclass(slots=True, kw_only=True)
class _Numbers:
    """Numbers of a text as typst gives them, so that docx and PDF have the same ones.

    Attributes:
        labels: Name and number of each label, such as `Figure 2`.
        headings: True for each heading that has a number, in order.
        counts: Figures, tables, equations and sections so far.
    """

    labels: dict[str, str] = field(default_factory=dict)
    headings: list[bool] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    levels: list[int] = field(default_factory=list)

    def add(self, node: Any) -> None:
        """Count an element of pandoc's syntax tree and all elements in it."""
        if isinstance(node, list):
            for child in node:
                self.add(child)
        elif isinstance(node, dict):
            kind, content = node.get("t"), node.get("c", [])
            if kind == "Header":
                self._add_heading(content[0], *content[1][:2])
            elif kind in ("Figure", "Table") and content[1][1]:
                self._count(kind, content[0][0])
            elif kind == "Span" and content[0][0].startswith("eq:"):
                self.labels[content[0][0]] = f"Equation {self.counts['Equation'] + 1}"
            elif kind == "Math" and content[0]["t"] == "DisplayMath":
                self._count("Equation", "")
            self.add(content)

    def _count(self, name: str, label: str) -> None:
        self.counts[name] += 1
        if label:
            self.labels[label] = f"{name} {self.counts[name]}"

    def _add_heading(self, level: int, label: str, classes: Sequence[str]) -> None:
        self.headings.append("unnumbered" not in classes)
        if self.headings[-1]:
            self.levels = [*self.levels, *[0] * level][:level]
            self.levels[-1] += 1
            self.labels[label] = f"Section {'.'.join(map(str, self.levels))}"


def _read_numbers(manuscript: Manuscript) -> _Numbers:
    """Number the figures and tables with captions, the displayed equations and the headings of a text."""
    numbers = _Numbers()
    text = _EQUATION_LABEL.sub(r"[\1]\2", manuscript.text)
    numbers.add(json.loads(_call_pandoc(text, ["-f", _READER, "-t", "json"], manuscript.folder).stdout)["blocks"])
    return numbers


def _resolve_references(text: str, labels: Mapping[str, str]) -> str:
    """Replace references to figures, tables, equations and sections by their numbers."""
    missing = sorted({key for key in _REFERENCE.findall(text) if key not in labels})
    if missing:
        known = sorted(label for label in labels if ":" in label)
        raise OfficeError(f"the text refers to the label {missing[0]!r}, which does not exist; labels: {known[:12]}")
    text = _EQUATION_LABEL.sub(r"[\1]\2", text)
    return _REFERENCE.sub(lambda match: f"[{labels[match[1]]}](#{match[1]})", text)


def _run_pandoc(manuscript: Manuscript, numbers: _Numbers, scratch: Path, options: Sequence[str]) -> None:
    text = _resolve_references(manuscript.text, numbers.labels)
    for image in IMAGE.findall(text):
        if "://" in image or not (manuscript.folder / image).is_file():
            raise OfficeError(f"the image {image!r} is not in {manuscript.folder or Path()}; images are not downloaded")
    arguments = ["-f", _READER, "--resource-path", str(manuscript.folder.absolute()), *options]
    metadata = {"lang": "en", "title": manuscript.title, "author": manuscript.author, "date": manuscript.date}
    if manuscript.bibliography:
        (scratch / "works.bib").write_text(manuscript.bibliography, "utf-8")
        arguments += ["--citeproc", "--bibliography", str(scratch / "works.bib"), "--metadata", "link-citations=true"]
        metadata["reference-section-title"] = REFERENCES
    (scratch / "metadata.json").write_text(
        json.dumps({key: value for key, value in metadata.items() if value}), "utf-8"
    )
    done = _call_pandoc(text, [*arguments, "--metadata-file", str(scratch / "metadata.json")], manuscript.folder)
    lost = [line for line in done.stderr.splitlines() if "not found" in line or "Could not convert TeX" in line]
    if lost:
        raise OfficeError(f"pandoc warns: {lost[0].strip()[:300]}")


def _call_pandoc(text: str, arguments: Sequence[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    argv = [require("pypandoc", "office").get_pandoc_path(), *arguments]
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=_PANDOC_S, check=False, cwd=folder
        )
    except subprocess.TimeoutExpired as error:
        raise OfficeError(f"pandoc did not finish within {_PANDOC_S:g} s") from error
    if done.returncode:
        raise OfficeError(f"pandoc cannot read the text: {done.stderr.strip()[:500]}")
    return done


def _write_reference(path: Path, style: Style) -> None:
    """Write the reference document that defines pandoc's styles."""
    pypandoc, docx, shared = require("pypandoc", "office"), require("docx", "office"), require("docx.shared", "office")
    data = subprocess.run(
        [pypandoc.get_pandoc_path(), "--print-default-data-file", "reference.docx"],
        capture_output=True,
        check=True,
        timeout=_PANDOC_S,
    )
    path.write_bytes(data.stdout)
    document = docx.Document(str(path))
    for word_style in document.styles:
        name = word_style.name or ""
        if not hasattr(word_style, "font"):
            continue
        is_heading = name.startswith("Heading") or name in ("Title", "Subtitle", "TOC Heading")
        if is_heading or name in ("Normal", "Body Text", "First Paragraph", "Compact", "Bibliography"):
            _set_font(word_style, style.heading_font if is_heading else style.font)
        if is_heading:
            word_style.font.color.rgb = shared.RGBColor.from_string(style.color)
        elif name == "Normal":
            word_style.font.size = shared.Pt(style.size_pt)
        if name == "Heading 1":
            word_style.paragraph_format.page_break_before = style.chapters_on_new_pages
        if name in ("Body Text", "First Paragraph"):
            word_style.paragraph_format.line_spacing = 1.15
    for section in document.sections:
        section.page_width, section.page_height = shared.Cm(21.0), shared.Cm(29.7)
        margin = shared.Cm(style.margin_cm)
        section.left_margin = section.right_margin = section.top_margin = section.bottom_margin = margin
        _add_page_number(section.footer.paragraphs[0])
    document.save(str(path))


def _set_font(style: Any, name: str) -> None:
    style.font.name = name
    fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
    for key in [name for name in fonts.attrib if name.endswith("Theme")]:
        del fonts.attrib[key]
    for key in ("ascii", "hAnsi", "cs", "eastAsia"):
        fonts.set(f"{{{fonts.nsmap['w']}}}{key}", name)


def _add_page_number(paragraph: Any) -> None:
    paragraph.alignment = require("docx.enum.text", "office").WD_ALIGN_PARAGRAPH.CENTER
    append_field(paragraph._p, "PAGE", "1")


def _number_captions(document: "DocxDocument") -> None:
    """Convert pandoc's captions into numbered ones that word processors continue."""
    centre = require("docx.enum.text", "office").WD_ALIGN_PARAGRAPH.CENTER
    for paragraph in document.paragraphs:
        label = _CAPTION_STYLES.get(paragraph.style.name or "") if paragraph.style is not None else None
        if label and paragraph.text.strip():
            text = paragraph.text.strip()
            add_caption(paragraph, "Figure" if label == "Figure" else "Table", text)
            paragraph.paragraph_format.keep_with_next = label == "Table"
            paragraph.alignment = centre
        elif label == "":
            paragraph.alignment = centre


def _fit_tables(document: "DocxDocument") -> None:
    """Add rules to pandoc's tables, which have none, in the style of books."""
    for table in document.tables:
        if not any(style.name == "Light List Accent 1" for style in document.styles):
            _rule(table)


def _rule(table: Any) -> None:
    oxml = require("docx.oxml", "office")
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    lines = "".join(
        f'<w:{side} w:val="single" w:sz="{width}" w:space="0" w:color="{color}"/>'
        for side, width, color in (("top", 8, "000000"), ("bottom", 8, "000000"), ("insideH", 4, "BFBFBF"))
    )
    properties = table._tbl.tblPr
    for old in properties.findall(f"{{{space}}}tblBorders"):
        properties.remove(old)
    borders = oxml.parse_xml(f'<w:tblBorders xmlns:w="{space}">{lines}</w:tblBorders>')
    later = {"shd", "tblLayout", "tblCellMar", "tblLook", "tblCaption", "tblDescription"}
    before = next((child for child in properties if child.tag.rpartition("}")[2] in later), None)
    if before is None:
        properties.append(borders)
    else:
        before.addprevious(borders)


def _preamble(manuscript: Manuscript, style: Style, *, contents: bool) -> str:
    title, author, date = (json.dumps(value) for value in (manuscript.title, manuscript.author, manuscript.date))
    lines = [
        "#let horizontalrule = line(length: 100%)",
        f"#set document(title: {title}, author: {author})" if manuscript.author else f"#set document(title: {title})",
        f'#set page(paper: "a4", margin: {style.margin_cm}cm, numbering: "1")',
        f'#set text(font: ("Libertinus Serif",), size: {style.size_pt}pt, lang: "{style.language}")',
        "#set par(justify: true)",
        '#set heading(numbering: "1.1")',
        '#set math.equation(numbering: "(1)")',
        f'#show heading: set text(fill: rgb("#{style.color}"))',
        "#show link: underline",
        "#set table(stroke: (x: none, y: 0.4pt + gray), inset: 5pt)",
        "#show figure.where(kind: table): set figure.caption(position: top)",
        "#show figure.where(caption: none): set figure(numbering: none)",
    ]
    if style.chapters_on_new_pages:
        lines.append("#show heading.where(level: 1): it => { pagebreak(weak: true); it }")
    if manuscript.title:
        lines.append(f'#align(center)[#text(20pt, weight: "bold")[#{title}]')
        lines += [f"\\ #{value}" for value in (author, date) if value != '""']
        lines.append("]")
    if contents:
        lines.append("#outline(depth: 2)")
    return "\n".join([*lines, "", ""])
