"""Interactions by rules: page states after a click are overlaid on the page, hovers and reveals are style rules.

Each further state of a page is a `<div class="state">` with a shadow root, which isolates its style. Clicks and timers
fade between states with the duration and the easing of the recording.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from apps.video2web.interactions import Interaction
from apps.video2web.pixels import RgbImage
from visual_tools.errors import require
from visual_tools.ink import find_background
from visual_tools.pages.text_blocks import ink_color

_MIN_STEP = 8
_REACH_PX = 14
_MIN_SIDE_PX = 16
_MIN_GAIN = 0.6  # maximum share of the change that may remain after a move
_SCALES = tuple(round(1 + step / 100, 2) for step in (2, 3, 4, 5, 6, 8, 10, 12, -2, -3, -4, -5))
_MIN_SHADOW_LEVELS, _MIN_SHADOW_SHARE = 6.0, 0.25

SCRIPT, STYLE = "interactions.js", "interactions.css"
_STATE_CSS = """.state {
  display: none; position: absolute; max-width: 100%; pointer-events: auto; overflow: hidden; visibility: visible
}
.is-covered > :not(.state) { visibility: hidden }
.state.bar { position: fixed }
"""
_REVEAL_CSS = """@media (prefers-reduced-motion: no-preference) {{
  .{name} {{ opacity: 0; transform: translateY({rise}px) }}
  .{name}.is-revealed {{ opacity: 1; transform: none; transition: opacity {time}, transform {time} }}
}}
"""

_SECTION = """<div class="{classes}" id="{name}" style="{place}">
<template shadowrootmode="open"><link rel="stylesheet" href="{name}.css"><link rel="stylesheet" href="{style}">
<div class="page">
{body}
</div></template>
</div>
"""

_RISE_PX = 24
_MIN_HEADER_PX, _SAME_LEVELS, _STAYS_SHARE, _MIN_SPREAD = 24, 24, 0.98, 6.0
_PATCHED = ("menu", "tooltip", "toast")
_NOTICE_S = 2.5
WritePage = Callable[[RgbImage, str], Mapping[str, bytes]]


def find_hover_style(interaction: Interaction) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hover style of the element under the pointer, and of its contents.

    Args:
        interaction: A hover; its box contains the whole change, including shadows.
    """
    before, after = interaction.before, interaction.after
    style: dict[str, str] = {}
    inner: dict[str, str] = {}
    move = find_move(before, after)
    if move:
        style["transform"] = move
    grounds = [_ground(image) for image in (before, after)]
    if _is_other(*grounds):
        style["background"] = "rgb({}, {}, {})".format(*grounds[1])
    inks = [[round(level) for level in ink_color(_inner(image))] for image in (before, after)]
    if _is_other(*inks):
        style["color"] = inner["color"] = "rgb({}, {}, {})".format(*inks[1])
    if move.startswith("translate"):
        depth = find_shadow(before, after)
        if depth:
            style["box-shadow"] = f"0 12px 24px rgba(0, 0, 0, {depth})"
    if "background" in style:
        inner["background"] = "transparent"
    return style, inner


def _inner(image: RgbImage) -> RgbImage:
    """Crop the edges of an image if it is large enough."""
    height, width = image.shape[:2]
    down, across = (3 if height > _MIN_SIDE_PX else 0), (3 if width > _MIN_SIDE_PX else 0)
    return np.ascontiguousarray(image[down : height - down, across : width - across])


def _ground(image: RgbImage) -> list[int]:
    return [int(level) for level in find_background(_inner(image))]


def _is_other(first: Sequence[int], second: Sequence[int]) -> bool:
    return max(abs(before - after) for before, after in zip(first, second, strict=True)) >= _MIN_STEP


