"""Limits of a swarm, shares of its budget (all children, each child, the API key), and warnings near the end of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cua.errors import ModelAccessError, ModelError, UnavailableError
from cua.messages import Message, Reply, Sampling
from cua.model import Model, Tool
from cua.run.budget import Budget, CapReachedError, Caps
from cua.run.end import Cap
from cua.run.scope import RunScope
from cua.swarm.child import Child
from cua.swarm.protocol import MAX_CALLS, MAX_CHILDREN, SwarmPreset

CHILDREN_SHARE = 0.9
"""Share of tokens, money and time that all children together may use, so that the orchestrator can still answer."""

WARN_SHARE = 0.8
"""Share of a limit from which the person and the orchestrator are warned about usage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmLimits:
    """Limits of a swarm, each of them a setting.

    Attributes:
        max_children: Maximum number of assignments in a run.
        max_parallel: Maximum number of children at work at the same time; more are queued.
        max_depth: Maximum depth of the agent tree: with 1, children have no sub-agents; with 2, children may have them;
            and so on. All of them count towards the limits of the run.
        child_calls: Maximum number of tool calls of each child; steps for a GUI child.
        child_time_s: Time limit of each child in seconds.
        num_retries: Maximum number of retries of a child after a transient error.
        max_message_chars: Maximum length of a child's prompt in characters.
        context_tokens: Context of the models in tokens; the messages of a reply's children share what is left of it.
        run: Limits of the orchestrator and its children together.
    """

    max_children: int = MAX_CHILDREN
    max_parallel: int = MAX_CHILDREN
    max_depth: int = 1
    child_calls: int = 100
    child_time_s: float | None = 7200.0
    num_retries: int = 2
    max_message_chars: int = 100_000
    context_tokens: int = 262_144
    run: Caps = field(default_factory=lambda: Caps(max_steps=None, max_calls=MAX_CALLS))

    def of_cap(self, cap: Cap | None) -> tuple[float | None, ...]:
        """Return the limits of a kind: a child's own and the run's."""
        known: dict[Cap, tuple[float | None, ...]] = {
            "calls": (self.child_calls, self.run.max_calls),
            "time": (self.child_time_s, self.run.max_time_s),
            "steps": (self.run.max_steps,),
            "tokens": (self.run.max_tokens,),
            "cost": (self.run.max_cost_usd,),
        }
        return known.get(cap, ()) if cap else ()

    def is_raised_for(self, child: Child) -> bool:
        """Return True if a limit of the kind that ended a child is above its value at that time; None is unlimited."""
        pairs = zip(self.of_cap(child.cap), child.limits, strict=False)
        return any(old is not None and (new is None or new > old) for new, old in pairs)

    @classmethod
    def of(cls, preset: SwarmPreset) -> "SwarmLimits":
        """Return the limits of a preset."""
        return cls(
            max_children=preset.max_children,
            max_parallel=preset.max_children,
            child_calls=preset.child_calls,
            run=Caps(max_steps=None, max_calls=preset.max_calls),
        )


def share_of(caps: Caps) -> Caps:
    """Return the limits of all children together."""
    return replace(
        caps,
        max_steps=None,
        max_tokens=None if caps.max_tokens is None else int(CHILDREN_SHARE * caps.max_tokens),
        max_cost_usd=None if caps.max_cost_usd is None else CHILDREN_SHARE * caps.max_cost_usd,
        max_time_s=None if caps.max_time_s is None else CHILDREN_SHARE * caps.max_time_s,
    )


class ChildBudget(Budget):
    """Budget of a child. Above an equal share it gets only what the other children leave of theirs.

    The share is the pool's limit over the number of children at work. Budget beyond the open shares of the others is
    available to every child, so none stops early while there is plenty.

    Args:
        caps: Limits of the child itself.
        parent: Budget of all children together.
        name: Name of the child.
        others: Budgets of the children at work, including this one.
    """

    def __init__(self, caps: Caps, *, parent: Budget, name: str, others: Mapping[str, Budget]) -> None:
        super().__init__(caps, parent=parent, name=name)
        self._pool, self._others = parent, others

    def take_interaction(self) -> None:
        """Count a step in an env as a call.

        Raises:
            CapReachedError: If it would exceed a limit; nothing is counted.
        """
        if not self.take_calls(1):
            self.check()

    def check(self) -> None:
        """Check the limits, as in `Budget.check`, and that the shares of the other children are left.

        Raises:
            CapReachedError: If a limit of this child, of a parent or the child's share is used up.
        """
        super().check()
        caps, pool = self._pool.caps, self._pool
        self._check_share("calls", caps.max_calls, pool.num_calls, lambda budget: budget.num_calls)
        self._check_share("tokens", caps.max_tokens, pool.usage.total_tokens, lambda budget: budget.usage.total_tokens)
        cost = pool.usage.cost_usd or 0.0
        self._check_share("cost", caps.max_cost_usd, cost, lambda budget: budget.usage.cost_usd or 0.0)

    def _check_share(self, cap: Any, most: float | None, used: float, use_of: Callable[[Budget], float]) -> None:
        budgets = list(self._others.values())
        if most is None or len(budgets) < 2:
            return
        left, own = most - used, use_of(self)
        share = (left + sum(use_of(budget) for budget in budgets)) / len(budgets)
        kept = sum(max(0.0, share - use_of(budget)) for budget in budgets if budget is not self)
        if own >= share and left <= kept:
            raise CapReachedError(cap, f"{own:g} {cap} used, a fair share of the {most:g} of the run is {share:.4g}")


class BudgetWarnings:
    """Warnings about limits of a run that are nearly used up, once for each limit.

    Args:
        scope: Scope of the whole run; the person sees a warning immediately.
        caps: Limits of the run.
    """

    def __init__(self, scope: RunScope, caps: Caps) -> None:
        self._scope, self._caps = scope, caps
        self._warned: set[str] = set()
        self._new: list[str] = []

    def check(self) -> None:
        """Note each limit that has become nearly used up."""
        caps, used = self._caps, self._scope.budget
        pairs = (
            ("tool calls", used.num_calls, caps.max_calls),
            ("steps", used.num_steps, caps.max_steps),
            ("tokens", used.usage.total_tokens, caps.max_tokens),
            ("US dollars", used.usage.cost_usd, caps.max_cost_usd),
            ("seconds", self._scope.control.time_s, caps.max_time_s),
        )
        for name, number, most in pairs:
            if most is not None and number is not None and number >= WARN_SHARE * most and name not in self._warned:
                self._warned.add(name)
                self._new.append(f"{number:.6g} of {most:g} {name} are used")
                self._scope.note("budget", self._new[-1])

    def take(self) -> str:
        """Return the warnings that the orchestrator has not been given, as a line to append; "" for none."""
        self.check()
        warnings, self._new = self._new, []
        return f"\n[{'; '.join(warnings)}; answer before they are gone]" if warnings else ""


class ChildModel:
    """Model of a child: a refused API key, or an endpoint that is away for too long, suspends all; implements `Model`.

    Args:
        model: Wrapped model.
        suspend: Called with the error then.
    """

    def __init__(self, model: Model, suspend: Callable[[ModelError], None]) -> None:
        self.name = model.name
        self.model, self.suspend = model, suspend

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Generate a reply, as in `Model.generate`.

        Raises:
            ModelError: If the model raises it.
        """
        try:
            return await self.model.generate(messages, tools, sampling)
        except (ModelAccessError, UnavailableError) as error:
            self.suspend(error)
            raise

    async def close(self) -> None:
        """Do nothing: the caller closes the model."""
