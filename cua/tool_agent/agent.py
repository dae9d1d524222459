"""The tool-using agent: ask, call, look, until the model answers without a call or somebody ends the run."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace

from cua.claims import find_claims
from cua.errors import ContextOverflowError, TruncatedReplyError
from cua.guard import Guard
from cua.messages import Message, Part, Reply, TextPart, Usage
from cua.model import Model
from cua.run.caps import CapReachedError
from cua.run.control import StoppedError
from cua.run.end import End, RunResult
from cua.run.events import (
    CallReturned,
    CallsStarted,
    Listener,
    ToolStepDone,
)
from cua.run.scope import RunScope
from cua.tool_agent.calls import Caller, with_own_ids
from cua.tool_agent.conversation import SUMMARY_REQUEST, Compaction, compact, count_tokens, to_messages
from cua.tool_agent.options import ToolAgentOptions
from cua.tool_step import CallOutcome, ToolStep
from cua.tools.toolset import Toolset
from cua.trajectory.writer import TrajectoryWriter

CUT = (
    "Your reply was cut at the limit{tokens} for one step. Think less at a time: take one small step now, "
    "with a tool call, or give the answer."
)
EMPTY = "Your reply held neither an answer nor a tool call. Call a tool, or answer the question."
UNKNOWN_END = "the model's answer; nothing checks it but its own evidence"
UNCITED_END = "the model's answer; it cites no result, so nothing checks it"
LOST_END = "the model's answer; it cites {marks}, and the run has no such result"


class ToolAgent:
    """Answers one question with tools. `control` pauses and stops it from outside.

    Args:
        model: Answers and calls.
        toolset: What it may call.
        options: How it works.
        guard: What may be done.
        scope: Limits, switches and record, for a part of a larger run; its caps hold, not those of the options.
        record: Where the run is written down, without a `scope`.
        listener: Told all that happens, without a `scope`.
    """

    def __init__(
        self,
        *,
        model: Model,
        toolset: Toolset,
        options: ToolAgentOptions,
        guard: Guard | None = None,
        scope: RunScope | None = None,
        record: TrajectoryWriter | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.model = model
        self.toolset = toolset
        self.options = options
        self.scope = scope or RunScope(caps=options.caps, record=record, listener=listener)
        self.control = self.scope.control
        self.steps: list[ToolStep] = []
        self._caller = Caller(
            toolset=toolset,
            guard=(guard or Guard()).waiting_by(self.control.away),
            scope=self.scope,
            is_isolated=options.is_isolated,
            returned=self._returned,
        )
        self._question: tuple[Part, ...] = ()
        self._compaction = Compaction()
        self._last_usage: Usage | None = None
        self._num_unusable = 0

    @property
    def num_calls(self) -> int:
        """Tool calls so far, over the whole run."""
        return sum(len(step.outcomes) for step in self.steps)

    async def run(self, question: Sequence[Part]) -> RunResult:
        """Answer a question, from the first call of the model to a written end.

        Args:
            question: Pictures first, then words.

        Raises:
            Exception: Only what is a defect of ours.
        """
        self._question = tuple(question)
        self.scope.begin("".join(part.text for part in question if isinstance(part, TextPart)))
        end = await self.scope.to_the_end(self._answer)
        return await self.scope.finish(end, num_steps=len(self.steps))

    async def _answer(self) -> End:
        await self.scope.record.asked(self._question)
        return await self._loop()

    async def _loop(self) -> End:
        while True:
            await self.control.checkpoint()
            await self._compact_if_long()
            self.scope.begin_step()
            answer = await self._step()
            if answer is not None:
                return End(status="unverified", reason=self._why_unverified(), answer=answer)

    async def _step(self) -> str | None:
        """One reply and its calls; the final answer when there is one."""
        index, started_at, started = len(self.steps) + 1, time.time(), time.monotonic()
        reply, remark = await self._ask(index)
        model_s, started = time.monotonic() - started, time.monotonic()
        outcomes: tuple[CallOutcome, ...] = ()
        answer = None
        if reply.tool_calls and remark is None:
            await self.scope.record.calling(index, reply.tool_calls)
            self.scope.emit(CallsStarted(index=index, reply=reply))
            outcomes = await self._call(index, reply)
        elif remark is None:
            answer, remark = self._read_answer(reply.content)
        step = ToolStep(
            index=index,
            reply=reply,
            outcomes=outcomes,
            remark=remark,
            started_at=started_at,
            timings={"model": model_s, "tools": time.monotonic() - started},
        )
        await self._finish(step)
        return answer

    async def _call(self, index: int, reply: Reply) -> tuple[CallOutcome, ...]:
        try:
            return await self._caller.run(reply.tool_calls, self.num_calls)
        except (StoppedError, CapReachedError) as why:
            self.scope.note("cut", f"step {index} was cut off: its {len(reply.tool_calls)} calls were ended ({why})")
            raise

    async def _ask(self, index: int) -> tuple[Reply, str | None]:
        """The model's reply, and what it must be told when the reply cannot be used."""
        remark = None
        try:
            reply = await self._generate_within_context()
        except TruncatedReplyError as error:
            if error.reply is None:
                raise
            limit = self.options.sampling.max_tokens if self.options.sampling else None
            remark = CUT.format(tokens=f" of {limit} tokens" if limit else "")
            reply = replace(error.reply, tool_calls=())  # arguments that were cut are not to be run
        reply = with_own_ids(reply, self.num_calls)
        await self.scope.record.replied(index, reply)
        return reply, remark

    async def _generate_within_context(self) -> Reply:
        """The reply; when the server finds the conversation too long, once more after giving parts of it up."""
        try:
            return await self._generate(self._messages())
        except ContextOverflowError as error:
            await self._give_up_parts(str(error))
            return await self._generate(self._messages())

    async def _generate(self, messages: Sequence[Message]) -> Reply:
        try:
            reply = await self.scope.generate(self.model, messages, self.toolset.tools, self.options.sampling)
        except TruncatedReplyError as error:
            self._last_usage = error.reply.usage if error.reply else self._last_usage
            raise
        self._last_usage = reply.usage
        return reply

    def _read_answer(self, content: str) -> tuple[str | None, str | None]:
        """The answer, or what the model must be told instead."""
        if not content.strip():
            return None, EMPTY
        schema = self.options.answer_schema
        if schema is None:
            return content.strip(), None
        try:
            return json.dumps(schema.parse_in_text(content), ensure_ascii=False), None
        except ValueError as error:
            return None, f"{error}. Answer again."

    def _why_unverified(self) -> str:
        """What the evidence of the answer is worth, before anything is run again."""
        claims = find_claims(self.steps[-1].reply.content, self.steps)
        lost = [citation.mark for claim in claims for citation in claim.citations if not citation.exists]
        if lost:
            return LOST_END.format(marks=", ".join(dict.fromkeys(lost)))
        return UNKNOWN_END if any(claim.citations for claim in claims) else UNCITED_END

    async def _finish(self, step: ToolStep) -> None:
        self.steps.append(step)
        await self.scope.record.called(step)
        self.scope.emit(ToolStepDone(step=step, usage=self.scope.budget.usage))
        if step.remark is None:
            self._num_unusable = 0
            return
        self._num_unusable += 1
        self.scope.note("parse_error", step.remark)
        if self._num_unusable >= self.scope.caps.max_parse_errors:
            raise CapReachedError(
                "parse_errors", f"{self._num_unusable} replies in a row could not be used; the last one: {step.remark}"
            )

    async def _compact_if_long(self) -> None:
        most = self.options.context.max_tokens
        num_tokens = count_tokens(self._messages(), self._last_usage)
        if self.steps and most is not None and num_tokens > most:
            await self._give_up_parts(f"{num_tokens} tokens, the threshold is {most}")

    async def _give_up_parts(self, why: str) -> None:
        strategy = self.options.context.strategy
        self._compaction, note = await compact(self._compaction, self.steps, why, strategy, self._sum_up)
        self._last_usage = None
        self.scope.note("context", f"{strategy}: {note}")

    def _messages(self) -> list[Message]:
        return to_messages(self.options.system_prompt, self._question, self.steps, self._compaction)

    async def _sum_up(self) -> str:
        """A summary of the conversation by the model itself."""
        request = Message(role="user", parts=(TextPart(text=SUMMARY_REQUEST),))
        reply = await self.scope.generate(self.model, [*self._messages(), request], (), self.options.sampling)
        return reply.content

    def _returned(self, outcome: CallOutcome) -> None:
        self.scope.emit(CallReturned(index=len(self.steps) + 1, outcome=outcome))
