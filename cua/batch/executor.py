"""Locations of the environments of a batch: this process, a process for each, or a Ray cluster.

With every provider, agents, models, budget and records stay in this process, so that there is one gate per model
endpoint, one budget and one episode log.
"""

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

from cua.cluster import RayChannel, connect_ray, count_cpus, open_actor
from envs import Env, EnvDiedError, EnvSpec, Task, registry
from envs.pool import EnvPool
from envs.registry import EnvSecrets
from envs.remote import OpenChannel, ProcessChannel, RemoteEnv, RemoteTask, SuiteRef, open_server

_LOST_NODE_S = 30.0  # until a cluster notices that a node is lost, and starts no more actors there; measured: 13 s
_RETRY_S = 1.0

ExecutorKind = Literal["local", "process", "ray"]


class EnvProvider:
    """Provider of environments and matching tasks. Must be used on one event loop.

    Args:
        make_task: Creates a task from its id and seed.
        make_env: Creates an environment that is not reset yet.
        max_idle: Maximum number of idle environments that are kept, usually the number of parallel episodes.
        max_leased: See `EnvPool`.
    """

    def __init__(
        self,
        make_task: Callable[[str, int | None], Task],
        make_env: Callable[[EnvSpec], Env] = registry.make_env,
        *,
        max_idle: int = 8,
        max_leased: float | Callable[[], float] = math.inf,
    ) -> None:
        self.make_task = make_task
        self._pool = EnvPool(make_env, max_idle=max_idle, max_leased=max_leased)

    @property
    def max_leased(self) -> float:
        """Current maximum number of leased environments; infinite without a limit."""
        return self._pool.max_leased

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
    max_leased: float = math.inf,
    ray_address: str | None = None,
    secrets: EnvSecrets | None = None,
) -> EnvProvider:
    """Create the provider of a kind.

    Args:
        kind: `local`: environments of this process (browsers and displays are separate processes anyway); `process`:
            each environment and its tasks' code in its own process; `ray`: each in an actor with one CPU on Ray.
        ref: Suite of the tasks.
        max_idle: See `EnvProvider`.
        max_leased: Maximum number of environments at a time; on Ray, also at most the CPUs of the nodes that are alive.
            Further takers wait. Default: no limit, and on Ray, 120 s for a free CPU.
        ray_address: See `connect_ray`.
        secrets: Secrets for the environments; environments that a suite creates itself get none.

    Raises:
        EnvSetupError: If the suite or the cluster does not exist.
    """
    suite, env_secrets = registry.load_suite(ref.name, **ref.options), secrets or EnvSecrets()
    if kind == "local":
        make_env = suite.make_env or env_secrets.make_env
        return EnvProvider(suite.make_task, make_env, max_idle=max_idle, max_leased=max_leased)
    open_channel: OpenChannel = partial(ProcessChannel.open, secrets=env_secrets)
    if kind == "ray":
        connect_ray(ray_address)
        open_channel = partial(open_ray_channel, secrets=env_secrets)

    def find_limit() -> float:
        return min(max_leased, count_cpus())

    is_limited_by_nodes = kind == "ray" and math.isfinite(max_leased)

    def make_task(task_id: str, seed: int | None) -> Task:
        return RemoteTask(suite.make_task(task_id, seed))

    def make_remote_env(spec: EnvSpec) -> Env:
        return RemoteEnv(spec, ref, open_channel)

    return EnvProvider(
        make_task, make_remote_env, max_idle=max_idle, max_leased=find_limit if is_limited_by_nodes else max_leased
    )


async def open_ray_channel(spec: EnvSpec, suite: SuiteRef, secrets: EnvSecrets) -> RayChannel:
    """Start an `EnvServer` as an actor of the cluster that this process has joined.

    Raises:
        EnvError: If the suite or the environment raises it, or, retryable, no node has free resources in time, or the
            actor is lost at its start for longer than the cluster needs to notice that a node is lost.
    """
    give_up_at = time.monotonic() + _LOST_NODE_S
    while True:
        try:
            return await open_actor(open_server, spec, suite, secrets)
        except EnvDiedError:  # on a node that is lost
            if time.monotonic() >= give_up_at:
                raise
        await asyncio.sleep(_RETRY_S)
