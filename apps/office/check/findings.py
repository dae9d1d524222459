"""What is checked and what a check found: facts that can be asked for, findings, images; and what was asked for."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from apps.office.package import Package
from apps.office.pages import Page
from apps.office.safe_xml import OfficeError
from cua.errors import name_choices

Level = Literal["error", "warning", "note"]
_ORDER: tuple[Level, ...] = ("error", "warning", "note")
MAX_ALIKE = 20
"""Findings of one code that are listed; the rest is counted."""

FACTS = {
    "pages": "pages, slides or printed pages",
    "words": "words",
    "headings": "headings",
    "tables": "tables",
    "figures": "images in the text",
    "captions": "numbered captions",
    "equations": "equations",
    "footnotes": "footnotes",
    "comments": "comments",
    "revisions": "tracked changes",
    "references": "references to captions, headings or pages",
    "links": "links",
    "sheets": "sheets",
    "formulas": "formulas",
    "charts": "charts",
    "pivots": "pivot tables",
    "validations": "validated ranges",
    "formats": "conditional formats",
    "slides": "slides",
    "notes": "slides with notes",
    "bookmarks": "bookmarks",
    "fields": "form fields",
    "fonts": "fonts",
    "contents": "entries of tables of contents",
    "bibliography": "entries of the list of references",
}
"""What can be asked for, such as `words>=10000`."""

_EXPECTATION = re.compile(r"^\s*(\w+)\s*(>=|<=|==|=|>|<)\s*([\d_,]+)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A file and what LibreOffice makes of it.

    Attributes:
        path: The file.
        package: Its parts; None for a PDF file.
        pdf: Its rendering; the file itself for a PDF file; None when there is no LibreOffice.
        pages: The pages of the rendering.
    """

    path: Path
    package: Package | None
    pdf: Path | None
    pages: Sequence[Page]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong, or that a person should know.

    Attributes:
        level: `error`: the file is not as it must be; `warning`: it probably is not; `note`: good to know.
        code: Stable name, such as `formula-error`.
        text: What was found.
        place: Where: a cell, a page, a slide.
        section: Number of the heading of the first level that it is below, from 1; 0 where that is not known.
    """

    level: Level
    code: str
    text: str
    place: str = ""
    section: int = 0

    def to_text(self) -> str:
        """One line."""
        where = f" ({self.place})" if self.place else ""
        return f"{self.level}: {self.text}{where} [{self.code}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A count that was asked for."""

    fact: str
    relation: str
    number: int

    @classmethod
    def parse(cls, text: str) -> "Expectation":
        """Read `words>=10000`.

        Raises:
            OfficeError: It is none, or of something that is not counted.
        """
        match = _EXPECTATION.match(text)
        if match is None:
            raise OfficeError(f"{text!r} is no expectation; expected such as words>=10000, pages=100, equations>=40")
        if match[1] not in FACTS:
            raise OfficeError(f"{match[1]!r} is not counted.{name_choices(match[1], FACTS)}")
        relation = "==" if match[2] == "=" else match[2]
        return cls(fact=match[1], relation=relation, number=int(re.sub(r"[_,]", "", match[3])))

    def holds(self, found: int) -> bool:
        """Whether a count is as asked."""
        return {
            ">=": found >= self.number,
            "<=": found <= self.number,
            "==": found == self.number,
            ">": found > self.number,
            "<": found < self.number,
        }[self.relation]


@dataclass(slots=True, kw_only=True)
class CheckReport:
    """What a check of one file found.

    Attributes:
        file: Its name.
        kind: docx, xlsx, pptx or pdf.
        facts: Counts by the names of `FACTS`.
        findings: In the order in which they were found.
        images: Names of the images that were written.
        opened_by: Programs and libraries that opened it.
        sections: Headings of the first level, in order.
    """

    file: str
    kind: str
    facts: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    opened_by: list[str] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether there is no error."""
        return not any(one.level == "error" for one in self.findings)

    def add(self, level: Level, code: str, text: str, place: str = "", section: int = 0) -> None:
        """Note a finding."""
        self.findings.append(Finding(level=level, code=code, text=text, place=place, section=section))

    def expect(self, expectations: Iterable[Expectation]) -> None:
        """Note what is not as asked; a fact that this kind of file does not have counts as 0."""
        for one in expectations:
            found = self.facts.get(one.fact, 0)
            if not one.holds(found):
                what = FACTS[one.fact]
                self.add("error", "not-as-asked", f"{found} {what}; asked for {one.relation} {one.number}")

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        findings = [asdict(one) for one in self.findings]
        return {
            "file": self.file,
            "kind": self.kind,
            "is_clean": self.is_clean,
            "facts": self.facts,
            "opened_by": self.opened_by,
            "findings": findings,
            "images": self.images,
            "sections": self.sections,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "CheckReport":
        """What `to_json` gave."""
        return cls(
            file=str(value["file"]),
            kind=str(value["kind"]),
            facts=dict(value["facts"]),
            findings=[Finding(**one) for one in value["findings"]],
            images=list(value["images"]),
            opened_by=list(value["opened_by"]),
            sections=list(value["sections"]),
        )

    def to_text(self) -> str:
        """For people and models: the counts, what opened it, and the findings, worst first."""
        counts = ", ".join(f"{count} {name}" for name, count in self.facts.items() if count)
        lines = [f"{self.file}: {counts or 'empty'}", f"opened by: {', '.join(self.opened_by) or 'nothing'}"]
        lines += _listed(self.findings)
        return "\n".join([*lines, "clean" if self.is_clean else "NOT clean"])


def _listed(findings: Sequence[Finding]) -> list[str]:
    lines: list[str] = []
    for level in _ORDER:
        of_level = [one for one in findings if one.level == level]
        for code in dict.fromkeys(one.code for one in of_level):
            alike = [one for one in of_level if one.code == code]
            lines += [one.to_text() for one in alike[:MAX_ALIKE]]
            if len(alike) > MAX_ALIKE:
                lines.append(f"{level}: {len(alike) - MAX_ALIKE} more of this kind [{code}]")
    return lines
