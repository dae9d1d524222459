import re
from collections.abc import Sequence

import pytest

from cua.guard import Guard, GuardRule, GuardVerdict, Rules, StepCheck
from cua.secrets import Secret, Secrets
from cua.step import Turn
from envs import (
    Action,
    ActionError,
    Click,
    Dialog,
    Hotkey,
    Move,
    Observation,
    PressKey,
    ScreenGeometry,
    Scroll,
    Target,
    TypeText,
    Wait,
)
from envs.fake import FakeEnv, FakeOptions

GEOMETRY = ScreenGeometry(native_px=(320, 200), sent_px=(320, 200))
ENV = FakeEnv(FakeOptions(points={(0, 0, 50, 50): 'button "Delete"', (50, 0, 100, 50): 'button "OK"'}))
TURN = Turn(thought="", action_text="Do it", code="")
DELETE, SAVE = Click(x_px=10, y_px=10), Click(x_px=200, y_px=100)


def look(dialog: Dialog | None = None) -> Observation:
    return Observation(screenshot=b"", geometry=GEOMETRY, pointer_px=(10, 10), dialog=dialog)


async def decide(guard: Guard, *actions: Action, dialog: Dialog | None = None) -> str:
    return (await guard.check(TURN, actions, look(dialog), ENV)).decision


