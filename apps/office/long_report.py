"""Long documents by a swarm: one outline, chapters by sub-agents, one style, one bibliography, merged and verified.

Findings of the verifier in the merged document are sent back to the writers of the affected chapters.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from apps.office.agent import CHECKS, Emit, OfficeRequest, OfficeResult, check_request, verify_files, write_reports
from apps.office.chapters import (
    CHAPTER,
    WORKS,
    ChapterErrors,
    WrittenChapter,
    find_merge_errors,
    finished_chapters,
    plain_image_names,
    read_chapters,
    write_chapter,
    write_chapters,
)
from apps.office.check.findings import FACTS, CheckReport, Expectation
from apps.office.safe_xml import OfficeError
from apps.office.sandbox import CELL_S, OfficeKernels, office_kernels, run_in_kernel
from cua import Watch
from cua.config import Settings, load_settings
from cua.errors import ConfigError
from cua.messages import ToolResult
from cua.model import Model, Tool
from cua.run.end import End, RunResult
from cua.swarm import FinalStep, SwarmOptions, resume_swarm, run_plan, run_swarm
from cua.swarm.child import Assignment, SubagentConfig
from cua.swarm.session import SwarmResult
from cua.swarm.swarm import Swarm
from cua.tool_agent.profile import VISUAL_TOOLS, ToolContext
from cua.tools.kernel_tools import SecondKernel, to_tool_result
from cua.tools.toolset import Arguments, schema_of
from cua.trajectory import load_run
from cua.trajectory.chain import FILES
from cua.trajectory.images import write_atomically

REVISIONS = "mending"
"""Subfolder of a run with the correction rounds, each recorded as the run of a swarm."""

COMPLETED = ("succeeded", "unverified")
_PLAN = "plan.json"
_DIVISIBLE = ("words", "pages", "equations", "figures", "tables", "footnotes", "headings", "bibliography")
_MAX_ERRORS_SENT = 40  # findings in one message to a writer; the rest comes in the next round
_REVISION_PROMPT = (
    "{prompt}\n\n# The verifier found something in your chapter\n\nYou have written this chapter already: {names} lie "
    "in your working folder. All chapters were merged, and in yours this is wrong:\n{faults}\nFix that in the files, "
    "and change nothing else. Call check_chapter when you are done. Then answer in one sentence what you have changed."
)
BUILD_S = 900.0  # bounds the typesetting of the whole document
_MODULE = "apps.office.sandbox_functions"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionTask:
    """Chapter that is sent back to its writer.

    Attributes:
        number: Number of the chapter.
        writer: Fields of the writer's `SubagentConfig`.
        prompt: New prompt of the writer.
        files: Input files, by their names within the chapter's folder.
    """

    number: int
    writer: Mapping[str, Any]
    prompt: str
    files: tuple[str, ...]

    def assignment(self) -> Assignment:
        """Return the assignment for a swarm."""
        files = tuple(f"{_chapter_folder(self.number)}/{name}" for name in self.files)
        return Assignment(config=SubagentConfig(**self.writer), prompt=self.prompt, files=files)


def errors_by_chapter(
    result: OfficeResult, request: OfficeRequest, chapters: Sequence[WrittenChapter]
) -> ChapterErrors:
    """Return the findings by chapter; chapters with warnings only are omitted."""
    errors: ChapterErrors = {}
    has_error: set[int] = set()
    for report in result.reports:
        if len(report.sections) - len(chapters) not in (0, 1):  # 1: the list of references
            continue
        for finding in report.findings:
            if finding.level != "note" and 1 <= finding.section <= len(chapters):
                number = chapters[finding.section - 1].number
                errors.setdefault(number, []).append(f"{report.file}: {finding.to_text()}")
                has_error |= {number} if finding.level == "error" else set()
    for number, text in _divide_gaps(result.reports, request, chapters):
        errors.setdefault(number, []).append(text)
        has_error.add(number)
    return {number: texts[:_MAX_ERRORS_SENT] for number, texts in sorted(errors.items()) if number in has_error}


def _divide_gaps(
    reports: Sequence[CheckReport], request: OfficeRequest, chapters: Sequence[WrittenChapter]
) -> list[tuple[int, str]]:
    """Divide unmet counts of the whole document among chapters: the shortest ones grow, the longest ones shrink."""
    gaps: dict[str, tuple[int, str]] = {}
    for report in reports:
        for expectation in map(Expectation.parse, request.expectations(report.file)):
            have = report.facts.get(expectation.fact, 0)
            if expectation.fact not in _DIVISIBLE or expectation.holds(have):
                continue
            gap = expectation.number - have + {">": 1, "<": -1}.get(expectation.relation, 0)
            if abs(gap) > abs(gaps.get(expectation.fact, (0, ""))[0]):
                gaps[expectation.fact] = (
                    gap,
                    f"{report.file} has {have} {FACTS[expectation.fact]}, "
                    f"asked for {expectation.relation} {expectation.number}",
                )
    shares = []
    for fact, (gap, text) in gaps.items():
        by_length = sorted(chapters, key=lambda chapter: len(chapter.text), reverse=gap < 0)
        concerned, amount = by_length[: abs(gap)], f"{'more' if gap > 0 else 'fewer'} {FACTS[fact]}"
        for at, chapter in enumerate(concerned):
            share = abs(gap) // len(concerned) + (at < abs(gap) % len(concerned))
            shares.append((chapter.number, f"{text}: your share is {share} {amount}"))
    return shares


def _chapter_folder(number: int) -> str:
    return f"chapter-{number}"


class RevisionRounds:
    """Correction rounds of one document.

    Args:
        run_dir: Folder of the run that wrote it.
        options: Arguments of `run_swarm`.
    """

    def __init__(self, run_dir: Path, options: Mapping[str, Any]) -> None:
        self._folder, self._options = run_dir / REVISIONS, dict(options)

    @property
    def records(self) -> list[Path]:
        """Folders of the rounds so far."""
        return sorted(folder for folder in self._folder.iterdir() if folder.is_dir()) if self._folder.is_dir() else []

    @property
    def number(self) -> int:
        """Number of rounds in which at least one chapter was fixed."""
        return sum(bool(_revised_chapters(record)) for record in self.records)

    def latest(self, chapters: Sequence[WrittenChapter]) -> list[WrittenChapter]:
        """Return the chapters with their latest fixes; a chapter that a fix broke keeps its previous version."""
        newest = {chapter.number: chapter for chapter in chapters}
        for record in self.records:
            for number, revised in _revised_chapters(record).items():
                before = newest.get(number)
                if before is not None and (not revised.errors or before.errors):
                    newest[number] = replace(revised, prompt=before.prompt, title=before.title)
        return [newest[chapter.number] for chapter in chapters]

    async def go_on(self, spent: RunResult) -> RunResult | None:
        """Finish an interrupted round, or one with unfinished writers; None if there is none. `spent` as for `play`."""
        record = self.records[-1] if self.records else None
        if record is None or not (record / _PLAN).is_file():
            return None
        earlier = (await asyncio.to_thread(load_run, record, images=0)).result
        if earlier is not None and earlier.end.status in (*COMPLETED, "failed") and not earlier.end.num_unfinished:
            return None
        return await self._play(load_tasks(record), spent, resume=record)

    async def play(self, errors: ChapterErrors, chapters: Sequence[WrittenChapter], spent: RunResult) -> RunResult:
        """Send chapters back to their writers, and wait for them.

        Args:
            errors: Errors by chapter.
            chapters: All current chapters.
            spent: Usage of the run so far, which counts towards the limits.

        Raises:
            OfficeError: If a limit is used up.
        """
        concerned = [chapter for chapter in chapters if chapter.number in errors]
        tasks = [_make_task(chapter, errors[chapter.number]) for chapter in concerned]

        def begin(swarm: Swarm) -> None:
            record = Path(swarm.scope.record.shown_dir or ".")
            for chapter in concerned:
                write_chapter(chapter, record / FILES / _chapter_folder(chapter.number))
            write_atomically(record / _PLAN, json.dumps([asdict(task) for task in tasks]).encode())

        return await self._play(tasks, spent, on_swarm=begin, runs_dir=self._folder)

    async def _play(self, tasks: Sequence[RevisionTask], spent: RunResult, **more: object) -> RunResult:
        run_options = {name: value for name, value in self._options.items() if name != "runs_dir"}
        model = run_options.get("model")
        flags = {
            name: value for name, value in run_options.items() if name not in ("options", "sandbox", "watch", "model")
        }
        settings = load_settings({**flags, **({"model": model} if isinstance(model, str) else {})}).settings
        options: SwarmOptions = run_options["options"]
        limits = replace(options.limits, max_children=max(options.limits.max_children, len(tasks)))
        calls = max(options.preset.orchestrator_calls, 2 * len(tasks))
        options = replace(options, limits=limits, preset=replace(options.preset, orchestrator_calls=calls))
        numbers = ", ".join(str(task.number) for task in tasks)
        done = await run_plan(
            f"Have chapters {numbers} revised.",
            [task.assignment() for task in tasks],
            FinalStep(answer=lambda _: f"These chapters were returned to their writers: {numbers}."),
            **{**run_options, **remaining_limits(settings, spent), "options": options, **more},
        )
        return await asyncio.to_thread(_round_result, done)


def _round_result(done: SwarmResult) -> RunResult:
    """Return the result of a round; it is failed if no writer delivered a chapter."""
    if done.run.end.status not in COMPLETED or _revised_chapters(Path(done.run.run_dir or ".")):
        return done.run
    reason = next((child.reason for child in done.children if child.reason), "no chapter was saved")
    return replace(done.run, end=End(status="failed", reason=f"no writer fixed its chapter: {reason}"))


def _revised_chapters(record: Path) -> dict[int, WrittenChapter]:
    return finished_chapters(record)[0]


def _make_task(chapter: WrittenChapter, errors: Sequence[str]) -> RevisionTask:
    writer = chapter.writer or SubagentConfig(name="chapter-writer", system_prompt="")
    names = (CHAPTER, WORKS, *plain_image_names(chapter).values())
    error_list = "\n".join(f"- {error}" for error in errors)
    prompt = _REVISION_PROMPT.format(prompt=chapter.prompt, names=", ".join(names), faults=error_list)
    return RevisionTask(number=chapter.number, writer=asdict(writer), prompt=prompt, files=names)


def load_tasks(record: Path) -> list[RevisionTask]:
    """Load the tasks of a round.

    Raises:
        OfficeError: If its plan is damaged.
    """
    try:
        values = json.loads((record / _PLAN).read_text("utf-8"))
        return [RevisionTask(**{**value, "files": tuple(value["files"])}) for value in values]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OfficeError(f"the plan of the round {record} is damaged: {error}") from error


def remaining_limits(settings: Settings, spent: RunResult) -> dict[str, object]:
    """Return the remaining tokens, cost and time as settings.

    Raises:
        OfficeError: If a limit is used up.
    """
    pairs = (
        ("max_tokens", settings.max_tokens, spent.usage.total_tokens),
        ("max_cost", settings.max_cost, spent.usage.cost_usd or 0.0),
        ("max_time", settings.max_time, spent.duration_s),
    )
    for name, most, used in pairs:
        if most is not None and used >= most:
            raise OfficeError(f"nothing is left of {name} ({most:g}) for another revision round")
    return {name: most - used for name, most, used in pairs if most is not None}


class CheckChapterArguments(Arguments):
    """Arguments of `check_chapter`: none."""


class CheckChapterTool(Tool):
    """Checks a writer's chapter.md: faults, length and appearance."""

    name = "check_chapter"
    is_repeatable = True
    description = "Look at chapter.md and works.bib of the working folder: what is missing, counts, images of pages."

    def __init__(self, second_kernel: SecondKernel) -> None:
        self._second_kernel = second_kernel
        self.parameters: Mapping[str, object] = schema_of(CheckChapterArguments)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Run the check."""
        code = "from apps.office.sandbox_functions import show_chapter\nprint(show_chapter())"
        return to_tool_result(await self._second_kernel.run(code, timeout_s=CELL_S), kind="service", code=code)


def _make_check(workplace: ToolContext) -> CheckChapterTool:
    return CheckChapterTool(workplace.second_kernel)


async def make_long_document(
    request: OfficeRequest,
    *,
    resume: Path | None = None,
    model: Model | str | None = None,
    watch: Watch | None = None,
    emit: Emit = lambda line: None,
    options: SwarmOptions | None = None,
    **settings: object,
) -> OfficeResult:
    """Write a long document with a swarm; the results are `report.docx` and `report.pdf`, verified.

    Args:
        request: Document to write.
        resume: Folder of an earlier run to resume; its finished chapters are not written again.
        model: A model object (the caller closes it), or a name as in the settings.
        watch: Observer of the run.
        emit: Callback for each line of progress.
        options: Options of the swarm; its tools are replaced here.
        settings: Individual settings by name.

    Raises:
        ConfigError: If a setting or file is wrong; nothing was started.
        OfficeError: If a chapter is missing, or the chapters cannot be merged; the run can be resumed.
    """
    check_request(request)
    flags = {**settings, **({"model": model} if isinstance(model, str) else {})}
    async with office_kernels(flags) as maker:
        run_options: dict[str, object] = {
            "options": _with_tools(options or SwarmOptions()),
            "sandbox": maker,
            "watch": watch,
            **{name: value for name, value in flags.items() if name != "sandbox"},
            **({"model": model} if model is not None else {}),
        }
        result = OfficeResult(run=await _run_swarm(request, resume, run_options))
        run_dir = resume or Path(str(result.run.run_dir))
        if result.run.end.status in COMPLETED:
            await _MergedDocument(result, request, maker, emit).finish(run_dir, run_options)
        else:
            await asyncio.to_thread(read_chapters, run_dir)  # says which are missing
            result.missing.append(f"the swarm ended as {result.run.end.status}: {result.run.end.reason}")
        await asyncio.to_thread(write_reports, result, request.output)
        return result


class _MergedDocument:
    """Merged document: built, verified, and rebuilt from fixed chapters."""

    def __init__(self, result: OfficeResult, request: OfficeRequest, maker: OfficeKernels, emit: Emit) -> None:
        self._result, self._request, self._maker, self._emit = result, request, maker, emit

    async def finish(self, run_dir: Path, run_options: Mapping[str, object]) -> None:
        """Merge and verify; findings are sent back to the writers for the ordered number of rounds.

        Raises:
            OfficeError: If the chapters cannot be merged, and no writer fixed that.
        """
        result, rounds = self._result, RevisionRounds(run_dir, run_options)
        written = await asyncio.to_thread(read_chapters, run_dir)
        title, author = title_of(result.run.end.answer or "")
        try:
            ended = await rounds.go_on(result.run)
        except OfficeError:  # the limits are used up: merge what exists
            ended = None
        while True:
            self._add(ended)
            if ended is not None and ended.end.status == "stopped":
                break
            chapters = await asyncio.to_thread(rounds.latest, written)
            result.rounds = 1 + await asyncio.to_thread(lambda: rounds.number)
            errors = await self._merge(chapters, title, author)
            if not errors or result.rounds > self._request.rounds or (ended and ended.end.status not in COMPLETED):
                break
            self._emit(
                f"round {result.rounds}: findings go back to the writers of chapters {', '.join(map(str, errors))}"
            )
            try:
                ended = await rounds.play(errors, chapters, result.run)
            except OfficeError as error:
                result.missing.append(str(error))
                break
        if ended is not None and ended.end.status not in COMPLETED:
            result.missing.append(f"a revision round ended as {ended.end.status}: {ended.end.reason}")
        if not result.files:
            raise OfficeError("; ".join(result.missing))

    def _add(self, ended: RunResult | None) -> None:
        """Add the usage of a round to the run."""
        run = self._result.run
        if ended is None:
            return
        self._result.run = replace(
            run,
            usage=run.usage + ended.usage,
            num_steps=run.num_steps + ended.num_steps,
            duration_s=run.duration_s + ended.duration_s,
        )

    async def _merge(self, chapters: Sequence[WrittenChapter], title: str, author: str) -> ChapterErrors:
        """Merge and verify, and return the errors by chapter."""
        result, output = self._result, self._request.output
        self._emit(f"merging {len(chapters)} chapters")
        errors = find_merge_errors(chapters)
        if not errors:
            built = await _build(self._maker, chapters, title, author, output)
            errors = built if isinstance(built, dict) else {}
            result.files = result.files if isinstance(built, dict) else built
        if errors:
            reasons = [f"chapter {number}: {text}" for number, texts in errors.items() for text in texts]
            result.missing = [f"the chapters do not fit together: {'; '.join(reasons[:12])}"]
            return errors
        result.missing, result.reports = [], []
        shutil.rmtree(output / CHECKS, ignore_errors=True)
        await verify_files(result, self._request, self._maker)
        self._emit(result.to_text())
        return errors_by_chapter(result, self._request, chapters)


def _with_tools(options: SwarmOptions) -> SwarmOptions:
    return replace(options, tools=(*VISUAL_TOOLS, _make_check))


async def _run_swarm(request: OfficeRequest, resume: Path | None, run_options: dict[str, Any]) -> RunResult:
    prompt = resources.files("apps.office").joinpath("long_prompt.md").read_text(encoding="utf-8").strip()
    if resume is not None:
        try:
            return (await resume_swarm(resume, **run_options)).run
        except ConfigError:
            record = await asyncio.to_thread(load_run, resume, images=0)
            if record.result is None or record.result.end.status not in COMPLETED:
                raise
            return record.result  # already written: only merged again
    instruction = f"{prompt}\n\n# What is asked for\n\n{request.instruction}"
    if request.expect:
        instruction += f"\n\nCounted at the end: {', '.join(request.expect)}"
    return (await run_swarm(instruction, request.files, **run_options)).run


def title_of(answer: str) -> tuple[str, str]:
    """Return title and author from the editor's answer."""
    lines = [*answer.strip().splitlines(), "", ""]
    title = lines[0].lstrip("# ").strip()
    author = lines[1].strip()
    return title or "Report", author if len(author) < 80 else ""


async def _build(
    maker: OfficeKernels, chapters: Sequence[WrittenChapter], title: str, author: str, output: Path
) -> list[Path] | ChapterErrors:
    """Merge the chapters in the sandbox, and return the two files, or the errors of chapters that cannot be typeset.

    Raises:
        OfficeError: If merging fails and each chapter alone can be typeset.
    """
    with tempfile.TemporaryDirectory(prefix="k25-long-") as scratch:
        folder, count = Path(scratch), len(chapters)
        await asyncio.to_thread(write_chapters, chapters, folder)
        kernel = await maker.make_kernel(folder)
        try:
            await run_in_kernel(kernel, _MODULE, "build_report", count, title, author, timeout_s=BUILD_S)
        except OfficeError:
            refused = await run_in_kernel(kernel, _MODULE, "refused_chapters", count, timeout_s=BUILD_S)
            if not refused:
                raise
            return {chapters[int(at) - 1].number: [text] for at, text in refused.items()}
        finally:
            await kernel.close()
        return await asyncio.to_thread(_copy_results, folder, output)


def _copy_results(folder: Path, output: Path) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    copies = []
    for name in ("report.docx", "report.pdf"):
        shutil.copyfile(folder / name, output / name)
        copies.append(output / name)
    return copies
