"""Envs of a pool are lent to a limited number of takers."""

import asyncio

import pytest

from envs import Env, EnvError, EnvSetupError, EnvSpec
from envs.fake import FakeEnv
from envs.pool import EnvPool


async def test_at_most_so_many_envs_are_leased_and_takers_wait_in_order() -> None:
    made: list[FakeEnv] = []

    def make(spec: EnvSpec) -> Env:
        if spec.name == "broken":
            raise EnvSetupError("no such machine")
        made.append(FakeEnv())
        return made[-1]

    async with EnvPool(make, max_leased=2) as pool:
        first, second = [await pool.take(EnvSpec(name="a")) for _ in range(2)]
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
    assert len(made) == 2


async def test_envs_of_all_specs_share_the_room_and_idle_ones_make_way() -> None:
    made: dict[str, FakeEnv] = {}

    def make(spec: EnvSpec) -> Env:
        made[spec.name] = FakeEnv()
        return made[spec.name]

    async with EnvPool(make, max_leased=2) as pool:
        for name in ("old", "young"):
            await (await pool.take(EnvSpec(name=name))).close()
        other = await pool.take(EnvSpec(name="other"))
        assert [name for name, env in made.items() if env.is_closed] == ["old"]
        young = await pool.take(EnvSpec(name="young"))
        waiting = asyncio.create_task(pool.take(EnvSpec(name="other")))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await young.close()
        await (await asyncio.wait_for(waiting, 5)).close()
        await other.close()
    assert all(env.is_closed for env in made.values())


async def test_a_limit_may_change_while_takers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envs.pool._LIMIT_CHECK_S", 0.01)
    limit = 0
    async with EnvPool(lambda spec: FakeEnv(), max_leased=lambda: limit) as pool:
        first, second = (asyncio.create_task(pool.take(EnvSpec(name="a"))) for _ in range(2))
        await asyncio.sleep(0.05)
        assert not first.done()
        limit = 1
        lent = await asyncio.wait_for(first, 5)
        await asyncio.sleep(0.05)
        assert not second.done()
        await lent.close()
        await (await asyncio.wait_for(second, 5)).close()


async def test_a_pool_that_is_closed_sends_its_takers_away() -> None:
    pool = EnvPool(lambda spec: FakeEnv(), max_leased=1)
    lent = await pool.take(EnvSpec(name="a"))
    waiting = [asyncio.create_task(pool.take(EnvSpec(name="a"))) for _ in range(2)]
    await asyncio.sleep(0.01)
    await pool.close()
    for taker in waiting:
        with pytest.raises(EnvError, match="was closed"):
            await asyncio.wait_for(taker, 5)
    await lent.close()
