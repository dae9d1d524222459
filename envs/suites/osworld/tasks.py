"""Suite `osworld`: OSWorld's tasks on a guest, and which of them cannot be evaluated on this machine."""

import asyncio
import contextlib
import importlib.util
import shlex
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.errors import EnvSetupError, EvaluationError
from envs.json_fields import Json
from envs.suite import FAMILY, Baseline, Suite
from envs.suites.osworld.downloads import get_file, inside
from envs.suites.osworld.env import GuestEnv
from envs.suites.osworld.evaluators import Compare, EvalContext, OsworldVerdict, compare_here, judge, why_unsupported
from envs.suites.osworld.guest_client import GuestAnswerError, UncertainError
from envs.suites.osworld.local import why_impossible
from envs.suites.osworld.local_sandbox import GUEST_PATH, shims
from envs.suites.osworld.local_tasks import (
    BASELINES,
    LOCAL,
    LocalTask,
    Wording,
    load_local_tasks,
    local_keys,
    save_standins,
)
from envs.suites.osworld.official import INSTALL_LINE, GuestAddress, OfficialEvaluators, find_official
from envs.suites.osworld.providers import check_options, has_network
from envs.suites.osworld.setup_steps import GuestSetup, cached_names, downloads_of, why_impossible_step
from envs.suites.osworld.task_file import GROUPS, UPSTREAM, OsworldTaskData, TaskFile

_NO_ANSWER = "who does nothing"
"""First words of the reason for tasks that are excluded from the list `local` although they can be evaluated."""
_FROM_WEB = "from the web"
_SHELL_MARKS = frozenset("|&;<>()$`\\\"'*?[]#~=%\n")
PREFIX = "osworld/"
_DEFAULT_LIST = "nogdrive"
"""List used for published scores: all tasks except the eight that need a Google Drive account."""


def find_unavailable(
    files: Mapping[str, TaskFile],
    provider: str,
    why_not_judged: Callable[[TaskFile], str | None],
    *,
    has_web: bool = False,
) -> dict[str, str]:
    """Return the reason why tasks cannot be evaluated, by task id, in one clause; other tasks are left out.

    Args:
        files: The tasks by id.
        provider: Provider of the guests.
        why_not_judged: Returns what is missing for a verdict, see `EvaluatorChoice.why_unavailable`.
        has_web: True if local guests reach the web.

    Raises:
        EnvSetupError: If no guest of this provider can be started on this machine.
    """
    _check_provider(provider)
    reasons = {id: next(_reasons(file, provider, why_not_judged, has_web), None) for id, file in files.items()}
    return {id: reason for id, reason in reasons.items() if reason is not None}


def _check_provider(provider: str) -> None:
    if provider == "local" and (why := why_impossible()) is not None:
        raise EnvSetupError(why)
    if provider in ("docker", "vmware") and importlib.util.find_spec("desktop_env") is None:
        raise EnvSetupError(f"the provider {provider!r} needs upstream's package: pip install desktop-env")


def _reasons(
    file: TaskFile, provider: str, why_not_judged: Callable[[TaskFile], str | None], has_web: bool
) -> Iterator[str]:
    for step in (*file.setup, *file.postconfig):
        if (why := why_impossible_step(step.kind)) is not None:
            yield f"needs {why}"
    if any(
        source.get("type") == "googledrive_file"
        for metric in file.metrics
        for source in (metric.result, metric.expected or {})
    ):
        yield "needs an account at Google Drive"
    if (why := why_not_judged(file)) is not None:
        yield f"needs {why}"
    if provider == "local":
        yield from _missing_in_local_guest(file, has_web)


def _missing_in_local_guest(file: TaskFile, has_web: bool) -> Iterator[str]:
    """Yield what a local guest lacks, known from a trial of the task or from programs missing on this machine."""
    tried = load_local_tasks().get(file.key)
    why = tried.why_not if tried is not None else None
    if why is not None and not why.startswith(_NO_ANSWER) and not (has_web and why.endswith(_FROM_WEB)):
        yield f"does not work in a local guest: {why}"
    for step in (*file.setup, *file.postconfig):
        program = _program_of(step.parameters.get("command")) if step.kind == "launch" else ""
        if program and program not in shims() and shutil.which(program, path=GUEST_PATH) is None:
            yield f"needs the program {program}, which is not on this machine"


