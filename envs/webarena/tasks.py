"""The suite `webarena`: WebArena's tasks on sites that somebody hosts."""

from collections.abc import Iterable, Mapping, Set
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envs.env import EnvSpec, TaskSpec
from envs.errors import EnvDiedError, EnvError, EnvSetupError
from envs.suite import FAMILY, LABELS, Suite
from envs.webarena.env import WebArenaEnv
from envs.webarena.scoring import ALL_FIXES, AS_PUBLISHED
from envs.webarena.site_state import take_sites
from envs.webarena.sites import read_sites, with_resets
from envs.webarena.task_config import CORRECTIONS, SITES, TaskConfig, TaskData, load_corrections
from envs.webarena.verdict import Evidence, Grader

PREFIX = "webarena/"
_MAX_WAIT_S = 3600.0
"""For a site that another task changes."""
_SPLITS = ("all", "hard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A way to judge a task.

    Attributes:
        config: What is wanted.
        fixes: What is not judged as published, of `scoring.FIXES`.
    """

    config: TaskConfig
    fixes: Set[str]

    def is_that_of(self, config: TaskConfig, grader: Grader) -> bool:
        """Whether it is the same as judging a config by a grader."""
        return self.config == config and self.fixes == grader.fixes


class WebArenaTask:
    """One task; implements `envs.env.Task` on a `WebArenaEnv`.

    Args:
        config: What it is, as it is judged.
        spec: Which one it is.
        others: By name, the other rules that it is judged by, too.

    Attributes:
        other_scores: Once it is judged, the score by each of the other rules.
        warnings: What went wrong around it without being an error, for the record.
    """

    def __init__(self, config: TaskConfig, spec: TaskSpec, others: Mapping[str, "Rule"] | None = None) -> None:
        self.config = config
        self.instruction = config.intent
        self.spec = spec
        self.other_scores: dict[str, float] = {}
        self.warnings: list[str] = []
        self._others = dict(others or {})
        self._kept: AsyncExitStack | None = None

    async def setup(self, env: WebArenaEnv) -> None:
        """Wait for the sites, have them put back if tasks changed them, sign in, open the tabs it starts with.

        Raises:
            EnvSetupError: A site is not configured, does not answer, cannot be put back, or refuses the account.
        """
        sites = [env.site(name) for name in self.config.sites]
        self._kept = AsyncExitStack()
        taken = take_sites(sites, task_id=self.spec.id, alone=self.config.changes_state, timeout_s=_MAX_WAIT_S)
        self.warnings = []
        try:
            self.warnings += await self._kept.enter_async_context(taken)
            await env.sign_in([name for name in SITES if name in self.config.sites])
            await env.open_tabs(self.config.start_urls)
        except BaseException:
            await self.teardown(env)
            raise

    async def evaluate(self, env: WebArenaEnv) -> float:
        """The verdict, from the answer, the active page and the sites; by the other rules in `other_scores` then.

        Raises:
            EnvSetupError: It needs a judge, and none is named.
            EnvError: A page, the shop or the judge does not answer.
        """
        from playwright.async_api import Error

        answer = env.terminate.answer if env.terminate is not None else None
        page = env.page
        evidence = Evidence(answer=answer, page=page)
        try:
            score = await env.grader.score(self.config, evidence)
            self.other_scores = {
                name: score if rule.is_that_of(self.config, env.grader) else await self._score_by(name, env, evidence)
                for name, rule in self._others.items()
            }
            await env.show(page)  # pages that were opened for the verdict came to the front
        except Error as error:
            raise EnvDiedError(f"the browser gave no verdict: {str(error).splitlines()[0]}") from error
        return score

    async def _score_by(self, name: str, env: WebArenaEnv, evidence: Evidence) -> float:
        """The score by another rule; where that gives no verdict, 0 and a warning."""
        rule = self._others[name]
        try:
            return await replace(env.grader, fixes=rule.fixes).score(rule.config, evidence)
        except EnvError as error:
            self.warnings.append(f"no verdict by the rules {name}, counted 0: {error}")
            return 0.0

    async def teardown(self, env: WebArenaEnv) -> None:
        """Let others have the sites."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.aclose()


def make_suite(
    sites: str = "",
    only: str = "",
    split: str = "all",
    data: str = "",
    corrected: bool = True,
    parity: bool | str = False,
    reset_command: str = "",
    **env_options: Any,
) -> Suite:
    """Tasks on configured sites; those that need another one are left out.

    Args:
        sites: A file in TOML that names them; see `envs.webarena.sites`.
        only: Only tasks on these sites and no other, with commas between them.
        split: `all`, or the audited set's `hard` 258.
        data: A file like upstream's `test.raw.json`; "": the one that comes with the package.
        corrected: Known errors of the configs are mended (`data/corrections.json`).
        parity: True or `upstream`: judged as published, nothing corrected.
        reset_command: `SITE=COMMAND`, a line each, puts a site back before a task when another one has changed it; a
            line without a site is for all others.
        env_options: Options of the env `webarena`.

    Raises:
        EnvSetupError: No such file, or no task is left.
        ValueError: A value that is not taken.
    """
    if parity not in (True, False, "upstream", "true", "false"):
        raise ValueError(f"parity is {parity!r}, expected 'upstream' or nothing")
    if split not in _SPLITS:
        raise ValueError(f"split is {split!r}, expected one of {', '.join(_SPLITS)}")
    if not sites:
        raise ValueError("sites is missing: name a TOML file with the sites, by sites=FILE")
    is_parity = parity in (True, "upstream", "true")
    file, tasks = with_resets(read_sites(Path(sites)), reset_command), TaskData(Path(data) if data else None)
    corrections = load_corrections() if corrected and not is_parity else ()
    there = set(file.sites) & set(_names(only)) if only else set(file.sites)
    wanted = tasks.hard_ids() if split == "hard" else tasks.ids
    configs = {id: tasks.task(id, file.urls, corrections) for id in wanted}
    all_corrections = load_corrections()
    how = "upstream" if is_parity else "default" if corrected else "raw"
    # the encyclopedia is reached over the map's homepage; both have to be there
    kept = {id: config for id, config in configs.items() if set(config.sites) <= there}
    if not kept:
        raise EnvSetupError(f"no task of WebArena is left: they need other sites than {', '.join(sorted(there))}")
    options = {"sites": str(Path(sites).absolute()), **({"parity": True} if is_parity else {}), **env_options}
    if reset_command:
        options["reset_command"] = reset_command
    left_out = f"; {len(configs) - len(kept)} need sites that are not configured" if len(kept) < len(configs) else ""

    def make_task(task_id: str, seed: int | None) -> WebArenaTask:
        number = task_id.removeprefix(PREFIX)
        config = kept.get(int(number)) if number.isdecimal() else None
        if config is None:
            raise ValueError(f"the suite webarena has no task {task_id!r} here; expected one such as 'webarena/0'")
        raw = tasks.task(config.id, file.urls)
        rules = {
            "default": Rule(config=tasks.task(config.id, file.urls, all_corrections), fixes=ALL_FIXES),
            "raw": Rule(config=raw, fixes=ALL_FIXES),
            "upstream": Rule(config=raw, fixes=AS_PUBLISHED),
        }
        metadata = {
            FAMILY: "+".join(sorted(config.sites)),
            LABELS: {"template": str(config.template_id), "evaluation": "+".join(config.eval_types)},
            "template": config.template_id,
            "eval_types": list(config.eval_types),
        }
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="webarena", options=options), metadata=metadata)
        return WebArenaTask(config, spec, {name: rule for name, rule in rules.items() if name != how})

    told = {"upstream": "parity", "default": CORRECTIONS, "raw": "raw"}[how]
    return Suite(
        name="webarena",
        about=f"WebArena: {len(kept)} tasks on {', '.join(sorted(there))}{left_out}",
        task_ids=tuple(f"{PREFIX}{id}" for id in kept),
        make_task=make_task,
        revision=f"{tasks.revision}-{told}",
        cluster_by="template",
        max_steps=30,
        max_time_s=1800.0,
    )


def _names(text: str) -> Iterable[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
