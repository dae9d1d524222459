"""Who follows a run."""

from collections.abc import Callable
from dataclasses import dataclass

from cua.guard import Approver
from cua.run.control import Control
from cua.run.events import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who follows a run.

    Attributes:
        listener: Gets an event for all that happens.
        approver: Asks a person about risky steps; without one they are refused.
        on_control: Gets the switches of the run before it starts: pause, stop, redirect.
    """

    listener: Listener | None = None
    approver: Approver | None = None
    on_control: Callable[[Control], None] | None = None
