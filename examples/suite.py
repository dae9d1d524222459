"""A suite of your own is one Python file: tasks that prepare a page and look at it afterwards.

    cua eval examples/suite.py --model literal
    cua eval examples                           # the same, from a clone

A task derives from `envs.Task`. It knows its instruction and its spec (id, seed, env, family); `setup` prepares the
environment, `evaluate` gives a verdict with a score in [0, 1] from the environment's own state, `teardown` cleans up.
`make_suite` names the tasks and how each is made again. Everything that is drawn comes from the seed, so a task and
a seed are the same on every machine.
"""

import html
import random
from dataclasses import dataclass
from typing import Any

from envs import EnvSpec, Suite, Task, TaskSpec, TaskVerdict
from envs.suite import Baseline

STYLE = "body{font:20px sans-serif;margin:60px} label,button,input{font:inherit} label{display:block;margin:12px 0}"
NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Radia")
GOODS = ("Lamp", "Chair", "Table", "Shelf", "Mirror")
KNOWN = (("null", 0.0), ("fail", 0.2), ("random", 0.0))
"""What agents without skill get, so that a reader sees what a score is worth."""
MEASURED = "cua eval examples --baseline {}"
TASKS = ("form", "order", "choice", "price", "missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTask(Task):
    """A page, an instruction, and what is true of the page or of the answer when it was carried out.

    Attributes:
        instruction: What the agent is told.
        spec: Which task it is.
        body: The page.
        expected: What the page's variable `result` must be at the end; None: it is not looked at.
        answer: What must stand in the agent's answer; "" for none.
        is_impossible: The right thing is to say that it cannot be done.
    """

    instruction: str
    spec: TaskSpec
    body: str
    expected: Any = None
    answer: str = ""
    is_impossible: bool = False

    async def setup(self, env: Any) -> None:
        """Show the page."""
        await env.page.set_content(f"<style>{STYLE}</style>{self.body}")

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Half for the page's state and half for the answer, where both count."""
        terminate = env.terminate
        if self.is_impossible:
            has_said = terminate is not None and terminate.status == "failure"
            return TaskVerdict(has_said and not await env.page.evaluate("window.result"))
        problems = []
        if self.expected is not None:
            problems.append(await env.page.evaluate("window.result") == self.expected)
        if self.answer:
            problems.append(
                terminate is not None and terminate.status == "success" and self.answer in (terminate.answer or "")
            )
        return TaskVerdict(sum(problems) / len(problems))


def make_task(task_id: str, seed: int | None) -> Task:
    """The task of that id, drawn with that seed."""
    rng = random.Random(f"{task_id} {seed}")
    name, (good, other) = rng.choice(NAMES), rng.sample(GOODS, 2)
    number = rng.randint(2, 9)

    def make(instruction: str, family: str, body: str, **more: Any) -> PageTask:
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="browser"), metadata={"family": family})
        return PageTask(instruction=instruction, spec=spec, body=body, **more)

    match task_id:
        case "form":
            code = str(rng.randint(1000, 9999))
            body = (
                "<label>Name <input id=name></label>"
                "<button onclick=\"result = document.getElementById('name').value;"
                f" document.getElementById('out').textContent = 'Order number: {code}'\">Send</button><p id=out></p>"
            )
            instruction = f'Type "{name}" into Name. Click Send. Tell me the Order number.'
            return make(instruction, "form", body, expected=name, answer=code)
        case "order":
            body = f"<h1>{good}</h1><label>Quantity <input id=n></label>" + _button(
                "Add to cart", "document.getElementById('n').value"
            )
            return make(f'Type {number} into Quantity. Click "Add to cart".', "form", body, expected=str(number))
        case "choice":
            body = _button(good, repr(good)) + " " + _button(other, repr(other))
            return make(f"Click {other}.", "click", body, expected=other)
        case "price":
            body = f"<p>{good}: {number * 11}.00</p><p>{other}: {number * 7}.50</p>"
            return make(f"Tell me the {other}.", "read", body, answer=f"{number * 7}.50")
        case "missing":
            return make("Click Delete.", "impossible", _button("Save", "'saved'"), is_impossible=True)
    raise ValueError(f"there is no task {task_id!r}")


def make_suite() -> Suite:
    """What `cua eval` calls."""
    return Suite(
        name="examples",
        about="a form, an order, a choice, a price, and something that is not there",
        task_ids=TASKS,
        make_task=make_task,
        seeds=(1, 2, 3),
        revision="1",
        max_steps=15,
        max_time_s=120.0,
        baselines={
            name: Baseline(score=score, num_episodes=15, command=MEASURED.format(name)) for name, score in KNOWN
        },
    )


def _button(label: str, result: str) -> str:
    """A button that sets the page's `result`."""
    return f'<button onclick="result = {html.escape(result)}">{html.escape(label)}</button>'
