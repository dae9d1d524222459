"""Secrets bound to hosts: every path of a text to a page is checked by its recipient."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envs.browser.inspector import Inspector
from envs.errors import ActionError
from envs.secret_texts import BoundText, origin_of

if TYPE_CHECKING:
    from playwright.async_api import Page


class BoundTexts:
    """Bound secrets that an episode has typed.

    Args:
        inspector: Finds the focused element in any frame.
    """

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._known: dict[BoundText, None] = {}

    def learn(self, texts: Sequence[BoundText]) -> None:
        """Check these secrets from now on."""
        self._known |= dict.fromkeys(texts)

    def within(self, text: str) -> tuple[BoundText, ...]:
        """Return the secrets that a text contains, whole or in large part."""
        return tuple(bound for bound in self._known if bound.is_within(text))

    def check_address(self, typed: str, url: str) -> None:
        """Check that a URL may contain the secrets in it.

        Raises:
            ActionError: If its host must not receive one of them.
        """
        _check(self.within(typed), [origin_of(url)])

    def may_read(self, text: str, frame_url: str) -> bool:
        """Return True if the document of a frame may read a text; a document without an origin may not read secrets."""
        return all(bound.is_for(origin_of(frame_url)) for bound in self.within(text))

    async def insert(self, page: "Page", text: str, bound: Sequence[BoundText]) -> None:
        """Insert a text into the focused field without key events, since the focus could change between them.

        Raises:
            ActionError: If the document must not receive it, or no text field has the focus.
            playwright.async_api.Error: If the page is gone.
        """
        recipient = await self._inspector.ask_inside(page, "recipient.js", {})
        origins: list[str | None] = recipient.get("origins") or [None]
        _check(bound, origins)
        done = await self._inspector.ask_inside(page, "recipient.js", {"text": text, "origins": origins})
        if not done.get("is_taken"):
            raise ActionError("no text field has the focus, so the secret was not typed; click one first")


def _check(bound: Sequence[BoundText], origins: Sequence[str | None]) -> None:
    """Check that origins may receive secrets.

    Raises:
        ActionError: If one of them must not.
    """
    for text in bound:
        for origin in origins:
            if not text.is_for(origin):
                host = urlsplit(origin or "").hostname
                raise ActionError(
                    f"the secret {text.name!r} may only be typed on {', '.join(text.domains)}; here it would go to "
                    f"{host or 'a document without an address of its own'}"
                )
