"""What a person asks for, and the run that comes of it: a mode, a place to start at, files, a run to go on with."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apps.assistant.session import Session, Work
from apps.cli.swarm import DEMO_SETTINGS
from apps.demo.task import INSTRUCTION, ExpenseTask
from cua.assemble import INSTANT, make_secrets, masks_secrets
from cua.config import load_settings
from cua.errors import ConfigError
from cua.run.end import RunResult
from cua.run.events import Watch
from cua.secrets import Secrets
from envs import TaskVerdict

if TYPE_CHECKING:
    from cua import ToolSession
    from cua.swarm.swarm import Swarm

Mode = Literal["instant", "thinking", "agent", "swarm"]
Place = Literal["practice", "web", "desktop"]
MODES: dict[Mode, str] = {
    "instant": "works the screen, no long thoughts",
    "thinking": "works the screen, thinks first",
    "agent": "answers questions about files, with code in a sandbox",
    "swarm": "an orchestrator and up to 100 sub-agents",
}
PLACES: dict[str, Place] = {"Practice page": "practice", "Web address": "web", "Private desktop": "desktop"}
"""As the page names them."""
MAX_FILES = 20
PRACTICE_INSTRUCTION = INSTRUCTION
"""What the practice page can verify; other instructions may be tried on it."""
PRACTICE_SWARM = (
    'Collect Bridge, Opened, Designer of all bridges in Tarsia that are listed on "List of bridges in Tarsia".'
)
"""What the embedded model can do as a swarm, on a small invented web."""


class Order(BaseModel):
    """What is to be done.

    Attributes:
        instruction: In words.
        mode: Which agent.
        place: Where a mode that works a screen starts: the practice page, a web address, a private desktop.
        url: Address to start at (web).
        app: Program to start (desktop).
        files: Names of uploaded files.
        settings: Single settings for this run, as on the command line.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: str = Field(min_length=1, max_length=200_000)
    mode: Mode = "thinking"
    place: Place = "practice"
    url: str | None = Field(default=None, max_length=8000)
    app: str | None = Field(default=None, max_length=2000)
    files: tuple[str, ...] = Field(default=(), max_length=MAX_FILES)
    settings: dict[str, Any] = Field(default_factory=dict, max_length=100)

    @property
    def is_on_screen(self) -> bool:
        """Whether it works a screen."""
        return self.mode in ("instant", "thinking")


def practice_order(mode: str) -> Order:
    """Something to try in a mode, without a key and without an endpoint."""
    if mode == "swarm":
        return Order(instruction=PRACTICE_SWARM, mode="swarm", settings=DEMO_SETTINGS)
    return Order(instruction=PRACTICE_INSTRUCTION, mode="instant" if mode == "instant" else "thinking")


def make_order(text: str, mode: str, place: str, where: str, files: list[str]) -> Order:
    """An order from what the page's fields hold.

    Raises:
        CuaError: Something is missing.
    """
    if not text.strip():
        raise ConfigError("say what is to be done first")
    start = PLACES.get(place, "practice")
    if mode in ("instant", "thinking") and start == "web" and not where.strip():
        raise ConfigError("an address is needed to start at, such as https://example.com")
    given = {"url": where.strip()} if start == "web" else {"app": where.strip() or None} if start == "desktop" else {}
    return Order.model_validate({"instruction": text, "mode": mode, "place": start, "files": files, **given})


class PracticeTask(ExpenseTask):
    """Any instruction in the practice app; the one that it comes with is verified."""

    def __init__(self, instruction: str) -> None:
        super().__init__()
        self.instruction = instruction

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Judge the instruction that the app comes with; another one cannot be checked."""
        return await super().evaluate(env) if self.instruction.strip() == INSTRUCTION else TaskVerdict(None)


def settings_of(order: Order, base: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name for a run.

    Args:
        order: What is asked for; its settings win.
        base: Those of the app.

    Raises:
        ConfigError: One of them is unknown or wrong.
    """
    chosen = {**base, **order.settings}
    if order.is_on_screen:
        chosen["thinking"] = order.mode == "thinking"
        if order.mode == "instant":
            chosen["preset"] = INSTANT
        chosen["env"] = "desktop" if order.place == "desktop" else "browser"
    settings = load_settings(chosen).settings
    if order.mode == "agent" and settings.has_embedded_model:
        raise ConfigError(
            "agent mode needs a model that calls tools, and the embedded one does not. Name an endpoint and a model "
            "under Settings, or use instant or thinking mode"
        )
    return chosen


def has_live_screen(chosen: Mapping[str, Any], own: Secrets) -> bool:
    """Whether the screen may be shown between observations: only where the environment masks secrets itself."""
    settings = load_settings(chosen).settings
    return masks_secrets(settings) or not make_secrets(settings, given=own).by_name


