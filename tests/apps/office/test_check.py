"""The verifier: clean files are clean, and each injected fault is found."""

import io
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from openpyxl.chart import BarChart, Reference
from PIL import Image
from pptx.util import Inches

from apps.office.check.check import check_file
from apps.office.check.findings import CheckReport, Expectation, RenderedFile
from apps.office.check.glyphs import check_package_glyphs
from apps.office.check.slides import check_slides
from apps.office.libreoffice import render_pdf
from apps.office.markdown import Manuscript, write_docx, write_pdf
from apps.office.package import OfficePackage
from apps.office.safe_xml import OfficeError
from apps.office.sheets.pivot_writer import add_pivot
from apps.office.sheets.workbook import save_workbook
from apps.office.slides import fill_body, new_slide, place_image, save_presentation
from apps.office.word.comments import add_comment

TEXT = """# One

Words with a footnote[^1] and $a^2$, see @fig:one.

[^1]: A note.

![A square](one.png){#fig:one width=30%}

# Two

$$\\sum_{k=1}^n k$$ More words [@doe].
"""
WORKS = "@book{doe, author={Doe, Jo}, title={A Book}, publisher={P}, year={2001}}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, libreoffice: Path) -> Path:
    """A clean file of each kind; the workbook's values are LibreOffice's."""
    folder = tmp_path_factory.mktemp("made")
    Image.new("RGB", (60, 40), "navy").save(folder / "one.png")
    manuscript = Manuscript(text=TEXT, title="Title", bibliography=WORKS, folder=folder)
    write_docx(manuscript, folder / "a.docx")
    write_pdf(manuscript, folder / "a.pdf")
    document = docx.Document(str(folder / "a.docx"))
    add_comment(document, "More words", "Which?", author="Ann")
    document.save(str(folder / "a.docx"))
    make_workbook(folder)
    make_slides(folder)
    return folder


def make_workbook(folder: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Data"
    for row in (["Shop", "Cups"], ["A", 10], ["B", 20], ["A", 5]):
        sheet.append(row)
    sheet["D1"] = "=SUM(B2:B4)"
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=4), titles_from_data=True)
    sheet.add_chart(chart, "F2")
    add_pivot(workbook.create_sheet("Pivot"), sheet, rows=["Shop"], values={"Cups": "sum"})
    save_workbook(workbook, folder / "a.xlsx")


def make_slides(folder: Path) -> None:
    presentation = pptx.Presentation()
    fill_body(new_slide(presentation, "Title and Content", "First", "Say hello."), ["One line", "Another line"])
    place_image(new_slide(presentation, "Title Only", "Second"), folder / "one.png")
    save_presentation(presentation, folder / "a.pptx")


def rewrite(path: Path, target: Path, name: str, change: Callable[[str], str]) -> Path:
    """Change one part of a file, or take it away when nothing is left."""
    with zipfile.ZipFile(path) as file:
        parts = {one: file.read(one) for one in file.namelist()}
    before = parts[name].decode()
    after = change(before)
    assert after != before, "the fault was not injected"
    if after:
        parts[name] = after.encode()
    else:
        del parts[name]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for one, data in parts.items():
            file.writestr(one, data)
    return target


def codes(report: CheckReport) -> set[str]:
    return {one.code for one in report.findings if one.level == "error"}


def swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


