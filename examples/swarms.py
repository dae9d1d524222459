"""Swarms that run offline: a collected table, files downloaded and compared, browsers side by side.

python -m examples.swarms table
python -m examples.swarms files
python -m examples.swarms browsers
python -m examples.swarms apps        # on a real web app, which `cua setup apps` installs
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from apps.literal import LiteralModel
from cua.messages import Reply, ToolCall
from cua.models.scripted import ConversationScript
from cua.swarm import SwarmOptions, run_swarm
from cua.swarm.session import SwarmResult
from envs import Action, Check, Observation, StepResult, Task
from envs.registry import load_suite
from envs.suites.apps import AppsEnv
from envs.suites.apps.suite import APPS
from examples.price_lists import SHOPS, Comparer, serve, write_lists

PAGE = (Path(__file__).parent / "pages" / "orders.html").as_uri()
APP_TASKS = ("tiddlywiki/start-page", "tiddlywiki/camel-case", "tiddlywiki/find-number")
ORDERS = ("Order 1011", "Order 1012", "Order 1013")


async def collect_table() -> SwarmResult:
    """The embedded model leads and works: one sub-agent for each bridge that a list names."""
    question = (
        'Collect Bridge, Opened, Designer of all bridges in Tarsia that are listed on "List of bridges in Tarsia".'
    )
    return await run_swarm(question, model=LiteralModel(), search="local:world")


async def compare_files() -> SwarmResult:
    """Twenty pairs of price lists: a sub-agent downloads each from a server, compares it by code, and cites that."""
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as url:
        write_lists(Path(folder))
        names = "".join(f"<li>{url}{shop}-{year}.csv</li>" for shop in SHOPS for year in ("2025", "2026"))
        (Path(folder) / "index.html").write_text(f"<title>Price lists of all shops</title><ul>{names}</ul>")
        host = urlsplit(url).netloc
        return await run_swarm(
            "What has changed in the price lists of all shops?",
            model=Comparer(),
            search=f"local:{folder}",
            search_allow=(host,),
        )


async def read_orders() -> SwarmResult:
    """A recorded orchestrator; the embedded model works in a browser for each order."""
    made = {"name": "reader", "system_prompt": "", "kind": "browser", "model": "literal"}
    tasks = [
        {"agent": "reader", "prompt": f'Click Next. Tell me the Amount in the row of "{order}".', "url": PAGE}
        for order in ORDERS
    ]
    replies = [
        Reply(content="", tool_calls=(_call("create_subagent", made),)),
        Reply(content="", tool_calls=tuple(_call("assign_task", task) for task in tasks)),
        "The amounts are in the messages of the sub-agents.",
    ]
    script = ConversationScript({"amounts": [(reply, 0.0) for reply in replies]})
    options = SwarmOptions(models={"literal": LiteralModel()})
    return await run_swarm("What are the amounts?", model=script, options=options, approve="yolo")


class TaskEnv(AppsEnv):
    """The world of one task of the suite `apps`, whoever works in it: the app in its first state, and its verdict."""

    def __init__(self, task: Task, scores: dict[str, float]) -> None:
        super().__init__(APPS)
        self._task, self._scores = task, scores

    async def reset(self, task: Task) -> Observation:
        """Set up the suite's task; what the sub-agent was told are its steps."""
        return await super().reset(self._task)

    async def step(self, actions: Sequence[Action], check: Check | None = None) -> StepResult:
        """As usual; at the end the app's own state says how good it was."""
        result = await super().step(actions, check)
        if result.terminated:
            self._scores[self._task.spec.id] = (await self._task.evaluate(self)).score or 0.0
        return result


async def work_on_apps() -> SwarmResult:
    """Sub-agents with browsers of their own, side by side, each on a task of the suite `apps` in an app of its own."""
    suite, scores = load_suite("apps", wording="steps"), dict[str, float]()
    made = {"name": "clerk", "system_prompt": "", "kind": "browser", "model": "literal"}
    tasks = {id: suite.make_task(id, None) for id in APP_TASKS}
    told = [{"agent": "clerk", "prompt": task.instruction, "url": f"task:{id}"} for id, task in tasks.items()]
    replies = [
        Reply(content="", tool_calls=(_call("create_subagent", made),)),
        Reply(content="", tool_calls=tuple(_call("assign_task", one) for one in told)),
        "All have worked.",
    ]
    options = SwarmOptions(
        models={"literal": LiteralModel()},
        make_env=lambda spec: TaskEnv(tasks[spec.options["url"].removeprefix("task:")], scores),
    )
    script = ConversationScript({"wiki": [(reply, 0.0) for reply in replies]})
    done = await run_swarm("Do what is to be done in the wiki", model=script, options=options, approve="yolo")
    for id in APP_TASKS:
        print(f"{id}: score {scores.get(id, 0.0):g}")
    return done


def _call(tool: str, arguments: dict[str, str]) -> ToolCall:
    return ToolCall(id="x", name=tool, arguments=json.dumps(arguments))


def main() -> None:
    """Run the one that is named."""
    work = {"table": collect_table, "files": compare_files, "browsers": read_orders, "apps": work_on_apps}[sys.argv[1]]
    done = asyncio.run(work())
    for child in done.children:
        print(child.id, child.state, child.answer.replace("\n", " "))
    print(done.run.end.answer)
    print(f"{done.metrics.step_speedup:.2f} times fewer steps along the longest branch")


if __name__ == "__main__":
    main()
