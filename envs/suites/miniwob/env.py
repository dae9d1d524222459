"""`MiniWobEnv`: a browser on the pages of MiniWoB++ that returns their rewards."""

import asyncio
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.actions import Action
from envs.browser.env import BrowserEnv, OpenBrowser
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules
from envs.env import Env, Task
from envs.errors import EnvDiedError, EnvSetupError
from envs.geometry import parse_size
from envs.json_fields import Json
from envs.observation import Observation, StepResult
from envs.registry import EnvKind, EnvRequest
from envs.suites.miniwob.pages import PageServer, get_pages
from envs.target import ActionCheck

if TYPE_CHECKING:
    from playwright.async_api import Page

PREFIX = "miniwob/"
"""Prefix of all task ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniWobOptions:
    """Settings of a `MiniWobEnv`.

    Attributes:
        page_size_px: Width and height of the window; the pages are made for 332x214 and use the left 160x210 of it.
        device_scale: Device pixels for one CSS pixel.
        headed: True to show the window.
        keep_strip: True to keep the yellow strip with the instruction, score and clock in the screenshot.
        settle: True to wait until the page is stable after actions. False is faster; frames are not throttled then,
            either.
        go_on: True to continue the episode after the page's verdict, so that the agent ends it.
        a11y_tree: True to read the accessibility tree for each observation.
    """

    page_size_px: tuple[int, int] = (332, 214)
    device_scale: float = 1.0
    headed: bool = False
    keep_strip: bool = False
    settle: bool = True
    go_on: bool = False
    a11y_tree: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> "MiniWobOptions":
        """Parse options by name, as in an `EnvSpec` or on a command line.

        Raises:
            ValueError: If an option is unknown, or its value is invalid.
        """
        given = dict(options)
        for name in given:
            if name not in NAMES:
                raise ValueError(f"the environment 'miniwob' has no option {name!r}; it has {', '.join(sorted(NAMES))}")
        values: Json = {name: given[name] for name in NAMES - {"page_size"} if name in given}
        for name, value in values.items():
            if name != "device_scale" and not isinstance(value, bool):
                raise ValueError(f"{name} is {value!r}, expected true or false")
        scale = values.get("device_scale", 1.0)
        if isinstance(scale, bool) or not isinstance(scale, int | float):
            raise ValueError(f"device_scale is {scale!r}, expected a number such as 1.5")
        if "page_size" in given:
            values["page_size_px"] = parse_size("page_size", str(given["page_size"]))
        return cls(**values)

    def for_browser(self, **more: Any) -> BrowserOptions:
        """Return the browser options: locale of the United States and UTC, independent of the machine.

        Raises:
            ValueError: If a value is invalid for the browser.
        """
        return BrowserOptions(
            viewport_px=self.page_size_px,
            device_scale=self.device_scale,
            headless=not self.headed,
            a11y_tree=self.a11y_tree,
            locale="en-US",
            timezone="UTC",
            quiet_s=_QUIET_S if self.settle else 0.0,
            extra_args=() if self.settle else _FAST_FRAMES,
            **more,
        )


NAMES = frozenset({"page_size", "device_scale", "headed", "keep_strip", "settle", "go_on", "a11y_tree"})
"""Names of the options."""


MAX_EPISODE_MS = 24 * 3600 * 1000
"""Time limit set in the pages, whose own clocks end an episode after 7 to 30 s; the agent loop limits time instead."""
_START_TIMEOUT_S = 15.0  # of one episode's page; it takes milliseconds unless the machine is busy
_MAX_INSTRUCTION_CHARS = 10_000  # bounds an instruction that a page reports
_MAX_EPISODES_A_CONTEXT = 200  # memory that a context gathers, against the time for a new one
_SCRIPT = (Path(__file__).parent / "start.js").read_text(encoding="utf-8")
_QUIET_S = 0.05  # the pages are local and have no requests to wait for
_FAST_FRAMES = ("--disable-frame-rate-limit",)
"""Browser flags for speed: input and screenshots normally wait for frames at 60 per second. This saves 14 of the 47 ms
of a step, and costs CPU time where a page redraws continuously."""
_SHOWS = "svg, canvas, img, .ui-icon, [style*=background]"
"""Elements of a strip that the instruction may refer to ("the following color", "the item with the ... icon")."""
_HIDES = (
    f"#query:not(:has({_SHOWS})) {{ opacity: 0 !important }}"
    " #reward-display, #click-canvas { visibility: hidden !important }"
)
"""CSS that hides the strip unless it shows such an element; hidden text can still be selected and clicked."""
_BINDING = "k25MiniWobEnded"
_RENEW_TIMEOUT_S = 5.0  # a page that does not restart in time is opened in a new context
RESTARTABLE = frozenset(
    """
    ascending-numbers bisect-angle buy-ticket choose-list circle-center click-button click-button-sequence
    click-checkboxes click-checkboxes-large click-checkboxes-soft click-checkboxes-transfer click-collapsible
    click-collapsible-2 click-collapsible-2-nodelay click-collapsible-nodelay click-color click-link click-option
    click-shades click-shape click-test click-test-2 click-test-transfer click-widget copy-paste count-shape
    count-sides daily-calendar drag-box drag-circle drag-shapes drag-shapes-2 drag-single-shape draw-circle
    draw-line email-inbox email-inbox-delete email-inbox-forward email-inbox-forward-nl
    email-inbox-forward-nl-turk email-inbox-important email-inbox-nl-turk email-inbox-noscroll email-inbox-reply
    email-inbox-star-reply enter-date enter-password enter-text enter-text-2 enter-text-dynamic enter-time
    find-greatest find-midpoint find-word focus-text focus-text-2 form-sequence-2 form-sequence-3 generate-number
    grid-coordinate guess-number highlight-text highlight-text-2 identify-shape login-user login-user-popup
    multi-orderings number-checkboxes odd-or-even read-table read-table-2 right-angle sign-agreement
    simple-algebra simple-arithmetic text-transform tic-tac-toe unicode-test visual-addition
    """.split()
)
"""Pages whose own restart is equivalent to a reload: after episodes of clicks, keys, drags and scrolling, document,
values, scroll, focus, listeners and image were equal to a fresh load with the same seed. Pages that keep a scroll
position, a plug-in's state or the time of day are excluded (by the marks in miniwob's registry).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVerdict:
    """Verdict of a page at the end of its episode.

    Attributes:
        raw_reward: Reward before the time penalty: 1 is right, -1 is wrong, some pages use values in between.
        reason: Reason given by the page, if any.
    """

    raw_reward: float
    reason: str | None = None


