"""Embedded model that follows plain steps literally, from the screenshot alone."""

import asyncio
import re
import time
from collections.abc import Sequence

import numpy as np

from apps.literal.grammar import FORMS, read_instruction
from apps.literal.plan import PlannedStep, decide, give_up
from apps.literal.research import can_research, research
from apps.literal.screen import ScreenHistory, decode_image
from apps.literal.step_outcome import read_progress
from apps.literal.steps import PlainStep, Unreadable
from cua.errors import ModelError
from cua.messages import ImagePart, Message, Reply, Sampling
from cua.model import Tool
from visual_tools.errors import MissingPackageError
from visual_tools.ink import largest_channel

_HEADING = re.compile(r"^# Task Instruction:[ \t]*\n", re.M)
_LAST_ERROR = re.compile(r"^- The last action did not work: \"(.*)\"\s*$", re.M)
_NOTHING_DONE = "so nothing was done. Decide on the new screenshot"
"""End of the message of `envs.browser.generations` about a screen that changed before the input."""
_NEWS = re.compile(r"^- (?:Note|A dialog)\b", re.M)
_CLOSING = re.compile(r"(?<=\n)[^\S\n]*Please generate the next move\b.*\Z", re.S)
_SAME_SHARE = 0.002


class LiteralModel:
    """Model that follows a list of plain steps, without a language model, network or state between calls.

    It reads the screen with OCR and simple image processing and uses the same protocol as any model. The same request
    gives the same reply; `max_tokens` and `stop` are ignored.
    """

    name = "literal"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Answer with the next action; with search and browse tools, use `apps.literal.research`.

        Raises:
            ModelError: If the messages contain no screenshot, or the OCR packages are missing.
        """
        started = time.monotonic()
        if can_research(tools):
            return await asyncio.to_thread(research, tuple(messages), tuple(tools), self.name)
        try:
            decision = await asyncio.to_thread(answer, messages)
        except (MissingPackageError, ValueError) as error:
            raise ModelError(f"the literal model cannot read the screen: {error}", retryable=False) from error
        return Reply(
            content=f"## Action:\n{decision.action}\n\n## Code:\n```python\n{decision.code}\n```\n",
            reasoning=decision.thought,
            model=self.name,
            duration_s=time.monotonic() - started,
        )

    async def close(self) -> None:
        """Do nothing, as the model holds no resources."""


def answer(messages: Sequence[Message]) -> PlannedStep:
    """Return the next step for a conversation.

    Raises:
        ValueError: If there is no user message with a screenshot.
    """
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    images = [part for message in messages for part in message.parts if isinstance(part, ImagePart)]
    if last is None or not any(isinstance(part, ImagePart) for part in last.parts):
        raise ValueError("the last user message contains no screenshot")
    facts, instruction = split_request(last.text)
    try:
        steps = read_instruction(instruction)
    except ValueError as refused:
        return give_up(f"{refused}. Nothing was done")
    unread = [step for step in steps if isinstance(step, Unreadable)]
    plain: list[PlainStep] = [step for step in steps if not isinstance(step, Unreadable)]
    if unread or not plain:
        return give_up(explain_unreadable(unread))
    progress = read_progress(messages, len(plain))
    error = _LAST_ERROR.search(facts)
    if error is not None and error[1].endswith(_NOTHING_DONE):
        last_reply = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=0)
        progress = read_progress(messages[:last_reply], len(plain))
    elif error is not None and progress.last_action:  # otherwise it belongs to an instruction before a redirect
        return give_up(f"my last action ({progress.last_action}) did not work: {error[1]}")
    sight = ScreenHistory(
        images=tuple(image.data for image in images),
        has_news=_NEWS.search(facts) is not None,
        is_stuck=len(images) > 1 and is_same_image(images[-2].data, images[-1].data),
    )
    return decide(plain, sight, progress)


def split_request(text: str) -> tuple[str, str]:
    """Split the last user message's text into what the environment reports and the instruction.

    The protocol quotes page text on one line, so a page cannot forge the heading at a line's start.
    """
    heading = _HEADING.search(text)
    if heading is None:
        return "", _CLOSING.sub("", text).strip()
    return text[: heading.start()], _CLOSING.sub("", text[heading.end() :]).strip()


def explain_unreadable(unread: Sequence[Unreadable]) -> str:
    """Explain which steps are supported, if a part could not be parsed."""
    forms = "; ".join(FORMS)
    if not unread:
        return f"I can only follow plain steps such as: {forms}. The instruction contains none"
    parts = ", ".join(map(str, unread))
    return f"I could not read: {parts}. Nothing was done. I can only follow plain steps such as: {forms}"


def is_same_image(image: bytes, other: bytes) -> bool:
    """Return True if two images are equal except for a caret or a clock."""
    if image == other:
        return True
    first, second = decode_image(image), decode_image(other)
    if first.shape != second.shape:
        return False
    changed = largest_channel(np.abs(first.astype(np.int16) - second.astype(np.int16))) > 24
    return bool(changed.mean() < _SAME_SHARE)
