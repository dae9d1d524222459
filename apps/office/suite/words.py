"""Cases on docx files: comments, tracked changes, headings, tables, footnotes, conversion."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from apps.office.suite.case import Failures, OfficeCase, open_checked
from apps.office.word.comments import add_comment, read_comments, reply_to, resolve
from apps.office.word.fields import add_contents, add_footnote, contents_paragraphs, headings
from apps.office.word.ranges import text_of
from apps.office.word.revisions import (
    accept_revisions,
    delete_tracked,
    insert_tracked,
    read_revisions,
    reject_revisions,
    replace_tracked,
)
from envs.errors import require

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

_TEXTS: dict[str, tuple[str, ...]] = {
    "contract": (
        "The supplier delivers 40 chairs by 3 May 2026.",
        "The buyer pays 2,400 euros within 30 days of delivery.",
        "Either side may end this contract with a notice of 60 days.",
    ),
    "minutes": (
        "Present were Ada, Bo and Chris; Dana sent her regrets.",
        "The budget of 12,000 euros was approved with one vote against.",
        "The next meeting is on 14 June at 10:00 in room 4.",
    ),
    "paper": (
        "We measured the yield of 24 plots over 3 seasons.",
        "The mean yield rose by 8 percent, with a standard error of 2.",
        "Soil moisture was logged every 15 minutes.",
    ),
    "letter": (
        "Thank you for your order of 12 September.",
        "The parcel leaves our house on Monday and should reach you by Thursday.",
        "For questions call 555 0100 between 9 and 17 o'clock.",
    ),
}
_ON = {
    "contract": ("within 30 days", "Please make it 45 days."),
    "minutes": ("one vote against", "Whose vote was it?"),
    "paper": ("standard error of 2", "Percent, or plots?"),
    "letter": ("by Thursday", "Is Friday a holiday there?"),
}
_CHANGES = {
    "contract": ("40 chairs", "44 chairs"),
    "minutes": ("room 4", "room 12"),
    "paper": ("8 percent", "6 percent"),
    "letter": ("on Monday", "on Tuesday"),
}


def word_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    for name in _TEXTS:
        yield _comment(name)
        yield _change(name)
    for author, accepts in (("Ann", True), ("Ann", False), ("Bo", True), ("Bo", False)):
        yield _settle(author, accepts=accepts)
    for name in ("contract", "minutes", "paper"):
        yield _collect(name)
        yield _structure(name)
    for name, after, note in (("contract", "40 chairs", "Model Alma, oak."), ("paper", "24 plots", "Of 50 m² each.")):
        yield _footnote(name, after, note)
    for name in ("minutes", "letter"):
        yield _to_markdown(name)


def _load(path: Path) -> "DocxDocument":
    document: DocxDocument = require("docx", "office").Document(str(path))
    return document


def _write(folder: Path, name: str) -> None:
    document = require("docx", "office").Document()
    document.add_heading(name.title(), 1)
    for text in _TEXTS[name]:
        paragraph = document.add_paragraph()
        half = len(text) // 2
        paragraph.add_run(text[:half])
        paragraph.add_run(text[half:]).italic = True
    document.save(str(folder / f"{name}.docx"))


def _texts(document: "DocxDocument") -> list[str]:
    return [text_of(paragraph._p) for paragraph in document.paragraphs if text_of(paragraph._p).strip()]


def _comment(name: str) -> OfficeCase:
    on, says = _ON[name]

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = _load(open_checked(folder / f"{name}.docx")), Failures()
        comments = read_comments(document)
        failures.expect(len(comments) == 1, f"{len(comments)} comments, expected 1")
        for comment in comments[:1]:
            failures.expect(comment.anchor == on, f"the comment is attached to {comment.anchor!r}, expected {on!r}")
            failures.expect(comment.text.strip() == says, f"the comment says {comment.text!r}, expected {says!r}")
            failures.expect(comment.author == "Reviewer", f"the comment is by {comment.author!r}, expected Reviewer")
        failures.expect(_texts(document)[1:] == list(_TEXTS[name]), "the text was changed")
        return failures.messages

    def act(folder: Path, words: str) -> None:
        document = _load(folder / f"{name}.docx")
        add_comment(document, words, says, author="Reviewer")
        document.save(str(folder / f"{name}.docx"))

    return OfficeCase(
        name=f"comment-{name}",
        family="annotate",
        instruction=f'In {name}.docx, put a comment by the author "Reviewer" on exactly the words "{on}". It says: {says} '
        "Change nothing else.",
        prepare=lambda folder: _write(folder, name),
        check=check,
        solve=lambda folder: act(folder, on),
        miss=lambda folder: act(folder, next(text for text in _TEXTS[name] if on in text)),
    )


def _change(name: str) -> OfficeCase:
    old, new = _CHANGES[name]
    before = [name.title(), *_TEXTS[name]]
    after = [text.replace(old, new) for text in before]

    def check(folder: Path, answer: str) -> list[str]:
        path, failures = open_checked(folder / f"{name}.docx"), Failures()
        document = _load(path)
        failures.expect(_texts(document) == after, f"with all changes accepted it reads {_texts(document)}")
        failures.expect(
            all(revision.author == "Editor" for revision in read_revisions(document)), "a change is not by Editor"
        )
        reject_revisions(document)
        failures.expect(_texts(document) == before, "with all changes rejected it is not the text from before")
        return failures.messages

    def solve(folder: Path) -> None:
        document = _load(folder / f"{name}.docx")
        replace_tracked(document, old, new, author="Editor")
        document.save(str(folder / f"{name}.docx"))

    def miss(folder: Path) -> None:
        solve(folder)
        document = _load(folder / f"{name}.docx")
        accept_revisions(document)
        document.save(str(folder / f"{name}.docx"))

    return OfficeCase(
        name=f"track-{name}",
        family="annotate",
        instruction=f'In {name}.docx, change "{old}" to "{new}" as a tracked change by the author "Editor".',
        prepare=lambda folder: _write(folder, name),
        check=check,
        solve=solve,
        miss=miss,
    )


def _settle(author: str, *, accepts: bool) -> OfficeCase:
    verb = "accept" if accepts else "reject"
    settle = accept_revisions if accepts else reject_revisions

    def prepare(folder: Path) -> None:
        _write(folder, "contract")
        document = _load(folder / "contract.docx")
        replace_tracked(document, "40 chairs", "44 chairs", author="Ann")
        insert_tracked(document, " and net of tax", after="2,400 euros", author="Bo")
        delete_tracked(document, " of delivery", author="Ann")
        replace_tracked(document, "60 days", "90 days", author="Bo")
        document.save(str(folder / "contract.docx"))

    def act(folder: Path, whose: str) -> None:
        document = _load(folder / "contract.docx")
        settle(document, author=whose)
        document.save(str(folder / "contract.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        import tempfile

        failures, document = Failures(), _load(open_checked(folder / "contract.docx"))
        with tempfile.TemporaryDirectory() as scratch:
            prepare(Path(scratch))
            act(Path(scratch), author)
            wanted = _load(Path(scratch) / "contract.docx")
        failures.expect(_texts(document) == _texts(wanted), f"it reads {_texts(document)}")
        left = [(revision.kind, revision.text, revision.author) for revision in read_revisions(document)]
        expected = [(revision.kind, revision.text, revision.author) for revision in read_revisions(wanted)]
        failures.expect(left == expected, f"these changes are left: {left}")
        return failures.messages

    return OfficeCase(
        name=f"{verb}-{author.lower()}",
        family="edit",
        instruction=f"In contract.docx, {verb} the tracked changes of {author} and leave those of others as they are.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, author),
        miss=lambda folder: act(folder, "Bo" if author == "Ann" else "Ann"),
    )


def _collect(name: str) -> OfficeCase:
    on, says = _ON[name]

    def prepare(folder: Path) -> None:
        _write(folder, name)
        document = _load(folder / f"{name}.docx")
        first = add_comment(document, on, says, author="Ann")
        reply_to(document, first, "I shall ask.", author="Bo")
        other = add_comment(document, name.title(), "A good title.", author="Bo")
        resolve(document, other)
        document.save(str(folder / f"{name}.docx"))

    def act(folder: Path, *, with_replies: bool) -> None:
        comments = read_comments(_load(folder / f"{name}.docx"))
        with (folder / "comments.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["author", "anchor", "text", "resolved"])
            for comment in comments:
                if with_replies or comment.parent is None:
                    writer.writerow(
                        [comment.author, comment.anchor, comment.text, "yes" if comment.is_resolved else "no"]
                    )

    def check(folder: Path, answer: str) -> list[str]:
        with (folder / "comments.csv").open(newline="", encoding="utf-8") as file:
            rows = [tuple(cell.strip() for cell in row) for row in csv.reader(file) if row]
        wanted = {
            ("Ann", on, says, "no"),
            ("Bo", on, "I shall ask.", "no"),
            ("Bo", name.title(), "A good title.", "yes"),
        }
        failures = Failures()
        failures.expect(rows[0] == ("author", "anchor", "text", "resolved"), f"the first row is {rows[0]}")
        failures.expect(set(rows[1:]) == wanted and len(rows) == 4, f"the rows are {rows[1:]}")
        return failures.messages

    return OfficeCase(
        name=f"list-comments-{name}",
        family="extract",
        instruction=f"List all comments of {name}.docx, answers to comments included, in comments.csv with the columns "
        "author, anchor (the words that the comment is attached to), text, resolved (yes or no).",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, with_replies=True),
        miss=lambda folder: act(folder, with_replies=False),
    )


def _structure(name: str) -> OfficeCase:
    titles = ["1 Purpose", "1.1 Scope", "2 Details", "2.1 Dates", "2.2 Sums"]

    def prepare(folder: Path) -> None:
        document = require("docx", "office").Document()
        for number, title in enumerate(titles):
            document.add_paragraph().add_run(title).bold = True
            document.add_paragraph(_TEXTS[name][number % 3])
        document.save(str(folder / f"{name}.docx"))

    def act(folder: Path, *, with_contents: bool) -> None:
        document = _load(folder / f"{name}.docx")
        for paragraph in document.paragraphs:
            if paragraph.text in titles:
                level = 2 if "." in paragraph.text.split()[0] else 1
                paragraph.style = document.styles[f"Heading {level}"]
        if with_contents:
            add_contents(document)
        else:
            document.paragraphs[0].insert_paragraph_before("Contents: " + ", ".join(titles))
        document.save(str(folder / f"{name}.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = _load(open_checked(folder / f"{name}.docx")), Failures()
        wanted = [(2 if "." in title.split()[0] else 1, title) for title in titles]
        found_headings = [(level, text) for level, text, _ in headings(document)]
        failures.expect(found_headings == wanted, f"the headings are {found_headings}")
        listed = [text_of(paragraph) for paragraph in contents_paragraphs(document)]
        failures.expect(len(listed) >= len(titles), f"the contents list {listed}")
        return failures.messages

    return OfficeCase(
        name=f"structure-{name}",
        family="edit",
        instruction=f"{name}.docx has bold lines such as '1 Purpose' and '1.1 Scope' in the place of headings. Give them "
        "the heading styles of their level, and put a real table of contents (a field with entries) before the first.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, with_contents=True),
        miss=lambda folder: act(folder, with_contents=False),
    )


def _footnote(name: str, after: str, note: str) -> OfficeCase:
    def act(folder: Path, words: str) -> None:
        document = _load(folder / f"{name}.docx")
        add_footnote(document, words, note)
        document.save(str(folder / f"{name}.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        package = require("zipfile", "office").ZipFile(open_checked(folder / f"{name}.docx"))
        names, failures = package.namelist(), Failures()
        failures.expect("word/footnotes.xml" in names, "there is no footnote")
        failures.expect(note in package.read("word/footnotes.xml").decode(), f"no footnote says {note!r}")
        body = package.read("word/document.xml").decode()
        before = body.partition("<w:footnoteReference")[0]
        plain = require("re", "office").sub(r"<[^>]+>", "", before)
        failures.expect(plain.endswith(after), f"the footnote follows {plain[-30:]!r}")
        failures.expect(_texts(_load(folder / f"{name}.docx"))[1:] == list(_TEXTS[name]), "the text was changed")
        return failures.messages

    return OfficeCase(
        name=f"footnote-{name}",
        family="edit",
        instruction=f'In {name}.docx, put a footnote right behind "{after}" that says: {note}',
        prepare=lambda folder: _write(folder, name),
        check=check,
        solve=lambda folder: act(folder, after),
        miss=lambda folder: act(folder, after.split()[0]),
    )


def _to_markdown(name: str) -> OfficeCase:
    def prepare(folder: Path) -> None:
        _write(folder, name)
        document = _load(folder / f"{name}.docx")
        document.add_heading("Points", 2)
        for text in ("First point", "Second point"):
            document.add_paragraph(text, style="List Bullet")
        document.save(str(folder / f"{name}.docx"))

    def act(folder: Path, mark: str) -> None:
        lines = [f"# {name.title()}", "", *(f"{text}\n" for text in _TEXTS[name]), "## Points", ""]
        lines += [f"{mark} First point", f"{mark} Second point"]
        (folder / f"{name}.md").write_text("\n".join(lines), "utf-8")

    def check(folder: Path, answer: str) -> list[str]:
        lines = [line.strip() for line in (folder / f"{name}.md").read_text("utf-8").splitlines() if line.strip()]
        plain, failures = [line.replace("*", "").replace("_", "").strip() for line in lines], Failures()
        failures.expect(f"# {name.title()}" in lines and "## Points" in lines, "headings are missing")
        failures.expect(all(text in plain for text in _TEXTS[name]), "paragraphs are missing")
        items = [line[1:].strip() for line in lines if line[:2] in ("- ", "* ", "+ ")]
        failures.expect(items == ["First point", "Second point"], f"the list has {items}")
        return failures.messages

    return OfficeCase(
        name=f"markdown-{name}",
        family="convert",
        instruction=f"Convert {name}.docx to Markdown as {name}.md: headings with #, one line a paragraph, list items as "
        "items of a bulleted list.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, "-"),
        miss=lambda folder: act(folder, "•"),
    )
