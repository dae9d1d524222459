"""The messages of a step: a pure view of the steps so far and the current observation.

Source: the public OSWorld harness's Kimi agent. With N finished steps and K pictures in all: the system prompt;
for N >= K one assistant message with the text of steps 1 to N-K+1; the last K-1 steps as picture and text in turn;
the current picture and, last, the instruction. Code and results of old steps are not shown again.
"""

from collections.abc import Sequence

from cua.messages import ImagePart, Message, Part, TextPart
from cua.protocol.facts import describe
from cua.protocol.options import ProtocolOptions
from cua.protocol.prompts import instruction_text, step_text, system_prompt
from cua.step import Step
from envs import Observation


def to_messages(
    instruction: str, steps: Sequence[Step], observation: Observation, options: ProtocolOptions
) -> list[Message]:
    """The request for the next step.

    Args:
        instruction: The task's text.
        steps: Finished steps in order.
        observation: What the screen shows now.
        options: How the protocol is spoken.

    Returns:
        Messages with at most `options.max_images` pictures.
    """
    num_folded = max(0, len(steps) - options.max_images + 1)
    messages = [Message(role="system", parts=(TextPart(text=system_prompt(options)),))]
    if num_folded:
        messages.append(_assistant("\n".join(_text(step, options) for step in steps[:num_folded])))
    for step in steps[num_folded:]:
        messages.append(Message(role="user", parts=(ImagePart(data=step.observation.screenshot),)))
        messages.append(_assistant(_text(step, options)))
    messages.append(Message(role="user", parts=_current(instruction, observation, options)))
    return messages


def _current(instruction: str, observation: Observation, options: ProtocolOptions) -> tuple[Part, ...]:
    facts = describe(observation) if options.describe_observation else ""
    between = (TextPart(text=facts),) if facts else ()
    return (ImagePart(data=observation.screenshot), *between, TextPart(text=instruction_text(instruction)))


def _text(step: Step, options: ProtocolOptions) -> str:
    return step_text(step.index, step.turn.thought, step.turn.action_text, thinking=options.thinking)


def _assistant(text: str) -> Message:
    return Message(role="assistant", parts=(TextPart(text=text),))
