"""How fast MiniWoB++ is through our env: steps/s, and episodes/s beside BrowserGym's.

    python -m benchmarks.miniwob [--peer-python PYTHON] [--seeds 3]

The pages come by `cua setup miniwob`. The peer runs in an environment of its own (`pip install browsergym-miniwob`),
with our Chromium, and needs nothing of ours.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import time
from typing import Any

from envs.browser import find_browser
from envs.suites.miniwob.env import MiniWobEnv, MiniWobOptions
from envs.suites.miniwob.pages import PageServer, get_pages
from envs.suites.miniwob.tasks import MiniWobTask
from tests.envs.suites.miniwob.oracles import ORACLES, Hand

TASKS = (
    *("click-test", "click-test-2", "click-button", "click-link", "click-option", "click-color", "click-widget"),
    *("click-dialog", "click-tab", "focus-text"),
)
"""What the peer is timed on: each is solved by one or two clicks."""

PEER = r"""
import json, sys, time
import gymnasium, browsergym.miniwob
from playwright.sync_api import BrowserType
names, seeds, browser = json.loads(sys.argv[1])
launch = BrowserType.launch  # its own browser is not needed: ours serves, for its chat window too
BrowserType.launch = lambda self, **named: launch(self, **{"executable_path": browser, **named})
TARGETS = {  # the element to click, by the sentence
    "click-test": ["e => e.id === 'subbtn'"],
    "click-test-2": ["e => e.tagName === 'BUTTON' && told.includes(e.textContent)"],
    "click-button": ["e => e.tagName === 'BUTTON' && told.includes('\"' + e.textContent + '\"')"],
    "click-link": ["e => e.className === 'alink' && told.includes('\"' + e.textContent + '\"')"],
    "click-option": ["e => e.tagName === 'INPUT' && told.includes(' ' + e.parentElement.textContent + ' ')",
                     "e => e.id === 'subbtn'"],
    "click-color": ["e => e.dataset.color && told.includes(' ' + e.dataset.color + ' ')"],
    "click-widget": ["e => e.dataset.type && told.includes('\"' + e.dataset.type + '\"')"],
    "click-dialog": ["e => e.classList.contains('ui-dialog-titlebar-close')"],
    "click-tab": ["e => e.tagName === 'A' && told.includes(e.textContent + '.')"],
    "focus-text": ["e => e.id === 'tt'"],
}
resets, steps, rewards = [], [], 0
began = time.monotonic()
for name in names:
    env = gymnasium.make(f"browsergym/miniwob.{name}")
    for seed in range(seeds):
        at = time.monotonic()
        seen, _ = env.reset(seed=seed)
        resets.append(time.monotonic() - at)
        told = seen["goal"]
        for target in TARGETS[name]:
            script = "told => [...document.querySelectorAll('*')].find(%s).getAttribute('bid')"
            bid = env.unwrapped.page.evaluate(script % target, told)
            at = time.monotonic()
            _, reward, terminated, _, _ = env.step(f"click({bid!r})")
            steps.append(time.monotonic() - at)
        rewards += reward > 0
    env.close()
took_s, num_steps = time.monotonic() - began, len(steps)
found = {"took_s": took_s, "resets": resets, "num_steps": num_steps, "stepping_s": sum(steps), "right": rewards}
print(json.dumps(found))
"""


async def time_ours(num_seeds: int, *, settle: bool) -> dict[str, Any]:
    """The same episodes in our env, by the oracles of the tests."""
    env = MiniWobEnv(MiniWobOptions(settle=settle))
    resets, num_steps, stepping_s, num_right = [], 0, 0.0, 0
    began = time.monotonic()
    try:
        for name in TASKS:
            for seed in range(num_seeds):
                task, at = MiniWobTask(name, seed), time.monotonic()
                await env.reset(task)
                resets.append(time.monotonic() - at)
                hand, at = Hand(env), time.monotonic()
                await ORACLES[name](hand, task.instruction)
                stepping_s += time.monotonic() - at
                num_steps += hand.num_steps
                num_right += hand.reward == 1.0
        took_s = time.monotonic() - began
    finally:
        await env.close()
    return {"took_s": took_s, "resets": resets, "num_steps": num_steps, "stepping_s": stepping_s, "right": num_right}


def time_peer(python: str, num_seeds: int) -> dict[str, Any]:
    """BrowserGym with its defaults, on the pages that our server hands out, in our Chromium."""
    browser = find_browser()
    server = PageServer.enter(get_pages())
    try:
        asked = json.dumps([TASKS, num_seeds, browser.path if browser else None])
        done = subprocess.run(
            [python, "-c", PEER, asked],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "MINIWOB_URL": f"http://127.0.0.1:{server.port}/miniwob/"},
        )
    finally:
        server.leave()
    if done.returncode:
        raise SystemExit(f"the peer failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_speed(peer_python: str | None, num_seeds: int) -> None:
    rows = {
        "ours, without settling": asyncio.run(time_ours(num_seeds, settle=False)),
        "ours": asyncio.run(time_ours(num_seeds, settle=True)),
    }
    if peer_python is not None:
        rows["BrowserGym, its defaults"] = time_peer(peer_python, num_seeds)
    num = len(TASKS) * num_seeds
    print(f"{'':<26}{'episodes/s':>12}{'times the peer':>16}{'median reset, s':>17}{'steps/s':>9}{'right':>7}")
    last_s = list(rows.values())[-1]["took_s"]
    for name, found in rows.items():
        times = f"{last_s / found['took_s']:.1f}" if peer_python is not None else ""
        reset_s, rate = statistics.median(found["resets"]), found["num_steps"] / found["stepping_s"]
        print(
            f"{name:<26}{num / found['took_s']:>12.2f}{times:>16}{reset_s:>17.3f}{rate:>9.1f}{found['right']:>4}/{num}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="a Python that has browsergym-miniwob")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print_speed(arguments.peer_python, arguments.seeds)


if __name__ == "__main__":
    main()