def _program_of(command: object) -> str:
    """Return the program that a command starts; "" if a shell decides."""
    if isinstance(command, str) and not _SHELL_MARKS & set(command):
        command = shlex.split(command)
    return str(command[0]) if isinstance(command, list) and command and not _SHELL_MARKS & set(str(command[0])) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Pauses around a task.

    Attributes:
        start_s: Pause between its setup and the first observation.
        end_s: Pause between the last step and its verdict.
    """

    start_s: float = 3.0
    end_s: float = 3.0


UPSTREAM_TIMING = Timing(start_s=60.0, end_s=30.0)
UPSTREAM_PAUSE_S = 5.0
BROWSER_TIMING = Timing(end_s=12.0)
"""Pauses for Chrome's tasks that do not close it first: it stores its settings up to 10 s late."""


Evaluator = Literal["auto", "ours", "official"]
EVALUATORS: tuple[Evaluator, ...] = ("auto", "ours", "official")
_VERDICT_PAUSES_S = (2.0, 5.0)
"""Pauses before the second and third request for a verdict."""


_NOT_INSTALLED = f"OSWorld's own evaluators, which are not installed; install them: {INSTALL_LINE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorChoice:
    """Method of evaluation.

    Attributes:
        evaluator: `ours`, `official` (OSWorld's own), or `auto`: `ours` for supported tasks, else OSWorld's.
        official: OSWorld's own evaluators, if installed.
        is_parity: True to use the score of upstream's harness, including its faults.
    """

    evaluator: Evaluator = "auto"
    official: OfficialEvaluators | None = None
    is_parity: bool = False

    def choose(self, task: TaskFile) -> Literal["ours", "official"]:
        """Return which of the two judges a task."""
        if self.evaluator != "auto":
            return self.evaluator
        return "ours" if why_unsupported(task) is None else "official"

    def why_not(self, task: TaskFile) -> str | None:
        """Return why a task cannot be judged, in one clause; None if it can."""
        missing = why_unsupported(task)
        if task.is_infeasible or (missing is None and self.evaluator != "official"):
            return None
        if self.evaluator == "ours":
            return missing
        if self.official is None:
            reason = "" if missing is None else f"{missing}, which OSWorld's own evaluators may know: "
            return f"{reason}{_NOT_INSTALLED}"
        return self.official.why_unsupported(task)

    def why_unavailable(self, task: TaskFile) -> str | None:
        """Return the same as `why_not`, with one common text for all tasks that a single installation fixes."""
        why = self.why_not(task)
        return _NOT_INSTALLED if why is not None and why.endswith(_NOT_INSTALLED) else why


