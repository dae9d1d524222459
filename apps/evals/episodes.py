"""Episodes of an evaluation, read from its episode log, which may be untrusted."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from apps.evals.plan import Amount, Count, EvalPlan, Line, Share, TaskId, plan_keys, shorten
from apps.evals.statistics import Key
from cua.batch.episode import MAX_REASON_CHARS, EpisodeKind, EpisodeResult
from cua.batch.episode_log import FILE as EPISODES
from cua.errors import TrajectoryError
from cua.json_text import Json, read_object, well_formed
from cua.messages import Usage
from cua.trajectory.run_files import MAX_RECORD_BYTES, open_inside

MAX_LINE_BYTES = 2**20  # bounds the memory that a damaged log takes
MAX_EPISODES = 500_000  # bounds memory for a log from an untrusted source
_MAX_DAMAGED = 10  # reported line numbers; further ones say nothing new


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpisodeLine:
    """Parsed fields of a line of the log about the end of an episode."""

    task_id: TaskId
    seed: int | None
    repeat: Count
    kind: EpisodeKind
    score: Share | None
    reason: str
    num_tries: Count = 1
    num_steps: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Amount | None = 0.0
    duration_s: Amount = 0.0
    run_dir: str | None = None
    ending: Line = ""
    is_retryable: bool = False
    other_scores: dict[Line, Share] = field(default_factory=dict)
    info: dict[Line, object] = field(default_factory=dict)


_EPISODE_LINE: TypeAdapter[_EpisodeLine] = TypeAdapter(_EpisodeLine)


def load_episodes(folder: Path, plan: EvalPlan) -> tuple[EpisodeResult, ...]:
    """Load the finished episodes from the episode log, in the order of the plan.

    Raises:
        TrajectoryError: If the episode log cannot be read, or has an episode that is not in the plan.
    """
    results: dict[Key, EpisodeResult] = {}
    for result in _read_log(folder, "ended"):
        results[result.key] = result
        check_count(len(results), folder / EPISODES)
    order = {key: place for place, key in enumerate(plan_keys(plan))}
    unknown = next((key for key in results if key not in order), None)
    if unknown is not None:
        raise TrajectoryError(
            f"{folder / EPISODES} has an episode {unknown} that results.json does not plan; "
            "the two files belong to different evaluations"
        )
    return tuple(results[key] for key in sorted(results, key=order.__getitem__))


def load_failed_attempts(folder: Path, plan: EvalPlan) -> tuple[EpisodeResult, ...]:
    """Load the failed or interrupted attempts after which the episode was played again, in order of time.

    Raises:
        TrajectoryError: If the episode log cannot be read.
    """
    planned = set(plan_keys(plan))
    attempts: list[EpisodeResult] = []
    for result in _read_log(folder, "tried"):
        if result.key in planned:
            attempts.append(result)
            check_count(len(attempts), folder / EPISODES)
    return tuple(attempts)


def load_interrupted(folder: Path, plan: EvalPlan) -> list[Key]:
    """Return the episodes that have an attempt without an end, in the order of the plan.

    Raises:
        TrajectoryError: If the episode log cannot be read.
    """
    is_open: dict[str, bool] = {}
    for entry, _ in _read_lines(folder):
        key = entry.get("task_id"), entry.get("seed"), entry.get("repeat")
        is_open[repr(key)] = entry.get("event") == "begun"
    return [key for key in plan_keys(plan) if is_open.get(repr(key))]


def find_damaged_lines(folder: Path) -> tuple[int, ...]:
    """Return the numbers of the first few lines of the log that are skipped because they are not JSON objects."""
    numbers: list[int] = []
    with contextlib.suppress(FileNotFoundError), open_inside(folder, EPISODES, max_bytes=MAX_RECORD_BYTES) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
            if len(numbers) < _MAX_DAMAGED and line.endswith(b"\n") and line.strip() and read_object(line) is None:
                numbers.append(number)
    return tuple(numbers)


def _read_log(folder: Path, event: str) -> Iterator[EpisodeResult]:
    """Yield the results in the lines of one kind; a torn last line is dropped.

    Raises:
        TrajectoryError: If the episode log cannot be read.
    """
    for value, location in _read_lines(folder):
        if value.get("event") == event:
            yield _result_of(value, location)


def _read_lines(folder: Path) -> Iterator[tuple[Json, str]]:
    """Yield the lines of the episode log that are objects, each with its position as text.

    Raises:
        TrajectoryError: If the episode log cannot be read.
    """
    path = folder / EPISODES
    try:
        with open_inside(folder, EPISODES, max_bytes=MAX_RECORD_BYTES) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
                if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                    break  # torn: its process was killed
                if (value := read_object(line)) is not None:
                    yield value, f"{path}, line {number}"
    except FileNotFoundError:
        return
    except OSError as error:
        raise TrajectoryError(f"{path} cannot be read: {error.strerror}") from error


def _result_of(value: Mapping[str, object], location: str) -> EpisodeResult:
    """Parse the result in a line.

    Raises:
        TrajectoryError: If a field of it is invalid.
    """
    try:
        line = _EPISODE_LINE.validate_python(value)
        if (line.score is None) == (line.kind == "scored"):
            raise ValueError(f"kind {line.kind!r} with score {line.score}")
    except ValidationError as error:
        raise TrajectoryError(f"{location}, is not a line of an episode log: {first_error(error)}") from None
    except ValueError as error:
        raise TrajectoryError(f"{location}, is not a line of an episode log: {error}") from None
    usage = Usage(input_tokens=line.input_tokens, output_tokens=line.output_tokens, cost_usd=line.cost_usd)
    values = {name: getattr(line, name) for name in EpisodeResult.__slots__ if name != "usage"}
    return EpisodeResult(usage=usage, **{**values, "reason": well_formed(line.reason[:MAX_REASON_CHARS])})


def check_count(count: int, path: Path | str) -> None:
    """Check that the number of episodes is not unreasonably large.

    Raises:
        TrajectoryError: If it is.
    """
    if count > MAX_EPISODES:
        raise TrajectoryError(f"{path} has {count} episodes, at most {MAX_EPISODES} are possible")


def first_error(error: ValidationError) -> str:
    """Return the first validation error, with its location, as one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{shorten(place)[1:-1]}: {first['msg']}"
