"""Results of an env: observations and step results, plain data without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.geometry import ScreenGeometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """Browser tab."""

    title: str
    url: str
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialog:
    """Modal JavaScript dialog that waits for an answer; it is also drawn into the screenshot."""

    kind: Literal["alert", "confirm", "prompt", "beforeunload"]
    message: str
    default_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenElement:
    """Usable element on the screen.

    Attributes:
        number: Number in `Observation.a11y_tree`, from 1.
        role: Accessibility role: `button`, `textbox`, ...
        name: Accessible name.
        value: Current value.
        states: `checked`, `disabled`, `focused`, ...
        box: Left, top, right, bottom of its visible part, model frame.
    """

    number: int
    role: str
    name: str = ""
    value: str = ""
    states: tuple[str, ...] = ()
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Identity of the content of a screenshot, so that input decided on an outdated one can be refused.

    A page that changes its own document keeps its generation; another document or another tab has another one.

    Attributes:
        tab: Number of the tab, counted from 1 in the order of opening.
        navigation: Number of documents that the tab has loaded, the one in the screenshot included.
        frame: Number of the screenshot, counted from 1 over the episode; 0 if the page could not be captured and the
            screenshot says so instead.
    """

    tab: int
    navigation: int
    frame: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Observation of the agent after a reset or a step.

    Attributes:
        screenshot: PNG bytes, of size `geometry.sent_px`.
        geometry: Relation between the screenshot and the screen.
        pointer_px: Position of the mouse pointer, screen frame; None if unknown.
        url: URL of the active tab (browser only).
        title: Title of the active tab or window.
        tabs: All tabs in order (browser only).
        dialog: Dialog that blocks the page, if any.
        last_action_error: Why an action of the last step failed, one line, for the agent.
        notes: Other facts that the screenshot does not show ("report.csv was downloaded to ..."), for the agent.
        a11y_tree: Accessibility tree as text, if the env was configured to provide it; format: see `envs.browser.a11y`.
        elements: Numbered elements of that tree.
        generation: Identity of the content of the screenshot (browser only); see `envs.env.VersionedScreen`.
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
    elements: tuple[ScreenElement, ...] = field(default=(), repr=False)
    generation: Generation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFrame:
    """Image of the screen between observations, for a person who watches; never shown to the agent.

    Attributes:
        image: Encoded image of the region that observations show.
        media_type: Encoding of the image.
    """

    image: bytes = field(repr=False)
    media_type: Literal["image/jpeg", "image/png"] = "image/jpeg"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Result of `Env.step`, with the five values of Gymnasium; `envs.env` describes where they come from.

    Attributes:
        observation: Observation after the step.
        reward: Measurement of the env in this step, a finite number; 0.0 if it measures nothing.
        terminated: True if the episode is over: a `Terminate` was executed, or the env ended it.
        truncated: True if a limit of the env cut the episode off.
        info: Values for the operator, never shown to the agent (for example timings in seconds by stage).
    """

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
