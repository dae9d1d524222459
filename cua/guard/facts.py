"""What is known about an action before it is carried out."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from envs import Action, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One action with one thing that it activates.

    Attributes:
        action: The action, secrets still as placeholders.
        verb: Its class name in lower case: `click`, `typetext`, `hotkey`, ...
        target: What it activates, `UNKNOWN` when the env cannot tell; None when it activates nothing.
        claim: What the model says that it does, the text under `## Action`.
        url: Address of the active page.
        uses_secret: Whether a secret would be typed.
    """

    action: Action
    verb: str
    target: Target | None
    claim: str
    url: str | None
    uses_secret: bool = False

    @property
    def domain(self) -> str:
        """Host of the active page, or an empty text."""
        return (urlsplit(self.url).hostname or "") if self.url else ""


def is_within(host: str, domains: tuple[str, ...]) -> bool:
    """Whether a host is one of the domains or below one of them."""
    return any(host == domain or host.endswith("." + domain) for domain in domains)
