"""HTML page of a run of rollouts: groups, rewards, lengths, staleness, mismatch, and links to the agents' reports.

Samples are read one rollout at a time, and the number of groups and of members that the page lists is bounded.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from statistics import fmean, pstdev
from urllib.parse import quote

from apps.evals.page import EpisodeCell, Histogram, make_histogram
from apps.evals.players import find_recorded_kind
from apps.evals.results import PAGE
from apps.evals.statistics import is_success
from apps.rollouts.run import PLAN, read_plan
from cua.errors import ConfigError
from cua.rollouts.export import RunSamples
from cua.rollouts.journal import FILE as JOURNAL
from cua.rollouts.journal import JournalContent, read_journal
from cua.rollouts.rollout import RolloutEnd, RolloutEndKind
from cua.rollouts.samples import FILE as SAMPLES
from cua.rollouts.samples import SampledRollout
from cua.trajectory.describe import describe_tokens, printable
from cua.trajectory.report.shell import PageTemplate
from cua.trajectory.run_files import REPORT

MAX_GROUPS = 300
"""Groups that the page lists: the last ones."""
MAX_MEMBERS = 64
"""Members of a group that the page lists."""
MAX_VERSIONS = 50
_MAX_REASON_CHARS = 300
_PAGE = PageTemplate(
    package="apps.rollouts", template="page.html", script="page.js", style="page.css", shared="apps.evals"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTokens:
    """Tokens of one rollout.

    Attributes:
        num_trained: Number of trained tokens.
        num_turns: Number of replies of the model.
        staleness: Versions between the sampling of its oldest token and the hand-out of its group.
    """

    num_trained: int
    num_turns: int
    staleness: int


@dataclass(slots=True, kw_only=True)
class RunTotals:
    """Figures over all rollouts with samples, in the order of the file.

    Attributes:
        scores: Rewards.
        lengths: Trained tokens of each rollout.
        staleness: Staleness of each rollout.
        versions: Version of each rollout's oldest token.
        num_tokens: Tokens of all samples.
        num_samples: Number of samples.
        num_missing: Number of scored rollouts without samples.
    """

    scores: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    staleness: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    num_tokens: int = 0
    num_samples: int = 0
    num_missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """Row of a group; `outcomes` are the words of the page's filter."""

    name: str
    draws: str
    version: str
    score: str
    spread: str
    tokens: str
    turns: str
    staleness: str
    sort_score: float
    sort_spread: float
    sort_tokens: float
    sort_staleness: float
    outcomes: str
    cells: tuple[EpisodeCell, ...]
    num_more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """Row of a version of the policy."""

    version: int
    num_rollouts: int
    score: str
    tokens: str
    k1: str
    k3: str
    outside: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutsView:
    """Values for the template."""

    suite: str
    model: str
    status: str
    badge: str
    folder: str
    score: str
    facts: tuple[tuple[str, str, str], ...]
    versions: tuple[VersionRow, ...]
    charts: tuple[Histogram, ...]
    reasons: tuple[tuple[str, int], ...]
    image_effect: float | None
    groups: tuple[GroupRow, ...]
    num_more_groups: int


def write_page(folder: Path) -> Path:
    """Write `index.html` into the folder of a run.

    Raises:
        ConfigError: If there is no journal.
        SampleError: If samples cannot be read.
        TrajectoryError: If the journal cannot be read, or the page not written.
    """
    return _PAGE.write(folder / PAGE, page=page_view(folder))


def page_view(folder: Path) -> RolloutsView:
    """Return all values for the page."""
    if not (folder / JOURNAL).exists():
        raise ConfigError(f"{folder} has no {JOURNAL}; the page is made of a run's journal")
    journal = read_journal(folder)
    plan = read_plan(folder) if (folder / PLAN).exists() else None
    names = list(journal.groups)[-MAX_GROUPS:]
    tokens, totals = _read_tokens(folder, journal, set(names))
    report_file = find_recorded_kind(plan.agent).report_file if plan else REPORT
    ends = Counter(end.kind for end in journal.ends.values())
    return RolloutsView(
        suite=plan.suite_name if plan else "Rollouts",
        model=plan.model_label if plan else "",
        status="unfinished" if journal.open else "finished",
        badge="capped" if journal.open else "succeeded",
        folder=folder.absolute().name,
        score=f"{fmean(totals.scores):.3f}" if totals.scores else "",
        facts=tuple(_facts(journal, ends, totals)),
        versions=tuple(_version_rows(journal, totals)),
        charts=tuple(_charts(totals)),
        reasons=tuple(
            Counter(
                f"{end.kind}: {_clipped(end.reason)}" for end in journal.ends.values() if end.kind != "scored"
            ).most_common(10)
        ),
        image_effect=journal.image_effect,
        groups=tuple(_group_row(folder, name, journal, tokens, report_file) for name in names),
        num_more_groups=len(journal.groups) - len(names),
    )


