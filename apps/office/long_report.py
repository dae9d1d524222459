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

from apps.office.agent import CHECKS, OfficeOrder, OfficeResult, Say, check_order, verify_made, write_reports
from apps.office.chapters import (
    CHAPTER,
    WORKS,
    Chapter,
    Faults,
    finished_chapters,
    lay_out,
    lay_out_chapter,
    merge_faults,
    plain_names,
    read_chapters,
)
from apps.office.check.findings import FACTS, CheckReport, Expectation
from apps.office.safe_xml import OfficeError
from apps.office.sandbox import CELL_S, OfficeKernels, office_kernels, run_inside
from cua import Watch
from cua.config import Settings, load_settings
from cua.errors import ConfigError
from cua.messages import ToolResult
from cua.model import Model
from cua.run.end import End, RunResult
from cua.swarm import FinalStep, SwarmOptions, resume_swarm, run_plan, run_swarm
from cua.swarm.child import Assignment, SubagentConfig
from cua.swarm.session import SwarmResult
from cua.swarm.swarm import Swarm
from cua.tool_agent.profile import VISUAL_TOOLS, ToolContext
from cua.tools.service import Service, to_tool_result
from cua.tools.toolset import Arguments, schema_of
from cua.trajectory import load_run
from cua.trajectory.chain import FILES
from cua.trajectory.images import write_atomically

MENDING = "mending"
"""Subfolder of a run with the correction rounds, each recorded as the run of a swarm."""

ENDED_WELL = ("succeeded", "unverified")
_PLAN = "plan.json"
_SHARED = ("words", "pages", "equations", "figures", "tables", "footnotes", "headings", "bibliography")
_MAX_TOLD = 40
_ASKED = (
    "{prompt}\n\n# The verifier found something in your chapter\n\nYou have written this chapter already: {names} lie "
    "in your working folder. All chapters were merged, and in yours this is wrong:\n{faults}\nMend that in the files, "
    "and change nothing else. Call check_chapter when you are done. Then answer in one sentence what you have changed."
)
BUILD_S = 900.0
_INSIDE = "apps.office.inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
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
        files = tuple(f"{_folder(self.number)}/{name}" for name in self.files)
        return Assignment(config=SubagentConfig(**self.writer), prompt=self.prompt, files=files)


def faults_by_chapter(made: OfficeResult, order: OfficeOrder, chapters: Sequence[Chapter]) -> Faults:
    """Return the findings by chapter; chapters with warnings only are omitted."""
    found: Faults = {}
    has_error: set[int] = set()
    for report in made.reports:
        if len(report.sections) - len(chapters) not in (0, 1):  # 1: the list of references
            continue
        for one in report.findings:
            if one.level != "note" and 1 <= one.section <= len(chapters):
                number = chapters[one.section - 1].number
                found.setdefault(number, []).append(f"{report.file}: {one.to_text()}")
                has_error |= {number} if one.level == "error" else set()
    for number, text in _shares(made.reports, order, chapters):
        found.setdefault(number, []).append(text)
        has_error.add(number)
    return {number: texts[:_MAX_TOLD] for number, texts in sorted(found.items()) if number in has_error}


def _shares(reports: Sequence[CheckReport], order: OfficeOrder, chapters: Sequence[Chapter]) -> list[tuple[int, str]]:
    """Divide unmet counts of the whole document among chapters: the shortest ones grow, the longest ones shrink."""
    gaps: dict[str, tuple[int, str]] = {}
    for report in reports:
        for one in map(Expectation.parse, order.expectations(report.file)):
            have = report.facts.get(one.fact, 0)
            if one.fact not in _SHARED or one.holds(have):
                continue
            gap = one.number - have + {">": 1, "<": -1}.get(one.relation, 0)
            if abs(gap) > abs(gaps.get(one.fact, (0, ""))[0]):
                gaps[one.fact] = (
                    gap,
                    f"{report.file} has {have} {FACTS[one.fact]}, asked for {one.relation} {one.number}",
                )
    found = []
    for fact, (gap, said) in gaps.items():
        by_length = sorted(chapters, key=lambda one: len(one.text), reverse=gap < 0)
        concerned, what = by_length[: abs(gap)], f"{'more' if gap > 0 else 'fewer'} {FACTS[fact]}"
        for at, chapter in enumerate(concerned):
            share = abs(gap) // len(concerned) + (at < abs(gap) % len(concerned))
            found.append((chapter.number, f"{said}: your share is {share} {what}"))
    return found