class OsworldTask(Task):
    """Task on a `GuestEnv`.

    Args:
        file: Parsed task file.
        cache_dir: Folder with a subfolder for each task: files downloaded before the run.
        timing: Pauses around the task.
        spec: Id and environment of the task.
        judging: Method of evaluation.
        local: Substitutes for its downloads; None for none.
    """

    def __init__(
        self,
        file: TaskFile,
        cache_dir: Path,
        timing: Timing,
        spec: TaskSpec,
        judging: EvaluatorChoice | None = None,
        local: LocalTask | None = None,
    ) -> None:
        self.file = file
        self._judging = judging or EvaluatorChoice()
        self._local = local
        self.instruction = file.instruction
        self.spec = spec
        self.warnings: list[str] = []
        self._files_dir = inside(cache_dir, file.id)
        self._episode_dir: tempfile.TemporaryDirectory[str] | None = None
        self._timing = timing

    async def setup(self, env: GuestEnv) -> None:
        """Run the setup steps of the file, and pause.

        Raises:
            EnvSetupError: If a step fails.
        """
        self._files_dir.mkdir(parents=True, exist_ok=True)
        if self._local is not None:
            names = cached_names((*self.file.setup, *self.file.postconfig))
            await asyncio.to_thread(save_standins, self._files_dir, self._local.files, names)
        for url, name in downloads_of(self.file):
            await get_file(url, inside(self._files_dir, name))
        await asyncio.to_thread(shutil.copytree, self._files_dir, self.work_dir(), dirs_exist_ok=True)
        steps = self._steps(env)
        self.warnings = steps.warnings  # including those before a step that fails
        await steps.run(self.file.setup)
        await asyncio.sleep(self._timing.start_s)

    async def evaluate(self, env: GuestEnv) -> TaskVerdict:
        """Run the steps before the verdict, and judge the guest.

        Other scores: the score by the other rules, `upstream`, with parity `default`.

        Raises:
            EvaluationError: If the evaluators cannot give a verdict.
            EnvError: If the guest does not answer.
        """
        claims_failure = env.terminate is not None and env.terminate.status == "failure"
        await env.release()
        await asyncio.sleep(self._timing.end_s)
        steps = self._steps(env)
        try:
            await steps.run(self.file.postconfig)
        finally:
            self.warnings += steps.warnings
        context = EvalContext(guest=env.guest, cache_dir=self.work_dir())
        ask = partial(
            judge,
            self.file,
            context,
            claims_failure=claims_failure,
            has_ended=env.terminate is not None,
            compare=self._choose_comparison(env),
        )
        return self._score(await self._until_answered(ask))

    async def _until_answered(self, ask: Callable[[], Awaitable[OsworldVerdict]]) -> OsworldVerdict:
        """Ask for the verdict, with retries after an invalid response of the guest: evaluation is read-only."""
        for pause_s in _VERDICT_PAUSES_S:
            try:
                return await ask()
            except (GuestAnswerError, UncertainError) as error:
                if not error.retryable:
                    raise
                self.warnings.append(f"the verdict is asked for again: {error}")
                await asyncio.sleep(pause_s)
        return await ask()

    def _choose_comparison(self, env: GuestEnv) -> Compare:
        judging, options = self._judging, env.options
        missing = judging.why_not(self.file)
        if missing is not None:
            raise EvaluationError(f"the task {self.file.key} needs {missing}")
        if judging.choose(self.file) == "ours":
            return compare_here
        address = GuestAddress(
            host=options.host,
            server_port=options.server_port,
            chromium_port=options.chromium_port,
            vlc_port=options.vlc_port,
            screen_px=env.screen_px,
            token=options.token,
            password=options.password,
        )
        official = judging.official
        assert official is not None
        return lambda task, context: official.judge(task, context, address)

    def _score(self, verdict: OsworldVerdict) -> TaskVerdict:
        if not self._judging.is_parity:
            if verdict.upstream != verdict.score:
                outcome = "crash" if verdict.upstream is None else f"give {verdict.upstream:g}"
                self.warnings.append(f"upstream's harness would {outcome} here, not give {verdict.score:g}")
            others = {} if verdict.upstream is None else {UPSTREAM: verdict.upstream}
            return TaskVerdict(verdict.score, other_scores=others)
        if verdict.upstream is None:
            raise EvaluationError("upstream's harness crashes here: it compares a file that is not there")
        return TaskVerdict(verdict.upstream, other_scores={"default": verdict.score})

    async def teardown(self, env: GuestEnv) -> None:
        """Remove local files of the episode; the provider resets the guest."""
        folder, self._episode_dir = self._episode_dir, None
        if folder is not None:
            await asyncio.to_thread(folder.cleanup)

    def work_dir(self) -> Path:
        """Return the folder with the episode's own copy of the task's files, separate from other attempts."""
        if self._episode_dir is None:
            self._episode_dir = tempfile.TemporaryDirectory(prefix="k25-osworld-", ignore_cleanup_errors=True)
        return Path(self._episode_dir.name)

    def _steps(self, env: GuestEnv) -> GuestSetup:
        return GuestSetup(
            guest=env.guest,
            cache_dir=self.work_dir(),
            password=env.options.password,
            screen_px=env.screen_px,
            browser_url=f"http://{env.options.host}:{env.options.chromium_port}",
        )


