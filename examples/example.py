"""An example is a small TOML file: where to start, what to do, and what must be true afterwards.

env = "browser"                 # or "desktop"
page = "todo.html"              # browser: a file in pages/
app = "mousepad"                # desktop: the program to start
instruction = "..."

[expect]
answer = "4471 8820"            # must stand in the agent's answer
state = {signed_in = "ada"}     # what the page reported last
[expect.files]                  # under home/ (desktop) or downloads/ (browser)
"home/note.txt" = "..."
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from envs import Env, Task, TaskSpec, TaskVerdict
from examples.page_server import PageServer

TASKS = Path(__file__).with_name("tasks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must be true at the end; what is None or empty is not looked at."""

    answer: str | None = None
    state: Any = None
    clipboard: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example, as its file says."""

    name: str
    instruction: str
    expect: Expectation
    env: Literal["browser", "desktop"] = "browser"
    page: str = ""
    app: str = ""

    def make_env(self, folder: Path) -> Env:
        """The world that it plays in; files go below `folder`."""
        if self.env == "browser":
            from envs.browser import BrowserEnv, BrowserOptions

            return BrowserEnv(BrowserOptions(downloads_dir=folder / "downloads"))
        from envs.desktop import DesktopEnv, DesktopOptions

        home = folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        return DesktopEnv(DesktopOptions(screen_px=(1280, 800), app=self.app, home_dir=home))

    def make_task(self, folder: Path) -> "ExampleTask":
        """The goal, verified in the same `folder`."""
        return ExampleTask(self, folder)


class ExampleTask(Task):
    """Opens the page (or leaves the desktop program to its env) and compares the end with what is expected."""

    def __init__(self, example: Example, folder: Path) -> None:
        self.instruction = example.instruction
        self.spec = TaskSpec(id=f"examples/{example.name}")
        self._example = example
        self._folder = folder
        self._server: PageServer | None = None

    async def setup(self, env: Any) -> None:
        """Serve the pages and open the first."""
        if self._example.page:
            self._server = PageServer()
            await env.goto(self._server.start() + self._example.page)

    async def evaluate(self, env: Any) -> TaskVerdict:
        """The share of the expectations that are met."""
        met = self.check(env.terminate.answer if env.terminate is not None else None)
        if self._example.expect.clipboard is not None:
            met["clipboard"] = await env.get_clipboard() == self._example.expect.clipboard
        return TaskVerdict(sum(met.values()) / len(met))

    async def teardown(self, env: Any) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def check(self, answer: str | None) -> dict[str, bool]:
        """Each expectation but the clipboard by name, and whether it is met."""
        expect = self._example.expect
        met: dict[str, bool] = {}
        if expect.answer is not None:
            met["answer"] = _squeeze(expect.answer) in _squeeze(answer or "")
        if expect.state is not None:
            met["state"] = self._server is not None and self._server.state == expect.state
        for name, text in expect.files.items():
            path = self._folder / name
            met[name] = path.is_file() and path.read_text("utf-8").rstrip("\n") == text.rstrip("\n")
        return met


def load_example(path: Path) -> Example:
    """Read one example file.

    Raises:
        ValueError: The file has an unknown key, or expects nothing.
    """
    data = tomllib.loads(path.read_text("utf-8"))
    try:
        expect = Expectation(**data.pop("expect"))
        example = Example(name=path.stem, expect=expect, **data)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error
    if expect == Expectation():
        raise ValueError(f"{path}: [expect] is empty, so nothing would be verified")
    return example


def load_examples() -> tuple[Example, ...]:
    """All examples, by name."""
    return tuple(load_example(path) for path in sorted(TASKS.glob("*.toml")))


def _squeeze(text: str) -> str:
    return "".join(text.split()).lower()
