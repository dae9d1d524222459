"""HTML page of an evaluation: one self-contained file without network access.

Task ids, reasons and settings are untrusted text: the template engine escapes all of it, and the page's own content
security policy forbids all requests and all scripts except the page's own.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import quote

from apps.evals.players import find_recorded_kind
from apps.evals.results import PAGE, Evaluation
from apps.evals.statistics import EpisodeSummary, Interval, Key, is_success
from apps.evals.tasks import ENDINGS, ending_of
from apps.evals.text import (
    ERRORS,
    describe_interval,
    describe_key,
    describe_rule,
    describe_share,
    describe_unavailable,
)
from cua.batch.episode import EpisodeResult
from cua.trajectory.describe import describe_cost, describe_duration, describe_time, describe_tokens, printable
from cua.trajectory.report.shell import PageTemplate

_PAGE = PageTemplate(package="apps.evals", template="page.html", script="page.js", style="page.css")
_MAX_GROUPS = 50  # rows of the page's tables and lengths of its texts: a page stays readable
_MAX_SETTING_CHARS = 2_000
_MAX_REASON_CHARS = 300
_MAX_BARS = 24
_MARKS = {"env_error": "env", "model_error": "model", "evaluator_error": "eval", "timeout": "time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSegment:
    """Part of a bar, in percent from the top."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramBar:
    """Bar of a histogram, in percent of its width."""

    x: float
    width: float
    label: str
    pieces: tuple[BarSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Histogram."""

    title: str
    summary: str
    low: str
    high: str
    bars: tuple[HistogramBar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCell:
    """Cell of one episode. `kind` is `good`, `part` (partial score), `bad`, `err` (no score) or `open` (not over)."""

    kind: str
    text: str
    title: str
    label: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """Row of one task with its episodes; `outcomes` are the words of the page's filter."""

    name: str
    instruction: str
    family: str
    score: str
    steps: str
    time: str
    tokens: str
    cost: str
    endings: str
    sort_score: str
    sort_steps: str
    sort_time: str
    sort_tokens: str
    sort_cost: str
    outcomes: str
    cells: tuple[EpisodeCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyRow:
    """Row of one family, of a group of the suite's families, or of all."""

    name: str
    is_all: bool
    num_episodes: int
    num_succeeded: int
    score: str
    mean: float | None
    interval: Interval | None
    interval_text: str
    errors: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """Episodes that ended without a score for the same reason."""

    kind: str
    reason: str
    count: int
    cells: tuple[EpisodeCell, ...]
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineView:
    """Score of a baseline agent without skill."""

    score: str
    share: float
    about: str
    num_episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationView:
    """Values for the template."""

    suite: str
    model: str
    status: str
    badge: str
    folder: str
    why_stopped: str
    score: str
    mean: float | None
    interval: Interval | None
    interval_text: str
    baselines: tuple[BaselineView, ...]
    known_baselines: tuple[str, ...]
    facts: tuple[tuple[str, str, str], ...]
    kinds: tuple[str, ...]
    families: tuple[FamilyRow, ...]
    labels: tuple[tuple[str, tuple[FamilyRow, ...]], ...]
    num_errors: int
    num_scored: int
    mean_scored: str
    scored_interval: str
    tries: tuple[str, ...]
    charts: tuple[Histogram, ...]
    errors: tuple[ErrorGroup, ...]
    failed_tries: tuple[ErrorGroup, ...]
    endings: tuple[tuple[str, str, int], ...]
    num_more_errors: int
    tasks: tuple[TaskRow, ...]
    cells_title: str
    settings: tuple[tuple[str, str], ...]
    method: str


def render_page(evaluation: Evaluation) -> str:
    """Render the page."""
    return _PAGE.render(page=page_view(evaluation))


def write_page(evaluation: Evaluation) -> Path:
    """Write `index.html` atomically.

    Raises:
        TrajectoryError: If it cannot be written.
    """
    return _PAGE.write(evaluation.folder / PAGE, page=page_view(evaluation))


def page_view(evaluation: Evaluation) -> EvaluationView:
    """Return all values for the page."""
    plan, figures = evaluation.plan, evaluation.figures
    whole = figures.all
    cells = {result.key: make_cell(evaluation, result) for result in evaluation.results}
    groups = _error_groups((result, cells[result.key]) for result in evaluation.results if result.score is None)
    errors = {cell.label: group.word for group in groups[:_MAX_GROUPS] for cell in group.cells}
    kinds = tuple(kind for kind in ERRORS if kind in whole.errors)
    badges = {"finished": "succeeded", "unfinished": "capped", "running": "running"}
    methods = {interval.method for interval in (whole.mean_full_interval, whole.success_full_interval) if interval}
    return EvaluationView(
        suite=plan.suite_name,
        model=plan.model_label,
        status=evaluation.status,
        badge=badges[evaluation.status],
        folder=evaluation.folder.name,
        why_stopped=_why(evaluation),
        score=describe_share(whole.mean_full),
        mean=whole.mean_full,
        interval=whole.mean_full_interval,
        interval_text=describe_interval(whole.mean_full_interval),
        baselines=tuple(_baselines(evaluation)),
        known_baselines=tuple(find_recorded_kind(plan.agent).baselines),
        facts=tuple(_facts(evaluation)),
        kinds=tuple(ERRORS[kind] for kind in kinds),
        families=tuple(_families(evaluation, kinds)),
        labels=tuple(_labels(evaluation, kinds)),
        num_errors=sum(whole.errors.values()),
        num_scored=whole.num_scored,
        mean_scored=describe_share(whole.mean_scored),
        scored_interval=describe_interval(whole.mean_scored_interval),
        tries=tuple(_pass_rates(evaluation)),
        charts=tuple(_charts(evaluation.results)),
        errors=tuple(groups[:_MAX_GROUPS]),
        failed_tries=tuple(_failed_attempts(evaluation)),
        endings=tuple(_endings(evaluation)),
        num_more_errors=max(0, len(groups) - _MAX_GROUPS),
        tasks=tuple(_task_rows(evaluation, cells, errors)),
        cells_title="seeds" if len(plan.seeds) > 1 else "repeats" if plan.repeats > 1 else "episode",
        settings=tuple(_settings(evaluation)),
        method=_method(methods, plan.cluster_by or "task", is_once=len(plan.seeds) * plan.repeats == 1),
    )


def _method(methods: Collection[str], cluster_by: str, *, is_once: bool) -> str:
    """Return a description of the method of the intervals, for a person."""
    if "clustered" in methods:
        return f"95 %, by the spread of {cluster_by}s, each with all its episodes; Wilson's where a group is all alike."
    return f"Wilson's{', since each task was tried once' if is_once else ' over tasks, since all scores are alike'}."


def _why(evaluation: Evaluation) -> str:
    missing, total = evaluation.num_unfinished, evaluation.plan.num_episodes
    if not missing:
        return ""
    why = f": {evaluation.why_stopped}" if evaluation.why_stopped else ""
    return f"{missing} of {total} episodes {'is' if missing == 1 else 'are'} not over{why}"


def _baselines(evaluation: Evaluation) -> Iterator[BaselineView]:
    baselines = find_recorded_kind(evaluation.plan.agent).baselines
    for name, known in evaluation.baselines.items():
        yield BaselineView(
            score=describe_share(known.score),
            share=known.score,
            about=baselines.get(name, f"is called {name}"),
            num_episodes=known.num_episodes,
        )


def _facts(evaluation: Evaluation) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and details of the totals."""
    whole, plan = evaluation.figures.all, evaluation.plan
    of = f" of {plan.num_episodes}" if evaluation.num_unfinished else ""
    each = [f"{len(plan.task_ids)} tasks"]
    each += [f"{len(plan.seeds)} seeds"] if len(plan.seeds) > 1 else []
    each += [f"{plan.repeats} repeats"] if plan.repeats > 1 else []
    left_out = f", {len(plan.unavailable)} tasks left out" if plan.unavailable else ""
    yield "Episodes", f"{whole.num_episodes}{of}", " × ".join(each) + left_out
    for name, other in evaluation.figures.by_rule.items():
        scored_text = f"{describe_share(other.mean_scored)} of the {other.num_scored} that it scores"
        yield describe_rule(name).capitalize(), describe_share(other.mean_full), scored_text
    yield "Succeeded", str(whole.num_succeeded), describe_share(whole.success_full)
    num_errors = sum(whole.errors.values())
    yield "Errors", str(num_errors), "counted 0 in the score" if num_errors else "every episode has a score"
    mean_s = whole.duration_s / whole.num_episodes if whole.num_episodes else 0.0
    yield "Time", describe_duration(whole.duration_s), f"{describe_duration(mean_s)} an episode"
    tokens = f"{describe_tokens(whole.input_tokens)} in, {describe_tokens(whole.output_tokens)} out"
    yield "Tokens", describe_tokens(whole.input_tokens + whole.output_tokens), tokens
    yield "Cost", describe_cost(whole.cost_usd), "no price known for this model" if whole.cost_usd is None else ""


def _families(evaluation: Evaluation, kinds: Sequence[str]) -> Iterator[FamilyRow]:
    by_family, whole = evaluation.figures.by_family, evaluation.figures.all
    rows = [(name or "-", summary, False) for name, summary in by_family.items()] if len(by_family) > 1 else []
    groups = [(name, summary, True) for name, summary in evaluation.figures.by_group.items()]
    for name, summary, is_all in [*rows, *groups, ("all", whole, True)]:
        yield _family(name, summary, kinds, is_all=is_all)


def _labels(evaluation: Evaluation, kinds: Sequence[str]) -> Iterator[tuple[str, tuple[FamilyRow, ...]]]:
    for title, groups in evaluation.figures.by_label.items():
        yield title, tuple(_family(name or "-", summary, kinds, is_all=False) for name, summary in groups.items())


def _family(name: str, summary: EpisodeSummary, kinds: Sequence[str], *, is_all: bool) -> FamilyRow:
    return FamilyRow(
        name=name,
        is_all=is_all,
        num_episodes=summary.num_episodes,
        num_succeeded=summary.num_succeeded,
        score=describe_share(summary.mean_full),
        mean=summary.mean_full,
        interval=summary.mean_full_interval,
        interval_text=describe_interval(summary.mean_full_interval),
        errors=tuple(summary.errors.get(kind, 0) for kind in kinds),
    )


def _pass_rates(evaluation: Evaluation) -> Iterator[str]:
    for samples in evaluation.figures.tries:
        if samples.k > 1:
            at_least_one, every = describe_share(samples.at_least_one), describe_share(samples.all_of_them)
            over = evaluation.figures.tries_over
            yield f"{samples.k} {over}: pass@{samples.k} {at_least_one}, pass^{samples.k} {every}"


def _endings(evaluation: Evaluation) -> Iterator[tuple[str, str, int]]:
    """Yield the endings of episodes: key, words and count, in the order of `ENDINGS`."""
    counts = Counter(map(ending_of, evaluation.results))
    yield from ((name, words, counts[name]) for name, words in ENDINGS.items() if counts[name])


def _failed_attempts(evaluation: Evaluation) -> list[ErrorGroup]:
    """Return the attempts after which the episode was played again, by kind and reason."""
    return _error_groups([(attempt, make_cell(evaluation, attempt)) for attempt in evaluation.failed_attempts])[
        :_MAX_GROUPS
    ]


def _error_groups(results: Iterable[tuple[EpisodeResult, EpisodeCell]]) -> list[ErrorGroup]:
    """Group errors by kind and reason, the most frequent first."""
    groups: dict[tuple[str, str], list[EpisodeCell]] = {}
    for result, cell in results:
        groups.setdefault((ERRORS.get(result.kind, result.kind), _clipped(result.reason)), []).append(cell)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [
        ErrorGroup(
            kind=kind, reason=reason or "no reason given", count=len(group), cells=tuple(group), word=f"reason-{number}"
        )
        for number, ((kind, reason), group) in enumerate(ordered)
    ]


def _settings(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    plan = evaluation.plan
    rows: list[tuple[str, object]] = [
        ("suite", plan.suite),
        ("revision", plan.revision),
        ("left out", "\n".join(describe_unavailable(plan.unavailable))),
        ("suite options", plan.suite_options),
        ("seeds", ", ".join(map(str, plan.seeds)) if plan.seeds != [None] else ""),
        ("limits", f"{plan.max_steps} steps" + (f", {plan.max_time_s:g} s an episode" if plan.max_time_s else "")),
        ("began", describe_time(evaluation.started_at) if evaluation.started_at else ""),
        ("written", describe_time(evaluation.ended_at) if evaluation.ended_at else ""),
        ("commit", _checkout(evaluation)),
        ("settings", {name: value for name, value in plan.settings.items() if value not in (None, [], "")}),
        ("versions", dict(evaluation.versions)),
        ("baselines", {name: known.command for name, known in evaluation.baselines.items()}),
        ("order of changes", {site: list(ids) for site, ids in evaluation.change_order.items()}),
    ]
    yield from ((name, _text(value)) for name, value in rows if value)


def _checkout(evaluation: Evaluation) -> str:
    checkout = evaluation.checkout
    return f"{checkout.commit}{' with changes that are not committed' if checkout.is_dirty else ''}" if checkout else ""


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name} = {_clipped(json.dumps(item, ensure_ascii=False))}" for name, item in value.items())
    return str(value)[:_MAX_SETTING_CHARS]


def make_cell(evaluation: Evaluation, result: EpisodeResult) -> EpisodeCell:
    """Make the cell of a finished episode."""
    label = describe_key(result.key)
    report = evaluation.find_report(result)
    score = result.score
    kind = "err" if score is None else "good" if is_success(score) else "part" if score > 0 else "bad"
    text = (
        _MARKS.get(result.kind, "?")
        if score is None
        else f"{score:.2f}".removeprefix("0")
        if kind == "part"
        else f"{score:g}"
    )
    took = f"{result.num_steps} steps, {describe_duration(result.duration_s)}"
    tried = f", try {result.num_tries}" if result.num_tries > 1 else ""
    return EpisodeCell(
        kind=kind,
        text=text,
        title=f"{printable(label)}\n{ENDINGS[ending_of(result)]}, {took}{tried}\n{_clipped(result.reason)}",
        label=label,
        href=quote(report) if report else "",
    )


def _task_rows(evaluation: Evaluation, cells: dict[Key, EpisodeCell], errors: dict[str, str]) -> Iterator[TaskRow]:
    """Yield a row for each task.

    Args:
        evaluation: Evaluation of the page.
        cells: Cells of the finished episodes.
        errors: By label of a cell, the filter word of its error.
    """
    plan = evaluation.plan
    for task in evaluation.tasks:
        keys = [(task.task_id, seed, repeat) for seed in plan.seeds for repeat in range(plan.repeats)]
        shown = tuple(cells.get(key) or _open(key) for key in keys)
        count, is_begun = task.num_episodes or 1, task.num_episodes > 0
        tokens = task.input_tokens + task.output_tokens
        words = [*_outcomes(shown), *task.endings, *dict.fromkeys(errors[c.label] for c in shown if c.label in errors)]
        yield TaskRow(
            name=task.task_id,
            instruction=printable(task.instruction),
            family=plan.families.get(task.task_id, "-"),
            score=describe_share(task.score) if is_begun else "",
            steps=f"{task.num_steps / count:.1f}" if is_begun else "",
            time=describe_duration(task.duration_s / count) if is_begun else "",
            tokens=describe_tokens(tokens) if is_begun else "",
            cost=describe_cost(task.cost_usd) if is_begun else "",
            endings=", ".join(_counted(ENDINGS[name], number, count) for name, number in task.endings.items()),
            sort_score=f"{-1 if task.score is None else task.score:.6f}",
            sort_steps=f"{task.num_steps / count:.3f}",
            sort_time=f"{task.duration_s / count:.3f}",
            sort_tokens=str(tokens),
            sort_cost=f"{task.cost_usd or 0.0:.6f}",
            outcomes=" ".join(words),
            cells=shown,
        )


def _counted(ending: str, number: int, count: int) -> str:
    return ending if count == 1 else f"{ending} {number}"


def _outcomes(cells: Sequence[EpisodeCell]) -> Iterator[str]:
    kinds = Counter(cell.kind for cell in cells)
    over = len(cells) - kinds["open"]
    if over:
        yield "good" if kinds["good"] == over else "mixed" if kinds["good"] else "bad"
    yield from (kind for kind in ("err", "open") if kinds[kind])


def _open(key: Key) -> EpisodeCell:
    label = describe_key(key)
    return EpisodeCell(kind="open", text="·", title=f"{printable(label)}\nnot over", label=label, href="")


def _clipped(text: str) -> str:
    """Return the beginning of an untrusted text, on one line without control characters."""
    text = printable(text)
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[:_MAX_REASON_CHARS]}…"


def _charts(results: Sequence[EpisodeResult]) -> Iterator[Histogram]:
    """Yield histograms of the steps and the time of the episodes; none without episodes."""
    if results:
        scores = [result.score for result in results]
        steps = [float(result.num_steps) for result in results]
        yield make_histogram("Steps of an episode", steps, scores, "{:.0f}".format, least_width=1)
        yield make_histogram("Time of an episode", [result.duration_s for result in results], scores, describe_duration)


def make_histogram(
    title: str,
    values: Sequence[float],
    scores: Sequence[float | None],
    describe: Callable[[float], str],
    *,
    least_width: float = 0.0,
    noun: str = "episodes",
) -> Histogram:
    """Make a histogram from 0 to the largest value, each bar split by outcome.

    Args:
        title: Title.
        values: At least one value, none negative.
        scores: Score of what has the value; None for an error.
        describe: Returns the text of a value.
        least_width: Least width of a bar: 1 for numbers of things.
        noun: What is counted.
    """
    most = max(values)
    num_bars = max(1, min(_MAX_BARS, int(most) + 1) if least_width else _MAX_BARS)
    width = max((most + least_width) / num_bars, 1e-9)
    counts: list[Counter[str]] = [Counter() for _ in range(num_bars)]
    for score, value in zip(scores, values, strict=True):
        kind = "err" if score is None else "good" if is_success(score) else "part"
        counts[min(num_bars - 1, int(value / width))][kind] += 1
    tallest = max(sum(count.values()) for count in counts)
    bars = [
        HistogramBar(
            x=100 * place / num_bars,
            width=100 / num_bars,
            label=f"{describe(place * width)} to {describe((place + 1) * width)}: {sum(count.values())} {noun}",
            pieces=tuple(_pieces(count, tallest)),
        )
        for place, count in enumerate(counts)
    ]
    summary = f"median {describe(median(values))}, at most {describe(most)}"
    return Histogram(title=title, summary=summary, low=describe(0.0), high=describe(num_bars * width), bars=tuple(bars))


def _pieces(count: Counter[str], tallest: int) -> Iterator[BarSegment]:
    top = 100.0
    for kind in ("good", "part", "err"):
        if count[kind]:
            height = 100 * count[kind] / tallest
            top -= height
            yield BarSegment(kind=kind, y=top, height=height)
