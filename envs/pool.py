"""Pool of envs that are reused between episodes: leased, returned, and replaced when broken.

    async with EnvPool(registry.make_env) as pool:
        env = await pool.take(EnvSpec(name="browser"))
        ...                      # reset, step, ...
        await env.close()        # returns it to the pool

The startup cost is paid once for each env in concurrent use; every `reset` starts with a clean state, as the contract
of an env requires.
"""

import asyncio
import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TypeVar

from envs.actions import Action, Terminate
from envs.env import Env, EnvSpec, Task, VersionedScreen, check_verbs
from envs.errors import EnvError, EnvSetupError
from envs.foreign import contained, contained_result, describe_defect
from envs.observation import Generation, Observation, StepResult
from envs.target import ActionCheck, Target

T = TypeVar("T")
_CLOSE_S = 30.0  # an environment that hangs is dropped
_LIMIT_CHECK_S = 1.0  # between two questions for a limit that changes


class LeasedEnv:
    """Env leased from a pool for one episode; `close` returns it.

    Attributes of the env outside the contract (`page`, `goto`) are forwarded.
    """

    def __init__(self, env: Env, pool: "EnvPool", key: str) -> None:
        self._env = env
        self._pool = pool
        self._key = key
        self._is_broken = self._is_back = False

    @property
    def terminate(self) -> Terminate | None:
        """`Terminate` action of the wrapped env."""
        return self._env.terminate

    @terminate.setter
    def terminate(self, value: Terminate | None) -> None:
        self._env.terminate = value

    async def reset(self, task: Task) -> Observation:
        """Call `Env.reset`; the task is set up in the wrapped env itself."""
        return await self._used(lambda: self._env.reset(task))

    def expect(self, generation: Generation) -> None:
        """Call `VersionedScreen.expect`; no effect on an env without generations."""
        if isinstance(self._env, VersionedScreen):
            self._env.expect(generation)

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Call `Env.step`."""
        return await self._used(lambda: self._env.step(actions, check))

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Call `Env.find_targets`."""
        return await self._used(lambda: self._env.find_targets(action))

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Call `Env.describe_point`."""
        return await self._used(lambda: self._env.describe_point(x_px, y_px))

    async def close(self) -> None:
        """Return the env to the pool; a broken env is closed instead. May be called twice."""
        if not self._is_back:
            self._is_back = True
            await self._pool.return_env(self._key, self._env, is_broken=self._is_broken)

    def __getattr__(self, name: str) -> object:
        return getattr(self._env, name)

    async def _used(self, use: Callable[[], Awaitable[T]]) -> T:
        """Await a call of the env, and mark the env as broken if the call raises or is cancelled."""
        if self._is_back:
            raise EnvError("this env was given back to its pool; take another one", retryable=False)
        is_done = False
        try:
            result = await use()
            is_done = True
            return result
        finally:
            self._is_broken = self._is_broken or not is_done


class EnvPool:
    """Pool of idle envs, by their spec. For one event loop.

    Args:
        make_env: Factory of an env that was not reset yet.
        max_idle: Maximum number of idle envs; beyond it the longest idle one is closed.
        max_episodes: Number of episodes after which an env is closed and replaced, to bound accumulated state.
        max_leased: Maximum number of leased envs, or a function that returns the current one; further takers wait, in
            order, and idle envs beyond it are closed. Default: no limit.
    """

    def __init__(
        self,
        make_env: Callable[[EnvSpec], Env],
        *,
        max_idle: int = 8,
        max_episodes: int = 200,
        max_leased: float | Callable[[], float] = math.inf,
    ) -> None:
        self._make_env = make_env
        self._find_limit = max_leased if callable(max_leased) else None
        self._max_leased = math.inf if callable(max_leased) else max_leased
        self._find_at = 0.0
        self._num_leased = 0
        self._turn = asyncio.Lock()
        self._returned = asyncio.Event()
        self._max_idle = max_idle
        self._max_episodes = max_episodes
        self._idle: list[tuple[str, Env]] = []
        self._num_episodes: dict[int, int] = defaultdict(int)
        self._is_closed = False

    async def __aenter__(self) -> "EnvPool":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def take(self, spec: EnvSpec) -> LeasedEnv:
        """Lease an env for a spec: an idle one, or a new one, as soon as fewer than `max_leased` are leased.

        Raises:
            EnvSetupError: If `make_env` raises it.
        """
        async with self._turn:  # first in, first out
            while not self._is_closed and self._num_leased >= self.max_leased:
                await self._wait_for_return()
            self._num_leased += 1
        try:
            return await self._lease(spec)
        except BaseException:
            self._release_room()
            raise

    @property
    def max_leased(self) -> float:
        """Current maximum number of leased envs; infinite without a limit."""
        if self._find_limit is not None and time.monotonic() >= self._find_at:
            self._max_leased, self._find_at = self._find_limit(), time.monotonic() + _LIMIT_CHECK_S
        return self._max_leased

    async def _wait_for_return(self) -> None:
        """Wait until an env was returned, or a limit that changes may have."""
        self._returned.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if self._find_limit is None else _LIMIT_CHECK_S):
                await self._returned.wait()

    async def _lease(self, spec: EnvSpec) -> LeasedEnv:
        if self._is_closed:
            raise EnvError("the env pool was closed; make a new one", retryable=False)
        key = spec.key
        place = next((at for at in reversed(range(len(self._idle))) if self._idle[at][0] == key), None)
        while place is None and self._idle and len(self._idle) + self._num_leased > self.max_leased:
            with contextlib.suppress(EnvError):  # no episode uses it any more
                await self._close(self._idle.pop(0)[1])
        env = self._make(spec) if place is None else self._idle.pop(place)[1]
        self._num_episodes[id(env)] += 1
        return LeasedEnv(env, self, key)

    async def return_env(self, key: str, env: Env, *, is_broken: bool = False) -> None:
        """Return an env after its episode; called by `LeasedEnv.close`."""
        try:
            await self._take_back(key, env, is_broken)
        finally:
            self._release_room()

    def _release_room(self) -> None:
        self._num_leased -= 1
        self._returned.set()

    async def _take_back(self, key: str, env: Env, is_broken: bool) -> None:
        if is_broken or self._is_closed or self._num_episodes[id(env)] >= self._max_episodes:
            await self._close(env)
            return
        self._idle.append((key, env))
        if len(self._idle) > self._max_idle:
            await self._close(self._idle.pop(0)[1])

    async def close(self) -> None:
        """Close all idle envs; leased envs are closed when they are returned. May be called twice.

        Errors while closing are ignored, since no episode uses these envs any more.
        """
        self._is_closed = True
        self._returned.set()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(self._close(env) for _, env in idle), return_exceptions=True)

    def _make(self, spec: EnvSpec) -> Env:
        """Make a new env.

        Raises:
            EnvError: As raised by the factory, or `EnvSetupError` for anything else that it raises or returns.
        """
        try:
            with contained():
                env = self._make_env(spec)
        except EnvError:
            raise
        except Exception as error:
            raise EnvSetupError(f"the environment {spec.name!r} cannot be made: {describe_defect(error)}") from error
        check_verbs(env, spec.name)
        return env

    async def _close(self, env: Env) -> None:
        """Close an env for good.

        Raises:
            EnvError: If the env raises, or is still closing after `_CLOSE_S` seconds.
        """
        self._num_episodes.pop(id(env), None)
        try:
            closing = asyncio.ensure_future(contained_result(env.close()))
            await asyncio.wait_for(closing, _CLOSE_S)
        except TimeoutError as error:
            raise EnvError(f"the environment did not close within {_CLOSE_S:g} s", retryable=False) from error
        except EnvError:
            raise
        except Exception as error:
            message = f"the environment could not be closed: {describe_defect(error)}"
            raise EnvError(message, retryable=False) from error