def _read_tokens(folder: Path, journal: JournalContent, shown: set[str]) -> tuple[dict[str, RolloutTokens], RunTotals]:
    """Return the tokens of each rollout of the shown groups, and the figures of all."""
    tokens: dict[str, RolloutTokens] = {}
    totals = RunTotals()
    samples = RunSamples(folder, journal)
    for rollout in samples if (folder / SAMPLES).exists() else ():
        versions = [span.version for branch in rollout.branches for span in branch.spans]
        if "#" in rollout.rollout or not versions:  # a sub-task, or none of its tokens is trained
            continue
        found = _count_tokens(rollout, journal.taken.get(rollout.group, journal.version) - min(versions))
        totals.scores.append(rollout.reward or 0.0)
        totals.lengths.append(found.num_trained)
        totals.staleness.append(found.staleness)
        totals.versions.append(min(versions))
        totals.num_tokens += sum(len(branch.ids) for branch in rollout.branches)
        totals.num_samples += len(rollout.branches)
        if rollout.group in shown:
            tokens[rollout.rollout] = found
    totals.num_missing = samples.num_missing
    return tokens, totals


def _count_tokens(rollout: SampledRollout, staleness: int) -> RolloutTokens:
    return RolloutTokens(
        num_trained=sum(int(branch.mask.sum()) for branch in rollout.branches),
        num_turns=sum(branch.num_turns for branch in rollout.branches),
        staleness=max(0, staleness),
    )


