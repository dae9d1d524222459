"""`cua video`: answer a question about hours of video with timestamps; optionally write a page with clips."""

import shutil
import sys
import time
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings
from apps.cli.task import own_run

if TYPE_CHECKING:
    from apps.video_showcase.jobs import WatchProgress
    from apps.video_showcase.request import VideoRequest
    from apps.video_showcase.run import VideoPlan, VideoResult
    from cua.run.events import Event
    from cua.swarm import SwarmOptions

Flag = typer.Option
_PRINT_S = 5.0  # interval of progress lines in a log
_DEMO_QUESTION = "Make a showcase of the scenes, scores, banners, flashes, beeps and what moves."


def video(
    given: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES... QUESTION", help="Videos, then the question; - reads it from stdin."),
    ] = None,
    output: Annotated[
        Path | None,
        Flag("--output", "-o", metavar="FOLDER", help="Also write a showcase, a page with clips, into this folder."),
    ] = None,
    demo: Annotated[bool, Flag("--demo", help="Write a showcase of two bundled videos: no key, no network.")] = False,
    resume: common.Resume = None,
    detectors: Annotated[
        list[str] | None,
        Flag(
            "--detect",
            metavar="DETECTOR",
            help="scene, text, motion, flash, template or sound; repeatable.",
            show_default="by the question",
        ),
    ] = None,
    template: Annotated[Path | None, Flag(metavar="FILE", help="Image to search for, cut from a frame.")] = None,
    span: Annotated[
        float | None,
        Flag(metavar="SECONDS", min=5, help="Longest span for one sub-agent.", show_default="by length and cores"),
    ] = None,
    jobs: Annotated[
        int | None,
        Flag("--jobs", "-j", metavar="NUMBER", min=1, help="Parallel processes.", show_default="one per CPU core"),
    ] = None,
    other: common.Other = None,
    model: common.RulesModel = None,
    base_url: common.BaseUrl = None,
    max_calls: common.MaxCalls = None,
    max_time: common.MaxTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    sandbox: common.Sandbox = None,
    max_size: Annotated[int, common.OutputFlag(metavar="MB", min=1, help="Largest size of the showcase.")] = 200,
    max_clips: Annotated[int, common.OutputFlag(metavar="NUMBER", min=0, help="Most clips of the showcase.")] = 120,
    output_format: common.StreamFormat = "text",
) -> None:
    """Answer a question about long videos, with timestamps.

    The videos are split by file and time, sub-agents watch one span each, and their notes are merged. Each statement of
    the answer cites FILE@HH:MM:SS. --resume continues an interrupted run without watching finished spans again.

        cua video match-1.mp4 match-2.mkv "When are goals scored?" -o goals
        cua video --demo
    """
    import asyncio

    from apps.cli.running import StopSwitch, terminal_approver
    from cua import Watch

    chosen = chosen_settings(given)
    form = choice("--output-format", output_format, ("text", "json", "stream-json"))
    if [bool(inputs), resume is not None, demo].count(True) != 1:
        raise typer.BadParameter(
            'name videos and a question, or a run with --resume, or --demo, such as: cua video match.mp4 "When ...?"'
        )
    folder = Path("video-demo") if demo and output is None else output
    switch, view = StopSwitch(), _View(form)
    watch = Watch(listener=view.listen, approver=terminal_approver(), on_control=switch.connect)

    async def work() -> "tuple[VideoResult, Path | None]":
        from apps.video_showcase.run import VideoOptions, load_plan, load_result, make_plan, resume_video, run_video

        options = VideoOptions(
            swarm=_swarm_options(), num_parallel=jobs, on_progress=view.print_progress, watch=watch, sandbox=sandbox
        )
        if resume is not None:
            run_dir = own_run(resume, chosen, "video")
            target = _target(folder, load_plan(run_dir).request)
            earlier = load_result(run_dir) if target is not None else None
            result = earlier or await resume_video(run_dir, options=options, **chosen)
        else:
            files, question = await asyncio.to_thread(_demo_files, folder) if demo else _split(inputs or [])
            request = _read_request(question, detectors or [], template)
            target = _target(folder / "showcase" if demo and folder else folder, request)
            plan = await asyncio.to_thread(make_plan, files, request, num_parallel=jobs, span_s=span)
            view.print_plan(plan)
            settings = {"model": "literal", **chosen} if demo else chosen
            result = await run_video(plan, options=options, **settings)
        view.end()
        page = await _showcase(result, target, (max_size * 1_000_000, max_clips)) if target is not None else None
        return result, page

    result, page = asyncio.run(switch.guarded(work()))
    _print(result, page, form)
    sys.exit(result.run.end.exit_code)


