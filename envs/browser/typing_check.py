"""Comparison of a field with the text that was typed into it."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from envs.browser.inspector import Inspector
from envs.browser.redact import Redactor

if TYPE_CHECKING:
    from playwright.async_api import Page

_MODIFIERS = ("ctrl", "alt", "win")


class TypingCheck:
    """Comparison of the focused field with the typed text, after the page had time to react.

    Args:
        inspector: Reads the field.
        redact: Detects secrets; the content of a field with a secret is not shown.
    """

    def __init__(self, inspector: Inspector, redact: Redactor) -> None:
        self._inspector = inspector
        self._redact = redact
        self._typed: tuple[Page, str] | None = None

    async def begin(self, page: "Page", text: str, held: Collection[str]) -> bool:
        """Record the field before `text` is typed into it; return True if it is a code editor.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        self._typed = None
        answer = await self._inspector.ask_inside(
            page, "editing.js", {"mark": True, "is_secret": self._is_secret(text)}
        )
        is_editor = answer.get("is_editor") is True
        if text and not any(key.startswith(_MODIFIERS) for key in held):
            self._typed = page, text
        return is_editor

    async def end(self) -> str | None:
        """Return a note for the agent if the field differs from the text typed since the last call, or lost the focus.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        if self._typed is None:
            return None
        page, text = self._typed
        self._typed = None
        if page.is_closed():
            return None
        answer = await self._inspector.ask_inside(page, "editing.js", {"typed": text})
        if answer.get("is_left") and "\t" in text.rstrip("\t"):
            return "Tab moved the focus out of the field: the text after it was typed elsewhere"
        if "shown" not in answer:
            return None
        shown: object = answer["shown"]
        if shown is None or self._is_secret(text):
            return "the field does not hold what was typed; its content is not shown because it may be secret"
        if not shown:
            return "the field is empty after typing: it did not take the text"
        cut = " (the start of it)" if answer.get("is_cut") else ""
        return f"the field does not hold exactly what was typed; it now holds{cut} {str(shown)!r}"

    def _is_secret(self, text: str) -> bool:
        return self._redact(text) != text
