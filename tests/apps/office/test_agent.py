"""The agent: what it hands over is checked outside of its reach, findings go back, and nothing else comes out."""

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path

import docx
import pytest
from typer.testing import CliRunner

from apps.cli.main import app
from apps.office.agent import MAX_ROUNDS, OfficeRequest, OfficeResult, make_documents
from apps.office.chapters import WrittenChapter, find_chapter_errors, write_chapters
from apps.office.long_report import title_of
from apps.office.safe_xml import OfficeError
from apps.office.verify import copy_into_sandbox
from cua.errors import ConfigError
from cua.messages import Reply, TextPart, ToolCall
from cua.models.scripted import ScriptedModel

DRAFT = """
import docx, os, pathlib
pathlib.Path("out").mkdir(exist_ok=True)
document = docx.Document()
document.add_heading("Title", 1)
document.add_paragraph("Error! Reference source not found")
document.save("out/a.docx")
os.symlink("/etc/passwd", "out/passwd.txt") if not os.path.lexists("out/passwd.txt") else None
pathlib.Path("out/.hidden").write_text("x")
"""
MENDED = DRAFT.replace("Error! Reference source not found", "See the first chapter and the figure in it.")


def cell(code: str) -> Reply:
    call = ToolCall(id="a", name="ipython", arguments=json.dumps({"code": code}))
    return Reply(content="", tool_calls=(call,))


async def make(tmp_path: Path, replies: Iterator[Reply | str], **more: object) -> tuple[OfficeResult, ScriptedModel]:
    model = ScriptedModel(replies)
    order = OfficeRequest(instruction="Make a.docx", output=tmp_path / "made", **more)  # type: ignore[arg-type]
    return await make_documents(order, model=model, runs_dir=tmp_path / "runs"), model


@pytest.mark.slow
async def test_findings_go_back_and_are_mended(tmp_path: Path, libreoffice: Path) -> None:
    made, model = await make(
        tmp_path, iter([cell(DRAFT), "Done.", cell(MENDED), "Mended."]), expect=("a.docx:words>=5",)
    )
    assert (made.is_clean, made.rounds) == (True, 2)
    assert [path.name for path in made.files] == ["a.docx"]  # neither the link nor the hidden file
    told = "".join(part.text for part in model.received[2][-1].parts if isinstance(part, TextPart))
    assert "Error! Reference source not found" in told
    report = json.loads((tmp_path / "made" / "check" / "report.json").read_text())
    assert report["is_clean"] and report["files"][0]["facts"]["headings"] == 1
    assert (tmp_path / "made" / "check" / "a.docx" / "page-001.png").is_file()


@pytest.mark.slow
async def test_what_is_not_mended_is_reported(tmp_path: Path, libreoffice: Path) -> None:
    made, _ = await make(tmp_path, iter([cell(DRAFT), "Done.", "I cannot."]), rounds=1)
    assert (made.is_clean, made.rounds) == (False, 2)
    assert "broken-reference" in made.to_text()


@pytest.mark.slow
async def test_files_that_only_the_answer_names_are_findings(tmp_path: Path, libreoffice: Path) -> None:
    code = MENDED + "document.save('b.docx')\nprint('saved b.docx')"
    (tmp_path / "notes.csv").write_text("a")
    replies = iter([cell(code), "From notes.csv I made a.docx and b.docx.", "a.docx holds all; there is no b.docx."])
    made, model = await make(tmp_path, replies, files=(tmp_path / "notes.csv",))
    assert (made.is_clean, made.rounds, made.missing) == (True, 2, [])
    told = "".join(part.text for part in model.received[2][-1].parts if isinstance(part, TextPart))
    assert "the answer names b.docx, which is neither in out/ nor an input" in told


@pytest.mark.slow
async def test_nothing_and_garbage_are_not_clean(tmp_path: Path) -> None:
    code = "import pathlib\npathlib.Path('out').mkdir()\npathlib.Path('out/a.docx').write_bytes(b'PK garbage')"
    made, _ = await make(tmp_path, iter([cell(code), "Done."]), rounds=0)
    assert not made.is_clean and "a.docx: " in made.missing[0]
    (tmp_path / "other").mkdir()
    made, _ = await make(tmp_path / "other", iter(["Nothing to do."]), rounds=0)
    assert not made.is_clean and "there is no document" in made.to_text()


async def test_an_order_that_cannot_be_carried_out(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    with pytest.raises(ConfigError, match="instruction is empty"):
        await make_documents(OfficeRequest(instruction=" ", output=tmp_path / "new"))
    with pytest.raises(ConfigError, match="exists and is not an empty folder"):
        await make_documents(OfficeRequest(instruction="x", output=tmp_path / "full"))
    with pytest.raises(OfficeError, match="Did you mean 'words'"):
        await make_documents(OfficeRequest(instruction="x", output=tmp_path / "new", expect=("wrods>=1",)))
    assert (tmp_path / "full" / "a").read_text() == "mine"
    assert MAX_ROUNDS == 3


async def test_missing_packages_are_named_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ['no-such-writer>=1; extra == "office"'])
    with pytest.raises(ConfigError, match=r"no-such-writer>=1.*cua setup office"):
        await make(tmp_path, iter([]))
    assert not (tmp_path / "runs").exists()


