"""Envs of a pool are lent to a limited number of takers."""

import asyncio

import pytest

from envs import Env, EnvSetupError, EnvSpec
from envs.fake import FakeEnv
from envs.pool import EnvPool


async def test_at_most_so_many_envs_of_one_spec_are_leased_and_takers_wait_in_order() -> None:
    made: list[FakeEnv] = []

    def make(spec: EnvSpec) -> Env:
        if spec.name == "broken":
            raise EnvSetupError("no such machine")
        made.append(FakeEnv())
        return made[-1]

    async with EnvPool(make, max_leased=2) as pool:
        first, second = [await pool.take(EnvSpec(name="a")) for _ in range(2)]
        await (await pool.take(EnvSpec(name="b"))).close()  # another spec has room of its own
        order: list[str] = []

        async def take(name: str) -> None:
            env = await pool.take(EnvSpec(name="a"))
            order.append(name)
            await env.close()

        tasks = [asyncio.create_task(take(name)) for name in ("third", "cancelled", "fourth")]
        await asyncio.sleep(0.01)
        tasks[1].cancel()
        assert order == []
        await first.close()
        await first.close()  # closing twice does not make room for two
        await asyncio.wait(tasks, timeout=5)
        assert order == ["third", "fourth"]
        await second.close()
        for _ in range(5):  # a failure does not use up room
            with pytest.raises(EnvSetupError):
                await pool.take(EnvSpec(name="broken"))
    assert len(made) == 3
