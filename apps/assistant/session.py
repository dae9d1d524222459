"""Session with an agent: start, watch, pause, redirect, approve, take over, stop. Independent of web frameworks.

A session has three outputs: `view()`, its current state; `log`, its events, which notifies waiters; `screen`, the
newest image. Everything runs on one event loop.
"""

import asyncio
import io
import secrets
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from apps.assistant.event_log import EventLog, shortened
from apps.assistant.person import PersonInput, to_actions, without_texts
from apps.assistant.screen import Screen
from apps.assistant.undo import LastSteps
from apps.cli.progress import event_object, result_object
from cua.errors import CuaError
from cua.guard import GuardVerdict
from cua.run.control import Control
from cua.run.end import RunResult
from cua.run.events import (
    CallReturned,
    Decided,
    Event,
    Observed,
    RunEnded,
    RunStarted,
    StepDone,
    Thinking,
    ToolStepDone,
    Watch,
)
from cua.step import Turn
from envs import Action, Env, EnvError, SharedScreen, Touch
from visual_tools.errors import VisualError

Phase = Literal["ready", "starting", "working", "pausing", "paused", "asking", "person", "stopping", "ended"]
Answer = Literal["once", "site", "deny"]
Work = Callable[[Watch], Awaitable[RunResult]]
"""Work of a session: a coroutine function that runs an agent with the given watch."""

_THOUGHT_CHARS = 4000
_CROP_PX = (420, 240)
_ACT_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_TOUCH_GRACE_S = 1.5
"""Time after a command of the user in which touches are ignored: the hand may still be on the same desktop's mouse."""


@dataclass(slots=True, kw_only=True, eq=False)
class Approval:
    """Question to the user.

    Attributes:
        id: Id of the question.
        reason: Reason for the question.
        risk: Kind of risk, "" for none.
        action: Agent's description of its action.
        code: Code to be run.
        target: Target of the click, as described by the environment.
        site: Host of the page, "" if there is none.
        crop: The image around the click, PNG.
        answer: Future of the answer; True allows the action.
    """

    id: str
    reason: str
    risk: str
    action: str
    code: str
    target: str
    site: str
    crop: bytes = field(repr=False)
    answer: "asyncio.Future[bool]"

    def to_json(self) -> dict[str, Any]:
        """Return the fields for a page."""
        names = ("id", "reason", "risk", "action", "code", "target", "site")
        return {name: shortened(getattr(self, name)) for name in names} | {"has_crop": bool(self.crop)}


