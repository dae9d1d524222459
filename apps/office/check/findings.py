"""Facts that can be requested, findings and images of a check, and the requested counts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from apps.office.package import OfficePackage
from apps.office.pages import RenderedPage
from apps.office.safe_xml import OfficeError
from cua.errors import name_choices

Level = Literal["error", "warning", "note"]
_ORDER: tuple[Level, ...] = ("error", "warning", "note")
MAX_ALIKE = 20
"""Maximum number of listed findings per code; the rest is only counted."""

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
"""Facts that can be requested, such as `words>=10000`."""

_EXPECTATION = re.compile(r"^\s*(\w+)\s*(>=|<=|==|=|>|<)\s*([\d_,]+)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFile:
    """File with its rendering by LibreOffice.

    Attributes:
        path: Path of the file.
        package: Parts of the file; None for a PDF file.
        pdf: Rendering; the file itself for a PDF file; None without LibreOffice.
        pages: Pages of the rendering.
    """

    path: Path
    package: OfficePackage | None
    pdf: Path | None
    pages: Sequence[RenderedPage]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFinding:
    """Fault, or a note for the user.

    Attributes:
        level: `error`: the file is wrong; `warning`: it is probably wrong; `note`: for information.
        code: Stable name, such as `formula-error`.
        text: Description.
        place: Location: a cell, a page, a slide.
        section: Number of the first-level heading above it, from 1; 0 if unknown.
    """

    level: Level
    code: str
    text: str
    place: str = ""
    section: int = 0

    def to_text(self) -> str:
        """Return the finding as one line."""
        position = f" ({self.place})" if self.place else ""
        return f"{self.level}: {self.text}{position} [{self.code}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Requested count."""

    fact: str
    relation: str
    number: int

    @classmethod
    def parse(cls, text: str) -> "Expectation":
        """Parse an expectation such as `words>=10000`.

        Raises:
            OfficeError: If the text is not an expectation, or its fact is not counted.
        """
        match = _EXPECTATION.match(text)
        if match is None:
            raise OfficeError(
                f"{text!r} is not an expectation; expected, for example, words>=10000, pages=100, equations>=40"
            )
        if match[1] not in FACTS:
            raise OfficeError(f"{match[1]!r} is not counted.{name_choices(match[1], FACTS)}")
        relation = "==" if match[2] == "=" else match[2]
        return cls(fact=match[1], relation=relation, number=int(re.sub(r"[_,]", "", match[3])))

    def holds(self, count: int) -> bool:
        """Return whether a count meets the expectation."""
        return {
            ">=": count >= self.number,
            "<=": count <= self.number,
            "==": count == self.number,
            ">": count > self.number,
            "<": count < self.number,
        }[self.relation]


@dataclass(slots=True, kw_only=True)
class CheckReport:
    """Result of checking one file.

    Attributes:
        file: Name of the file.
        kind: docx, xlsx, pptx or pdf.
        facts: Counts by the names of `FACTS`.
        findings: Findings in order of detection.
        images: Names of the written images.
        opened_by: Programs and libraries that opened it.
        sections: First-level headings, in order.
    """

    file: str
    kind: str
    facts: dict[str, int] = field(default_factory=dict)
    findings: list[DocumentFinding] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    opened_by: list[str] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """True if there are no errors."""
        return not any(finding.level == "error" for finding in self.findings)

    def add(self, level: Level, code: str, text: str, place: str = "", section: int = 0) -> None:
        """Add a finding."""
        self.findings.append(DocumentFinding(level=level, code=code, text=text, place=place, section=section))

    def expect(self, expectations: Iterable[Expectation]) -> None:
        """Report unmet expectations; a fact that this kind of file does not have counts as 0."""
        for expectation in expectations:
            count = self.facts.get(expectation.fact, 0)
            if not expectation.holds(count):
                noun = FACTS[expectation.fact]
                self.add(
                    "error", "not-as-asked", f"{count} {noun}; asked for {expectation.relation} {expectation.number}"
                )

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        findings = [asdict(finding) for finding in self.findings]
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
        """Restore a report from the result of `to_json`."""
        return cls(
            file=str(value["file"]),
            kind=str(value["kind"]),
            facts=dict(value["facts"]),
            findings=[DocumentFinding(**values) for values in value["findings"]],
            images=list(value["images"]),
            opened_by=list(value["opened_by"]),
            sections=list(value["sections"]),
        )

    def to_text(self) -> str:
        """Return the report as text: counts, programs that opened the file, and findings, worst first."""
        counts = ", ".join(f"{count} {name}" for name, count in self.facts.items() if count)
        lines = [f"{self.file}: {counts or 'empty'}", f"opened by: {', '.join(self.opened_by) or 'nothing'}"]
        lines += _listed(self.findings)
        return "\n".join([*lines, "clean" if self.is_clean else "NOT clean"])


def _listed(findings: Sequence[DocumentFinding]) -> list[str]:
    lines: list[str] = []
    for level in _ORDER:
        of_level = [finding for finding in findings if finding.level == level]
        for code in dict.fromkeys(finding.code for finding in of_level):
            alike = [finding for finding in of_level if finding.code == code]
            lines += [finding.to_text() for finding in alike[:MAX_ALIKE]]
            if len(alike) > MAX_ALIKE:
                lines.append(f"{level}: {len(alike) - MAX_ALIKE} more of this kind [{code}]")
    return lines