def _facts(journal: JournalContent, ends: Counter[RolloutEndKind], totals: RunTotals) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and details of the totals."""
    kinds = ", ".join(f"{number} {kind}" for kind, number in ends.items())
    yield "Groups", str(len(journal.groups)), f"{len(journal.taken)} handed out"
    num_ended = sum(ends.values())
    yield "Rollouts", str(num_ended + len(journal.open)), f"{num_ended} ended: {kinds}" if ends else "none ended"
    if totals.scores:
        num_trained = int(sum(totals.lengths))
        of = f"of {describe_tokens(totals.num_tokens)} in {totals.num_samples} samples"
        yield "Trained tokens", describe_tokens(num_trained), of
        yield "Length", f"{fmean(totals.lengths):.1f}", "trained tokens of a rollout"
        yield "Staleness", f"{fmean(totals.staleness):.2f}", f"versions; at most {max(totals.staleness):.0f}"
    if totals.num_missing:
        yield "Without samples", str(totals.num_missing), "rollouts that ended as scored"
    mismatch = next(reversed(journal.mismatches.values()), None)
    if mismatch is not None:
        yield "Mismatch", f"{mismatch.k3:.1e}", f"k3 over {mismatch.num_tokens} tokens"


def _version_rows(journal: JournalContent, totals: RunTotals) -> Iterator[VersionRow]:
    places: dict[int, list[int]] = defaultdict(list)
    for place, version in enumerate(totals.versions):
        places[version].append(place)
    for version in sorted({*places, *journal.mismatches})[-MAX_VERSIONS:]:
        here, mismatch = places[version], journal.mismatches.get(version)
        yield VersionRow(
            version=version,
            num_rollouts=len(here),
            score=f"{fmean(totals.scores[place] for place in here):.3f}" if here else "",
            tokens=f"{fmean(totals.lengths[place] for place in here):.1f}" if here else "",
            k1=f"{mismatch.k1:.1e}" if mismatch else "",
            k3=f"{mismatch.k3:.1e}" if mismatch else "",
            outside=f"{100 * (mismatch.share_below + mismatch.share_above):.2f} %" if mismatch else "",
        )


def _charts(totals: RunTotals) -> Iterator[Histogram]:
    if totals.scores:
        for title, values, describe, least in (
            ("Reward", totals.scores, "{:.2f}".format, 0.0),
            ("Trained tokens", totals.lengths, "{:.0f}".format, 1.0),
            ("Staleness in versions", totals.staleness, "{:.0f}".format, 1.0),
        ):
            yield make_histogram(title, values, totals.scores, describe, least_width=least, noun="rollouts")


def _group_row(
    folder: Path, name: str, journal: JournalContent, tokens: Mapping[str, RolloutTokens], report_file: str
) -> GroupRow:
    size, draws = int(journal.groups[name]["size"]), journal.groups[name]["draws"]
    members = [f"{name}/{number}" for number in range(size)]
    ends = [journal.ends.get(member) for member in members]
    scores = [end.score for end in ends if end is not None and end.score is not None]
    found = [tokens[member] for member in members if member in tokens]
    cells = [
        _cell(folder, member, end, tokens.get(member), report_file)
        for member, end in zip(members[:MAX_MEMBERS], ends[:MAX_MEMBERS], strict=True)
    ]
    mean, spread = (fmean(scores), pstdev(scores)) if scores else (-1.0, -1.0)
    length = fmean(one.num_trained for one in found) if found else 0.0
    staleness = max((one.staleness for one in found), default=-1)
    return GroupRow(
        name=printable(name),
        draws=_clipped(", ".join(f"{key}: {value}" for key, value in draws.items())),
        version=", ".join(map(str, sorted({end.version for end in ends if end is not None}))),
        score=f"{mean:.3f}" if scores else "",
        spread=f"{spread:.3f}" if scores else "",
        tokens=f"{length:.1f}" if found else "",
        turns=f"{fmean(one.num_turns for one in found):.1f}" if found else "",
        staleness=str(staleness) if found else "",
        sort_score=mean,
        sort_spread=spread,
        sort_tokens=length,
        sort_staleness=staleness,
        outcomes=" ".join(_outcomes(ends)),
        cells=tuple(cells),
        num_more=size - len(cells),
    )


def _outcomes(ends: list[RolloutEnd | None]) -> Iterator[str]:
    """Yield the words that a filter finds the group by."""
    scores = [end.score for end in ends if end is not None and end.score is not None]
    if scores:
        yield "bad" if max(scores) == 0.0 else "good" if all(map(is_success, scores)) else "mixed"
        if len(set(scores)) == 1:
            yield "same"
    if any(end is not None and end.score is None for end in ends):
        yield "err"
    if None in ends:
        yield "open"


def _cell(
    folder: Path, member: str, end: RolloutEnd | None, tokens: RolloutTokens | None, report_file: str
) -> EpisodeCell:
    if end is None:
        return EpisodeCell(kind="open", text="·", title=f"{printable(member)}\nnot over", label=member, href="")
    score = end.score
    kind = "err" if score is None else "good" if is_success(score) else "part" if score > 0 else "bad"
    details = [end.kind, "truncated" if end.is_truncated else ""]
    details += [f"{tokens.num_trained} trained tokens", f"{tokens.num_turns} replies"] if tokens else []
    details += [f"attempt {end.num_attempts}"] if end.num_attempts > 1 else []
    return EpisodeCell(
        kind=kind,
        text=end.kind[:3] if score is None else f"{score:.2f}".removeprefix("0") if kind == "part" else f"{score:g}",
        title=f"{printable(member)}\n{', '.join(filter(None, details))}\n{_clipped(end.reason)}",
        label=member,
        href=_find_report(folder, end.run_dir, report_file),
    )


def _find_report(folder: Path, run_dir: str | None, report_file: str) -> str:
    """Return the address of a report inside of the folder; "" if there is none. The journal is untrusted."""
    path = PurePosixPath(run_dir or "/")
    try:
        is_report = not path.is_absolute() and ".." not in path.parts and (folder / path / report_file).is_file()
    except OSError:  # such as a name that is too long
        is_report = False
    return quote(str(path / report_file)) if is_report else ""


def _clipped(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[:_MAX_REASON_CHARS]}…"
