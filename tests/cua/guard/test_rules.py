from pathlib import Path

import pytest

from cua.errors import ConfigError
from cua.guard import load_rules
from cua.guard.facts import Facts
from envs import Action, Click, Hotkey, TypeText
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


def facts(action: Action, verb: str, target: str | None = None, url: str = "https://example.com/") -> Facts:
    return Facts(action=action, verb=verb, target=target_of(target), claim="", url=url)


CLICK = Click(x_px=1, y_px=1)


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


@pytest.mark.parametrize(
    "content",
    [
        "nonsense",
        'defualt = "deny"',
        'default = "never"',
        '[[rule]]\ndecision = "deny"\ntarget = "("',
        '[[rule]]\ndecision = "deny"\nactions = ["clikc"]',
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
