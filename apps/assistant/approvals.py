"""Questions of the agent to the person at the screen, with what a click would land on."""

import asyncio
import io
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from apps.assistant.event_log import EventLog, shortened
from apps.assistant.screen import Screen
from cua.errors import CuaError
from cua.guard import Verdict
from cua.step import Turn
from envs import Action

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


class Questions:
    """The questions of one session.

    Args:
        screen: What the agent would act on.
        log: Told of questions and answers.

    Attributes:
        open: Those that wait for an answer, by name.
        policy: When it asks, for people.
    """

    def __init__(self, screen: Screen, log: EventLog) -> None:
        self.open: dict[str, Approval] = {}
        self.policy = ""
        self._screen, self._log = screen, log
        self._allowed: set[tuple[str, str]] = set()

    async def ask(self, verdict: Verdict, turn: Turn, actions: Sequence[Action]) -> bool:
        """Wait for the person's answer; True lets the actions pass."""
        screen = self._screen
        site, risk = urlsplit(screen.url).netloc, verdict.risk or ""
        if (site, risk) in self._allowed:
            return True
        approval = Approval(
            id=secrets.token_hex(6),
            reason=verdict.reason,
            risk=risk,
            action=turn.action_text,
            code=turn.code,
            target=await screen.describe_target(actions),
            site=site,
            crop=await asyncio.to_thread(crop_around, screen.screenshot, screen.point_of(actions)),
            answer=asyncio.get_running_loop().create_future(),
        )
        self.open[approval.id] = approval
        self._log.tell("asked", text=verdict.reason, approval=approval.id)
        try:
            is_allowed = await approval.answer
        finally:
            del self.open[approval.id]
            self._log.wake()
        self._log.tell("answered", text="allowed" if is_allowed else "denied", approval=approval.id)
        return is_allowed

    def answer(self, name: str, answer: Answer) -> None:
        """Answer one; `site` lets the same kind of risk pass on this site for the rest of the session, except that each
        text of a page that is addressed to the agent is asked about.

        Raises:
            CuaError: It is not open any more.
        """
        approval = self.open.get(name)
        if approval is None or approval.answer.done():
            raise CuaError("this question is not open any more")
        if answer == "site" and approval.risk != "page_text":
            self._allowed.add((approval.site, approval.risk))
        approval.answer.set_result(answer != "deny")

    def deny_all(self) -> None:
        """Say no to whatever is open."""
        for approval in self.open.values():
            if not approval.answer.done():
                approval.answer.set_result(False)


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