def _folder(number: int) -> str:
    return f"chapter-{number}"


class RevisionRounds:
    """Correction rounds of one document.

    Args:
        run_dir: Folder of the run that wrote it.
        given: Arguments of `run_swarm`.
    """

    def __init__(self, run_dir: Path, given: Mapping[str, Any]) -> None:
        self._place, self._given = run_dir / MENDING, dict(given)

    @property
    def records(self) -> list[Path]:
        """Folders of the rounds so far."""
        return sorted(one for one in self._place.iterdir() if one.is_dir()) if self._place.is_dir() else []

    @property
    def number(self) -> int:
        """Number of rounds in which at least one chapter was fixed."""
        return sum(bool(_mended(record)) for record in self.records)

    def latest(self, chapters: Sequence[Chapter]) -> list[Chapter]:
        """Return the chapters with their latest fixes; a chapter that a fix broke keeps its previous version."""
        newest = {one.number: one for one in chapters}
        for record in self.records:
            for number, mended in _mended(record).items():
                before = newest.get(number)
                if before is not None and (not mended.faults or before.faults):
                    newest[number] = replace(mended, prompt=before.prompt, title=before.title)
        return [newest[one.number] for one in chapters]

    async def go_on(self, spent: RunResult) -> RunResult | None:
        """Finish an interrupted round; None if there is none. `spent` as for `play`."""
        record = self.records[-1] if self.records else None
        if record is None or not (record / _PLAN).is_file():
            return None
        earlier = (await asyncio.to_thread(load_run, record, images=0)).result
        if earlier is not None and earlier.end.status in ENDED_WELL:
            return None
        return await self._play(load_tasks(record), spent, resume=record)

    async def play(self, faults: Faults, chapters: Sequence[Chapter], spent: RunResult) -> RunResult:
        """Send chapters back to their writers, and wait for them.

        Args:
            faults: Faults by chapter.
            chapters: All current chapters.
            spent: Usage of the run so far, which counts towards the limits.

        Raises:
            OfficeError: If a limit is used up.
        """
        concerned = [one for one in chapters if one.number in faults]
        tasks = [_task_of(one, faults[one.number]) for one in concerned]

        def begin(swarm: Swarm) -> None:
            record = Path(swarm.scope.record.shown_dir or ".")
            for one in concerned:
                lay_out_chapter(one, record / FILES / _folder(one.number))
            write_atomically(record / _PLAN, json.dumps([asdict(task) for task in tasks]).encode())

        return await self._play(tasks, spent, on_swarm=begin, runs_dir=self._place)

    async def _play(self, tasks: Sequence[Task], spent: RunResult, **more: Any) -> RunResult:
        given = {name: one for name, one in self._given.items() if name != "runs_dir"}
        model = given.get("model")
        flags = {name: one for name, one in given.items() if name not in ("options", "sandbox", "watch", "model")}
        settings = load_settings({**flags, **({"model": model} if isinstance(model, str) else {})}).settings
        options: SwarmOptions = given["options"]
        limits = replace(options.limits, max_children=max(options.limits.max_children, len(tasks)))
        calls = max(options.preset.orchestrator_calls, 2 * len(tasks))
        options = replace(options, limits=limits, preset=replace(options.preset, orchestrator_calls=calls))
        numbers = ", ".join(str(task.number) for task in tasks)
        done = await run_plan(
            f"Have chapters {numbers} mended.",
            [task.assignment() for task in tasks],
            FinalStep(answer=lambda _: f"These chapters were given back to their writers: {numbers}."),
            **{**given, **left_over(settings, spent), "options": options, **more},
        )
        return await asyncio.to_thread(_checked, done)


def _checked(done: SwarmResult) -> RunResult:
    """Return the result of a round; it is failed if no writer delivered a chapter."""
    if done.run.end.status not in ENDED_WELL or _mended(Path(done.run.run_dir or ".")):
        return done.run
    reason = next((child.reason for child in done.children if child.reason), "no chapter was saved")
    return replace(done.run, end=End(status="failed", reason=f"no writer could mend its chapter: {reason}"))


