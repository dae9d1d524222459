"""`GuestEnv`: a desktop on another machine (a VM, a container), controlled through OSWorld's guest server."""

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envs.actions import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    PressKey,
    Terminate,
    TypeText,
    Wait,
    normalize_key,
)
from envs.env import Task
from envs.errors import ActionError, EnvDiedError, EnvError, EnvSetupError
from envs.geometry import ScreenGeometry
from envs.observation import Observation, StepResult
from envs.suites.osworld.guest_answers import png_size_px
from envs.suites.osworld.guest_client import GuestClient, UncertainError
from envs.suites.osworld.pyautogui_code import make_program
from envs.target import UNKNOWN_TARGET, ActionCheck, Target

_KILL_TIMEOUT_S = 5.0  # the guest may hang; the episode is over anyway
_EXECUTE_LIMIT_S = 115.0
"""Time limit for a program; the server kills it after 120 s."""
_POLL_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestOptions:
    """Address of a guest, and its timeouts.

    Attributes:
        host: Name or address of the guest.
        server_port: Port of the guest server.
        chromium_port: Debugging port of its browser.
        vlc_port: Port of VLC's web interface; 0 if it cannot be reached.
        token: Token that the guest server requires; upstream's server requires none.
        password: Password of the user that runs the programs, for `sudo` in tasks.
        pause_s: Pause after the actions of a step, before the screenshot; upstream: 5 s.
        settle_timeout_s: Maximum wait after that until two screenshots are equal; 0 does not wait.
        screen_px: Required screen size; None accepts any.
        recordings_dir: Folder for a screen recording of each episode, `ID-NUMBER.mp4`; None disables recording.
    """

    host: str = "127.0.0.1"
    server_port: int = 5000
    chromium_port: int = 9222
    vlc_port: int = 8080
    token: str | None = None
    password: str = "password"
    pause_s: float = 0.5
    settle_timeout_s: float = 3.0
    screen_px: tuple[int, int] | None = None
    recordings_dir: Path | None = None

    @property
    def base_url(self) -> str:
        """Address of the guest server."""
        return f"http://{self.host}:{self.server_port}"


class GuestProvider(Protocol):
    """Interface that starts guests, and resets them to a clean state."""

    async def fresh(self, given: GuestOptions) -> GuestOptions:
        """Return `given` with the address of a guest in a clean state.

        Raises:
            EnvSetupError: If no guest is available.
        """
        ...

    async def why_gone(self) -> str | None:
        """Return why the guest is gone, for display; None if it is running, or the reason is unknown."""
        ...

    async def close(self) -> None:
        """Stop the guest. May be called twice."""
        ...


