"""`BrowserEnv`: a Chromium page as an environment for an agent that sees pixels."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.actions import Action, Click, Terminate, Wait
from envs.browser.action_executor import BrowserActionExecutor
from envs.browser.checking import InputCheck, TargetFinder
from envs.browser.context import Folders, har_path_of
from envs.browser.input_position import PositionCheck
from envs.browser.keyboard import shortcut_of
from envs.browser.launch import RunningBrowser, launch
from envs.browser.navigation import to_url
from envs.browser.observer import Observer
from envs.browser.options import BrowserOptions
from envs.browser.overlays.dialog_box import DialogBox
from envs.browser.redact import Redactor, scrub_har
from envs.browser.screencast import watch_session
from envs.browser.session import BrowserSession
from envs.browser.settle import Interrupted
from envs.domain_rules import DomainRules
from envs.env import Task
from envs.errors import (
    ActionError,
    AddressError,
    EnvDiedError,
    EnvError,
    EnvSetupError,
    OutdatedError,
    describe_late,
)
from envs.geometry import parse_size
from envs.observation import Generation, LiveFrame, Observation, StepResult
from envs.page_request import RequestCheck
from envs.registry import EnvKind, EnvRequest
from envs.screen_texts import ScreenTexts
from envs.target import UNKNOWN_TARGET, ActionCheck, Target

if TYPE_CHECKING:
    from playwright.async_api import Page


_SCREEN_INDEPENDENT = frozenset({"new_tab", "downloads", *(f"tab_{number}" for number in range(1, 9))})
"""Shortcuts whose effect, alone in a step, does not depend on the screenshot."""
OpenBrowser = Callable[[BrowserOptions, DomainRules], Awaitable[RunningBrowser]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Episode:
    session: BrowserSession
    executor: BrowserActionExecutor
    observer: Observer
    targets: TargetFinder
    position_check: PositionCheck


class BrowserEnv:
    """Browser driven by raw mouse and keyboard; implements `envs.env.Env`.

    The browser process runs from the first reset to `close`; every reset opens a fresh context (with no cookies except
    from `storage_state`). Coordinates are CSS pixels of the viewport.

    Args:
        options: Settings of the browser.
        open_browser: Opens the browser; None launches one, `BrowserPool` leases a slot in a shared one.
    """

    def __init__(self, options: BrowserOptions | None = None, *, open_browser: OpenBrowser | None = None) -> None:
        self.options = options = options or BrowserOptions()
        self._open_browser = open_browser or launch
        self.terminate: Terminate | None = None
        self._rules = DomainRules(allowed=options.allowed_domains, denied=options.denied_domains)
        self._redact = Redactor(options.masked_texts)
        for login in options.http_logins:
            self._redact.learn(login.secrets)
        self._folders: Folders | None = None
        self._launched: RunningBrowser | None = None
        self._episode: _Episode | None = None
        self._expected: Generation | None = None
        self._num_episodes = 0
        self._is_closed = False

    @property
    def page(self) -> "Page":
        """Active Playwright page, for a task's setup and evaluation.

        Raises:
            EnvError: If there was no reset yet.
        """
        return self._open_episode().session.tabs.active

    @property
    def held(self) -> frozenset[str]:
        """Keys and mouse buttons that are down."""
        return self._episode.executor.held if self._episode is not None else frozenset()

    @property
    def downloads_dir(self) -> Path:
        """Folder of the downloads."""
        return self._open_folders().downloads

    async def show(self, page: "Page") -> None:
        """Make a page the active one, if it still exists."""
        tabs = self._open_episode().session.tabs
        tabs.activate(page)
        await tabs.bring_to_front()

    async def goto(self, url: str, *, settle: bool = True) -> None:
        """Open a URL in the active tab and wait for it, for a task's setup.

        Args:
            url: URL to open.
            settle: True to wait until the page has settled; False: only until its document begins to load.

        Raises:
            EnvSetupError: If it could not be opened; the text says why.
        """
        session = self._open_episode().session
        try:
            await session.interrupts.race(session.goto(url), self.options.navigation_timeout_s + 1.0)
            if settle:
                await session.settler.settle(session.tabs.active, time.monotonic())
        except Interrupted as interrupt:  # a dialog of the page ends the wait
            if interrupt.reason == "died":
                raise EnvDiedError("the browser process is gone") from interrupt
        except TimeoutError as error:
            raise EnvSetupError(f"{url} was not opened: the browser does not answer", retryable=True) from error
        except AddressError as error:
            raise EnvSetupError(f"{error}. Check the address.") from error
        except ActionError as error:
            hint = "Check the address, and that what serves it is running."
            raise EnvSetupError(f"{error}. {hint}", retryable=True) from error

    async def open(self) -> None:
        """End the current episode, and open a fresh context with a blank page; the first part of `reset`.

        Raises:
            EnvSetupError: If no browser can be started.
            EnvError: If the env was closed.
        """
        if self._is_closed:
            raise EnvError("this browser env was closed; make a new one")
        check_start(self.options.start_url)
        await self._end_episode()
        self.terminate = None
        await self._start_episode()

    async def reset(self, task: Task) -> Observation:
        """Open a fresh context at `start_url`, set the task up, and return an observation.

        Raises:
            EnvSetupError: If no browser can be started, or the start page does not open.
            EnvError: If the env was closed.
        """
        actions_started_s = time.monotonic()
        await self.open()
        episode = self._open_episode()
        if self.options.start_url is not None:
            await self.goto(self.options.start_url)
        await task.setup(self)
        return (await episode.observer.observe(None, actions_started_s, episode.executor.mouse.pointer_px))[0]

    async def hold_requests(self, check: RequestCheck | None) -> None:
        """Hold requests of pages until `check` has decided about them, see `envs.env.RequestHolder`.

        Raises:
            EnvSetupError: If the browser is shared.
        """
        held = self._open_episode().session.held_requests
        if check is None:
            await held.drop()
        else:
            held.start(check)

    def expect(self, generation: Generation) -> None:
        """Set the observation that the next step was decided on, see `envs.env.VersionedScreen`."""
        self._expected = generation

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Execute actions until one fails or is rejected, let the page settle, and return an observation.

        `info["timings"]` has the seconds spent on `act`, `settle` and `observe`; `info["blocked"]` the requests that
        the domain rules blocked; `info["is_outdated"]` is True if the input was refused because the screen had changed.

        Raises:
            EnvDiedError: If the browser is gone.
            EnvError: If there was no reset, or the env was closed.
        """
        episode = self._open_episode()
        if not episode.session.is_connected:
            raise EnvDiedError("the browser process is gone")
        actions_started_s = time.monotonic()
        failure: ActionError | None = None
        try:
            await self._act(episode, actions, check, actions_started_s + self.options.step_timeout_s)
        except ActionError as error:
            failure = error
        act_s = time.monotonic() - actions_started_s
        why = str(failure) if failure is not None else None
        # waits until the page settles, then takes the screenshot
        observation, info = await episode.observer.observe(why, actions_started_s, episode.executor.mouse.pointer_px)
        info["timings"] = {"act": act_s, **info["timings"]}
        info["is_outdated"] = isinstance(failure, OutdatedError)
        return StepResult(observation=observation, terminated=self.terminate is not None, info=info)

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Return what an action would activate now; `UNKNOWN_TARGET` if the page does not answer."""
        episode = self._episode
        if episode is None or not episode.session.is_connected:
            return (UNKNOWN_TARGET,)
        return await episode.targets.of_action(
            action, episode.executor.mouse.pointer_px, episode.executor.keyboard.held
        )

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Describe what would receive a click, for example `button "Delete"`; None if nothing or unknown."""
        targets = await self.find_targets(Click(x_px=x_px, y_px=y_px))
        return targets[0].text if targets else None

    async def read_texts(self) -> ScreenTexts:
        """Read the texts of the active page and its frames, see `envs.screen_texts.ReadableScreen`."""
        session = self._episode.session if self._episode is not None else None
        if session is None or not session.is_connected or not session.tabs.pages:
            return ScreenTexts()
        if isinstance(session.overlay, DialogBox) and not session.overlay.is_done:  # the page does not answer
            return ScreenTexts(is_cut=True)
        return replace(await session.texts.read(session.tabs.active), is_on_display=not self.options.headless)

    async def live_frames(self, max_fps: float) -> AsyncIterator[LiveFrame]:
        """Yield frames of the active tab as it is painted, with overlays drawn."""
        async for frame in watch_session(self._live_session, self.options, max_fps):
            yield frame

    def _live_session(self) -> BrowserSession | None:
        """Return the session to watch; None if there is none at the moment.

        Raises:
            EnvError: If the env was closed.
        """
        if self._is_closed:
            raise EnvError("this browser env was closed")
        episode = self._episode
        return episode.session if episode is not None and episode.session.is_connected else None

    async def close(self) -> None:
        """Close the browser and everything that belongs to it."""
        self._is_closed = True
        await self._end_episode()
        launched, self._launched = self._launched, None
        if launched is not None:
            await launched.close()
        if self._folders is not None:
            self._folders.remove_temporary()
            self._folders = None

    async def _act(
        self, episode: _Episode, actions: Sequence[Action], check: ActionCheck | None, until_s: float
    ) -> None:
        """Execute actions until the last one or until `until_s`.

        Raises:
            ActionError: If one failed, or the time limit has passed.
        """
        expected, self._expected = self._expected, None
        for number, action in enumerate(actions):
            if number and time.monotonic() > until_s:
                raise ActionError(describe_late(number, len(actions), self.options.step_timeout_s))
            if isinstance(action, Terminate):
                self.terminate = action
                return
            if expected is not None and not isinstance(action, Wait):
                await _check_outdated(episode, actions[number:], expected)
                expected = None
            input_check = (
                InputCheck(targets=episode.targets, check=check, number=number, action=action) if check else None
            )
            await episode.executor.act(action, input_check)

    async def _start_episode(self) -> None:
        if self._launched is not None and not self._launched.browser.is_connected():
            await self._launched.close()
            self._launched = None
        if self._launched is None:
            self._launched = await self._open_browser(self.options, self._rules)
        launched = self._launched
        self._num_episodes += 1
        context = await launched.new_context(self.options, self._num_episodes)
        session = BrowserSession(
            context,
            self.options,
            self._rules,
            self._open_folders(),
            self._redact,
            launched.filter_proxy,
            is_shared=launched.is_shared,
        )
        self._episode = self._make_episode(session)
        await session.open()

    def _make_episode(self, session: BrowserSession) -> _Episode:
        observer = Observer(session, self.options, self._redact)
        return _Episode(
            session=session,
            executor=BrowserActionExecutor(session, self.options),
            observer=observer,
            position_check=PositionCheck(session, observer),
            targets=TargetFinder(session, self.options.viewport_px, self._redact),
        )

    async def _end_episode(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            if episode.session.is_connected:
                await episode.executor.release_all()
            await episode.session.close()
            if self.options.har_path is not None:
                path = har_path_of(Path(self.options.har_path), self._num_episodes)
                await asyncio.to_thread(scrub_har, path, self._redact)
        if self._launched is not None and self._launched.is_shared:  # a slot is leased for one episode
            lease, self._launched = self._launched, None
            await lease.close()

    def _open_episode(self) -> _Episode:
        if self._is_closed:
            raise EnvError("this browser env was closed; make a new one")
        if self._episode is None:
            raise EnvError("this browser env was not reset yet")
        return self._episode

    def _open_folders(self) -> Folders:
        if self._folders is None:
            self._folders = Folders(self.options)
        return self._folders


async def _check_outdated(episode: _Episode, actions: Sequence[Action], expected: Generation) -> None:
    """Refuse the inputs of a step if the screen has changed since they were decided on.

    Args:
        episode: Current episode.
        actions: First input and the actions after it.
        expected: Generation of the observation that they were decided on.

    Raises:
        OutdatedError: If it has changed; the text says why.
        ActionError: If the screenshot only showed that the page does not respond.
    """
    session, executor = episode.session, episode.executor
    shortcut = shortcut_of(actions[0], executor.held)
    if shortcut in _SCREEN_INDEPENDENT and all(isinstance(action, Wait) for action in actions[1:]):
        return
    why = _why_outdated(session, expected)
    if why is None and not expected.frame and shortcut is None and session.overlay is None:
        raise ActionError(
            "the page did not respond to the screenshot, so nothing was done. Wait, or close the tab (ctrl+w)"
        )
    if why is None:
        # compares the pixels at the position of the input with those of the screenshot
        changed = await episode.position_check.why_changed(actions, executor.mouse.pointer_px, expected)
        why = _why_outdated(session, expected) or changed  # the screen may have changed during the comparison
    if why is not None:
        raise OutdatedError(why)


def _why_outdated(session: BrowserSession, expected: Generation) -> str | None:
    page = session.tabs.active if session.tabs.pages else None
    return session.generations.why_outdated(expected, page, session.overlay)


def check_start(url: str | None) -> None:
    """Check the start page before anything is started.

    Raises:
        EnvSetupError: If it is not a valid address; the text says what is expected.
    """
    if url is None:
        return
    try:
        to_url(url, more_schemes=frozenset({"file"}))
    except AddressError as error:
        raise EnvSetupError(f"the start page cannot be opened: {error}") from error


def parse_options(request: EnvRequest) -> BrowserOptions:
    """Parse options of a browser as named in settings and task files; other names in the request are ignored.

    Raises:
        ValueError: If a value is invalid.
    """
    options = dict(request.options)
    url, state = options.get("url"), options.get("storage_state")
    try:
        check_start(url)
    except EnvSetupError as error:
        raise ValueError(f"url {url!r}: {error}") from error
    values: dict[str, Any] = {
        "start_url": url,
        "viewport_px": parse_size("viewport", options["viewport"]) if "viewport" in options else None,
        "headless": not options.get("headed", False),
        "geolocation": _parse_position(options.get("geolocation")),
        "storage_state": state if state is not None and Path(state).exists() else None,
        "save_storage_state": state,
        "downloads_dir": request.files_dir / "downloads" if request.files_dir else None,
        "uploads_dir": options.get("uploads"),
        "har_path": options.get("har"),
        "allowed_domains": tuple(options.get("allow_domains") or ()),
        "denied_domains": tuple(options.get("deny_domains") or ()),
    }
    same = ("device_scale", "locale", "timezone", "proxy", "ignore_https_errors", "a11y_tree")
    values |= {name: options.get(name) for name in same}
    given = {name: value for name, value in values.items() if value is not None}
    return BrowserOptions(**given, masked_texts=request.masked_texts, http_logins=request.http_logins)


def _parse_position(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"geolocation is {text!r}, expected LATITUDE,LONGITUDE such as 52.52,13.405") from error
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ValueError(
            f"geolocation is {text!r}, expected a latitude from -90 to 90 and a longitude from -180 to 180"
        )
    return latitude, longitude


_SHOWN = ("viewport", "device_scale", "headed", "locale", "timezone", "allow_domains", "deny_domains")
KIND = EnvKind(
    make=lambda request: BrowserEnv(parse_options(request)),
    options=frozenset(_SHOWN)
    | {"url", "geolocation", "proxy", "storage_state", "uploads", "har", "ignore_https_errors", "a11y_tree"},
    shown=_SHOWN,
    masks_secrets=True,
)
"""Kind of the browser in `envs.registry`."""
