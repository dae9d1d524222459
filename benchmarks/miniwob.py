"""MiniWoB++ through our env: how fast it is, and what an evaluation of it says, as tables.

    python -m benchmarks.miniwob speed [--peer-python PYTHON]    # steps/s, and episodes/s beside BrowserGym's
    python -m benchmarks.miniwob table FOLDER                    # of what `cua eval miniwob` left there, in Markdown

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
from collections import defaultdict
from pathlib import Path
from typing import Any

from apps.evals.results import load_evaluation
from apps.evals.statistics import is_success, summarize
from apps.evals.text import describe_interval, describe_share
from cua.batch import EpisodeResult
from envs.browser import find_browser
from envs.miniwob.env import MiniWobEnv, MiniWobOptions
from envs.miniwob.pages import PageServer, get_pages
from envs.miniwob.tasks import MiniWobTask
from tests.envs.miniwob.oracles import ORACLES, Hand

ASKED = ("click", "enter", "choose")
"""The families in which the act is named."""
CLAIMED = "although the agent reports success"
"""What the reason of an episode says that was claimed as done and is not, or not fully: a claim is wrong at score 0."""


def print_table(folder: Path) -> None:
    """An evaluation by family and by task, as Markdown, with what was claimed and was not so."""
    evaluation = load_evaluation(folder)
    family_of = evaluation.plan.families
    rows: dict[str, list[EpisodeResult]] = {f"**all, {len(evaluation.plan.task_ids)} tasks**": list(evaluation.results)}
    asked = [one for one in evaluation.results if family_of[one.task_id] in ASKED]
    rows |= {f"**{', '.join(ASKED)}**": asked} if asked else {}
    by_task: dict[str, list[EpisodeResult]] = defaultdict(list)
    for one in evaluation.results:
        rows.setdefault(family_of[one.task_id], []).append(one)
        by_task[one.task_id.rpartition("/")[2]].append(one)
    print("| family | episodes | right | 95 % interval | mean score | wrong claims | errors |\n" + "|---" * 7 + "|")
    for name, group in rows.items():
        figures = summarize(group)
        share, wrong = figures.success_full, sum(one.score == 0 and CLAIMED in one.reason for one in group)
        print(
            f"| {name} | {len(group)} | {figures.num_succeeded} ({describe_share(share)})"
            f" | {describe_interval(figures.success_full_interval)} | {figures.mean_full or 0.0:.3f}"
            f" | {wrong} ({describe_share(wrong / len(group))}) | {len(group) - figures.num_scored} |"
        )
    print()
    by_score: dict[str, list[str]] = defaultdict(list)
    for name, group in by_task.items():
        by_score[f"{sum(is_success(one.score) for one in group)} of {len(group)}"].append(name)
    print("| right | tasks |\n|---|---|")
    for score, names in sorted(by_score.items(), reverse=True):
        print(f"| {score} | {', '.join(names)} |")


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
    parser.add_argument("what", choices=["speed", "table"])
    parser.add_argument("folder", nargs="?", type=Path, help="of an evaluation, for the table")
    parser.add_argument("--peer-python", help="a Python that has browsergym-miniwob")
    parser.add_argument("--seeds", type=int, default=3, help="how many, for the speed")
    arguments = parser.parse_args()
    if arguments.what == "speed":
        print_speed(arguments.peer_python, arguments.seeds)
    elif arguments.folder is None:
        parser.error("the table wants the folder of an evaluation")
    else:
        print_table(arguments.folder)


if __name__ == "__main__":
    main()