class GuestEnv:
    """Screen of a guest; implements `envs.env.Env`.

    No action is sent twice, even if the guest answers with an error after executing it.

    Args:
        options: Address and timeouts of the guest.
        provider: Starts the guest, and provides a clean one at each reset; None for an external machine, which is used
            without a reset and left running.

    Attributes:
        terminate: The `Terminate` action that ended the current episode, else None.
        options: The given options.
    """

    def __init__(self, options: GuestOptions | None = None, provider: GuestProvider | None = None) -> None:
        self.options = options or GuestOptions()
        self._provider = provider
        self.terminate: Terminate | None = None
        self._guest: GuestClient | None = None
        self._screen_px = (0, 0)
        self._held: dict[str, Action] = {}
        self._recorded: str | None = None

    @property
    def guest(self) -> GuestClient:
        """Client of the guest, for tasks.

        Raises:
            EnvError: If the environment was not reset, or is closed.
        """
        if self._guest is None:
            raise EnvError("this guest is not in use: call reset first (and not after close)")
        return self._guest

    @property
    def screen_px(self) -> tuple[int, int]:
        """Width and height of the guest's screen."""
        return self._screen_px

    @property
    def held(self) -> frozenset[str]:
        """Names of the keys and mouse buttons that are held down (`"shift"`, `"left button"`)."""
        return frozenset(self._held)

    async def reset(self, task: Task) -> Observation:
        """Release held inputs, get a clean guest from the provider, run `task.setup(self)`, and return an observation.

        Raises:
            EnvSetupError: If the guest does not answer, or its screen does not have the required size.
        """
        await self._release_held()
        self.terminate = None
        if self._provider is not None:
            self.options = await self._provider.fresh(self.options)
        self._guest = GuestClient(self.options.base_url, token=self.options.token)
        try:
            await self._connect()
            await task.setup(self)
            if self.options.recordings_dir is not None:
                await self.guest.start_recording()
                self._recorded = task.spec.id or "episode"
            return await self._look(None)
        except BaseException:
            await self.close()
            raise

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Execute actions in order, and return an observation once the screen has settled.

        Args:
            actions: Actions to execute.
            check: Called before each input that may activate something; the target is unknown here.

        Returns:
            `info["timings"]` has seconds by stage (`act`, `observe`).

        Raises:
            EnvDiedError: If the guest is gone.
            EnvError: If the environment was not reset, or is closed.
        """
        _ = self.guest
        try:
            return await self._step(actions, check)
        except EnvDiedError as error:
            why = await self._provider.why_gone() if self._provider is not None else None
            raise EnvDiedError(f"{error} ({why})" if why else str(error)) from error

    async def _step(self, actions: Sequence[Action], check: ActionCheck | None) -> StepResult:
        began_s = time.monotonic()
        error = None
        try:
            terminate = await self._act(actions, check)
        except ActionError as failed:
            error, terminate = str(failed), None
        if terminate is not None:
            self.terminate = terminate
        acted_s = time.monotonic()
        if actions and terminate is None:
            await asyncio.sleep(self.options.pause_s)
        observation = await self._look(error)
        timings = {"act": acted_s - began_s, "observe": time.monotonic() - acted_s}
        return StepResult(observation=observation, terminated=terminate is not None, info={"timings": timings})

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Return a placeholder target for actions that may activate something; the guest is not queried."""
        return (UNKNOWN_TARGET,) if _may_activate(action) else ()

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Return None: the guest is not queried."""
        return None

    async def release(self) -> None:
        """Release keys and buttons that are held down; called by a task before its verdict.

        Raises:
            EnvError: If the guest did not release them.
        """
        held, self._held = self._held, {}
        ups: list[Action] = []
        for action in reversed(held.values()):
            if isinstance(action, KeyDown):
                ups.append(KeyUp(key=action.key))
            elif isinstance(action, MouseDown):
                ups.append(MouseUp(button=action.button))
        try:
            await self._send(ups, 0)
        except ActionError as error:
            raise EnvError(f"what was held down was not released: {error}") from error

    async def close(self) -> None:
        """Release held inputs and disconnect; stop the guest if a provider started it. May be called twice."""
        try:
            await self._release_held()
        finally:
            if self._provider is not None:
                await self._provider.close()

    async def _release_held(self) -> None:
        guest = self._guest
        if guest is None:
            return
        try:
            with contextlib.suppress(EnvError):
                await asyncio.shield(asyncio.ensure_future(self.release()))
            with contextlib.suppress(EnvError, OSError):  # it is lost if the guest is gone
                await self._keep_recording(guest)
        finally:
            self._guest = None
            await guest.close()

    async def _keep_recording(self, guest: GuestClient) -> None:
        """Save the recording of the current episode."""
        name, self._recorded = self._recorded, None
        folder = self.options.recordings_dir
        if name is not None and folder is not None:
            data = await guest.end_recording()
            await asyncio.to_thread(_save_numbered, folder, name.replace("/", "_"), data)

    async def _connect(self) -> None:
        try:
            size_px = await self.guest.screen_size_px()
        except EnvError as error:
            raise EnvSetupError(
                f"the guest cannot be used: {error}. Check with: cua eval osworld --doctor", retryable=error.retryable
            ) from error
        wanted = self.options.screen_px
        if wanted is not None and wanted != size_px:
            raise EnvSetupError(f"the guest's screen is {size_px[0]}x{size_px[1]} px, expected {wanted[0]}x{wanted[1]}")
        self._screen_px = size_px

    async def _act(self, actions: Sequence[Action], check: ActionCheck | None) -> Terminate | None:
        """Execute actions; consecutive ones without a check or a wait are sent together.

        Raises:
            ActionError: If an action failed or was rejected by `check`.
        """
        begin = 0
        for number, action in enumerate(actions):
            self._check_place(action)
            if isinstance(action, Wait | Terminate) or (check is not None and _may_activate(action)):
                await self._send(actions[begin:number], begin)
                begin = number
            if isinstance(action, Wait):
                await asyncio.sleep(action.duration_s)
                begin = number + 1
            elif isinstance(action, Terminate):
                return action
            elif check is not None and _may_activate(action):
                await check(number, action, await self.find_targets(action))
        await self._send(actions[begin:], begin)
        return None

    async def _send(self, actions: Sequence[Action], first: int) -> None:
        """Send a batch of actions to the guest.

        Raises:
            ActionError: If an action failed; the actions after it were not started.
            EnvDiedError: If the guest is gone.
        """
        if not actions:
            return
        marker = f"k25-{uuid.uuid4().hex}"
        program = make_program(actions, marker)
        if program.duration_s > _EXECUTE_LIMIT_S:
            raise ActionError(
                f"these actions take {program.duration_s:.0f} s, at most {_EXECUTE_LIMIT_S:.0f} s are possible in one "
                "step. Do less in one step"
            )
        self._note_held(actions)
        try:
            ended = await self.guest.execute(["python3", "-c", program.code])
        except UncertainError as error:
            raise ActionError(f"{error}; look at the screen before it is done again") from error
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._kill(marker)))
            raise
        if ended.returncode != 0:
            begun = [int(line) for line in ended.stdout.split() if line.isdigit()]
            lines = ended.stderr.strip().splitlines() or ["no error output"]
            number = first + (begun[-1] if begun else 0)
            raise ActionError(f"action {number + 1} failed on the guest: {lines[-1][:300]}")

    async def _kill(self, marker: str) -> None:
        with contextlib.suppress(EnvError, TimeoutError):
            await asyncio.wait_for(self.guest.execute(["pkill", "-9", "-f", marker]), _KILL_TIMEOUT_S)

    def _check_place(self, action: Action) -> None:
        x_px, y_px = getattr(action, "x_px", None), getattr(action, "y_px", None)
        width, height = self._screen_px
        if (x_px is not None and not 0 <= x_px < width) or (y_px is not None and not 0 <= y_px < height):
            raise ActionError(f"({x_px}, {y_px}) is not on the screen, which is {width}x{height} px")

    def _note_held(self, actions: Sequence[Action]) -> None:
        """Update the held keys and buttons; a sent key counts as held even if its program failed."""
        for action in actions:
            match action:
                case KeyDown(key=key):
                    with contextlib.suppress(ValueError):
                        self._held[normalize_key(key)] = action
                case KeyUp(key=key):
                    with contextlib.suppress(ValueError):
                        self._held.pop(normalize_key(key), None)
                case MouseDown(button=button):
                    self._held[f"{button} button"] = action
                case MouseUp(button=button):
                    self._held.pop(f"{button} button", None)

    async def _look(self, error: str | None) -> Observation:
        png = await self._settled_screenshot()
        size_px = png_size_px(png)
        if size_px != self._screen_px:
            raise EnvDiedError(
                f"the guest's screenshot is {size_px[0]}x{size_px[1]} px, its screen {self._screen_px[0]}x"
                f"{self._screen_px[1]} px: its screen has changed"
            )
        return Observation(
            screenshot=png,
            geometry=ScreenGeometry(native_px=size_px, sent_px=size_px),
            pointer_px=await self.guest.pointer_px(),
            last_action_error=error,
        )

    async def _settled_screenshot(self) -> bytes:
        """Return a screenshot that equals the one before it, or the last one at the timeout."""
        until_s = time.monotonic() + self.options.settle_timeout_s
        png = await self.guest.screenshot()
        while time.monotonic() < until_s:
            await asyncio.sleep(_POLL_S)
            before, png = png, await self.guest.screenshot()
            if png == before:
                break
        return png


def _save_numbered(folder: Path, name: str, data: bytes) -> None:
    """Write `NAME-1.mp4`, or the next unused number."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        with contextlib.suppress(FileExistsError), (folder / f"{name}-{number}.mp4").open("xb") as file:
            file.write(data)
            return


def _may_activate(action: Action) -> bool:
    match action:
        case Click() | Drag() | MouseDown() | MouseUp() | PressKey() | Hotkey() | KeyDown():
            return True
        case TypeText(text=text):
            return "\n" in text or "\r" in text
    return False