def make_suite(
    guest: str = "",
    provider: str = "address",
    list: str = _DEFAULT_LIST,
    wording: Wording = "goal",
    domains: str = "",
    data: str = "",
    cache: str = "",
    parity: bool | str = False,
    evaluator: Evaluator = "auto",
    **env_options: object,
) -> Suite:
    """Make tasks on a guest.

    Args:
        guest: `HOST` or `HOST:PORT` of an existing guest; "" for 127.0.0.1:5000.
        provider: Provider of guests: `address`, `local`, `docker` or `vmware`.
        list: `all`, `nogdrive`, `small`, `infeasible`, or a file like upstream's `test_all.json`; `local`: tasks for
            guests of the provider `local`, with small substitutes for downloads.
        wording: `goal` for the instruction; `steps`, with the list `local`, for step-by-step instructions.
        domains: Names of domains, separated by commas; "" for all.
        data: Folder like upstream's `evaluation_examples`; "" for the bundled files.
        cache: Folder with a subfolder for each task, with downloaded files as in upstream's cache.
        parity: True or `upstream` to use the pauses and scores of upstream's runner, including its faults.
        evaluator: `ours`, `official` or `auto`: `ours` for supported tasks, else OSWorld's own.
        env_options: Options of the env `osworld`.

    Raises:
        EnvSetupError: If the list or domain does not exist.
        ValueError: If a value is invalid.
    """
    import platformdirs

    if parity not in (True, False, "upstream", "true", "false"):
        raise ValueError(f"parity is {parity!r}, expected 'upstream' or nothing")
    is_parity = parity in (True, "upstream", "true")
    if evaluator not in EVALUATORS:
        raise ValueError(f"evaluator is {evaluator!r}, expected one of {', '.join(EVALUATORS)}")
    judging = EvaluatorChoice(
        evaluator=evaluator,
        official=None if evaluator == "ours" else find_official(),
        is_parity=is_parity,
    )
    if evaluator == "official" and judging.official is None:
        raise EnvSetupError(f"OSWorld's own evaluators are not installed; install them: {INSTALL_LINE}")
    tasks = OsworldTaskData(Path(data) if data else None)
    if wording not in ("goal", "steps") or (wording == "steps" and list != LOCAL):
        raise ValueError(f"wording is {wording!r}, expected 'goal', or, with list=local, 'steps'")
    is_local = list == LOCAL
    wanted = [domain.strip() for domain in domains.split(",") if domain.strip()]
    keys = tasks.keys("all", wanted) if is_local else tasks.keys(list, wanted)
    keys = tuple(key for key in keys if not is_local or key in local_keys(wording))
    folder = "osworld-local" if is_local else "osworld"
    cache_dir = (Path(cache) if cache else Path(platformdirs.user_cache_dir("k25")) / folder).absolute()
    is_address = provider == "address"
    named = {"guest": guest or "127.0.0.1:5000"} if is_address else {"provider": provider}
    if guest and not is_address:
        raise ValueError(f"guest is for the provider address, not for {provider}")
    options = {**named, **({"pause_s": UPSTREAM_PAUSE_S} if is_parity else {}), **env_options}
    check_options(options)
    if not keys:
        raise EnvSetupError(f"the list {list!r} has no task of the domains {domains}")

    def make_task(task_id: str, seed: int | None) -> OsworldTask:
        file = tasks.task(task_id.removeprefix(PREFIX))
        metadata: Json = {FAMILY: file.domain, "infeasible": file.is_infeasible}
        metadata["evaluator"] = judging.choose(file)
        missing = judging.why_not(file)
        if missing is not None:
            metadata["needs"] = missing
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="osworld", options=options), metadata=metadata)
        local = load_local_tasks()[file.key] if is_local else None
        if local is not None and wording == "steps":
            file = replace(file, instruction=local.steps)
        is_read_at_once = file.domain == "chrome" and not file.postconfig and not file.is_infeasible
        timing = UPSTREAM_TIMING if is_parity else BROWSER_TIMING if is_read_at_once else Timing()
        return OsworldTask(file, cache_dir, timing, spec, judging, local)

    def look(task_ids: Sequence[str]) -> Mapping[str, str]:
        files = {}
        for task_id in task_ids:
            with contextlib.suppress(EnvSetupError):  # a damaged file is an error of its episode
                files[task_id] = tasks.task(task_id.removeprefix(PREFIX))
        return find_unavailable(files, provider, judging.why_unavailable, has_web=has_network(env_options))

    known = BASELINES if is_local and wording == "goal" and not wanted else {}
    return Suite(
        name="osworld",
        about=f"OSWorld-Verified: {len(keys)} tasks on a desktop that a guest server shows",
        task_ids=tuple(f"{PREFIX}{key}" for key in keys),
        make_task=make_task,
        revision=f"{tasks.revision}{'-parity' if is_parity else ''}{f'-local-{wording}' if is_local else ''}",
        groups=GROUPS,
        max_steps=100,
        max_time_s=3600.0,
        steps_option="wording=steps" if is_local and wording == "goal" else "",
        find_unavailable=look,
        baselines={"fail": _score_of_failure(tasks, keys), **known},
    )


def _score_of_failure(tasks: OsworldTaskData, keys: Sequence[str]) -> Baseline:
    """Return the score of an agent that reports failure at once: 1 for infeasible tasks, else 0, in all states."""
    num_infeasible = sum(tasks.is_infeasible(key) for key in keys)
    return Baseline(
        score=num_infeasible / len(keys),
        num_episodes=len(keys),
        command=f"by rule: {num_infeasible} tasks cannot be done",
    )
