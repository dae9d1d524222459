"""A question about videos from its files to an answer: a swarm whose sub-agents watch a span each."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from apps.video_showcase.answer import answer
from apps.video_showcase.events import Event, event_of
from apps.video_showcase.frame_store import FrameStore
from apps.video_showcase.jobs import Progress, Watchers, count_cores
from apps.video_showcase.planned import PlannedModel
from apps.video_showcase.sources import Inventory, take_inventory
from apps.video_showcase.spans import MAX_SPANS, Span, span_of, split
from apps.video_showcase.tools import MERGED, VideoContext, make_tools, task_name
from apps.video_showcase.wish import Wish, wish_of
from cua import Watch
from cua.assemble import make_settings_model
from cua.config import load_settings
from cua.errors import ConfigError
from cua.model import Model
from cua.run.end import RunResult
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm.session import RESULT, OnSwarm, SwarmResult
from cua.swarm.swarm import Swarm
from cua.tool_agent.profile import VISUAL_TOOLS
from cua.trajectory.chain import FILES
from cua.trajectory.images import write_atomically
from cua.trajectory.load import load_run
from cua.trajectory.run_files import read_inside
from visual_tools.sandbox import KernelMaker

PLAN = "video.json"
_CALLS_A_SPAN, _MORE = 15, 20
_REASON_CHARS = 200
_MAX_RESULT_BYTES = 64 << 20
FRAMES, TIMELINES = "frames", "timelines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is to do; kept in its folder.

    Attributes:
        wish: What is asked.
        inventory: The files.
        spans: How they are split.
    """

    wish: Wish
    inventory: Inventory
    spans: tuple[Span, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "wish": self.wish.to_json(),
            "left_out": list(self.inventory.left_out),
            "spans": [span.to_json() for span in self.spans],
        }


def load_plan(run_dir: Path) -> Plan:
    """The plan of a run.

    Raises:
        ConfigError: It is no run of `cua video`.
    """
    try:
        data = json.loads((run_dir / PLAN).read_text("utf-8"))
        spans = tuple(span_of(each) for each in data["spans"])
        sources = tuple(dict.fromkeys(span.source for span in spans))
        inventory = Inventory(sources=sources, left_out=tuple(data["left_out"]))
        return Plan(wish=wish_of(data["wish"]), inventory=inventory, spans=spans)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{run_dir} is no run of `cua video`, or its plan is damaged ({error})") from error


