"""References that are typed as text, such as "see Figure 7": those whose target is not in the document."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_LABELS = {
    "figure": r"(?:[Ff]igure|FIGURE)s?|[Ff]igs?\.|Abbildung(?:en)?|Abb\.|[Ff]igura",
    "table": r"(?:[Tt]able|TABLE)s?|[Tt]abs?\.|Tabellen?|[Tt]ableau|[Tt]abla",
    "equation": r"[Ee]quations?|[Ee]qs?\.|Gleichung(?:en)?|Gl\.",
    "section": r"[Ss]ections?|[Ss]ecs?\.|[Ss]ect\.|§|Abschnitte?|[Cc]hapters?|Kapitel",
    "appendix": r"[Aa]ppendix|[Aa]ppendices|Anhang|Annexe?",
}
_CHINESE = {"图": "figure", "表": "table", "公式": "equation", "式": "equation", "附录": "appendix"}
_NUMBER = r"(?:[A-Z]?\d{1,3}(?:[.-]\d{1,3})*(?:[a-z]|\([a-z]\))?|[A-Z](?:\.\d{1,3})*)(?![A-Za-z0-9_%])"
_LIST = rf"\(?{_NUMBER}\)?(?:\s*(?:,|;|and|or|und|oder|to|bis|&|–|-)\s*\(?{_NUMBER}\)?)*"
_REFERENCE = re.compile(
    rf"(?<!\w)(?P<label>{'|'.join(_LABELS.values())})[\s\u00a0~]*(?P<numbers>{_LIST})"
    rf"|(?:^|(?<=[见如由在和与及从，。（、：\s]))(?P<chinese>{'|'.join(_CHINESE)})\s*(?P<chinese_numbers>[（(]?{_NUMBER}[)）]?)"
)
_CAPTION_END = re.compile(r"\)?\s*(?:[:：.|–—-]|\t|\s{2,}|$|\s+(?=[A-ZÄÖÜ\u3400-\u9fff\"“(]))")
_UNFINISHED = re.compile(r"(?:\b(?:see|in|of|and|or|by|the|from|to|as|with|cf\.|than|siehe|in der|und|von)|[,(–-])\s*$")
_HEADING_NUMBER = re.compile(r"^\s*(?:§\s*|\w+\s+)?((?:\d{1,2}|[A-Z])(?:\.\d{1,2})*)[.:)]?\s+\S")
_EQUATION_NUMBER = re.compile(r"\(([A-Z]?\d{1,3}(?:\.\d{1,3})*)\)\s*$")
_CUE = re.compile(r"(?:\b(?:see|in|cf\.?|from|by|of|as|to|and|siehe|vgl\.|voir|la|le|per)|[(,;])\s*$", re.IGNORECASE)
_FOREIGN_AFTER = re.compile(
    r"\s*(?:(?:of|from|von|aus|des?|du)\s+(?!(?:this|our|dies\w*|the (?:present|same|following|next))\b)"
    r"|in\s+(?:\[|the (?:original|supplement|(?:article|book|paper|report|study|thesis) (?:of|by)\b)"
    r"|their\b|his\b|her\b|[A-Z]\w+(?:\s+et al|\s+and\s+[A-Z]|,?\s*[\[(]))"
    r"|\[\d|[(,;]?\s*(?:ibid|op\. ?cit)|\([A-Z][^)]*\d{4}|(?:million|billion|percent)\b)"
)
_FOREIGN_BEFORE = re.compile(
    r"\[[^\]]*$|\([^)]*\b(?:19|20)\d\d[^)]*$|(?:['’]s|\b(?:their|his|her|its))\s+$|\b(?:19|20)\d\d[a-z]?\)?,?\s+$"
    r"|\bet al\.?,?\s+$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DanglingReference:
    """Reference without a target.

    Attributes:
        text: Label and number as written.
        kind: `figure`, `table`, `equation`, `section` or `appendix`.
        at: Index of the text that has it.
    """

    text: str
    kind: str
    at: int

    def describe(self) -> str:
        """Return the text of a finding."""
        return f"the text refers to {self.text!r}, and no {self.kind} of the document has this number"


def find_dangling(
    texts: Sequence[str], lines: Iterable[str] = (), headings: Iterable[str] = ()
) -> list[DanglingReference]:
    """Return the typed references to figures, tables, equations, sections and appendices that do not exist.

    References to other works ("Figure 7 of [3]", "Doe (2001, Fig. 2)") and in quotations are not considered.

    Args:
        texts: Paragraphs, or pages.
        lines: Lines as drawn, with the numbers that programs add.
        headings: Headings as drawn, with their numbers.
    """
    own_lines = [line for text in texts for line in text.splitlines()]
    known = _targets([*own_lines, "", *lines], [*headings])
    dangling = []
    for at, text in enumerate(texts):
        for match in _REFERENCE.finditer(text):
            kind = _kind_of(match)
            if not _is_own(match, text, kind):
                continue
            numbers = _expand(match["numbers"] or match["chinese_numbers"])
            if any(not _exists(number, kind, known[kind]) for number in numbers):
                shown = " ".join(match[0].split())
                shown = shown if "(" in shown else shown.rstrip(")")
                dangling.append(DanglingReference(text=shown, kind=kind, at=at))
    return dangling


def _kind_of(match: re.Match[str]) -> str:
    if match["chinese"]:
        return _CHINESE[match["chinese"]]
    return next(kind for kind, pattern in _LABELS.items() if re.fullmatch(pattern, match["label"]))


def _is_own(match: re.Match[str], text: str, kind: str) -> bool:
    """Return whether a match is a reference to this document, and not a caption, a quotation or another use."""
    before, after = text[max(0, match.start() - 200) : match.start()], text[match.end() :]
    line = before.rpartition("\n")[2]
    is_caption = not line.strip() and _CAPTION_END.match(after) and not _UNFINISHED.search(before)
    is_quoted = before.count("“") > before.count("”") or line.count('"') % 2 == 1
    is_foreign = _FOREIGN_AFTER.match(after) or _FOREIGN_BEFORE.search(before)
    needs_cue = kind in ("section", "appendix") or (match["label"] or "").islower()
    if match["chinese"]:
        needs_cue = False
    is_bare = kind in ("figure", "table") and not re.search(r"\d", match[0]) and not _CUE.search(before)
    return not (is_caption or is_quoted or is_foreign or is_bare or (needs_cue and not _CUE.search(before)))


def _targets(lines: Sequence[str], headings: Sequence[str]) -> dict[str, set[str]]:
    """Return the numbers of captions, equations and headings by kind."""
    known: dict[str, set[str]] = {kind: set() for kind in _LABELS}
    for line, previous in zip(lines, ["", *lines], strict=False):
        match = _REFERENCE.match(line.lstrip())
        if match and _CAPTION_END.match(line.lstrip()[match.end() :]) and not _UNFINISHED.search(previous):
            known[_kind_of(match)] |= set(_expand(match["numbers"] or match["chinese_numbers"]))
        number = _EQUATION_NUMBER.search(line)
        if number and not re.search(rf"(?:{_LABELS['equation']}|式)\s*$", line[: number.start()]):
            known["equation"].add(number[1])
        heading = _HEADING_NUMBER.match(line)
        if heading and len(line) < 120:
            known["section"].add(heading[1])
    known["section"] |= {found[1] for title in headings if (found := _HEADING_NUMBER.match(title))}
    known["appendix"] |= {number for number in known["section"] if number[0].isalpha()}
    return known


def _expand(numbers: str) -> Iterator[str]:
    """Yield the numbers of a list such as "3, 4a and 6 to 8"."""
    plain = re.sub(r"[()（）]", " ", re.sub(r"\([a-z]\)", "", numbers))
    pieces = re.split(r"\s*(to\b|bis\b|–|,|;|and\b|or\b|und\b|oder\b|&)\s*|\s+-\s+", plain.strip())
    last, is_range = "", False
    for piece in filter(None, pieces):
        if re.fullmatch(r"to|bis|–", piece):
            is_range = True
        elif re.match(r"[A-Z]?\d|[A-Z]\b", piece):
            number = piece.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
            if is_range and last.isdigit() and number.isdigit():
                yield from (str(n) for n in range(int(last) + 1, min(int(number), int(last) + 200)))
            yield number
            last, is_range = number, False


def _exists(number: str, kind: str, known: set[str]) -> bool:
    """Return whether a target exists; laws with hundreds of sections and supplements ("Table S1") are other works."""
    if number.startswith("S") and not any(other.startswith("S") for other in known):
        return True
    if number in known or (kind == "section" and len(number) > 2 and number.isdigit()):
        return True
    if kind == "section" and any(other.startswith(f"{number}.") for other in known):
        return True
    ends = number.split("-")
    return len(ends) == 2 and all(end in known for end in ends)
