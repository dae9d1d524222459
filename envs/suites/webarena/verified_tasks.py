"""Suite `webarena-verified`: the audited tasks on self-hosted sites, judged by answer and requests."""

from collections.abc import Mapping, Sequence

from envs.env import EnvSpec, TaskSpec, TaskVerdict
from envs.suite import FAMILY, LABELS, Suite
from envs.suites.webarena.env import WebArenaEnv
from envs.suites.webarena.network_trace import NETWORK, read_har
from envs.suites.webarena.task_config import TaskData
from envs.suites.webarena.tasks import (
    HostedSiteTask,
    choose_ids,
    choose_playable,
    choose_sites,
    find_unavailable,
    no_retry_reason,
    site_options,
)
from envs.suites.webarena.verified import ANSWER_FORM, VerifiedTask, judge, parse_verified

PREFIX = "webarena-verified/"
REVISION = "1.2.3"
"""Version of webarena-verified that tasks and rules are from."""


class VerifiedSiteTask(HostedSiteTask):
    """One audited task on a `WebArenaEnv`.

    Args:
        task: The audited task.
        spec: Id and environment of the task.
        env_urls: Addresses of the sites, by name.
    """

    def __init__(self, task: VerifiedTask, spec: TaskSpec, env_urls: Mapping[str, str]) -> None:
        super().__init__(spec, task.sites, task.filled(env_urls), changes_state=task.changes_state)
        self.task = task
        self.instruction = f"{task.intent}\n\n{ANSWER_FORM}"

    async def evaluate(self, env: WebArenaEnv) -> TaskVerdict:
        """Judge the answer and the requests; no site is used."""
        answer = env.terminate.answer if env.terminate is not None else None
        await self.keep_evidence(env, answer)
        trace = read_har(self.files[NETWORK], NETWORK)
        verdict = judge(self.task, answer, trace.events, trace.sites)
        reasons = [reason[:300] for reason in verdict.reasons[:5]]
        return TaskVerdict(verdict.score, info={**self._info, "outcome": verdict.outcome, "reasons": reasons})


def load_verified() -> dict[int, VerifiedTask]:
    """Return all audited tasks by number.

    Raises:
        EnvSetupError: If the bundled file is damaged.
    """
    return {id: parse_verified(raw) for id, raw in TaskData().verified().items()}


def make_suite(
    sites: str = "", only: str = "", split: str = "all", reset_command: str = "", **env_options: object
) -> Suite:
    """Make audited tasks on configured sites; tasks that need other sites are left out.

    Args:
        sites: TOML file that names the sites; see `envs.suites.webarena.sites`.
        only: Names of sites, separated by commas; only tasks on these sites are made.
        split: `all`, or the `hard` 258.
        reset_command: As in the suite `webarena`.
        env_options: Options of the env `webarena`.

    Raises:
        EnvSetupError: If the file does not exist, or no task is left.
        ValueError: If a value is invalid.
    """
    file, there = choose_sites(sites, only, reset_command)
    tasks, wanted = load_verified(), choose_ids(TaskData(), split)
    kept, left_out = choose_playable({id: tasks[id] for id in wanted}, there)
    options = {**site_options(sites, reset_command), **env_options}

    def make_task(task_id: str, seed: int | None) -> VerifiedSiteTask:
        number = task_id.removeprefix(PREFIX)
        task = kept.get(int(number)) if number.isdecimal() else None
        if task is None:
            raise ValueError(
                f"the suite has no task {task_id!r} here; expected one such as '{PREFIX}{next(iter(kept))}'"
            )
        metadata = {
            FAMILY: "+".join(sorted(task.sites)),
            LABELS: {"template": str(task.template_id), "kind": task.kind},
            "template": task.template_id,
        }
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="webarena", options=options), metadata=metadata)
        site_task = VerifiedSiteTask(task, spec, file.urls)
        site_task.no_retry_reason = no_retry_reason(task, file.sites)
        return site_task

    def look(task_ids: Sequence[str]) -> dict[str, str]:
        return find_unavailable({id: kept[int(id.removeprefix(PREFIX))].sites for id in task_ids}, file)

    return Suite(
        name="webarena-verified",
        about=f"WebArena-Verified: {len(kept)} audited tasks on {', '.join(sorted(there))}",
        left_out=left_out,
        task_ids=tuple(f"{PREFIX}{id}" for id in kept),
        make_task=make_task,
        find_unavailable=look,
        revision=REVISION,
        cluster_by="template",
        max_steps=30,
        max_time_s=1800.0,
    )
