"""Guard that allows, asks about or denies the actions of a step before it, and each input during its execution."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from cua.guard.risk import Facts, Risk, classify, shows_by_requests
from cua.guard.rules import PolicyDecision, Rules
from cua.guard.words import RiskKind, is_neutral
from cua.messages import ToolCall
from cua.secrets import Secrets
from cua.step import Turn
from envs import (
    Action,
    ActionError,
    Click,
    Drag,
    Env,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    Scroll,
    Target,
    Terminate,
    TypeText,
    Wait,
)
from envs.hosts import site_of

Mode = Literal["ask", "auto", "yolo"]
"""`ask`: a person approves every step that does something; `auto`: only risky steps; `yolo`: no questions.
Deny rules apply in every mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardVerdict:
    """Decision of the guard about a step.

    Attributes:
        decision: `allow`, `ask` or `deny`.
        reason: One line for the person who is asked, and for the model if the step is refused.
        risk: Kind of risk, if any; `page_text` for a text that is addressed to the agent, `take_over` for a form that a
            person may want to fill in.
        site: Site of the page in question.
        can_take_over: True if the person can use the agent's screen with their own mouse and keyboard.
        passed: Pairs of an action's number and the reason of a question about it that a person has approved.
        names: Names of the target in question.
    """

    decision: PolicyDecision
    reason: str = ""
    risk: RiskKind | Literal["page_text", "take_over"] | None = None
    site: str = ""
    can_take_over: bool = False
    passed: frozenset[tuple[int, str]] = frozenset()
    names: tuple[str, ...] = ()


Approver = Callable[[GuardVerdict, Turn, Sequence[Action]], Awaitable[bool]]
"""Asks a person for approval; True allows the step."""

NO_ACT = (Wait, Move, Scroll, Terminate)
"""Actions that activate nothing."""
_ORDER: tuple[PolicyDecision, ...] = ("allow", "ask", "deny")


