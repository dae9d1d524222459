"""Saved tasks: an instruction with parameters (`Pay {invoice}`), and optional times to run it while the app is open.

All tasks are in one readable JSON file. A time that passed while the app was closed, or while the machine was
suspended, is reported and not repeated later, when the environment may have changed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from apps.assistant.errors import NotFoundError
from apps.assistant.run_request import Place, RunRequest
from apps.assistant.wording import phrase
from cua.errors import ConfigError, TrajectoryError
from cua.trajectory.disk import RunLock
from cua.trajectory.events import AgentMode
from cua.trajectory.images import write_atomically

FILE = "tasks.json"
MAX_TASKS = 200  # bounds the file and the list on the page
LATE_S = 90.0
"""Delay after which a time counts as missed."""
_PARAMETER = re.compile(r"(?<!\{)\{([A-Za-z_]\w{0,40})\}(?!\})")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MAX_DUE = 1000
"""Days before now in which missed times are counted."""
SCHEDULE_FORMS = '"08:30" (each day), "mon fri 08:30" or "2026-12-24 08:30" (once)'

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f/\\]+$", strip_whitespace=True)
]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Time of day on some days.

    Attributes:
        at: Local time of this machine.
        days: Weekdays, 0 for Monday to 6; empty for each day.
        on: The only day; None to repeat.
    """

    at: time
    days: frozenset[int] = frozenset()
    on: date | None = None

    def after(self, moment: datetime) -> datetime | None:
        """Return the next time after a moment; None if there is none."""
        if self.on is not None:
            only = datetime.combine(self.on, self.at)
            return only if only > moment else None
        for number in range(8):
            due = datetime.combine(moment.date() + timedelta(days=number), self.at)
            if due > moment and (not self.days or due.weekday() in self.days):
                return due
        return None


def parse_schedule(text: str) -> Schedule | None:
    """Parse a time as users write it; None for an empty text.

    Raises:
        ConfigError: If it has none of the forms of `SCHEDULE_FORMS`.
    """
    *days, clock = text.lower().replace(",", " ").split() or [""]
    if not clock:
        return None
    try:
        at = time.fromisoformat(clock if re.fullmatch(r"\d\d:\d\d", clock) else "")
        if len(days) == 1 and days[0][:1].isdigit():
            return Schedule(at, on=date.fromisoformat(days[0]))
        return Schedule(at, days=frozenset(_DAYS.index(day[:3]) for day in days))
    except ValueError:
        raise ConfigError(f"the time {text[:60]!r} cannot be read; expected {SCHEDULE_FORMS}") from None


class SavedTask(BaseModel):
    """Task that can be run repeatedly.

    Attributes:
        instruction: Instruction; `{name}` is a parameter.
        mode: Mode of the agent.
        place: Start place of a mode with a screen.
        url: Start URL (web).
        app: Program to start (desktop).
        values: Default values of the parameters.
        when: Time to run it, see `SCHEDULE_FORMS`; "" for no schedule.
        since: Time up to which scheduled times were handled.
        last: Result of the last scheduled time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: str = Field(min_length=1, max_length=20_000)
    mode: AgentMode = "thinking"
    place: Place = "practice"
    url: str | None = Field(default=None, max_length=8000)
    app: str | None = Field(default=None, max_length=2000)
    values: dict[str, Annotated[str, Field(max_length=4000)]] = Field(default_factory=dict, max_length=50)
    when: str = Field(default="", max_length=100)
    since: datetime | None = None
    last: str = Field(default="", max_length=2000)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in the instruction, in order."""
        return tuple(dict.fromkeys(_PARAMETER.findall(self.instruction)))

    def request(self, values: Mapping[str, str] | None = None) -> RunRequest:
        """Return the request with the parameters filled in.

        Raises:
            ConfigError: If a parameter has no value, or a name is not a parameter.
        """
        names = self.parameters
        given = {**self.values, **(values or {})}
        strange = [name for name in values or {} if name not in names]
        missing = [name for name in names if not given.get(name, "").strip()]
        if strange or missing:
            what = f"there is no parameter {strange[0]!r}" if strange else f"the parameter {missing[0]!r} has no value"
            raise ConfigError(f"{what}; the parameters are: {', '.join(names) or '(none)'}")
        text = _PARAMETER.sub(lambda match: given[match[1]], self.instruction)
        return RunRequest(instruction=text, mode=self.mode, place=self.place, url=self.url, app=self.app)


_TASKS = TypeAdapter(dict[Name, SavedTask])