class Questions:
    """Questions of one session.

    Args:
        screen: Screen on which the agent acts.
        log: Log for questions and answers.

    Attributes:
        open: Open questions, by id.
        policy: Approval policy as text for users.
    """

    def __init__(self, screen: Screen, log: EventLog) -> None:
        self.open: dict[str, Approval] = {}
        self.policy = ""
        self._screen, self._log = screen, log
        self._allowed: set[tuple[str, str]] = set()

    async def ask(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        """Wait for the user's answer; True allows the actions."""
        screen = self._screen
        site, risk = urlsplit(screen.url).netloc, verdict.risk or ""
        if (site, risk) in self._allowed:
            return True
        approval = Approval(
            id=secrets.token_hex(6),
            reason=verdict.reason,
            risk=risk,
            action=turn.action_text,
            code=turn.code,
            target=await screen.describe_target(actions),
            site=site,
            crop=await asyncio.to_thread(_crop_around, screen.screenshot, screen.point_of(actions)),
            answer=asyncio.get_running_loop().create_future(),
        )
        self.open[approval.id] = approval
        self._log.tell("asked", text=verdict.reason, approval=approval.id)
        try:
            is_allowed = await approval.answer
        finally:
            del self.open[approval.id]
            self._log.wake()
        self._log.tell("answered", text="allowed" if is_allowed else "denied", approval=approval.id)
        return is_allowed

    def answer(self, name: str, answer: Answer) -> None:
        """Answer a question; `site` allows the same kind of risk on this site for the session.

        Texts of a page that are addressed to the agent are still asked about, each of them.

        Raises:
            CuaError: If it is not open any more.
        """
        approval = self.open.get(name)
        if approval is None or approval.answer.done():
            raise CuaError("this question is not open any more")
        if answer == "site" and approval.risk != "page_text":
            self._allowed.add((approval.site, approval.risk))
        approval.answer.set_result(answer != "deny")

    def deny_all(self) -> None:
        """Deny all open questions."""
        for approval in self.open.values():
            if not approval.answer.done():
                approval.answer.set_result(False)


def _crop_around(png: bytes, point: tuple[float, float] | None) -> bytes:
    """Return the part of a screenshot around a point, with a ring at the point; b"" without either.

    Args:
        png: Screenshot as PNG.
        point: Position as fractions of the image.
    """
    if not png or point is None:
        return b""
    from PIL import Image, ImageDraw

    image = Image.open(io.BytesIO(png)).convert("RGB")
    width, height = min(_CROP_PX[0], image.width), min(_CROP_PX[1], image.height)
    x, y = point[0] * image.width, point[1] * image.height
    left = min(max(round(x - width / 2), 0), image.width - width)
    top = min(max(round(y - height / 2), 0), image.height - height)
    crop = image.crop((left, top, left + width, top + height))
    draw = ImageDraw.Draw(crop)
    for radius, colour in ((17, "white"), (16, "#d9480f"), (15, "#d9480f"), (14, "white")):
        draw.ellipse((x - left - radius, y - top - radius, x - left + radius, y - top + radius), outline=colour)
    buffer = io.BytesIO()
    crop.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


class Session:
    """Session with an agent.

    Args:
        mode: `instant`, `thinking`, `agent` or `swarm`; for display.
        id: Id of the session; random by default.

    Attributes:
        id: Id of the session.
        mode: Mode, as given.
        title: First instruction, for lists.
        instruction: Current instruction.
        run_id: Name of the run's folder; "" if it does not exist yet.
        result: Result of the last run; None before.
        error: Reason why it could not be started.
        log: Events of the session.
        screen: Screen of the session.
        questions: Open questions of the agent.
        find_children: Returns the sub-agents of a swarm as JSON values.
    """

    def __init__(self, mode: str, id: str = "") -> None:
        self.id = id or secrets.token_hex(6)
        self.mode = mode
        self.title = self.instruction = self.run_id = self.error = ""
        self.result: RunResult | None = None
        self.log = EventLog()
        self.screen = Screen(self.log.wake)
        self.questions = Questions(self.screen, self.log)
        self.find_children: Callable[[], list[dict[str, Any]]] | None = None
        self._thought = ""
        self._done = LastSteps()
        self._step = 0
        self._tokens, self._cost_usd = 0, 0.0
        self._task: asyncio.Task[None] | None = None
        self._control: Control | None = None
        self._is_acting = self._is_stopping = False
        self._is_taken = False
        self._touched: Touch | None = None
        self._feeling: asyncio.Task[None] | None = None
        self._last_word_s = 0.0
        self._by_person: list[Action] = []
        self._person_lock = asyncio.Lock()
        self._holding: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ state

    @property
    def is_running(self) -> bool:
        """True while a run is active."""
        return self._task is not None and not self._task.done()

    @property
    def phase(self) -> Phase:
        """Current phase."""
        if not self.is_running:
            return "ended" if self.result or self.error else "ready"
        if self._is_stopping:
            return "stopping"
        if self.questions.open:
            return "asking"
        if self._control is None:
            return "starting"
        if self._control.is_paused:
            if self._acts_now:
                return "pausing"
            return "person" if self._is_taken else "paused"
        return "working"

    @property
    def _acts_now(self) -> bool:
        """True while the screen is being opened, or actions of the agent are being executed."""
        is_held = self._control is not None and self._control.clock.is_waiting
        return not is_held and (self._is_acting or (self.screen.env is not None and self.screen.geometry is None))

    def view(self) -> dict[str, Any]:
        """Return the current state as JSON values."""
        result = result_object(self.result) if self.result is not None else None
        return {
            "id": self.id,
            "mode": self.mode,
            "title": self.title,
            "instruction": shortened(self.instruction),
            "phase": self.phase,
            "touched": self._touched,
            "step": self._step,
            "thought": self._thought[-_THOUGHT_CHARS:],
            "url": shortened(self.screen.url),
            "tab": shortened(self.screen.title),
            "size_px": list(self.screen.geometry.sent_px) if self.screen.geometry else None,
            "pointer": self.screen.pointer,
            "next": self.screen.next_click,
            "tokens": self._tokens,
            "cost_usd": self._cost_usd,
            "approvals": [approval.to_json() for approval in self.questions.open.values()],
            "policy": self.questions.policy,
            "children": self.find_children() if self.find_children else [],
            "run_id": self.run_id,
            "result": {**result, "run_dir": None, "answer": shortened(result["answer"] or "")} if result else None,
            "error": self.error,
            "undo": self._done.advice() if self.phase in ("paused", "person", "ended") else [],
            "has_screen": self.screen.frame is not None,
            "can_take_over": self.screen.env is not None and self.is_running,
        }

    # ------------------------------------------------------------------ commands of the user

    def start(self, work: Work, instruction: str, *, has_live_screen: bool = True, aftermath: str = "") -> None:
        """Start a run; only one may be active.

        Args:
            work: Work of the run.
            instruction: Instruction of the user.
            has_live_screen: False to show only observations, in which secrets are masked.
            aftermath: Reason why nothing has to be undone, if that is so.

        Raises:
            CuaError: If a run is active.
        """
        if self.is_running:
            raise CuaError("this session is at work; stop it first, or send a sentence to redirect it")
        self.instruction = instruction
        self.title = self.title or " ".join(instruction.split())[:120]
        self.result, self.error, self.run_id = None, "", ""
        self._control = None
        self.screen.begin(is_live=has_live_screen)
        self._is_acting = self._is_stopping = self._is_taken = False
        self._touched = None
        self._done = LastSteps(aftermath)
        self._thought, self._step = "", 0
        self._by_person.clear()
        self.log.tell("said", text=instruction)
        self._task = asyncio.create_task(self._run(work), name=f"assistant-session-{self.id}")

    def pause(self) -> None:
        """Pause the agent before its next model call or action."""
        self._open_control().pause()
        self._holding = asyncio.create_task(self._until_held())

    async def resume(self) -> None:
        """Resume the agent; after a take-over or a touch it makes a new observation first."""
        async with self._person_lock:
            control = self._open_control()
            if self._is_taken or self._touched:
                control.hand_back(without_texts(self._by_person))
            if self._is_taken:
                self._by_person.clear()
                self._is_taken = False
                self.log.tell("person", text="handed back")
            self._touched = None
            self._last_word_s = time.monotonic()
            control.resume()
        self.log.wake()

    def stop(self) -> None:
        """Stop the run immediately; does nothing without a run."""
        if not self.is_running or self._task is None:
            return
        self._is_stopping = True
        if self._control is not None:
            if self._is_taken:
                self._control.hand_back(without_texts(self._by_person))
            self._control.stop("stopped by the person at the screen")
        else:
            self._task.cancel()
        self.log.wake()

    def redirect(self, instruction: str) -> None:
        """Send a message to the active run: on a screen it replaces the instruction from the next step on.

        It also answers an open question of the agent: no, do this instead.
        """
        self._open_control().redirect(instruction)
        self.instruction = instruction
        self.log.tell("said", text=instruction)
        self._last_word_s = time.monotonic()
        self.questions.deny_all()

    def answer(self, approval_id: str, answer: Answer) -> None:
        """Answer a question; `site` allows the same kind of risk on this site for the session.

        Raises:
            CuaError: If it is not open any more.
        """
        self.questions.answer(approval_id, answer)
        self._last_word_s = time.monotonic()

    async def take_over(self) -> None:
        """Pause the agent, and let the user work on the screen.

        Raises:
            CuaError: If the session has no screen, or the agent does not pause in time.
        """
        control = self._open_control()
        if self.screen.env is None:
            raise CuaError("there is no screen to take over")
        control.pause()
        self._is_taken = True
        self.questions.deny_all()
        await self._until_held()
        if self._acts_now:
            raise CuaError("the agent is still in the middle of a step; try again, or stop it")
        self.log.tell("person", text="took over")

    async def act(self, inputs: Sequence[PersonInput]) -> str | None:
        """Execute the user's inputs; return the error message of a failed one, or None.

        Raises:
            CuaError: If the user has not taken over.
        """
        async with self._person_lock:
            if self.phase != "person" or self.screen.env is None:
                raise CuaError("take over first; the agent has the mouse and the keyboard")
            try:
                if self.screen.geometry is None:
                    self.screen.see((await self.screen.env.step(())).observation)
                assert self.screen.geometry is not None
                actions = to_actions(inputs, self.screen.geometry)
                if not actions:
                    return None
                result = await self.screen.env.step(actions)
            except EnvError as error:
                raise CuaError(str(error)) from error
            self._by_person += actions
        self.screen.see(result.observation)
        self.log.wake()
        return result.observation.last_action_error

    async def close(self) -> None:
        """Stop the run, and wait for all tasks to end."""
        self.stop()
        task = self._task
        if task is not None:
            await asyncio.wait({task}, timeout=_STOP_TIMEOUT_S)
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_STOP_TIMEOUT_S)
        self.screen.unwatch()
        self.log.wake()

    # ------------------------------------------------------------------ internals

    async def _until_held(self) -> None:
        """Wait until the agent pauses, up to the timeout of a step."""
        self.log.wake()
        deadline = time.monotonic() + _ACT_TIMEOUT_S
        while self._acts_now and self.is_running and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self.log.wake()

    def _touch(self, touch: Touch) -> None:
        """Pause the agent because another person uses its screen, unless it is already waiting for the user."""
        if self.phase in ("paused", "pausing", "person"):
            self._touched = self._touched or touch  # it makes a new observation before it continues
        elif self.phase == "working" and time.monotonic() - self._last_word_s > _TOUCH_GRACE_S:
            self._touched = touch
            self.log.tell("person", text=f"used the {touch}")
            self.pause()

    async def _feel(self, screen: SharedScreen) -> None:
        async for touch in screen.touches():
            self._touch(touch)

    def _open_control(self) -> Control:
        if not self.is_running or self._control is None:
            raise CuaError("nothing is running in this session")
        return self._control

    async def _run(self, work: Work) -> None:
        watch = Watch(listener=self._listen, approver=self._ask, on_control=self._connect, on_env=self._meet)
        try:
            self.result = await work(watch)
        except (CuaError, EnvError, VisualError) as error:
            self.error = str(error)
            self.log.tell("error", text=self.error)
        except asyncio.CancelledError:
            self.error = "stopped"
            self.log.tell("error", text=self.error)
        except Exception as error:  # outermost handler: the page stays available, the log has the details
            traceback.print_exc(file=sys.stderr)
            self.error = f"a defect of the assistant: {type(error).__name__}; the terminal has the details"
            self.log.tell("error", text=self.error)
        finally:
            for words in self._control.take_redirects() if self._control is not None else ():
                self.log.tell("note", kind="redirect", text=f"it ended before it heard this: {shortened(words)}")
            self.screen.unwatch()
            if self._feeling is not None:
                self._feeling.cancel()
            self.screen.env = self._control = self.screen.next_click = None
            self._is_acting = self._is_stopping = self._is_taken = False
            asyncio.get_running_loop().call_soon(self.log.wake)  # after the task counts as done

    def _connect(self, control: Control) -> None:
        self._control = control
        if self._is_stopping:
            control.stop("stopped by the person at the screen")

    def _meet(self, env: Env) -> None:
        self.screen.meet(env)
        if isinstance(env, SharedScreen):
            self._feeling = asyncio.create_task(self._feel(env), name=f"assistant-touches-{self.id}")

    def _listen(self, event: Event) -> None:
        if event.ids.agent_id != "main":  # the grid shows the children of a swarm
            if isinstance(event, CallReturned):
                self.log.keep_evidence(event.ids.agent_id, event.outcome)
            self.log.wake()
            return
        match event:
            case Thinking(text=text):
                self._thought = (self._thought + text)[-2 * _THOUGHT_CHARS :]
                self.log.wake()
                return
            case RunStarted(run_dir=run_dir):
                self.run_id = Path(run_dir).name if run_dir else ""
            case Observed(index=index, observation=observation):
                self._step, self._is_acting, self.screen.next_click, self._thought = index, False, None, ""
                self.screen.see(observation)
                self._done.see(observation.url)
            case Decided(actions=actions):
                self._is_acting = True
                self.screen.next_click = self.screen.point_of(actions)
            case StepDone(step=step, usage=usage):
                self._is_acting, self.screen.next_click = False, None
                self.screen.pointer = self.screen.point_of(step.actions[::-1]) or self.screen.pointer
                self._done.add(step)
                self._tokens, self._cost_usd = usage.total_tokens, usage.cost_usd or 0.0
            case ToolStepDone(step=tool_step, usage=usage):
                self._step, self._thought = tool_step.index, ""
                self._tokens, self._cost_usd = usage.total_tokens, usage.cost_usd or 0.0
            case RunEnded(result=result):
                self.result = result
                self.log.tell("ended", **{**result_object(result), "run_dir": None})
                return
            case _:
                pass
        told = event_object(event)
        if told is not None:
            told.pop("run_dir", None)
            if isinstance(event, CallReturned):
                told["images"] = self.log.keep_images(event.outcome)
                told["shown"] = event.outcome.result.display or event.outcome.result.text
            self.log.tell(str(told.pop("event")), **told)

    async def _ask(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        return not self._is_taken and await self.questions.ask(verdict, turn, actions)