WORD = "word/document.xml"
DAMAGES = {
    "lost image": (
        "a.docx",
        "word/_rels/document.xml.rels",
        lambda t: re.sub(r'Target="media/[^"]*"', 'Target="media/no.png"', t),
        "broken-relationship",
    ),
    "lost comment": (
        "a.docx",
        "word/comments.xml",
        lambda t: re.sub(r"<w:comment .*</w:comment>", "", t, flags=re.S),
        "broken-comment",
    ),
    "unanchored comment": (
        "a.docx",
        WORD,
        lambda t: re.sub(r"<w:comment(RangeStart|RangeEnd|Reference) [^>]*/>", "", t),
        "unanchored-comment",
    ),
    "caption out of order": (
        "a.docx",
        WORD,
        lambda t: re.sub(r"(SEQ Figure.*?separate.*?<w:t[^>]*>)1<", r"\g<1>7<", t, flags=re.S),
        "caption-numbers",
    ),
    "lost footnote": (
        "a.docx",
        WORD,
        lambda t: re.sub(r'(<w:footnoteReference w:id=)"\d+"', r'\1"99"', t),
        "broken-footnote",
    ),
    "lost bookmark": (
        "a.docx",
        WORD,
        lambda t: re.sub(r'w:name="_Toc[^"]*"', 'w:name="gone"', t, count=1),
        "broken-reference",
    ),
    "contents without pages": (
        "a.docx",
        WORD,
        lambda t: re.sub(r"(PAGEREF.*?separate.*?<w:t[^>]*>)\d+<", r"\g<1>0<", t, count=1, flags=re.S),
        "contents-pages",
    ),
    "heading renamed": (
        "a.docx",
        WORD,
        lambda t: t[: t.rindex(">Two<")] + ">Zwei<" + t[t.rindex(">Two<") + 5 :],
        "stale-contents",
    ),
    "image too wide": (
        "a.docx",
        WORD,
        lambda t: re.sub(r'(<wp:extent [^>]*cx=)"\d+"', r'\1"99000000"', t),
        "image-overflow",
    ),
    "unknown element": ("a.docx", WORD, swap("<w:body>", "<w:body><w:nonsense/>"), "schema"),
    "reference not found": (
        "a.docx",
        WORD,
        swap("More words", "Error! Reference source not found"),
        "broken-reference",
    ),
    "figure that is not there": ("a.docx", WORD, swap("More words", "More words, see Figure 7,"), "missing-target"),
    "table that is not there": (
        "a.pptx",
        "ppt/slides/slide1.xml",
        swap("Another line", "Details are in Table 3"),
        "missing-target",
    ),
    "formula error": ("a.xlsx", "xl/worksheets/sheet1.xml", swap("SUM(B2:B4)", "SUM(B2:B4)/0"), "formula-error"),
    "stale value": ("a.xlsx", "xl/worksheets/sheet1.xml", swap("<v>35</v>", "<v>36</v>"), "stale-value"),
    "no value": ("a.xlsx", "xl/worksheets/sheet1.xml", swap("<v>35</v>", ""), "not-calculated"),
    "chart of a lost sheet": ("a.xlsx", "xl/charts/chart1.xml", swap("Data", "Gone"), "broken-reference"),
    "wrong pivot range": ("a.xlsx", "xl/pivotCache/pivotCacheDefinition1.xml", swap("A1:", "A2:"), "pivot-total"),
    "pivot of a lost sheet": (
        "a.xlsx",
        "xl/pivotCache/pivotCacheDefinition1.xml",
        swap('sheet="Data"', 'sheet="Gone"'),
        "broken-pivot",
    ),
    "shape beyond the slide": (
        "a.pptx",
        "ppt/slides/slide2.xml",
        lambda t: re.sub(r'<a:off x="\d+"', '<a:off x="9000000"', t),
        "shape-overflow",
    ),
    "stretched image": (
        "a.pptx",
        "ppt/slides/slide2.xml",
        lambda t: re.sub(r'(<a:ext cx=)"\d+"', r'\1"400000"', t),
        "stretched-image",
    ),
    "text below its frame": (
        "a.pptx",
        "ppt/slides/slide1.xml",
        swap("Another line", "long text " * 400),
        "text-overflow",
    ),
    "lost slide image": (
        "a.pptx",
        "ppt/slides/_rels/slide2.xml.rels",
        lambda t: re.sub(r"media/[^\"]*", "media/no.png", t),
        "broken-relationship",
    ),
}


def test_there_are_twenty_faults() -> None:
    assert len(DAMAGES) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx", "a.pdf"])
def test_clean_files_are_clean(name: str, made: Path, tmp_path: Path, libreoffice: Path) -> None:
    report = check_file(made / name, tmp_path)
    assert [one.to_text() for one in report.findings if one.level == "error"] == []
    assert len(report.opened_by) >= 2
    assert all((tmp_path / image).is_file() for image in report.images) and report.images


@pytest.mark.slow
@pytest.mark.parametrize("fault", DAMAGES)
def test_each_fault_is_found(fault: str, made: Path, tmp_path: Path, libreoffice: Path) -> None:
    name, part, change, code = DAMAGES[fault]
    damaged = rewrite(made / name, tmp_path / name, part, change)
    assert code in codes(check_file(damaged))


@pytest.mark.long
def test_pdf_counts_what_typst_tagged(made: Path) -> None:
    report = check_file(made / "a.pdf", expect=["equations=2", "pages=1", "words>=20", "fonts>=1"])
    assert codes(report) == set()
    assert (report.facts["bookmarks"], report.facts["captions"], report.facts["figures"]) == (3, 1, 1)


