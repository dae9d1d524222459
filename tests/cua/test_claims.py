"""Statements of an answer and what they cite."""

from cua.answer import Citation, Claim, find_claims
from cua.messages import ImagePart, Reply, TextPart, ToolCall, ToolResult
from cua.step import CallOutcome, ToolStep

CALL = ToolCall(id="functions.ipython:0", name="ipython", arguments="{}")


def step(*results: ToolResult) -> ToolStep:
    outcomes = tuple(CallOutcome(number=i, call=CALL, result=result) for i, result in enumerate(results))
    return ToolStep(index=1, reply=Reply(content=""), outcomes=outcomes)


OK = ToolResult(parts=(TextPart(text="24"), ImagePart(data=b"png")))
BAD = ToolResult(parts=(TextPart(text="Traceback"),), is_error=True)


def test_each_statement_has_its_own_marks() -> None:
    answer = "There are 24 coins [^0^]. The largest is 60 px wide.[^0^] [^0.1^]\nA guess without a mark."
    assert find_claims(answer, [step(OK)]) == (
        Claim(text="There are 24 coins.", citations=(Citation(mark="[^0^]", number=0, exists=True),)),
        Claim(
            text="The largest is 60 px wide.",
            citations=(
                Citation(mark="[^0^]", number=0, exists=True),
                Citation(mark="[^0.1^]", number=0, image=1, exists=True),
            ),
        ),
    )


def test_marks_of_what_is_not_there_support_nothing() -> None:
    claims = find_claims("A [^7^]\nB [^0.2^]\nC [^1^]", [step(OK, BAD)])
    assert [claim.is_supported for claim in claims] == [False, False, False]


def test_an_answer_without_marks_is_one_unsupported_claim() -> None:
    claims = find_claims("It is seven.\nSurely.", [step(OK)])
    assert claims == (Claim(text="It is seven. Surely.", citations=()),)
    assert not claims[0].is_supported


def test_marks_behind_a_block_belong_to_it() -> None:
    claims = find_claims('Here:\n```json\n{"count": 24}\n```\n[^0^]', [step(OK)])
    assert [claim.text for claim in claims] == ['```json {"count": 24} ```']


def test_decimals_and_abbreviations_do_not_cut_a_number() -> None:
    claims = find_claims("The path has 3,288 points, 45.9 % are red [^0^].", [step(OK)])
    assert claims[0].text.startswith("The path has 3,288 points, 45.9 % are red")


def test_an_empty_answer_claims_nothing() -> None:
    assert find_claims("  \n", []) == ()
