"""Requests of the user and the runs that they start: a mode, a start place, files, a run to resume."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apps.assistant.screen import OpenScreen
from apps.assistant.session import AssistantSession, Work
from apps.cli.swarm import DEMO_SETTINGS
from apps.demo.task import INSTRUCTION, ExpenseTask
from cua.assemble import INSTANT, env_spec, make_secrets, masks_secrets
from cua.config import load_settings
from cua.errors import ConfigError
from cua.run.end import RunResult
from cua.run.events import Watch
from cua.secrets import Secrets
from cua.trajectory.events import AgentMode, RunHeader
from envs import TaskVerdict
from envs.browser.navigation import to_url
from envs.errors import AddressError

if TYPE_CHECKING:
    from cua import ToolSession

Place = Literal["practice", "web", "desktop"]
MODES: dict[AgentMode, str] = {
    "instant": "uses the screen, without long thoughts",
    "thinking": "uses the screen, thinks first",
    "agent": "answers questions about files, with code in a sandbox",
    "swarm": "an orchestrator and up to 100 sub-agents",
}
PLACES: dict[str, Place] = {"Practice page": "practice", "Web address": "web", "Private desktop": "desktop"}
"""Places by their names on the page."""
MAX_FILES = 20  # as many as a question reasonably has; each is copied
PRACTICE_INSTRUCTION = INSTRUCTION
"""Instruction that the practice page can verify; others may be tried on it."""
PRACTICE_SWARM = (
    'Collect Bridge, Opened, Designer of all bridges in Tarsia that are listed on "List of bridges in Tarsia".'
)
"""Question that the embedded model can answer as a swarm, on a small generated web."""


EXAMPLES = (
    {"title": "Read a total", "request": {"instruction": "Click Summary. Tell me the Total.", "place": "practice"}},
    {"title": "Collect facts with a swarm", "request": {"instruction": PRACTICE_SWARM, "mode": "swarm"}},
    {"title": "Look at a website", "request": {"instruction": "Tell me the heading of the page.", "place": "web"}},
)
"""Requests that a new person may start with; the first two need no endpoint."""


class RunRequest(BaseModel):
    """Request of the user.

    Attributes:
        instruction: Text of the instruction.
        mode: Mode of the agent.
        place: Start place of a mode with a screen: the practice page, a web address, a private desktop, or the screen
            that the last run of the session has left open.
        url: Start URL (web).
        app: Program to start (desktop).
        files: Names of uploaded files.
        settings: Settings for this run only, as on the command line.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: str = Field(min_length=1, max_length=200_000)
    mode: AgentMode = "thinking"
    place: Place | Literal["here"] = "practice"
    url: str | None = Field(default=None, max_length=8000)
    app: str | None = Field(default=None, max_length=2000)
    files: tuple[str, ...] = Field(default=(), max_length=MAX_FILES)
    settings: dict[str, Any] = Field(default_factory=dict, max_length=100)

    @property
    def is_on_screen(self) -> bool:
        """True if the mode uses a screen."""
        return self.mode in ("instant", "thinking")


class PracticeTask(ExpenseTask):
    """Any instruction in the practice app; only the default instruction is verified.

    The app runs until `stop`: a later run of the session may continue on its page.
    """

    def __init__(self, instruction: str) -> None:
        super().__init__()
        self.instruction = instruction

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Evaluate the default instruction; other instructions cannot be verified."""
        return await super().evaluate(env) if self.instruction.strip() == INSTRUCTION else TaskVerdict(None)

    async def teardown(self, env: Any) -> None:
        """Leave the app running."""

    async def stop(self) -> None:
        """Stop the app."""
        await super().teardown(None)


def settings_of(request: RunRequest, base: Mapping[str, Any], denied: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings of a run by name.

    Args:
        request: Request of the user; its settings take precedence.
        base: Settings of the app.
        denied: Hosts that the browser may not open, in addition to those of the settings.

    Raises:
        ConfigError: If one of them is unknown or invalid, or the start address is no web address.
    """
    if request.is_on_screen and request.place == "web":
        _check_address(request.url or "")
    chosen = {**base, **request.settings}
    if request.is_on_screen and request.place != "desktop" and denied:
        chosen["deny_domains"] = (*load_settings(chosen).settings.deny_domains, *denied)
    if request.is_on_screen:
        chosen["thinking"] = request.mode == "thinking"
        if request.mode == "instant":
            chosen["preset"] = INSTANT
        chosen["env"] = "desktop" if request.place == "desktop" else "browser"
    settings = load_settings(chosen).settings
    if request.mode == "agent" and settings.has_embedded_model:
        raise ConfigError(
            "agent mode needs a model that calls tools. Name it and its endpoint under Settings, or use another mode"
        )
    return chosen


def _check_address(url: str) -> None:
    """Check an address to start at: a file of this machine would be shown to the model.

    Raises:
        ConfigError: If it is no web address.
    """
    if not url.strip():
        raise ConfigError("an address is needed to start at, such as https://example.com")
    try:
        to_url(url)
    except AddressError as error:
        file = ". Upload a file to use it" if url.strip().lower().startswith("file:") else ""
        raise ConfigError(f"the start page cannot be opened: {error}{file}") from error


