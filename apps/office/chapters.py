"""Chapters of a long document: loading from a swarm's record, checks before merging, layout for merging."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.office.markdown import IMAGE, cited_keys, is_same_work, works_by_key
from apps.office.safe_xml import OfficeError
from cua.swarm.child import SubagentConfig, load_children
from cua.swarm.child_runner import CHILDREN
from cua.trajectory import load_run
from cua.trajectory.chain import FILES

CHAPTER, WORKS = "chapter.md", "works.bib"
MAX_CHAPTERS = 200  # bounds the time to merge
# Of one chapter in characters, and of an image in bytes: files of sub-agents are untrusted
_MAX_TEXT, _MAX_IMAGE = 2_000_000, 20 * 2**20
_FIRST_LINE = re.compile(r"^Chapter (\d+): *(.*)")
_CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_TOP = re.compile(r"^# |^[^\n#>|-][^\n]*\n=+[ \t]*$", re.MULTILINE)

ChapterErrors = dict[int, list[str]]
"""Error descriptions by chapter number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChapter:
    """Chapter as delivered by its writer.

    Attributes:
        number: Number from 1.
        title: Assigned title.
        text: Markdown.
        works: BibTeX.
        folder: Folder of its images.
        task: Task of the swarm.
        writer: Sub-agent that writes it; None in a test.
        prompt: Prompt of the writer.
    """

    number: int
    title: str
    text: str
    works: str
    folder: Path
    task: str
    writer: SubagentConfig | None = None
    prompt: str = ""

    @property
    def errors(self) -> list[str]:
        """Errors that prevent merging."""
        return find_chapter_errors(self.text, self.works, self.folder)


def read_chapters(run_dir: Path) -> list[WrittenChapter]:
    """Return the chapters of a run in order; of a chapter that was assigned twice, the last finished one.

    Raises:
        OfficeError: If a chapter is missing or has no text.
    """
    finished, assigned = finished_chapters(run_dir)
    if len(assigned) > MAX_CHAPTERS:
        raise OfficeError(f"{len(assigned)} chapters were assigned, at most {MAX_CHAPTERS} are merged")
    missing = [f"{number} ({title})" for number, title in sorted(assigned.items()) if number not in finished]
    if missing or not finished:
        raise OfficeError(
            f"these chapters were not finished: {', '.join(missing) or 'all'}; resume with: cua office --long --resume "
            f"{run_dir.name}"
        )
    return [finished[number] for number in sorted(finished)]


def finished_chapters(run_dir: Path) -> tuple[dict[int, WrittenChapter], dict[int, str]]:
    """Return the finished chapters of a run by number, and the titles of all assigned ones."""
    _, children = load_children(load_run(run_dir, images=0))
    chapters: dict[int, WrittenChapter] = {}
    assigned: dict[int, str] = {}
    for child in children:
        match = _FIRST_LINE.match(child.assignment.prompt)
        if match is None:
            continue
        number = int(match[1])
        assigned[number] = match[2]
        folder = run_dir / CHILDREN / child.id / FILES
        if child.state == "finished" and (folder / CHAPTER).is_file():
            chapters[number] = WrittenChapter(
                number=number,
                title=match[2],
                text=_read(folder / CHAPTER),
                works=_read(folder / WORKS),
                folder=folder,
                task=child.id,
                writer=child.assignment.config,
                prompt=child.assignment.prompt,
            )
    return chapters, assigned


def find_chapter_errors(text: str, works: str, folder: Path) -> list[str]:
    """Return the errors of a chapter that prevent merging."""
    errors = []
    if not text.lstrip().startswith("# "):
        errors.append("chapter.md does not begin with a heading of the first level, '# Title'")
    tops = len(_TOP.findall(_CODE.sub("", text)))
    if tops > 1:
        errors.append(f"chapter.md has {tops} headings of the first level; one at its beginning, the others with '## '")
    for image in dict.fromkeys(IMAGE.findall(text)):
        if not _is_image(folder, image):
            errors.append(f"the image {image!r} is not in the working folder")
    missing = sorted(cited_keys(text) - works_by_key(works).keys())
    if missing:
        errors.append(f"works.bib has no entry for {', '.join(missing)}")
    labels = set(re.findall(r"\{#((?:fig|tbl|eq|sec):[\w.-]+)", text))
    for label in sorted(set(re.findall(r"@((?:fig|tbl|eq|sec):[\w-]+)", text)) - labels):
        errors.append(f"the text refers to {label!r}, which nothing is labelled with")
    return errors


def find_merge_errors(chapters: Sequence[WrittenChapter]) -> ChapterErrors:
    """Return the errors that prevent merging: each chapter's own, and keys used for different works."""
    errors = {chapter.number: chapter.errors for chapter in chapters}
    first: dict[str, tuple[int, str]] = {}
    for chapter in chapters:
        for key, work in works_by_key(chapter.works).items():
            number, known = first.setdefault(key, (chapter.number, work))
            if not is_same_work(known, work):
                errors[chapter.number].append(
                    f"the key {key!r} is another work in chapter {number}; use another key, or write "
                    f"the same: {' '.join(known.split())[:300]}"
                )
    return {number: texts for number, texts in errors.items() if texts}


def _is_image(folder: Path, name: str) -> bool:
    path = folder / name
    is_inside = path.resolve().is_relative_to(folder.resolve())
    return is_inside and path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_IMAGE


def _read(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    if path.stat().st_size > _MAX_TEXT:
        raise OfficeError(f"{path.name} has more than {_MAX_TEXT} bytes")
    return path.read_text("utf-8", errors="replace")


def write_chapters(chapters: Sequence[WrittenChapter], folder: Path) -> None:
    """Copy each chapter and its images into its own folder, and adapt the image paths in the texts."""
    folder.chmod(0o777)
    for at, chapter in enumerate(chapters, 1):
        write_chapter(chapter, folder / f"chapter-{at}", prefix=f"chapter-{at}/")


def write_chapter(chapter: WrittenChapter, target: Path, *, prefix: str = "") -> None:
    """Copy a chapter and its images into a new folder; missing images are skipped.

    Args:
        chapter: Chapter to copy.
        target: Target folder.
        prefix: Prefix of the image paths in the text.
    """
    target.mkdir(parents=True, exist_ok=True)
    names = plain_image_names(chapter)
    for image, name in names.items():
        shutil.copyfile(chapter.folder / image, target / name)

    def renamed(match: re.Match[str]) -> str:
        name = names.get(match[1])
        return match[0] if name is None else f"{match[0].removesuffix(match[1])}{prefix}{name}"

    (target / CHAPTER).write_text(IMAGE.sub(renamed, chapter.text), "utf-8")
    (target / WORKS).write_text(chapter.works, "utf-8")


def plain_image_names(chapter: WrittenChapter) -> dict[str, str]:
    """Return the image names of a chapter after layout: unique, without folders and special characters."""
    names: dict[str, str] = {}
    for image in dict.fromkeys(IMAGE.findall(chapter.text)):
        if _is_image(chapter.folder, image):
            names[image] = _plain_name(image, (CHAPTER, WORKS, *names.values()))
    return names


def _plain_name(image: str, used_names: Sequence[str]) -> str:
    stem, ending = re.sub(r"[^A-Za-z0-9]", "-", Path(image).stem), Path(image).suffix
    name, number = f"{stem}{ending}", 2
    while name in used_names:
        name, number = f"{stem}-{number}{ending}", number + 1
    return name