class Person:
    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def __call__(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        self.asked.append(verdict.reason)
        return self.answer


@pytest.mark.parametrize(
    ("mode", "action", "alone", "with_yes", "with_no"),
    [
        ("auto", SAVE, "allow", "allow", "allow"),
        ("auto", DELETE, "deny", "allow", "deny"),
        ("ask", SAVE, "deny", "allow", "deny"),
        ("ask", Wait(duration_s=1), "allow", "allow", "allow"),
        ("yolo", DELETE, "allow", "allow", "allow"),
    ],
)
async def test_modes(mode: str, action: Action, alone: str, with_yes: str, with_no: str) -> None:
    assert await decide(Guard(mode=mode), action) == alone  # type: ignore[arg-type]
    assert await decide(Guard(mode=mode, approver=Person(True)), action) == with_yes  # type: ignore[arg-type]
    assert await decide(Guard(mode=mode, approver=Person(False)), action) == with_no  # type: ignore[arg-type]


async def test_one_risky_action_holds_back_the_whole_step_and_is_asked_once() -> None:
    person = Person(False)
    assert await decide(Guard(approver=person), SAVE, DELETE, SAVE) == "deny"
    assert person.asked == ['risky (delete): button "Delete"']


async def test_a_click_without_a_point_is_judged_where_the_pointer_goes() -> None:
    assert await decide(Guard(), Click()) == "deny"  # the pointer rests on Delete
    assert await decide(Guard(), Move(x_px=200, y_px=100), Click()) == "allow"
    assert await decide(Guard(), SAVE, Move(x_px=5, y_px=5), Click()) == "deny"


async def test_an_ok_button_means_what_its_dialog_asks() -> None:
    ok = Click(x_px=60, y_px=10)
    assert await decide(Guard(), ok) == "allow"
    assert await decide(Guard(), ok, dialog=Dialog(kind="confirm", message="Delete this entry?")) == "deny"


async def test_deny_rules_hold_in_every_mode() -> None:
    rules = Rules(rules=(GuardRule(decision="deny", target=re.compile("Delete")),))
    for mode in ("ask", "auto", "yolo"):
        assert await decide(Guard(mode=mode, rules=rules, approver=Person(True)), DELETE) == "deny"  # type: ignore[arg-type]


async def test_an_allow_rule_comes_before_the_mode() -> None:
    assert await decide(Guard(rules=Rules(rules=(GuardRule(decision="allow"),))), DELETE) == "allow"


async def test_typing_a_secret_is_asked_about() -> None:
    guard = Guard(secrets=Secrets({"pin": Secret(value="1234")}))
    assert await decide(guard, TypeText(text="{{pin}}")) == "deny"
    assert await decide(guard, TypeText(text="1234")) == "allow"


async def test_enter_is_judged_by_what_has_the_focus() -> None:
    env = FakeEnv(FakeOptions(focus='button "Delete"'))
    for action in (PressKey(key="enter"), PressKey(key="space"), TypeText(text="x\n"), Hotkey(keys=("ctrl", "enter"))):
        assert (await Guard().check(TURN, [action], look(), env)).reason.startswith('risky (delete): button "Delete"')
    assert (await Guard().check(TURN, [TypeText(text="x y")], look(), env)).decision == "allow"


@pytest.mark.parametrize("mode", ["auto", "yolo"])
async def test_a_deny_rule_about_a_target_holds_for_keys(mode: str) -> None:
    env = FakeEnv(FakeOptions(focus='button "Delete"'))
    rules = Rules(rules=(GuardRule(decision="deny", target=re.compile("(?i)delete")),))
    guard = Guard(mode=mode, rules=rules, approver=Person(True))  # type: ignore[arg-type]
    assert (await guard.check(TURN, [PressKey(key="enter")], look(), env)).decision == "deny"


async def test_an_allow_rule_wants_all_names_to_match_and_a_deny_rule_one() -> None:
    class Liar(FakeEnv):
        async def find_targets(self, action: Action) -> tuple[Target, ...]:
            return (Target(role="button", names=("Next", "Dеlete")),)  # with a Cyrillic letter

    for decision, verdict in (("allow", "deny"), ("deny", "deny")):
        pattern = re.compile("Next" if decision == "allow" else "Delete")
        guard = Guard(rules=Rules(rules=(GuardRule(decision=decision, target=pattern),)))  # type: ignore[arg-type]
        assert (await guard.check(TURN, [SAVE], look(), Liar())).decision == verdict


async def test_the_thought_counts_where_the_model_names_no_action() -> None:
    turn = Turn(thought="I delete the file now.", action_text="", code="")
    assert (await Guard().check(turn, [SAVE], look(), ENV)).risk == "delete"
    turn = Turn(thought="Later I delete the file.", action_text="Click Save", code="")
    assert (await Guard().check(turn, [SAVE], look(), ENV)).decision == "allow"


async def test_what_was_refused_before_the_step_is_not_let_pass_in_it() -> None:
    verdict = await Guard(approver=Person(False)).check(TURN, [DELETE], look(), ENV)
    assert (verdict.decision, verdict.passed) == ("deny", frozenset())


async def test_a_label_that_a_person_let_pass_is_not_asked_about_again_and_another_one_is() -> None:
    person = Person(True)
    guard = Guard(approver=person)
    verdict = await guard.check(TURN, [DELETE], look(), ENV)
    check = StepCheck(guard, TURN, [DELETE], look(), verdict)
    await check(0, DELETE, [Target(role="button", names=("Delete",))])
    assert len(person.asked) == 1
    await check(0, DELETE, [Target(role="button", names=("Delete everything",))])
    await check(0, DELETE, [Target(role="button", names=("Delete everything",))])
    assert person.asked == ['risky (delete): button "Delete"', 'risky (delete): button "Delete everything"']


@pytest.mark.parametrize(
    "between", [[], [[Wait(duration_s=1)]], [[], [Move(x_px=1, y_px=1), Scroll(dy=-3)], [Wait(duration_s=1)]]]
)
async def test_a_dialog_confirms_what_was_approved_also_after_waiting(between: list[list[Action]]) -> None:
    person, ok = Person(True), Click(x_px=60, y_px=10)
    guard, asks = Guard(approver=person), Dialog(kind="confirm", message="Delete this entry?")
    await decide(guard, DELETE)
    for actions in between:
        await decide(guard, *actions, dialog=asks)
    assert await decide(guard, ok, dialog=asks) == "allow"
    assert person.asked == ['risky (delete): button "Delete"']
    assert await decide(guard, ok, dialog=asks) == "allow"
    assert len(person.asked) == 2  # another act


async def test_a_second_button_of_the_same_kind_is_another_act() -> None:
    class Bins(FakeEnv):
        async def find_targets(self, action: Action) -> tuple[Target, ...]:
            return (Target(role="button", hints=("trash",), is_image=True),)

    person = Person(True)
    guard = Guard(approver=person)
    for number in range(1, 4):
        assert (await guard.check(TURN, [Click(x_px=10, y_px=40 * number)], look(), Bins())).decision == "allow"
        assert len(person.asked) == number


async def test_a_step_that_is_over_lets_nothing_pass() -> None:
    check = StepCheck(Guard(), TURN, [SAVE], look(), GuardVerdict(decision="allow"))
    check.end()
    with pytest.raises(ActionError, match="over"):
        await check(0, SAVE, [Target(role="button", names=("Save",))])
