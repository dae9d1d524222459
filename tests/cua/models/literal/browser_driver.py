"""Drives a page by a model's replies, the way the agent does; used by the tests beside it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from cua.interpreter import run
from cua.messages import ImagePart, Message, TextPart
from cua.models.literal import LiteralModel
from envs import Click, Drag, Hotkey, Move, PressKey, ScreenGeometry, Scroll, Terminate, TypeText, Wait

WIDTH, HEIGHT = 1280, 720
_KEYS = {"ctrl": "Control", "alt": "Alt", "shift": "Shift", "enter": "Enter", "tab": "Tab", "esc": "Escape",
         "delete": "Delete", "backspace": "Backspace", "end": "End", "home": "Home", "down": "ArrowDown",
         "up": "ArrowUp", "left": "ArrowLeft", "right": "ArrowRight", "space": "Space"}  # fmt: skip


@dataclass
class Outcome:
    """How a run of the model ended."""

    status: str
    answer: str
    actions: list[str] = field(default_factory=list)


async def follow(page: Any, instruction: str, max_steps: int = 40) -> Outcome:
    """Let the literal model work on a page until it ends."""
    geometry = ScreenGeometry(native_px=(WIDTH, HEIGHT), sent_px=(WIDTH, HEIGHT))
    texts: list[str] = []
    previous: bytes | None = None
    for index in range(1, max_steps + 1):
        picture = await page.screenshot()
        messages = make_messages(instruction, texts, picture, previous)
        previous = picture
        reply = await LiteralModel().generate(messages)
        action = reply.content.split("## Action:\n")[1].split("\n")[0]
        code = reply.content.split("```python\n")[1].split("\n```")[0]
        texts.append(f"# Step {index}:\n◁think▷{reply.reasoning}◁/think▷## Action:\n{action}\n")
        for done in run(code, geometry):
            if isinstance(done, Terminate):
                return Outcome(done.status, done.answer or "", [*map(_action_of, texts)])
            await _perform(page, done)
        await asyncio.sleep(0.05)
    return Outcome("capped", "", [*map(_action_of, texts)])


def make_messages(instruction: str, texts: list[str], picture: bytes, previous: bytes | None = None) -> list[Message]:
    """The messages of one call, as the protocol builds them."""
    history = [Message(role="assistant", parts=(TextPart(text="\n".join(texts[:-1])),))] if texts[:-1] else []
    if texts and previous is not None:
        history.append(Message(role="user", parts=(ImagePart(data=previous),)))
        history.append(Message(role="assistant", parts=(TextPart(text=texts[-1]),)))
    ask = f"# Task Instruction:\n{instruction}\n\nPlease generate the next move according to the screenshot.\n"
    return [
        Message(role="system", parts=(TextPart(text="You are a GUI agent. ## Action: is one of your headings."),)),
        *history,
        Message(role="user", parts=(ImagePart(data=picture), TextPart(text=ask))),
    ]


def _action_of(text: str) -> str:
    return text.split("## Action:\n")[1].strip()


async def _perform(page: Any, action: Any) -> None:
    match action:
        case Click(x_px=x, y_px=y, button=button, clicks=clicks):
            await page.mouse.click(x, y, button=button, click_count=clicks)
        case Move(x_px=x, y_px=y):
            await page.mouse.move(x, y)
        case Drag(x_px=x, y_px=y):
            await page.mouse.down()
            await page.mouse.move(x, y, steps=8)
            await page.mouse.up()
        case TypeText(text=text):
            await page.keyboard.type(text)
        case PressKey(key=key, presses=presses):
            for _ in range(presses):
                await page.keyboard.press(_KEYS.get(key, key))
        case Hotkey(keys=keys):
            await page.keyboard.press("+".join(_KEYS.get(key, key) for key in keys))
        case Scroll(dy=dy, dx=dx, x_px=x, y_px=y):
            if x is not None:
                await page.mouse.move(x, y)
            await page.mouse.wheel(dx * 100, -dy * 100)
            await asyncio.sleep(0.15)
        case Wait(duration_s=duration_s):
            await asyncio.sleep(min(duration_s, 0.3))
        case _:
            raise AssertionError(f"the driver cannot do {action}")
