"""Agent package: protocol, model clients, guard, trajectories, agent loop. Importing it loads no heavy module.

Every public name is available here and loads its module on first use:

    import asyncio
    from cua import run_task

    result = asyncio.run(run_task("Click 'Save'", url="https://example.com"))
    print(result.end.status, result.end.answer)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cua.api import resume_task, run_task
    from cua.errors import CodeError, ConfigError, CuaError, ModelError, ReplyError, TrajectoryError
    from cua.guard.guard import Guard
    from cua.gui_agent.agent import Agent, AgentOptions
    from cua.messages import ImagePart, Message, Reply, Sampling, TextPart, ThinkPart, ToolCall, ToolResult, Usage
    from cua.model import Model, Tool
    from cua.run.budget import Caps
    from cua.run.end import End, RunResult
    from cua.run.events import Watch
    from cua.secrets import Secrets
    from cua.step import Step, Turn
    from cua.tool_agent.session import ToolSession, ask, resume_ask

_HOMES = {
    "cua.api": ("resume_task", "run_task"),
    "cua.errors": ("CodeError", "ConfigError", "CuaError", "ModelError", "ReplyError", "TrajectoryError"),
    "cua.guard": ("Guard",),
    "cua.gui_agent.agent": ("Agent", "AgentOptions"),
    "cua.messages": (
        *("ImagePart", "Message", "Reply", "Sampling", "TextPart", "ThinkPart"),
        *("ToolCall", "ToolResult", "Usage"),
    ),
    "cua.model": ("Model", "Tool"),
    "cua.run.budget": ("Caps",),
    "cua.run.end": ("End", "RunResult"),
    "cua.run.events": ("Watch",),
    "cua.secrets": ("Secrets",),
    "cua.step": ("Step", "Turn"),
    "cua.tool_agent.session": ("ToolSession", "ask", "resume_ask"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentOptions",
    "Caps",
    "CodeError",
    "ConfigError",
    "CuaError",
    "End",
    "Guard",
    "ImagePart",
    "Message",
    "Model",
    "ModelError",
    "Reply",
    "ReplyError",
    "RunResult",
    "Sampling",
    "Secrets",
    "Step",
    "TextPart",
    "ThinkPart",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSession",
    "TrajectoryError",
    "Turn",
    "Usage",
    "Watch",
    "ask",
    "resume_ask",
    "resume_task",
    "run_task",
]


if not TYPE_CHECKING:  # with this function visible, a type checker would accept any attribute name

    def __getattr__(name: str) -> Any:
        """Load the module that defines a public name."""
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'cua' has no attribute {name!r}; it has: {', '.join(__all__)}")
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
