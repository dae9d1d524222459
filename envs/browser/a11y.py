"""Accessibility tree of a page as text, and its usable elements with their boxes.

One line per node in view, indented by depth; usable elements that receive the mouse have a number:

    page "Expenses"
      [1] textbox "Amount" value="48.50" focused (0.120, 0.310, 0.340, 0.355)
      heading "Total" (0.120, 0.400, 0.300, 0.450)

Boxes are left, top, right, bottom in fractions of the screenshot. Roles, names and states come from the browser
(Accessibility.getFullAXTree), boxes from its layout (DOMSnapshot). DOM.getNodeForLocation tests the middle of an
element: covered elements and those scrolled out of view have no number. Texts are cut and redacted.
"""

import asyncio
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from envs.browser.camera import corner_of
from envs.browser.inspector import detach
from envs.browser.redact import STARS
from envs.json_fields import Json
from envs.observation import ScreenElement

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page

MAX_DOM_NODES = 40_000  # the tree of a larger page is not read: bounds the time that a step waits for it
MAX_LINES = 500  # with MAX_CHARS: bounds the tokens of the tree in a request
MAX_CHARS = 20_000
MAX_ELEMENTS = 150  # numbered boxes; more cover each other in the screenshot
_MAX_FRAMES = 30  # each frame costs a round trip to the browser; advertisements make many
_MAX_NAME_CHARS = 100  # of an element's name: enough to recognize it, few tokens
_MAX_PIECES = 6  # adjacent texts that are joined when a secret is looked for across elements
_STYLES = ["visibility", "padding-left", "padding-top", "padding-right", "padding-bottom"]
_SILENT = frozenset("none generic InlineTextBox LineBreak ListMarker MenuListPopup presentation".split())
_USABLE = frozenset(
    "button link textbox searchbox combobox checkbox radio switch slider spinbutton menuitem menuitemcheckbox "
    "menuitemradio option tab treeitem listbox gridcell ColorWell Date DateTime InputTime DisclosureTriangle Video "
    "Audio".split()
)
_STATES: Mapping[str, Mapping[object, str]] = {
    "focused": {True: "focused"},
    "disabled": {True: "disabled"},
    "checked": {"true": "checked", "mixed": "partly checked"},
    "pressed": {"true": "pressed"},
    "selected": {True: "selected"},
    "expanded": {True: "expanded", False: "collapsed"},
    "required": {True: "required"},
    "readonly": {True: "readonly"},
    "invalid": {"true": "invalid"},
}

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, CSS pixels of the viewport."""


class TooLargeError(Exception):
    """Failure to read a page that has too many nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class A11yTree:
    """Accessibility tree of a page.

    Attributes:
        text: Tree as text.
        elements: Numbered elements, in that order.
    """

    text: str
    elements: tuple[ScreenElement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """Document of a page, with the layout of its nodes by their ids.

    Attributes:
        frame_id: Its frame.
        boxes: Drawn boxes, clipped to the visible part of the frame.
        parents: Parent nodes; for the root, the owner of the frame.
        labels: Nodes that are labels.
        frames: Child frames, by the node that owns them.
    """

    session: "CDPSession"
    frame_id: str
    boxes: Mapping[int, Box]
    parents: Mapping[int, int]
    labels: frozenset[int]
    frames: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Line of the text before it is numbered."""

    depth: int
    role: str
    name: str
    value: str = ""
    states: tuple[str, ...] = ()
    box: Box | None = None
    node_id: int = 0
    document: _Document | None = field(default=None, repr=False)

    @property
    def is_usable(self) -> bool:
        return self.role in _USABLE and self.box is not None


class A11yReader:
    """Reader of accessibility trees.

    Args:
        viewport_px: Size of the viewport, CSS pixels.
        redact: Removes secrets from names and values.
    """

    def __init__(self, viewport_px: tuple[int, int], redact: Callable[[str], str]) -> None:
        self._viewport_px = viewport_px
        self._whole: Box = (0.0, 0.0, float(viewport_px[0]), float(viewport_px[1]))
        self._redact = redact
        self._sessions: dict[Page, CDPSession] = {}

    async def read(self, page: "Page") -> A11yTree:
        """Read the current accessibility tree of a page.

        Raises:
            TooLargeError: If it has more nodes than can be read in time.
            playwright.async_api.Error: If the page is gone.
        """
        session = self._sessions.get(page)
        if session is None:
            session = self._sessions[page] = await page.context.new_cdp_session(page)
        if (await session.send("Memory.getDOMCounters"))["nodes"] > MAX_DOM_NODES:
            raise TooLargeError
        async with AsyncExitStack() as frames:
            documents = await _read_documents(session, self._whole)
            for frame in page.frames[1:_MAX_FRAMES]:
                documents |= await self._read_foreign(page, frame, documents, frames)
            return await self._read_whole(documents)

    async def _read_whole(self, documents: Mapping[str, _Document]) -> A11yTree:
        trees = await asyncio.gather(*(_read_nodes(document) for document in documents.values()))
        nodes = dict(zip(documents, trees, strict=True))
        lines = [line for frame_id in _roots(documents) for line in self._lines(frame_id, documents, nodes)]
        shown = self._without_split_secrets(lines[:MAX_LINES])
        return self._number(shown, await _find_covered(shown), len(lines))

    def forget(self, page: "Page") -> None:
        """Drop the session of a closed page."""
        self._sessions.pop(page, None)

    async def _read_foreign(
        self, page: "Page", frame: "Frame", known: Mapping[str, _Document], frames: AsyncExitStack
    ) -> dict[str, _Document]:
        """Read a frame in another process through a CDP session of its own, which is opened in `frames`."""
        from playwright.async_api import Error

        try:
            session = await page.context.new_cdp_session(frame)
        except Error:  # it is in the process of the page
            return {}
        frames.push_async_callback(detach, session)
        left, top = await corner_of(frame)
        width, height = await frame.evaluate("[innerWidth, innerHeight]")
        clip = _intersection((left, top, left + width, top + height), self._whole)
        inner_documents = await _read_documents(session, clip, (left, top)) if clip is not None else {}
        return {frame_id: document for frame_id, document in inner_documents.items() if frame_id not in known}

    def _lines(
        self, frame_id: str, documents: Mapping[str, _Document], nodes: Mapping[str, list[Json]]
    ) -> Iterator[_Line]:
        """Yield the lines depth first, without recursion, since trees can be deep."""
        by_id = {(frame, node["nodeId"]): node for frame, frame_nodes in nodes.items() for node in frame_nodes}
        waiting = [(frame_id, nodes[frame_id][0]["nodeId"], 0, "")] if nodes.get(frame_id) else []
        while waiting:
            frame, node_id, depth, parent_name = waiting.pop()
            node = by_id.get((frame, node_id))
            if node is None:
                continue
            document = documents[frame]
            line = self._line(node, document, depth, parent_name)
            if line is not None:
                yield line
                depth, parent_name = depth + 1, line.name
            waiting += [(frame, child, depth, parent_name) for child in reversed(node.get("childIds") or ())]
            inner = document.frames.get(node.get("backendDOMNodeId", 0))
            if nodes.get(inner or ""):
                assert inner is not None
                waiting.append((inner, nodes[inner][0]["nodeId"], depth, ""))

    def _line(self, node: Json, document: _Document, depth: int, parent_name: str) -> _Line | None:
        """Return the line of a node; None if it is silent or not visible."""
        role, name = str(_value(node, "role") or ""), self._text(_value(node, "name"))
        if node.get("ignored") or role in _SILENT:
            return None
        if role == "RootWebArea":
            return _Line(depth=depth, role="page", name=name)
        node_id = node.get("backendDOMNodeId", 0)
        box = document.boxes.get(node_id)
        if box is None or (role == "StaticText" and (not name or name in parent_name)):
            return None
        properties: Json = {entry["name"]: entry["value"].get("value") for entry in node.get("properties", ())}
        states = tuple(
            words[properties[key]] for key, words in _STATES.items() if key in properties and properties[key] in words
        )
        return _Line(
            depth=depth,
            role={"StaticText": "text", "Iframe": "frame"}.get(role, role),
            name=name,
            value=self._text(_value(node, "value")),
            states=states,
            box=box,
            node_id=node_id,
            document=document,
        )

    def _without_split_secrets(self, lines: list[_Line]) -> list[_Line]:
        """Mask consecutive texts that together contain a secret."""
        texts = [at for at, line in enumerate(lines) if line.role == "text"]
        hidden: set[int] = set()
        for start in range(len(texts)):
            for end in range(start + 2, min(start + _MAX_PIECES, len(texts)) + 1):
                joined = "".join(lines[at].name for at in texts[start:end])
                if self._redact(joined) != joined:
                    hidden.update(texts[start:end])
                    break
        return [replace(line, name=STARS) if at in hidden else line for at, line in enumerate(lines)]

    def _text(self, text: object) -> str:
        """Return a text of the page, redacted, on one line, without control characters, cut to the maximum length."""
        plain = self._redact(str(text)) if text not in (None, "") else ""
        drawn = "".join(char if unicodedata.category(char)[0] != "C" else " " for char in plain)
        line = " ".join(drawn.split())
        return line if len(line) <= _MAX_NAME_CHARS else f"{line[: _MAX_NAME_CHARS - 1]}…"

    def _number(self, lines: list[_Line], covered: frozenset[int], num_lines: int) -> A11yTree:
        elements: list[ScreenElement] = []
        texts: list[str] = []
        num_chars = 0
        for at, line in enumerate(lines):
            number = ""
            if line.is_usable and at not in covered and len(elements) < MAX_ELEMENTS:
                number = f"[{len(elements) + 1}] "
            text = f"{'  ' * min(line.depth, 20)}{number}{self._shown(line)}"
            num_chars += len(text) + 1
            if num_chars > MAX_CHARS:
                break
            texts.append(text)
            if number:
                elements.append(self._element(line, len(elements) + 1))
        if len(texts) < num_lines:
            texts.append(f"… and {num_lines - len(texts)} more lines")
        return A11yTree(text="\n".join(texts), elements=tuple(elements))

    def _shown(self, line: _Line) -> str:
        parts = [line.role, json.dumps(line.name, ensure_ascii=False) if line.name else ""]
        parts += [f"value={json.dumps(line.value, ensure_ascii=False)}" if line.value else "", *line.states]
        parts.append(f"({', '.join(f'{side:.3f}' for side in self._fractions(line.box))})" if line.box else "")
        return " ".join(part for part in parts if part)

    def _element(self, line: _Line, number: int) -> ScreenElement:
        assert line.box is not None
        return ScreenElement(
            number=number,
            role=line.role,
            name=line.name,
            value=line.value,
            states=line.states,
            box=self._fractions(line.box),
        )

    def _fractions(self, box: Box) -> Box:
        width, height = self._viewport_px
        return box[0] / width, box[1] / height, box[2] / width, box[3] / height


async def _read_documents(
    session: "CDPSession", clip: Box, origin: tuple[float, float] = (0.0, 0.0)
) -> dict[str, _Document]:
    """Return the documents of a process by their frame, the outermost first."""
    wanted = {"computedStyles": _STYLES, "includeDOMRects": True}
    snapshot = await session.send("DOMSnapshot.captureSnapshot", wanted)
    strings, entries = snapshot["strings"], snapshot["documents"]
    documents: dict[str, _Document] = {}
    waiting: list[tuple[int, Box, tuple[float, float], int]] = [(0, clip, origin, 0)]
    while waiting and len(documents) < _MAX_FRAMES:
        number, clip, origin, owner = waiting.pop()
        entry = entries[number]
        shift = (origin[0] - (entry.get("scrollOffsetX") or 0), origin[1] - (entry.get("scrollOffsetY") or 0))
        ids, layout = entry["nodes"]["backendNodeId"], entry["layout"]
        inner = entry["nodes"]["contentDocumentIndex"]
        frames = dict(zip(inner["index"], inner["value"], strict=True))
        boxes: dict[int, Box] = {}
        for at, node in enumerate(layout["nodeIndex"]):
            left, top, width, height = layout["bounds"][at]
            left, top = left + shift[0], top + shift[1]
            styles = [strings[index] if index >= 0 else "" for index in layout["styles"][at]]
            box = _intersection((left, top, left + width, top + height), clip)
            if box is None or (styles and styles[0] in ("hidden", "collapse")):
                continue
            boxes.setdefault(ids[node], box)
            if node in frames:
                inside = _content_box((left, top), layout["clientRects"][at] or (0, 0, width, height), styles)
                seen = _intersection(inside, clip)
                if seen is not None:
                    waiting.append((frames[node], seen, inside[:2], ids[node]))
        frame_id = strings[entry["frameId"]]
        names = entry["nodes"]["nodeName"]
        documents[frame_id] = _Document(
            session=session,
            frame_id=frame_id,
            boxes=boxes,
            parents={
                own: ids[parent] if parent >= 0 else owner
                for own, parent in zip(ids, entry["nodes"]["parentIndex"], strict=True)
            },
            labels=frozenset(own for own, name in zip(ids, names, strict=True) if strings[name] == "LABEL"),
            frames={ids[node]: strings[entries[index]["frameId"]] for node, index in frames.items()},
        )
    return documents


async def _read_nodes(document: _Document) -> list[Json]:
    from playwright.async_api import Error

    try:
        answer = await document.session.send("Accessibility.getFullAXTree", {"frameId": document.frame_id})
    except Error:  # the frame is gone
        return []
    nodes: list[Json] = answer["nodes"]
    return nodes


def _roots(documents: Mapping[str, _Document]) -> list[str]:
    """Return the frames that are not inside another document."""
    inner = {frame_id for document in documents.values() for frame_id in document.frames.values()}
    return [frame_id for frame_id in documents if frame_id not in inner]


async def _find_covered(lines: list[_Line]) -> frozenset[int]:
    """Return the indices of the usable lines that do not receive the mouse at their middle."""
    asked = [at for at, line in enumerate(lines) if line.is_usable][: 2 * MAX_ELEMENTS]
    answers = await asyncio.gather(*(_gets_mouse(lines[at]) for at in asked))
    rest = frozenset(at for at, line in enumerate(lines) if line.is_usable) - frozenset(asked)
    return rest | {at for at, is_hit in zip(asked, answers, strict=True) if not is_hit}


async def _gets_mouse(line: _Line) -> bool:
    from playwright.async_api import Error

    assert line.box is not None and line.document is not None
    document = line.document
    try:
        view = (await document.session.send("Page.getLayoutMetrics"))["cssVisualViewport"]
        x_px, y_px = (line.box[0] + line.box[2]) / 2, (line.box[1] + line.box[3]) / 2
        point = {"x": round(x_px + view["pageX"]), "y": round(y_px + view["pageY"])}
        hit = int((await document.session.send("DOM.getNodeForLocation", point))["backendNodeId"])
    except Error:  # nothing is there
        return False
    above = _ancestors(hit, document)
    labels = document.labels & above  # a label that contains the element forwards the click
    return line.node_id in above or bool(labels & _ancestors(line.node_id, document))


def _ancestors(node_id: int, document: _Document) -> frozenset[int]:
    ancestors: set[int] = set()
    while node_id and node_id not in ancestors:
        ancestors.add(node_id)
        node_id = document.parents.get(node_id, 0)
    return frozenset(ancestors)


def _value(node: Json, name: str) -> object:
    return (node.get(name) or {}).get("value")


def _content_box(corner: tuple[float, float], client: Sequence[float], styles: Sequence[str]) -> Box:
    """Return the content box of a frame: its box without border, scroll bars and padding."""
    left, top = corner[0] + client[0], corner[1] + client[1]
    pads = [_px(text) for text in styles[1:]]
    return left + pads[0], top + pads[1], left + client[2] - pads[2], top + client[3] - pads[3]


def _px(text: str) -> float:
    number = text.removesuffix("px")
    try:
        return float(number)
    except ValueError:
        return 0.0


def _intersection(first: Box, second: Box) -> Box | None:
    """Return the intersection of two boxes; None if it is smaller than a pixel."""
    box = (max(first[0], second[0]), max(first[1], second[1]), min(first[2], second[2]), min(first[3], second[3]))
    return box if box[2] - box[0] >= 1 and box[3] - box[1] >= 1 else None