@pytest.mark.parametrize(
    ("name", "code", "level"),
    [("Garamond", "font-not-embedded", "error"), ("Helvetica-Bold", "standard-font", "note")],
)
def test_font_that_is_not_in_the_file(name: str, code: str, level: str, tmp_path: Path) -> None:
    import pypdf
    from pypdf.generic import DictionaryObject, NameObject, StreamObject

    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(200, 200)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject(f"/{name}"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = StreamObject()
    stream.set_data(b"BT /F1 12 Tf 20 100 Td (Hello) Tj ET")
    page[NameObject("/Contents")] = writer._add_object(stream)
    writer.write(tmp_path / "a.pdf")
    assert [(one.code, one.level) for one in check_file(tmp_path / "a.pdf").findings] == [(code, level)]


def test_encrypted_pdf(tmp_path: Path) -> None:
    import pypdf

    writer = pypdf.PdfWriter()
    writer.add_blank_page(200, 200)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(tmp_path / "a.pdf")
    with pytest.raises(OfficeError, match="encrypted with a password"):
        check_file(tmp_path / "a.pdf")


@pytest.fixture
def few_fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose only fonts are those of LibreOffice's recommendation, without Asian letters."""
    places = {path.parent for path in Path("/usr/share/fonts").rglob("Liberation*.ttf")}
    folders = "".join(f"<dir>{place}</dir>" for place in places)
    conf = tmp_path / "fonts.conf"
    conf.write_text(f"<fontconfig>{folders}<cachedir>{tmp_path / 'cache'}</cachedir></fontconfig>")
    monkeypatch.setenv("FONTCONFIG_FILE", str(conf))


def write_letters(folder: Path, text: str) -> list[Path]:
    document, workbook, presentation = docx.Document(), openpyxl.Workbook(), pptx.Presentation()
    document.add_paragraph(text)
    workbook.active["A1"] = text
    presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = text
    document.save(str(folder / "a.docx"))
    workbook.save(folder / "a.xlsx")
    presentation.save(str(folder / "a.pptx"))
    return [folder / name for name in ("a.docx", "a.xlsx", "a.pptx")]


@pytest.mark.slow
def test_letters_without_glyphs_are_named(tmp_path: Path, few_fonts: None, libreoffice: Path) -> None:
    files = write_letters(tmp_path, "Größe Ωλ “2 €” 季度 かな 한글")
    files.append(render_pdf(files[0], tmp_path / "a.pdf"))
    for path in files:
        found = {one.code: one.text for one in check_file(path).findings if one.level == "error"}
        assert found.keys() == {"missing-glyphs"}, path
        assert "季" in found["missing-glyphs"] and "CJK" in found["missing-glyphs"]
        assert "cua setup office installs a font for Chinese" in found["missing-glyphs"]
        assert "Ω" not in found["missing-glyphs"]


def make_font(letters: str) -> bytes:
    """A TrueType font whose glyphs for these letters are empty."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    names = [".notdef", *(f"u{ord(letter):04X}" for letter in letters)]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap(dict(zip(map(ord, letters), names[1:], strict=True)))
    font.setupGlyf({name: TTGlyphPen(None).glyph() for name in names})
    font.setupHorizontalMetrics(dict.fromkeys(names, (500, 0)))
    font.setupHorizontalHeader()
    font.setupOS2()
    font.setupPost()
    data = io.BytesIO()
    font.save(data)
    return data.getvalue()


@pytest.mark.parametrize(
    ("font", "found"),
    [
        (make_font("季度"), []),
        (make_font("季"), [("error", "missing-glyphs", "'度'")]),
        (b"no font", [("warning", "glyphs-unchecked", "font1.odttf cannot be read")]),
    ],
)
def test_fonts_in_the_document_draw_its_letters(
    font: bytes, found: list[tuple[str, str, str]], tmp_path: Path, few_fonts: None
) -> None:
    """As Word and LibreOffice embed them: the beginning is combined with the key of the font table."""
    key = bytes.fromhex("0123456789ABCDEF0123456789ABCDEF")[::-1]
    hidden = bytes(byte ^ key[at % 16] for at, byte in enumerate(font[:32])) + font[32:]
    table = b'<w:fonts><w:embedRegular r:id="rId1" w:fontKey="{01234567-89AB-CDEF-0123-456789ABCDEF}"/></w:fonts>'
    text = "<w:t>Größe 季度</w:t>".encode()
    parts = {"word/document.xml": text, "word/fontTable.xml": table, "word/fonts/font1.odttf": hidden}
    report = CheckReport(file="a.docx", kind="docx")
    check_package_glyphs(OfficePackage(path=tmp_path / "a.docx", kind="docx", parts=parts), report)
    assert [(one.level, one.code) for one in report.findings] == [(level, code) for level, code, _ in found]
    assert all(words in one.text for one, (_, _, words) in zip(report.findings, found, strict=True))


@pytest.mark.long
def test_pdf_of_typst_without_glyphs(tmp_path: Path) -> None:
    path = write_pdf(Manuscript(text="Unassigned: \U0003fffa and \u0378"), tmp_path / "a.pdf", contents=False)
    assert codes(check_file(path)) == {"missing-glyphs"}


@pytest.mark.slow
def test_letters_with_glyphs_are_clean(tmp_path: Path, libreoffice: Path) -> None:
    for path in write_letters(tmp_path, "Größe Ωλ “2 €” e\u0301 a\u00adb\u200bc \ue000"):
        assert codes(check_file(path)) == set()


def test_every_finding_is_in_the_table_of_the_manual() -> None:
    root = Path(__file__).parents[3]
    table = (root / "docs" / "office.md").read_text("utf-8")
    source = "".join(path.read_text("utf-8") for path in (root / "apps" / "office" / "check").glob("*.py"))
    written = set(re.findall(r'report\.add\(\s*(?:"\w+"|\w+_level),\s*"([a-z-]+)"', source))
    assert len(written) > 40
    assert [code for code in written if f"`{code}`" not in table] == []


@pytest.mark.parametrize("text", ["words", "words>>3", "wrods>=3", "words>=x"])
def test_what_is_no_expectation(text: str) -> None:
    with pytest.raises(OfficeError, match=r"not an expectation|Did you mean 'words'"):
        Expectation.parse(text)


def test_expectations() -> None:
    report = CheckReport(file="a", kind="docx", facts={"words": 100})
    report.expect(map(Expectation.parse, ["words>=100", "words=1_00", "pages<1", "words>100", "tables=2"]))
    assert [one.text for one in report.findings] == ["100 words; asked for > 100", "0 tables; asked for == 2"]
    assert CheckReport.from_json(report.to_json()) == report


@pytest.mark.long
def test_nothing_is_fetched_and_no_macro_runs(made: Path, tmp_path: Path, libreoffice: Path) -> None:
    """A linked image at an address of this machine: LibreOffice must not ask for it."""
    import http.server
    import threading

    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_OPTIONS = do_PROPFIND = do_GET

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/x.png"
        path = rewrite(
            made / "a.docx",
            tmp_path / "a.docx",
            "word/_rels/document.xml.rels",
            lambda t: re.sub(r'Target="media/[^"]*"', f'Target="{address}" TargetMode="External"', t),
        )
        report = check_file(path)
        server.shutdown()
    assert asked == []
    assert "external" in {one.code for one in report.findings}


@pytest.mark.long
def test_slide_helpers_refuse(made: Path) -> None:
    presentation = pptx.Presentation()
    with pytest.raises(OfficeError, match="Did you mean 'Title Only'"):
        new_slide(presentation, "Title only!", "x")
    slide = new_slide(presentation, "Title and Content", "x")
    with pytest.raises(OfficeError, match="does not fit even at 12 pt"):
        fill_body(slide, ["word " * 2000])
    picture = place_image(slide, made / "one.png", (0, 0, Inches(4), Inches(1)))
    assert picture.height == pytest.approx(Inches(1), rel=0.01)
    assert picture.width / picture.height == pytest.approx(1.5, rel=0.01)


def test_the_process_group_ends_with_its_time(tmp_path: Path, libreoffice: Path) -> None:
    from apps.office.libreoffice import convert

    source = tmp_path / "a.txt"
    source.write_text("x")
    with pytest.raises(OfficeError, match="did not finish"):
        convert(source, tmp_path / "a.pdf", timeout_s=0.05)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed


@pytest.mark.slow
def test_an_empty_slide_is_reported_once(tmp_path: Path, libreoffice: Path) -> None:
    """By its number, which is not that of the page after a hidden slide; also one whose shapes are all empty."""
    presentation = pptx.Presentation()
    for layout in (5, 6, 0, 6):
        presentation.slides.add_slide(presentation.slide_layouts[layout])
    presentation.slides[0].shapes.title.text = "Hidden"
    presentation.slides[0]._element.set("show", "0")
    presentation.save(str(tmp_path / "a.pptx"))
    found = [one for one in check_file(tmp_path / "a.pptx").findings if one.code == "empty-page"]
    assert [(one.text, one.place) for one in found] == [
        (f"slide {number} is empty", f"slide {number}") for number in (2, 3, 4)
    ]


def test_presentation_without_slides(tmp_path: Path) -> None:
    pptx.Presentation().save(str(tmp_path / "a.pptx"))
    report = CheckReport(file="a.pptx", kind="pptx")
    check_slides(RenderedFile(path=tmp_path / "a.pptx", package=None, pdf=None, pages=[]), report)
    assert [(one.code, one.text) for one in report.findings] == [("no-pages", "it has no slides; add one")]
