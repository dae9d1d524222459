"""Runs groups of rollouts: the Rollout Manager of the report (Appendix D), in one event loop.

Groups start in the order in which they were submitted, as far as the version of the policy and the engine allow; they
end in any order, and ended groups are handed out oldest start first.
"""

import asyncio
import heapq
import itertools
import logging
import math
import random
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Self

from cua.batch.episode import classify_error
from cua.errors import ConfigError, CuaError, TrajectoryError
from cua.rollouts.journal import RolloutJournal
from cua.rollouts.rollout import (
    POLICY,
    STOPPED,
    Rollout,
    RolloutEnd,
    RolloutOutcome,
    RolloutServices,
    RolloutSpec,
    RolloutState,
)
from cua.rollouts.samples import SampledRollout, SampleError
from envs import Env, EnvError, EnvSpec
from envs.foreign import ForeignCodeError, abandon, describe_defect, is_from_outside

_LOG = logging.getLogger(__name__)
_WATCH_S = 0.05
_STARTS_A_TURN = 32  # tasks that are started before the event loop runs others
_MAX_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """Options of a scheduler.

    Attributes:
        batch: Groups that the trainer takes for one version; None: admission does not depend on the version.
        eta: Versions by which the policy may be ahead of the start of a group. Default: AReaL.
        max_attempts: Attempts at a rollout whose environment or model failed.
        backoff_s: Seconds before the second attempt; doubled for each further one, up to a minute.
        overlong: `mask`: the samples of truncated rollouts have an empty mask; their score counts in any case.
        max_depth: Levels of rollouts. 2: a submitted rollout has sub-tasks, which have none (report, section 3).
        close_s: Seconds that cancelled rollouts have to close their parts.
        stuck_s: Seconds without a transition after which the watchdog reports which rollout waits for what.
        get_slots: Called before each start; number of submitted rollouts that may run, for example from the engine's
            queue. At least one group runs. None: no limit.
        on_stuck: Called with the report of the watchdog.
    """

    batch: int | None = None
    eta: int = 4
    max_attempts: int = 3
    backoff_s: float = 1.0
    overlong: Literal["train", "mask"] = "train"
    max_depth: int = 2
    close_s: float = 30.0
    stuck_s: float = 600.0
    get_slots: Callable[[], int] | None = None
    on_stuck: Callable[[Mapping[str, object]], None] | None = None


class AccountingError(CuaError):
    """Raised at shutdown if a rollout has no end, or more than one; a defect, or specs that were not resubmitted."""


@dataclass(slots=True, kw_only=True)
class RolloutGroup:
    """Rollouts of one spec, whose mean score is the baseline.

    Attributes:
        key: Unique key.
        spec: Spec of all members.
        ends: Ends of the members; None for those without an end.
        order: Number of its start.
        version: Version of the policy when it started.
        is_on_disk: True if all ends are on disk.
    """

    key: str
    spec: RolloutSpec
    ends: list[RolloutEnd | None]
    order: int = 0
    version: int = 0
    is_on_disk: bool = False

    @property
    def scores(self) -> list[float]:
        """Scores of the members that count in the baseline: scored and stale ones."""
        return [end.score for end in self.ends if end is not None and end.score is not None]

    @property
    def is_usable(self) -> bool:
        """True if there is a baseline: at least two scores, or one in a group of one."""
        return len(self.scores) >= min(2, len(self.ends))

    @property
    def mean_score(self) -> float:
        """Mean of `scores`, the baseline of equation 1 of the report."""
        return math.fsum(self.scores) / len(self.scores)

    def member_id(self, number: int) -> str:
        """Return the id of a member."""
        return f"{self.key}/{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutCounts:
    """State of a scheduler.

    Attributes:
        num_queued: Rollouts that were submitted or started as sub-tasks, in all processes of the journal.
        states: Number of unfinished rollouts by state.
        ends: Number of ends by kind.
        num_accepted: Usable groups so far.
        num_excluded_groups: Groups that ended without a baseline.
        lag_p99_s: Delay of the event loop in seconds, 99th percentile of the last 2,000 samples.
    """

    num_queued: int
    states: Mapping[str, int]
    ends: Mapping[str, int]
    num_accepted: int
    num_excluded_groups: int
    lag_p99_s: float


@dataclass(slots=True)
class _Counted:
    queued: int = 0
    states: Counter[RolloutState] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    running_groups: int = 0
    running_members: int = 0
    accepted: int = 0
    excluded_groups: int = 0


