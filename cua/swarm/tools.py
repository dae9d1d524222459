"""Tools of the orchestrator: the two published ones, and one to read the rest of a cut message."""

from collections.abc import Mapping, Sequence
from typing import Any

from cua.messages import TextPart, ToolResult
from cua.model import Tool
from cua.swarm.child import ENV_KINDS, MESSAGE_CHARS, TOOLS, SubagentConfig
from cua.swarm.protocol import ASSIGN_MORE, ASSIGN_TASK, CREATE_SUBAGENT, create_more
from cua.swarm.swarm import Swarm
from cua.tool_agent.calls import CALL_NUMBER
from cua.tools.toolset import failed
from cua.trajectory.run_record import MAIN

_READ_RESULT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "The task, such as t005"},
        "offset": {"type": "integer", "minimum": 0, "description": "First character, from 0"},
    },
    "required": ["task"],
    "additionalProperties": False,
}


def _with_more(schema: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], **more}, "additionalProperties": False}


class CreateSubagentTool(Tool):
    """Tool that makes a configuration.

    Args:
        swarm: Swarm that stores it.
        parent: Id of the agent that has the tool.
        is_extended: True to show the model the unpublished arguments too.
        kinds: Kinds of users' own agents.
    """

    name: str = CREATE_SUBAGENT["name"]
    is_repeatable = True

    def __init__(
        self, swarm: Swarm, parent: str = MAIN, *, is_extended: bool = False, kinds: Sequence[str] = ()
    ) -> None:
        self._swarm, self._parent = swarm, parent
        self.description: str = CREATE_SUBAGENT["description"]
        more = create_more((TOOLS, *ENV_KINDS, *kinds))
        self.checked_parameters: Mapping[str, Any] = _with_more(CREATE_SUBAGENT["parameters"], more)
        self.parameters = self.checked_parameters if is_extended else CREATE_SUBAGENT["parameters"]

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Make the configuration."""
        return await self._swarm.create(SubagentConfig(**arguments), parent=self._parent)


class AssignTaskTool(Tool):
    """Tool that runs a child and waits for its message. Args: see `CreateSubagentTool`."""

    name: str = ASSIGN_TASK["name"]
    is_repeatable = True

    def __init__(self, swarm: Swarm, parent: str = MAIN, *, is_extended: bool = False) -> None:
        self._swarm, self._parent = swarm, parent
        self.description: str = ASSIGN_TASK["description"]
        self.checked_parameters: Mapping[str, Any] = _with_more(ASSIGN_TASK["parameters"], ASSIGN_MORE)
        self.parameters = self.checked_parameters if is_extended else ASSIGN_TASK["parameters"]

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run the assignment."""
        more = {name: tuple(arguments[name]) for name in ("files", "returns") if name in arguments}
        more |= {name: arguments[name] for name in ("url", "app", "schema") if name in arguments}
        agent, prompt = arguments["agent"], arguments["prompt"]
        return await self._swarm.assign(CALL_NUMBER.get(), agent, prompt, parent=self._parent, **more)


class ReadResultTool(Tool):
    """Tool that reads a part of a child's full text."""

    name = "read_result"
    description = "Read on in the message of a sub-agent that was cut."
    parameters = _READ_RESULT
    is_repeatable = True

    def __init__(self, swarm: Swarm, parent: str = MAIN) -> None:
        self._swarm, self._parent = swarm, parent

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return a part of the text."""
        own = (child for child in self._swarm.children if child.parent == self._parent)
        known = {child.id: child for child in own if child.ended_at}
        child = known.get(arguments["task"])
        if child is None:
            return failed(f"No task {arguments['task']!r} has ended. Ended: {', '.join(known) or 'none'}.")
        offset = arguments.get("offset", 0)
        piece = child.answer[offset : offset + MESSAGE_CHARS]
        end = offset + len(piece)
        more = f"\n[{len(child.answer) - end} more characters, from offset {end}]" if end < len(child.answer) else ""
        return ToolResult(parts=(TextPart(text=(piece or "[nothing from there on]") + more),))
