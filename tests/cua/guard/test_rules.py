from pathlib import Path

import pytest

from cua.errors import ConfigError
from cua.guard import load_rules
from cua.guard.risk import Facts
from cua.guard.rules import Rules
from envs import UNKNOWN_TARGET, Action, Click, Hotkey, KeyDown, KeyUp, PressKey, Target, TypeText
from tests.cua.guard.targets import target_of

POLICY = """
default = "ask"

[[rule]]
decision = "deny"
actions = ["click"]
target = "(?i)delete account"
reason = "accounts are deleted by people"

[[rule]]
decision = "deny"
text = "(?i)drop table|ctrl\\\\+w"

[[rule]]
decision = "allow"
domains = ["intranet.example.com"]
"""


CLICK = Click(x_px=1, y_px=1)


def facts(action: Action, verb: str, target: str | None = None, url: str = "https://example.com/") -> Facts:
    return Facts(action=action, verb=verb, target=target_of(target), claim="", url=url)


def click_on(target: Target | None, url: str | None = "https://example.com/") -> Facts:
    return Facts(action=CLICK, verb="click", target=target, claim="", url=url)


def rules_of(tmp_path: Path, text: str) -> Rules:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return load_rules(path)


def rule(decision: str, conditions: str) -> str:
    return f"[[rule]]\ndecision = {decision!r}\n{conditions}\n"