def make_plan(
    files: Sequence[Path], wish: Wish, *, num_parallel: int | None = None, span_s: float | None = None
) -> Plan:
    """Look at the files and split them.

    Raises:
        VideoInputError: Not one of them can be watched.
    """
    inventory = take_inventory(files, with_sound=wish.wants_sound)
    workers = num_parallel or count_cores()
    spans = split(inventory.sources, num_workers=workers, max_spans=MAX_SPANS, span_s=span_s)
    return Plan(wish=wish, inventory=inventory, spans=spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoOptions:
    """How a run works.

    Attributes:
        swarm: Limits of the swarm.
        num_parallel: Processes that watch at the same time; None for one a processor.
        on_progress: Told how far all have come.
        on_swarm: Gets the swarm before it starts.
        watch: Who follows the run.
        sandbox: Makes the kernels, or what isolates them.
    """

    swarm: SwarmOptions = field(default_factory=SwarmOptions)
    num_parallel: int | None = None
    on_progress: Callable[[Progress], None] | None = None
    on_swarm: OnSwarm | None = None
    watch: Watch | None = None
    sandbox: KernelMaker | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoResult:
    """What came of a run.

    Attributes:
        run: How it ended; its end holds the answer.
        swarm: Measures and sub-agents, as `swarm.json` has them.
        plan: What was to be done.
        events: What happens in the files.
        missing: Spans that nobody could watch, each described with the reason.
        num_decoded: Frames that were decoded for agents to look at.
    """

    run: RunResult
    swarm: Mapping[str, Any]
    plan: Plan
    events: tuple[Event, ...]
    missing: tuple[str, ...]
    num_decoded: int = 0

    @property
    def run_dir(self) -> Path:
        """The run's folder."""
        return Path(self.run.run_dir or ".")


def load_result(run_dir: Path) -> VideoResult | None:
    """What came of a run that was answered; None for one that can go on.

    Raises:
        ConfigError: It is no run of `cua video`.
        TrajectoryError: Its record cannot be read.
    """
    plan, result = load_plan(run_dir), load_run(run_dir, images=0).result
    if result is None or result.end.status not in ("succeeded", "failed", "unverified"):
        return None
    events, missing = load_events(run_dir, plan)
    return VideoResult(
        run=replace(result, run_dir=str(run_dir)),
        swarm=json.loads(read_inside(run_dir, RESULT, max_bytes=_MAX_RESULT_BYTES)),
        plan=plan,
        events=tuple(events),
        missing=tuple(span.describe() for span in missing),
    )


async def run_video(
    plan: Plan, *, model: Model | str | None = None, options: VideoOptions, **settings: Any
) -> VideoResult:
    """Watch the files of a plan and answer its question.

    Args:
        plan: What is to be done.
        model: A model object (the caller closes it), a name, or None for what the settings name; `literal` for none.
        options: How it works.
        settings: Single settings by name.

    Raises:
        ConfigError: A setting is wrong; nothing was started.
    """
    session = _Session(plan, model, options, settings)
    return await session.finished(run_swarm(plan.wish.question, options=session.swarm_options(), **session.given()))


async def resume_video(
    run_dir: Path, *, model: Model | str | None = None, options: VideoOptions, **settings: Any
) -> VideoResult:
    """Go on with a run that broke off: a span that was watched is not watched again.

    Args:
        run_dir: The run's folder.
        model: As for `run_video`.
        options: As for `run_video`.
        settings: Settings that change.

    Raises:
        ConfigError: It is no such run, or it was answered already.
        VideoInputError: A file is gone or was changed.
    """
    plan = load_plan(run_dir)
    for source in plan.inventory.sources:
        source.check_unchanged()
    session = _Session(plan, model, options, settings)
    return await session.finished(resume_swarm(run_dir, options=session.swarm_options(), **session.given()))


class _Session:
    def __init__(self, plan: Plan, model: Model | str | None, options: VideoOptions, settings: dict[str, Any]) -> None:
        self._plan, self._options, self._settings = plan, options, settings
        self._inner, self._is_own = _inner_model(model, settings, options.watch)
        whole_s = sum(span.end_s - span.start_s for span in plan.spans)
        self._progress = Progress(whole_s=whole_s, num_spans=len(plan.spans))
        self._model = PlannedModel(plan.spans, plan.wish, self._inner, self._answer)
        self._run_dir = Path()
        self._swarm: Swarm | None = None
        self._frames = FrameStore(Path())

    def swarm_options(self) -> SwarmOptions:
        self._watchers = watchers = Watchers(
            self._progress, num_parallel=self._options.num_parallel, listener=self._options.on_progress
        )
        self._context = context = VideoContext(
            spans=self._plan.spans, wish=self._plan.wish, watchers=watchers, frames=self._frames
        )
        tools = make_tools(context) if self._inner is None else (*VISUAL_TOOLS, *make_tools(context))
        given, count = self._options.swarm, len(self._plan.spans)
        run = replace(given.limits.run, max_calls=max(given.limits.run.max_calls or 0, _CALLS_A_SPAN * count))
        limits = replace(
            given.limits, child_time_s=None, max_children=max(given.limits.max_children, count + _MORE), run=run
        )
        calls = max(given.preset.orchestrator_calls, count + 3 * _MORE)
        return replace(given, tools=tools, limits=limits, preset=replace(given.preset, orchestrator_calls=calls))

    def given(self) -> dict[str, Any]:
        return {
            **self._settings,
            "model": self._model,
            "sandbox": self._options.sandbox,
            "watch": self._options.watch,
            "on_swarm": self._begin,
        }

    def _begin(self, swarm: Swarm) -> None:
        """Lay out what the sub-agents are handed over, once the run has its folder."""
        run_dir = Path(swarm.scope.record.shown_dir or ".")
        self._run_dir, self._swarm = run_dir, swarm
        self._frames.open(run_dir / FRAMES)
        self._watchers.folder = run_dir / TIMELINES
        files = run_dir / FILES
        files.mkdir(parents=True, exist_ok=True)
        if not (run_dir / PLAN).is_file():
            write_atomically(
                run_dir / PLAN, json.dumps(self._plan.to_json(), ensure_ascii=False).encode("utf-8", "replace")
            )
        for span in self._plan.spans:
            if not (files / task_name(span)).is_file():
                write_atomically(files / task_name(span), json.dumps({"span": span.to_json()}).encode())
        finished = {child.call for child in swarm.children if child.state == "finished"}
        first = min((child.call for child in swarm.children), default=0)
        for span in self._plan.spans:
            if first and first + span.number - 1 in finished:
                self._progress.done_s[span.number] = span.end_s - span.start_s
        if self._options.on_swarm:
            self._options.on_swarm(swarm)

    def _answer(self) -> str:
        events, missing = load_events(self._run_dir, self._plan)
        described = [*map(self._describe_missing, missing), *self._plan.inventory.left_out]
        return answer(
            events,
            self._plan.wish,
            seconds=self._plan.inventory.duration_s,
            num_files=len(self._plan.inventory.sources),
            missing=described,
        )

    def _describe_missing(self, span: Span) -> str:
        """A span that nobody could watch, and why, in the words of its sub-agent or of its end."""
        children = self._swarm.children if self._swarm is not None else []
        child = next((one for one in children if task_name(span) in one.assignment.files), None)
        said = (child.answer or child.reason) if child is not None else ""
        reason = re.sub(r"\[\^[\w.]+\^\]", "", said).strip().partition("\n")[0].removeprefix(f"{span.describe()} ")
        return f"{span.describe()}: {reason[:_REASON_CHARS]}" if reason else span.describe()

    async def finished(self, work: Any) -> VideoResult:
        try:
            result: SwarmResult = await work
        finally:
            if self._is_own and self._inner is not None:
                await self._inner.close()
        events, missing = load_events(self._run_dir, self._plan)
        return VideoResult(
            run=result.run,
            swarm=result.to_json(),
            plan=self._plan,
            events=tuple(events),
            missing=tuple(map(self._describe_missing, missing)),
            num_decoded=self._frames.num_decoded,
        )


def load_events(run_dir: Path, plan: Plan) -> tuple[list[Event], list[Span]]:
    """The merged events of a run, and the spans that nobody could watch; all of them where nothing was merged."""
    try:
        data = json.loads((run_dir / FILES / MERGED).read_text("utf-8"))
        events, numbers = [event_of(each) for each in data["events"]], set(data["missing"])
    except (OSError, ValueError, KeyError, TypeError):
        return [], list(plan.spans)
    return events, [span for span in plan.spans if span.number in numbers]


def _inner_model(model: Model | str | None, settings: dict[str, Any], watch: Watch | None) -> tuple[Model | None, bool]:
    """The model behind the plan, None for rules; and whether it is ours to close."""
    if model is not None and not isinstance(model, str):
        return model, False
    flags = settings | ({"model": model} if model is not None else {})
    chosen = load_settings(flags).settings
    if chosen.has_embedded_model:
        return None, False
    return make_settings_model(chosen, watch.listener if watch else None), True
