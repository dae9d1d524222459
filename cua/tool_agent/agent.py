"""Tool-using agent: calls the model and its tools until a reply has no calls or a limit or person ends the run."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial

from cua.answer import AnswerSchema, describe_evidence, read_answer
from cua.answer_files import MISSING_END, find_invented_files
from cua.errors import ContextOverflowError, ModelError, TruncatedReplyError, UnusableReplyError
from cua.guard.guard import Guard
from cua.json_text import JsonMapping
from cua.messages import Message, Part, Reply, TextPart
from cua.model import Model
from cua.run.budget import CapReachedError, Caps
from cua.run.control import Control, StoppedError
from cua.run.end import End, RunResult
from cua.run.events import CallReturned, CallsStarted, Listener, ToolStepDone
from cua.run.scope import RunScope, Spent
from cua.run.verdict import judge_answer
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.calls import CallRunner, check_loop, count_repeats, why_unusable, with_call_ids
from cua.tool_agent.conversation import (
    INTERRUPTED_CALL,
    LIMIT_RAISED,
    LOST_CALL,
    REDIRECT,
    SUMMARY_REQUEST,
    UNANSWERED,
    Conversation,
    RunSnapshot,
    StepMessages,
    compact,
    count_tokens,
    remark_on,
    shrink,
    text_of,
    to_messages,
)
from cua.tool_agent.profile import Profile
from cua.tools.toolset import Toolset, failed
from cua.trajectory.writer import TrajectoryWriter
from envs import Task
from envs.env import checked_warnings

LOOP_NUDGE = "This was the same call with the same arguments {times} times in a row. Do something else, or answer."
LAST_REPLY_TIMEOUT_S = 300.0
"""Timeout in seconds of the last reply after a limit is reached."""


Prepare = Callable[[], Awaitable[str | None]]
"""Awaited when a question begins; returns a note for the model, if any."""


class ToolAgent:
    """Agent that answers questions with tools; each question sees the earlier conversation.

    Args:
        model: Model that answers and calls tools.
        toolset: Tools that the model may call.
        profile: System prompt, limits and context strategy.
        answer_schema: Schema of final answers.
        task: Task that evaluates the answer, if the question belongs to a suite.
        is_isolated: True if tools run in a sandbox; otherwise the guard asks before each call.
        guard: Policy of allowed actions.
        scope: Scope of the parent run; its limits replace the profile's.
        record: Record of the run if there is no `scope`.
        listener: Called with every event if there is no `scope`.
        start: Earlier part of the run to continue from.
        final_end: Maps the end of each question to the one that is recorded.

    Attributes:
        scope: Scope of all questions.
        conversation: Questions and steps so far.
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
        start: RunSnapshot | None = None,
        final_end: Callable[[End], End] = lambda end: end,
    ) -> None:
        self.model = model
        self.toolset = toolset
        self.profile = profile
        self.answer_schema = answer_schema
        self.task = task
        self.is_isolated = is_isolated
        self.guard = guard or Guard()
        self.scope = scope or RunScope(caps=replace(profile.caps, max_steps=None), record=record, listener=listener)
        self._question_caps = Caps(
            max_steps=profile.caps.max_steps if scope is None else None,
            max_parse_errors=self.scope.caps.max_parse_errors,
        )
        self._question_scope = self.scope.make_part(self._question_caps)
        self._start = start or RunSnapshot()
        self.conversation = self._start.conversation.resumed()
        self._rendered = StepMessages()  # cache of the messages of finished steps
        self._result: RunResult | None = None
        self._final_end = final_end

    @property
    def control(self) -> Control:
        """Control that pauses and stops the current question, or the next one."""
        return self._question_scope.control

    @property
    def steps(self) -> tuple[ToolStep, ...]:
        """Finished steps of all questions."""
        return self.conversation.steps

    @property
    def num_calls(self) -> int:
        """Tool calls so far in the whole run."""
        return self.conversation.num_calls

    async def run(
        self, question: Sequence[Part], *, inputs: Sequence[JsonMapping] = (), prepare: Prepare | None = None
    ) -> RunResult:
        """Answer a question and record the result.

        Args:
            question: Images first, then text.
            inputs: Files of the question, for the record, unless its header lists them.
            prepare: Awaited first; its note is given to the model before the question.

        Returns:
            Result with the steps, usage and time of all questions together.

        Raises:
            Exception: Only for a defect of this program.
        """

        async def answer() -> End:
            await self._close_interrupted_step()
            texts = [*self._unanswered_notes(), await self._prepared(prepare)]
            notes = [TextPart(text=f"({text})\n") for text in texts if text]
            await self._add_user_message((*question[:-1], *notes, *question[-1:]), inputs)
            return await self._loop()

        return await self._run_question(text_of(question), answer)

    async def continue_question(self, prepare: Prepare | None = None, news: Prepare | None = None) -> RunResult:
        """Continue the question that the earlier part of the run left open, as in `run`.

        Args:
            prepare: Awaited first; its note is given to the model and not recorded: each resume makes a new one.
            news: Awaited after `prepare`. A text that it returns is recorded as a message of the user, and the model
                answers again, even if it had answered before.
        """
        opened_at = self.conversation.opened_at

        async def answer() -> End:
            await self._close_interrupted_step()
            self._question_scope.budget.num_steps = len(self.steps) - opened_at
            note = await self._prepared(prepare)
            last = self.steps[-1] if len(self.steps) > opened_at else None
            later = await self._prepared(news)
            is_answered = last is not None and last.remark is None and not last.outcomes
            is_capped = self._start.end is not None and self._start.end.status == "capped"
            is_open = is_capped or later or self._question_scope.control.is_redirected
            if is_answered and not is_open:  # only its end was not recorded
                return self._answered(read_answer(self.steps[-1].reply.content, self.answer_schema)[0])
            texts = [LIMIT_RAISED if is_answered and is_capped else None, later]
            if any(texts):
                await self._add_user_message([TextPart(text="\n\n".join(filter(None, texts)))])
            if note:
                self.conversation = self.conversation.with_question([TextPart(text=note)])
            return await self._loop()

        return await self._run_question(text_of(self.conversation.questions[-1].parts), answer)

    async def _run_question(self, instruction: str, answer: Callable[[], Awaitable[End]]) -> RunResult:
        scope, before = self._question_scope, self._result
        self.scope.begin(instruction, Spent(time_s=before.duration_s) if before else self._start.spent)
        scope.control.attach()
        try:
            end = await scope.run_to_end(answer)
            end = self._final_end(await scope.run_to_end(partial(judge_answer, self.task, end, self.toolset.folder)))
            for text in checked_warnings(self.task) if self.task is not None else ():
                self.scope.note("task", text)
        finally:
            scope.control.clock.end()
            self._question_scope = self.scope.make_part(self._question_caps)
        self._result = await self.scope.finish(end, num_steps=len(self.steps))
        return self._result

    async def _add_user_message(self, parts: Sequence[Part], inputs: Sequence[JsonMapping] = ()) -> None:
        """Add a user message to the conversation and the record."""
        self.conversation = self.conversation.with_question(parts)
        await self.scope.record.asked(self.conversation.questions[-1].parts, inputs)

    async def _prepared(self, prepare: Prepare | None) -> str | None:
        return await self._question_scope.control.unless_stopped(prepare()) if prepare else None

    def _unanswered_notes(self) -> Iterator[str]:
        """Yield the note for the model about an earlier question without an answer."""
        end = self._result.end if self._result else self._start.end
        if end is not None and end.answer is None:
            yield UNANSWERED.format(status=end.status, reason=end.reason)
        elif end is None and self.conversation.questions:
            yield UNANSWERED.format(status="interrupted", reason="the run broke off")

    async def _close_interrupted_step(self) -> None:
        """Finish a step whose calls did not return.

        After the end of the process, repeatable calls are repeated. Other calls, and those that a stop or a limit
        ended, get an error result.
        """
        interrupted = self.conversation.interrupted_step
        if interrupted is None:
            return
        started = time.monotonic()
        numbered = list(enumerate(interrupted.reply.tool_calls, start=self.num_calls))
        repeatable = [(n, call) for n, call in numbered if interrupted.is_lost and call.name in self.toolset.repeatable]
        repeated = await self._call_runner().repeat(repeatable)
        why = failed(LOST_CALL if interrupted.is_lost else INTERRUPTED_CALL)
        lost = {n: CallOutcome(number=n, call=call, result=why) for n, call in numbered if n not in repeated}
        for outcome in lost.values():
            self._on_outcome(outcome)
        outcomes = tuple(repeated.get(n) or lost[n] for n, _ in numbered)
        timings = {"tools": time.monotonic() - started}
        step = ToolStep(
            index=interrupted.index, reply=interrupted.reply, outcomes=outcomes, started_at=time.time(), timings=timings
        )
        await self._finish(step)

    def _call_runner(self) -> CallRunner:
        return CallRunner(
            toolset=self.toolset,
            guard=self.guard.for_run(self._question_scope.control.await_person),
            scope=self._question_scope,
            is_isolated=self.is_isolated,
            on_outcome=self._on_outcome,
            mark_untrusted=self.profile.mark_untrusted,
        )

    async def _loop(self) -> End:
        try:
            return await self._until_answered()
        except CapReachedError as cap:
            if not self.profile.last_request or cap.cap == "loop":
                raise
            return End(status="capped", cap=cap.cap, reason=str(cap), answer=await self._last_answer(str(cap)))
        except ContextOverflowError as error:
            if not self.profile.last_request:
                raise
            answer = await self._last_answer("the context is full")
            return End(status="capped", cap="context", reason=f"context overflow: {error}", answer=answer)

    async def _last_answer(self, why: str) -> str | None:
        """Return the last reply, without tools, that the model gives after a limit is reached."""
        await self._close_interrupted_step()
        await self._add_user_message([TextPart(text=self.profile.last_request.format(why=why))])
        index, started_at, started = len(self.steps) + 1, time.time(), time.monotonic()
        with suppress(ModelError, TimeoutError):
            async with asyncio.timeout(LAST_REPLY_TIMEOUT_S):
                reply = replace(await self._generate_shrinking(), tool_calls=())
            self._question_scope.budget.add(reply.usage)
            await self.scope.record.replied(index, reply)
            timings = {"model": time.monotonic() - started}
            await self._finish(ToolStep(index=index, reply=reply, started_at=started_at, timings=timings))
            return reply.content.strip() or None
        return None

    async def _generate_shrinking(self) -> Reply:
        """Return the model's reply without tools to as much of the conversation as it accepts."""
        while True:
            try:
                return await self.model.generate(self._messages(), (), self.profile.sampling)
            except ContextOverflowError as error:
                smaller = shrink(self.conversation)
                if smaller is None:
                    raise
                self.conversation = smaller
                self.scope.note("context", f"{error}: shortened", **asdict(smaller.compaction))

    async def _until_answered(self) -> End:
        while True:
            await self._question_scope.control.checkpoint()
            await self._take_redirects()
            await self._compact_if_long()
            self._question_scope.begin_step()
            answer = await self._step()
            if answer is not None and not self._question_scope.control.is_redirected:
                return self._answered(answer)

    async def _take_redirects(self) -> None:
        """Give the model the messages that the user sent during its work."""
        for text in self._question_scope.control.take_redirects():
            await self._add_user_message([TextPart(text=REDIRECT + text)])

    def _answered(self, answer: str | None) -> End:
        content, folder = self.steps[-1].reply.content, self.toolset.folder
        reason = describe_evidence(content, self.steps)
        questions = [question.parts for question in self.conversation.questions]
        if folder is not None and (missing := find_invented_files(content, self.steps, questions, folder)):
            reason = MISSING_END.format(files=", ".join(missing))
        return End(status="unverified", reason=reason, answer=answer)

    async def _step(self) -> str | None:
        """Run one reply and its calls; return the final answer, if any."""
        index, started_at, started = len(self.steps) + 1, time.time(), time.monotonic()
        reply, remark = await self._get_reply(index)
        model_s, started = time.monotonic() - started, time.monotonic()
        outcomes: tuple[CallOutcome, ...] = ()
        answer = None
        if reply.tool_calls and remark is None:
            await self.scope.record.calling(index, reply.tool_calls)
            self.scope.emit(CallsStarted(index=index, reply=reply))
            outcomes = await self._make_calls(index, reply)
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

    async def _make_calls(self, index: int, reply: Reply) -> tuple[CallOutcome, ...]:
        self.conversation = self.conversation.with_calls(index, reply)
        try:
            return await self._call_runner().run(reply.tool_calls, self.num_calls)
        except (StoppedError, CapReachedError) as why:
            self.scope.note("cut", f"step {index} was cut off: its {len(reply.tool_calls)} calls were ended ({why})")
            raise

    async def _get_reply(self, index: int) -> tuple[Reply, str | None]:
        """Return the model's reply, and the error text for the model if the reply cannot be used."""
        remark = None
        try:
            reply = await self._generate_within_context()
        except (TruncatedReplyError, UnusableReplyError) as error:
            remark = remark_on(error, self.profile.sampling)
            if not remark:
                raise
            reply = replace(error.reply or Reply(content=""), tool_calls=())  # incomplete calls must not run
        reply = with_call_ids(reply, self.num_calls)
        await self.scope.record.replied(index, reply)
        return reply, remark

    async def _generate_within_context(self) -> Reply:
        """Return the reply; while the server finds the conversation too long, shorten it and retry."""
        while True:
            try:
                return await self._question_scope.generate(
                    self.model, self._messages(), self.toolset.tools, self.profile.sampling
                )
            except ContextOverflowError as error:
                await self._compact(str(error))

    async def _finish(self, step: ToolStep) -> None:
        self.conversation = self.conversation.with_step(step)
        await self.scope.record.called(step)
        self.scope.emit(ToolStepDone(step=step, usage=self.scope.budget.usage))
        why = why_unusable(step) if step.outcomes else step.remark
        if why is None:
            self._question_scope.reply_usable()
        else:
            self._question_scope.reply_unusable(why)
        if self.profile.is_loop_capped:
            check_loop(self.steps, self.scope.caps)

    def _loop_remark(self, reply: Reply) -> str | None:
        times = count_repeats(reply.tool_calls, self.steps) + 1
        is_due = self.profile.is_loop_capped and reply.tool_calls and times >= self.scope.caps.loop_nudge
        return LOOP_NUDGE.format(times=times) if is_due else None

    async def _compact_if_long(self) -> None:
        most = self.profile.context.max_tokens
        if most is None or not self.steps:
            return
        num_tokens = count_tokens(self._messages(), self.conversation.usage)
        if num_tokens > most:
            await self._compact(f"{num_tokens} tokens, the threshold is {most}")

    async def _compact(self, why: str) -> None:
        strategy = self.profile.context.strategy
        self.conversation, note = await compact(self.conversation, why, strategy, self._summarize)
        self.scope.note("context", f"{strategy}: {note}", **asdict(self.conversation.compaction))

    @property
    def system_prompt(self) -> str:
        """System prompt of the run."""
        return self.profile.prompt_with(self.answer_schema.text_note if self.answer_schema else "")

    def _messages(self) -> list[Message]:
        return to_messages(self.system_prompt, self.conversation, self._rendered)

    async def _summarize(self) -> str:
        """Return the model's own summary of as much of the conversation as it accepts."""
        request = Message(role="user", parts=(TextPart(text=SUMMARY_REQUEST),))
        conversation: Conversation | None = self.conversation
        while conversation is not None:
            messages = [*to_messages(self.system_prompt, conversation), request]
            try:
                return (await self._question_scope.generate(self.model, messages, (), self.profile.sampling)).content
            except ContextOverflowError as error:
                conversation, refusal = shrink(conversation), error
        raise refusal

    def _on_outcome(self, outcome: CallOutcome) -> None:
        self.scope.emit(CallReturned(index=len(self.steps) + 1, outcome=outcome))
