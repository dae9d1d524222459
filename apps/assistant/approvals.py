"""Questions of the agent to the person at the screen, with what a click would land on."""

import asyncio
import io
from dataclasses import dataclass, field
from typing import Any, Literal

from apps.assistant.event_log import shortened

Answer = Literal["once", "site", "deny"]
_CROP_PX = (420, 240)


@dataclass(slots=True, kw_only=True, eq=False)
class Approval:
    """A question to the person at the screen.

    Attributes:
        id: Names it.
        reason: Why it is asked.
        risk: Kind of risk, "" for none.
        action: What the agent says that it does.
        code: What it would run.
        target: What gets the click, as the environment knows it.
        site: Host of the page, "" where there is none.
        crop: The image around the click, PNG.
        answer: True lets it pass.
    """

    id: str
    reason: str
    risk: str
    action: str
    code: str
    target: str
    site: str
    crop: bytes = field(repr=False)
    answer: "asyncio.Future[bool]"

    def to_json(self) -> dict[str, Any]:
        """What a page shows of it."""
        names = ("id", "reason", "risk", "action", "code", "target", "site")
        return {name: shortened(getattr(self, name)) for name in names} | {"has_crop": bool(self.crop)}


def crop_around(png: bytes, point: tuple[float, float] | None) -> bytes:
    """The part of a screenshot around a point, with a ring at the point; b"" without either.

    Args:
        png: The screenshot.
        point: Fractions of it.
    """
    if not png or point is None:
        return b""
    from PIL import Image, ImageDraw

    image = Image.open(io.BytesIO(png)).convert("RGB")
    width, height = min(_CROP_PX[0], image.width), min(_CROP_PX[1], image.height)
    x, y = point[0] * image.width, point[1] * image.height
    left = min(max(round(x - width / 2), 0), image.width - width)
    top = min(max(round(y - height / 2), 0), image.height - height)
    crop = image.crop((left, top, left + width, top + height))
    draw = ImageDraw.Draw(crop)
    for radius, colour in ((17, "white"), (16, "#d9480f"), (15, "#d9480f"), (14, "white")):
        draw.ellipse((x - left - radius, y - top - radius, x - left + radius, y - top + radius), outline=colour)
    buffer = io.BytesIO()
    crop.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
