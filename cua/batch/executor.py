"""Where the envs of a batch live: in this process, each in a process of its own, or on a Ray cluster.

Agents, models, budget and records stay in this process, whatever the executor is; so there is one gate in front of a
model, one budget and one journal.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

from cua.cluster import RayChannel, connect_ray, open_actor
from envs import Env, EnvSpec, Task, registry
from envs.pool import EnvPool
from envs.registry import EnvSecrets
from envs.remote import OpenChannel, ProcessChannel, RemoteEnv, RemoteTask, SuiteRef, open_server

ExecutorKind = Literal["local", "process", "ray"]


class Executor:
    """Hands out envs and the tasks that fit them. For one event loop.

    Args:
        make_task: Makes a task from its id and seed.
        make_env: Makes an env that was not reset yet.
        max_idle: Envs that are kept while nobody uses them: as many as there are episodes at a time.
    """

    def __init__(
        self,
        make_task: Callable[[str, int | None], Task],
        make_env: Callable[[EnvSpec], Env] = registry.make_env,
        *,
        max_idle: int = 8,
    ) -> None:
        self.make_task = make_task
        self._pool = EnvPool(make_env, max_idle=max_idle)

    async def take_env(self, spec: EnvSpec) -> Env:
        """An env for one episode; `close` gives it back."""
        return await self._pool.take(spec)

    async def close(self) -> None:
        """End everything that it started. May be called twice."""
        await self._pool.close()


def make_executor(
    kind: ExecutorKind,
    ref: SuiteRef,
    *,
    max_idle: int = 8,
    ray_address: str | None = None,
    secrets: EnvSecrets | None = None,
) -> Executor:
    """The executor of that name.

    Args:
        kind: `local`: envs of this process (browsers and displays are processes of their own anyway); `process`: each
            env and its tasks' code in a process of its own; `ray`: each as an actor of a Ray cluster, for one CPU.
        ref: Whose tasks are played.
        max_idle: As for `Executor`.
        ray_address: As for `connect_ray`.
        secrets: What the envs work with besides; the environments that a suite makes by itself get none.

    Raises:
        EnvSetupError: There is no such suite or cluster.
    """
    suite, given = registry.load_suite(ref.name, **ref.options), secrets or EnvSecrets()
    if kind == "local":
        return Executor(suite.make_task, suite.make_env or given.make_env, max_idle=max_idle)
    open_channel: OpenChannel = partial(ProcessChannel.open, secrets=given)
    if kind == "ray":
        connect_ray(ray_address)
        open_channel = partial(open_ray_channel, secrets=given)

    def make_task(task_id: str, seed: int | None) -> Task:
        return RemoteTask(suite.make_task(task_id, seed))

    return Executor(make_task, lambda spec: RemoteEnv(spec, ref, open_channel), max_idle=max_idle)


async def open_ray_channel(spec: EnvSpec, suite: SuiteRef, secrets: EnvSecrets) -> RayChannel:
    """An `EnvServer` as an actor of the cluster that this process has joined.

    Raises:
        EnvError: As making the suite or the env raises it; or no node has room for it in time, which is retryable.
    """
    return await open_actor(open_server, spec, suite, secrets)
