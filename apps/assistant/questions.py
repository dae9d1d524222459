"""Questions of an agent to a person: one sentence, the image around the target, and answers with their scope."""

import asyncio
import io
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from apps.assistant.event_log import EventLog, shortened
from apps.assistant.screen import SessionScreen
from cua.errors import CuaError
from cua.guard import GuardVerdict
from cua.guard.words import kind_of
from cua.step import Turn
from envs import Action, Target

Answer = Literal["once", "site", "deny"]
_CROP_PX = (860, 150)  # a row of a table, or a dialog
_AROUND_CHARS = 60  # of the text around a target


@dataclass(slots=True, kw_only=True, eq=False)
class Approval:
    """Question to the user.

    Attributes:
        id: Id of the question.
        question: The question in one sentence.
        reason: Reason for the question.
        risk: Kind of risk, "" for none.
        action: Agent's description of its action.
        code: Code to be run.
        target: Target of the click, as described by the environment.
        site: Host of the page, "" if there is none.
        crop: The image around the click, PNG.
        answer: Future of the answer; True allows the action.
    """

    id: str
    question: str
    reason: str
    risk: str
    action: str
    code: str
    target: str
    site: str
    crop: bytes = field(repr=False)
    answer: "asyncio.Future[bool]"

    def to_json(self) -> dict[str, Any]:
        """Return the fields for a page."""
        names = ("id", "question", "reason", "risk", "action", "code", "target", "site")
        return {name: shortened(getattr(self, name)) for name in names} | {"has_crop": bool(self.crop)}


class Questions:
    """Questions of one session.

    Args:
        screen: Screen on which the agent acts.
        log: Log for questions and answers.

    Attributes:
        open: Open questions, by id.
        policy: Approval policy as text for users.
    """

    def __init__(self, screen: SessionScreen, log: EventLog) -> None:
        self.open: dict[str, Approval] = {}
        self.policy = ""
        self._screen, self._log = screen, log
        self._allowed: set[tuple[str, str]] = set()

    async def ask(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        """Wait for the user's answer; True allows the actions."""
        screen = self._screen
        site, risk = urlsplit(screen.url).netloc, verdict.risk or ""
        if (site, risk) in self._allowed:
            return True
        target = await screen.find_target(actions)
        approval = Approval(
            id=secrets.token_hex(6),
            question=question_of(verdict, turn.action_text, target),
            reason=verdict.reason,
            risk=risk,
            action=turn.action_text,
            code=turn.code,
            target=target.text or "" if target else "",
            site=site,
            crop=await asyncio.to_thread(_crop_around, screen.screenshot, screen.point_of(actions)),
            answer=asyncio.get_running_loop().create_future(),
        )
        self.open[approval.id] = approval
        self._log.add("asked", text=verdict.reason, approval=approval.id)
        try:
            is_allowed = await approval.answer
        finally:
            del self.open[approval.id]
            self._log.notify()
        self._log.add("answered", text="allowed" if is_allowed else "denied", approval=approval.id)
        return is_allowed

    def answer(self, name: str, answer: Answer) -> None:
        """Answer a question; `site` allows the same kind of risk on this site for the session.

        Texts of a page that are addressed to the agent are still asked about, each of them.

        Raises:
            CuaError: If it is not open any more.
        """
        approval = self.open.get(name)
        if approval is None or approval.answer.done():
            raise CuaError("this question is not open any more")
        if answer == "site" and approval.risk != "page_text":
            self._allowed.add((approval.site, approval.risk))
        approval.answer.set_result(answer != "deny")

    def deny_all(self) -> None:
        """Deny all open questions."""
        for approval in self.open.values():
            if not approval.answer.done():
                approval.answer.set_result(False)


_MAX_WORDS = 12
"""Words of a question; a person reads it while something waits."""
_NAME_WORDS = 5
_NEXT_STEP = "the next step is on "
_NUMBERED = re.compile(r"^\[\d+/\d+\]\s*")


def question_of(verdict: GuardVerdict, action: str, target: Target | None) -> str:
    """Return one sentence that asks a person for approval: `Delete the expense "Old taxi"?`.

    Args:
        verdict: Verdict of the guard.
        action: Agent's description of its action.
        target: What the action activates; None if unknown. Its texts come from the page.
    """
    if verdict.risk == "page_text":
        return "Go on although the page addresses the agent?"
    if verdict.risk == "take_over":
        return _as_question(f"May it go on with {verdict.reason.partition(';')[0].removeprefix(_NEXT_STEP)}")
    if target is None or not target.names:
        return _as_question(f"Allow this step: {_NUMBERED.sub('', action) or verdict.reason}")
    asked = next((text for text in target.context if text.rstrip().endswith(("?", "\uff1f"))), "")  # of a dialog
    if asked:
        return _as_question(asked.rstrip(" ?\uff1f"))
    name = _quoted(target.names[0])
    if target.item and target.names[0].isalpha() and kind_of(target.names[0]):
        kind = _kind_in(target.context)
        return f"{target.names[0].capitalize()}{kind and f' the {kind}'} {_quoted(target.item)}?"
    around = target.item or next(iter(target.context), "")
    is_short = 0 < len(around.split()) <= _NAME_WORDS
    verb = "Open" if target.role == "link" else "Press"
    return f"{verb} {name}{f' at {_quoted(around)}' if is_short else ''}?"


def _kind_in(context: Sequence[str]) -> str:
    """Return the kind of the entries below a heading of one word: `expense` for `Expenses`; "" if it names none."""
    heading = context[-1] if context else ""
    if not re.fullmatch(r"[A-Z][a-z]{2,20}s", heading) or heading.endswith("ss"):
        return ""
    singular = re.sub(r"(?:(?<=ss)|(?<=x)|(?<=[cs]h))es$|s$", "", heading.lower())
    return singular if singular in ("cookie", "movie") else re.sub(r"ie$", "y", singular)


def _quoted(text: str) -> str:
    return f'"{_cut(text, _NAME_WORDS)}"'


def _as_question(text: str) -> str:
    return f"{_cut(text, _MAX_WORDS)}?"


def _cut(text: str, most_words: int) -> str:
    """Return a text as one line, cut to a number of words, and to `_AROUND_CHARS` characters for five words."""
    words = text.split()
    more = "…" if len(words) > most_words else ""
    return shortened_line(" ".join(words[:most_words]) + more, _AROUND_CHARS * most_words // _NAME_WORDS)


def shortened_line(text: str, chars: int = _AROUND_CHARS) -> str:
    """Return a text as one line of at most `chars` characters."""
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def _crop_around(png: bytes, point: tuple[float, float] | None) -> bytes:
    """Return the part of a screenshot around a point, with a ring at the point; b"" without either.

    Args:
        png: Screenshot as PNG.
        point: Position as fractions of the image.
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
