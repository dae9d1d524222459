"""The guard: allowed, ask, or denied, for all actions of a step at once."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from cua.guard.facts import Facts
from cua.guard.risk import Risk, classify
from cua.guard.rules import Decision, Rules
from cua.secrets import Secrets
from cua.step import Turn
from envs import Action, Click, Drag, Env, MouseDown, MouseUp, Observation

Mode = Literal["ask", "auto", "yolo"]
"""`ask`: a person approves every step that does something; `auto`: risky steps only; `yolo`: no questions.
Deny rules hold in every mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the guard says about a step.

    Attributes:
        decision: `allow`, `ask` or `deny`.
        reason: One line for the person who is asked, and for the model when it is refused.
        risk: The kind of risk, when there is one.
    """

    decision: Decision
    reason: str = ""
    risk: Risk | None = None


Approver = Callable[[Verdict, Turn, Sequence[Action]], Awaitable[bool]]
"""Asks a person; True lets the step pass."""

_HARMLESS = {"wait", "terminate", "move", "scroll"}
_ORDER: tuple[Decision, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Checks steps before they are carried out.

    Attributes:
        mode: How much is asked.
        rules: Rules from a policy file; they come before the mode.
        allowed_domains: Leaving these is a risk (the browser blocks it below the agent as well).
        secrets: Which names are secrets.
        approver: Whom to ask; None means that nobody is there, and what would be asked is denied.
    """

    mode: Mode = "auto"
    rules: Rules = field(default_factory=Rules)
    allowed_domains: tuple[str, ...] = ()
    secrets: Secrets = field(default_factory=Secrets)
    approver: Approver | None = None

    def waiting_by(self, away: Callable[[Awaitable[bool]], Awaitable[bool]]) -> "Guard":
        """The same guard, which awaits a person through `away`: their time does not count as the run's.

        Args:
            away: `Control.away`.
        """
        approver = self.approver
        if approver is None:
            return self

        async def ask(verdict: Verdict, turn: Turn, actions: Sequence[Action]) -> bool:
            return await away(approver(verdict, turn, actions))

        return replace(self, approver=ask)

    async def check(self, turn: Turn, actions: Sequence[Action], observation: Observation, env: Env) -> Verdict:
        """The strictest verdict over all actions; a person is asked here, so `ask` never comes back."""
        if self.mode == "yolo" and not self.rules.rules and self.rules.default is None:
            return Verdict(decision="allow")
        facts = await self._facts(turn, actions, observation, env)
        verdicts = [self._judge(fact) for fact in facts]
        worst = max(verdicts, key=lambda verdict: _ORDER.index(verdict.decision), default=Verdict(decision="allow"))
        if worst.decision != "ask":
            return worst
        if self.approver is None:
            return Verdict(decision="deny", reason=f"{worst.reason}; nobody is there to approve it", risk=worst.risk)
        if await self.approver(worst, turn, actions):
            return Verdict(decision="allow", reason=f"approved: {worst.reason}", risk=worst.risk)
        return Verdict(decision="deny", reason=f"the person at the screen said no ({worst.reason})", risk=worst.risk)

    def _judge(self, facts: Facts) -> Verdict:
        decision, reason = self.rules.decide(facts)
        if decision is not None:
            return Verdict(decision=decision, reason=reason)
        if self.mode == "yolo" or facts.verb in _HARMLESS:
            return Verdict(decision="allow")
        risk = classify(facts, self.allowed_domains)
        if risk:
            what = facts.target or facts.claim or facts.verb
            return Verdict(decision="ask", reason=f"risky ({risk.replace('_', ' ')}): {what}", risk=risk)
        if self.mode == "ask":
            return Verdict(decision="ask", reason=facts.claim or facts.verb)
        return Verdict(decision="allow")

    async def _facts(self, turn: Turn, actions: Sequence[Action], observation: Observation, env: Env) -> list[Facts]:
        facts, pointer = [], observation.pointer_px
        for action in actions:
            x_px, y_px = getattr(action, "x_px", None), getattr(action, "y_px", None)
            pointer = (x_px, y_px) if x_px is not None and y_px is not None else pointer
            pressing = isinstance(action, Click | MouseDown | MouseUp | Drag)
            facts.append(
                Facts(
                    action=action,
                    verb=type(action).__name__.lower(),
                    target=await _target(pointer, observation, env) if pressing else None,
                    claim=turn.action_text,
                    url=observation.url,
                    uses_secret=self.secrets.uses(action),
                )
            )
        return facts


async def _target(pointer: tuple[int, int] | None, observation: Observation, env: Env) -> str | None:
    if pointer is None:
        return None
    target = await env.describe_point(*pointer)
    if target and observation.dialog:  # an OK button means what the dialog asks
        return f"{target} (dialog: {observation.dialog.message})"
    return target
