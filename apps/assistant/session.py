"""Session with an agent: start, watch, pause, redirect, approve, take over, stop. Independent of web frameworks.

A session has three outputs: `view()`, its current state; `log`, its events, which notifies waiters; `screen`, the
newest image. Everything runs on one event loop.
"""

import asyncio
import secrets
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from apps.assistant.event_log import EventLog, shortened
from apps.assistant.questions import Answer, Questions
from apps.assistant.screen import OpenScreen, SessionScreen
from apps.assistant.undo import LastSteps
from apps.assistant.user_input import UserInput, redact_texts, to_actions
from apps.assistant.wording import phrase, phrase_reason
from apps.cli.progress import event_object, result_object
from cua.errors import CuaError
from cua.guard import GuardVerdict
from cua.json_text import Json
from cua.messages import ImagePart
from cua.run.control import Control
from cua.run.end import RunResult
from cua.run.events import (
    CallReturned,
    Decided,
    Event,
    Noted,
    Observed,
    RunEnded,
    RunStarted,
    StepDone,
    Thinking,
    ToolStepDone,
    Watch,
)
from cua.step import Turn
from envs import Action, Env, EnvError, InputDevice, SharedScreen
from visual_tools.errors import VisualError

if TYPE_CHECKING:
    from cua.swarm.child import Child
    from cua.swarm.swarm import Swarm

Phase = Literal["ready", "starting", "working", "pausing", "paused", "asking", "person", "stopping", "ended"]
Work = Callable[[Watch], Awaitable[RunResult]]
"""Work of a session: a coroutine function that runs an agent with the given watch."""

_OWN_NOTES = ("retry", "tokens")  # messages of the program; others quote a person, a page or a model
_THOUGHT_CHARS = 4000  # of a thought on the page; the report has the whole text
_ACT_TIMEOUT_S = 30.0
"""Longest wait for the end of the agent's current step before the user gets the screen."""
_STOP_TIMEOUT_S = 10.0
"""Wait for the orderly end of a run, and then for its cancellation."""
_INPUT_GRACE_S = 1.5
"""Time after a command of the user in which inputs on the screen are ignored: both may use one mouse."""


def _child_object(child: "Child", image: str) -> dict[str, Any]:
    """Return a sub-agent for a page, with the name of its newest image."""
    return {
        "id": child.id,
        "name": child.assignment.config.name[:80],
        "task": child.assignment.prompt[:300],
        "image": image,
        "state": child.state,
        "is_at_work": child.is_at_work,
        "calls": child.num_calls,
        "tokens": child.usage.total_tokens,
        "cost_usd": child.usage.cost_usd or 0.0,
        "last": child.last_action[:160],
    }


def _result_json(result: RunResult) -> Json:
    """Return a result for the page, without the folder of the run."""
    fields = result_object(result)
    return {**fields, "run_dir": None, "reason": phrase_reason(fields["reason"])}