@pytest.mark.parametrize(
    ("fact", "decision"),
    [
        (facts(CLICK, "click", 'button "Delete Account"'), "deny"),
        (facts(CLICK, "click", 'button "Save"'), "ask"),
        (facts(CLICK, "click", 'button "Save"', "https://wiki.intranet.example.com/x"), "allow"),
        (facts(CLICK, "click", 'window "Account"', "https://intranet.example.com/"), "ask"),  # only the window is known
        (facts(CLICK, "click", None), "ask"),  # a deny rule that may apply
        (facts(CLICK, "click", None, "https://intranet.example.com/"), "ask"),
        (facts(TypeText(text="Drop Table x"), "typetext"), "deny"),
        (facts(Hotkey(keys=("ctrl", "w")), "hotkey"), "deny"),
        (facts(TypeText(text="hello"), "typetext", url="https://intranet.example.com/"), "allow"),
        (facts(TypeText(text="hello"), "typetext", url="https://notintranet.example.com.evil.org/"), "ask"),
    ],
)
def test_the_first_rule_that_applies_decides(tmp_path: Path, fact: Facts, decision: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    assert load_rules(path).decide(fact)[0] == decision


def test_the_reason_of_the_rule_is_given(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    assert load_rules(path).decide(facts(CLICK, "click", 'button "delete account"')) == (
        "deny",
        "accounts are deleted by people",
    )


def test_without_a_rule_that_applies_the_default_decides(tmp_path: Path) -> None:
    save, drop = facts(CLICK, "click", 'button "Save"'), facts(TypeText(text="drop table"), "typetext")
    assert rules_of(tmp_path, POLICY).decide(save) == ("ask", "the policy file's default")
    assert rules_of(tmp_path, POLICY).decide(drop) == ("deny", "a rule of the policy file")
    assert rules_of(tmp_path, "").decide(save) == (None, "the policy file's default")


@pytest.mark.parametrize(
    ("target", "deny", "ask", "allow"),
    [
        (Target(role="button", names=("Delete",)), "deny", "ask", "allow"),
        (Target(role="button", names=("Next", "Delete")), "deny", "ask", None),
        (Target(role="button", names=("Next",)), None, None, None),
        (Target(role="button", names=("OK",), context=("Delete it?",)), "deny", "ask", None),
        (Target(role="button", names=("\u0414elete", "D\u0435lete")), "deny", "ask", None),
        (Target(role="button"), "ask", None, None),  # an element without a name: a deny rule may well apply
        (Target(role="input[type=text]", is_field=True), None, None, None),
        (Target(role="window", names=("Files",), is_element=False), "ask", None, None),
        (Target(role="window", names=("Delete",), is_element=False), "deny", "ask", "allow"),
        (UNKNOWN_TARGET, "ask", None, None),
        (None, None, None, None),  # an action that activates nothing
    ],
)
def test_one_name_is_enough_to_stop_an_action_and_all_are_needed_to_allow_it(
    tmp_path: Path, target: Target | None, deny: str | None, ask: str | None, allow: str | None
) -> None:
    decided = [
        rules_of(tmp_path, rule(decision, "target = 'Delete'")).decide(click_on(target))[0]
        for decision in ("deny", "ask", "allow")
    ]
    assert decided == [deny, ask, allow]


@pytest.mark.parametrize(
    ("fact", "applies"),
    [
        (click_on(Target(role="button", names=("Delete",)), "https://a.example.com/"), True),
        (click_on(Target(role="button", names=("Save",)), "https://a.example.com/"), False),
        (click_on(Target(role="button", names=("Delete",)), "https://example.com/"), False),
        (click_on(Target(role="button", names=("Delete",)), None), False),
        (facts(PressKey(key="enter"), "presskey", 'button "Delete"', "https://a.example.com/"), False),
    ],
)
def test_all_conditions_of_a_rule_must_hold(tmp_path: Path, fact: Facts, applies: bool) -> None:
    conditions = "actions = ['click', 'drag']\ndomains = ['b.example.com', 'a.example.com']\ntarget = 'Delete'"
    assert rules_of(tmp_path, rule("deny", conditions)).decide(fact)[0] == ("deny" if applies else None)


@pytest.mark.parametrize(
    ("action", "verb", "typed"),
    [
        (TypeText(text="a b"), "typetext", "a b"),
        (Hotkey(keys=("ctrl", "shift", "w")), "hotkey", "ctrl[+]shift[+]w"),
        (PressKey(key="f5"), "presskey", "f5"),
        (KeyDown(key="alt"), "keydown", "alt"),
        (KeyUp(key="alt"), "keyup", ""),  # it was judged when it went down
        (CLICK, "click", ""),
    ],
)
def test_the_text_of_a_rule_is_looked_for_in_what_is_typed(
    tmp_path: Path, action: Action, verb: str, typed: str
) -> None:
    assert rules_of(tmp_path, rule("deny", f"text = '^{typed}$'")).decide(facts(action, verb))[0] == "deny"
    assert rules_of(tmp_path, rule("deny", "text = 'zzz'")).decide(facts(action, verb))[0] is None


@pytest.mark.parametrize(
    ("conditions", "on_shell", "on_read", "on_click"),
    [
        ("", "deny", "deny", "deny"),
        ("tools = ['shell', 'run']", "deny", None, None),
        ("tools = ['shell']\ntext = 'rm -rf'", "deny", None, None),
        ("tools = ['shell']\ntext = 'ls'", None, None, None),
        ("text = 'rm -rf'", "deny", None, None),
        ("text = 'notes'", None, "deny", None),
        ("actions = ['click']", None, None, "deny"),
        ("target = 'Delete'", None, None, "deny"),
        ("domains = ['example.com']", None, None, "deny"),
        ("tools = ['shell']\nactions = ['click']", None, None, None),
    ],
)
def test_rules_about_tools_and_rules_about_screens(
    tmp_path: Path, conditions: str, on_shell: str | None, on_read: str | None, on_click: str | None
) -> None:
    rules = rules_of(tmp_path, rule("deny", conditions))
    assert rules.decide_call("shell", '{"command": "rm -rf /"}')[0] == on_shell
    assert rules.decide_call("read", '{"path": "notes"}')[0] == on_read
    assert rules.decide(facts(CLICK, "click", 'button "Delete"'))[0] == on_click


@pytest.mark.parametrize(
    ("action", "target", "claim", "deny", "allow"),
    [
        (CLICK, Target(role="button", names=("Next",), handlers=("onclick Delete()",)), "", "deny", None),
        (CLICK, Target(role="button", names=("Delete",), handlers=("onclick next()",)), "", "deny", "allow"),
        (PressKey(key="f8"), Target(role="row", names=("report.txt",)), "Delete the file", "deny", None),
        (PressKey(key="f8"), UNKNOWN_TARGET, "Delete the file", "deny", None),
        (CLICK, Target(role="link", names=("Help",)), "Click Help to read about Delete", None, None),
    ],
)
def test_handlers_count_and_for_keys_the_models_words(
    tmp_path: Path, action: Action, target: Target, claim: str, deny: str | None, allow: str | None
) -> None:
    fact = Facts(action=action, verb="x", target=target, claim=claim, url=None)
    decided = [
        rules_of(tmp_path, rule(decision, "target = 'Delete'")).decide(fact)[0] for decision in ("deny", "allow")
    ]
    assert decided == [deny, allow]


def test_the_first_rule_about_a_tool_decides(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, rule("ask", "tools = ['read']") + rule("allow", "") + rule("deny", "tools = ['shell']"))
    assert rules.decide_call("read", "{}") == ("ask", "a rule of the policy file")
    assert rules.decide_call("shell", "{}")[0] == "allow"


@pytest.mark.parametrize(
    "content",
    [
        "nonsense",
        'defualt = "deny"',
        'default = "never"',
        '[[rule]]\ndecision = "deny"\ntarget = "("',
        '[[rule]]\ndecision = "deny"\nactions = ["clikc"]',
        '[[rule]]\ndecision = "deny"\ntarget = 5',
        '[[rule]]\ndecision = "deny"\ntaget = "x"',
        '[[rule]]\ntarget = "x"',
    ],
)
def test_a_wrong_policy_file_fails_closed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match="nothing runs"):
        load_rules(path)


def test_a_missing_policy_file_fails_closed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing runs"):
        load_rules(tmp_path / "policy.toml")
