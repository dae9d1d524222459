"""Print the accessibility tree of a desktop as XML, or the text of its active terminal.

    python3 atspi.py tree|terminal

This is a separate program for the system's Python: it has the bindings of AT-SPI (Debian: python3-gi,
gir1.2-atspi-2.0), and can be killed if an application does not answer.

Source: element names, attributes and namespaces are from OSWorld's guest server.
"""

import re
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

NAMESPACES = {
    "st": "https://accessibility.ubuntu.example.org/ns/state",
    "attr": "https://accessibility.ubuntu.example.org/ns/attributes",
    "cp": "https://accessibility.ubuntu.example.org/ns/component",
    "doc": "https://accessibility.ubuntu.example.org/ns/document",
    "docattr": "https://accessibility.ubuntu.example.org/ns/document/attributes",
    "txt": "https://accessibility.ubuntu.example.org/ns/text",
    "val": "https://accessibility.ubuntu.example.org/ns/value",
    "act": "https://accessibility.ubuntu.example.org/ns/action",
}
MAX_DEPTH = 50
MAX_CHILDREN = 1024
MAX_NODES = 5000
MAX_TEXT_CHARS = 200_000
TIME_LIMIT_S = 50.0
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def load_atspi() -> tuple[Any, type[Exception]]:
    """Return the initialized bindings, and their exception for an unresponsive program or a removed widget."""
    import gi  # type: ignore[import-not-found]

    gi.require_version("Atspi", "2.0")
    from gi.repository import Atspi, GLib  # type: ignore[import-not-found]

    Atspi.init()
    Atspi.set_timeout(2000, 2000)
    return Atspi, GLib.Error


class Reader:
    """Reader of the accessibility tree; a widget that does not answer, or is gone, is left out.

    Args:
        atspi: The bindings.
        gone: Exception that the bindings raise.
    """

    def __init__(self, atspi: Any, gone: type[Exception]) -> None:
        self._atspi = atspi
        self._gone = gone
        self._num_left = MAX_NODES
        self._until_s = time.monotonic() + TIME_LIMIT_S

    def tree(self) -> str:
        """Return the windows of all programs as XML."""
        for prefix, uri in NAMESPACES.items():
            ET.register_namespace(prefix, uri)
        root = ET.Element("desktop-frame", {"name": "main"})
        desktop = self._atspi.get_desktop(0)
        for app in self._children(desktop):
            element = self._describe(app, 0)
            if element is not None and len(element):
                root.append(element)
        return ET.tostring(root, encoding="unicode")

    def terminal(self) -> str:
        """Return the text of the terminal in the active window; "" if no terminal is active."""
        for app in self._children(self._atspi.get_desktop(0)):
            for window in self._children(app) if self._is_terminal(app) else ():
                if self._has(window, self._atspi.StateType.ACTIVE):
                    terminal = self._find_terminal(window, 0)
                    if terminal is not None:
                        return self._text(terminal).rstrip()
        return ""

    def _is_terminal(self, app: Any) -> bool:
        """Return True if the program's name is a terminal's; searching the widgets of all programs would time out."""
        try:
            return "terminal" in (app.get_name() or "").lower()
        except self._gone:
            return False

    def _describe(self, node: Any, depth: int) -> Any:
        self._num_left -= 1
        if depth > MAX_DEPTH or self._num_left < 0 or time.monotonic() > self._until_s:
            return None
        try:
            role = node.get_role_name() or "unknown"
            attributes = {"name": node.get_name() or ""}
            attributes |= self._states(node) | self._places(node)
            text = self._text(node)
        except self._gone:
            return None
        element = ET.Element(_name(role), {key: _clean(value) for key, value in attributes.items()})
        element.text = _clean(text)
        for child in self._children(node):
            if depth == 0 or self._is_shown(child):
                description = self._describe(child, depth + 1)
                if description is not None:
                    element.append(description)
        return element

    def _states(self, node: Any) -> dict[str, str]:
        states = node.get_state_set().get_states()
        return {f"{{{NAMESPACES['st']}}}{state.value_nick}": "true" for state in states}

    def _places(self, node: Any) -> dict[str, str]:
        component = node.get_component_iface()
        if component is None:
            return {}
        box = component.get_extents(self._atspi.CoordType.SCREEN)
        space = NAMESPACES["cp"]
        return {
            f"{{{space}}}screencoord": f"({box.x}, {box.y})",
            f"{{{space}}}size": f"({box.width}, {box.height})",
        }

    def _text(self, node: Any) -> str:
        text = node.get_text_iface()
        if text is None:
            return ""
        length = min(self._atspi.Text.get_character_count(node), MAX_TEXT_CHARS)
        return str(self._atspi.Text.get_text(node, 0, length))

    def _children(self, node: Any) -> Iterator[Any]:
        try:
            count = min(node.get_child_count(), MAX_CHILDREN)
        except self._gone:
            return
        for number in range(count):
            try:
                child = node.get_child_at_index(number)
            except self._gone:
                continue
            if child is not None:
                yield child

    def _find_terminal(self, node: Any, depth: int) -> Any:
        if node.get_role() == self._atspi.Role.TERMINAL:
            return node
        terminals = (self._find_terminal(child, depth + 1) for child in self._children(node) if depth < MAX_DEPTH)
        return next(filter(None, terminals), None)

    def _is_shown(self, node: Any) -> bool:
        return self._has(node, self._atspi.StateType.SHOWING) and self._has(node, self._atspi.StateType.VISIBLE)

    def _has(self, node: Any, state: Any) -> bool:
        try:
            return bool(node.get_state_set().contains(state))
        except self._gone:
            return False


def _name(role: str) -> str:
    """Convert a role to an element name."""
    name = re.sub(r"[^\w.-]", "-", role.strip().replace(" ", "-"))
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


if __name__ == "__main__":
    reader = Reader(*load_atspi())
    sys.stdout.write(reader.terminal() if sys.argv[1:] == ["terminal"] else reader.tree())
