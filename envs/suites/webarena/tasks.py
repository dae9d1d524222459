"""Suite `webarena`: WebArena's tasks on self-hosted sites, and which of them cannot be evaluated now."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from envs.browser.redact import Redactor
from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.errors import EnvDiedError, EnvError, EnvSetupError
from envs.suite import FAMILY, LABELS, Suite
from envs.suites.webarena.env import WebArenaEnv
from envs.suites.webarena.network_trace import AGENT_RESPONSE, NETWORK, TraceRecorder
from envs.suites.webarena.scoring import ALL_FIXES, AS_PUBLISHED
from envs.suites.webarena.site_state import reserve_sites
from envs.suites.webarena.sites import Site, SiteFile, find_shared_hosts, read_sites, with_resets
from envs.suites.webarena.task_config import CORRECTIONS, SITES, TaskConfig, TaskData, load_corrections
from envs.suites.webarena.verdict import Evidence, Grader

_TIMEOUT_S = 8.0
_NO_JUDGE = "needs a model as the judge of answers in words; name one by judge and judge_url in the file of sites"
PREFIX = "webarena/"
_MAX_WAIT_S = 3600.0
"""Maximum wait for a site that another task changes."""
_SPLITS = ("all", "hard")
CHANGES_BEFORE, CHANGES, TAKEN_AT = "changes_before", "changes_state", "taken_at"
"""Keys for the state of the sites in a task's `info`."""


def find_unavailable(tasks: Mapping[str, Iterable[str]], file: SiteFile) -> dict[str, str]:
    """Return the reason why tasks cannot be evaluated, by task id; do not call it in an event loop.

    Args:
        tasks: Site names that each task needs, by task id.
        file: The sites file.

    Raises:
        EnvSetupError: If none of the sites answers.
    """
    needed = {name for sites in tasks.values() for name in sites}
    silent = asyncio.run(_find_silent([file.sites[name] for name in sorted(needed)]))
    if needed and silent.keys() == needed:
        raise EnvSetupError("; ".join(sorted(silent.values())))
    lacks = {id: [silent[name] for name in sites if name in silent] for id, sites in tasks.items()}
    return {id: f"needs a site that does not work: {' and '.join(whys)}" for id, whys in lacks.items() if whys}


def without_judge(configs: Mapping[str, TaskConfig], file: SiteFile) -> dict[str, str]:
    """Return a reason for each task whose answers need a judge, if no judge is configured."""
    if file.judge and file.judge_url:
        return {}
    return {id: _NO_JUDGE for id, config in configs.items() if config.is_judged}


async def _find_silent(sites: Iterable[Site]) -> dict[str, str]:
    import httpx

    async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:

        async def ask(site: Site) -> str:
            try:
                async with asyncio.timeout(_TIMEOUT_S), client.stream("GET", site.url) as answer:
                    is_up = site.is_up(answer.status_code, answer.headers.get("location", ""))
                    return "" if is_up else f"{site.name} at {site.url} answers {answer.status_code}"
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                return f"{site.name} at {site.url} does not answer ({type(error).__name__})"

        sites = list(sites)
        reasons = await asyncio.gather(*(ask(site) for site in sites))
    return {site.name: why for site, why in zip(sites, reasons, strict=True) if why}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRule:
    """Method of judging a task.

    Attributes:
        config: Config of the task.
        fixes: Applied fixes, of `scoring.FIXES`.
    """

    config: TaskConfig
    fixes: Set[str]

    def is_that_of(self, config: TaskConfig, grader: Grader) -> bool:
        """Return True if it is equivalent to judging a config by a grader."""
        return self.config == config and self.fixes == grader.fixes


class HostedSiteTask(Task):
    """Task on sites, without an evaluation.

    Args:
        spec: Id and environment of the task.
        sites: Sites that the task needs.
        start_urls: Addresses, one tab each; the first one is active.
        changes_state: True if the task changes the sites.
        logins: Sites that are signed in at the start; None for all.

    Attributes:
        files: Input of WebArena-Verified after the evaluation: the answer, and the requests since the first page.
    """

    def __init__(
        self,
        spec: TaskSpec,
        sites: Sequence[str],
        start_urls: Sequence[str],
        *,
        changes_state: bool,
        logins: Sequence[str] | None = None,
    ) -> None:
        self.spec = spec
        self.warnings: list[str] = []
        self._info: dict[str, Any] = {}  # info of the verdict: number of tasks that changed its sites before
        self.files: dict[str, bytes] = {}
        self._recorder: TraceRecorder | None = None
        self._sites = tuple(sites)
        self._start_urls = tuple(start_urls)
        self._changes_state = changes_state
        self._logins = frozenset(sites if logins is None else logins)
        self._kept: AsyncExitStack | None = None

    async def setup(self, env: WebArenaEnv) -> None:
        """Wait for the sites, reset them if tasks changed them, sign in, and open the start tabs.

        Raises:
            EnvSetupError: If a site is not configured, does not answer, cannot be reset, or rejects the account.
        """
        sites = [env.site(name) for name in self._sites]
        self._kept = AsyncExitStack()
        taking = reserve_sites(sites, task_id=self.spec.id, alone=self._changes_state, timeout_s=_MAX_WAIT_S)
        try:
            taken = await self._kept.enter_async_context(taking)
            self.warnings = list(taken.warnings)
            before = dict(taken.changes_before)
            self._info = {CHANGES_BEFORE: before, CHANGES: self._changes_state, TAKEN_AT: round(time.time(), 3)}
            self.warnings += [
                f"{first} and {second} are on one host and may sign each other out; give each a host name of its own"
                for first, second in find_shared_hosts(site for site in sites if site.name in self._logins)
            ]
            await env.sign_in([name for name in SITES if name in self._sites and name in self._logins])
            self._recorder = TraceRecorder(env.page.context, {name: env.site(name).url for name in self._sites})
            await env.open_tabs(self._start_urls)
        except BaseException:
            await self.teardown(env)
            raise

    async def keep_evidence(self, env: WebArenaEnv, answer: str | None) -> None:
        """Fill `files` and stop recording."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            redact = Redactor(env.options.masked_texts)
            har = await recorder.stop()
            self.files = {AGENT_RESPONSE: (answer or "").encode(), NETWORK: redact(har.decode()).encode()}

    async def teardown(self, env: WebArenaEnv) -> None:
        """Release the sites."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.aclose()