def test_expectations_of_one_file_and_of_all(tmp_path: Path) -> None:
    order = OfficeRequest(instruction="x", output=tmp_path, expect=("a.docx:words>=5", "pages=1"))
    assert (order.expectations("a.docx"), order.expectations("b.pdf")) == (["words>=5", "pages=1"], ["pages=1"])


def test_faults_of_a_chapter(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    text = "# One\n\n![A](a.png){#fig:a} ![B](b.png) @fig:a @fig:z [@doe; @roe]"
    assert find_chapter_errors(text, "@book{doe, title={X}}", tmp_path) == [
        "the image 'b.png' is not in the working folder",
        "works.bib has no entry for roe",
        "the text refers to 'fig:z', which nothing is labelled with",
    ]
    assert "does not begin" in find_chapter_errors("Text", "", tmp_path)[0]


def test_a_chapter_takes_no_files_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "chapter").mkdir()
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "chapter" / "link.png").symlink_to(tmp_path / "secret.png")
    for name in ("../secret.png", "link.png", str(tmp_path / "secret.png")):
        assert "is not in the working folder" in find_chapter_errors(f"# A\n![x]({name})", "", tmp_path / "chapter")[0]


def test_images_of_chapters_keep_apart(tmp_path: Path) -> None:
    chapters = []
    for number in (1, 2):
        folder = tmp_path / f"t{number}"
        folder.mkdir()
        (folder / "fig 1.png").write_bytes(bytes([number]))
        (folder / "fig.png").write_bytes(bytes([number]))
        text = f"# C{number}\n![a](fig.png){{#fig:a}}"
        chapters.append(WrittenChapter(number=number, title="", text=text, works="", folder=folder, task=f"t{number}"))
    (tmp_path / "all").mkdir()
    write_chapters(chapters, tmp_path / "all")
    assert "](chapter-2/fig.png)" in (tmp_path / "all" / "chapter-2" / "chapter.md").read_text()
    assert (tmp_path / "all" / "chapter-2" / "fig.png").read_bytes() == b"\2"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("# Title\nAnn\nMore.", ("Title", "Ann")), ("", ("Report", "")), ("Title\n\nText " * 40, ("Title", ""))],
)
def test_title_of_an_answer(answer: str, expected: tuple[str, str]) -> None:
    assert title_of(answer) == expected


@pytest.mark.slow
def test_check_and_diff_from_the_command_line(tmp_path: Path, libreoffice: Path) -> None:
    for name, text in (("a", "One word."), ("b", "Two words.")):
        document = docx.Document()
        document.add_paragraph(text)
        document.save(str(tmp_path / f"{name}.docx"))
    (tmp_path / "broken.docx").write_bytes(b"PK\3\4")
    run = CliRunner().invoke
    clean = run(app, ["office", "check", str(tmp_path / "a.docx")])
    assert (clean.exit_code, clean.stdout.splitlines()[-1]) == (0, "clean")
    assert (tmp_path / "a.docx-pages" / "page-001.png").is_file()
    short = run(app, ["office", "check", str(tmp_path / "a.docx"), "--expect", "words>=9", "--no-images"])
    assert short.exit_code == 1 and "2 words; asked for >= 9" in short.stdout
    broken = run(app, ["office", "check", str(tmp_path / "broken.docx")])
    assert isinstance(broken.exception, OfficeError) and "damaged" in str(broken.exception)
    differs = run(
        app, ["office", "diff", str(tmp_path / "a.docx"), str(tmp_path / "b.docx"), "-i", str(tmp_path / "d")]
    )
    assert differs.exit_code == 1 and "One word." in differs.stdout
    assert (tmp_path / "d" / "page-001.png").is_file()


@pytest.mark.long
def test_an_error_names_the_file_as_its_owner_does(tmp_path: Path) -> None:
    broken = tmp_path / "my report (3).docx"
    broken.write_bytes(b"PK\3\4")
    said = CliRunner().invoke(app, ["office", "check", "--no-images", str(broken)]).exception
    assert isinstance(said, OfficeError) and str(said).startswith("my report (3).docx is damaged: ")


@pytest.mark.parametrize("name", ["json.py", "-x.pdf", "images", "Grüße.XLSX"])
def test_a_name_hides_nothing_of_the_kernel(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / "kernel").mkdir()
    assert copy_into_sandbox(tmp_path / name, tmp_path / "kernel" / "given") == f"given/{name}"
    assert [path.name for path in (tmp_path / "kernel").iterdir()] == ["given"]
