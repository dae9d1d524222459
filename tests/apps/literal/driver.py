"""Lets the literal model work on an env through the real protocol and interpreter; used by the tests beside it."""

from dataclasses import dataclass

from apps.literal import LiteralModel
from cua.gui_agent.interpreter import run
from cua.gui_agent.protocol import ProtocolOptions, parse, to_messages
from cua.step import Step
from envs import Env, Observation, Terminate


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the model ended, and all of its steps."""

    status: str
    answer: str
    steps: tuple[Step, ...]

    @property
    def actions(self) -> list[str]:
        """The action texts in order."""
        return [step.turn.action_text for step in self.steps]


async def follow(env: Env, observation: Observation, instruction: str, max_steps: int = 60) -> Outcome:
    """Let the model act on an env until it terminates."""
    steps: list[Step] = []
    options = ProtocolOptions()
    for index in range(1, max_steps + 1):
        reply = await LiteralModel().generate(to_messages(instruction, steps, observation, options))
        turn = parse(reply)
        actions = tuple(run(turn.code, observation.geometry))
        steps.append(Step(index=index, observation=observation, reply=reply, turn=turn, actions=actions))
        if isinstance(actions[-1], Terminate):
            return Outcome(status=actions[-1].status, answer=actions[-1].answer or "", steps=tuple(steps))
        result = await env.step(actions)
        assert result.observation.last_action_error is None, (turn.code, result.observation.last_action_error)
        observation = result.observation
    return Outcome(status="capped", answer="", steps=tuple(steps))