def find_move(before: RgbImage, after: RgbImage) -> str:
    """Return the CSS shift or scale that turns one image into the other; "" if neither explains the change."""
    cv2 = require("cv2", "visual")
    height, width = before.shape[:2]
    reach = min(_REACH_PX, height // 4, width // 4)
    if min(height, width) < _MIN_SIDE_PX or reach < 2:
        return ""
    still = float(np.abs(before.astype(np.int16) - after).mean())
    core = np.ascontiguousarray(before[reach : height - reach, reach : width - reach])
    scores = cv2.matchTemplate(after, core, cv2.TM_SQDIFF)
    row, column = np.unravel_index(int(scores.argmin()), scores.shape)
    right, down = int(column) - reach, int(row) - reach
    moved = after[row : row + core.shape[0], column : column + core.shape[1]]
    left = float(np.abs(core.astype(np.int16) - moved).mean())
    at_rest = after[reach : height - reach, reach : width - reach]
    stays = float(np.abs(core.astype(np.int16) - at_rest).mean())
    if (right or down) and left < _MIN_GAIN * stays:
        return f"translate({right}px, {down}px)"
    best, least = 1.0, _MIN_GAIN * still
    for scale in _SCALES:
        matrix = np.array([[scale, 0, width / 2 * (1 - scale)], [0, scale, height / 2 * (1 - scale)]], np.float32)
        grown = cv2.warpAffine(before, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
        off = float(np.abs(grown.astype(np.int16) - after).mean())
        if off < least:
            best, least = scale, off
    return f"scale({best:g})" if best != 1 else ""


def find_shadow(before: RgbImage, after: RgbImage) -> float:
    """Return the opacity of a shadow that appears at the edges of a box, 0 to 0.5; 0 for none."""
    height, width = before.shape[:2]
    edge = np.ones((height, width), np.bool_)
    edge[: height * 3 // 4, 8 : width - 8] = False
    darker = before.astype(np.int16).mean(axis=2) - after.mean(axis=2)
    dark = darker[edge & (darker > _MIN_SHADOW_LEVELS)]
    if dark.size < _MIN_SHADOW_SHARE * edge.sum():
        return 0.0
    return round(float(min(np.percentile(dark, 80) / 255 * 1.6, 0.5)), 2)


def write_interactions(
    interactions: Sequence[Interaction], names: Sequence[str], write_page: WritePage
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the script, the style and the further states of a site that reproduces the recorded interactions.

    Args:
        interactions: Recorded interactions.
        names: File names of the pages.
        write_page: Function that writes a page from its image under a name such as `state-1`.

    Returns:
        Files by name, and for each page the HTML at the end of its body.
    """
    writer = _Writer(names, write_page)
    for interaction in interactions:
        if not interaction.lost:
            writer.add(interaction)
    return writer.finish()


class _Writer:
    def __init__(self, names: Sequence[str], write_page: WritePage) -> None:
        self._names, self._write_page = names, write_page
        self._files: dict[str, bytes] = {}
        self._acts: list[dict[str, Any]] = []
        self._css: list[str] = []
        self._sections: dict[str, str] = dict.fromkeys(names, "")
        self._states: dict[tuple[int, int], str] = {(0, 0): ""}
        self._headers: dict[int, list[RgbImage]] = {}
        self._ways: dict[tuple[int, tuple[Any, ...]], str] = {(page, ()): "" for page in range(len(names))}

    def add(self, interaction: Interaction) -> None:
        """Add an interaction if the rules support it."""
        before = tuple(act for act in interaction.acts[:-1] if act.trigger != "scroll")
        state = self._ways.get((interaction.page, before))
        if state is None:
            return
        act: dict[str, Any] = {"page": self._names[interaction.page], "state": state}
        act |= {
            "on": interaction.act.trigger,
            "x": interaction.act.x_px,
            "y": interaction.act.y_px + interaction.act.scroll_px,
        }
        act |= {"seconds": round(interaction.duration_s, 2), "easing": interaction.easing or "ease"}
        way = (interaction.page, (*before, interaction.act))
        match interaction.act.trigger:
            case "click":
                self._add_click(interaction, act, way)
            case "type":
                self._ways.setdefault(way, state)
            case "hover":
                self._add_hover(interaction, act)
            case "wait":
                self._add_wait(interaction, act, way)
            case "scroll" if interaction.kind == "reveal" and not state:
                self._add_reveal(interaction, act)
            case "scroll" if not state:
                header = interaction.after[: find_header(interaction.before, interaction.after)]
                self._headers.setdefault(interaction.page, []).append(header)

    def _add_click(self, interaction: Interaction, act: dict[str, Any], way: tuple[int, tuple[Any, ...]]) -> None:
        if interaction.leads_to is not None:
            if interaction.end_state is not None:
                self._states[interaction.leads_to, interaction.end_state] = ""
            self._acts.append({**act, "href": self._names[interaction.leads_to]})
            return
        if interaction.end_page is None or interaction.end_state is None:
            to = self._add_patch(interaction)  # reverted later: a menu by the next click, a toast by itself
            act["back"] = _NOTICE_S if interaction.kind == "toast" else 0
        else:
            to = self._state_of(interaction)
        self._ways.setdefault(way, to)
        if interaction.kind == "accordion":  # its header is clicked anywhere along what unfolds
            act["row"] = [interaction.box_px.left, interaction.box_px.right]
        self._acts.append({**act, "to": to})

    def _state_of(self, interaction: Interaction) -> str:
        """Return the name of the state in which an interaction ends; a new state is written."""
        assert interaction.end_page is not None and interaction.end_state is not None
        key = (interaction.page, interaction.end_state)
        if key not in self._states:
            height, width = interaction.end_page.shape[:2]
            place = (0, interaction.end_row_px, width, height)
            self._states[key] = self._add_section(interaction.page, interaction.end_page, place)
        return self._states[key]

    def _add_patch(self, interaction: Interaction) -> str:
        """Overlay only the changed box with its end state, and return the name of the state."""
        box = interaction.box_px
        place = (box.left, box.top + interaction.act.scroll_px, interaction.after.shape[1], interaction.after.shape[0])
        return self._add_section(interaction.page, interaction.after, place)

    def _add_section(self, page: int, image: RgbImage, place: tuple[int, int, int, int], classes: str = "state") -> str:
        name = f"state-{1 + sum(file.endswith('.css') for file in self._files)}"
        files = dict(self._write_page(image, name))
        html = files.pop(f"{name}.html").decode()
        body = html.partition("<body>")[2].rpartition("</body>")[0]
        files[f"{name}.css"] = files[f"{name}.css"].replace(b"\nbody {", b"\n.page {")
        self._files |= files
        at = "left: {}px; top: {}px; width: {}px; height: {}px".format(*place)
        self._sections[self._names[page]] += _SECTION.format(
            classes=classes, name=name, place=at, style=STYLE, body=body.strip("\n")
        )
        return name

    def _add_hover(self, interaction: Interaction, act: dict[str, Any]) -> None:
        box, down = interaction.box_px, interaction.act.scroll_px
        if interaction.kind in _PATCHED:
            self._acts.append({**act, "patch": self._add_patch(interaction)})
            return
        name = f"hover-{len(self._acts) + 1}"
        style, inner = find_hover_style(interaction)
        if not style.keys() and not inner:
            return
        place = [box.left, box.top + down, box.width, box.height]
        self._acts.append({**act, "name": name, "box": place})
        time = f"transition: all {act['seconds']}s {act['easing']}"
        self._css += [f".{name}, .{name} *, .{name}-in, .{name}-in * {{ {time} }}", _rule(f".{name}.is-over", style)]
        inner_rules = inner | ({"transform": style["transform"]} if "transform" in style else {})
        if inner_rules:
            self._css.append(_rule(f".{name}-in.is-over", inner_rules))
        if inner:
            self._css.append(_rule(f".{name}.is-over *, .{name}-in.is-over *", inner))

    def _add_wait(self, interaction: Interaction, act: dict[str, Any], way: tuple[int, tuple[Any, ...]]) -> None:
        waits = {each["state"]: each for each in self._acts if each["on"] == "wait" and each["page"] == act["page"]}
        state, wait_s = act["state"], interaction.wait_s
        while state in waits:  # it comes after another one
            wait_s -= waits[state]["wait"]
            state = waits[state]["to"]
        to = self._add_patch(interaction)
        self._ways.setdefault(way, to)
        self._acts.append({**act, "state": state, "wait": round(max(wait_s, 0.0), 2), "to": to})

    def _add_reveal(self, interaction: Interaction, act: dict[str, Any]) -> None:
        name, box = f"reveal-{len(self._acts) + 1}", interaction.box_px
        place = [box.left, box.top + interaction.act.scroll_px, box.width, box.height]
        self._acts.append({**act, "on": "reveal", "name": name, "box": place})
        self._css.append(_REVEAL_CSS.format(name=name, rise=_RISE_PX, time=f"{act['seconds']}s {act['easing']}"))

    def _add_header(self, page: int, headers: Sequence[RgbImage]) -> None:
        """Add a header that stays in place while the page scrolls, of the least depth that the scrolls show."""
        seen = [header for header in headers if len(header) >= _MIN_HEADER_PX]
        if 2 * len(seen) > len(headers):
            header = min(seen, key=len)
            place = (0, 0, header.shape[1], header.shape[0])
            name = self._add_section(page, header, place, "state bar")
            self._acts.append({"page": self._names[page], "state": "", "on": "stays", "bar": name})

    def finish(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return all files, and the HTML at the end of each page."""
        for page, headers in self._headers.items():
            self._add_header(page, headers)
        if not self._acts:
            return {}, {}
        code = resources.files("apps.video2web").joinpath("interactions_template.js").read_text("utf-8")
        self._files[SCRIPT] = code.replace("ACTS", json.dumps(self._acts, indent=1), 1).encode()
        self._files[STYLE] = (_STATE_CSS + "\n".join(self._css) + "\n").encode()
        return self._files, self._sections


def find_header(before: RgbImage, after: RgbImage) -> int:
    """Return the number of rows at the top of a window that stay while it scrolls; 0 if they are empty.

    Args:
        before: (H, W, 3) uint8 RGB.
        after: The window after scrolling.
    """
    height = min(len(before), len(after))
    off = np.abs(before[:height].astype(np.int16) - after[:height]).max(axis=2)
    differs = (off > _SAME_LEVELS).mean(axis=1) > 1 - _STAYS_SHARE
    depth = int(np.argmax(differs)) if differs.any() else 0
    is_seen = depth > 0 and float(before[:depth].reshape(-1, 3).std(axis=0).max()) > _MIN_SPREAD
    return depth if is_seen and depth < height // 2 else 0


def _rule(selector: str, style: Mapping[str, str]) -> str:
    return f"{selector} {{ {'; '.join(f'{name}: {value}' for name, value in style.items())} }}"


def attach(html: bytes, section: str) -> bytes:
    """Return a page with the further states at its end, and with the script and the style."""
    tags = f'{section}<script src="{SCRIPT}"></script>\n'.encode()
    style = f'<link rel="stylesheet" href="{STYLE}">\n'.encode()
    return html.replace(b"</body>", tags + b"</body>").replace(b"</head>", style + b"</head>")
