"""Screen of a session: the newest image, pointer and next click; captured only while there are viewers."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from envs import Action, Env, EnvError, LiveFrame, LiveScreen, Observation, ScreenGeometry, Target
from envs.errors import ActionError

MAX_FPS = 10.0  # smooth enough to follow an agent; more costs processor time
Point = tuple[float, float]
"""Fractions of the image."""


@dataclass(slots=True, kw_only=True, eq=False)
class OpenScreen:
    """Browser or desktop that stays open after a run, for the next run of its session.

    Attributes:
        key: Settings and secrets that it was opened with; a run with others needs a new one.
        end_task: Ends what the task of the first run has started.
        env: Environment; None before the first run has opened it.
    """

    key: object
    end_task: Callable[[], Awaitable[None]] | None = None
    env: Env | None = None

    async def close(self) -> None:
        """Close the browser or desktop."""
        env, self.env = self.env, None
        if env is not None:
            await env.close()
        if self.end_task is not None:
            await self.end_task()


class SessionScreen:
    """Displayed state of an environment.

    Args:
        wake: Called after each change.

    Attributes:
        env: Environment of the active run.
        frame: Newest image; None before the first.
        frame_number: Number of images so far.
        geometry: Geometry of the last observation; None before the first.
        screenshot: Screenshot of the last observation.
        url: URL of the page.
        title: Title of page or window.
        pointer: Position of the pointer.
        next_click: Position of the agent's next click.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._num_viewers = 0
        self._streaming: asyncio.Task[None] | None = None
        self.frame: LiveFrame | None = None
        self.frame_number = 0
        self.reset(is_live=False)

    def reset(self, *, is_live: bool) -> None:
        """Reset the screen for a new run.

        Args:
            is_live: True if the screen may be shown between observations.
        """
        self._is_live = is_live
        self._has_live_frame = False
        self.env: Env | None = None
        self.geometry: ScreenGeometry | None = None
        self.screenshot = b""
        self.url = self.title = ""
        self.pointer: Point | None = None
        self.next_click: Point | None = None

    @contextlib.contextmanager
    def viewing(self) -> Iterator[None]:
        """Count a viewer inside the block; capture frames while there is one."""
        self._num_viewers += 1
        self._start_streaming()
        try:
            yield
        finally:
            self._num_viewers -= 1
            if not self._num_viewers:
                self.stop_streaming()

    def attach(self, env: Env) -> None:
        """Set the environment of the run."""
        self.env = env
        self._start_streaming()

    def update(self, observation: Observation) -> None:
        """Update the screen from an observation by the agent or the user."""
        self.geometry = observation.geometry
        self.screenshot = observation.screenshot
        self.url, self.title = observation.url or "", observation.title or ""
        if observation.pointer_px is not None:
            self.pointer = observation.geometry.to_model(*observation.pointer_px)
        if observation.screenshot and not (self._streaming and self._has_live_frame):
            self._show(LiveFrame(image=observation.screenshot, media_type="image/png"))

    def point_of(self, actions: Sequence[Action]) -> Point | None:
        """Return the first point of the actions."""
        point_px = _first_point_px(actions)
        return self.geometry.to_model(*point_px) if point_px is not None and self.geometry is not None else None

    async def find_target(self, actions: Sequence[Action]) -> Target | None:
        """Return what the first action with a target would activate; None if unknown."""
        env = self.env
        with contextlib.suppress(EnvError):
            for action in actions if env is not None else ():
                for target in await env.find_targets(action) if env is not None else ():
                    return target
        return None

    def stop_streaming(self) -> None:
        """Stop capturing frames."""
        watching, self._streaming = self._streaming, None
        if watching is not None:
            watching.cancel()

    def _start_streaming(self) -> None:
        if self._num_viewers and self._streaming is None and self._is_live and self.env is not None:
            self._streaming = asyncio.create_task(self._stream(self.env))

    async def _stream(self, env: Env) -> None:
        if not isinstance(env, LiveScreen):
            return
        frames = env.live_frames(MAX_FPS)
        try:
            async for frame in frames:
                self._has_live_frame = True
                self._show(frame)
        except (EnvError, ActionError):  # the environment is gone; the agent's loop reports the reason
            return
        finally:
            await frames.aclose()  # type: ignore[attr-defined]

    def _show(self, frame: LiveFrame) -> None:
        self.frame = frame
        self.frame_number += 1
        self._notify()


def _first_point_px(actions: Sequence[Action]) -> tuple[int, int] | None:
    points = ((getattr(action, "x_px", None), getattr(action, "y_px", None)) for action in actions)
    return next(((x_px, y_px) for x_px, y_px in points if x_px is not None and y_px is not None), None)
