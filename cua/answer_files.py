"""File names in final answers: those that exist neither in the folders of the run nor in the data that it has read."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from cua.messages import Part, TextPart
from cua.step import ToolStep

MISSING_END = "the model's answer; it names {files}, and the run has no such file"
_MAX_NAMES = 5_000  # in an answer that are checked: bounds the time, a millisecond for each
_MAX_FILES = 20_000  # of a folder: bounds the time of a check

_ENDINGS = frozenset(
    "docx doc odt rtf pdf xlsx xlsm xls ods csv tsv pptx ppt odp md txt png jpg jpeg gif svg webp bmp tif tiff mp4 mov "
    "mkv webm avi mp3 wav json jsonl html htm xml yaml yml ipynb parquet sqlite zip tar gz bib tex".split()
)
_CODE_ENDINGS = frozenset("py js ts css sh sql toml ini log npy npz pkl db dat srt vtt".split())
"""Endings that are also parts of other names (`Node.js`, `np.log`); they count in backticks or with a folder."""
_ADDRESS = re.compile(
    r"\b\w[\w+.-]{0,20}://\S+|\bwww\.\S+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.\S+"
    r"|(?<![\w/.-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.[a-z]{2,20}/\S+"
)
_QUOTED = re.compile(r"```(?!json).*?```|^>[^\n]*$|[\"“„«「][^\"“”„«»「」\n]*[\"”“»」]", re.DOTALL | re.MULTILINE)
_NAME_OF_WORDS = re.compile(rf"\W(?:[\w()-]+\s){{1,4}}[\w()-]+\.(?:{'|'.join(_ENDINGS)})\W", re.IGNORECASE)
_SAYS = re.compile(r"\b(?:says?|said|reads?|states?|writes?|mentions?|asks?|sagt|steht|heißt|schreibt)[:,]?\s*$")
_CJK = r"[\u3040-\u30ff\u3400-\u9fff]"
_RUN_ON = re.compile(
    rf"(?<={_CJK})(?=[A-Za-z0-9_-]{{1,80}}\.(?:{'|'.join(_ENDINGS)})(?![A-Za-z0-9]))"
    rf"|(?<=\.)(?P<ending>{'|'.join(_ENDINGS)})(?={_CJK})",
    re.IGNORECASE,
)
"""Where a name adjoins a word of a script without spaces."""
_NAME = re.compile(r"(?:\(\d{1,3}\)(?=\.\w)|[^\s\"'`<>|,;:!?()\[\]{}*=“”„«»‹›「」『』（）《》，。；：、—…→])+")
_CLAUSE = re.compile(r"[,;:.!?()](?=\s)|[。，；：\n]|\s(?:and|but|so|then|und|aber|sondern)\s")
_MAKES = "add|make|create|write|save|export|convert|name|call|rename|turn"
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:no|without|neither|nor|instead of|such as|for example|kein\w*|ohne|sans|sin)"
    r"(?:\s+\w+)?(?:\s+\S+\s+(?:or|oder))?"
    r"|(?:\b(?:not(?!\s+only)|never|cannot|unable|failed|missing(?!\s+(?:in|from))|nicht(?!\s+nur)|pas|would|würde|könnte)\b|n[’']t\b"
    rf"|\b(?:can|could|should|might|may|recommend|suggest)\s+(?:(?:also|then|to)\s+)?(?:{_MAKES})\b)(?:\s+\S+){{0,6}}"
    r"|\b(?:(?:look|search)(?:ed|ing) for|deleted|removed|renamed)(?:\s+(?:an?|the|old|temporary|files?|named))*"
    r"|(?:没有|不存在|未能)\S*)[\s\"'`“*_]*$",
    re.IGNORECASE,
)
_IS_THERE = (
    "exist|there|here|found|present|available|created|made|written|saved|given|provided|included|produced|generated|"
    "attached|uploaded|among|in|part|open|opened|read|vorhanden|gefunden|erstellt|geschrieben|gespeichert|da|dabei"
)
_DENIED_AFTER = re.compile(
    r"^[\s\"'`”*_:(–—-]*(?:(?:(?:is|are|was|were|does|do|did|has|have|can|could|ist|wurde|konnte|existiert)\s*)?"
    rf"(?:(?:not|never|n[’']t|cannot|nicht)\s+(?:be(?:en)?\s+)?(?:{_IS_THERE})|missing|absent)\b"
    r"|existiert nicht|不存在|没有|fehlt\b)",
    re.IGNORECASE,
)


def find_missing_files(answer: str, folders: Iterable[Path], inputs: Sequence[Path] = ()) -> list[str]:
    """Return the file names in an answer that do not exist, in order.

    Addresses, quotations of several words, fenced blocks, patterns, and names that the answer denies ("there is no
    notes.txt") are not taken as names of files.

    Args:
        answer: Text of the answer.
        folders: Folders with the files of the run.
        inputs: Further files that exist; an answer may name them with any folder.
    """
    text = _ADDRESS.sub(" ", answer.replace("e.g.", "such as"))
    if not any(_names_in(text)):
        return []
    paths = [path for folder in folders for path in _list_files(folder)]
    text = _without_existing(text, [*paths, *(path.as_posix() for path in inputs)])
    bases = {path.rpartition("/")[2].casefold() for path in paths}
    input_bases = {path.name.casefold() for path in inputs}

    def exists(name: str) -> bool:
        base = _base_of(name).casefold()
        return base in input_bases or (base in bases and re.match(r"[/~]|\w:", name) is not None)

    names = islice(_names_in(_QUOTED.sub(_unquote, text)), _MAX_NAMES)
    return [name for name in dict.fromkeys(names) if not exists(name)]


def find_invented_files(
    answer: str, steps: Sequence[ToolStep], questions: Iterable[Sequence[Part]], folder: Path
) -> list[str]:
    """Return the missing files of an answer whose names are not from data either.

    Data are the descriptions of the input files, which precede the text of a question, and results of tools that had a
    name before a call of the model did.

    Args:
        answer: Text of the answer.
        steps: Steps of the run.
        questions: Parts of each question's message, the text last.
        folder: Working folder.
    """
    given = "".join(part.text for parts in questions for part in parts[:-1] if isinstance(part, TextPart))
    return [
        name
        for name in find_missing_files(answer, [folder])
        if _base_of(name) not in given and not _is_from_results(_base_of(name), steps)
    ]


def _unquote(quotation: re.Match[str]) -> str:
    """Return a quotation that is one word, or a name of several, unchanged, and a space for any other."""
    if quotation[0][0] not in "`>" and not re.search(r"\s", quotation[0]):
        return quotation[0]
    is_said = _SAYS.search(quotation.string[max(0, quotation.start() - 20) : quotation.start()])
    return quotation[0] if _NAME_OF_WORDS.fullmatch(quotation[0]) and not is_said else " "


def _base_of(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _is_from_results(base: str, steps: Sequence[ToolStep]) -> bool:
    for outcome in (outcome for step in steps for outcome in step.outcomes):
        if base in outcome.call.arguments:
            return False
        if base in outcome.result.text:
            return True
    return False


def _list_files(folder: Path) -> Iterator[str]:
    """Yield the absolute paths of the files below a folder."""
    count = 0
    for place, _, names in os.walk(folder.absolute()):
        for name in names[: _MAX_FILES - count]:
            yield (Path(place) / name).as_posix()
        count += len(names)


def _without_existing(text: str, paths: Iterable[str]) -> str:
    """Blank out the names of existing files, each alone or below some of its folders."""
    folded = text.lower()
    for path in sorted({path for path in paths if path.lower().rpartition("/")[2] in folded}, key=len, reverse=True):
        *parents, base = map(re.escape, path.strip("/").split("/"))
        folders = ""
        for parent in parents:
            folders = rf"(?:{folders}{parent}[/\\])?"
        pattern = rf"(?<![A-Za-z0-9_./\\-])(?:\.?[/\\])?{folders}{base}(?![A-Za-z0-9_-]|\.\w)"
        text = re.sub(pattern, " ", text, flags=re.IGNORECASE)
    return text


def _names_in(text: str) -> Iterator[str]:
    text = _RUN_ON.sub(lambda match: f"{match['ending'] or ''} ", text)
    for match in _NAME.finditer(text):
        name = match[0].rstrip("._-/\\")
        stem, _, ending = re.split(r"[/\\]", name)[-1].rpartition(".")
        if not re.search(r"\w", stem) or ending.lower() not in _ENDINGS | _CODE_ENDINGS:
            continue
        start, end = match.start(), match.start() + len(name)
        before, after = text[max(0, start - 300) : start], text[end : end + 40]
        is_marked = before.endswith("`") or "/" in name
        is_call = after.startswith(("(", "*", "=")) and not after.startswith("**")
        clause = _CLAUSE.split(before)[-1] + "".join(re.findall(rf"^{_CJK}+", name))
        is_denied = _DENIED_BEFORE.search(clause) or _DENIED_AFTER.match(after)
        if (is_marked or ending.lower() in _ENDINGS) and not is_call and not is_denied:
            yield name
