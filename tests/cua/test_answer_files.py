"""File names in answers: invented ones are found, and what only looks like a file is not."""

from pathlib import Path

import pytest

from cua.answer_files import find_invented_files, find_missing_files
from cua.messages import Reply, TextPart, ToolCall, ToolResult
from cua.step import CallOutcome, ToolStep


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out" / "charts").mkdir(parents=True)
    for name in ("report.docx", "Q3 numbers (1).xlsx", "季度 报告.pptx", "charts/a.png", "STRASSE ß.pdf"):
        (tmp_path / "out" / name).write_text("x")
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("I made report.docx and summary.pdf.", ["summary.pdf"]),
        ('The files are in out/: `notes.md`, **slides.pptx**, "b.csv".', ["notes.md", "slides.pptx", "b.csv"]),
        ("You can find the chart in charts/b.png.", ["charts/b.png"]),
        ("The chart is other/a.png, the script `plot.py`.", ["other/a.png", "plot.py"]),
        ("final-report.docx has no errors, and report-2.docx has two.", ["final-report.docx", "report-2.docx"]),
        ("已保存为 总结.docx。", ["总结.docx"]),
        ('```json\n{"file": "x.csv"}\n```', ["x.csv"]),
        ("I did not change the text, and I saved x.docx.", ["x.docx"]),
        ("a.docx does not contain macros, b.xlsx is not encrypted.", ["a.docx", "b.xlsx"]),
        ("c.docx wurde nicht verändert, sondern neu erstellt.", ["c.docx"]),
        ("Not only a.docx but also b.docx was written. Nothing is missing in c.docx.", ["a.docx", "b.docx", "c.docx"]),
        ("已生成a.docx。ファイルは結果.xlsxです。", ["a.docx", "ファイルは結果.xlsx"]),
        ('I saved "my summary.pdf" and b (2).docx.', ["summary.pdf", "(2).docx"]),
        ("I renamed old.docx to new.docx. You should read a.docx.", ["new.docx", "a.docx"]),
    ],
)
def test_invented_files_are_found(folder: Path, answer: str, missing: list[str]) -> None:
    assert find_missing_files(answer, [folder]) == missing


@pytest.mark.parametrize(
    "answer",
    [
        "Done: out/report.docx, Report.docx's chart charts/a.png (also at /home/me/out/report.docx).",
        "I made Q3 numbers (1).xlsx, out/Q3 numbers (1).xlsx and 季度 报告.pptx，还有report.docx。",
        "See https://example.com/a/b.pdf, example.com/c.pdf, www.x.org/d.html and me@host.md.",
        "Node.js 1.2.md5 with np.log, e.g. x.pdf, version v1.2.3; formats: .docx, *.pdf, page-*.png, <name>.csv, a.b.c",
        'The letter says "please find terms.pdf attached" and\n> see annex.docx\n',
        "There is no file notes.txt; I could not open old.xls. data.csv is missing, b.csv does not exist.",
        "Neither a.pdf nor b.pdf was given. I can also create slides.pptx if you like.",
        "I looked for a.txt but found nothing. I deleted temp.csv and renamed old.docx to report.docx.",
        "You could convert it to a.pdf. I recommend to name it b.pdf. Ich könnte es als c.pdf speichern.",
        "没有找到总结.xlsx。文件报表.csv不存在。Je n'ai pas trouvé notes.txt. a.txt wurde nicht gefunden.",
        "a.txt has not been created, b.txt was never written, c.txt is not among the files, d.txt isn't there.",
        'The letter says "see annex.pdf".',
        "It wrote nothing.",
    ],
)
def test_what_is_not_an_invented_file(folder: Path, answer: str) -> None:
    assert find_missing_files(answer, [folder]) == []


def test_inputs_are_named_with_any_folder(folder: Path) -> None:
    answer = "The numbers of data/sales.xlsx are in report.docx."
    assert find_missing_files(answer, [folder], [Path("/home/me/data/sales.xlsx")]) == []


def test_long_answers_take_little_time(folder: Path) -> None:
    assert find_missing_files("a/" * 50_000 + "x" * 100_000 + " y.pdf", [folder]) == ["y.pdf"]


def test_names_in_data_are_not_invented(tmp_path: Path) -> None:
    def outcome(code: str, text: str) -> CallOutcome:
        call = ToolCall(id="a", name="ipython", arguments=code)
        return CallOutcome(number=0, call=call, result=ToolResult(parts=(TextPart(text=text),)))

    steps = [
        ToolStep(index=1, reply=Reply(content=""), outcomes=(outcome("print(mail)", "Attached: terms.pdf"),)),
        ToolStep(index=2, reply=Reply(content=""), outcomes=(outcome("print('saved b.csv')", "saved b.csv"),)),
    ]
    question = (TextPart(text="File /big/film.mp4: video.\n"), TextPart(text="Save b.csv; what is attached?"))
    answer = "The mail has terms.pdf, film.mp4 has no sound, the list is in b.csv and c.csv."
    assert find_invented_files(answer, steps, [question], tmp_path) == ["b.csv", "c.csv"]
