"""The episodes of an evaluation, read from the journal of its batch, which may come from a stranger."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from apps.evals.plan import Amount, Count, EvalPlan, Line, Share, TaskId, plan_keys, shorten
from apps.evals.statistics import Key
from cua.batch import EpisodeKind, EpisodeResult
from cua.batch.journal import FILE as EPISODES
from cua.errors import TrajectoryError
from cua.json_text import read_json, well_formed
from cua.messages import Usage
from cua.trajectory.run_files import MAX_RECORD_BYTES, open_inside

MAX_LINE_BYTES = 2**20
MAX_EPISODES = 500_000
MAX_REASON_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpisodeLine:
    """What is read of a line of the journal that says how an episode ended."""

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
    is_retryable: bool = False
    other_scores: dict[Line, Share] = field(default_factory=dict)
    info: dict[Line, Any] = field(default_factory=dict)


_EPISODE_LINE: TypeAdapter[_EpisodeLine] = TypeAdapter(_EpisodeLine)


def load_episodes(folder: Path, plan: EvalPlan) -> tuple[EpisodeResult, ...]:
    """The episodes that are over, in the order of the plan, read from the journal.

    Raises:
        TrajectoryError: The journal cannot be read, or has an episode that the plan does not have.
    """
    found: dict[Key, EpisodeResult] = {}
    path = folder / EPISODES
    try:
        with open_inside(folder, EPISODES, max_bytes=MAX_RECORD_BYTES) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
                if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                    break  # torn: the process that wrote it was killed
                if (result := _read_line(line, f"{path}, line {number}")) is not None:
                    found[result.key] = result
                    check_count(len(found), path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise TrajectoryError(f"{path} cannot be read: {error.strerror}") from error
    order = {key: place for place, key in enumerate(plan_keys(plan))}
    unknown = next((key for key in found if key not in order), None)
    if unknown is not None:
        raise TrajectoryError(
            f"{path} has an episode {unknown} that results.json does not plan; they do not belong together"
        )
    return tuple(found[key] for key in sorted(found, key=order.__getitem__))


def _read_line(line: bytes, where: str) -> EpisodeResult | None:
    """The episode that a line says is over; None for other lines."""
    try:
        value = read_json(line)
        if not isinstance(value, dict):
            raise ValueError(f"a {type(value).__name__} where an object was expected")
        if value.get("event") != "ended":
            return None
        found = _EPISODE_LINE.validate_python(value)
        if (found.score is None) == (found.kind == "scored"):
            raise ValueError(f"kind {found.kind!r} with score {found.score}")
    except ValidationError as error:
        raise TrajectoryError(f"{where}, is no line of a batch's journal: {first_error(error)}") from None
    except ValueError as error:
        raise TrajectoryError(f"{where}, is no line of a batch's journal: {error}") from None
    usage = Usage(input_tokens=found.input_tokens, output_tokens=found.output_tokens, cost_usd=found.cost_usd)
    values = {name: getattr(found, name) for name in EpisodeResult.__slots__ if name != "usage"}
    return EpisodeResult(usage=usage, **{**values, "reason": well_formed(found.reason[:MAX_REASON_CHARS])})


def check_count(count: int, path: Path) -> None:
    """Refuse more episodes than anybody plays.

    Raises:
        TrajectoryError: There are more.
    """
    if count > MAX_EPISODES:
        raise TrajectoryError(f"{path} has {count} episodes, at most {MAX_EPISODES} are possible")


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong, with its place, as one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{shorten(place)[1:-1]}: {first['msg']}"
