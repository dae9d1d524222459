"""What one run knows while it goes: the only mutable state of the agent."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cua.loop_detection import LoopDetector
from cua.step import Step
from cua.trajectory.resume import forget_picture


@dataclass(slots=True, kw_only=True)
class Episode:
    """Instruction and steps so far.

    Attributes:
        instruction: What the agent is told now; a redirect changes it.
        keep_images: How many of the last steps keep their picture in memory.
        steps: Finished steps; only the last few hold a screenshot.
    """

    instruction: str
    keep_images: int
    steps: list[Step] = field(default_factory=list)
    loops: LoopDetector = field(default_factory=LoopDetector)

    @property
    def next_index(self) -> int:
        """Number of the step that comes next, from 1."""
        return self.steps[-1].index + 1 if self.steps else 1

    def add(self, steps: Iterable[Step]) -> None:
        """Append finished steps and let old pictures go, so that memory stays flat."""
        self.steps.extend(steps)
        for position in range(len(self.steps) - self.keep_images - 1, -1, -1):
            step = forget_picture(self.steps[position])
            if step is self.steps[position]:  # this one and all before it have been let go already
                break
            self.steps[position] = step