def has_live_screen(chosen: Mapping[str, Any], own: Secrets) -> bool:
    """Return True if the screen may be shown between observations: only if the environment masks secrets itself."""
    settings = load_settings(chosen).settings
    return masks_secrets(settings) or not make_secrets(settings, overrides=own).by_name


def undo_note_for(request: RunRequest, chosen: Mapping[str, Any]) -> str:
    """Return the reason why nothing has to be undone after a run; "" if something may have to be."""
    settings = load_settings(chosen).settings
    if request.is_on_screen and request.place == "practice":
        return "Nothing to undo: each start has a new practice page."
    if request.is_on_screen and request.place == "desktop" and settings.display is None:
        return "The private desktop ends with the session: nothing to undo there. What was sent stays sent."
    if not request.is_on_screen and settings.sandbox != "none":
        return "Your files are as they were: its code works on copies. Changes made by MCP servers are not undone."
    return ""


_POLICY = {
    "ask": "It asks about every step",
    "auto": "It asks about risky steps",
    "yolo": "It asks only where a rule requires it",
}


def policy_of(chosen: Mapping[str, Any]) -> str:
    """Return the approval policy of a run as a sentence for users."""
    settings = load_settings(chosen).settings
    rules = f" Rules are in {settings.policy.name}." if settings.policy else ""
    sites = f" It may open only {', '.join(settings.allow_domains)}." if settings.allow_domains else ""
    return f"{_POLICY[settings.approve]}.{rules}{sites}"


def screen_key(chosen: Mapping[str, Any], own: Secrets) -> object:
    """Return what an open screen was opened with: a run with another key needs a new screen."""
    return env_spec(load_settings(chosen).settings), own


def screen_work(
    session: AssistantSession, request: RunRequest, chosen: Mapping[str, Any], uploads: Path | None, own: Secrets
) -> Work:
    """Return the work of a GUI agent, with the app's own secrets; its screen stays open for the session's next run."""
    seen_url = session.screen.url if session.place == "web" else None

    async def work(watch: Watch) -> RunResult:
        from cua import run_task

        more: dict[str, Any] = {**chosen, "own_secrets": own, "watch": watch, "keeps_env": True}
        kept = session.open_screen
        if request.place == "here" and kept is not None:
            url = seen_url if (seen_url or "").startswith("http") else None
            return await run_task(request.instruction, url=url, open_env=kept.env, **more)
        await session.close_screen()
        more |= {"uploads": uploads} if uploads else {}
        screen = session.open_screen = OpenScreen(key=screen_key(chosen, own))
        if request.place == "practice":
            task = PracticeTask(request.instruction)
            screen.end_task = task.stop
            return await run_task(task, **more)
        return await run_task(request.instruction, url=request.url, app=request.app, **more)

    return work


class ToolConversation:
    """Questions to an agent with tools, which keeps its Python state and its files between them."""

    def __init__(self, chosen: Mapping[str, Any]) -> None:
        self._chosen = chosen
        self._session: ToolSession | None = None

    def ask(self, question: str, files: list[Path]) -> Work:
        """Return the work of the next question."""

        async def work(watch: Watch) -> RunResult:
            from cua import ToolSession

            if self._session is None:
                self._session = await ToolSession(watch=watch, **self._chosen).__aenter__()
            return await self._session.ask(question, files)

        return work

    async def close(self) -> None:
        """Stop the kernel and write the evidence."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def swarm_work(session: AssistantSession, request: RunRequest, chosen: Mapping[str, Any], files: list[Path]) -> Work:
    """Return the work of a swarm, whose sub-agents are shown in the session."""

    async def work(watch: Watch) -> RunResult:
        from cua.swarm import run_swarm

        given = DEMO_SETTINGS if load_settings(chosen).settings.has_embedded_model else {}
        done = await run_swarm(
            request.instruction, files, watch=watch, on_swarm=partial(setattr, session, "swarm"), **{**chosen, **given}
        )
        return done.run

    return work


def resume_work(session: AssistantSession, run_dir: Path, chosen: Mapping[str, Any], own: Secrets) -> Work:
    """Return the work that resumes a run that was interrupted, stopped or capped."""

    async def work(watch: Watch) -> RunResult:
        from cua import resume_ask, resume_task
        from cua.swarm import resume_swarm
        from cua.swarm.report import is_swarm
        from cua.trajectory import load_run

        record = load_run(run_dir, images=0)
        if is_swarm(record):
            done = await resume_swarm(run_dir, watch=watch, on_swarm=partial(setattr, session, "swarm"), **chosen)
            return done.run
        if record.is_tool_run:
            return await resume_ask(run_dir, watch=watch, **chosen)
        return await resume_task(run_dir, watch=watch, own_secrets=own, **chosen)

    return work


def request_of_header(header: RunHeader) -> RunRequest:
    """Return the request of a recorded run, reconstructed from its header."""
    url, app = header.settings.get("url"), header.settings.get("app")
    place: Place = "desktop" if header.env == "desktop" else "web" if url else "practice"
    return RunRequest(
        instruction=header.instruction,
        mode=header.mode,
        place=place,
        url=url if isinstance(url, str) else None,
        app=app if isinstance(app, str) else None,
    )
