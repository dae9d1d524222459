"""The suite `osworld`: OSWorld's tasks on a guest."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.env import EnvSpec, TaskSpec
from envs.errors import EnvSetupError
from envs.osworld.env import GuestEnv
from envs.osworld.evaluators import Scene, inside, judge, why_unsupported
from envs.osworld.providers import check_options
from envs.osworld.setup_steps import GuestSetup
from envs.osworld.task_file import TaskData, TaskFile
from envs.suite import FAMILY, Suite

PREFIX = "osworld/"
_DEFAULT_LIST = "nogdrive"
"""What scores are published on: all tasks but the eight that need an account at Google Drive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Rests around a task.

    Attributes:
        start_s: Between its setup and the first look.
        end_s: Between the last step and its verdict.
    """

    start_s: float = 3.0
    end_s: float = 3.0


UPSTREAM_TIMING = Timing(start_s=60.0, end_s=30.0)
UPSTREAM_PAUSE_S = 5.0


class OsworldTask:
    """One task; implements `envs.env.Task` on a `GuestEnv`.

    Args:
        file: What it is.
        cache_dir: Folder with a folder for each task: files that were downloaded before the run.
        timing: Rests around it.
        spec: Which one it is.

    Attributes:
        warnings: What went wrong in its setup without being an error.
    """

    def __init__(self, file: TaskFile, cache_dir: Path, timing: Timing, spec: TaskSpec) -> None:
        self.file = file
        self.instruction = file.instruction
        self.spec = spec
        self.warnings: list[str] = []
        self._cache_dir = inside(cache_dir, file.id)
        self._timing = timing

    async def setup(self, env: GuestEnv) -> None:
        """Do the steps of its file, and rest.

        Raises:
            EnvSetupError: One cannot be done.
        """
        self._cache_dir.mkdir(parents=True, exist_ok=True)
        steps = self._steps(env)
        await steps.run(self.file.setup)
        self.warnings = steps.warnings
        await asyncio.sleep(self._timing.start_s)

    async def evaluate(self, env: GuestEnv) -> float:
        """The score, once the steps before the verdict are done.

        Raises:
            UnsupportedError: Our evaluators cannot tell.
            EnvError: The guest does not answer.
        """
        has_said_failure = env.terminate is not None and env.terminate.status == "failure"
        await env.release()
        await asyncio.sleep(self._timing.end_s)
        steps = self._steps(env)
        await steps.run(self.file.postconfig)
        self.warnings += steps.warnings
        scene = Scene(guest=env.guest, cache_dir=self._cache_dir)
        return await judge(self.file, scene, has_said_failure=has_said_failure)

    async def teardown(self, env: GuestEnv) -> None:
        """Nothing: what brings a guest to a clean state is its provider's."""

    def _steps(self, env: GuestEnv) -> GuestSetup:
        return GuestSetup(
            guest=env.guest,
            cache_dir=self._cache_dir,
            password=env.options.password,
            screen_px=env.screen_px,
            browser_url=f"http://{env.options.host}:{env.options.chromium_port}",
        )


def make_suite(
    guest: str = "",
    provider: str = "address",
    list: str = _DEFAULT_LIST,
    domains: str = "",
    data: str = "",
    cache: str = "",
    parity: bool | str = False,
    **env_options: Any,
) -> Suite:
    """Tasks on a guest.

    Args:
        guest: `HOST` or `HOST:PORT` of one that runs already; "": 127.0.0.1:5000.
        provider: Where guests come from: `address`, `local`, `docker` or `vmware`.
        list: `all`, `nogdrive`, `small`, `infeasible`, or a file like upstream's `test_all.json`.
        domains: Only these, with commas between them.
        data: Folder like upstream's `evaluation_examples`; "": the files that come with the package.
        cache: Folder with a folder for each task, in which downloaded files lie as in upstream's cache.
        parity: True or `upstream`: rests as long as upstream's runner does.
        env_options: Options of the env `osworld`.

    Raises:
        EnvSetupError: No such list or domain.
        ValueError: A value that is not taken.
    """
    import platformdirs

    if parity not in (True, False, "upstream", "true", "false"):
        raise ValueError(f"parity is {parity!r}, expected 'upstream' or nothing")
    is_parity = parity in (True, "upstream", "true")
    tasks = TaskData(Path(data) if data else None)
    keys = tasks.keys(list, [domain.strip() for domain in domains.split(",") if domain.strip()])
    cache_dir = (Path(cache) if cache else Path(platformdirs.user_cache_dir("k25")) / "osworld").absolute()
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
        metadata: dict[str, Any] = {FAMILY: file.domain, "infeasible": file.is_infeasible}
        missing = why_unsupported(file)
        if missing is not None:
            metadata["needs"] = missing
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="osworld", options=options), metadata=metadata)
        return OsworldTask(file, cache_dir, UPSTREAM_TIMING if is_parity else Timing(), spec)

    return Suite(
        name="osworld",
        about=f"OSWorld-Verified: {len(keys)} tasks on a desktop that a guest server shows",
        task_ids=tuple(f"{PREFIX}{key}" for key in keys),
        make_task=make_task,
        revision=f"{tasks.revision}{'-parity' if is_parity else ''}",
        max_steps=100,
        max_time_s=3600.0,
    )