def _swarm_options() -> "SwarmOptions":
    from cua.swarm import PRESETS, SwarmOptions

    preset = PRESETS["standard"]
    options = SwarmOptions(preset=preset)
    return replace(options, limits=replace(options.limits, child_calls=preset.child_calls))


def _split(inputs: list[str]) -> tuple[list[Path], str]:
    """Return the files and the question after them.

    Raises:
        typer.BadParameter: If one of the two is missing.
    """
    *files, question = inputs
    if not files or Path(question).is_file():
        raise typer.BadParameter(
            'name the videos first and then the question, such as: cua video match.mp4 "When ...?"'
        )
    return [Path(file).expanduser() for file in files], sys.stdin.read() if question == "-" else question


def _read_request(question: str, detectors: list[str], template: Path | None) -> "VideoRequest":
    from apps.video_showcase.request import parse_request
    from visual_tools.images.files import load_image

    if template is not None:
        load_image(template)
    return parse_request(question, detectors=detectors, template=str(template.resolve()) if template else "")


def _target(output: Path | None, request: "VideoRequest") -> Path | None:
    """Return the folder of the showcase, or None; it must be free before any work starts."""
    from apps.video_showcase.showcase import check_target

    folder = output or (Path("showcase") if request.is_showcase else None)
    if folder is not None:
        check_target(folder)
    return folder


def _demo_files(folder: Path | None) -> tuple[list[Path], str]:
    videos_dir = (folder or Path("video-demo")) / "videos"
    videos_dir.mkdir(parents=True, exist_ok=True)
    terminal.echo(f"two videos of 3 minutes each are written to {videos_dir}", err=True)
    shipped = Path(str(resources.files("apps.video_showcase").joinpath("data")))
    names = ("match-1.mp4", "match-2.mkv")
    return [Path(shutil.copyfile(shipped / name, videos_dir / name)) for name in names], _DEMO_QUESTION


async def _showcase(result: "VideoResult", folder: Path, limits: tuple[int, int]) -> Path:
    from apps.video_showcase.answer import matching_events
    from apps.video_showcase.frame_store import FrameStore
    from apps.video_showcase.run import FRAMES
    from apps.video_showcase.showcase import Showcase, write_showcase

    end, plan, measures = result.run.end, result.plan, result.swarm["measures"]
    shown = matching_events(result.events, plan.request) or result.events
    missing = [f"Not watched: {line}" for line in result.missing]
    show = Showcase(
        question=plan.request.question,
        answer=end.answer or end.reason,
        events=tuple(shown),
        sources=plan.inventory.sources,
        remarks=(*missing, *(f"Left out: {line}" for line in plan.inventory.left_out)),
        facts=(
            ("sub-agents", str(len(result.swarm["children"]))),
            ("critical steps", f"{measures['critical_steps']} of {measures['total_steps']}"),
            ("watched in", f"{measures['wall_s']:.0f} s"),
        ),
        max_bytes=limits[0],
        max_clips=limits[1],
    )
    store = FrameStore(result.run_dir / FRAMES)
    return await write_showcase(show, folder, store, terminal.echo_err)


