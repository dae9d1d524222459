"""What the embedded model makes of web apps that nobody here wrote: TiddlyWiki, DokuWiki, Wagtail.

    PYTHONPATH=benchmarks python -m webapps --tiddlywiki node_modules/tiddlywiki/tiddlywiki.js \
        --dokuwiki /usr/share/dokuwiki --wagtail VENV/bin/python [--tasks plain|natural] [--log FILE]

Each task starts on the app's first state. It ends in one of three ways: right (the app's own state is the wanted one
and the model said so), wrong (the model claimed success and the state is another one), honest (all others).
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from webapps.apps import PASSWORD, App, AppStarter
from webapps.tasks import SETS, End, WebTask

from cua import Agent, AgentOptions, Caps, Guard
from cua.models.literal import LiteralModel
from cua.run.events import Decided, Observed
from envs import TaskSpec
from envs.browser import BrowserEnv

KINDS = ("right", "honest", "wrong")
_STORING_S = 2.0


class Episode:
    """One task on a running app; `kind` is empty until it was evaluated."""

    def __init__(self, task: WebTask, app: App) -> None:
        self.task = task
        self.app = app
        self.instruction = task.instruction
        self.spec = TaskSpec(id=f"webapps/{app.name}", metadata={"path": task.path})
        self.kind = ""
        self.answer = ""

    async def setup(self, env: Any) -> None:
        if self.task.needs_login:
            await _log_in(env, self.app)
        await env.goto(self.app.url + self.task.path)

    async def evaluate(self, env: Any) -> float:
        await asyncio.sleep(_STORING_S)  # the browser sends what it stores a little later
        end = End(app=self.app, text=await env.page.inner_text("body"), url=env.page.url)
        is_done = self.task.is_done(end)
        has_claimed = env.terminate is not None and env.terminate.status == "success"
        self.answer = (env.terminate and env.terminate.answer) or ""
        self.kind = ("right" if is_done else "wrong") if has_claimed else "honest"
        return float(is_done)

    async def teardown(self, env: Any) -> None:
        pass


async def _log_in(env: Any, app: App) -> None:
    path, name, word = _LOGIN_PAGES[app.name]
    await env.goto(app.url + path)
    await env.page.fill(name, "admin")
    await env.page.fill(word, PASSWORD)
    await env.page.press(word, "Enter")
    await env.page.wait_for_load_state("networkidle")


_LOGIN_PAGES = {
    "dokuwiki": ("/doku.php?id=start&do=login", "[name=u]", "[name=p]"),
    "wagtail": ("/admin/login/", "[name=username]", "[name=password]"),
}


async def run_task(env: BrowserEnv, episode: Episode, pictures: Path | None) -> list[str]:
    """One run; returns the texts of its actions."""
    actions: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, Observed) and pictures is not None:
            pictures.mkdir(parents=True, exist_ok=True)
            (pictures / f"{event.index:02}.png").write_bytes(event.observation.screenshot)
        if isinstance(event, Decided):
            actions.append(event.turn.action_text)

    options = AgentOptions(caps=Caps(max_steps=60, max_time_s=180))
    agent = Agent(model=LiteralModel(), env=env, options=options, guard=Guard(mode="yolo"), listener=listen)
    await agent.run(episode)
    return actions


async def run_all(
    tasks: Sequence[WebTask], programs: Mapping[str, Path], log: Path | None, pictures: Path | None
) -> Counter[str]:
    counts = Counter[str]()
    env = BrowserEnv()
    with TemporaryDirectory() as work:
        starters = {name: AppStarter(name, program.absolute(), Path(work)) for name, program in programs.items()}
        try:
            for index, task in enumerate(tasks):
                started = time.monotonic()
                episode = Episode(task, starters[task.app].start())
                actions = await run_task(env, episode, pictures and pictures / f"{index:02}")
                counts[episode.kind] += 1
                print(f"{episode.kind:<8}{task.app:<12}{task.instruction[:100]}", flush=True)
                if log is not None:
                    note(log, episode, actions, time.monotonic() - started)
        finally:
            for starter in starters.values():
                starter.stop()
            await env.close()
    return counts


def note(log: Path, episode: Episode, actions: Sequence[str], took_s: float) -> None:
    record = {
        "app": episode.task.app,
        "instruction": episode.instruction,
        "is_possible": episode.task.is_possible,
        "kind": episode.kind,
        "answer": episode.answer,
        "actions": actions,
        "took_s": round(took_s, 2),
    }
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tiddlywiki", "dokuwiki", "wagtail"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--tasks", default="plain", choices=SETS)
    parser.add_argument("--only", help="run only the tasks whose instruction holds this")
    parser.add_argument("--log", type=Path, help="file to append one JSON line for each task to")
    parser.add_argument("--pictures", type=Path, help="folder for what the model saw, a folder for each task")
    arguments = parser.parse_args()
    programs = {name: getattr(arguments, name) for name in ("tiddlywiki", "dokuwiki", "wagtail")}
    programs = {name: program for name, program in programs.items() if program is not None}
    tasks = [task for task in SETS[arguments.tasks] if task.app in programs]
    tasks = [task for task in tasks if not arguments.only or arguments.only in task.instruction]
    counts = asyncio.run(run_all(tasks, programs, arguments.log, arguments.pictures))
    impossible = sum(not task.is_possible for task in tasks)
    print(f"{len(tasks)} tasks, {impossible} of them impossible: " + ", ".join(f"{counts[k]} {k}" for k in KINDS))


if __name__ == "__main__":
    main()
