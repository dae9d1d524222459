"""Findings of the verifier on a merged document go back to the writers of the chapters that they are in."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import docx
import pytest

from apps.office.agent import OfficeRequest, OfficeResult
from apps.office.chapters import CHAPTER, WrittenChapter, find_chapter_errors, find_merge_errors, write_chapter
from apps.office.check.document import Sections
from apps.office.check.findings import CheckReport
from apps.office.long_report import REVISIONS, RevisionRounds, errors_by_chapter, make_long_document, remaining_limits
from apps.office.safe_xml import OfficeError
from cua.config import Settings
from cua.messages import Usage
from cua.models.scripted import ConversationScript
from cua.run.end import End, RunResult
from cua.swarm import PRESETS, SwarmOptions
from cua.swarm.budget import SwarmLimits
from tests.cua.swarm.test_swarm import OPTIONS

RESULT = RunResult(
    end=End(status="unverified", reason=""),
    num_steps=1,
    usage=Usage(input_tokens=900, output_tokens=100),
    duration_s=5.0,
)


def chapter(number: int, text: str = "# Title", works: str = "", folder: Path = Path()) -> WrittenChapter:
    return WrittenChapter(
        number=number, title="", text=text, works=works, folder=folder, task=f"t{number}", prompt="Write."
    )


def order(*expect: str, rounds: int = 3, output: Path = Path("out")) -> OfficeRequest:
    return OfficeRequest(instruction="A book", output=output, expect=expect, rounds=rounds)


def report(**more: object) -> CheckReport:
    return CheckReport(file="report.pdf", kind="pdf", sections=["One", "Two", "Three", "References"], **more)  # type: ignore[arg-type]


def test_a_finding_goes_to_the_chapter_that_it_is_in() -> None:
    one = report()
    one.add("error", "empty-page", "page 7 is empty", "page 7", section=2)
    one.add("warning", "left-over", "page 8 says 'TBD:'", "page 8", section=2)
    one.add("warning", "left-over", "page 3 says 'TBD:'", "page 3", section=1)  # alone no reason to write anew
    one.add("note", "schema-unchecked", "large", section=3)
    one.add("error", "font-not-embedded", "the font X is not in the file")  # of the whole: only reported
    one.add("error", "broken-reference", "in the references", section=4)
    chapters = [chapter(n) for n in (1, 2, 5)]  # numbers as they were assigned
    made = OfficeResult(run=RESULT, reports=[one])
    assert errors_by_chapter(made, order(), chapters) == {
        2: [
            "report.pdf: error: page 7 is empty (page 7) [empty-page]",
            "report.pdf: warning: page 8 says 'TBD:' (page 8) [left-over]",
        ]
    }
    one.sections.append("A heading that no chapter begins with")
    assert errors_by_chapter(made, order(), chapters) == {}


def test_what_the_whole_lacks_is_shared_out() -> None:
    chapters = [chapter(1, "# A long one"), chapter(2, "# B"), chapter(3, "# C mid")]
    made = OfficeResult(run=RESULT, reports=[report(facts={"words": 800, "figures": 1, "pages": 12})])
    found = errors_by_chapter(made, order("words>=1000", "figures>2", "pages<=10"), chapters)
    assert {number: [text.partition(": ")[2] for text in texts] for number, texts in found.items()} == {
        1: ["your share is 66 more words", "your share is 1 fewer pages, slides or printed pages"],
        2: ["your share is 67 more words", "your share is 1 more images in the text"],
        3: [
            "your share is 67 more words",
            "your share is 1 more images in the text",
            "your share is 1 fewer pages, slides or printed pages",
        ],
    }
    assert errors_by_chapter(made, order("words>=800", "bookmarks>=9"), chapters) == {}  # no writer makes bookmarks


def test_keys_that_stand_for_two_works_are_told_to_the_later_writer() -> None:
    chapters = [
        chapter(1, works="@book{doe, title={Sand}}"),
        chapter(2, works="@book{doe, title = {Sand}}"),
        chapter(3, "# C\n\n@fig:none", works="@book{doe, title={Water}}"),
    ]
    found = find_merge_errors(chapters)
    assert list(found) == [3]
    assert "'fig:none'" in found[3][0] and "another work in chapter 1" in found[3][1] and "Sand" in found[3][1]


def test_one_heading_of_the_first_level() -> None:
    fine = "# A\n\n## B\n\n```\n# a comment\n```\n\n| a |\n|---|\n"
    assert find_chapter_errors(fine, "", Path()) == []
    for second in ("# C\n", "C\n===\n"):
        assert "2 headings of the first level" in find_chapter_errors(fine + second, "", Path())[0]


def test_images_keep_apart_when_a_chapter_is_laid_out(tmp_path: Path) -> None:
    for name, data in (("a/x.png", b"1"), ("x.png", b"2"), ("x_.png", b"3"), ("x-.png", b"4")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    text = "![p](a/x.png){#fig:a} ![q](x.png) ![r](x_.png width=3) ![s](x-.png) ![again](a/x.png) ![gone](y.png)"
    write_chapter(chapter(1, text, folder=tmp_path), tmp_path / "new", prefix="new/")
    assert (tmp_path / "new" / CHAPTER).read_text() == (
        "![p](new/x.png){#fig:a} ![q](new/x-2.png) ![r](new/x-.png width=3) ![s](new/x--2.png) ![again](new/x.png) "
        "![gone](y.png)"
    )
    assert [(tmp_path / "new" / name).read_bytes() for name in ("x.png", "x-2.png", "x-.png", "x--2.png")] == [
        b"1", b"2", b"3", b"4",
    ]  # fmt: skip


def test_sections_of_a_document(tmp_path: Path) -> None:
    document = docx.Document()
    first = document.add_paragraph("Before")
    document.add_heading("One", 1)
    document.add_heading("Below", 2)
    table = document.add_table(1, 1)
    document.add_heading("Two", 1)
    last = document.add_paragraph("Last").add_run("!")
    where = Sections(document)
    assert where.titles == ["One", "Two"]
    inner = table.cell(0, 0).paragraphs[0]._p
    assert [where.of(one) for one in (first._p, inner, last._r, document.element.body)] == [0, 1, 2, 0]


def test_what_is_left_of_the_limits() -> None:
    settings = Settings(max_tokens=1500, max_time=60.0)
    assert remaining_limits(settings, RESULT) == {"max_tokens": 500, "max_time": 55.0}
    with pytest.raises(OfficeError, match=r"nothing is left of max_tokens \(1000\)"):
        remaining_limits(Settings(max_tokens=1000), RESULT)


WRITE = """
open("chapter.md", "w").write("# {title}\\n\\n{text} [@doe].\\n\\n## Part\\n\\nMore words on it.\\n")
open("works.bib", "w").write("@book{{doe, author={{Doe, Ann}}, title={{Sand}}, year={{2001}}}}")
"""


def line(whose: str, content: str, *calls: tuple[str, dict[str, object]], error: str = "") -> dict[str, object]:
    if error:
        return {"for": whose, "error": error}
    made = [{"id": str(at), "name": name, "arguments": json.dumps(given)} for at, (name, given) in enumerate(calls)]
    return {"for": whose, "content": content, "tool_calls": made}


def writer(whose: str, title: str, text: str) -> list[dict[str, object]]:
    cell = ("ipython", {"code": WRITE.format(title=title, text=text)})
    return [line(whose, "I write.", cell), line(whose, "Written.")]


def script(mending: list[dict[str, object]]) -> ConversationScript:
    """An editor, two writers of whom the second leaves a mark that the verifier finds, and what comes after that."""
    editor = "You are the editor of a long document."
    tasks = [{"agent": "w", "prompt": f"Chapter {n}: {title}\nWrite."} for n, title in ((1, "Sand"), (2, "Water"))]
    lines = [
        *mending,
        line(editor, "", ("create_subagent", {"name": "w", "system_prompt": "You write a chapter."})),
        line(editor, "", *(("assign_task", task) for task in tasks)),
        line(editor, "# Sand and water\nAnn\nTwo chapters."),
        *writer("Chapter 1: ", "Sand", "Sand is dry"),
        *writer("Chapter 2: ", "Water", "Water is ???"),
    ]
    return ConversationScript.read([json.dumps(one) for one in lines], "replies")


async def make(tmp_path: Path, model: ConversationScript, *, resume: Path | None = None, **more: int) -> OfficeResult:
    asked = order("words>=10", output=tmp_path / f"made-{resume is not None}", **more)  # type: ignore[arg-type]
    return await make_long_document(asked, model=model, resume=resume, runs_dir=tmp_path / "runs")


FOUND = "The verifier found something in your chapter"


@pytest.mark.slow
async def test_only_the_writer_of_the_faulty_chapter_mends(tmp_path: Path, libreoffice: Path) -> None:
    made = await make(tmp_path, script(writer(FOUND, "Water", "Water is wet")))
    assert (made.is_clean, made.rounds, made.missing) == (True, 2, [])
    text = "\n".join(one.text for one in docx.Document(str(tmp_path / "made-False" / "report.docx")).paragraphs)
    assert "Sand is dry" in text and "Water is wet" in text and "???" not in text
    (run_dir,) = (tmp_path / "runs").iterdir()
    (record,) = RevisionRounds(run_dir, {}).records
    assert record.parent.name == REVISIONS
    (task,) = json.loads((record / "plan.json").read_text())
    assert task["prompt"].startswith("Chapter 2: Water\nWrite.\n") and task["writer"]["system_prompt"]
    assert "says '???'" in task["prompt"] and task["files"] == ["chapter.md", "works.bib"]
    checked = json.loads((tmp_path / "made-False" / "check" / "report.json").read_text())
    assert checked["is_clean"] and checked["rounds"] == 2


@pytest.mark.slow
async def test_rounds_are_bounded_and_what_is_left_is_reported(tmp_path: Path, libreoffice: Path) -> None:
    made = await make(tmp_path, script([line(FOUND, "I like it so.")]), rounds=1)
    assert (made.is_clean, made.rounds) == (False, 2)
    assert "page" in made.to_text() and "'???'" in made.to_text()
    assert (tmp_path / "made-False" / "report.pdf").is_file()


@pytest.mark.slow
async def test_a_round_that_broke_off_is_gone_on_with(tmp_path: Path, libreoffice: Path) -> None:
    broken = await make(tmp_path, script([line(FOUND, "", error="server down")]))
    assert (broken.is_clean, broken.rounds) == (False, 1)  # no chapter was fixed: the round does not count
    assert broken.missing == ["a revision round ended as failed: all 1 sub-agents failed, t001: server down"]
    (run_dir,) = (tmp_path / "runs").iterdir()
    made = await make(tmp_path, script(writer(FOUND, "Water", "Water is wet")), resume=run_dir)
    assert (made.is_clean, made.rounds) == (True, 2)


async def test_writers_that_a_limit_ended_go_on_when_it_is_raised(tmp_path: Path) -> None:
    written = replace(chapter(2, "# Water", folder=tmp_path / "chapter"), prompt="Chapter 2: Water\nWrite.")
    notes = [line(FOUND, "", ("note", {"text": str(number)})) for number in range(5)]
    model = ConversationScript.read([json.dumps(one) for one in [*notes, line(FOUND, "Fixed.")]], "replies")

    def rounds(child_calls: int) -> RevisionRounds:
        options = SwarmOptions(
            tools=OPTIONS.tools,
            preset=replace(PRESETS["standard"], child_calls=child_calls),
            limits=SwarmLimits(child_calls=child_calls),
        )
        return RevisionRounds(tmp_path, {"model": model, "options": options})

    first = await rounds(3).play({2: ["it says '???'"]}, [written], RESULT)
    assert first.end.reason == "no writer fixed its chapter: t001: 3 of 3 tool calls used"
    again = await rounds(30).go_on(RESULT)
    assert again is not None and (again.end.status, again.end.num_unfinished) == ("unverified", 0), again
    assert await rounds(30).go_on(RESULT) is None


def plans_in(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob(f"runs/*/{REVISIONS}/*/plan.json"))


@pytest.mark.slow
async def test_a_round_that_was_cut_short_is_finished_first(tmp_path: Path, libreoffice: Path) -> None:
    waits = {**line(FOUND, "I think."), "after_s": 600}
    making = asyncio.create_task(make(tmp_path, script([waits])))
    while not (plans := plans_in(tmp_path)):
        await asyncio.sleep(0.2)
        assert not making.done()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    run_dir = plans[0].parents[2]
    made = await make(tmp_path, script(writer(FOUND, "Water", "Water is wet")), resume=run_dir)
    assert (made.is_clean, made.rounds) == (True, 2)
    assert RevisionRounds(run_dir, {}).records == [plans[0].parent]  # gone on with, not begun anew
