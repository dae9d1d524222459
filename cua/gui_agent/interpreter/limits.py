"""CodeLimits on the cost of one block of model code, and the error raised at a limit."""

from dataclasses import dataclass, field
from typing import Any

MAX_INT_BITS = 64


class Refused(Exception):
    """Code that is refused. Every function of this package that reads or evaluates code may raise it.

    The text is for the model: it says what to write instead. `execute_block` adds the line number.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """Limits of one block of code.

    Attributes:
        max_code_chars: Length of the code.
        max_operations: Evaluated syntax nodes; work on long values counts more.
        max_size: Items and characters of one value, nested ones included.
        max_depth: Levels of nesting of syntax.
        max_actions: Actions in the result.
        max_amount: Clicks, key presses or wheel notches of one call.
        max_inputs: Total clicks, key presses and wheel notches of the block.
        max_typed_chars: Characters typed by the block.
        max_wait_s: Total sleeps, durations and intervals of the block, in seconds.
    """

    max_code_chars: int = 60_000
    max_operations: int = 50_000
    max_size: int = 60_000
    max_depth: int = 100
    max_actions: int = 500
    max_amount: int = 1_000
    max_inputs: int = 2_000
    max_typed_chars: int = 60_000
    max_wait_s: float = 60.0


@dataclass(slots=True, kw_only=True)
class CodeBudget:
    """Amounts that a block has used so far. Every method raises `Refused` at the limit."""

    limits: CodeLimits = field(default_factory=CodeLimits)
    operations: int = 0
    depth: int = 0
    wait_s: float = 0.0
    inputs: int = 0
    typed_chars: int = 0

    def spend(self, operations: int = 1) -> None:
        """Count work."""
        self.operations += operations
        if self.operations > self.limits.max_operations:
            raise Refused("this code does too much work (an endless loop?). Write a short, direct sequence of calls")

    def spend_time(self, duration_s: float) -> None:
        """Count seconds of waiting."""
        self.wait_s += duration_s
        if self.wait_s > self.limits.max_wait_s:
            raise Refused(
                f"this code waits {self.wait_s:g} s in all and at most {self.limits.max_wait_s:g} s are possible "
                "in one step. Wait less (sleep, duration, interval), look at the next screenshot, then wait again"
            )

    def spend_inputs(self, inputs: int) -> None:
        """Count clicks, key presses and wheel notches."""
        self.inputs += inputs
        if self.inputs > self.limits.max_inputs:
            raise Refused(
                f"this code makes {self.inputs} clicks, key presses and wheel notches in all and at most "
                f"{self.limits.max_inputs} are possible in one step. Do less and look again"
            )

    def spend_typing(self, chars: int) -> None:
        """Count typed characters."""
        self.typed_chars += chars
        if self.typed_chars > self.limits.max_typed_chars:
            raise Refused(
                f"this code types {self.typed_chars} characters in all and at most {self.limits.max_typed_chars} "
                "are possible in one step. Type a part, look at the next screenshot, then go on"
            )

    def enter(self) -> None:
        """Enter a deeper level of syntax."""
        self.depth += 1
        if self.depth > self.limits.max_depth:
            raise Refused("this code is nested too deeply. Write short, flat statements")

    def leave(self) -> None:
        """Leave a level of syntax."""
        self.depth -= 1

    def check(self, value: Any) -> Any:
        """Return `value` if its size and type are allowed. Its size counts as work."""
        if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
            raise Refused("a number is too large")
        if isinstance(value, complex):
            raise Refused("complex numbers are not supported")
        if isinstance(value, str | list | tuple | dict):
            self.spend(measure(value, self.limits.max_size) // 16)
        return value

    def check_size(self, size: int) -> None:
        """Check the size of a result, in items or characters, before it is created."""
        if size > self.limits.max_size:
            raise Refused(f"a text or list would get too long (more than {self.limits.max_size} characters or items)")
        self.spend(size // 16)


def measure(value: Any, max_size: int) -> int:
    """Count characters and items of a value, including nested ones; stops at `max_size`, so cycles are safe."""
    size = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str | list | tuple | dict):
            size += len(item)
        if size > max_size:
            raise Refused(f"a text or list is too long (more than {max_size} characters or items)")
        if isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
    return size
