"""What an env hands out: observations and step results, plain data without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.geometry import ScreenGeometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One browser tab."""

    title: str
    url: str
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialog:
    """A modal JavaScript dialog that waits for an answer; it is also drawn into the screenshot."""

    kind: Literal["alert", "confirm", "prompt", "beforeunload"]
    message: str
    default_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """Something on the screen that can be used.

    Attributes:
        number: Its number in `Observation.a11y_tree`, from 1.
        role: What it is, by the word of the accessibility interface: `button`, `textbox`, ...
        name: What it is called.
        value: What stands in it.
        states: `checked`, `disabled`, `focused`, ...
        box: Left, top, right, bottom of what is seen of it, model frame.
    """

    number: int
    role: str
    name: str = ""
    value: str = ""
    states: tuple[str, ...] = ()
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Identity of what a screenshot shows, so that input decided on an outdated one can be refused.

    A page that changes its own document keeps its generation; another document or another tab does not.

    Attributes:
        tab: Number of the tab, counted from 1 in the order of opening.
        navigation: Number of documents that the tab has loaded, the one in the screenshot included.
        frame: Number of the screenshot, counted from 1 over the episode; 0 when the page could not be captured and
            the screenshot says so instead.
    """

    tab: int
    navigation: int
    frame: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the agent gets to see after a reset or a step.

    Attributes:
        screenshot: What is shown, PNG bytes, of size `geometry.sent_px`.
        geometry: How the screenshot relates to the screen.
        pointer_px: Where the mouse pointer is, screen frame; None when unknown.
        url: Address of the active tab (browser only).
        title: Title of the active tab or window.
        tabs: All tabs in order (browser only).
        dialog: The dialog that blocks the page, if any.
        last_action_error: Why an action of the last step did not work, one line, for the agent.
        notes: Other facts that the screenshot does not show ("report.csv was downloaded to ..."), for the agent.
        a11y_tree: Accessibility tree as text, when the env was asked for it; `envs.browser.a11y` says how it reads.
        elements: What has a number in that tree.
        generation: Identity of what the screenshot shows (browser only); see `envs.env.VersionedScreen`.
    """

    screenshot: bytes = field(repr=False)
    geometry: ScreenGeometry
    pointer_px: tuple[int, int] | None = None
    url: str | None = None
    title: str | None = None
    tabs: tuple[Tab, ...] = ()
    dialog: Dialog | None = None
    last_action_error: str | None = None
    notes: tuple[str, ...] = ()
    a11y_tree: str | None = field(default=None, repr=False)
    elements: tuple[Element, ...] = field(default=(), repr=False)
    generation: Generation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFrame:
    """The screen at a moment between observations, for a person who watches; never shown to the agent.

    Attributes:
        image: An encoded image of the region that observations show.
        media_type: How it is encoded.
    """

    image: bytes = field(repr=False)
    media_type: Literal["image/jpeg", "image/png"] = "image/jpeg"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The five values of Gymnasium's `Env.step`; `envs.env` says whose they are.

    Attributes:
        observation: What the agent sees now.
        reward: What the env measured in this step, a finite number; 0.0 where it measures nothing.
        terminated: The episode is over: a `Terminate` action was carried out, or the env came to an end of its own.
        truncated: The env cut the episode off by a limit of its own.
        info: For the operator, never shown to the agent (timings in seconds by stage, for example).
    """

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
