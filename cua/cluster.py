"""Connection to a Ray cluster, and actors that answer requests of this process.

A request to an actor is a `verb` with values, as for any `envs.remote.Channel`. Both ends run this program: objects
are pickled, and each node needs the same version of it.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

from envs import EnvDiedError, EnvSetupError
from envs.errors import require
from envs.remote import ERRORS

_START_TIMEOUT_S = 120.0  # a busy cluster starts an actor late; longer waits would hide that it has no free CPU
_CLOSE_TIMEOUT_S = 4.0  # a call that hangs must not hold up the end of the run; the actor is killed afterwards

OpenServer = Callable[..., tuple[Any, tuple[Any, ...]]]
"""Factory of the server in the actor, which has an `async call(verb, *values)`, and of the answer to the caller:
`("ok", None)`, or `("error", class, text, retryable)`."""


def connect_ray(address: str | None = None) -> None:
    """Join a Ray cluster, or start one on this machine.

    Args:
        address: Address for `ray.init`: `HOST:PORT`, `ray://HOST:PORT`, `auto`; None starts a cluster on this machine.

    Raises:
        EnvSetupError: If the address has no cluster.
        MissingDependencyError: If Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = require("ray", "ray")
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise EnvSetupError(f"there is no Ray cluster at {address or 'this machine'}: {error}") from error


def count_cpus() -> int:
    """Return the number of CPUs of the nodes that are alive; a lost one is noticed seconds later."""
    return int(require("ray", "ray").cluster_resources().get("CPU", 0.0))


def count_free_cpus() -> int:
    """Return the number of CPUs without an actor, as far as the cluster knows; takes 2 ms of processor time."""
    return int(require("ray", "ray").available_resources().get("CPU", 0.0))


async def open_actor(open_server: OpenServer, *values: Any) -> "RayChannel":
    """Start a server as an actor of the cluster that this process has joined; it uses one CPU.

    Raises:
        EnvError: If its creation raises it, or no node has a free CPU in time, which is retryable.
    """
    ray = require("ray", "ray")
    channel = RayChannel(ray.remote(_Actor).options(num_cpus=1, max_restarts=0).remote())
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            kind, *details = await channel.call("open", open_server, *values)
        if kind == "error":
            name, text, retryable = details
            raise ERRORS.get(name, EnvSetupError)(text, retryable=retryable)
    except BaseException as error:
        await channel.close()
        if isinstance(error, TimeoutError):
            raise EnvSetupError(
                f"no node of the Ray cluster had a free CPU within {_START_TIMEOUT_S:g} s", retryable=True
            ) from error
        raise
    return channel


class RayChannel:
    """Channel to the server in an actor; a lost node or worker counts as a dead environment."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._is_closed = False

    async def call(self, verb: str, *values: Any) -> Any:
        """Send a request, see `Channel.call`."""
        ray = require("ray", "ray")
        try:
            return await self._actor.answer.remote(verb, *values)
        except ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[:1]
            raise EnvDiedError(f"its actor on the Ray cluster is gone: {''.join(first)}") from error

    async def close(self) -> None:
        """Close the actor, see `Channel.close`."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(EnvDiedError, TimeoutError):
            await asyncio.wait_for(self.call("close"), _CLOSE_TIMEOUT_S)
        require("ray", "ray").kill(self._actor)


class _Actor:
    """Actor that runs in a worker of the cluster."""

    def __init__(self) -> None:
        self._server: Any = None

    async def answer(self, verb: str, *values: Any) -> Any:
        if verb == "open":
            open_server, *rest = values
            self._server, answer = open_server(*rest)
            return answer
        if self._server is None and verb == "close":
            return "ok", None
        return await self._server.call(verb, *values)
