"""Suite `garden`: ten small tasks on a hand-written page, unlike the pages of the generators."""

from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.browser.env import BrowserEnv
from envs.browser.options import BrowserOptions
from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.suite import FAMILY, Baseline, Suite

PAGE = Path(__file__).with_name("garden.html")
SIZE_PX = (480, 320)
REVISION = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GardenTask(Task):
    """One task.

    Attributes:
        name: Id of the task.
        instruction: Instruction for the agent.
        done: Events that the page must have recorded, in order.
        plant: Required final text of its field.
        fragment: Fragment of the address: `remove` opens the dialog.
    """

    name: str
    instruction: str
    done: tuple[str, ...]
    plant: str = ""
    fragment: str = ""

    def __post_init__(self) -> None:
        family = "several steps" if self.instruction.count(".") > 1 else "one step"
        spec = TaskSpec(id=self.name, env=EnvSpec(name="garden"), metadata={FAMILY: family})
        object.__setattr__(self, "spec", spec)

    async def setup(self, env: BrowserEnv) -> None:
        """Open the page."""
        page = b64encode(PAGE.read_bytes()).decode("ascii")
        await env.goto(f"data:text/html;base64,{page}#{self.fragment}")

    async def evaluate(self, env: BrowserEnv) -> TaskVerdict:
        """Return 1 if exactly these events happened, the field is right and the agent reported success."""
        report: dict[str, Any] = await env.page.evaluate("report()")
        is_said = env.terminate is not None and env.terminate.status == "success"
        return TaskVerdict(is_said and tuple(report["done"]) == self.done and report["plant"] == self.plant)


TASKS = (
    GardenTask(name="save", instruction='Click the button "Save".', done=("press Save",)),
    GardenTask(name="help", instruction='Follow the link "Help".', done=("press Help",)),
    GardenTask(name="water", instruction='Open the tab "Water".', done=("tab Water",)),
    GardenTask(name="thyme", instruction='Choose "Thyme" from the list.', done=("item Thyme",)),
    GardenTask(name="frost", instruction='Tick "Frost alarm".', done=("checkbox frost on",)),
    GardenTask(name="weekly", instruction='Choose "Weekly".', done=("radio Weekly on",)),
    GardenTask(name="type", instruction='Type "mint" into the field "Plant".', done=(), plant="mint"),
    GardenTask(name="cancel", instruction='Click on the "Cancel" button.', done=("press Cancel",), fragment="remove"),
    GardenTask(
        name="type-and-save",
        instruction='Type "dill" into the field "Plant". Click the button "Save".',
        done=("press Save",),
        plant="dill",
    ),
    GardenTask(
        name="frost-and-save",
        instruction='Tick "Frost alarm". Click the button "Save".',
        done=("checkbox frost on", "press Save"),
    ),
)


def make_suite() -> Suite:
    """Make ten tasks with buttons, a link, tabs, a list, boxes, a field and a dialog; two of them have two steps."""
    tasks = {task.name: task for task in TASKS}
    return Suite(
        name="garden",
        about=f"{len(tasks)} tasks on one small page that was written by hand",
        task_ids=tuple(tasks),
        make_task=lambda task_id, seed: tasks[task_id],
        make_env=lambda spec: BrowserEnv(BrowserOptions(viewport_px=SIZE_PX)),
        revision=REVISION,
        max_steps=6,
        max_time_s=120.0,
        baselines={
            name: Baseline(score=0.0, num_episodes=len(tasks), command=f"cua eval garden --baseline {name}")
            for name in ("null", "fail", "random")
        },
    )
