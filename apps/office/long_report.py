"""Long documents by a swarm: one outline, chapters by sub-agents, one style, one bibliography, merged and verified."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from apps.office.agent import Made, OfficeOrder, Say, check_order, verify_made, write_reports
from apps.office.markdown import IMAGE, cited_keys, entry_keys
from apps.office.safe_xml import OfficeError
from apps.office.sandbox import CELL_S, OfficeKernels, office_kernels, run_inside
from cua import Watch
from cua.errors import ConfigError
from cua.messages import ToolResult
from cua.model import Model
from cua.run.end import RunResult
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm.child import load_children
from cua.tool_agent.profile import VISUAL_TOOLS, Workplace
from cua.tools.ipython import to_tool_result
from cua.tools.service import Service
from cua.tools.toolset import Arguments, schema_of
from cua.trajectory import load_run
from cua.trajectory.chain import FILES

CHAPTER, WORKS = "chapter.md", "works.bib"
BUILD_S = 900.0
_FIRST_LINE = re.compile(r"^Chapter (\d+): *(.*)")
_CHILDREN = "children"
_MAX_CHAPTERS, _MAX_TEXT, _MAX_IMAGE = 200, 2_000_000, 20 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A chapter as its writer left it.

    Attributes:
        number: From 1.
        title: As it was assigned.
        text: Markdown.
        works: BibTeX.
        folder: Where its images lie.
        task: Of the swarm.
    """

    number: int
    title: str
    text: str
    works: str
    folder: Path
    task: str


class CheckChapterArguments(Arguments):
    """Arguments of `check_chapter`: none."""


