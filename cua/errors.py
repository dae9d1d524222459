"""Errors of the agent side, told apart by who must act.

Exception
├── CuaError              the operator: printed without a traceback
│   ├── ConfigError       a setting is wrong
│   ├── ModelError        the model endpoint; `retryable` says whether waiting can help
│   │   ├── TruncatedReplyError   the reply hit the token limit: not a failure, raise the limit
│   │   ├── UnusableReplyError    a reply came that cannot be used: ask again, but not with the same request
│   │   └── ContextOverflowError  the conversation is longer than the model's context
│   ├── TrajectoryError   the record of a run cannot be written or read
│   └── TaskError         a task's own code raised something in its verdict
├── ReplyError            the model: a reply that is not in the protocol
└── CodeError             the model: code that the interpreter refuses
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envs.errors import nearest
from envs.foreign import describe_defect as describe_defect

if TYPE_CHECKING:
    from cua.messages import Reply


class CuaError(Exception):
    """Something the operator can mend; the text says what was found, what was expected, what to do."""


class ConfigError(CuaError):
    """A setting, flag or file is wrong."""


class ModelError(CuaError):
    """The model endpoint did not give a reply.

    Attributes:
        retryable: Whether the same call may work later (server down, overloaded) or not (bad key, bad request).
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class TruncatedReplyError(ModelError):
    """The reply was cut at the token limit before the code was complete.

    Attributes:
        reply: What had come until then, with the tokens it cost; None when unknown.
    """

    def __init__(self, message: str, *, reply: "Reply | None" = None) -> None:
        super().__init__(message, retryable=False)
        self.reply = reply


class UnusableReplyError(ModelError):
    """A reply arrived that cannot be used. The same request is sent once more at most, then a changed one.

    Attributes:
        remark: What the model must know to do better; "" where it cannot help, such as with a web page for a reply.
        reply: What could be read, with the tokens it cost; None when nothing could.
    """

    def __init__(self, message: str, *, remark: str = "", reply: "Reply | None" = None) -> None:
        super().__init__(message, retryable=True)
        self.remark = remark
        self.reply = reply


class ContextOverflowError(ModelError):
    """The conversation is longer than the model's context."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class ModelAccessError(ModelError):
    """The key is refused, or the account may not or cannot pay: no agent of this process gets further."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class TrajectoryError(CuaError):
    """A run's record cannot be written or read."""


class ReplyError(Exception):
    """A reply that does not follow the protocol; the text tells the model what was expected."""


class CodeError(Exception):
    """Code that the interpreter refuses; the text tells the model what it may write instead."""


def name_choices(name: str, choices: Iterable[str]) -> str:
    """Sentences for an error text, with a leading space: the nearest choice, and the first twelve of all."""
    known = sorted(set(choices))
    if not known:
        return ""
    guess = "".join(f" Did you mean {choice!r}?" for choice in nearest(name, known))
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return f"{guess} Known: {shown}."


class TaskError(CuaError):
    """A task's own code raised something; the text says what and where."""
