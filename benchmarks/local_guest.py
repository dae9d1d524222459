"""How long a local guest of OSWorld takes: a clean one, a reset of its env, a step, the accessibility tree.

python benchmarks/local_guest.py --rounds 10
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from envs import Click, InstructionTask, PressKey, TypeText
from envs.suites.osworld.env import GuestEnv, GuestOptions
from envs.suites.osworld.local import LocalGuest

TASK = InstructionTask(instruction="Use the guest.")


async def measure(what: str, rounds: int, work: Callable[[], Awaitable[object]]) -> None:
    """Print the median and the slowest of some rounds."""
    took_s = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        await work()
        took_s.append(time.perf_counter() - began_s)
    print(f"{what:<44} median {statistics.median(took_s):5.2f} s, slowest {max(took_s):5.2f} s ({rounds} rounds)")


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    guest = LocalGuest()
    await measure("a clean guest (the old one ended, home back)", rounds, lambda: guest.fresh(GuestOptions()))
    await guest.close()
    env = GuestEnv(GuestOptions(pause_s=0.0, settle_timeout_s=0.0), LocalGuest())
    try:
        await measure("reset of the env, first look included", rounds, lambda: env.reset(TASK))
        await env.guest.launch(["xterm", "-geometry", "100x40+0+0"])
        while not await env.guest.window_size_px("xterm"):
            await asyncio.sleep(0.05)
        actions = (Click(x_px=200, y_px=200), TypeText(text="echo hello"), PressKey(key="enter"))
        await measure("a step of three actions, without rests", 5 * rounds, lambda: env.step(actions))
        await measure("a look (screenshot and pointer)", 5 * rounds, lambda: env.step(()))
        await measure("the accessibility tree", rounds, env.guest.accessibility_tree)
        press = (PressKey(key="enter"),)
        await measure("a key, to beyond 300 steps of one X server", 32 * rounds, lambda: env.step(press))
        looked = await env.step(press)
        print(f"the last step went {looked.observation.last_action_error or 'well'}")
    finally:
        await env.close()


if __name__ == "__main__":
    asyncio.run(main())
