"""Accuracy of a model on questions about screens: answers come from the serving engine and are scored by the actions of
their code.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from apps.evals.statistics import Interval, mean_interval
from apps.train.episodes import EpisodeStep
from apps.train.lessons import LessonMaker
from apps.train.screens.screen import DrawnScreen, ScreenOptions, make_screen
from apps.train.skills import ScreenQuestion, draw_questions
from cua.errors import CodeError, ReplyError
from cua.gui_agent.interpreter.run import run
from cua.gui_agent.protocol.parse import parse
from cua.messages import Reply
from envs import Action, Click, ScreenGeometry, Terminate, TypeText
from model_runtime.engine.contract import EngineRequest, SamplingParams
from model_runtime.launch.options import NativeOptions
from model_runtime.media import Prompt
from model_runtime.native import make_engine

if TYPE_CHECKING:
    from model_runtime.engine.thread import EngineThread

MAX_TOKENS = 120  # bounds an answer that does not end
Verdict = Literal["right", "wrong click", "wrong text", "gave up", "claimed done", "unreadable"]
"""Verdict on an answer. `gave up` and `claimed done` are replaced by `right` where nothing is to be clicked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamSheet:
    """Screens of one kind with their questions."""

    name: str
    items: tuple[tuple[DrawnScreen, tuple[ScreenQuestion, ...]], ...]


@dataclass(slots=True)
class ExamResult:
    """Verdicts on one sheet, by the kind of question."""

    name: str
    of_kind: dict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))

    def share(self, verdict: Verdict = "right", kind: str | None = None) -> Interval | None:
        """Return the share of answers with a verdict, with its 95 % interval; None without answers."""
        verdicts = [verdict for name, of_kind in self.of_kind.items() if kind in (None, name) for verdict in of_kind]
        return mean_interval([[float(value == verdict)] for value in verdicts])

    def count(self) -> int:
        """Return the number of answers."""
        return sum(map(len, self.of_kind.values()))


def make_sheet(name: str, options: ScreenOptions, *, count: int, seed: int, each: int = 2) -> ExamSheet:
    """Draw a sheet; the same seed gives the same questions."""
    rng, items = random.Random(f"exam {name} {seed}"), []
    for _ in range(count):
        screen = make_screen(rng, options)
        items.append((screen, tuple(draw_questions(rng, screen, each, held_out=options.held_out_names))))
    return ExamSheet(name=name, items=tuple(items))


def examine(model_dir: Path, sheets: Sequence[ExamSheet]) -> list[ExamResult]:
    """Let a model answer all questions with greedy decoding."""
    return asyncio.run(_examine(model_dir, sheets))


async def _examine(model_dir: Path, sheets: Sequence[ExamSheet]) -> list[ExamResult]:
    engine = make_engine(NativeOptions(model_dir=model_dir, device="cpu", dtype="float32", cache_gib=0.5))
    try:
        maker = LessonMaker(engine.tokenizer)
        return [await _answer_sheet(engine, maker, sheet) for sheet in sheets]
    finally:
        await engine.close()


async def _answer_sheet(engine: "EngineThread", maker: LessonMaker, sheet: ExamSheet) -> ExamResult:
    marks = ExamResult(sheet.name)
    prompts = [
        (screen, question, maker.make_prompt([EpisodeStep(screen=screen, question=question)]))
        for screen, questions in sheet.items
        for question in questions
    ]
    answers = await asyncio.gather(*(_answer(engine, f"{n}", prompt) for n, (_, _, prompt) in enumerate(prompts)))
    for (screen, question, _), answer in zip(prompts, answers, strict=True):
        marks.of_kind[question.kind].append(grade_answer(answer, question, screen))
    return marks


async def _answer(engine: "EngineThread", request_id: str, prompt: Prompt) -> str:
    """Return the text of an answer, with `</think>` at the end of the thought."""
    params = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS)
    special, parts = engine.tokenizer.special, []
    async for output in engine.generate(EngineRequest(request_id=request_id, prompt=prompt, params=params)):
        for delta in output.deltas:
            parts.append(delta if isinstance(delta, str) else special.text_of(delta))
    return "".join(parts).removesuffix("<|im_end|>")


def grade_answer(answer: str, question: ScreenQuestion, screen: DrawnScreen) -> Verdict:
    """Return the verdict on an answer, from the actions of its code."""
    thought, _, content = answer.partition("</think>")
    height, width = screen.pixels.shape[:2]
    try:
        turn = parse(Reply(content=content, reasoning=thought))
        actions = run(turn.code, ScreenGeometry(native_px=(width, height), sent_px=(width, height)))
    except (CodeError, ReplyError):
        return "unreadable"
    ends = [action for action in actions if isinstance(action, Terminate)]
    if ends:
        return _grade_end(ends[0], question)
    return _grade_actions(actions, question)


def _grade_end(end: Terminate, question: ScreenQuestion) -> Verdict:
    if question.target is None and (end.status == "failure") is (question.kind != "done"):
        return "right"
    return "gave up" if end.status == "failure" else "claimed done"


def _grade_actions(actions: Sequence[Action], question: ScreenQuestion) -> Verdict:
    clicks = [action for action in actions if isinstance(action, Click)]
    if not clicks:
        return "unreadable"
    if question.target is None:
        return "wrong click"
    left, top, right, bottom = question.target.box
    x, y = clicks[0].x_px, clicks[0].y_px
    if x is None or y is None or not (left <= x < right and top <= y < bottom):
        return "wrong click"
    typed = [action.text for action in actions if isinstance(action, TypeText)]
    return "right" if typed == ([question.typed] if question.typed else []) else "wrong text"
