"""Who may use how much of a run's budget: children together, each of them, and what the model's key says of all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cua.errors import ModelAccessError
from cua.messages import Message, Reply, Sampling
from cua.model import Model, Tool
from cua.run.budget import Budget, CapReachedError, Caps

CHILDREN_SHARE = 0.9
"""Of tokens, money and time that all children together may use, so that the orchestrator can still answer."""


def share_of(caps: Caps) -> Caps:
    """What all children together may use."""
    return replace(
        caps,
        max_steps=None,
        max_tokens=None if caps.max_tokens is None else int(CHILDREN_SHARE * caps.max_tokens),
        max_cost_usd=None if caps.max_cost_usd is None else CHILDREN_SHARE * caps.max_cost_usd,
        max_time_s=None if caps.max_time_s is None else CHILDREN_SHARE * caps.max_time_s,
    )


class ChildBudget(Budget):
    """A child's budget. Above an equal share it gets only what the others leave of theirs.

    The share is that of the pool's limit over the children that are at work. What is free beyond the others' open
    shares may be used by whoever needs it, so nobody stops early while there is plenty.

    Args:
        caps: The child's own limits.
        parent: Of all children together.
        name: Of the child.
        others: Budgets of the children at work, this one's too.
    """

    def __init__(self, caps: Caps, *, parent: Budget, name: str, others: Mapping[str, Budget]) -> None:
        super().__init__(caps, parent=parent, name=name)
        self._pool, self._others = parent, others

    def take_interaction(self) -> None:
        """Count a step in an env as the call that it is.

        Raises:
            CapReachedError: There is no room for it; nothing is counted.
        """
        if not self.take_calls(1):
            self.check()

    def check(self) -> None:
        """As `Budget.check`; and that this child leaves the others their shares.

        Raises:
            CapReachedError: A limit is used up, here, further up, or the child's share of it.
        """
        super().check()
        caps, pool = self._pool.caps, self._pool
        self._check_share("calls", caps.max_calls, pool.num_calls, lambda budget: budget.num_calls)
        self._check_share("tokens", caps.max_tokens, pool.usage.total_tokens, lambda one: one.usage.total_tokens)
        cost = pool.usage.cost_usd or 0.0
        self._check_share("cost", caps.max_cost_usd, cost, lambda budget: budget.usage.cost_usd or 0.0)

    def _check_share(self, cap: Any, most: float | None, used: float, use_of: Callable[[Budget], float]) -> None:
        budgets = list(self._others.values())
        if most is None or len(budgets) < 2:
            return
        left, own = most - used, use_of(self)
        share = (left + sum(use_of(one) for one in budgets)) / len(budgets)
        kept = sum(max(0.0, share - use_of(one)) for one in budgets if one is not self)
        if own >= share and left <= kept:
            raise CapReachedError(cap, f"{own:g} {cap} used, a fair share of the {most:g} of the run is {share:.4g}")


class ChildModel:
    """A model as children are given it: a key that is refused stops them all; implements `Model`.

    Args:
        model: Asked.
        refuse: Told.
    """

    def __init__(self, model: Model, refuse: Callable[[ModelAccessError], None]) -> None:
        self.name = model.name
        self._model, self._refuse = model, refuse

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """As `Model.generate`.

        Raises:
            ModelError: As the model raises it.
        """
        try:
            return await self._model.generate(messages, tools, sampling)
        except ModelAccessError as error:
            self._refuse(error)
            raise

    async def close(self) -> None:
        """Whoever made the model closes it."""