class MiniWobEnv(BrowserEnv):
    """Browser on the pages of MiniWoB++; implements `envs.env.Env`.

    A task calls `start` in its `setup`. The page's verdict is returned once, as the reward of the step in which it is
    given, whatever the agent does to the page after it. It ends the episode (`terminated`) unless `go_on` is set. A
    page that was left or reloaded cannot give a verdict; this also ends the episode, without a reward.

    One context serves many episodes: its storage is cleared, and a page is restarted where that is equivalent to a
    reload (`RESTARTABLE`), else it is loaded. State that cannot be undone this way (tabs, dialogs, held keys) makes the
    next episode use a fresh context. Only the pages can be reached.

    Args:
        options: Settings of the environment.
        masked_texts: See `BrowserOptions`.
        downloads_dir: See `BrowserOptions`.
        open_browser: See `BrowserEnv`.
    """

    def __init__(
        self,
        options: MiniWobOptions | None = None,
        *,
        masked_texts: tuple[str, ...] = (),
        downloads_dir: Path | None = None,
        open_browser: OpenBrowser | None = None,
    ) -> None:
        self.miniwob = options or MiniWobOptions()
        browser = self.miniwob.for_browser(masked_texts=masked_texts, downloads_dir=downloads_dir)
        super().__init__(browser, open_browser=open_browser)
        self._server: PageServer | None = None
        self._watched: Page | None = None
        self._is_for_page = False
        self._num_renewed = 0
        self._name: str | None = None
        self._token = ""
        self._verdict: PageVerdict | None = None
        self._is_rewarded = False
        self._is_left = False
        self._has_crashed = False

    @property
    def raw_reward(self) -> float | None:
        """The page's verdict on this episode; None if it has given none."""
        return self._verdict.raw_reward if self._verdict is not None else None

    async def reset(self, task: Task) -> Observation:
        """Open a context or reuse a clean one, set the task up, and return the first observation.

        Raises:
            EnvSetupError: If no browser is found, or the pages are not installed.
            EnvError: If the environment was closed.
        """
        self._is_for_page = task.spec.id.startswith(PREFIX)
        return await super().reset(task)

    async def open(self) -> None:
        """End the current episode, and open a context; see `reset`.

        Raises:
            EnvSetupError: If no browser is found, or the pages are not installed.
            EnvError: If the environment was closed.
        """
        self._enter_server()
        is_renewed = self._is_for_page and await self._renew()
        self._verdict, self._is_rewarded, self._is_left, self._has_crashed = None, False, False, False
        if not is_renewed:
            self._name, self._watched, self._num_renewed = None, None, 0
            await super().open()

    async def start(self, name: str, seed: int) -> str:
        """Make a page draw the problem of a seed; called by a task's `setup`.

        Returns:
            The page's instruction.

        Raises:
            EnvSetupError: If the page does not exist, or does not become ready.
            EnvDiedError: If the browser is gone.
        """
        page, was = self.page, self._name
        self._name, self._verdict, self._is_rewarded = None, None, False
        self._token = secrets.token_hex(8)
        await self._watch(page)
        episode = None
        if was == name and name in RESTARTABLE and not self.miniwob.keep_strip and not self._is_left:
            episode = await self._run(page, name, seed, is_restart=True)
        if episode is None:
            await self.goto(f"{self._base_url}/miniwob/{name}.html", settle=False)
            episode = await self._run(page, name, seed, is_restart=False) or {"fault": "it was left"}
        if "fault" in episode:
            raise EnvSetupError(f"the page {name} of MiniWoB++ was not set up: {episode['fault']}", retryable=True)
        self._name, self._is_left = name, False
        return " ".join(str(episode["instruction"]).split())[:_MAX_INSTRUCTION_CHARS]

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Execute actions like `BrowserEnv`; the page's verdict is the reward of the step in which it is given.

        `info["miniwob"]` has the verdict so far, and whether the page was left.

        Raises:
            EnvDiedError: If the browser is gone, or the page crashed.
            EnvError: If the environment was not reset, or is closed.
        """
        result = await super().step(actions, check)
        if self._name is None:
            return result
        if self._has_crashed:
            raise EnvDiedError(f"the page {self._name} of MiniWoB++ crashed, and its episode with it")
        verdict, is_new = self._verdict, self._verdict is not None and not self._is_rewarded
        self._is_rewarded = verdict is not None
        is_left = self._is_left or self._watched not in self._open_episode().session.tabs.pages
        is_over = (verdict is not None or is_left) and not self.miniwob.go_on
        facts = {
            "raw_reward": verdict.raw_reward if verdict else None,
            "reason": verdict.reason if verdict else None,
            "is_left": is_left,
        }
        return replace(
            result,
            reward=verdict.raw_reward if verdict and is_new else 0.0,
            terminated=result.terminated or is_over,
            info={**result.info, "miniwob": facts},
        )

    async def close(self) -> None:
        """Close the browser and everything that belongs to it."""
        await super().close()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.leave)

    @property
    def _base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.port}"

    def _enter_server(self) -> None:
        """Start serving the pages, and block all other addresses."""
        if self._server is not None or self._is_closed:
            return
        self._server = PageServer.enter(get_pages())
        allowed = (f"127.0.0.1:{self._server.port}",)
        self.options = replace(self.options, allowed_domains=allowed)
        self._rules = DomainRules(allowed=allowed)

    async def _renew(self) -> bool:
        """Start an episode in the current context; return False if a fresh one is required."""
        from playwright.async_api import Error

        episode = self._episode
        if episode is None or self._name is None or self._is_left or self._has_crashed:
            return False
        session = episode.session
        is_untidy = bool(session.overlay or session.crashed or session.background or session.interrupts.stranded)
        if is_untidy or episode.executor.held or session.tabs.pages != [self._watched] or not session.is_connected:
            return False
        if self._num_renewed >= _MAX_EPISODES_A_CONTEXT:
            return False
        try:
            async with asyncio.timeout(_RENEW_TIMEOUT_S):
                await self.page.mouse.move(-1, -1)
                await session.context.clear_cookies()
        except (Error, TimeoutError):
            return False
        session.notes.clear()
        session.firewall.take()
        self.terminate = None
        self._num_renewed += 1
        self._episode = self._make_episode(session)
        return True

    async def _watch(self, page: "Page") -> None:
        """Listen for the page's verdicts, and for the end of its document."""
        if self._watched is page:
            return
        await page.expose_binding(_BINDING, self._on_verdict)
        page.on("domcontentloaded", self._on_document)
        page.on("crash", self._on_crash)
        self._watched = page

    def _on_verdict(self, _source: object, token: str, raw_reward: object, reason: object) -> None:
        if token != self._token or self._verdict is not None:
            return
        raw = float(raw_reward) if isinstance(raw_reward, int | float) and math.isfinite(raw_reward) else 0.0
        self._verdict = PageVerdict(raw_reward=raw, reason=reason[:200] if isinstance(reason, str) else None)

    def _on_document(self, _page: object) -> None:
        self._is_left = True

    def _on_crash(self, _page: object) -> None:
        self._has_crashed = True

    async def _run(self, page: "Page", name: str, seed: int, *, is_restart: bool) -> Json | None:
        """Run the start script; return None if the page cannot be restarted.

        Raises:
            EnvSetupError: If it does not answer.
            EnvDiedError: If the browser is gone.
        """
        from playwright.async_api import Error

        settings = {
            "token": self._token,
            "seed": seed,
            "limit_ms": MAX_EPISODE_MS,
            "wait_ms": _START_TIMEOUT_S * 1000,
            "binding": _BINDING,
            "is_restart": is_restart,
            "hides": "" if self.miniwob.keep_strip else _HIDES,
        }
        try:
            async with asyncio.timeout(_START_TIMEOUT_S + 2.0):
                episode: Json | None = await page.evaluate(_SCRIPT, settings)
        except TimeoutError as error:
            raise EnvSetupError(f"the page {name} of MiniWoB++ does not answer", retryable=True) from error
        except Error as error:
            if not self._open_episode().session.is_connected:
                raise EnvDiedError("the browser process is gone") from error
            why = error.message.splitlines()[0]
            raise EnvSetupError(f"the page {name} of MiniWoB++ was not set up: {why}", retryable=True) from error
        return episode


def _make(request: EnvRequest) -> Env:
    """Make the environment described by a task's spec.

    Raises:
        ValueError: If a value is invalid.
    """
    options = MiniWobOptions.parse(request.options)
    downloads = request.files_dir / "downloads" if request.files_dir else None
    return MiniWobEnv(options, masked_texts=request.masked_texts, downloads_dir=downloads)


KIND = EnvKind(make=_make, options=NAMES, shown=("device_scale",), masks_secrets=True)
"""Registration of MiniWoB++ in `envs.registry`."""
