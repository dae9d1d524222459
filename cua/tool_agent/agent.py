"""The tool-using agent: ask, call, look, until the model answers without a call or somebody ends it; then again."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from cua.answer import AnswerSchema, describe_evidence, read_answer
from cua.errors import ContextOverflowError, ModelError, TruncatedReplyError, UnusableReplyError
from cua.guard import Guard
from cua.messages import Message, Part, Reply, TextPart, Usage
from cua.model import Model
from cua.run.budget import CapReachedError, Caps
from cua.run.control import Control, StoppedError
from cua.run.end import End, RunResult
from cua.run.events import CallReturned, CallsStarted, Listener, ToolStepDone
from cua.run.scope import RunScope, Spent
from cua.run.verdict import judge_answer
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.calls import Caller, check_loop, count_alike, why_unusable, with_own_ids
from cua.tool_agent.conversation import (
    CUT_CALL,
    LOST_CALL,
    REDIRECT,
    ROOM_AGAIN,
    SUMMARY_REQUEST,
    UNANSWERED,
    Asked,
    Compaction,
    ToolStart,
    Written,
    compact,
    count_tokens,
    last_usage,
    remark_on,
    to_messages,
    words_of,
)
from cua.tool_agent.profile import Profile
from cua.tools.toolset import Toolset, failed
from cua.trajectory.writer import TrajectoryWriter
from envs import Task
from envs.env import checked_warnings

LOOP_NUDGE = "This was the same call with the same arguments {times} times in a row. Do something else, or answer."
LAST_CALL_S = 300.0
"""Seconds that the last reply after a limit may take."""


Prepare = Callable[[], Awaitable[str | None]]
"""Done when a question is begun; gives what the model must be told, if anything."""


class ToolAgent:
    """Answers questions with tools, one after the other; each sees what was said and done before.

    Args:
        model: Answers and calls.
        toolset: What it may call.
        profile: How it works.
        answer_schema: What final answers must look like.
        task: Judges the answer, when the question is one of a suite.
        is_isolated: Whether tools run in a sandbox; when not, the guard asks before each call.
        guard: What may be done.
        scope: Limits, switches and record, for a part of a larger run; its caps hold, not those of the profile.
        record: Where the run is written down, without a `scope`.
        listener: Told all that happens, without a `scope`.

    Attributes:
        scope: What holds over all questions.
        steps: Finished steps, of all questions.
    """

    def __init__(
        self,
        *,
        model: Model,
        toolset: Toolset,
        profile: Profile,
        answer_schema: AnswerSchema | None = None,
        task: Task | None = None,
        is_isolated: bool = True,
        guard: Guard | None = None,
        scope: RunScope | None = None,
        record: TrajectoryWriter | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.model = model
        self.toolset = toolset
        self.profile = profile
        self.answer_schema = answer_schema
        self.task = task
        self.is_isolated = is_isolated
        self.guard = guard or Guard()
        self.scope = scope or RunScope(caps=replace(profile.caps, max_steps=None), record=record, listener=listener)
        self.steps: list[ToolStep] = []
        self._turn_caps = Caps(
            max_steps=profile.caps.max_steps if scope is None else None,
            max_parse_errors=self.scope.caps.max_parse_errors,
        )
        self._turn = self.scope.make_turn(self._turn_caps)
        self._asked: list[Asked] = []
        self._cut: tuple[int, Reply] | None = None
        self._end: End | None = None
        self._cut_note = CUT_CALL
        self._spent = Spent()
        self._compaction = Compaction()
        self._written: Written = {}
        self._last_usage: Usage | None = None

    @property
    def control(self) -> Control:
        """Pauses and stops the question that is being answered, or the next one."""
        return self._turn.control

    @property
    def num_calls(self) -> int:
        """Tool calls so far, over the whole run."""
        return sum(len(step.outcomes) for step in self.steps)

    def load(self, start: ToolStart) -> None:
        """Take an earlier part of the run as what was done; before the first question."""
        self._asked, self.steps, self._cut, self._end = list(start.asked), list(start.steps), start.cut, start.end
        self._spent, self._cut_note, self._compaction = start.spent, LOST_CALL, start.compaction
        self._last_usage = last_usage(self.steps, self._compaction)

    def leave(self) -> ToolStart | None:
        """What another agent loads to go on in the place of this one; None before the first question."""
        if not self._asked:
            return None
        return ToolStart(
            asked=tuple(self._asked),
            steps=tuple(self.steps),
            spent=self.scope.spent,
            cut=self._cut,
            end=self._end,
            compaction=self._compaction,
        )

    async def run(
        self, question: Sequence[Part], *, inputs: Sequence[Mapping[str, Any]] = (), prepare: Prepare | None = None
    ) -> RunResult:
        """Answer a question, from the first call of the model to a written end.

        Args:
            question: Images first, then words.
            inputs: Files that came with it, for the record, unless they stand in its header.
            prepare: Awaited first; what it gives is told to the model before the question.

        Returns:
            How it ended; steps, usage and time are those of all questions together.

        Raises:
            Exception: Only what is a defect of ours.
        """

        async def answer() -> End:
            await self._close_cut()
            told = [*self._unanswered(), await self._prepared(prepare)]
            notes = [TextPart(text=f"({text})\n") for text in told if text]
            self._asked.append(Asked(parts=(*question[:-1], *notes, *question[-1:]), at=len(self.steps)))
            await self.scope.record.asked(self._asked[-1].parts, inputs)
            return await self._loop()

        return await self._take_turn(words_of(question), answer)

    async def go_on(self, prepare: Prepare | None = None) -> RunResult:
        """Go on with the question that the loaded part of the run left open; as `run`."""
        opened_at = self._asked[-1].at

        async def answer() -> End:
            await self._close_cut()
            self._turn.budget.num_steps = len(self.steps) - opened_at
            note = await self._prepared(prepare)
            last = self.steps[-1] if len(self.steps) > opened_at else None
            if last is not None and last.remark is None and not last.outcomes:
                if self._end is None or self._end.status != "capped":  # only the end was not written down
                    return self._answered(read_answer(last.reply.content, self.answer_schema)[0])
                self._asked.append(Asked(parts=(TextPart(text=ROOM_AGAIN),), at=len(self.steps)))
                await self.scope.record.asked(self._asked[-1].parts)
                self._end = None
            if note:
                self._asked.append(Asked(parts=(TextPart(text=note),), at=len(self.steps)))
            return await self._loop()

        return await self._take_turn(words_of(self._asked[-1].parts), answer)

    async def _take_turn(self, words: str, answer: Callable[[], Awaitable[End]]) -> RunResult:
        turn = self._turn
        self.scope.begin(words, self._spent)
        turn.control.attach()
        try:
            end = await turn.to_the_end(answer)
            self._end = await turn.to_the_end(partial(judge_answer, self.task, end, self.toolset.folder))
            for text in checked_warnings(self.task) if self.task is not None else ():
                self.scope.note("task", text)
        finally:
            turn.control.clock.end()
            self._turn = self.scope.make_turn(self._turn_caps)
        result = await self.scope.finish(self._end, num_steps=len(self.steps))
        self._spent = Spent(time_s=result.duration_s)
        return result

    async def _prepared(self, prepare: Prepare | None) -> str | None:
        return await self._turn.control.unless_stopped(prepare()) if prepare else None

    def _unanswered(self) -> Iterator[str]:
        """What the model must know of a question before that came to no answer."""
        if self._end is not None and self._end.answer is None:
            yield UNANSWERED.format(status=self._end.status, reason=self._end.reason)
        elif self._end is None and self._asked:
            yield UNANSWERED.format(status="interrupted", reason="the run broke off")

    async def _close_cut(self) -> None:
        """Finish a step whose calls never came back: what may be made again is; of the others the model is told."""
        if self._cut is None:
            return
        (index, reply), why, started = self._cut, self._cut_note, time.monotonic()
        numbered = list(enumerate(reply.tool_calls, start=self.num_calls))
        again = [(n, call) for n, call in numbered if call.name in self.toolset.repeatable and why is LOST_CALL]
        repeated = await self._caller().repeat(again)
        lost = {n: CallOutcome(number=n, call=call, result=failed(why)) for n, call in numbered if n not in repeated}
        for outcome in lost.values():
            self._returned(outcome)
        self._cut, self._cut_note = None, CUT_CALL
        outcomes = tuple(repeated.get(n) or lost[n] for n, _ in numbered)
        timings = {"tools": time.monotonic() - started}
        step = ToolStep(index=index, reply=reply, outcomes=outcomes, started_at=time.time(), timings=timings)
        await self._finish(step)

    def _caller(self) -> Caller:
        return Caller(
            toolset=self.toolset,
            guard=self.guard.for_run(self._turn.control.away),
            scope=self._turn,
            is_isolated=self.is_isolated,
            returned=self._returned,
            mark_untrusted=self.profile.mark_untrusted,
        )

    async def _loop(self) -> End:
        try:
            return await self._until_answered()
        except CapReachedError as cap:
            if not self.profile.last_request or cap.cap == "loop":
                raise
            return End(status="capped", cap=cap.cap, reason=str(cap), answer=await self._last_answer(str(cap)))

    async def _last_answer(self, why: str) -> str | None:
        """What the model says when a limit is used up and it is asked once more, without tools."""
        await self._close_cut()
        self._asked.append(Asked(parts=(TextPart(text=self.profile.last_request.format(why=why)),), at=len(self.steps)))
        await self.scope.record.asked(self._asked[-1].parts)
        index, started_at, started = len(self.steps) + 1, time.time(), time.monotonic()
        with suppress(ModelError, TimeoutError):
            async with asyncio.timeout(LAST_CALL_S):
                asking = self.model.generate(self._messages(), (), self.profile.sampling)
                reply = replace(await asking, tool_calls=())
            self._turn.budget.add(reply.usage)
            await self.scope.record.replied(index, reply)
            timings = {"model": time.monotonic() - started}
            await self._finish(ToolStep(index=index, reply=reply, started_at=started_at, timings=timings))
            return reply.content.strip() or None
        return None

    async def _until_answered(self) -> End:
        while True:
            await self._turn.control.checkpoint()
            await self._take_redirects()
            await self._compact_if_long()
            self._turn.begin_step()
            answer = await self._step()
            if answer is not None and not self._turn.control.is_redirected:
                return self._answered(answer)

    async def _take_redirects(self) -> None:
        """Tell the model what the user says in the middle of its work."""
        for text in self._turn.control.take_redirects():
            self._asked.append(Asked(parts=(TextPart(text=REDIRECT + text),), at=len(self.steps)))
            await self.scope.record.asked(self._asked[-1].parts)

    def _answered(self, answer: str | None) -> End:
        reason = describe_evidence(self.steps[-1].reply.content, self.steps)
        return End(status="unverified", reason=reason, answer=answer)

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
            answer, remark = read_answer(reply.content, self.answer_schema)
        step = ToolStep(
            index=index,
            reply=reply,
            outcomes=outcomes,
            remark=remark or self._loop_remark(reply),
            started_at=started_at,
            timings={"model": model_s, "tools": time.monotonic() - started},
        )
        await self._finish(step)
        return answer

    async def _call(self, index: int, reply: Reply) -> tuple[CallOutcome, ...]:
        self._cut = index, reply
        try:
            outcomes = await self._caller().run(reply.tool_calls, self.num_calls)
        except (StoppedError, CapReachedError) as why:
            self.scope.note("cut", f"step {index} was cut off: its {len(reply.tool_calls)} calls were ended ({why})")
            raise
        self._cut = None
        return outcomes

    async def _ask(self, index: int) -> tuple[Reply, str | None]:
        """The model's reply, and the error text for the model when the reply cannot be used."""
        remark = None
        try:
            reply = await self._generate_within_context()
        except (TruncatedReplyError, UnusableReplyError) as error:
            remark = remark_on(error, self.profile.sampling)
            if not remark:
                raise
            reply = replace(error.reply or Reply(content=""), tool_calls=())  # parts of calls are not to be run
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
            reply = await self._turn.generate(self.model, messages, self.toolset.tools, self.profile.sampling)
        except (TruncatedReplyError, UnusableReplyError) as error:
            self._last_usage = error.reply.usage if error.reply else self._last_usage
            raise
        self._last_usage = reply.usage
        return reply

    async def _finish(self, step: ToolStep) -> None:
        self.steps.append(step)
        await self.scope.record.called(step)
        self.scope.emit(ToolStepDone(step=step, usage=self.scope.budget.usage))
        why = why_unusable(step) if step.outcomes else step.remark
        if why is None:
            self._turn.reply_usable()
        else:
            self._turn.reply_unusable(why)
        if self.profile.is_loop_capped:
            check_loop(self.steps, self.scope.caps)

    def _loop_remark(self, reply: Reply) -> str | None:
        times = count_alike(reply.tool_calls, self.steps) + 1
        is_due = self.profile.is_loop_capped and reply.tool_calls and times >= self.scope.caps.loop_nudge
        return LOOP_NUDGE.format(times=times) if is_due else None

    async def _compact_if_long(self) -> None:
        most = self.profile.context.max_tokens
        if most is None or not self.steps:
            return
        num_tokens = count_tokens(self._messages(), self._last_usage)
        if num_tokens > most:
            await self._give_up_parts(f"{num_tokens} tokens, the threshold is {most}")

    async def _give_up_parts(self, why: str) -> None:
        strategy = self.profile.context.strategy
        self._compaction, note = await compact(self._compaction, self.steps, why, strategy, self._sum_up)
        self._last_usage = None
        self.scope.note("context", f"{strategy}: {note}", **asdict(self._compaction))

    @property
    def system_prompt(self) -> str:
        """What the model is told before the first question."""
        return self.profile.prompt_with(self.answer_schema.text_note if self.answer_schema else "")

    def _messages(self) -> list[Message]:
        return to_messages(self.system_prompt, self._asked, self.steps, self._compaction, self._written)

    async def _sum_up(self) -> str:
        """A summary of the conversation by the model itself."""
        request = Message(role="user", parts=(TextPart(text=SUMMARY_REQUEST),))
        reply = await self._turn.generate(self.model, [*self._messages(), request], (), self.profile.sampling)
        return reply.content

    def _returned(self, outcome: CallOutcome) -> None:
        self.scope.emit(CallReturned(index=len(self.steps) + 1, outcome=outcome))