class _View:
    """Progress display: a bar on a terminal, lines in a pipe, JSON on request."""

    def __init__(self, form: str) -> None:
        from apps.cli.progress import stream_listener

        self._form = form
        self._stream = stream_listener(names_agents=True)
        self._is_live = form != "stream-json" and sys.stderr.isatty()
        self._printed_at = 0.0
        self._is_mid_line = False

    def print_plan(self, plan: "VideoPlan") -> None:
        """Print what will be done."""
        from apps.video_showcase.events import format_clock

        for line in plan.inventory.left_out:
            terminal.echo(f"left out: {line}", err=True)
        for line in plan.inventory.repeated:
            terminal.echo(line, err=True)
        for source in plan.inventory.sources:
            for warning in source.warnings:
                terminal.echo(f"{source.name}: {warning}", err=True)
        terminal.echo(
            f"{len(plan.inventory.sources)} files of {format_clock(plan.inventory.duration_s)}, "
            f"{len(plan.spans)} spans; detectors: {', '.join(plan.request.detectors)}",
            err=True,
        )

    def print_progress(self, progress: "WatchProgress") -> None:
        """Print the overall progress."""
        from apps.video_showcase.events import format_clock

        now = time.monotonic()
        if now - self._printed_at < (0.2 if self._is_live else _PRINT_S) and progress.watched_s < progress.whole_s:
            return
        self._printed_at = now
        left_s = progress.left_s()
        left = f", {format_clock(left_s)} left" if left_s is not None else ""
        share = 100 * progress.watched_s / progress.whole_s if progress.whole_s else 100
        spans = f"{len(progress.done_s)} of {progress.num_spans} spans"
        line = f"{share:5.1f} %  {spans}  {progress.speed():.0f} times its playing time{left}"
        if self._form == "stream-json":
            facts = {"watched_s": round(progress.watched_s, 1), "whole_s": round(progress.whole_s, 1), "left_s": left_s}
            terminal.echo_json({"event": "progress", **facts})
        elif self._is_live:
            terminal.rewrite_line(line)
            self._is_mid_line = True
        else:
            terminal.echo(line, err=True)

    def end(self) -> None:
        """Finish the progress line."""
        if self._is_mid_line:
            terminal.echo(err=True)
            self._is_mid_line = False

    def listen(self, event: "Event") -> None:
        """Handle an event."""
        from cua.run.events import Noted, RunStarted

        if self._form == "stream-json":
            self._stream(event)
            return
        match event:
            case RunStarted(run_dir=run_dir) if event.ids.agent_id == "main":
                terminal.echo(f"run {run_dir}", err=True)
            case Noted(kind=kind, text=text) if kind in ("budget", "retry", "context"):
                self.end()
                terminal.echo(f"{kind}: {text}", err=True)
            case _:
                pass


def _print(result: "VideoResult", page: Path | None, form: str) -> None:
    from apps.cli.running import fingerprint_of, print_outcome

    run, measures = result.run, result.swarm["measures"]
    more: dict[str, object] = {"fingerprint": fingerprint_of(run)}
    wrong = _wrong_citations(result)
    if page is not None:
        more["showcase"] = str(page)
    if form == "text":
        terminal.echo(
            f"{len(result.events)} events; {len(result.swarm['children'])} sub-agents, "
            f"{measures['total_steps']} steps, {measures['critical_steps']} critical",
            err=True,
        )
        if wrong:
            terminal.echo(f"the answer cites times without a recorded event: {', '.join(wrong)}", err=True)
    else:
        more |= result.swarm
        more["wrong_citations"] = wrong
        more["events"] = [{**event.to_json(), "citation": event.citation} for event in result.events]
        more["missing"] = list(result.missing)
    print_outcome(run, form, more)


def _wrong_citations(result: "VideoResult") -> list[str]:
    """Return the citations of the answer at whose times nothing is noted."""
    from apps.video_showcase.events import find_citations

    text, names = result.run.end.answer or "", [source.name for source in result.plan.inventory.sources]
    citations = find_citations(text, names, result.events)
    return list(dict.fromkeys(text[citation.start : citation.end] for citation in citations if citation.event is None))
