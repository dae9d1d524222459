"""Evaluation of one WebArena episode: the product of all checks, computed once, at the end.

The questions to a judge are WebArena's, word for word (web-arena-x/webarena, `evaluation_harness/helper_functions.py`;
published with temperature 0, 768 tokens, and the model gpt-4-1106-preview, which is retired). With `parity=True` they
are asked unchanged and the verdict is searched for anywhere in the reply; else the rules of `envs.judge` apply.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envs.errors import EnvDiedError, EnvSetupError
from envs.judge import Judge, ask_verdict, fence_text, fill_template
from envs.suites.webarena.page_checks import MagentoClient, is_met, read_text
from envs.suites.webarena.scoring import ALL_FIXES, clean, includes_all, is_exactly, is_reached
from envs.suites.webarena.task_config import NOT_ACHIEVABLE, PageCheck, TaskConfig

if TYPE_CHECKING:
    from playwright.async_api import Page

_SYSTEM = "You are a helpful assistant"
_FUZZY = (
    "Help a teacher to grade the answer of a student given a question. Keep in mind that the student may use different "
    "phrasing or wording to answer the question. The goal is to evaluate whether the answer is semantically equivalent "
    "to the reference answer.\n"
    "question: {question}\n"
    "reference answer: {reference}\n"
    "all the string 'N/A' that you see is a special sequence that means 'not achievable'\n"
    "student answer: {answer}\n"
    "Conclude the judgement by correct/incorrect/partially correct."
)
_UNACHIEVABLE = (
    "task: {question}\n"
    "actual unachievable reason: {reference}\n"
    "reported unachievable reason: {answer}\n"
    "The task described above is inherently unachievable due to the reason specified under "
    "'actual unachievable reason'. "
    "An individual previously attempted this task and was unable to complete it. They provided a reason for their "
    "failure, which is listed under 'reported unachievable reason'. "
    "Your role is to review both the actual and reported reasons. "
    "Determine if the reported reason aligns with the actual reason, even if implicitly. "
    "If the stated reason is in line with the actual reason, respond with 'same'. Otherwise, respond with 'different'."
)
_FUZZY_WORDS = {"correct": True, "incorrect": False, "partially correct": False}
_UNACHIEVABLE_WORDS = {"same": True, "different": False}


async def is_alike(judge: Judge, question: str, reference: str, answer: str, *, parity: bool = False) -> bool:
    """Ask the judge whether an answer says the same as a reference; partly is not enough.

    Raises:
        EnvDiedError: If the judge does not answer, or its answer is not a verdict.
    """
    return await _ask(judge, _FUZZY, "student answer", _FUZZY_WORDS, question, reference, answer, parity)


async def is_reason(judge: Judge, task: str, reason: str, answer: str, *, parity: bool = False) -> bool:
    """Ask the judge whether an answer states why a task is impossible.

    Raises:
        EnvDiedError: If the judge does not answer, or its answer is not a verdict.
    """
    name = "reported unachievable reason"
    return await _ask(judge, _UNACHIEVABLE, name, _UNACHIEVABLE_WORDS, task, reason, answer, parity)


async def _ask(
    judge: Judge,
    form: str,
    name: str,
    words: dict[str, bool],
    question: str,
    reference: str,
    answer: str,
    parity: bool,
) -> bool:
    shown, mark = (answer, "") if parity else fence_text(answer)
    asked = fill_template(form, question=question, reference=reference, answer=shown)
    if parity:
        return _read_as_published(await judge.ask(_SYSTEM, asked), words)
    return await ask_verdict(judge, asked, system=_SYSTEM, name=name, mark=mark, words=words)


def _read_as_published(reply: str, words: dict[str, bool]) -> bool:
    """Search for the words anywhere in the reply, negative ones first."""
    reply = reply.lower()
    if any(word in reply for word, is_right in words.items() if not is_right):
        return False
    if not any(word in reply for word, is_right in words.items() if is_right):
        raise EnvDiedError(f"the judge gave no verdict: {reply[:120]!r}")
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Result of an episode that is judged.

    Attributes:
        answer: Text of the agent's last action; None if it ended without one.
        page: Active page, as the agent left it.
        texts: Texts read for the verdict, by address, locator and preparation; shared by all rules.
    """

    answer: str | None
    page: "Page"
    texts: dict[tuple[str, str, tuple[str, ...]], str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Settings for judging episodes.

    Attributes:
        judge: Model that judges free text; None gives no verdict for tasks that need it.
        shop: Client for functions that use the shop.
        fixes: Applied fixes, of `scoring.FIXES`.
        wait_s: Wait for an opened page to settle.
    """

    judge: Judge | None = None
    shop: MagentoClient | None = None
    fixes: Set[str] = ALL_FIXES
    wait_s: float = 3.0

    async def score(self, config: TaskConfig, evidence: Evidence) -> float:
        """Return 1 or 0: run `eval_types` in order, up to the first failure.

        Raises:
            EnvSetupError: If the task needs a judge or the shop, and there is none.
            EnvDiedError: If a page, the shop or the judge does not answer.
        """
        for kind in config.eval_types:
            if kind == "string_match":
                is_right = await self.is_answered(config, evidence.answer)
            elif kind == "url_match":
                is_right = is_reached(config.reference_urls, evidence.page.url)
            else:
                is_right = True
                for check in config.page_checks:
                    is_right = is_right and is_met(check, await self._read(check, evidence), fixes=self.fixes)
            if not is_right:
                return 0.0
        return 1.0

    async def is_answered(self, config: TaskConfig, answer: str | None) -> bool:
        """Return True if an answer is right."""
        if answer is None or (not answer.strip() and "no answer" in self.fixes):
            return False
        answer, answers = clean(answer), config.answers
        parity = "verdict" not in self.fixes
        if answers.exact is not None and not is_exactly(answers.exact, answer):
            return False
        if not includes_all(answers.includes, answer, fixes=self.fixes):
            return False
        if answers.is_not_achievable and not is_exactly(NOT_ACHIEVABLE, answer):
            return await is_reason(self._judge(config), config.intent, answers.why, answer, parity=parity)
        for reference in answers.alike:
            if not await is_alike(self._judge(config), config.intent, reference, answer, parity=parity):
                return False
        return True

    async def _read(self, check: PageCheck, evidence: Evidence) -> str | None:
        key = (check.url, check.locator, check.prepare)
        if key not in evidence.texts:
            evidence.texts[key] = await read_text(check, evidence.page, self.shop, wait_s=self.wait_s)
        return evidence.texts[key]

    def _judge(self, config: TaskConfig) -> Judge:
        if self.judge is None:
            raise EnvSetupError(f"task {config.id} is judged by a model, and none is named; name one by judge=MODEL")
        return self.judge