class WebArenaTask(HostedSiteTask):
    """Task on a `WebArenaEnv`.

    Args:
        config: Config of the task, as it is judged.
        spec: Id and environment of the task.
        others: Additional rules to judge by, by name.
        parity: True to sign in only to the sites that are signed in as published.
    """

    def __init__(
        self,
        config: TaskConfig,
        spec: TaskSpec,
        others: Mapping[str, "ScoringRule"] | None = None,
        *,
        parity: bool = False,
    ) -> None:
        logins = config.logins if parity else None
        super().__init__(spec, config.sites, config.start_urls, changes_state=config.changes_state, logins=logins)
        self.config = config
        self.instruction = config.intent
        self._others = dict(others or {})

    async def evaluate(self, env: WebArenaEnv) -> TaskVerdict:
        """Judge the answer, the active page and the sites; results of the other rules are in `other_scores`.

        Raises:
            EnvSetupError: If the task needs a judge, and none is configured.
            EnvError: If a page, the shop or the judge does not answer.
        """
        from playwright.async_api import Error

        answer = env.terminate.answer if env.terminate is not None else None
        page = env.page
        await self.keep_evidence(env, answer)
        evidence = Evidence(answer=answer, page=page)
        try:
            score = await env.grader.score(self.config, evidence)
            other_scores = {
                name: score if rule.is_that_of(self.config, env.grader) else await self._score_by(name, env, evidence)
                for name, rule in self._others.items()
            }
            await env.show(page)  # pages that were opened for the verdict became the active ones
        except Error as error:
            raise EnvDiedError(f"the browser gave no verdict: {str(error).splitlines()[0]}") from error
        return TaskVerdict(score, other_scores=other_scores, info=self._info)

    async def _score_by(self, name: str, env: WebArenaEnv, evidence: Evidence) -> float:
        """Return the score by another rule; 0 and a warning if it gives no verdict."""
        rule = self._others[name]
        try:
            return await replace(env.grader, fixes=rule.fixes).score(rule.config, evidence)
        except EnvError as error:
            self.warnings.append(f"no verdict by the rules {name}, counted 0: {error}")
            return 0.0


