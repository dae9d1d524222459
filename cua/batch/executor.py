"""Locations of the environments of a batch: this process, a process for each, or a Ray cluster.

With every provider, agents, models, budget and records stay in this process, so that there is one gate per model
endpoint, one budget and one episode log.
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


class EnvProvider:
    """Provider of environments and matching tasks. Must be used on one event loop.

    Args:
        make_task: Creates a task from its id and seed.
        make_env: Creates an environment that is not reset yet.
        max_idle: Maximum number of idle environments that are kept, usually the number of parallel episodes.
        max_leased: Maximum number of environments of one spec at a time; None: no limit.
    """

    def __init__(
        self,
        make_task: Callable[[str, int | None], Task],
        make_env: Callable[[EnvSpec], Env] = registry.make_env,
        *,
        max_idle: int = 8,
        max_leased: int | None = None,
    ) -> None:
        self.make_task = make_task
        self._pool = EnvPool(make_env, max_idle=max_idle, max_leased=max_leased)

    async def take_env(self, spec: EnvSpec) -> Env:
        """Return an environment for one episode; `close` returns it to the pool."""
        return await self._pool.take(spec)

    async def close(self) -> None:
        """Close all environments. Can be called twice."""
        await self._pool.close()


def make_env_provider(
    kind: ExecutorKind,
    ref: SuiteRef,
    *,
    max_idle: int = 8,
    max_leased: int | None = None,
    ray_address: str | None = None,
    secrets: EnvSecrets | None = None,
) -> EnvProvider:
    """Create the provider of a kind.

    Args:
        kind: `local`: environments of this process (browsers and displays are separate processes anyway); `process`:
            each environment and its tasks' code in its own process; `ray`: each in an actor with one CPU on Ray.
        ref: Suite of the tasks.
        max_idle: See `EnvProvider`.
        max_leased: See `EnvProvider`.
        ray_address: See `connect_ray`.
        secrets: Secrets for the environments; environments that a suite creates itself get none.

    Raises:
        EnvSetupError: If the suite or the cluster does not exist.
    """
    suite, env_secrets = registry.load_suite(ref.name, **ref.options), secrets or EnvSecrets()
    if kind == "local":
        return EnvProvider(
            suite.make_task, suite.make_env or env_secrets.make_env, max_idle=max_idle, max_leased=max_leased
        )
    open_channel: OpenChannel = partial(ProcessChannel.open, secrets=env_secrets)
    if kind == "ray":
        connect_ray(ray_address)
        open_channel = partial(open_ray_channel, secrets=env_secrets)

    def make_task(task_id: str, seed: int | None) -> Task:
        return RemoteTask(suite.make_task(task_id, seed))

    return EnvProvider(
        make_task, lambda spec: RemoteEnv(spec, ref, open_channel), max_idle=max_idle, max_leased=max_leased
    )


async def open_ray_channel(spec: EnvSpec, suite: SuiteRef, secrets: EnvSecrets) -> RayChannel:
    """Start an `EnvServer` as an actor of the cluster that this process has joined.

    Raises:
        EnvError: If the suite or the environment raises it, or no node has free resources in time, which is retryable.
    """
    return await open_actor(open_server, spec, suite, secrets)
