"""Interfaces of an agent: a model that answers, and a tool that can be called."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from cua.json_text import JsonMapping
from cua.messages import Message, Reply, Sampling, ToolResult


class Tool(ABC):
    """Function that the model may call.

    Attributes:
        name: Name for the model.
        description: Description for the model.
        parameters: JSON schema of the arguments.
        checked_parameters: Schema that arguments are checked against; None: `parameters`.
        is_repeatable: True if repeating a call has no further effect, as after a crash.
    """

    name: str
    description: str
    parameters: JsonMapping
    checked_parameters: JsonMapping | None = None
    is_repeatable: bool = False

    @abstractmethod
    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Run the tool. Errors of the model are returned as a result with `is_error`, never raised."""


class Model(Protocol):
    """Model that answers messages, such as a server, a scripted list, or the embedded literal model.

    `cua.check_model` checks this contract. Calls may be concurrent, and each may be cancelled; a failed call raises
    only `ModelError`. A field of the sampling is applied, or refused by a `ModelError` that is not retryable; a model
    that ignores a field documents this.

    Attributes:
        name: Name in logs and reports.
    """

    name: str

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Answer a conversation.

        Raises:
            ModelError: If the call fails; `retryable` is True if a later call may succeed.
            TruncatedReplyError: If the reply was truncated at its token limit.
        """
        ...

    async def close(self) -> None:
        """Close connections. Can be called twice."""
        ...
