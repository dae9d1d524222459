"""Errors of the agent package, grouped by who must act.

Exception
├── CuaError              the operator: printed without a traceback
│   ├── ConfigError       a setting is wrong
│   ├── ModelError        the model endpoint; `retryable` is True if a retry may succeed
│   │   ├── TruncatedReplyError   the reply reached the token limit: not a failure, raise the limit
│   │   ├── UnusableReplyError    the reply is unusable: ask again, but with a changed request
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
    """Error that the operator can fix; the text says what was found, what was expected, and how to fix it."""


class ConfigError(CuaError):
    """Raised when a setting, flag or file is invalid."""


class ModelError(CuaError):
    """Raised when the model endpoint did not return a reply.

    Attributes:
        retryable: True if the same call may succeed later (server down, overloaded), else False (bad key, bad request).
        code: The server's short name of the error; "" if it gives none.
    """

    def __init__(self, message: str, *, retryable: bool, code: str = "") -> None:
        super().__init__(message)
        self.retryable = retryable
        self.code = code


class TruncatedReplyError(ModelError):
    """Raised when the reply was truncated at the token limit.

    Attributes:
        reply: Reply up to the limit, with its token usage; None if unknown.
    """

    def __init__(self, message: str, *, reply: "Reply | None" = None) -> None:
        super().__init__(message, retryable=False)
        self.reply = reply


class UnusableReplyError(ModelError):
    """Raised by a model client for an unusable reply. The same request is repeated at most once, then a changed one is
    sent. A `ReplyError` is raised later, by the parser of the protocol.

    Attributes:
        remark: Correction for the model; "" if it cannot help, for example when the reply is a web page.
        reply: Readable part of the reply, with its token usage; None if there is none.
    """

    def __init__(self, message: str, *, remark: str = "", reply: "Reply | None" = None) -> None:
        super().__init__(message, retryable=True)
        self.remark = remark
        self.reply = reply


class ContextOverflowError(ModelError):
    """Raised when the conversation is longer than the model's context."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class UnavailableError(ModelError):
    """Error of an endpoint that does not serve any request at the moment; the same call may succeed later.

    Attributes:
        retry_after_s: Seconds to wait, as the server requests; None if it does not say.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message, retryable=True)
        self.retry_after_s = retry_after_s


class ModelAccessError(ModelError):
    """Raised when the key is refused or the account cannot pay: no agent of this process can continue."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class TrajectoryError(CuaError):
    """Raised when a run's record cannot be written or read."""


class ReplyError(Exception):
    """Raised when a reply does not follow the protocol; the text gives the model the expected format."""


class CodeError(Exception):
    """Raised for code that the interpreter refuses; the text says what to write instead."""


def name_choices(name: str, choices: Iterable[str]) -> str:
    """Return sentences for an error text, with a leading space: the closest choice, and the first twelve choices."""
    known = sorted(set(choices))
    if not known:
        return ""
    guess = "".join(f" Did you mean {choice!r}?" for choice in nearest(name, known))
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return f"{guess} Known: {shown}."


class TaskError(CuaError):
    """Raised when a task's own code raises an exception; the text gives the exception and its location."""
