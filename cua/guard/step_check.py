"""The guard while a step is being carried out: each input is judged by what it activates at that moment."""

from collections.abc import Sequence

from cua.errors import CodeError
from cua.guard.guard import Guard, Verdict, strictest
from cua.step import Turn
from envs import Action, ActionError, Observation, Target


class StepCheck:
    """The `envs.Check` of one step.

    The verdict before the step knows what the screen showed then. A click may since have moved the focus,
    a label may have changed under the pointer: what was not seen then is asked about now.

    Args:
        guard: The rules.
        turn: What the model said.
        actions: The actions of the step, secrets still as placeholders.
        observation: What it was decided on.
        verdict: The verdict before the step, with what a person has let pass.
    """

    def __init__(
        self, guard: Guard, turn: Turn, actions: Sequence[Action], observation: Observation, verdict: Verdict
    ) -> None:
        self._guard = guard
        self._turn = turn
        self._actions = tuple(actions)
        self._observation = observation
        self._passed = set(verdict.passed)
        self._is_over = False
        self.refusal: Verdict | None = None
        self.num_done = 0

    async def __call__(self, number: int, action: Action, targets: Sequence[Target]) -> None:
        """Let an input pass, ask a person, or object.

        Raises:
            ActionError: It is not allowed.
        """
        if self._is_over:
            raise ActionError("the step is over")
        own = self._actions[number]  # `action` has the secrets filled in
        self._check_secrets(number, own, targets)
        facts = [self._guard.facts(self._turn, own, target, self._observation) for target in targets]
        verdicts = [self._guard.judge(fact, is_late=True) for fact in facts]
        worst = strictest([verdict for verdict in verdicts if (number, verdict.reason) not in self._passed])
        if worst.decision == "ask":
            asked = {(number, verdict.reason) for verdict in verdicts if verdict.decision == "ask"}
            worst = await self._guard.ask(worst, self._turn, (own,))
            self._passed |= asked if worst.decision == "allow" else set()
        if worst.decision == "deny":
            self.refusal, self.num_done = worst, number
            raise ActionError(f"not allowed: {worst.reason}{self._so_far(number)}")

    def _check_secrets(self, number: int, action: Action, targets: Sequence[Target]) -> None:
        """An earlier action may have led to a page on which the secret may not be typed."""
        for target in targets:
            try:
                self._guard.secrets.fill((action,), target.page_url or self._observation.url)
            except CodeError as error:
                self.refusal, self.num_done = Verdict(decision="deny", reason=str(error), risk="credentials"), number
                raise ActionError(f"not allowed: {error}{self._so_far(number)}") from error

    def end(self) -> None:
        """The step is over: input of it that is still under way is not let through."""
        self._is_over = True

    def _so_far(self, number: int) -> str:
        if len(self._actions) == 1:
            return ""
        before = {0: "none before it", 1: "action 1 before it"}.get(number, f"actions 1 to {number} before it")
        verb = "was" if number == 1 else "were"
        return f". This is action {number + 1} of {len(self._actions)}; {before} {verb} carried out, none after it"
