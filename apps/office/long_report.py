"""Long documents by a swarm: one outline, chapters by sub-agents, one style, one bibliography, merged and verified."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from apps.office.agent import CHECKS, Made, OfficeOrder, Say, check_order, verify_made, write_reports
from apps.office.chapters import Chapter, Faults, lay_out, merge_faults, read_chapters
from apps.office.mending import ENDED_WELL, Rounds, faults_by_chapter
from apps.office.safe_xml import OfficeError
from apps.office.sandbox import CELL_S, OfficeKernels, office_kernels, run_inside
from cua import Watch
from cua.errors import ConfigError
from cua.messages import ToolResult
from cua.model import Model
from cua.run.end import RunResult
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.tool_agent.profile import VISUAL_TOOLS, Workplace
from cua.tools.service import Service, to_tool_result
from cua.tools.toolset import Arguments, schema_of
from cua.trajectory import load_run

BUILD_S = 900.0
_INSIDE = "apps.office.inside"


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
        made = Made(run=await _write(order, resume, given))
        run_dir = resume or Path(str(made.run.run_dir))
        if made.run.end.status in ENDED_WELL:
            await _Report(made, order, maker, say).finish(run_dir, given)
        else:
            await asyncio.to_thread(read_chapters, run_dir)  # says which are missing
            made.missing.append(f"the swarm ended as {made.run.end.status}: {made.run.end.reason}")
        await asyncio.to_thread(write_reports, made, order.output)
        return made


class _Report:
    """The merged document: made, verified, and made anew of chapters that were mended."""

    def __init__(self, made: Made, order: OfficeOrder, maker: OfficeKernels, say: Say) -> None:
        self._made, self._order, self._maker, self._say = made, order, maker, say

    async def finish(self, run_dir: Path, given: Mapping[str, Any]) -> None:
        """Merge and verify; what is wrong goes back to the writers, for as many rounds as are ordered.

        Raises:
            OfficeError: The chapters do not fit together, and no writer could mend that.
        """
        made, rounds = self._made, Rounds(run_dir, given)
        written = await asyncio.to_thread(read_chapters, run_dir)
        title, author = title_of(made.run.end.answer or "")
        try:
            ended = await rounds.go_on(made.run)
        except OfficeError:  # the limits are used up: what there is, is merged
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
        """Count what a round has used."""
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
        """Merge and verify; returns what is wrong with which chapter."""
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
            return record.result  # it is written already: only merged once more
    asked = f"{prompt}\n\n# What is asked for\n\n{order.instruction}"
    if order.expect:
        asked += f"\n\nCounted at the end: {', '.join(order.expect)}"
    return (await run_swarm(asked, order.files, **given)).run


def title_of(answer: str) -> tuple[str, str]:
    """Title and author that the editor has answered."""
    lines = [*answer.strip().splitlines(), "", ""]
    title = lines[0].lstrip("# ").strip()
    author = lines[1].strip()
    return title or "Report", author if len(author) < 80 else ""


async def _build(
    maker: OfficeKernels, chapters: Sequence[Chapter], title: str, author: str, output: Path
) -> list[Path] | Faults:
    """Merge the chapters in the sandbox: the two files, or what is wrong with the chapters that cannot be typeset.

    Raises:
        OfficeError: It failed, and no chapter is to blame alone.
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