class AssistantSession:
    """Session with an agent.

    Args:
        mode: `instant`, `thinking`, `agent` or `swarm`; for display.
        id: Id of the session; random by default.

    Attributes:
        id: Id of the session.
        mode: Mode of the last run.
        place: Place where the session's screen started; "" without a screen.
        where: Address or program of that place.
        open_screen: Screen that stays open for the next run; None without one.
        title: First instruction, for lists.
        instruction: Current instruction.
        run_id: Name of the run's folder; "" if it does not exist yet.
        result: Result of the last run; None before.
        error: Reason why it could not be started.
        log: Events of the session.
        screen: Screen of the session.
        questions: Open questions of the agent.
        swarm: Swarm of the run, whose sub-agents are shown; None without sub-agents.
    """

    def __init__(self, mode: str, id: str = "") -> None:
        self.id = id or secrets.token_hex(6)
        self.mode = mode
        self.place = self.where = ""
        self.open_screen: OpenScreen | None = None
        self.title = self.instruction = self.run_id = self.error = ""
        self.result: RunResult | None = None
        self.log = EventLog()
        self.screen = SessionScreen(self.log.notify)
        self.questions = Questions(self.screen, self.log)
        self.swarm: Swarm | None = None
        self._thought = ""
        self._child_images: dict[str, str] = {}
        self._last_steps = LastSteps()
        self._step = 0
        self._started_at = self._waited_s = 0.0
        self._tokens, self._cost_usd = 0, 0.0
        self._task: asyncio.Task[None] | None = None
        self._control: Control | None = None
        self._is_acting = self._is_stopping = False
        self._is_taken_over = False
        self._user_touch: InputDevice | None = None
        self._input_watcher: asyncio.Task[None] | None = None
        self._last_command_s = 0.0
        self._user_actions: list[Action] = []
        self._input_lock = asyncio.Lock()
        self._pause_watcher: asyncio.Task[None] | None = None

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
            if self._is_mid_step:
                return "pausing"
            return "person" if self._is_taken_over else "paused"
        return "working"

    @property
    def _is_mid_step(self) -> bool:
        """True while the screen is being opened, or actions of the agent are being executed."""
        is_held = self._control is not None and self._control.clock.is_waiting
        return not is_held and (self._is_acting or (self.screen.env is not None and self.screen.geometry is None))

    @property
    def can_continue(self) -> bool:
        """True if the next run may continue on the session's screen."""
        return not self.is_running and self.open_screen is not None and self.open_screen.env is not None

    def view(self) -> dict[str, Any]:
        """Return the current state as JSON values."""
        result = _result_json(self.result) if self.result is not None else None
        return {
            "id": self.id,
            "mode": self.mode,
            "place": self.place,
            "where": self.where,
            "can_continue": self.can_continue,
            "started_at": self._started_at,
            "title": self.title,
            "instruction": shortened(self.instruction),
            "phase": self.phase,
            "touched": self._user_touch,
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
            "children": [
                _child_object(child, self._child_images.get(child.id, ""))
                for child in (self.swarm.children if self.swarm else ())
            ],
            "run_id": self.run_id,
            "result": {**result, "answer": shortened(result["answer"] or "")} if result else None,
            "error": self.error,
            "undo": self._last_steps.advice() if self.phase in ("paused", "person", "ended") else [],
            "has_screen": self.screen.frame is not None,
            "can_take_over": self.screen.env is not None and self.is_running,
        }

    # ------------------------------------------------------------------ commands of the user

    def start(
        self,
        work: Work,
        instruction: str,
        *,
        has_live_screen: bool = True,
        undo_note: str = "",
        files: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Start a run; only one may be active.

        Args:
            work: Work of the run.
            instruction: Instruction of the user.
            has_live_screen: False to show only observations, in which secrets are masked.
            undo_note: Reason why nothing has to be undone, if that is so.
            files: Names of the files of the instruction, and of their images in the log.

        Raises:
            CuaError: If a run is active.
        """
        if self.is_running:
            raise CuaError("a run is active in this session; stop it first, or send an instruction to redirect it")
        self.instruction = instruction
        self.title = self.title or " ".join(instruction.split())[:120]
        self.result, self.error, self.run_id = None, "", ""
        self._control = self.swarm = None
        self._child_images.clear()
        self.screen.reset(is_live=has_live_screen)
        self._is_acting = self._is_stopping = self._is_taken_over = False
        self._user_touch = None
        self._last_steps = LastSteps(undo_note)
        self._thought, self._step = "", 0
        self._started_at = round(time.time(), 3)
        self._user_actions.clear()
        self.log.add("instruction", text=instruction, files=files)
        self._task = asyncio.create_task(self._run(work), name=f"assistant-session-{self.id}")

    def pause(self) -> None:
        """Pause the agent before its next model call or action."""
        self._open_control().pause()
        self._pause_watcher = asyncio.create_task(self._wait_until_paused())

    async def resume(self) -> None:
        """Resume the agent; after a take-over or a touch it makes a new observation first."""
        async with self._input_lock:
            control = self._open_control()
            if self._is_taken_over or self._user_touch:
                control.hand_back(redact_texts(self._user_actions))
            if self._is_taken_over:
                self._user_actions.clear()
                self._is_taken_over = False
                self.log.add("person", text="handed back")
            self._user_touch = None
            self._last_command_s = time.monotonic()
            control.resume()
        self.log.notify()

    def stop(self) -> None:
        """Stop the run immediately; does nothing without a run."""
        if not self.is_running or self._task is None:
            return
        self._is_stopping = True
        if self._control is not None:
            if self._is_taken_over:
                self._control.hand_back(redact_texts(self._user_actions))
            self._control.stop("stopped by the person at the screen")
        else:
            self._task.cancel()
        self.log.notify()

    def redirect(self, instruction: str) -> None:
        """Send a message to the active run: on a screen it replaces the instruction from the next step on.

        It also answers an open question of the agent: no, do this instead.
        """
        self._open_control().redirect(instruction)
        self.instruction = instruction
        self.log.add("instruction", text=instruction)
        self._last_command_s = time.monotonic()
        self.questions.deny_all()

    async def cancel_child(self, child: str) -> None:
        """End a sub-agent of the active run for good; its parent gets its last text.

        Raises:
            CuaError: If no sub-agent of this name is at work.
        """
        await self._open_swarm().cancel(child)
        self.log.notify()

    async def redirect_child(self, child: str, instruction: str) -> None:
        """Give a sub-agent of the active run a new instruction, which it sees in its next step.

        Raises:
            CuaError: If no sub-agent of this name is at work.
        """
        await self._open_swarm().redirect(child, instruction)
        self.log.add("instruction", text=f"{child}: {instruction}")

    def answer(self, approval_id: str, answer: Answer) -> None:
        """Answer a question; `site` allows the same kind of risk on this site for the session.

        Raises:
            CuaError: If it is not open any more.
        """
        self.questions.answer(approval_id, answer)
        self._last_command_s = time.monotonic()

    async def take_over(self) -> None:
        """Pause the agent, and let the user work on the screen.

        Raises:
            CuaError: If the session has no screen, or the agent does not pause in time.
        """
        control = self._open_control()
        if self.screen.env is None:
            raise CuaError("there is no screen to take over")
        control.pause()
        self._is_taken_over = True
        self.questions.deny_all()
        await self._wait_until_paused()
        if self._is_mid_step:
            raise CuaError("the agent is still in the middle of a step; try again, or stop it")
        self.log.add("person", text="took over")

    async def act(self, inputs: Sequence[UserInput]) -> str | None:
        """Execute the user's inputs; return the error message of a failed one, or None.

        Raises:
            CuaError: If the user has not taken over.
        """
        async with self._input_lock:
            if self.phase != "person" or self.screen.env is None:
                raise CuaError("take over first; the agent has the mouse and the keyboard")
            try:
                if self.screen.geometry is None:
                    self.screen.update((await self.screen.env.step(())).observation)
                assert self.screen.geometry is not None
                actions = to_actions(inputs, self.screen.geometry)
                if not actions:
                    return None
                result = await self.screen.env.step(actions)
            except EnvError as error:
                raise CuaError(str(error)) from error
            self._user_actions += actions
        self.screen.update(result.observation)
        self.log.notify()
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
        self.screen.stop_streaming()
        await self.close_screen()
        self.log.notify()

    async def close_screen(self) -> None:
        """Close the screen that stayed open after a run."""
        screen, self.open_screen = self.open_screen, None
        if screen is not None:
            await screen.close()
            self.log.notify()

    # ------------------------------------------------------------------ internals

    async def _wait_until_paused(self) -> None:
        """Wait until the agent pauses, up to the timeout of a step."""
        self.log.notify()
        deadline = time.monotonic() + _ACT_TIMEOUT_S
        while self._is_mid_step and self.is_running and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self.log.notify()

    def _on_user_input(self, touch: InputDevice) -> None:
        """Pause the agent because another person uses its screen, unless it is already waiting for the user."""
        if self.phase in ("paused", "pausing", "person"):
            self._user_touch = self._user_touch or touch  # it makes a new observation before it continues
        elif self.phase == "working" and time.monotonic() - self._last_command_s > _INPUT_GRACE_S:
            self._user_touch = touch
            self.log.add("person", text=f"used the {touch}")
            self.pause()

    async def _watch_user_input(self, screen: SharedScreen) -> None:
        async for touch in screen.user_inputs():
            self._on_user_input(touch)

    def _open_control(self) -> Control:
        if not self.is_running or self._control is None:
            raise CuaError("nothing is running in this session")
        return self._control

    def _open_swarm(self) -> "Swarm":
        if not self.is_running or self.swarm is None:
            raise CuaError("no sub-agents are at work in this session")
        return self.swarm

    async def _run(self, work: Work) -> None:
        watch = Watch(
            listener=self._listen, approver=self._ask, on_control=self._attach_control, on_env=self._attach_env
        )
        try:
            self.result = await work(watch)
        except (CuaError, EnvError, VisualError) as error:
            self.error = phrase(error)
            self.log.add("error", text=self.error)
        except asyncio.CancelledError:
            self.error = "Stopped."
            self.log.add("error", text=self.error)
        except Exception:  # outermost handler: the page stays available, the log has the details
            traceback.print_exc(file=sys.stderr)
            self.error = "Internal error of the assistant. The terminal shows the traceback."
            self.log.add("error", text=self.error)
        finally:
            for instruction in self._control.take_redirects() if self._control is not None else ():
                self.log.add(
                    "note",
                    kind="redirect",
                    text=f"the run ended before this message was read: {shortened(instruction)}",
                )
            self.screen.stop_streaming()
            if self._input_watcher is not None:
                self._input_watcher.cancel()
            self.screen.env = self._control = self.screen.next_click = None
            self._is_acting = self._is_stopping = self._is_taken_over = False
            asyncio.get_running_loop().call_soon(self.log.notify)  # after the task counts as done

    def _attach_control(self, control: Control) -> None:
        self._control = control
        if self._is_stopping:
            control.stop("stopped by the person at the screen")

    def _attach_env(self, env: Env) -> None:
        self.screen.attach(env)
        if self.open_screen is not None:
            self.open_screen.env = env
        if isinstance(env, SharedScreen):
            self._input_watcher = asyncio.create_task(self._watch_user_input(env), name=f"assistant-touches-{self.id}")

    def _listen(self, event: Event) -> None:
        if event.ids.agent_id != "main":  # the grid shows the children of a swarm
            if isinstance(event, CallReturned):
                self.log.keep_evidence(event.ids.agent_id, event.outcome)
                for part in event.outcome.result.parts:
                    if isinstance(part, ImagePart):
                        self._child_images[event.ids.agent_id] = self.log.keep_thumbnail(part.data)
            self.log.notify()
            return
        match event:
            case Thinking(text=text):
                self._thought = (self._thought + text)[-2 * _THOUGHT_CHARS :]
                self.log.notify()
                return
            case RunStarted(run_dir=run_dir):
                self.run_id = Path(run_dir).name if run_dir else ""
            case Observed(index=index, observation=observation):
                self._step, self._is_acting, self.screen.next_click, self._thought = index, False, None, ""
                self.screen.update(observation)
                self._last_steps.set_url(observation.url)
                self._waited_s = self._control.clock.waited_s if self._control is not None else 0.0
            case Decided(actions=actions):
                self._is_acting = True
                self.screen.next_click = self.screen.point_of(actions)
            case StepDone(step=step, usage=usage):
                self._is_acting, self.screen.next_click = False, None
                self.screen.pointer = self.screen.point_of(step.actions[::-1]) or self.screen.pointer
                self._last_steps.add(step)
                self._tokens, self._cost_usd = usage.total_tokens, usage.cost_usd or 0.0
            case ToolStepDone(step=tool_step, usage=usage):
                self._step, self._thought = tool_step.index, ""
                self._tokens, self._cost_usd = usage.total_tokens, usage.cost_usd or 0.0
            case RunEnded(result=result):
                self.result = result
                self.log.add("ended", **_result_json(result))
                return
            case _:
                pass
        fields = event_object(event)
        if fields is not None:
            fields.pop("run_dir", None)
            if isinstance(event, Observed):
                fields["run"], fields["image"] = self.run_id, self.log.keep_thumbnail(event.observation.screenshot)
            if isinstance(event, StepDone) and self._control is not None:
                fields["waited_s"] = round(self._control.clock.waited_s - self._waited_s, 3)
            if isinstance(event, CallReturned):
                fields["images"] = self.log.keep_images(event.outcome)
                fields["shown"] = event.outcome.result.display or event.outcome.result.text
            if isinstance(event, Noted) and event.kind in _OWN_NOTES:
                fields["text"] = phrase(event.text)
            self.log.add(str(fields.pop("event")), **fields)

    async def _ask(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        return not self._is_taken_over and await self.questions.ask(verdict, turn, actions)
