"""Who computes a step: this process alone, or this process and the other ranks."""

from typing import TYPE_CHECKING, Protocol

from model_runtime.engine.step import StepInput

if TYPE_CHECKING:
    from torch import Tensor


class Executor(Protocol):
    """Computes steps, one after another."""

    @property
    def encoded(self) -> frozenset[bytes]:
        """Content hashes of media whose features are at hand."""
        ...

    @property
    def can_go_on_after_fault(self) -> bool:
        """Whether a step that ran out of memory leaves it able to compute the next."""
        ...

    def run(self, step: StepInput) -> "Tensor":
        """Compute a step.

        Returns:
            (len(step.logit_rows), vocab) fp32 logits.

        Raises:
            EngineDead: A rank has ended.
        """
        ...

    def close(self) -> None:
        """Free everything; may be called twice."""
        ...