class SavedTasks:
    """Saved tasks in a folder's file.

    Args:
        folder: Folder of the file; None keeps the tasks in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept: dict[str, SavedTask] = {}
        self._lock: RunLock | None = None

    def load(self) -> dict[str, SavedTask]:
        """Load all tasks by name.

        Raises:
            ConfigError: If the file cannot be read.
        """
        if self._folder is None:
            return dict(self._kept)
        path = self._folder / FILE
        try:
            return _TASKS.validate_json(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            why = phrase(error)
            raise ConfigError(
                f"{path} cannot be read: {why}. Correct the file, or delete it to start with an empty list"
            ) from error

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the page: fields, parameters, next time and last result of each task."""
        return [
            {
                "name": name,
                "parameters": list(task.parameters),
                "next": _next(task),
                **task.model_dump(exclude={"since"}),
            }
            for name, task in sorted(self.load().items())
        ]

    def find(self, name: str) -> SavedTask:
        """Return a task by name.

        Raises:
            NotFoundError: If it does not exist.
        """
        task = self.load().get(name)
        if task is None:
            raise NotFoundError(f"there is no task {name[:80]!r}")
        return task

    def save(self, name: str, task: SavedTask, now: datetime | None = None) -> None:
        """Save a task under a name, replacing an existing one; its schedule starts now.

        Raises:
            ConfigError: If its name or its time is invalid, a parameter of a scheduled task has no value, its address
                is missing, or there are too many tasks.
        """
        now = now or datetime.now()
        when = parse_schedule(task.when)
        if task.mode in ("instant", "thinking") and task.place == "web" and not (task.url or "").strip():
            raise ConfigError("an address is needed to start at, such as https://example.com")
        if when is not None:
            if when.after(now) is None:
                raise ConfigError(f"{task.when} has passed; expected a time to come")
            task.request()
        tasks = self.load()
        if name not in tasks and len(tasks) >= MAX_TASKS:
            raise ConfigError(f"there are {MAX_TASKS} tasks; delete one first")
        self._write({**tasks, name.strip(): task.model_copy(update={"since": now, "last": ""})})

    def delete(self, name: str) -> None:
        """Delete a task.

        Raises:
            NotFoundError: If it does not exist.
        """
        self.find(name)
        self._write({other: task for other, task in self.load().items() if other != name})

    def report(self, name: str, text: str) -> None:
        """Store the result of a scheduled time."""
        tasks = self.load()
        if name in tasks:
            self._write({**tasks, name: tasks[name].model_copy(update={"last": text[:2000]})})

    def pop_due(self, now: datetime) -> list[str]:
        """Return the names of the tasks that are due, once; missed times are reported in `last`.

        Only one app handles the schedule of a folder; in other apps nothing is ever due.

        Raises:
            ConfigError: If the file cannot be read.
        """
        tasks, due, changed = self.load(), [], {}
        if not any(task.when for task in tasks.values()) or not self._owns_schedule():
            return []
        for name, task in tasks.items():
            times = _times_between(parse_schedule(task.when), task.since or now, now)
            if not times:
                continue
            is_now = (now - times[-1]).total_seconds() <= LATE_S
            missed = times[:-1] if is_now else times
            last = _missed(missed) if missed else ""
            changed[name] = task.model_copy(update={"since": now, "last": last})
            due += [name] if is_now else []
        if changed:
            self._write({**tasks, **changed})
        return due

    def close(self) -> None:
        """Release the schedule for another app."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _owns_schedule(self) -> bool:
        if self._folder is None or self._lock is not None:
            return True
        try:
            self._lock = RunLock(self._folder)
        except (TrajectoryError, OSError):
            return False
        return True

    def _write(self, tasks: dict[str, SavedTask]) -> None:
        try:
            checked = _TASKS.validate_python(tasks)
        except ValidationError as error:
            raise ConfigError(f"this cannot be saved: {phrase(error)}") from error
        if self._folder is None:
            self._kept = checked
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps(_TASKS.dump_python(checked, mode="json", exclude_defaults=True), indent=1, ensure_ascii=False)
        write_atomically(self._folder / FILE, text.encode())


def _times_between(when: Schedule | None, since: datetime, now: datetime) -> list[datetime]:
    """Return the latest due times after `since` up to `now`."""
    times: list[datetime] = []
    moment: datetime | None = max(since, now - timedelta(days=_MAX_DUE))
    while when is not None and moment is not None and (moment := when.after(moment)) is not None and moment <= now:
        times.append(moment)
    return times


def _missed(times: Sequence[datetime]) -> str:
    more = f" and {len(times) - 1} times before" if len(times) > 1 else ""
    return f"missed {times[-1]:%Y-%m-%d %H:%M}{more}: the app was not open, or the machine slept"


def _next(task: SavedTask) -> str:
    due = (when := parse_schedule(task.when)) and when.after(datetime.now())
    return f"{due:%a %Y-%m-%d %H:%M}" if due else ""