def make_suite(
    sites: str = "",
    only: str = "",
    split: str = "all",
    data: str = "",
    corrected: bool = True,
    parity: bool | str = False,
    reset_command: str = "",
    **env_options: object,
) -> Suite:
    """Make tasks on configured sites; tasks that need other sites are left out.

    Args:
        sites: TOML file that names the sites; see `envs.suites.webarena.sites`.
        only: Names of sites, separated by commas; only tasks on these sites are made.
        split: `all`, or the audited set's `hard` 258.
        data: File like upstream's `test.raw.json`; "" for the bundled file.
        corrected: True to correct known errors of the configs (`data/corrections.json`).
        parity: True or `upstream` to judge as published, without corrections.
        reset_command: `SITE=COMMAND`, one per line; resets a site before a task if another task changed it; a line
            without a site applies to all others.
        env_options: Options of the env `webarena`.

    Raises:
        EnvSetupError: If the file does not exist, or no task is left.
        ValueError: If a value is invalid.
    """
    if parity not in (True, False, "upstream", "true", "false"):
        raise ValueError(f"parity is {parity!r}, expected 'upstream' or nothing")
    is_parity = parity in (True, "upstream", "true")
    file, there = choose_sites(sites, only, reset_command)
    tasks = TaskData(Path(data) if data else None)
    corrections = load_corrections() if corrected and not is_parity else ()
    wanted = choose_ids(tasks, split)
    configs: dict[int, TaskConfig] = {}
    damaged: dict[int, str] = {}
    for id in wanted:
        try:
            configs[id] = tasks.task(id, file.urls, corrections)
        except EnvSetupError as error:  # for this task only
            damaged[id] = str(error)
    all_corrections = load_corrections()
    how = "upstream" if is_parity else "default" if corrected else "raw"
    # the encyclopedia is linked from the map's homepage; both are required
    kept, left_out = choose_playable(configs, there)
    options = {**site_options(sites, reset_command), **({"parity": True} if is_parity else {}), **env_options}

    def make_task(task_id: str, seed: int | None) -> WebArenaTask:
        number = task_id.removeprefix(PREFIX)
        config = kept.get(int(number)) if number.isdecimal() else None
        if number.isdecimal() and int(number) in damaged:
            raise EnvSetupError(damaged[int(number)])
        if config is None:
            raise ValueError(f"the suite webarena has no task {task_id!r} here; expected one such as 'webarena/0'")
        raw = tasks.task(config.id, file.urls)
        rules = {
            "default": ScoringRule(config=tasks.task(config.id, file.urls, all_corrections), fixes=ALL_FIXES),
            "raw": ScoringRule(config=raw, fixes=ALL_FIXES),
            "upstream": ScoringRule(config=raw, fixes=AS_PUBLISHED),
        }
        metadata = {
            FAMILY: "+".join(sorted(config.sites)),
            LABELS: {"template": str(config.template_id), "evaluation": "+".join(config.eval_types)},
            "template": config.template_id,
            "eval_types": list(config.eval_types),
        }
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="webarena", options=options), metadata=metadata)
        others = {name: rule for name, rule in rules.items() if name != how}
        task = WebArenaTask(config, spec, others, parity=is_parity)
        task.no_retry_reason = no_retry_reason(config, file.sites)
        return task

    def look(task_ids: Sequence[str]) -> dict[str, str]:
        chosen = {id: kept[number] for id in task_ids if (number := int(id.removeprefix(PREFIX))) in kept}
        silent = find_unavailable({id: config.sites for id, config in chosen.items()}, file)
        return without_judge(chosen, file) | silent

    revision = {"upstream": "parity", "default": CORRECTIONS, "raw": "raw"}[how]
    return Suite(
        name="webarena",
        about=f"WebArena: {len(kept)} tasks on {', '.join(sorted(there))}",
        left_out=left_out,
        task_ids=tuple(f"{PREFIX}{id}" for id in wanted if id in kept or id in damaged),
        make_task=make_task,
        find_unavailable=look,
        revision=f"{tasks.revision}-{revision}",
        cluster_by="template",
        max_steps=30,
        max_time_s=1800.0,
    )


def no_retry_reason(task: "SiteRequirements", sites: Mapping[str, Site]) -> str:
    """Return why a task cannot be retried from the same state; "" if it changes nothing or its sites are reset."""
    kept = [name for name in task.sites if not sites[name].reset]
    return f"it changes {' and '.join(kept)}, which no reset command puts back" if task.changes_state and kept else ""


def choose_sites(sites: str, only: str, reset_command: str) -> tuple[SiteFile, frozenset[str]]:
    """Return the sites file, and the names of the sites that tasks may use.

    Raises:
        EnvSetupError: If the file does not exist.
        ValueError: If no sites file is given.
    """
    if not sites:
        raise ValueError("sites is missing: name a TOML file with the sites, by sites=FILE")
    file = with_resets(read_sites(Path(sites)), reset_command)
    names = frozenset(name.strip() for name in only.split(",") if name.strip())
    return file, frozenset(file.sites) & names if names else frozenset(file.sites)


class SiteRequirements(Protocol):
    """Interface of a task before it is created."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Sites that the task needs."""
        ...

    @property
    def changes_state(self) -> bool:
        """True if the task changes its sites."""
        ...


Chosen = TypeVar("Chosen", bound=SiteRequirements)


def choose_playable(tasks: Mapping[int, Chosen], there: Set[str]) -> tuple[dict[int, Chosen], str]:
    """Return the tasks whose sites are all available, and a note on the missing sites.

    Raises:
        EnvSetupError: If no task is left.
    """
    kept = {id: task for id, task in tasks.items() if set(task.sites) <= there}
    if not kept:
        raise EnvSetupError(f"no task is left: they need other sites than {', '.join(sorted(there))}")
    missing = sorted({site for task in tasks.values() for site in task.sites} - there)
    left_out = f"{len(tasks) - len(kept)} tasks, which need {', '.join(missing)}" if missing else ""
    return kept, left_out


def choose_ids(tasks: TaskData, split: str) -> tuple[int, ...]:
    """Return the numbers of the tasks of a split, `all` or `hard`.

    Raises:
        ValueError: If the split is unknown.
    """
    if split not in _SPLITS:
        raise ValueError(f"split is {split!r}, expected one of {', '.join(_SPLITS)}")
    return tasks.hard_ids() if split == "hard" else tasks.ids


def site_options(sites: str, reset_command: str) -> dict[str, Any]:
    """Return the options of the env `webarena` for the sites."""
    return {"sites": str(Path(sites).absolute()), **({"reset_command": reset_command} if reset_command else {})}
