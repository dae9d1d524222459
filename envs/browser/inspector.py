"""Targets of inputs in a page, determined by the browser in a way that the page cannot falsify.

The scripts run in an isolated world of each document, through the DevTools protocol: a page that replaces
`document.elementFromPoint` or `Element.prototype.getAttribute` changes only its own copies. The protocol also opens
closed shadow roots and frames of other origins.
"""

import asyncio
import contextlib
import functools
import json
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
_NOT_RUN = ("Could not find object", "Cannot find context")
"""Errors of the browser that say that a kept function no longer exists."""
_RETURN_RESULT = """
  const found = run(false), element = found.is_frame ? null : run(true);
  const attributes = element ? Object.getOwnPropertyDescriptor(Element.prototype, "attributes").get.call(element) : [];
  const isLong = [...attributes].reduce((length, { value }) => length + value.length, 0) > 4000;
  return [JSON.stringify(found), isLong && !found.inside ? null : element];
"""  # the browser sends the attributes of the element along
_WITH_SHADOW_ROOT = {
    "serialization": "deep",
    "maxDepth": 1,
    "additionalParameters": {"includeShadowTree": "all", "maxNodeDepth": 0},
}
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
        self._functions: dict[tuple[Page, str], str] = {}
        self._views: dict[Page, tuple[float, float]] = {}
        self._releases: set[asyncio.Task[None]] = set()
        self._num_held = 0

    async def at_point(self, page: "Page", x_px: float, y_px: float, *, is_drop: bool = False) -> tuple[Target, ...]:
        """Return what a click at a point of the viewport activates; at the end of a drag also the elements below.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        top = await self._top(page)
        ask = {"point": [x_px, y_px], "is_drop": is_drop}
        left, top_px = known = self._views.get(page, (0.0, 0.0))  # most likely the page has not scrolled since
        first, seen = await asyncio.gather(self._run_in_top(page, top, ask), _node_at(top, x_px + left, y_px + top_px))
        left, top_px = self._views[page] = first["view"][0], first["view"][1]
        if known != self._views[page]:
            seen = await _node_at(top, x_px + left, y_px + top_px)
        painted: tuple[str, ...] = ()
        if seen and seen["backendNodeId"] != first["element"]:
            painted = await _painted_over(top, x_px + left, y_px + top_px, seen)
        targets = await self._descend(page, top, ask, first)
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
        function = _innermost(script)
        result = await self._run_in_top(page, top, ask, function=function)
        async with AsyncExitStack() as frames:
            return await self._descend_through(page, top, ask, result, frames, function)

    def forget(self, page: "Page") -> None:
        """Forget a closed page."""
        self._tops.pop(page, None)
        self._views.pop(page, None)
        self._functions = {key: kept for key, kept in self._functions.items() if key[0] is not page}

    async def _top(self, page: "Page") -> _DomRoot:
        top = self._tops.get(page)
        if top is None:
            session = await page.context.new_cdp_session(page)
            top = self._tops[page] = _DomRoot(session=session, frame_id=await _main_frame_id(session))
        return top

    async def _run_in_top(
        self,
        page: "Page",
        top: _DomRoot,
        ask: Mapping[str, object],
        *,
        wants_element: bool = False,
        function: str | None = None,
    ) -> Any:
        """Run a script (None: inspect.js) in the main document.

        Its function is kept in the isolated world of the document; its object id is an error in any other world. Only
        inspect.js, which changes nothing, is run again after an error that came while it may have been running.
        """
        from playwright.async_api import Error

        text = function or read_script("inspect.js")
        known = self._functions.get((page, text))
        if known is not None:
            try:
                return await _call_kept(top, known, ask, wants_element=wants_element)
            except Error as error:  # the document was replaced or is unloading
                self._functions.pop((page, text), None)
                if function is not None and not any(reason in error.message for reason in _NOT_RUN):
                    raise
        kept = self._functions[page, text] = await _keep_function(top, text)
        return await _call_kept(top, kept, ask, wants_element=wants_element)

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
            if not result["is_frame"]:
                inner = await _closed_root(place, result["closed_root"])
            elif place is top:
                element = await self._run_in_top(page, top, ask, wants_element=True, function=function)
                inner = await _frame_of(page, place, element, frames)
            else:
                element = await _run(place, ask, wants_element=True, function=function)
                inner = await _frame_of(page, place, element, frames)
            if inner is None:
                break
            place = inner
            x_px, y_px = result["x"], result["y"]
            if "point" in ask:
                ask = {**ask, "point": [x_px, y_px]}
            result = await _run(place, ask, function=function)
            if "point" not in ask and "x" in result:
                result |= {"x": result["x"] + x_px, "y": result["y"] + y_px}
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


@functools.cache
def _innermost(script: str) -> str:
    """Return innermost.js with the function of a file in it."""
    return read_script("innermost.js").replace("__BODY__", read_script(script).strip())


async def _keep_function(top: _DomRoot, function: str) -> str:
    """Create a function in the isolated world of a document, and return its object id."""
    world = await _isolated_world(top)
    answer = await top.session.send(
        "Runtime.evaluate", {"expression": f"({function}\n)", "contextId": world, "objectGroup": _KEPT}
    )
    return str(answer["result"]["objectId"])


async def _call_kept(top: _DomRoot, function: str, ask: Mapping[str, object], *, wants_element: bool) -> object:
    called = {"objectId": function}
    return await _call(top, called, "this.call(window, ask, wants)", ask, wants_element=wants_element)


async def _node_at(top: _DomRoot, x_px: float, y_px: float, *, is_hit: bool = False) -> Json:
    """Return the node that is painted at a point of the page, or that a click hits; empty if there is none."""
    from playwright.async_api import Error

    options = {"x": round(x_px), "y": round(y_px), "ignorePointerEventsNone": not is_hit}
    try:
        node: Json = await top.session.send("DOM.getNodeForLocation", options)
        return node
    except Error:  # nothing is there
        return {}


async def _painted_over(top: _DomRoot, x_px: float, y_px: float, seen: Json) -> tuple[str, ...]:
    """Return the text of the node `seen` at a point if it lets clicks through (`pointer-events: none`)."""
    send = top.session.send
    hit = await _node_at(top, x_px, y_px, is_hit=True)
    if not hit or hit["backendNodeId"] == seen["backendNodeId"]:
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
    place: _DomRoot, ask: Mapping[str, object], *, wants_element: bool = False, function: str | None = None
) -> Any:
    world = await _isolated_world(place)
    called = {"objectId": place.root} if place.root else {"executionContextId": world}
    text = function or read_script("inspect.js")
    return await _call(place, called, f"({text}\n).call(this, ask, wants)", ask, wants_element=wants_element)


async def _call(
    place: _DomRoot, called: Mapping[str, object], expression: str, ask: Mapping[str, object], *, wants_element: bool
) -> object:
    """Evaluate an expression of `ask` and `wants`, a script's question and whether the element itself is wanted.

    Returns:
        The object id of the element, or the script's result, to which two nodes are added that the browser reports in
        the same message, or None: `element` and its `closed_root`.
    """
    body = "return run(true)" if wants_element else _RETURN_RESULT
    answer = await place.session.send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": f"function (ask) {{ const run = (wants) => {expression}; {body} }}",
            "arguments": [{"value": ask}],
            "objectGroup": _GROUP,
            **called,
            **({} if wants_element else {"serializationOptions": _WITH_SHADOW_ROOT}),
        },
    )
    if "exceptionDetails" in answer:
        raise RuntimeError(f"a script in the page failed: {answer['exceptionDetails']}")
    if wants_element:
        return answer["result"].get("objectId")
    text, element = answer["result"]["deepSerializedValue"]["value"]
    node = element["value"] if element["type"] == "node" else {}
    root = (node.get("shadowRoot") or {}).get("value", {})
    nodes = {
        "element": node.get("backendNodeId"),
        "closed_root": root["backendNodeId"] if root.get("mode") == "closed" else None,
    }
    return {**json.loads(text["value"]), **nodes}


async def _closed_root(place: _DomRoot, node: int | None) -> _DomRoot | None:
    if node is None:
        return None
    world = await _isolated_world(place)
    options = {"backendNodeId": node, "executionContextId": world, "objectGroup": _GROUP}
    resolved = await place.session.send("DOM.resolveNode", options)
    return _DomRoot(session=place.session, frame_id=place.frame_id, root=resolved["object"]["objectId"])


async def _frame_of(page: "Page", place: _DomRoot, element: str | None, frames: AsyncExitStack) -> _DomRoot | None:
    """Return the frame of an element, with its session opened in `frames`; None if there is none."""
    if element is None:
        return None
    node = (await place.session.send("DOM.describeNode", {"objectId": element}))["node"]
    frame_id = node.get("frameId")
    return await _frame(page, place.session, frame_id, frames) if frame_id else None


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
        item=entry.get("item", ""),
        hints=tuple(entry["hints"]),
        handlers=tuple(entry["handlers"]),
        url=entry["url"],
        page_url=page_url,
        is_image=entry.get("is_image", False),
        is_field=entry["is_field"],
        is_element=entry.get("is_element", True),
    )
