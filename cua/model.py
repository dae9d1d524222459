"""The two seams of an agent: a model that answers, and a tool that can be called."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cua.messages import Message, Reply, Sampling, ToolResult


class Tool(Protocol):
    """A function that the model may call.

    Attributes:
        name: Its name for the model.
        description: What the model is told about it.
        parameters: JSON schema of its arguments.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Do it. Mistakes of the model come back as a result with `is_error`, never as an exception."""
        ...


class Model(Protocol):
    """Anything that answers messages: a server, a scripted list, the embedded literal model.

    `cua.check_model` checks this contract. Calls may be made at the same time, and each may be cancelled; nothing but a
    `ModelError` comes out of a call that fails. A field of the sampling is honoured, or refused by a `ModelError` that
    is not retryable; a model that ignores one says so in its own documentation.

    Attributes:
        name: What logs and reports call it.
    """

    name: str

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Answer a conversation.

        Raises:
            ModelError: No reply could be had; `retryable` says whether later may be better.
            TruncatedReplyError: The reply was cut at its token limit.
        """
        ...

    async def close(self) -> None:
        """Let connections go. May be called twice."""
        ...
