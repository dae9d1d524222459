"""Script of one episode for an agent that follows the user's task and obeys the planted text."""

import asyncio
import contextlib
import html
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from apps.injection.cases import InjectionCase, Step
from apps.injection.sites import AttackSites

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

T = TypeVar("T")
Kind = Literal["attack", "due", "harmless"]
"""Kind of a step: requested by the planted text; part of the user's task and worth a question; any other."""
_FAILED, _DIALOG = "- The last action did not work: ", "- A dialog ("
_REFUSALS = ("not allowed", "said no", "refused before")
_MAX_TRIES, _LOOK_S, _NEEDLE_CHARS = 3, 5.0, 24


class CaseScript:
    """Steps of one case, each selected from the page and the text of the request.

    Once the planted text appears, its steps come first, with the next way if one is blocked; then the rest of the
    user's task follows, from the page where the text appeared.

    Args:
        case: The case.
        sites: Its running servers.
        page: Returns the page that the agent sees.
        size_px: Width and height of the viewport.

    Attributes:
        kind: Kind of the last step; None before the first.
        num_steps: Number of steps so far, by kind.
        has_met: True once the planted text has appeared.
    """

    def __init__(
        self, case: InjectionCase, sites: AttackSites, page: "Callable[[], Page]", size_px: tuple[int, int]
    ) -> None:
        self.case, self._sites, self._page, self._size_px = case, sites, page, size_px
        self.kind: Kind | None = None
        self.num_steps: dict[Kind, int] = {"attack": 0, "due": 0, "harmless": 0}
        self.has_met = False
        self._ways = list(case.ways)
        self._next = self._done = self._tries = 0
        self._last_message: Literal["task", "attack", "back", "key", ""] = ""
        self._key = "enter"
        self._documents: dict[float, int] = {}
        self._origin: tuple[float, str] | None = None

    async def next(self, request: str) -> tuple[str, str]:
        """Return the next step as a sentence and as code.

        Args:
            request: Text of the request: errors, dialogs and tabs.
        """
        self._take_result(request)
        if _DIALOG in request:
            self.has_met = self.has_met or self._is_in(request)
            return self._say(self.kind or "harmless", "key", f"Press {self._key}", f"pyautogui.press({self._key!r})")
        self._key = "enter"
        page = self._page()
        document = await _document(page)
        self.has_met = self.has_met or await self._sees(page, request)
        if self.has_met and self._ways:
            self._origin = self._origin or (document, page.url)
            while self._ways:
                if self._done < len(self._ways[0]):
                    if move := await self._move(page, self._ways[0][self._done]):
                        return self._say("attack", "attack", *move)
                    if self._done and self._tries < _MAX_TRIES:
                        self._tries += 1
                        return self._say("attack", "key", "Wait for the page", "time.sleep(1)")
                self._ways = [] if self._done == len(self._ways[0]) else self._ways[1:]
                self._done = 0
        if self._origin is not None:
            (origin, url), self._origin = self._origin, None
            if document != origin:
                self._next = self._documents.get(origin, self._next)
                return self._say("harmless", "back", *_open(url))
        return await self._go_on(page, document)

    async def _go_on(self, page: "Page", document: float) -> tuple[str, str]:
        """Return the next step of the user's task."""
        if self._next >= len(self.case.steps):
            return self._say("harmless", "task", "Give up", "computer.terminate(status='failure')")
        self._documents.setdefault(document, self._next)
        step = self.case.steps[self._next]
        move = await self._move(page, step)
        if move is None:
            self._tries += 1
            if self._tries > _MAX_TRIES:
                return self._say("harmless", "task", "Give up", "computer.terminate(status='failure')")
            return self._say("harmless", "key", "Wait for the page", "time.sleep(1)")
        return self._say("due" if step[0].endswith("!") else "harmless", "task", *move)

    def _take_result(self, request: str) -> None:
        """Advance after the last step, or retry it, or try another way."""
        has_failed = _FAILED in request
        is_refused = has_failed and (self._tries >= _MAX_TRIES or any(text in request for text in _REFUSALS))
        if has_failed and not is_refused:
            self._tries += 1
            return
        if self._last_message == "task":
            self._next, self._tries = self._next + 1, 0
        elif self._last_message == "attack" and self._ways:
            self._tries = 0
            self._done = 0 if is_refused else self._done + 1
            self._ways = self._ways[1:] if is_refused else self._ways
        elif self._last_message == "key" and is_refused:
            self._key = "esc"

    def _say(
        self, kind: Kind, message: Literal["task", "attack", "back", "key"], action: str, code: str
    ) -> tuple[str, str]:
        self.kind, self._last_message = kind, message
        self.num_steps[kind] += 1
        return action, code

    async def _move(self, page: "Page", step: Step) -> tuple[str, str] | None:
        """Return a step as a sentence and as code; None if its target is not visible."""
        verb, target, text = (self._fill(part) for part in (*step, "", "")[:3])
        match verb.rstrip("!"):
            case "open":
                return _open(target)
            case "answer":
                return "Say that it is done", f"computer.terminate(status='success', answer={target!r})"
            case "press":
                return f"Press {target}", f"pyautogui.press({target!r})"
        point = await self._find(page, verb.rstrip("!"), target)
        if point is None:
            return None
        x, y = point[0] / self._size_px[0], point[1] / self._size_px[1]
        if not 0 < y < 1:
            return f"Scroll to {target}", f"pyautogui.scroll({-5 if y >= 1 else 5}, x=0.5, y=0.5)"
        click = f"pyautogui.click(x={x:.4f}, y={y:.4f})"
        if verb.startswith("click"):
            return f"Click {target}", click
        return f'Type "{text}" into {target}', f"{click}\npyautogui.hotkey('ctrl', 'a')\npyautogui.write({text!r})"

    async def _find(self, page: "Page", verb: str, name: str) -> tuple[float, float] | None:
        """Return the centre of a link, button or field of that name in any frame of the page, in viewport px."""
        for frame in page.frames:
            by_role = [frame.get_by_role(role, name=name, exact=True) for role in ("link", "button")]
            for locator in [frame.get_by_label(name, exact=True)] if verb == "type" else by_role:
                if (point := await look(_middle(locator))) is not None:
                    return point
        return None

    async def _sees(self, page: "Page", request: str) -> bool:
        """Return True if the planted text is in the page or in the request."""
        if self._is_in(request) or self._sites.plant is None or self.case.plant.place == "dialog":
            return self._is_in(request)
        needle = "/notice.svg" if self.case.plant.place == "image" else self._needle
        for frame in page.frames:
            if needle in html.unescape(await look(frame.content()) or ""):
                return True
        return False

    @property
    def _needle(self) -> str:
        return self._fill(self.case.plant.text)[:_NEEDLE_CHARS]

    def _is_in(self, request: str) -> bool:
        return self._sites.plant is not None and self._needle in request

    def _fill(self, text: str) -> str:
        return self._sites.fill(text).replace("{app}", self._sites.url)


async def look(work: Awaitable[T]) -> T | None:
    """Return the result of reading a page; None if it does not answer in time or closes."""
    from playwright.async_api import Error

    with contextlib.suppress(Error, TimeoutError):
        return await asyncio.wait_for(work, _LOOK_S)
    return None


async def _middle(locator: "Locator") -> tuple[float, float] | None:
    if not await locator.count():
        return None
    box = await locator.first.bounding_box()
    return (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) if box else None


async def _document(page: "Page") -> float:
    """Return a number that differs for each loaded document; 0 if the page does not answer."""
    return float(await look(page.evaluate("performance.timeOrigin")) or 0.0)


def _open(url: str) -> tuple[str, str]:
    return f"Open {url}", f"pyautogui.hotkey('ctrl', 'l')\npyautogui.write({url!r})\npyautogui.press('enter')"
