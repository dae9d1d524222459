"""Interactions by rules: a click leads to the page of its end, a hover takes the colours of its end."""

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from apps.video2web.interactions import Interaction
from visual_tools.ink import find_background
from visual_tools.pages.text_blocks import ink_color

SCRIPT = "interactions.js"
_MIN_STEP = 8
_CODE = """// What elements do, by their place on the page: the smallest element there takes the act.
const acts = ACTS;
const elementAt = (x, y) => {
  let best = null;
  let least = Infinity;
  for (const element of document.body.querySelectorAll('*')) {
    const box = element.getBoundingClientRect();
    const [left, top] = [box.left + scrollX, box.top + scrollY];
    const inside = x >= left && x < left + box.width && y >= top && y < top + box.height;
    if (inside && box.width * box.height <= least) [best, least] = [element, box.width * box.height];
  }
  return best || document.body;
};
const own = location.pathname.split('/').pop() || 'index.html';
for (const act of acts.filter((one) => one.page === own)) {
  const element = act.width ? boxLike(act) : elementAt(act.x, act.y);
  if (act.href) {
    element.style.cursor = 'pointer';
    element.addEventListener('click', (event) => { event.preventDefault(); location.href = act.href; });
  } else {
    element.style.transition = `all ${act.seconds}s ease`;
    const rest = { background: element.style.background, color: element.style.color };
    element.addEventListener('pointerenter', () => Object.assign(element.style, act.style));
    element.addEventListener('pointerleave', () => Object.assign(element.style, rest));
  }
}
function boxLike(act) {
  const off = (element) => {
    const box = element.getBoundingClientRect();
    return Math.abs(box.left + scrollX - act.left) + Math.abs(box.top + scrollY - act.top)
      + Math.abs(box.width - act.width) + Math.abs(box.height - act.height);
  };
  return [...document.body.querySelectorAll('*')].reduce((best, one) => (off(one) < off(best) ? one : best));
}
"""


def write_interactions(
    interactions: Sequence[Interaction],
    names: Sequence[str],
    write_page: Callable[[NDArray[np.uint8], str], Mapping[str, bytes]],
) -> dict[str, bytes]:
    """The script and the further pages of a site that does what was recorded.

    Args:
        interactions: What was recorded.
        names: The files of the pages.
        write_page: Writes a page from its image under a name, such as `state-1`.
    """
    files: dict[str, bytes] = {}
    acts: list[dict[str, object]] = []
    ways: dict[tuple[object, ...], str] = {}  # by page and acts: the file that shows their end
    for number, one in enumerate(interactions, 1):
        start = ways.get((one.page, *one.acts[:-1]), names[one.page])
        place = {"page": start, "x": one.act.x_px, "y": one.act.y_px + one.act.scroll_px}
        if one.act.trigger == "hover":
            style = _hover_style(one)
            box, down = one.box_px, one.act.scroll_px
            size = {"left": box.left, "top": box.top + down, "width": box.width, "height": box.height}
            acts += [{**place, **size, "seconds": round(one.duration_s, 2), "style": style}] if style else []
            continue
        if one.leads_to is not None:
            end = names[one.leads_to]
        elif one.end_page is not None:
            end = f"state-{number}.html"
            files |= write_page(one.end_page, f"state-{number}")
        else:
            continue
        ways[(one.page, *one.acts)] = end
        acts.append({**place, "href": end})
    if acts:
        files[SCRIPT] = _CODE.replace("ACTS", json.dumps(acts, indent=1), 1).encode()
    return files


def _hover_style(one: Interaction) -> dict[str, str]:
    """The colours that a hover changes: those of the ground and of the ink."""
    style = {}
    grounds = [find_background(image).astype(int).tolist() for image in (one.before, one.after)]
    if _is_other(*grounds):
        style["background"] = "rgb({}, {}, {})".format(*grounds[1])
    inks = [[round(level) for level in ink_color(image)] for image in (one.before, one.after)]
    if _is_other(*inks):
        style["color"] = "rgb({}, {}, {})".format(*inks[1])
    return style


def _is_other(first: Sequence[int], second: Sequence[int]) -> bool:
    return max(abs(one - other) for one, other in zip(first, second, strict=True)) >= _MIN_STEP
