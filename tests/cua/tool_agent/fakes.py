"""Tools and replies for loop tests: no kernel, no model."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cua.messages import ImagePart, Part, Reply, TextPart, ToolCall, ToolResult, Usage
from cua.model import Tool
from cua.tool_agent import Profile, ToolAgent
from cua.tools import Toolset

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
QUESTION = (TextPart(text="How many?"),)


class FakeTool(Tool):
    """Answers as told."""

    def __init__(self, name: str, answer: Callable[[Mapping[str, Any]], Awaitable[ToolResult]]) -> None:
        self.name = name
        self.description = f"the tool {name}"
        self.parameters: Mapping[str, Any] = {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        }
        self._answer = answer
        self.received: list[Mapping[str, Any]] = []

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        self.received.append(arguments)
        return await self._answer(arguments)


def echo() -> FakeTool:
    """Says what it is told."""

    async def answer(arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(parts=(TextPart(text=f"echo {arguments['text']}"),))

    return FakeTool("echo", answer)


def picture() -> FakeTool:
    """Shows an image."""

    async def answer(arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(parts=(TextPart(text="look"), ImagePart(data=PNG)))

    return FakeTool("picture", answer)


def meeting(size: int) -> FakeTool:
    """Comes back only when `size` calls are under way at the same time."""
    barrier = asyncio.Barrier(size)

    async def answer(arguments: Mapping[str, Any]) -> ToolResult:
        async with asyncio.timeout(5):
            await barrier.wait()
        return ToolResult(parts=(TextPart(text=f"met {arguments['text']}"),))

    return FakeTool("meeting", answer)


def calls(*asked: tuple[str, str], content: str = "", reasoning: str = "", tokens: int = 0) -> Reply:
    """A reply with tool calls, (name, text) each, with ids as foreign servers make them."""
    return Reply(
        content=content,
        reasoning=reasoning,
        tool_calls=tuple(
            ToolCall(id=f"call_{name}{position}", name=name, arguments=json.dumps({"text": text}))
            for position, (name, text) in enumerate(asked)
        ),
        finish_reason="tool_calls",
        usage=Usage(input_tokens=tokens, output_tokens=1 if tokens else 0),
    )


def make_agent(model: Any, tools: Sequence[FakeTool], *, folder: Path | None = None, **options: Any) -> ToolAgent:
    """An agent with these tools, and a working folder."""
    own = ("guard", "record", "listener", "answer_schema", "is_isolated", "start")
    parts = {name: options.pop(name) for name in own if name in options}
    profile = Profile(system_prompt="be brief", **options)
    return ToolAgent(model=model, toolset=Toolset(tools, folder=folder), profile=profile, **parts)


def texts(parts: Sequence[Part]) -> str:
    """All text parts."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))
