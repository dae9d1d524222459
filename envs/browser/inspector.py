"""Targets of inputs in a page, determined by the browser in a way that the page cannot falsify.

The scripts run in an isolated world of each document, through the DevTools protocol: a page that replaces
`document.elementFromPoint` or `Element.prototype.getAttribute` changes only its own copies. The protocol also opens
closed shadow roots and frames of other origins.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from envs.browser.camera import read_script
from envs.json_fields import Json
from envs.target import Target

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

_WORLD = "k25"
_GROUP = "k25"
_KEPT = "k25-kept"
_OVER = "k25-over"  # separate group: released on its own, since calls run concurrently
_MAX_DEPTH = 12  # nested frames below a point; ends on a page that nests without end
_MAX_HELD = 32
"""Number of held elements after which they are released together: a message to the browser takes 1 to 2 ms."""
_OWN_TEXT = """function () {
  const text = Object.getOwnPropertyDescriptor(Node.prototype, "textContent").get.call(this);
  const first = getComputedStyle(this, "::before").content, last = getComputedStyle(this, "::after").content;
  return [first, text, last].filter((part) => part && part !== "none" && part !== "normal").join(" ")
    .replace(/\\s+/g, " ").trim().slice(0, 300);
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """Key press.

    Attributes:
        key: Canonical name, or one character.
        typed: Character or text that it types; empty for a key that types nothing.
        ctrl: True if ctrl or the command key is down.
        alt: True if alt is down.
    """

    key: str
    typed: str = ""
    ctrl: bool = False
    alt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _DomRoot:
    """Document or closed shadow root, with the session in which scripts run."""

    session: "CDPSession"
    frame_id: str
    root: str | None = None


class Inspector:
    """Runner of inspection scripts in pages."""

    def __init__(self) -> None:
        self._tops: dict[Page, _DomRoot] = {}
        self._functions: dict[Page, str] = {}
        self._releases: set[asyncio.Task[None]] = set()
        self._num_held = 0

    async def at_point(self, page: "Page", x_px: float, y_px: float, *, is_drop: bool = False) -> tuple[Target, ...]:
        """Return what a click at a point of the viewport activates; at the end of a drag also the elements below.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        top = await self._top(page)
        ask = {"point": [x_px, y_px], "is_drop": is_drop}
        first = await self._run_in_top(page, top, ask)
        left, top_px = first["view"]
        targets, painted = await asyncio.gather(
            self._descend(page, top, ask, first), _painted_over(top, x_px + left, y_px + top_px)
        )
        if not targets:
            return ()
        return (replace(targets[0], names=(*targets[0].names, *painted)), *targets[1:])

    async def on_key(self, page: "Page", stroke: Stroke) -> tuple[Target, ...]:
        """Return what a key activates for the current focus.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        ask = {"key": stroke.key, "typed": stroke.typed, "ctrl": stroke.ctrl, "alt": stroke.alt}
        top = await self._top(page)
        return await self._descend(page, top, ask, await self._run_in_top(page, top, ask))

    async def ask_inside(self, page: "Page", script: str, ask: Mapping[str, object]) -> Json:
        """Run a script for the element at `ask["point"]`, or else for the focused one, in whatever frame it is.

        Args:
            page: The page.
            script: Name of a file with a function (ask, element) that returns an object.
            ask: First argument of the function; a point is in CSS pixels of the viewport.

        Returns:
            The object, and as `x` and `y` the point in the frame, or minus the corner of the frame.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        top = await self._top(page)
        function = read_script("innermost.js").replace("__BODY__", read_script(script).strip())
        result = await _run(top, await _isolated_world(top), ask, function=function)
        async with AsyncExitStack() as frames:
            return await self._descend_through(page, top, ask, result, frames, function)

    def forget(self, page: "Page") -> None:
        """Forget a closed page."""
        self._tops.pop(page, None)
        self._functions.pop(page, None)

    async def _top(self, page: "Page") -> _DomRoot:
        top = self._tops.get(page)
        if top is None:
            session = await page.context.new_cdp_session(page)
            top = self._tops[page] = _DomRoot(session=session, frame_id=await _main_frame_id(session))
        return top

    async def _run_in_top(
        self, page: "Page", top: _DomRoot, ask: Mapping[str, object], *, wants_element: bool = False
    ) -> Any:
        """Run inspect.js in the main document.

        Its function is kept in the isolated world of the document; its object id is an error in any other world.
        """
        from playwright.async_api import Error

        known = self._functions.get(page)
        if known is not None:
            try:
                return await _call_kept(top, known, ask, wants_element=wants_element)
            except Error:  # the document was replaced or is unloading
                self._functions.pop(page, None)
        function = self._functions[page] = await _keep_function(top)
        return await _call_kept(top, function, ask, wants_element=wants_element)

    async def _descend(self, page: "Page", place: _DomRoot, ask: Json, result: Json) -> tuple[Target, ...]:
        """Return the targets of a result, following frames and closed shadow roots.

        Args:
            page: The page.
            place: Main document of the page.
            ask: Argument of the script in that document.
            result: Its result.
        """
        async with AsyncExitStack() as frames:
            result = await self._descend_through(page, place, ask, result, frames)
        return tuple(_target(entry, page.url) for entry in result["targets"])

    async def _descend_through(
        self,
        page: "Page",
        place: _DomRoot,
        ask: Mapping[str, object],
        result: Json,
        frames: AsyncExitStack,
        function: str | None = None,
    ) -> Json:
        """Run a script (None: inspect.js) in nested frames and shadow roots until nothing is inside.

        Sessions of frames in another process are opened in `frames`.
        """
        top = place
        for _ in range(_MAX_DEPTH):
            if not result.get("inside"):
                break
            if place is top and function is None:
                element = await self._run_in_top(page, top, ask, wants_element=True)
            else:
                element = await _run(place, await _isolated_world(place), ask, wants_element=True, function=function)
            inner = await _step_inside(page, place, element, frames if result["is_frame"] else None)
            if inner is None:
                break
            place = inner
            x_px, y_px = result["x"], result["y"]
            if "point" in ask:
                ask = {**ask, "point": [x_px, y_px]}
            result = await _run(place, await _isolated_world(place), ask, function=function)
            if "point" not in ask and "x" in result:
                result |= {"x": result["x"] + x_px, "y": result["y"] + y_px}
        if result.get("inside") or place is not top:  # otherwise nothing is held
            self._num_held += 1
        if self._num_held >= _MAX_HELD or place is not top:
            self._num_held = 0
            self._release(top.session)
        return result

    def _release(self, session: "CDPSession") -> None:
        """Release the held elements in the background."""
        task = asyncio.ensure_future(_release_group(session))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)


async def _release_group(session: "CDPSession") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await session.send("Runtime.releaseObjectGroup", {"objectGroup": _GROUP})


async def _keep_function(top: _DomRoot) -> str:
    """Create the function of inspect.js in the isolated world of a document, and return its object id."""
    expression = f"({read_script('inspect.js')}\n)"
    answer = await top.session.send(
        "Runtime.evaluate", {"expression": expression, "contextId": await _isolated_world(top), "objectGroup": _KEPT}
    )
    return str(answer["result"]["objectId"])


async def _call_kept(top: _DomRoot, function: str, ask: Mapping[str, object], *, wants_element: bool) -> object:
    answer = await top.session.send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": "function (ask, wants) { return this.call(window, ask, wants) }",
            "objectId": function,
            "arguments": [{"value": ask}, {"value": wants_element}],
            "returnByValue": not wants_element,
            "objectGroup": _GROUP,
        },
    )
    return _result_of(answer, wants_element=wants_element)


async def _painted_over(top: _DomRoot, x_px: float, y_px: float) -> tuple[str, ...]:
    """Return the text drawn at a point of the page that lets clicks through (`pointer-events: none`)."""
    from playwright.async_api import Error

    send = top.session.send
    point = {"x": round(x_px), "y": round(y_px)}
    try:
        hit, seen = await asyncio.gather(
            send("DOM.getNodeForLocation", point),
            send("DOM.getNodeForLocation", {**point, "ignorePointerEventsNone": True}),
        )
    except Error:  # nothing is there
        return ()
    if hit["backendNodeId"] == seen["backendNodeId"]:
        return ()
    place = _DomRoot(session=top.session, frame_id=seen["frameId"])
    node = await send(
        "DOM.resolveNode",
        {
            "backendNodeId": seen["backendNodeId"],
            "executionContextId": await _isolated_world(place),
            "objectGroup": _OVER,
        },
    )
    read = await send(
        "Runtime.callFunctionOn",
        {"functionDeclaration": _OWN_TEXT, "objectId": node["object"]["objectId"], "returnByValue": True},
    )
    await send("Runtime.releaseObjectGroup", {"objectGroup": _OVER})
    text = read["result"].get("value")
    return (text,) if isinstance(text, str) and text else ()


async def _main_frame_id(session: "CDPSession") -> str:
    tree = await session.send("Page.getFrameTree")
    return str(tree["frameTree"]["frame"]["id"])


async def _isolated_world(place: _DomRoot) -> int:
    world = await place.session.send(
        "Page.createIsolatedWorld",
        {"frameId": place.frame_id, "worldName": _WORLD, "grantUniveralAccess": True},  # misspelt in the protocol
    )
    return int(world["executionContextId"])


async def _run(
    place: _DomRoot,
    context: int,
    ask: Mapping[str, object],
    *,
    wants_element: bool = False,
    function: str | None = None,
) -> Any:
    call_target = {"objectId": place.root} if place.root else {"executionContextId": context}
    answer = await place.session.send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": function or read_script("inspect.js"),
            "arguments": [{"value": ask}, {"value": wants_element}],
            "returnByValue": not wants_element,
            "objectGroup": _GROUP,
            **call_target,
        },
    )
    return _result_of(answer, wants_element=wants_element)


def _result_of(answer: Json, *, wants_element: bool) -> object:
    if "exceptionDetails" in answer:
        raise RuntimeError(f"a script in the page failed: {answer['exceptionDetails']}")
    return answer["result"].get("objectId") if wants_element else answer["result"]["value"]


async def _step_inside(
    page: "Page", place: _DomRoot, element: str | None, frames: AsyncExitStack | None
) -> _DomRoot | None:
    """Return the frame (session opened in `frames`) or the closed shadow root of an element; None if there is none."""
    if element is None:
        return None
    node = (await place.session.send("DOM.describeNode", {"objectId": element}))["node"]
    if frames is not None:
        frame_id = node.get("frameId")
        return await _frame(page, place.session, frame_id, frames) if frame_id else None
    closed = [root for root in node.get("shadowRoots", ()) if root.get("shadowRootType") == "closed"]
    if not closed:
        return None
    resolved = await place.session.send(
        "DOM.resolveNode",
        {
            "backendNodeId": closed[0]["backendNodeId"],
            "executionContextId": await _isolated_world(place),
            "objectGroup": _GROUP,
        },
    )
    return _DomRoot(session=place.session, frame_id=place.frame_id, root=resolved["object"]["objectId"])


async def _frame(page: "Page", session: "CDPSession", frame_id: str, frames: AsyncExitStack) -> _DomRoot | None:
    """Return a frame in the session of its parent, or in a new session if it has its own process."""
    from playwright.async_api import Error

    place = _DomRoot(session=session, frame_id=frame_id)
    try:
        await _isolated_world(place)
    except Error:
        for frame in page.frames[:50]:
            try:
                own = await page.context.new_cdp_session(frame)
            except Error:
                continue
            frames.push_async_callback(detach, own)
            if await _main_frame_id(own) == frame_id:
                return _DomRoot(session=own, frame_id=frame_id)
        return None
    return place


async def detach(session: "CDPSession") -> None:
    """Detach a session and release everything held in it; ignore a session whose page is gone."""
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await session.detach()


def _target(entry: Json, page_url: str) -> Target:
    return Target(
        role=entry["role"],
        names=tuple(entry["names"]),
        context=tuple(entry["context"]),
        hints=tuple(entry["hints"]),
        handlers=tuple(entry["handlers"]),
        url=entry["url"],
        page_url=page_url,
        is_image=entry.get("is_image", False),
        is_field=entry["is_field"],
        is_element=entry.get("is_element", True),
    )
