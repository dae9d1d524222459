"""Where the envs of a batch live: in this process, each in a process of its own, or on a Ray cluster.

Agents, models, budget and records stay in this process, whatever the executor is; so there is one gate in front of a
model, one budget and one journal.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Literal

from envs import Env, EnvDiedError, EnvSetupError, EnvSpec, Task, registry, spec_of
from envs.errors import require
from envs.pool import EnvPool
from envs.remote import OpenChannel, RemoteEnv, RemoteTask, SuiteRef
from envs.remote_process import ProcessChannel

_RAY_START_TIMEOUT_S = 120.0
_RAY_CLOSE_TIMEOUT_S = 4.0


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
        """An env for one episode; `close` gives it back.

        Raises:
            EnvSetupError: There is no such env.
        """
        return await self._pool.take(spec)

    async def close(self) -> None:
        """End everything that it started. May be called twice."""
        await self._pool.close()


def make_executor(kind: ExecutorKind, ref: SuiteRef, *, max_idle: int = 8, ray_address: str | None = None) -> Executor:
    """The executor of that name.

    Args:
        kind: `local`: envs of this process (browsers and displays are processes of their own anyway); `process`: each
            env and its tasks' code in a process of its own; `ray`: each as an actor of a Ray cluster, for one CPU.
        ref: Whose tasks are played.
        max_idle: As for `Executor`.
        ray_address: As for `connect_ray`.

    Raises:
        EnvSetupError: There is no such suite or cluster.
    """
    suite = registry.load_suite(ref.name, **ref.options)
    if kind == "local":
        return Executor(suite.make_task, suite.make_env or registry.make_env, max_idle=max_idle)
    open_channel: OpenChannel = ProcessChannel.open
    if kind == "ray":
        connect_ray(ray_address)
        open_channel = open_ray_channel

    def make_task(task_id: str, seed: int | None) -> Task:
        task = suite.make_task(task_id, seed)
        return RemoteTask(task, spec_of(task))

    return Executor(make_task, lambda spec: RemoteEnv(spec, ref, open_channel), max_idle=max_idle)


def connect_ray(address: str | None = None) -> None:
    """Join a Ray cluster, or start one on this machine.

    Args:
        address: As for `ray.init`: `HOST:PORT`, `ray://HOST:PORT`, `auto`; None starts one here.

    Raises:
        EnvSetupError: There is no cluster at that address.
    """
    ray = require("ray", "ray")
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise EnvSetupError(f"there is no Ray cluster at {address or 'this machine'}: {error}") from error


async def open_ray_channel(spec: EnvSpec, suite: SuiteRef) -> "RayChannel":
    """An `EnvServer` as an actor of the cluster that this process has joined; it takes one CPU.

    Raises:
        EnvError: As making the suite or the env raises it; or no node has room for it in time, which is retryable.
    """
    ray = require("ray", "ray")
    actor = ray.remote(_EnvActor).options(num_cpus=1, max_restarts=0).remote()
    channel = RayChannel(actor)
    try:
        async with asyncio.timeout(_RAY_START_TIMEOUT_S):
            kind, *told = await channel.call("open", spec, suite)
    except BaseException as error:
        await channel.close()
        if isinstance(error, TimeoutError):
            raise EnvSetupError(
                f"no node of the Ray cluster had a free CPU within {_RAY_START_TIMEOUT_S:g} s", retryable=True
            ) from error
        raise
    if kind == "error":
        await channel.close()
        raise EnvSetupError(told[1], retryable=told[2])
    return channel


class RayChannel:
    """The way to an env in an actor; a node or a worker that is lost is an env that died."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._is_closed = False

    async def call(self, verb: str, *values: Any) -> Any:
        """As `Channel.call`."""
        ray = require("ray", "ray")
        try:
            return await self._actor.call.remote(verb, *values)
        except ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[:1]
            raise EnvDiedError(f"the env's actor is gone: {''.join(first)}") from error

    async def close(self) -> None:
        """As `Channel.close`."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(EnvDiedError, TimeoutError):
            await asyncio.wait_for(self.call("close"), _RAY_CLOSE_TIMEOUT_S)
        require("ray", "ray").kill(self._actor)


class _EnvActor:
    """Runs in a worker of the cluster."""

    def __init__(self) -> None:
        self._server: Any = None

    async def call(self, verb: str, *values: Any) -> Any:
        from envs.remote import EnvServer, open_server

        if verb == "open":
            self._server, answer = open_server(*values)
            return answer
        if self._server is None and verb == "close":
            return "ok", None
        server: EnvServer = self._server
        return await server.call(verb, *values)
