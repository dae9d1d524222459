"""Saved tasks: an instruction with parameters (`Pay {invoice}`), and when it is to be run while the app is open.

All of them stand in one JSON file that people can read. A time that passed while the app was closed, or while the
machine slept, is reported and not made up for: at another time the world may be another one.
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
from apps.assistant.order import Mode, Order, Place
from cua.errors import ConfigError, TrajectoryError
from cua.trajectory.disk import RunLock
from cua.trajectory.images import write_atomically

FILE = "tasks.json"
MAX_TASKS = 200
LATE_S = 90.0
"""A time that lies further back is a missed one."""
_PARAMETER = re.compile(r"(?<!\{)\{([A-Za-z_]\w{0,40})\}(?!\})")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MAX_DUE = 1000
WHEN = '"08:30" (each day), "mon fri 08:30", "2026-12-24 08:30" (once), or nothing'

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f/\\]+$", strip_whitespace=True)
]


@dataclass(frozen=True, slots=True)
class When:
    """A time of day, on some days.

    Attributes:
        at: The time, of this machine.
        days: 0 for Monday to 6; empty means each day.
        on: The only day; None means again and again.
    """

    at: time
    days: frozenset[int] = frozenset()
    on: date | None = None

    def after(self, moment: datetime) -> datetime | None:
        """The next time after a moment; None when there is none any more."""
        if self.on is not None:
            only = datetime.combine(self.on, self.at)
            return only if only > moment else None
        for number in range(8):
            due = datetime.combine(moment.date() + timedelta(days=number), self.at)
            if due > moment and (not self.days or due.weekday() in self.days):
                return due
        return None


def parse_when(text: str) -> When | None:
    """A time as people write it; None for none.

    Raises:
        ConfigError: It is none of the forms of `WHEN`.
    """
    *days, clock = text.lower().replace(",", " ").split() or [""]
    if not clock:
        return None
    try:
        at = time.fromisoformat(clock if re.fullmatch(r"\d\d:\d\d", clock) else "")
        if len(days) == 1 and days[0][:1].isdigit():
            return When(at, on=date.fromisoformat(days[0]))
        return When(at, days=frozenset(_DAYS.index(day[:3]) for day in days))
    except ValueError:
        raise ConfigError(f"the time {text[:60]!r} cannot be read; expected {WHEN}") from None


class SavedTask(BaseModel):
    """A task to be done again.

    Attributes:
        instruction: In words; `{name}` stands for a parameter.
        mode: Which agent.
        place: Where a mode that works a screen starts.
        url: Address to start at (web).
        app: Program to start (desktop).
        values: Of the parameters, where the person gives no others.
        when: Time to run it at, see `WHEN`; "" for never by itself.
        since: Times up to then are dealt with.
        last: What became of the last time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: str = Field(min_length=1, max_length=20_000)
    mode: Mode = "thinking"
    place: Place = "practice"
    url: str | None = Field(default=None, max_length=8000)
    app: str | None = Field(default=None, max_length=2000)
    values: dict[str, Annotated[str, Field(max_length=4000)]] = Field(default_factory=dict, max_length=50)
    when: str = Field(default="", max_length=100)
    since: datetime | None = None
    last: str = Field(default="", max_length=2000)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in the instruction, in order."""
        return tuple(dict.fromkeys(_PARAMETER.findall(self.instruction)))

    def order(self, values: Mapping[str, str] | None = None) -> Order:
        """What it asks for, its parameters filled in.

        Raises:
            ConfigError: A parameter has no value, or there is no such parameter.
        """
        names = self.parameters
        given = {**self.values, **(values or {})}
        strange = [name for name in values or {} if name not in names]
        missing = [name for name in names if not given.get(name, "").strip()]
        if strange or missing:
            what = f"there is no parameter {strange[0]!r}" if strange else f"the parameter {missing[0]!r} has no value"
            raise ConfigError(f"{what}; the parameters are: {', '.join(names) or '(none)'}")
        text = _PARAMETER.sub(lambda found: given[found[1]], self.instruction)
        return Order(instruction=text, mode=self.mode, place=self.place, url=self.url, app=self.app)


_TASKS = TypeAdapter(dict[Name, SavedTask])


class SavedTasks:
    """The tasks in one folder's file.

    Args:
        folder: Where the file is; None keeps the tasks as long as the app lives.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept: dict[str, SavedTask] = {}
        self._lock: RunLock | None = None

    def load(self) -> dict[str, SavedTask]:
        """All tasks by name.

        Raises:
            ConfigError: The file cannot be read.
        """
        if self._folder is None:
            return dict(self._kept)
        path = self._folder / FILE
        try:
            return _TASKS.validate_json(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
            raise ConfigError(f"{path} cannot be read: {why}. Mend it, or remove it to begin anew") from error

    def rows(self) -> list[dict[str, Any]]:
        """What the page shows of each: its fields, parameters, the next time and what became of the last one."""
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
        """A task by name.

        Raises:
            NotFoundError: There is none.
        """
        task = self.load().get(name)
        if task is None:
            raise NotFoundError(f"there is no task {name[:80]!r}")
        return task

    def save(self, name: str, task: SavedTask, now: datetime | None = None) -> None:
        """Keep a task under a name, instead of what was there; due times count from now on.

        Raises:
            ConfigError: Its name or its time cannot be read, a parameter of a scheduled one has no value, its address
                is missing, or there are too many.
        """
        now = now or datetime.now()
        when = parse_when(task.when)
        if task.mode in ("instant", "thinking") and task.place == "web" and not (task.url or "").strip():
            raise ConfigError("an address is needed to start at, such as https://example.com")
        if when is not None:
            if when.after(now) is None:
                raise ConfigError(f"{task.when} has passed; expected a time to come")
            task.order()
        tasks = self.load()
        if name not in tasks and len(tasks) >= MAX_TASKS:
            raise ConfigError(f"there are {MAX_TASKS} tasks; delete one first")
        self._write({**tasks, name.strip(): task.model_copy(update={"since": now, "last": ""})})

    def delete(self, name: str) -> None:
        """Forget a task.

        Raises:
            NotFoundError: There is none.
        """
        self.find(name)
        self._write({other: task for other, task in self.load().items() if other != name})

    def report(self, name: str, text: str) -> None:
        """Write down what became of a scheduled time."""
        tasks = self.load()
        if name in tasks:
            self._write({**tasks, name: tasks[name].model_copy(update={"last": text[:2000]})})

    def take_due(self, now: datetime) -> list[str]:
        """Names of the tasks whose time is now, once; those that were missed say so in `last`.

        Only one app keeps the times of a folder: in others, nothing is ever due.

        Raises:
            ConfigError: The file cannot be read.
        """
        tasks, due, changed = self.load(), [], {}
        if not any(task.when for task in tasks.values()) or not self._keeps_times():
            return []
        for name, task in tasks.items():
            times = _times_between(parse_when(task.when), task.since or now, now)
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
        """Let another app keep the times."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _keeps_times(self) -> bool:
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
            raise ConfigError(f"this cannot be saved: {error.errors()[0]['msg']}") from error
        if self._folder is None:
            self._kept = checked
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps(_TASKS.dump_python(checked, mode="json", exclude_defaults=True), indent=1, ensure_ascii=False)
        write_atomically(self._folder / FILE, text.encode())


def _times_between(when: When | None, since: datetime, now: datetime) -> list[datetime]:
    """Due times after `since` up to `now`, the newest ones."""
    times: list[datetime] = []
    moment: datetime | None = max(since, now - timedelta(days=_MAX_DUE))
    while when is not None and moment is not None and (moment := when.after(moment)) is not None and moment <= now:
        times.append(moment)
    return times


def _missed(times: Sequence[datetime]) -> str:
    more = f" and {len(times) - 1} times before" if len(times) > 1 else ""
    return f"missed {times[-1]:%Y-%m-%d %H:%M}{more}: the app was not open, or the machine slept"


def _next(task: SavedTask) -> str:
    due = (when := parse_when(task.when)) and when.after(datetime.now())
    return f"{due:%a %Y-%m-%d %H:%M}" if due else ""
