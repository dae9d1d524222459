"""Turns an observation into actions: history, model, parser, interpreter; retries unusable replies."""

import asyncio
import time
from dataclasses import dataclass, replace
from functools import partial

from cua.errors import CodeError, ReplyError, TruncatedReplyError, UnusableReplyError
from cua.gui_agent.episode import EpisodeState
from cua.gui_agent.interpreter import run as interpret
from cua.gui_agent.protocol import ProtocolOptions, mark_points, parse, to_messages
from cua.messages import Message, Reply, Sampling, TextPart
from cua.model import Model
from cua.run.scope import RunScope
from cua.step import Turn
from envs import Action, Observation

MAX_TRUNCATION_FACTOR = 4  # two doublings: a reply that does not end by then is repeating itself
TRUNCATED = "it was cut at the token limit. Think less this time."


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Next turn that the model has chosen, with its actions."""

    reply: Reply
    turn: Turn
    actions: tuple[Action, ...]
    model_s: float
    interpret_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Decision making: calls the model until a reply is usable or a limit is reached."""

    model: Model
    protocol: ProtocolOptions
    sampling: Sampling | None
    scope: RunScope

    async def decide(self, episode: EpisodeState, observation: Observation) -> Decision:
        """Return one usable decision.

        Raises:
            CapReachedError: If there are too many unusable replies in a row, or another limit is reached.
            ModelError: If the model cannot be reached.
            StoppedError: If a person stopped the run.
        """
        self.scope.begin_step()
        messages = await self._messages(episode, observation)
        sampling = self.sampling
        correction: list[Message] = []
        started, interpret_s = time.monotonic(), 0.0
        while True:
            try:
                reply = await self.scope.generate(self.model, [*messages, *correction], sampling=sampling)
                await self.scope.record.replied(episode.next_index, reply)
                interpret_started = time.monotonic()
                turn, actions = self._read(reply, observation)
                interpret_s = time.monotonic() - interpret_started
            except TruncatedReplyError as error:
                if error.reply is not None:
                    await self.scope.record.replied(episode.next_index, error.reply)
                longer = self._longer(sampling)
                if longer == sampling:  # an identical request would be truncated again
                    correction = _correct(error.reply, TRUNCATED)
                sampling = longer
                self.scope.reply_unusable(str(error))
            except UnusableReplyError as error:
                if not error.remark:
                    raise
                correction = _correct(error.reply, error.remark)
                self.scope.reply_unusable(str(error))
            except (ReplyError, CodeError) as error:
                correction = _correct(reply, str(error))
                self.scope.reply_unusable(str(error))
            else:
                self.scope.reply_usable()
                model_s = interpret_started - started
                return Decision(reply=reply, turn=turn, actions=actions, model_s=model_s, interpret_s=interpret_s)

    async def _messages(self, episode: EpisodeState, observation: Observation) -> list[Message]:
        work = partial(to_messages, episode.instruction, tuple(episode.steps), observation, self.protocol)
        if self.protocol.observation == "marks":  # drawing numbered boxes on the screenshot takes time
            return await asyncio.to_thread(work)
        return work()

    def _read(self, reply: Reply, observation: Observation) -> tuple[Turn, tuple[Action, ...]]:
        turn = parse(reply, thinking=self.protocol.thinking)
        actions = interpret(
            turn.code,
            observation.geometry,
            mode=self.protocol.coordinates,
            pointer_px=observation.pointer_px,
            marks=mark_points(observation) if self.protocol.observation == "marks" else {},
        )
        if not actions:
            raise CodeError("the code does nothing; write at least one pyautogui call, or computer.wait()")
        return turn, tuple(actions)

    def _longer(self, sampling: Sampling | None) -> Sampling | None:
        """Return the settings with twice the `max_tokens`, up to `MAX_TRUNCATION_FACTOR` times the configured value."""
        if sampling is None or sampling.max_tokens is None or self.sampling is None:
            return sampling
        most = (self.sampling.max_tokens or sampling.max_tokens) * MAX_TRUNCATION_FACTOR
        return replace(sampling, max_tokens=min(sampling.max_tokens * 2, most))


def _correct(reply: Reply | None, error: str) -> list[Message]:
    """Return messages that show the model its own reply and the error in it."""
    content = reply.content if reply is not None else ""
    message = Message(role="assistant", parts=(TextPart(text=content or "(empty reply)"),))
    correction = Message(
        role="user",
        parts=(TextPart(text=f"That reply was not carried out: {error}\nAnswer again in the required format."),),
    )
    return [message, correction]
