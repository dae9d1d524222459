"""When a screen counts as settled: on made-up grabs with a made-up clock, and on a real display."""

import asyncio
import sys
from collections.abc import Callable

import pytest

from envs.desktop.backend import InterruptibleClock, ScreenFrame
from envs.desktop.screenshot import ScreenSettler, changed_tiles
from tests.envs.desktop.conftest import HERE, MakeEnv, needs_display

WIDTH, HEIGHT = 400, 300


class FakeClock(InterruptibleClock):
    """Time passes only in pauses and grabs."""

    def __init__(self) -> None:
        super().__init__()
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def pause(self, duration_s: float) -> None:
        self.time_s += duration_s


def frame(*boxes: tuple[int, int, int, int]) -> ScreenFrame:
    """A black image with white boxes (left, top, width, height)."""
    pixels = bytearray(WIDTH * HEIGHT * 4)
    for left, top, width, height in boxes:
        for y in range(top, top + height):
            begin = (y * WIDTH + left) * 4
            pixels[begin : begin + 4 * width] = b"\xff" * (4 * width)
    return ScreenFrame(bgrx=pixels, size_px=(WIDTH, HEIGHT))


def make_settler(
    show: Callable[[float], ScreenFrame], prepare: Callable[[ScreenFrame], None] = lambda frame: None
) -> tuple[ScreenSettler, FakeClock]:
    """A settler of a screen whose image depends on the time; a grab takes 1 ms."""
    clock = FakeClock()

    def grab() -> ScreenFrame:
        clock.time_s += 0.001
        return show(clock.time_s)

    return ScreenSettler(grab, clock, quiet_s=0.02, timeout_s=2.0, prepare=prepare), clock


def test_an_idle_screen_takes_little_more_than_the_quiet_time() -> None:
    settler, clock = make_settler(lambda _: frame())
    assert settler.wait().is_quiet
    assert 0.02 <= clock.time_s < 0.025


def test_a_frame_that_stays_is_prepared_while_it_is_waited_for() -> None:
    prepared: list[ScreenFrame] = []

    def prepare(still: ScreenFrame) -> None:
        prepared.append(still)
        clock.time_s += 0.005

    settler, clock = make_settler(lambda now: frame((50, 50, 200, 200)) if now > 0.006 else frame(), prepare)
    settled = settler.wait(before=frame())
    assert {id(still) for still in prepared} == {id(settled.frame)}
    assert 0.03 <= clock.time_s < 0.035  # the change is seen after 12 ms; the preparation takes no further time


def test_input_without_an_effect_is_waited_for_a_little_longer() -> None:
    settler, clock = make_settler(lambda now: frame((50, 50, 200, 200)) if now > 0.06 else frame())
    settled = settler.wait(before=frame())
    assert settled.frame == frame((50, 50, 200, 200))
    assert 0.08 < clock.time_s < 0.1
    settler, clock = make_settler(lambda _: frame())
    assert settler.wait(before=frame()).is_quiet
    assert 0.08 <= clock.time_s < 0.09
    settler, clock = make_settler(lambda _: frame())
    assert settler.wait(before=frame((1, 1, 5, 5))).is_quiet
    assert clock.time_s < 0.025


def test_an_animation_is_waited_for() -> None:
    def slide(now: float) -> ScreenFrame:
        return frame((min(int(now * 400), 200), 0, 100, 300))

    settler, clock = make_settler(slide)
    settled = settler.wait()
    assert (settled.is_quiet, settled.frame) == (True, frame((200, 0, 100, 300)))
    assert 0.52 <= clock.time_s < 0.56


def test_a_spinner_does_not_hold_the_agent_up() -> None:
    settler, clock = make_settler(lambda now: frame((100 + int(now * 100) % 8, 100, 4, 16)))
    assert settler.wait().is_quiet
    assert 0.15 < clock.time_s < 0.22


def test_a_film_takes_the_full_time_once_and_little_afterwards() -> None:
    def film(now: float) -> ScreenFrame:
        return frame((int(now * 1000) % 100, 50, 150, 150))

    settler, clock = make_settler(film)
    assert not settler.wait().is_quiet
    assert 2.0 <= clock.time_s < 2.05
    clock.time_s = begin = 10.0
    assert settler.wait().is_quiet
    assert clock.time_s - begin < 0.25


def test_a_big_change_elsewhere_counts_beside_a_film() -> None:
    def film_and_dialog(now: float) -> ScreenFrame:
        dialog = [(280, int(now * 300) % 200, 100, 90)] if 10.0 < now < 10.5 else []
        return frame((int(now * 1000) % 100, 50, 150, 150), *dialog)

    settler, clock = make_settler(film_and_dialog)
    settler.wait()
    clock.time_s = 10.0
    assert settler.wait().is_quiet
    assert 10.5 < clock.time_s < 10.8


@pytest.mark.parametrize(
    ("before", "after", "tiles"),
    [
        (frame(), frame(), set()),
        (frame(), frame((0, 0, 1, 1)), {(0, 0)}),
        (frame(), frame((39, 39, 2, 2)), {(0, 0), (1, 0), (0, 1), (1, 1)}),
        (frame(), frame((399, 299, 1, 1)), {(9, 7)}),
        (frame(), ScreenFrame(bgrx=bytearray(4 * 50 * 45), size_px=(50, 45)), {(0, 0), (1, 0), (0, 1), (1, 1)}),
    ],
)
def test_changed_tiles(before: ScreenFrame, after: ScreenFrame, tiles: set[tuple[int, int]]) -> None:
    assert changed_tiles(before, after) == tiles


class TestRealDisplay:
    pytestmark = needs_display

    @pytest.mark.long
    async def test_a_window_that_keeps_changing(self, make_env: MakeEnv) -> None:
        env = await make_env()
        await env.launch([sys.executable, str(HERE / "flicker.py"), "600", "400"], wait_for_window=False)
        async with asyncio.timeout(10):
            while (result := await env.step([])).info["settled"]:
                pass
        assert 2.0 <= result.info["timings"]["settle"] < 4.0
        assert (await env.step([])).info["settled"]

    @pytest.mark.long
    async def test_a_small_blinking_thing(self, make_env: MakeEnv) -> None:
        env = await make_env()
        await env.launch([sys.executable, str(HERE / "flicker.py"), "12", "12"], wait_for_window=False)
        results = [await env.step([]) for _ in range(20)]
        assert all(result.info["settled"] for result in results)
        assert max(result.info["timings"]["settle"] for result in results) < 1.0
