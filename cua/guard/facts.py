"""What is known about an action before it is carried out."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from envs import Action

WINDOW_ONLY = ("window ", "frame of window ", "popup of ", "the desktop")
"""How descriptions begin that name a window and not what is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One action with its surroundings.

    Attributes:
        action: The action, secrets still as placeholders.
        verb: Its class name in lower case: `click`, `typetext`, `hotkey`, ...
        target: What would get a click there, as the env describes it; None when it cannot tell.
        claim: What the model says that it does, the text under `## Action`.
        url: Address of the active page.
        uses_secret: Whether a secret would be typed.
    """

    action: Action
    verb: str
    target: str | None
    claim: str
    url: str | None
    uses_secret: bool = False

    @property
    def is_element_known(self) -> bool:
        """Whether `target` names the element itself; a desktop can only name the window around it."""
        return self.target is not None and not self.target.startswith(WINDOW_ONLY)

    @property
    def domain(self) -> str:
        """Host of the active page, or an empty text."""
        return (urlsplit(self.url).hostname or "") if self.url else ""


def is_within(host: str, domains: tuple[str, ...]) -> bool:
    """Whether a host is one of the domains or below one of them."""
    return any(host == domain or host.endswith("." + domain) for domain in domains)
