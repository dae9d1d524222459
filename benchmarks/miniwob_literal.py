"""What the embedded model makes of sentences that were not written for it: MiniWoB++, word for word.

    python benchmarks/miniwob_literal.py [--tasks chosen|rest|all|NAME,NAME] [--seeds held-out|tuning|0-4] [--log FILE]
    python benchmarks/miniwob_literal.py --table FILE    # what such a file says, as tables in Markdown

The pages come in the wheel of PyPI's `miniwob` 1.1.0 (MIT), which pip fetches by name into a cache folder; only its
HTML is used, nothing of it is installed. `--pages DIR` or MINIWOB_HTML names a folder that has them already (the
one with `miniwob/` and `core/` in it).

Each episode is a run of the real agent: its instruction is the sentence that the page gives, as text; the yellow
strip with the sentence, the score and the click marks beside the page are not in the image, and the ground around the
page is white as the page is. It ends in one of three ways:

- right: the page gave a raw reward above 0, which is what BrowserGym counts as success;
- wrong: the model ended with success and the page did not agree. This is what must not be;
- honest: all others. The model says that it cannot read the sentence, or what it did not find.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cua import Agent, AgentOptions, Caps, Guard
from cua.models.literal import LiteralModel
from envs import Action, Check, EnvSpec, Observation, StepResult, Task, TaskSpec
from envs.browser import BrowserEnv, BrowserOptions

CHOSEN = (
    "choose-list click-button click-button-sequence click-checkboxes click-checkboxes-large click-checkboxes-transfer "
    "click-collapsible click-collapsible-2 click-dialog click-dialog-2 click-link click-menu click-menu-2 click-option "
    "click-scroll-list click-tab click-tab-2 click-test click-test-2 click-widget enter-date enter-password enter-text "
    "enter-text-2 enter-text-dynamic enter-time focus-text focus-text-2 login-user login-user-popup search-engine "
    "use-autocomplete"
).split()
"""The pages whose first word is click, choose, enter, focus, login, search or use-autocomplete, without those that
want colours, shapes, dates' calendars or the meaning of words (click-color, -pie, -shades, -shape, -checkboxes-soft,
choose-date), and of pages that differ in speed, size or one random style only (-nodelay, click-tab-2-easy, -medium,
-hard, click-test-transfer) the plain one. Chosen by name before the model was tried on them."""

NOT_REGISTERED = frozenset("button-delay chase-circle hover-shape moving-items simon-says".split())
"""Pages of the wheel that neither miniwob's nor BrowserGym's registry has."""

SEEDS = {"tuning": range(5), "held-out": range(100, 105)}
VIEWPORT_PX = (332, 214)

MAX_EPISODE_MS = 600_000

_START = """([seed, limit]) => {
    const style = document.createElement('style')
    style.textContent = `#query, #reward-display, #click-canvas { visibility: hidden !important }
        body { background: white !important }`
    document.head.append(style)
    const end = core.endEpisode
    window.raw_reward = null  // kept apart: a click on the page's START cover wipes the page's own
    core.endEpisode = (...all) => {
        const is_running = core.EP_TIMER !== null
        end(...all)
        if (is_running && window.raw_reward === null) window.raw_reward = WOB_RAW_REWARD_GLOBAL
    }
    Math.seedrandom(seed)
    core.EPISODE_MAX_TIME = limit
    core.startEpisodeReal()
}"""
_UTTERANCE = "(u => typeof u === 'string' ? u : u.utterance)(core.getUtterance())"


class Page:
    """One page at one seed, as a task; `raw_reward` is None until the page has given one."""

    def __init__(self, name: str, seed: int, base_url: str) -> None:
        self.name = name
        self.seed = seed
        self.url = f"{base_url}/miniwob/{name}.html"
        self.instruction = ""
        self.spec = TaskSpec(id=f"miniwob/{name}", seed=seed, env=EnvSpec(name="browser"))
        self.raw_reward: float | None = None
        self.has_claimed = False
        self.answer = ""

    async def setup(self, env: Any) -> None:
        await env.goto(self.url)
        await env.page.wait_for_function("typeof core !== 'undefined' && core.cover_div !== null")
        await env.page.evaluate(_START, [self.seed, MAX_EPISODE_MS])
        await env.page.wait_for_function("WOB_TASK_READY")
        self.instruction = await env.page.evaluate(_UTTERANCE)

    async def evaluate(self, env: Any) -> float:
        self.raw_reward = await env.page.evaluate("window.raw_reward")
        if env.terminate is not None:
            self.has_claimed = env.terminate.status == "success"
            self.answer = env.terminate.answer or ""
        return 1.0 if (self.raw_reward or 0.0) > 0 else 0.0

    async def teardown(self, env: Any) -> None:
        pass

    @property
    def outcome(self) -> str:
        if (self.raw_reward or 0.0) > 0:
            return "right"
        return "wrong" if self.has_claimed else "honest"


class MiniWobEnv(BrowserEnv):
    """A browser whose steps carry the reward that the page gives: 0.0 until then, and once the raw one.

    The episode goes on after it: what the model says of its own success is measured too.
    """

    _has_rewarded = False

    async def reset(self, task: Task) -> Observation:
        self._has_rewarded = False
        return await super().reset(task)

    async def step(self, actions: Sequence[Action], check: Check | None = None) -> StepResult:
        result = await super().step(actions, check)
        if self._has_rewarded or result.observation.dialog is not None:  # a dialog keeps the page from answering
            return result
        given = await self.page.evaluate("window.raw_reward ?? null")
        if given is None:
            return result
        self._has_rewarded = True
        return replace(result, reward=float(given))


async def read_instruction(env: BrowserEnv, page: Page) -> None:
    """The agent wants the sentence before it resets the env, and the page makes it at random: ask the page once."""
    await env.reset(page)


async def run_episode(env: BrowserEnv, page: Page) -> list[str]:
    """One run; returns the texts of its actions."""
    actions: list[str] = []

    def listen(event: object) -> None:
        turn = getattr(event, "turn", None)
        if turn is not None:
            actions.append(turn.action_text)

    await read_instruction(env, page)
    caps = Caps(max_steps=60, max_time_s=120)
    agent = Agent(
        model=LiteralModel(), env=env, options=AgentOptions(caps=caps), guard=Guard(mode="yolo"), listener=listen
    )
    await agent.run(page)
    return actions


async def run_all(
    names: Sequence[str], seeds: Sequence[int], base_url: str, log: Path | None
) -> dict[str, Counter[str]]:
    counts = {name: Counter[str]() for name in names}
    env = MiniWobEnv(BrowserOptions(viewport_px=VIEWPORT_PX))
    try:
        for name in names:
            for seed in seeds:
                started = time.monotonic()
                page = Page(name, seed, base_url)
                actions = await run_episode(env, page)
                counts[name][page.outcome] += 1
                if log is not None:
                    note(log, page, actions, time.monotonic() - started)
            print(f"{name:<28}" + "".join(f"{counts[name][kind]:>8}" for kind in KINDS), flush=True)
    finally:
        await env.close()
    return counts


KINDS = ("right", "honest", "wrong")


def note(log: Path, page: Page, actions: Sequence[str], took_s: float) -> None:
    record = {
        "task": page.name,
        "seed": page.seed,
        "instruction": page.instruction,
        "outcome": page.outcome,
        "raw_reward": page.raw_reward,
        "has_claimed": page.has_claimed,
        "answer": page.answer,
        "actions": actions,
        "took_s": round(took_s, 2),
    }
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def find_pages(given: str | None) -> Path:
    """The folder with `miniwob/` and `core/`: the one given, or the wheel's in the cache folder."""
    if given:
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "k25" / "miniwob-1.1.0"
    pages = cache / "miniwob" / "html"
    if not pages.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        fetch = ["pip", "download", "miniwob==1.1.0", "--no-deps", "--quiet", "--dest", str(cache)]
        subprocess.run([sys.executable, "-m", *fetch], check=True)
        with zipfile.ZipFile(next(cache.glob("miniwob-*.whl"))) as wheel:
            wheel.extractall(cache, [name for name in wheel.namelist() if name.startswith("miniwob/html/")])
    return pages