def _mended(record: Path) -> dict[int, Chapter]:
    return finished_chapters(record)[0]


def _task_of(chapter: Chapter, faults: Sequence[str]) -> Task:
    writer = chapter.writer or SubagentConfig(name="chapter-writer", system_prompt="")
    names = (CHAPTER, WORKS, *plain_names(chapter).values())
    told = "\n".join(f"- {one}" for one in faults)
    prompt = _ASKED.format(prompt=chapter.prompt, names=", ".join(names), faults=told)
    return Task(number=chapter.number, writer=asdict(writer), prompt=prompt, files=names)


def load_tasks(record: Path) -> list[Task]:
    """Load the tasks of a round.

    Raises:
        OfficeError: If its plan is damaged.
    """
    try:
        values = json.loads((record / _PLAN).read_text("utf-8"))
        return [Task(**{**one, "files": tuple(one["files"])}) for one in values]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OfficeError(f"the plan of the round {record} is damaged: {error}") from error


def left_over(settings: Settings, spent: RunResult) -> dict[str, Any]:
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
            raise OfficeError(f"nothing is left of {name} ({most:g}) for a round of mending")
    return {name: most - used for name, most, used in pairs if most is not None}


class CheckChapterArguments(Arguments):
    """Arguments of `check_chapter`: none."""


