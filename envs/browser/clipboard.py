"""Clipboard of one session, for its pages and its keyboard; separate from the browser's clipboard."""

import base64
import uuid
from typing import TYPE_CHECKING, Any

from envs.browser.bound_texts import BoundTexts
from envs.browser.camera import read_script
from envs.browser.inspector import Inspector
from envs.errors import ActionError
from envs.hosts import site_of

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

_TYPES = ("text/plain", "text/html", "image/png")
_MAX_CHARS = 10_000_000
"""Maximum length per type; images are base64."""
_FLUSH = "window[Symbol.for('k25-clipboard')]?.()"
_COPYING = frozenset({"c", "x", "insert"})  # with ctrl


class SessionClipboard:
    """Replacement for the browser's clipboard, which all sessions share and which may be the host's.

    Keys that copy are pressed, and the text that the page copies is kept here. Keys that paste are not pressed: the
    page gets a paste event, and its focused field gets the text unless the page handles the event. By script, a page
    can read only what a page of the same site has copied: no user is present to grant it more.

    Args:
        inspector: Finds the focused element.
        bound: Secrets that only some hosts may receive.
    """

    def __init__(self, inspector: Inspector, bound: BoundTexts) -> None:
        self._inspector = inspector
        self._bound = bound
        self._held: dict[str, str] = {}
        self._site = ""

    async def install(self, context: "BrowserContext") -> None:
        """Replace the clipboard in the initial blank page of a context, if any, and in all documents opened later."""
        name = f"k25_{uuid.uuid4().hex}"
        await context.expose_binding(name, self._on_call)
        script = read_script("clipboard.js").replace("NAME", name)
        await context.add_init_script(script)
        for page in context.pages:
            await page.evaluate(script)

    async def before(self, page: "Page", chord: frozenset[str]) -> bool:
        """Paste if these keys do that, and return True if they must not be pressed.

        Raises:
            ActionError: If there is nothing to paste.
        """
        if not ({"ctrl", "v"} <= chord or {"shift", "insert"} <= chord):
            return False
        await self.flush(page)
        if not self._held:
            raise ActionError("nothing was copied in this session, so there is nothing to paste")
        held = {"text/plain": self._held.get("text/plain", "")} if "shift" in chord and "v" in chord else self._held
        await self.paste(page, held)
        return True

    async def after(self, page: "Page", chord: frozenset[str]) -> None:
        """Fetch the text that the page copied if the keys just pressed do that."""
        if ("ctrl" in chord and chord & _COPYING) or {"shift", "delete"} <= chord:
            await self.flush(page)

    async def paste(self, page: "Page", held: dict[str, str]) -> None:
        """Paste into the focused element; only as text if it contains a bound secret.

        Raises:
            ActionError: If the focused element must not receive the secret.
        """
        if bound := self._bound.within(_texts(held)):
            await self._bound.insert(page, held.get("text/plain", ""), bound)
        elif not await self.offer(page, held) and held.get("text/plain"):
            await page.keyboard.insert_text(held["text/plain"])

    async def offer(self, page: "Page", held: dict[str, str]) -> bool:
        """Send a paste event to the focused element, and return True if the page has handled it."""
        answer = await self._inspector.ask_inside(page, "editing.js", {"paste": held})
        return answer.get("is_handled") is True

    async def flush(self, page: "Page") -> None:
        """Fetch the text that the page has copied so far."""
        from playwright.async_api import Error

        for frame in page.frames:
            try:
                await frame.evaluate(_FLUSH)
            except Error:  # the frame is gone
                continue

    def _on_call(self, source: Any, verb: str, given: object = None) -> dict[str, str] | None:
        """Handle a call of a page, which is untrusted: types and sizes are checked."""
        url = source["frame"].url
        if verb == "read":
            may_read = site_of(url) == self._site and self._bound.may_read(_texts(self._held), url)
            return dict(self._held) if may_read else {}
        if not isinstance(given, dict):
            return None
        self._held = {kind: given[kind] for kind in _TYPES if _is_taken(kind, given.get(kind))}
        self._site = site_of(url)
        return None


def _texts(held: dict[str, str]) -> str:
    return "\n".join(content for kind, content in held.items() if kind.startswith("text/"))


def _is_taken(kind: str, content: object) -> bool:
    """Return True for text of a bounded length that, for an image, is base64."""
    if not isinstance(content, str) or len(content) > _MAX_CHARS:
        return False
    try:
        return kind != "image/png" or bool(base64.b64decode(content, validate=True))
    except ValueError:
        return False