def pick_tasks(words: str, pages: Path) -> list[str]:
    known = sorted(file.stem for file in (pages / "miniwob").glob("*.html") if file.stem not in NOT_REGISTERED)
    match words:
        case "chosen":
            return list(CHOSEN)
        case "rest":
            return [name for name in known if name not in CHOSEN]
        case "all":
            return known
        case _:
            return words.split(",")


def pick_seeds(words: str) -> list[int]:
    if words in SEEDS:
        return list(SEEDS[words])
    first, last = re.fullmatch(r"(\d+)(?:-(\d+))?", words).groups()  # type: ignore[union-attr]
    return list(range(int(first), int(last or first) + 1))


def print_totals(counts: Iterable[Counter[str]]) -> None:
    total = sum(counts, Counter[str]())
    episodes = max(total.total(), 1)
    print(f"{'total':<28}" + "".join(f"{total[kind]:>8}" for kind in KINDS))
    print(f"{'':<28}" + "".join(f"{100 * total[kind] / episodes:>6.1f} %" for kind in KINDS))


ASKED = ("click", "enter", "choose")
"""The families in which the act is named: the first word of the task's name."""


def print_table(log: Path) -> None:
    """The episodes of a log by family and by task, as Markdown."""
    by_task: dict[str, Counter[str]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        by_task.setdefault(record["task"], Counter())[record["outcome"]] += 1
    by_family: dict[str, Counter[str]] = {}
    for name, counts in sorted(by_task.items()):
        by_family.setdefault(name.partition("-")[0], Counter()).update(counts)
    asked = sum((by_family.get(family, Counter()) for family in ASKED), Counter[str]())
    rows = [("**all**", sum(by_task.values(), Counter[str]())), (f"**{', '.join(ASKED)}**", asked)]
    for title, group in (("family", [*rows, *by_family.items()]), ("task", sorted(by_task.items()))):
        print(f"| {title} | episodes | right | honest | wrong |\n|---|---|---|---|---|")
        for name, counts in group:
            shares = " | ".join(f"{counts[kind]} ({100 * counts[kind] / counts.total():.1f} %)" for kind in KINDS)
            plain = " | ".join(str(counts[kind]) for kind in KINDS)
            print(f"| {name} | {counts.total()} | {shares if title == 'family' else plain} |")
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", default=os.environ.get("MINIWOB_HTML"), help="folder with miniwob/ and core/")
    parser.add_argument("--tasks", default="chosen")
    parser.add_argument("--seeds", default="held-out")
    parser.add_argument("--log", type=Path, help="file to append one JSON line for each episode to")
    parser.add_argument("--table", type=Path, help="print what a log says, and run nothing")
    arguments = parser.parse_args()
    if arguments.table is not None:
        print_table(arguments.table)
        return
    pages = find_pages(arguments.pages)
    names, seeds = pick_tasks(arguments.tasks, pages), pick_seeds(arguments.seeds)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(pages)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(
        f"{len(names)} tasks x {len(seeds)} seeds ({arguments.seeds})\n{'task':<28}" + "".join(f"{k:>8}" for k in KINDS)
    )
    try:
        counts = asyncio.run(run_all(names, seeds, f"http://127.0.0.1:{server.server_port}", arguments.log))
    finally:
        server.shutdown()
    print_totals(counts.values())


if __name__ == "__main__":
    main()
