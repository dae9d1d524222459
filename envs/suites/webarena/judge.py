"""What WebArena asks a judge: whether an answer says what a reference says, whether a reason is the actual one.

The questions are WebArena's, word for word (web-arena-x/webarena, `evaluation_harness/helper_functions.py`; published
with them: temperature 0, 768 tokens, the model gpt-4-1106-preview, which is retired). With `parity=True` they are asked
as they are and the verdict is looked for anywhere in the reply; else by the rules of `envs.judge`.
"""

from envs.errors import EnvDiedError
from envs.judge import Judge, ask_verdict, fenced, filled

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
    """Whether an answer says what a reference says; partly is not enough.

    Raises:
        EnvDiedError: The judge does not answer, or in a way that is no verdict.
    """
    return await _ask(judge, _FUZZY, "student answer", _FUZZY_WORDS, question, reference, answer, parity)


async def is_reason(judge: Judge, task: str, reason: str, answer: str, *, parity: bool = False) -> bool:
    """Whether an answer tells why a task cannot be done.

    Raises:
        EnvDiedError: The judge does not answer, or in a way that is no verdict.
    """
    what = "reported unachievable reason"
    return await _ask(judge, _UNACHIEVABLE, what, _UNACHIEVABLE_WORDS, task, reason, answer, parity)


async def _ask(
    judge: Judge,
    form: str,
    what: str,
    words: dict[str, bool],
    question: str,
    reference: str,
    answer: str,
    parity: bool,
) -> bool:
    shown, mark = (answer, "") if parity else fenced(answer)
    asked = filled(form, question=question, reference=reference, answer=shown)
    if parity:
        return _read_as_published(await judge.ask(_SYSTEM, asked), words)
    return await ask_verdict(judge, asked, system=_SYSTEM, what=what, mark=mark, words=words)


def _read_as_published(reply: str, words: dict[str, bool]) -> bool:
    """By the words anywhere in the reply, those that say no first."""
    reply = reply.lower()
    if any(word in reply for word, is_right in words.items() if not is_right):
        return False
    if not any(word in reply for word, is_right in words.items() if is_right):
        raise EnvDiedError(f"the judge gave no verdict: {reply[:120]!r}")
    return True