class CheckChapterTool:
    """Checks a writer's chapter.md: faults, length and appearance; implements `cua.model.Tool`."""

    name = "check_chapter"
    is_repeatable = True
    description = "Look at chapter.md and works.bib of the working folder: what is missing, counts, images of pages."

    def __init__(self, service: Service) -> None:
        self._service = service
        self.parameters: Mapping[str, Any] = schema_of(CheckChapterArguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run the check."""
        code = "from apps.office.inside import show_chapter\nprint(show_chapter())"
        return to_tool_result(await self._service.run(code, timeout_s=CELL_S), kind="service", code=code)


def _make_check(place: ToolContext) -> CheckChapterTool:
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
) -> OfficeResult:
    """Write a long document with a swarm; the results are `report.docx` and `report.pdf`, verified.

    Args:
        order: Order to carry out.
        resume: Folder of an earlier run to resume; its finished chapters are not written again.
        model: A model object (the caller closes it), or a name as in the settings.
        watch: Observer of the run.
        say: Callback for each line of progress.
        options: Options of the swarm; its tools are replaced here.
        settings: Individual settings by name.

    Raises:
        ConfigError: If a setting or file is wrong; nothing was started.
        OfficeError: If a chapter is missing, or the chapters cannot be merged; the run can be resumed.
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
        made = OfficeResult(run=await _write(order, resume, given))
        run_dir = resume or Path(str(made.run.run_dir))
        if made.run.end.status in ENDED_WELL:
            await _Report(made, order, maker, say).finish(run_dir, given)
        else:
            await asyncio.to_thread(read_chapters, run_dir)  # says which are missing
            made.missing.append(f"the swarm ended as {made.run.end.status}: {made.run.end.reason}")
        await asyncio.to_thread(write_reports, made, order.output)
        return made


class _Report:
    """Merged document: built, verified, and rebuilt from fixed chapters."""

    def __init__(self, made: OfficeResult, order: OfficeOrder, maker: OfficeKernels, say: Say) -> None:
        self._made, self._order, self._maker, self._say = made, order, maker, say

    async def finish(self, run_dir: Path, given: Mapping[str, Any]) -> None:
        """Merge and verify; findings are sent back to the writers for the ordered number of rounds.

        Raises:
            OfficeError: If the chapters cannot be merged, and no writer fixed that.
        """
        made, rounds = self._made, RevisionRounds(run_dir, given)
        written = await asyncio.to_thread(read_chapters, run_dir)
        title, author = title_of(made.run.end.answer or "")
        try:
            ended = await rounds.go_on(made.run)
        except OfficeError:  # the limits are used up: merge what exists
            ended = None
        while True:
            self._add(ended)
            if ended is not None and ended.end.status == "stopped":
                break
            chapters = await asyncio.to_thread(rounds.latest, written)
            made.rounds = 1 + await asyncio.to_thread(lambda: rounds.number)
            faults = await self._merge(chapters, title, author)
            if not faults or made.rounds > self._order.rounds or (ended and ended.end.status not in ENDED_WELL):
                break
            self._say(f"round {made.rounds}: findings go back to the writers of chapters {', '.join(map(str, faults))}")
            try:
                ended = await rounds.play(faults, chapters, made.run)
            except OfficeError as error:
                made.missing.append(str(error))
                break
        if ended is not None and ended.end.status not in ENDED_WELL:
            made.missing.append(f"a round of mending ended as {ended.end.status}: {ended.end.reason}")
        if not made.files:
            raise OfficeError("; ".join(made.missing))

    def _add(self, ended: RunResult | None) -> None:
        """Add the usage of a round to the run."""
        run = self._made.run
        if ended is None:
            return
        self._made.run = replace(
            run,
            usage=run.usage + ended.usage,
            num_steps=run.num_steps + ended.num_steps,
            duration_s=run.duration_s + ended.duration_s,
        )

    async def _merge(self, chapters: Sequence[Chapter], title: str, author: str) -> Faults:
        """Merge and verify, and return the faults by chapter."""
        made, output = self._made, self._order.output
        self._say(f"merging {len(chapters)} chapters")
        faults = merge_faults(chapters)
        if not faults:
            built = await _build(self._maker, chapters, title, author, output)
            faults = built if isinstance(built, dict) else {}
            made.files = made.files if isinstance(built, dict) else built
        if faults:
            told = [f"chapter {number}: {text}" for number, texts in faults.items() for text in texts]
            made.missing = [f"the chapters do not fit together: {'; '.join(told[:12])}"]
            return faults
        made.missing, made.reports = [], []
        shutil.rmtree(output / CHECKS, ignore_errors=True)
        await verify_made(made, self._order, self._maker)
        self._say(made.to_text())
        return faults_by_chapter(made, self._order, chapters)


def _with_tools(options: SwarmOptions) -> SwarmOptions:
    return replace(options, tools=(*VISUAL_TOOLS, _make_check))


async def _write(order: OfficeOrder, resume: Path | None, given: dict[str, Any]) -> RunResult:
    prompt = resources.files("apps.office").joinpath("long_prompt.md").read_text(encoding="utf-8").strip()
    if resume is not None:
        try:
            return (await resume_swarm(resume, **given)).run
        except ConfigError:
            record = await asyncio.to_thread(load_run, resume, images=0)
            if record.result is None or record.result.end.status not in ENDED_WELL:
                raise
            return record.result  # already written: only merged again
    asked = f"{prompt}\n\n# What is asked for\n\n{order.instruction}"
    if order.expect:
        asked += f"\n\nCounted at the end: {', '.join(order.expect)}"
    return (await run_swarm(asked, order.files, **given)).run


def title_of(answer: str) -> tuple[str, str]:
    """Return title and author from the editor's answer."""
    lines = [*answer.strip().splitlines(), "", ""]
    title = lines[0].lstrip("# ").strip()
    author = lines[1].strip()
    return title or "Report", author if len(author) < 80 else ""


async def _build(
    maker: OfficeKernels, chapters: Sequence[Chapter], title: str, author: str, output: Path
) -> list[Path] | Faults:
    """Merge the chapters in the sandbox, and return the two files, or the faults of chapters that cannot be typeset.

    Raises:
        OfficeError: If merging fails and each chapter alone can be typeset.
    """
    with tempfile.TemporaryDirectory(prefix="k25-long-") as scratch:
        folder, count = Path(scratch), len(chapters)
        await asyncio.to_thread(lay_out, chapters, folder)
        kernel = await maker.make_kernel(folder)
        try:
            await run_inside(kernel, _INSIDE, "build_report", count, title, author, timeout_s=BUILD_S)
        except OfficeError:
            refused = await run_inside(kernel, _INSIDE, "refused_chapters", count, timeout_s=BUILD_S)
            if not refused:
                raise
            return {chapters[int(at) - 1].number: [text] for at, text in refused.items()}
        finally:
            await kernel.close()
        return await asyncio.to_thread(_take, folder, output)


def _take(folder: Path, output: Path) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    made = []
    for name in ("report.docx", "report.pdf"):
        shutil.copyfile(folder / name, output / name)
        made.append(output / name)
    return made