class RolloutScheduler:
    """Runs submitted groups, from one event loop; use as a context manager.

    Leaving the context waits for nothing: unfinished rollouts are stopped, and run again when another process opens
    the same journal and submits the same specs in the same order.

    Args:
        journal: Journal; closed by the scheduler.
        take_env: Leases environments, such as `EnvProvider.take_env` of a pool with `max_leased`.
        options: Options.
    """

    def __init__(
        self,
        journal: RolloutJournal,
        *,
        take_env: Callable[[EnvSpec], Awaitable[Env]] | None = None,
        options: RolloutOptions | None = None,
    ) -> None:
        self._journal = journal
        self._options = options or RolloutOptions()
        self._services = RolloutServices(
            moved=self._moved,
            take_env=take_env or _no_env,
            run_children=self._run_children,
            get_version=lambda: self._version,
        )
        self._version = journal.earlier.version
        self._queue: deque[RolloutGroup] = deque()
        self._open_groups = 0
        self._ready: list[tuple[int, RolloutGroup]] = []
        self._live: dict[str, Rollout] = {}
        self._parents: dict[str, str] = {}
        self._keys: Counter[str] = Counter()
        self._order = itertools.count()
        self._counts = _Counted()
        self._changed = asyncio.Event()
        self._moved_at = time.monotonic()
        self._lags: deque[float] = deque(maxlen=2_000)
        self._watch: asyncio.Task[None] | None = None
        self._is_admitting = self._is_closing = self._is_paused = False
        self._left = set(journal.earlier.open) | set(journal.earlier.ends)
        self._failed: TrajectoryError | None = None

    async def __aenter__(self) -> Self:
        self._watch = asyncio.get_running_loop().create_task(self._watchdog())
        for id in sorted(self._left):
            if "#" in id:  # a sub-task: its parent runs again, and starts others
                self._left.discard(id)
                self._counts.queued += 1
                end = self._journal.earlier.ends.get(id)
                if end is None:
                    end = RolloutEnd(kind="error", reason="the process of its parent ended")
                    self._journal.ended(id, end)
                self._counts.ends[end.kind] += 1
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self._stop()
            if kind is None:
                self.check_accounts()
        finally:
            await self._journal.close()

    @property
    def version(self) -> int:
        """Current version of the policy."""
        return self._version

    @property
    def counts(self) -> RolloutCounts:
        """Counts by state and end."""
        counted, lags = self._counts, sorted(self._lags)
        return RolloutCounts(
            num_queued=counted.queued,
            states={state: count for state, count in counted.states.items() if count},
            ends=dict(counted.ends),
            num_accepted=counted.accepted,
            num_excluded_groups=counted.excluded_groups,
            lag_p99_s=lags[int(0.99 * (len(lags) - 1))] if lags else 0.0,
        )

    def submit(self, spec: RolloutSpec, group_size: int = 1) -> RolloutGroup:
        """Queue a group of rollouts of one spec.

        Its key is made of the task, the seed and the number of the submission of both, so that a process that resumes
        and submits the same specs in the same order finds what has ended.

        Raises:
            ConfigError: If the size is below 1, or an earlier process had another size or other draws.
        """
        if group_size < 1:
            raise ConfigError(f"a group of {group_size} rollouts; expected at least 1")
        name = spec.task_id.replace("#", "%23")  # `#` is for sub-tasks
        name = name if spec.seed is None else f"{name}@{spec.seed}"
        key = f"{name}.{self._keys[name]}"
        self._journal.submitted(key, group_size, spec.draws)
        self._keys[name] += 1
        group = RolloutGroup(key=key, spec=spec, ends=[])
        group.ends = [self._journal.earlier.find_end(group.member_id(number), key) for number in range(group_size)]
        self._counts.queued += group_size
        self._left -= {group.member_id(number) for number in range(group_size)}
        for end in group.ends:
            if end is not None:
                self._counts.ends[end.kind] += 1
        self._open_groups += 1
        if None in group.ends:
            self._queue.append(group)
            for number, end in enumerate(group.ends):
                if end is None:
                    self._add(group.member_id(number), spec, depth=1)
            self._admit_soon()
        else:
            group.order = next(self._order)
            self._group_ended(group)
        return group

    def set_version(self, version: int) -> None:
        """Set the version of the policy, which may let more groups start.

        Raises:
            ConfigError: If the version goes back.
        """
        if version < self._version:
            raise ConfigError(f"the version of the policy goes back from {self._version} to {version}")
        self._version = version
        self._journal.note("version", number=version)
        self._admit_soon()

    def set_paused(self, is_paused: bool) -> None:
        """Start no group, and stop the time of running rollouts, until this is called with False."""
        self._is_paused = is_paused
        for rollout in self._live.values():
            rollout.set_paused(is_paused)
        self._admit_soon()

    async def finished(self) -> AsyncGenerator[RolloutGroup, None]:
        """Yield usable groups that have ended, oldest start first; ends after the last group.

        A group counts as taken when the next one is requested: until then, a process that resumes gets it again.
        """
        while self._open_groups:
            while not self._ready and self._open_groups and self._failed is None:
                self._changed.clear()
                await self._changed.wait()
            if self._failed is not None:
                raise self._failed
            if self._ready:
                if not self._ready[0][1].is_on_disk:
                    ended = [group for _, group in self._ready]
                    await self._journal.commit()
                    for group in ended:
                        group.is_on_disk = True
                    continue  # an older one may have ended meanwhile
                group = heapq.heappop(self._ready)[1]
                yield group
                await self._journal.take(group.key)
                self._open_groups -= 1

    def check_accounts(self) -> None:
        """Check that each rollout has exactly one end.

        Raises:
            AccountingError: If not.
        """
        ended = sum(self._counts.ends.values())
        if self._left:
            shown = ", ".join(sorted(self._left)[:3])
            raise AccountingError(
                f"{len(self._left)} rollouts of the journal were not submitted again ({shown}, ...); submit the specs "
                "of the earlier process in their order, or use another folder"
            )
        if self._live or ended != self._counts.queued:
            raise AccountingError(f"{self._counts.queued} rollouts were queued, {ended} have ended: {self.counts}")

    def report(self) -> dict[str, object]:
        """Return which rollout waits for what, and why no other starts."""
        waits: dict[str, list[str]] = {}
        for child, parent in self._parents.items():
            waits.setdefault(parent, []).append(child)
        now = time.monotonic()
        oldest = sorted((rollout for rollout in self._live.values()), key=lambda rollout: rollout.since)
        shown = [rollout for rollout in oldest if rollout.attempt] or oldest
        return {
            "states": {state: count for state, count in self._counts.states.items() if count},
            "queue": f"{len(self._queue)} groups, {self._why_not() or 'may start'}",
            "oldest": [
                {
                    "id": rollout.id,
                    "state": rollout.state,
                    "for_s": round(now - rollout.since, 1),
                    "waits_for": ["an environment"] if rollout.state == "acquiring" else waits.get(rollout.id, []),
                }
                for rollout in shown[:_MAX_SHOWN]
            ],
        }

    # Starting

    def _add(self, id: str, spec: RolloutSpec, *, depth: int) -> Rollout:
        rollout = Rollout(id, spec, self._services, depth=depth, attempt=self._journal.earlier.attempts.get(id, 0))
        self._live[id] = rollout
        rollout.set_paused(self._is_paused)
        self._counts.states["queued"] += 1
        self._journal.moved(rollout)
        return rollout

    def _admit_soon(self) -> None:
        if not self._is_admitting:
            self._is_admitting = True
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        """Start groups; the event loop runs others in between."""
        self._is_admitting = False
        num_started = 0
        while self._queue and not self._is_closing and not self._why_not():
            if num_started >= _STARTS_A_TURN:
                self._admit_soon()
                return
            group = self._queue.popleft()
            group.order, group.version = next(self._order), self._version
            members = [number for number, end in enumerate(group.ends) if end is None]
            self._counts.running_groups += 1
            self._counts.running_members += len(members)
            num_started += len(members)
            for number in members:
                self._start(self._live[group.member_id(number)], group, number)

    def _why_not(self) -> str:
        """Return why the next group cannot start; "" if it can."""
        options, counts = self._options, self._counts
        if self._is_paused:
            return "it is paused"
        if options.batch is not None:
            most = (options.eta + self._version + 1) * options.batch
            if counts.running_groups + counts.accepted >= most:
                return f"admission: {counts.running_groups} running + {counts.accepted} accepted >= {most} groups"
        if options.get_slots is not None and self._queue and counts.running_members:
            slots = options.get_slots()
            if counts.running_members + self._queue[0].ends.count(None) > slots:
                return f"back-pressure: {counts.running_members} running, {slots} slots"
        return ""

    def _start(
        self, rollout: Rollout, group: RolloutGroup | None = None, number: int = 0
    ) -> "asyncio.Task[RolloutEnd]":
        """Start a member of a group, or a sub-task."""
        work = self._drive(rollout, group, number)
        rollout.task = asyncio.get_running_loop().create_task(work, name=rollout.id)
        return rollout.task

    async def _run_children(self, parent: Rollout, specs: Sequence[RolloutSpec]) -> Sequence[RolloutEnd]:
        if parent.depth >= self._options.max_depth:
            raise ConfigError(f"{parent.id} is at depth {parent.depth} of {self._options.max_depth}, and has sub-tasks")
        await parent.release()
        parent.enter("waiting")
        first = parent.num_children
        parent.num_children += len(specs)
        ids = [f"{parent.id}#{parent.attempt}.{first + number}" for number in range(len(specs))]
        tasks = []
        for id, spec in zip(ids, specs, strict=True):
            self._counts.queued += 1
            self._parents[id] = parent.id
            tasks.append(self._start(self._add(id, spec, depth=parent.depth + 1)))
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            await self._stop_all([child for id in ids if (child := self._live.get(id))], "its parent was cancelled")
            for id in ids:
                del self._parents[id]
        parent.enter("running")
        return [task.result() for task in tasks]

    # Ending

    async def _drive(self, rollout: Rollout, group: RolloutGroup | None, number: int) -> RolloutEnd:
        """Run a rollout to its end, with further attempts if its environment or model failed."""
        may_retry = True
        while may_retry:
            outcome = None
            try:
                if rollout.end is not None:
                    rollout.enter("queued")
                    await asyncio.sleep(self._backoff_s(rollout.attempt))
                rollout.begin_attempt()
                try:
                    outcome = await rollout.spec.play(rollout)
                finally:
                    rollout.end_timer()
                    await rollout.release()
                rollout.end, may_retry = self._judge(rollout, outcome), False
            except BaseException as error:
                rollout.end, may_retry = self._judge_error(rollout, error)
        rollout.is_ending = True
        end = rollout.end or RolloutEnd(kind="error", reason="it did not run")
        if outcome is not None and outcome.branches:
            try:
                end = await self._sampled(rollout, outcome, end)
            except TrajectoryError as error:  # nothing can be accounted for any more
                self._failed = error
                self._changed.set()
        if rollout.id in self._live:  # else it was abandoned
            self._ended(rollout, end)
            if group is not None:
                self._member_ended(group, number, end)
        return end

    def _backoff_s(self, attempt: int) -> float:
        return min(60.0, self._options.backoff_s * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)

    def _judge(self, rollout: Rollout, outcome: RolloutOutcome) -> RolloutEnd:
        make_end = partial(
            RolloutEnd,
            is_truncated=outcome.is_truncated,
            num_attempts=rollout.attempt,
            version=rollout.version,
            run_dir=rollout.run_dir,
        )
        score = outcome.score
        if score is None or not 0.0 <= score <= 1.0:
            reason = outcome.reason or "it has no score" if score is None else f"the score {score} is not in [0, 1]"
            return make_end(kind="excluded", reason=reason)
        if self._options.batch is not None and self._version - rollout.version > self._options.eta:
            reason = f"sampled by version {rollout.version}, now {self._version}"
            return make_end(kind="stale", reason=reason, score=score)
        return make_end(kind="scored", reason=outcome.reason, score=score)

    def _judge_error(self, rollout: Rollout, error: BaseException) -> tuple[RolloutEnd, bool]:
        """Return the end of an attempt that raised an exception, and True if another attempt may follow."""
        num_attempts = max(1, rollout.attempt)
        make_end = partial(RolloutEnd, num_attempts=num_attempts, version=rollout.version, run_dir=rollout.run_dir)
        expired = rollout.expired
        if isinstance(error, asyncio.CancelledError) and (rollout.stop_reason or expired):
            rollout.uncancel()
            if rollout.stop_reason or expired is None:
                return make_end(kind="excluded", reason=rollout.stop_reason), False
            reason = f"{expired} took longer than {rollout.limit_s(expired):g} s"
            if expired in ("acquiring", "resetting"):
                return make_end(kind="error", reason=reason), rollout.attempt < self._options.max_attempts
            return make_end(kind="excluded", reason=reason, is_truncated=expired == "running"), False
        if is_from_outside(error, rollout.task):
            raise error
        known = error if isinstance(error, Exception) else ForeignCodeError(describe_defect(error))
        kind, reason, is_retryable = classify_error(known)
        is_error = kind in ("env_error", "model_error") or (kind == "evaluator_error" and rollout.state != "evaluating")
        end = make_end(kind="error" if is_error else "excluded", reason=reason, is_truncated=kind == "timeout")
        return end, is_retryable and rollout.attempt < self._options.max_attempts

    async def _sampled(self, rollout: Rollout, outcome: RolloutOutcome, end: RolloutEnd) -> RolloutEnd:
        """Write the samples; samples that a trainer must not use make the rollout an error."""
        branches, policy = outcome.branches, rollout.spec.policy
        is_overlong = end.is_truncated and self._options.overlong == "mask"
        if end.kind != "scored" or is_overlong or policy != POLICY:
            branches = tuple(replace(branch.without_loss(), policy=policy) for branch in branches)
        parent, _, child = rollout.id.rpartition("#")
        sampled = SampledRollout(
            rollout=rollout.id,
            attempt=rollout.attempt,
            group=parent or child.rpartition("/")[0],
            reward=end.score,
            branches=branches,
        )
        try:
            await self._journal.sampled(sampled)
        except SampleError as error:
            return replace(end, kind="error", reason=str(error), score=None)
        return end

    def _ended(self, rollout: Rollout, end: RolloutEnd) -> None:
        del self._live[rollout.id]
        self._counts.states[rollout.state] -= 1
        self._counts.ends[end.kind] += 1
        self._moved_at = time.monotonic()
        self._journal.ended(rollout.id, end)

    def _member_ended(self, group: RolloutGroup, number: int, end: RolloutEnd) -> None:
        group.ends[number] = end
        self._counts.running_members -= 1
        if None not in group.ends:
            self._counts.running_groups -= 1
            self._group_ended(group)
        self._admit_soon()

    def _group_ended(self, group: RolloutGroup) -> None:
        """Make a group available, unless it has no baseline or was handed out by an earlier process."""
        if any(end is not None and end.reason == STOPPED for end in group.ends):
            return
        if group.is_usable:
            self._counts.accepted += 1
        else:
            self._counts.excluded_groups += 1
        if group.is_usable and group.key not in self._journal.earlier.taken:
            heapq.heappush(self._ready, (group.order, group))
        else:
            self._open_groups -= 1
        self._changed.set()

    async def _stop(self) -> None:
        self._is_closing = True
        if self._watch is not None:
            self._watch.cancel()
        await self._stop_all(list(self._live.values()), STOPPED)

    async def _stop_all(self, rollouts: Sequence[Rollout], reason: str) -> None:
        """Cancel rollouts and wait until they have ended; code that ignores it is abandoned."""
        for rollout in rollouts:
            rollout.stop(reason)
        tasks = [rollout.task for rollout in rollouts if rollout.task is not None and not rollout.task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=self._options.close_s)
        for rollout in rollouts:
            if rollout.id in self._live:  # it had not begun, or ignores its cancellation
                if rollout.task is not None:
                    abandon(rollout.task)
                rollout.end_timer()
                await rollout.release()
                self._ended(rollout, RolloutEnd(kind="excluded", reason=reason, num_attempts=max(1, rollout.attempt)))

    # Watching

    def _moved(self, rollout: Rollout, earlier: RolloutState) -> None:
        states = self._counts.states
        states[earlier] -= 1
        states[rollout.state] += 1
        self._moved_at = rollout.since
        self._journal.moved(rollout)

    async def _watchdog(self) -> None:
        """Measure the delay of the event loop, try admission again, and report if nothing has moved for long."""
        options = self._options
        while True:
            due = time.monotonic() + _WATCH_S
            await asyncio.sleep(_WATCH_S)
            now = time.monotonic()
            self._lags.append(now - due)
            if self._queue:
                self._admit_soon()
            if self._live and now - self._moved_at > options.stuck_s:
                report = self.report()
                self._moved_at = now
                self._journal.note("stuck", **report)
                _LOG.warning("no rollout has changed its state for %g s: %s", options.stuck_s, report)
                if options.on_stuck is not None:
                    options.on_stuck(report)


async def _no_env(spec: EnvSpec) -> Env:
    raise EnvError(f"the scheduler has no environments, and a rollout needs {spec.name!r}", retryable=False)