def aftermath_of(order: Order, chosen: Mapping[str, Any]) -> str:
    """Why nothing has to be undone after a run; "" where something may have to be."""
    settings = load_settings(chosen).settings
    if order.is_on_screen and order.place == "practice":
        return "Nothing to undo: the practice page is made anew for each run."
    if order.is_on_screen and order.place == "desktop" and settings.display is None:
        return "The private desktop and its files end with the run: nothing to undo there. What was sent stays sent."
    if not order.is_on_screen and settings.sandbox != "none":
        return "Your files are as they were: its code works on copies. What MCP servers did for it stands."
    return ""


_POLICY = {
    "ask": "It asks about every step",
    "auto": "It asks about risky steps",
    "yolo": "It asks about nothing but what a rule says",
}


def policy_of(chosen: Mapping[str, Any]) -> str:
    """When a run asks, as a sentence for people."""
    settings = load_settings(chosen).settings
    rules = f"; rules from {settings.policy.name}" if settings.policy else ""
    sites = f"; beyond {', '.join(settings.allow_domains)} it may not go" if settings.allow_domains else ""
    return f"{_POLICY[settings.approve]} (approve: {settings.approve}){rules}{sites}."


def screen_work(order: Order, chosen: Mapping[str, Any], files: list[Path], own: Secrets) -> Work:
    """A run of the GUI agent, with secrets of the app's own."""

    async def work(watch: Watch) -> RunResult:
        from cua import run_task

        more: dict[str, Any] = {"own_secrets": own} | ({"uploads": files[0].parent} if files else {})
        if order.place == "practice":
            return await run_task(PracticeTask(order.instruction), watch=watch, **{**chosen, **more})
        where: dict[str, Any] = {"url": order.url} if order.place == "web" else {"app": order.app}
        return await run_task(order.instruction, watch=watch, **where, **{**chosen, **more})

    return work


class Conversation:
    """Questions to an agent with tools, which keeps its Python and its files from one to the next."""

    def __init__(self, chosen: Mapping[str, Any]) -> None:
        self._chosen = chosen
        self._session: ToolSession | None = None

    def ask(self, question: str, files: list[Path]) -> Work:
        """A run: the next question."""

        async def work(watch: Watch) -> RunResult:
            from cua import ToolSession

            if self._session is None:
                self._session = await ToolSession(watch=watch, **self._chosen).__aenter__()
            return await self._session.ask(question, files)

        return work

    async def close(self) -> None:
        """End the kernel and write the evidence."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def swarm_work(session: Session, order: Order, chosen: Mapping[str, Any], files: list[Path]) -> Work:
    """A run of the swarm; its sub-agents show in the session."""

    async def work(watch: Watch) -> RunResult:
        from cua.swarm import run_swarm

        given = DEMO_SETTINGS if load_settings(chosen).settings.has_embedded_model else {}
        done = await run_swarm(
            order.instruction, files, watch=watch, on_swarm=lambda swarm: _show(session, swarm), **{**chosen, **given}
        )
        return done.run

    return work


def resume_work(session: Session, run_dir: Path, chosen: Mapping[str, Any], own: Secrets) -> Work:
    """Go on with a run that broke off, was stopped or was capped."""

    async def work(watch: Watch) -> RunResult:
        from cua import resume_ask, resume_task
        from cua.swarm import resume_swarm
        from cua.swarm.report import is_swarm
        from cua.trajectory import load_run

        record = load_run(run_dir, images=0)
        if is_swarm(record):
            done = await resume_swarm(run_dir, watch=watch, on_swarm=lambda swarm: _show(session, swarm), **chosen)
            return done.run
        if record.is_tool_run:
            return await resume_ask(run_dir, watch=watch, **chosen)
        return await resume_task(run_dir, watch=watch, own_secrets=own, **chosen)

    return work


def order_again(header: Mapping[str, Any], instruction: str, env: str, is_tool_run: bool, is_swarm: bool) -> Order:
    """The order that a recorded run came from, as far as its header tells.

    Args:
        header: `RunHeader.settings`.
        instruction: What it was told.
        env: Kind of environment.
        is_tool_run: Whether it is a run with tools.
        is_swarm: Whether it is a swarm's.
    """
    kept = header.get("settings")
    thinking = bool(kept.get("thinking", True)) if isinstance(kept, Mapping) else True
    mode: Mode = "swarm" if is_swarm else "agent" if is_tool_run else "thinking" if thinking else "instant"
    url, app = header.get("url"), header.get("app")
    place: Place = "desktop" if env == "desktop" else "web" if url else "practice"
    return Order(
        instruction=instruction,
        mode=mode,
        place=place,
        url=url if isinstance(url, str) else None,
        app=app if isinstance(app, str) else None,
    )


def _show(session: Session, swarm: "Swarm") -> None:
    def children() -> list[dict[str, Any]]:
        return [
            {
                "id": child.id,
                "name": child.assignment.config.name[:80],
                "state": child.state,
                "calls": child.num_calls,
                "tokens": child.usage.total_tokens,
                "last": child.last_action[:160],
            }
            for child in swarm.children
        ]

    session.find_children = children
