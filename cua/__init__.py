"""The agent side: protocol, model clients, guard, trajectories, the loop. Importing this loads nothing heavy.

import asyncio
from cua import run_task

result = asyncio.run(run_task("Click 'Save'", url="https://example.com"))
print(result.end.status, result.end.answer)
"""

from cua.api import resume_task, run_task
from cua.errors import CodeError, ConfigError, CuaError, ModelError, ReplyError, TrajectoryError
from cua.guard import Guard
from cua.gui_agent.agent import Agent, AgentOptions
from cua.messages import ImagePart, Message, Reply, Sampling, TextPart, ThinkPart, ToolCall, ToolResult, Usage
from cua.model import Model, Tool
from cua.run.caps import Caps
from cua.run.end import End, RunResult
from cua.run.watch import Watch
from cua.secrets import Secrets
from cua.step import Step, Turn
from cua.tool_agent.session import ToolSession, ask, resume_ask

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