@dataclass(slots=True)
class _Answers:
    """Permissions that a person's answers give in a run beyond the approved step.

    Attributes:
        num_steps: Number of steps so far that may have activated something.
        sites: Sites on which credentials may be used.
        last: Last approved verdict.
        last_step: Number of its step.
    """

    num_steps: int = 0
    sites: set[str] = field(default_factory=set)
    last: GuardVerdict | None = None
    last_step: int = 0

    def count(self, actions: Sequence[Action]) -> None:
        self.num_steps += not all(isinstance(action, NO_ACT) for action in actions)

    def note(self, verdict: GuardVerdict) -> None:
        if verdict.risk in ("credentials", "take_over") and verdict.site:
            self.sites.add(verdict.site)
        self.last, self.last_step = verdict, self.num_steps

    def cover(self, risk: Risk, facts: Facts) -> bool:
        """Return True if a risk was approved before: a site's login, or the last act, which a dialog confirms.

        A dialog's button has another name than the approved one: a second button of the same name is another act.
        """
        if risk.kind == "credentials":
            return site_of(facts.url or "") in self.sites
        target, last = facts.target, self.last
        if target is None or last is None or not (target.is_element and is_neutral(target)):
            return False
        return (last.risk, self.last_step) == (risk.kind, self.num_steps - 1) and last.names != target.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Guard that checks steps before they are executed.

    Attributes:
        mode: Mode, which decides when a person is asked.
        rules: Rules from a policy file; they take precedence over the mode.
        allowed_domains: Domains that belong to the task; `*` disables the question at the first foreign site.
        secrets: Secrets whose placeholders are recognized in actions.
        approver: Asks a person; None if no person is available, then questions become denials.
        sees_requests: True if requests of pages are held and judged, see `RequestGuard`: risks that are visible in
            requests are left to it.
    """

    mode: Mode = "auto"
    rules: Rules = field(default_factory=Rules)
    allowed_domains: tuple[str, ...] = ()
    secrets: Secrets = field(default_factory=Secrets)
    approver: Approver | None = None
    sees_requests: bool = False
    _answers: _Answers = field(default_factory=_Answers, repr=False, compare=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)

    def for_run(self, away: Callable[[Awaitable[bool]], Awaitable[bool]], *, sees_requests: bool = False) -> "Guard":
        """Return a guard for one run.

        Args:
            away: Awaits the answer of a person while the clock of the run is stopped.
            sees_requests: True if the environment holds the requests of pages, so that they are checked, too.
        """
        approver = self.approver
        if approver is None:
            return replace(self, sees_requests=sees_requests, _answers=_Answers())

        async def ask(verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
            return await away(approver(verdict, turn, actions))

        return replace(self, approver=ask, sees_requests=sees_requests, _answers=_Answers())

    @property
    def allows_all(self) -> bool:
        """True if everything is allowed without a check."""
        return self.mode == "yolo" and not self.rules.rules and self.rules.default is None

    async def check(self, turn: Turn, actions: Sequence[Action], observation: Observation, env: Env) -> GuardVerdict:
        """Return the strictest verdict over all actions that is possible before the first of them is executed.

        A person is asked here, so the result is never `ask`. Targets of keys are judged only up to the first
        action that may move the focus; `StepCheck` judges all of them again during execution.
        """
        if self.allows_all:
            return GuardVerdict(decision="allow")
        self._answers.count(actions)
        facts = await self._facts(turn, actions, observation, env)
        verdicts = [(number, self.assess(fact)) for number, fact in facts]
        worst = strictest([verdict for _, verdict in verdicts])
        if worst.decision != "ask":
            return worst
        passed = frozenset((number, verdict.reason) for number, verdict in verdicts if verdict.decision == "ask")
        answer = await self.ask(worst, turn, actions)
        return replace(answer, passed=passed) if answer.decision == "allow" else answer

    async def ask(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> GuardVerdict:
        """Ask a person about an `ask` verdict; without an approver it becomes `deny`."""
        if self.approver is None:
            return replace(verdict, decision="deny", reason=f"{verdict.reason}; there is no person to approve it")
        async with self._asking:  # one question at a time
            is_approved = await self.approver(verdict, turn, actions)
        if is_approved:
            self._answers.note(verdict)
            return replace(verdict, decision="allow", reason=f"approved: {verdict.reason}")
        return replace(verdict, decision="deny", reason=f"the person at the screen said no ({verdict.reason})")

    def assess(self, facts: Facts, *, is_late: bool = False) -> GuardVerdict:
        """Return the verdict on one action and one target that it activates, without asking a person.

        If the step was already allowed (`is_late`), mode `ask` does not ask about every input again.
        """
        decision, reason = self.rules.decide(facts)
        if decision is not None:
            return GuardVerdict(decision=decision, reason=reason)
        if self.mode == "yolo" or isinstance(facts.action, NO_ACT):
            return GuardVerdict(decision="allow")
        risk = classify(facts)
        if risk is not None and not (self.sees_requests and shows_by_requests(risk, facts)):
            if self._answers.cover(risk, facts):
                return GuardVerdict(decision="allow", reason=f"allowed before: {risk.why}", risk=risk.kind)
            reason = f"risky ({risk.kind.replace('_', ' ')}): {risk.why}"
            site, names = site_of(facts.url or ""), facts.target.names if facts.target else ()
            return GuardVerdict(decision="ask", reason=reason, risk=risk.kind, site=site, names=names)
        if self.mode == "ask" and not is_late:
            return GuardVerdict(decision="ask", reason=facts.claim or facts.verb)
        return GuardVerdict(decision="allow")

    async def _facts(
        self, turn: Turn, actions: Sequence[Action], observation: Observation, env: Env
    ) -> list[tuple[int, Facts]]:
        facts: list[tuple[int, Facts]] = []
        pointer, is_focus_known = observation.pointer_px, True
        for number, action in enumerate(actions):
            x_px, y_px = getattr(action, "x_px", None), getattr(action, "y_px", None)
            pointer = (x_px, y_px) if x_px is not None and y_px is not None else pointer
            targets: Sequence[Target] = ()
            if isinstance(action, Click | MouseDown | MouseUp | Drag):
                targets = await env.find_targets(_at(action, pointer))
                is_focus_known = False
            elif not isinstance(action, Move | Scroll | Wait | Terminate):
                targets = await env.find_targets(action) if is_focus_known else ()
                is_focus_known = False
            seen = [_asked_by(observation, target) for target in targets]
            facts += [(number, self.facts(turn, action, target, observation)) for target in seen or (None,)]
        return facts

    def facts(self, turn: Turn, action: Action, target: Target | None, observation: Observation) -> Facts:
        """Return facts about an action and one target that it activates; typing into a field activates nothing."""
        fills_in = target is not None and target.is_field and isinstance(action, TypeText) and _is_one_line(action)
        return Facts(
            action=action,
            verb=type(action).__name__.lower(),
            target=None if fills_in else target,
            claim=turn.action_text or turn.thought,
            url=(target.page_url if target else None) or observation.url,
            uses_secret=self.secrets.uses(action),
        )


def strictest(verdicts: Sequence[GuardVerdict]) -> GuardVerdict:
    """Return the first of the strictest verdicts."""
    return max(verdicts, key=lambda verdict: _ORDER.index(verdict.decision), default=GuardVerdict(decision="allow"))


def _asked_by(observation: Observation, target: Target) -> Target:
    """Add the message of the open dialog to the target: an OK button confirms that message."""
    asks = observation.dialog.message if observation.dialog else ""
    return replace(target, context=(*target.context, asks)) if asks and asks not in target.context else target


def _is_one_line(action: TypeText) -> bool:
    return "\n" not in action.text and "\r" not in action.text


def _at(action: Click | MouseDown | MouseUp | Drag, point_px: tuple[int, int] | None) -> Action:
    """Fill in the position of the pointer after earlier actions."""
    return replace(action, x_px=point_px[0], y_px=point_px[1]) if point_px is not None else action


async def check_call(guard: Guard, call: ToolCall, *, is_isolated: bool, is_outside: bool = False) -> GuardVerdict:
    """Check if a tool call is allowed; a person is asked here, so the result is never `ask`.

    In mode `ask` a person approves every call; in mode `auto` only calls that are not isolated; `yolo` asks
    nothing. Rules of a policy file take precedence in every mode.
    """
    verdict = _assess_call(guard, call, is_isolated, is_outside)
    if verdict.decision != "ask":
        return verdict
    return await guard.ask(verdict, Turn(thought="", action_text=f"call {call.name}", code=call.arguments), ())


def _assess_call(guard: Guard, call: ToolCall, is_isolated: bool, is_outside: bool) -> GuardVerdict:
    decision, reason = guard.rules.decide_call(call.name, call.arguments)
    if decision is not None:
        return GuardVerdict(decision=decision, reason=reason)
    if guard.mode == "ask":
        return GuardVerdict(decision="ask", reason=f"tool call {call.name}")
    if guard.mode == "auto" and is_outside:
        return GuardVerdict(decision="ask", reason=f"{call.name} works outside the sandbox")
    if guard.mode == "auto" and not is_isolated:
        return GuardVerdict(decision="ask", reason=f"{call.name} runs without any isolation (--sandbox none)")
    return GuardVerdict(decision="allow")


class StepCheck:
    """Check of one step during its execution; implements `envs.ActionCheck`, which environments call at each input
    (in a browser through `InputCheck`).

    The verdict before the step is based on the screen at that time. Since then a click may have moved the focus, or a
    label may have changed under the pointer: targets that were not visible then are judged now.

    Args:
        guard: Guard with the rules.
        turn: Turn of the model.
        actions: Actions of the step, secrets still as placeholders.
        observation: Observation on which the step was decided.
        verdict: Verdict before the step, with the questions that a person has approved.

    Attributes:
        inputs: Number of the action, action and targets of each allowed input.
        is_approved: True if a person or a rule of the policy has explicitly allowed a part of the step.
        kinds: Kinds of risk that were allowed.
        begun_s: Start of the step, monotonic clock.
        last_input_s: Time of the last allowed input, monotonic clock.
    """

    def __init__(
        self, guard: Guard, turn: Turn, actions: Sequence[Action], observation: Observation, verdict: GuardVerdict
    ) -> None:
        self._guard = guard
        self.turn = turn
        self.actions = tuple(actions)
        self.inputs: list[tuple[int, Action, tuple[Target, ...]]] = []
        self.is_approved = bool(verdict.passed)
        self.kinds = {verdict.risk} - {None}
        self.begun_s = self.last_input_s = time.monotonic()
        self._observation = observation
        self._passed = set(verdict.passed)
        self._is_over = False
        self.refusal: GuardVerdict | None = None
        self.num_done = 0

    async def __call__(self, number: int, action: Action, targets: Sequence[Target]) -> None:
        """Allow an input, ask a person, or refuse it.

        Raises:
            ActionError: If the input is not allowed.
        """
        if self._is_over:
            raise ActionError("the step is over")
        own = self.actions[number]  # `action` has its secrets filled in
        facts = [self._guard.facts(self.turn, own, target, self._observation) for target in targets]
        verdicts = [self._guard.assess(fact, is_late=True) for fact in facts]
        worst = strictest([verdict for verdict in verdicts if (number, verdict.reason) not in self._passed])
        if worst.decision == "ask":
            asked = {(number, verdict.reason) for verdict in verdicts if verdict.decision == "ask"}
            worst = await self._guard.ask(worst, self.turn, (own,))
            self._passed |= asked if worst.decision == "allow" else set()
        if worst.decision == "deny":
            self.refusal, self.num_done = worst, number
            raise ActionError(f"not allowed: {worst.reason}{self._so_far(number)}")
        allowed = [verdict for verdict in (worst, *verdicts) if verdict.decision == "allow" and verdict.reason]
        self.is_approved |= bool(allowed)
        self.kinds |= {verdict.risk for verdict in allowed} - {None}
        self.inputs.append((number, own, tuple(targets)))
        self.last_input_s = time.monotonic()

    def end(self) -> None:
        """End the step: further inputs of it are refused."""
        self._is_over = True

    def _so_far(self, number: int) -> str:
        if len(self.actions) == 1:
            return ""
        before = {0: "none before it", 1: "action 1 before it"}.get(number, f"actions 1 to {number} before it")
        verb = "was" if number == 1 else "were"
        return f". This is action {number + 1} of {len(self.actions)}; {before} {verb} carried out, none after it"
