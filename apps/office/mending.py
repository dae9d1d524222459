"""What the verifier finds in a merged document goes back to the writers of the chapters that it is in."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from apps.office.agent import Made, OfficeOrder
from apps.office.chapters import CHAPTER, WORKS, Chapter, Faults, finished_chapters, lay_out_chapter, plain_names
from apps.office.check.findings import FACTS, CheckReport, Expectation
from apps.office.safe_xml import OfficeError
from cua.config import Settings, load_settings
from cua.run.end import End, RunResult
from cua.swarm import SwarmOptions, Then, run_plan
from cua.swarm.child import Assignment, SubagentConfig
from cua.swarm.session import SwarmResult
from cua.swarm.swarm import Swarm
from cua.trajectory import load_run
from cua.trajectory.chain import FILES
from cua.trajectory.images import write_atomically

MENDING = "mending"
"""Folder of a run in which the rounds of mending are recorded, each as the run of a swarm."""

ENDED_WELL = ("succeeded", "unverified")
_PLAN = "plan.json"
_SHARED = ("words", "pages", "equations", "figures", "tables", "footnotes", "headings", "bibliography")
_MAX_TOLD = 40
_ASKED = (
    "{prompt}\n\n# The verifier found something in your chapter\n\nYou have written this chapter already: {names} lie "
    "in your working folder. All chapters were merged, and in yours this is wrong:\n{faults}\nMend that in the files, "
    "and change nothing else. Call check_chapter when you are done. Then answer in one sentence what you have changed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A chapter that goes back to its writer.

    Attributes:
        number: Of the chapter.
        writer: Fields of the `SubagentConfig`.
        prompt: What the writer is asked now.
        files: What it gets, by their names within the chapter's folder.
    """

    number: int
    writer: Mapping[str, Any]
    prompt: str
    files: tuple[str, ...]

    def assignment(self) -> Assignment:
        """What a swarm is to do."""
        files = tuple(f"{_folder(self.number)}/{name}" for name in self.files)
        return Assignment(config=SubagentConfig(**self.writer), prompt=self.prompt, files=files)


def faults_by_chapter(made: Made, order: OfficeOrder, chapters: Sequence[Chapter]) -> Faults:
    """What the verifier says of each chapter; one without an error is left out, warnings alone are not given back."""
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
    """What the whole has too little or too much of, shared out: the shortest chapters grow, the longest ones shrink."""
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


class Rounds:
    """The rounds of mending of one document.

    Args:
        run_dir: Of the swarm that has written it.
        given: Arguments of `run_swarm`.
    """

    def __init__(self, run_dir: Path, given: Mapping[str, Any]) -> None:
        self._place, self._given = run_dir / MENDING, dict(given)

    @property
    def records(self) -> list[Path]:
        """The folders of the rounds up to now."""
        return sorted(one for one in self._place.iterdir() if one.is_dir()) if self._place.is_dir() else []

    @property
    def number(self) -> int:
        """How many rounds there were; one in which no chapter was mended does not count."""
        return sum(bool(_mended(record)) for record in self.records)

    def latest(self, chapters: Sequence[Chapter]) -> list[Chapter]:
        """The chapters as they were mended last; one that was broken by that stays as it was."""
        newest = {one.number: one for one in chapters}
        for record in self.records:
            for number, mended in _mended(record).items():
                before = newest.get(number)
                if before is not None and (not mended.faults or before.faults):
                    newest[number] = replace(mended, prompt=before.prompt, title=before.title)
        return [newest[one.number] for one in chapters]

    async def go_on(self, spent: RunResult) -> RunResult | None:
        """Finish a round that broke off; None when there is none. `spent` as for `play`."""
        record = self.records[-1] if self.records else None
        if record is None or not (record / _PLAN).is_file():
            return None
        earlier = (await asyncio.to_thread(load_run, record, images=0)).result
        if earlier is not None and earlier.end.status in ENDED_WELL:
            return None
        return await self._play(load_tasks(record), spent, resume=record)

    async def play(self, faults: Faults, chapters: Sequence[Chapter], spent: RunResult) -> RunResult:
        """Give chapters back to their writers, and wait for them.

        Args:
            faults: What is wrong with which.
            chapters: All, as they are now.
            spent: What the run has used up to now; it counts for the limits.

        Raises:
            OfficeError: Nothing is left of a limit.
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
            Then(answer=lambda _: f"These chapters were given back to their writers: {numbers}."),
            **{**given, **left_over(settings, spent), "options": options, **more},
        )
        return await asyncio.to_thread(_checked, done)


def _checked(done: SwarmResult) -> RunResult:
    """How a round ended; it failed when no writer came to an end."""
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
    """The tasks of a round.

    Raises:
        OfficeError: Its plan is damaged.
    """
    try:
        values = json.loads((record / _PLAN).read_text("utf-8"))
        return [Task(**{**one, "files": tuple(one["files"])}) for one in values]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OfficeError(f"the plan of the round {record} is damaged: {error}") from error


def left_over(settings: Settings, spent: RunResult) -> dict[str, Any]:
    """What is left of the limits on tokens, money and time, as settings.

    Raises:
        OfficeError: Nothing is left of one.
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