class CheckChapterTool:
    """Looks at a writer's chapter.md: what is missing, how long it is, how it looks; implements `cua.model.Tool`."""

    name = "check_chapter"
    is_repeatable = True
    description = "Look at chapter.md and works.bib of the working folder: what is missing, counts, images of pages."

    def __init__(self, service: Service) -> None:
        self._service = service
        self.parameters: Mapping[str, Any] = schema_of(CheckChapterArguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Do it."""
        code = "from apps.office.inside import show_chapter\nprint(show_chapter())"
        return to_tool_result(await self._service.run(code, timeout_s=CELL_S), kind="service", code=code)


def _make_check(place: Workplace) -> CheckChapterTool:
    return CheckChapterTool(place.service)


async def make_long_document(
    order: OfficeOrder,
    *,
    resume: Path | None = None,
    model: Model | str | None = None,
    watch: Watch | None = None,
    say: Say = lambda line: None,
    options: SwarmOptions | None = None,
    **settings: Any,
) -> Made:
    """Have a swarm write a long document; `report.docx` and `report.pdf` come out, verified.

    Args:
        order: What is to be made.
        resume: The folder of an earlier run to go on with; its finished chapters are not written again.
        model: A model object (the caller closes it), or a name as in the settings.
        watch: Who follows the run.
        say: Gets progress.
        options: How the swarm works; its tools are set here.
        settings: Single settings by name.

    Raises:
        ConfigError: A setting or file is wrong; nothing was started.
        OfficeError: A chapter is missing, or the chapters do not fit together; the run can be gone on with.
    """
    check_order(order)
    flags = {**settings, **({"model": model} if isinstance(model, str) else {})}
    async with office_kernels(flags) as maker:
        given: dict[str, Any] = {
            "options": _with_tools(options or SwarmOptions()),
            "sandbox": maker,
            "watch": watch,
            **{name: value for name, value in flags.items() if name != "sandbox"},
            **({"model": model} if model is not None else {}),
        }
        result = await _write(order, resume, given)
        run_dir = Path(str(result.run_dir))
        chapters = await asyncio.to_thread(read_chapters, run_dir)
        made = Made(run=result)
        if result.end.status in ("unverified", "succeeded"):
            title, author = title_of(result.end.answer or "")
            made.files = await _build(maker, chapters, title, author, order.output, say)
            await verify_made(made, order, maker)
            say(made.to_text())
        else:
            made.missing.append(f"the swarm ended as {result.end.status}: {result.end.reason}")
        await asyncio.to_thread(write_reports, made, order.output)
        return made


def _with_tools(options: SwarmOptions) -> SwarmOptions:
    from dataclasses import replace

    return replace(options, tools=(*VISUAL_TOOLS, _make_check))


async def _write(order: OfficeOrder, resume: Path | None, given: dict[str, Any]) -> RunResult:
    prompt = resources.files("apps.office").joinpath("long_prompt.md").read_text(encoding="utf-8").strip()
    if resume is not None:
        try:
            return (await resume_swarm(resume, **given)).run
        except ConfigError:
            record = await asyncio.to_thread(load_run, resume, images=0)
            if record.result is None or record.result.end.status not in ("succeeded", "unverified"):
                raise
            return record.result  # it is written already: only merged once more
    asked = f"{prompt}\n\n# What is asked for\n\n{order.instruction}"
    if order.expect:
        asked += f"\n\nCounted at the end: {', '.join(order.expect)}"
    return (await run_swarm(asked, order.files, **given)).run


def read_chapters(run_dir: Path) -> list[Chapter]:
    """The chapters of a run in order; of one that was assigned twice, the last that was finished.

    Raises:
        OfficeError: One is missing, or has no text.
    """
    _, children = load_children(load_run(run_dir, images=0))
    found: dict[int, Chapter] = {}
    assigned: dict[int, str] = {}
    for child in children:
        match = _FIRST_LINE.match(child.assignment.prompt)
        if match is None:
            continue
        number = int(match[1])
        assigned[number] = match[2]
        folder = run_dir / _CHILDREN / child.id / FILES
        if child.state == "finished" and (folder / CHAPTER).is_file():
            text, works = _read(folder / CHAPTER), _read(folder / WORKS)
            found[number] = Chapter(number=number, title=match[2], text=text, works=works, folder=folder, task=child.id)
    if len(assigned) > _MAX_CHAPTERS:
        raise OfficeError(f"{len(assigned)} chapters were assigned, at most {_MAX_CHAPTERS} are merged")
    missing = [f"{number} ({title})" for number, title in sorted(assigned.items()) if number not in found]
    if missing or not found:
        raise OfficeError(
            f"these chapters were not finished: {', '.join(missing) or 'all'}; go on with: cua office --long --resume "
            f"{run_dir.name}"
        )
    return [found[number] for number in sorted(found)]


def chapter_faults(text: str, works: str, folder: Path) -> list[str]:
    """What would keep a chapter from being merged."""
    faults = []
    if not text.lstrip().startswith("# "):
        faults.append("chapter.md does not begin with a heading of the first level, '# Title'")
    for image in dict.fromkeys(IMAGE.findall(text)):
        if not _is_image(folder, image):
            faults.append(f"the image {image!r} is not in the working folder")
    missing = sorted(cited_keys(text) - entry_keys(works))
    if missing:
        faults.append(f"works.bib has no entry for {', '.join(missing)}")
    labels = set(re.findall(r"\{#((?:fig|tbl):[\w.-]+)", text))
    for label in sorted(set(re.findall(r"@((?:fig|tbl):[\w-]+)", text)) - labels):
        faults.append(f"the text refers to {label!r}, which nothing is labelled with")
    return faults


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


def title_of(answer: str) -> tuple[str, str]:
    """Title and author that the editor has answered."""
    lines = [*answer.strip().splitlines(), "", ""]
    title = lines[0].lstrip("# ").strip()
    author = lines[1].strip()
    return title or "Report", author if len(author) < 80 else ""


async def _build(
    maker: OfficeKernels, chapters: Sequence[Chapter], title: str, author: str, output: Path, say: Say
) -> list[Path]:
    """Merge the chapters in the sandbox; the two files come out."""
    faults = [
        f"chapter {one.number}, {one.task}: {fault}"
        for one in chapters
        for fault in chapter_faults(one.text, one.works, one.folder)
    ]
    if faults:
        raise OfficeError("the chapters do not fit together: " + "; ".join(faults[:12]))
    say(f"merging {len(chapters)} chapters")
    with tempfile.TemporaryDirectory(prefix="k25-long-") as scratch:
        folder = Path(scratch)
        await asyncio.to_thread(lay_out, chapters, folder)
        kernel = await maker.make_kernel(folder)
        try:
            await run_inside(
                kernel, "apps.office.inside", "build_report", len(chapters), title, author, timeout_s=BUILD_S
            )
        finally:
            await kernel.close()
        return await asyncio.to_thread(_take, folder, output)


def lay_out(chapters: Sequence[Chapter], folder: Path) -> None:
    """Copy chapters and their images into a folder for each, whose names the texts then say."""
    folder.chmod(0o777)
    for at, chapter in enumerate(chapters, 1):
        place = folder / f"chapter-{at}"
        place.mkdir()
        text = chapter.text
        for image in dict.fromkeys(IMAGE.findall(text)):
            name = f"{re.sub(r'[^A-Za-z0-9]', '-', Path(image).stem)}{Path(image).suffix}"
            shutil.copyfile(chapter.folder / image, place / name)
            text = text.replace(f"]({image})", f"](chapter-{at}/{name})").replace(
                f"]({image} ", f"](chapter-{at}/{name} "
            )
        (place / CHAPTER).write_text(text, "utf-8")
        (place / WORKS).write_text(chapter.works, "utf-8")


def _take(folder: Path, output: Path) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    made = []
    for name in ("report.docx", "report.pdf"):
        shutil.copyfile(folder / name, output / name)
        made.append(output / name)
    return made
