"""Authors without skill, to compare scores with: a blank page, the image as the page, bare text where it was read."""

import asyncio
import base64
import io
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apps.video2web.layout.pieces import read_page
from apps.video2web.rounds import Order, Proposal, Round
from visual_tools.ink import find_background

Pixels = NDArray[np.uint8]
_DONE = "it changes nothing"


def write_blank(image: Pixels) -> str:
    """Nothing."""
    return "<!doctype html><title>blank</title>"


def write_background(image: Pixels) -> str:
    """The image itself, without a word."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(image).save(written, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
    height, width = image.shape[:2]
    style = f"margin:0;width:{width}px;height:{height}px;background:url({url})"
    return f'<!doctype html><title>image</title><body style="{style}">'


def write_text(image: Pixels) -> str:
    """What is read, in black, each line at its place, on the page's colour."""
    red, green, blue = find_background(image).tolist()
    spans = "".join(
        f'<p style="position:absolute;margin:0;white-space:nowrap;left:{line.box_px.left}px;top:{line.box_px.top}px;'
        f'font:{line.box_px.height}px/1 sans-serif">{escape(line.text)}</p>'
        for line in read_page(image)
    )
    return f'<!doctype html><body style="margin:0;background:rgb({red},{green},{blue})">{spans}'


WRITERS: Mapping[str, Callable[[Pixels], str]] = {
    "null": write_blank,
    "image": write_background,
    "text": write_text,
}
"""By the name of the baseline."""


class BaselineAuthor:
    """Writes each page by one of `WRITERS`, and leaves it so.

    Args:
        kind: Which.
    """

    def __init__(self, kind: str) -> None:
        self.name = f"baseline:{kind}"
        self._write = WRITERS[kind]

    async def draft(self, order: Order) -> Proposal:
        """The pages."""
        files = {
            name: (await asyncio.to_thread(self._write, page.image)).encode()
            for name, page in zip(order.names, order.pages, strict=True)
        }
        return Proposal(files=files, said=f"written by {self.name}", stop=_DONE)

    async def mend(self, order: Order, best: Round, last: Round, folder: Path) -> Proposal:
        """The same again: nothing is gained."""
        return Proposal(files=best.proposal.files, said=_DONE, stop=_DONE)

    async def close(self) -> None:
        """Nothing to let go."""
