"""What stands over a page and takes the input in its place."""

from typing import TYPE_CHECKING, Protocol

from envs.actions import Action
from envs.browser.overlays.paint import Canvas
from envs.target import Target

if TYPE_CHECKING:
    from playwright.async_api import Page


class Overlay(Protocol):
    """Something drawn over the page that takes actions first.

    Attributes:
        page: The page that it belongs to.
        is_done: It has gone away.
    """

    page: "Page | None"
    is_done: bool

    async def act(self, action: Action, point_px: tuple[int, int]) -> bool:
        """Take an action.

        Args:
            action: What to do; keys in it are canonical.
            point_px: The point that the action means, or the pointer for actions without one.

        Returns:
            False: this one is the page's.

        Raises:
            ActionError: This cannot be done here; the text says what can.
        """
        ...

    def draw(self, canvas: Canvas) -> None:
        """Draw it as it is now."""
        ...

    def target_at(self, x_px: int, y_px: int) -> Target | None:
        """What a click there activates; None when that is the page's."""
        ...

    def targets_of_key(self, key: str) -> tuple[Target, ...] | None:
        """What a canonical key activates, nothing for one that edits; None when the key is the page's."""
        ...

    def notes(self) -> tuple[str, ...]:
        """What the agent should know about it."""
        ...
