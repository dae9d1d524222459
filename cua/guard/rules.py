"""Action rules from a TOML file. A missing or invalid file stops the run before it starts: it fails closed.

default = "allow"                  # for actions without a matching rule

[[rule]]
decision = "deny"                  # deny | ask | allow; the first rule that matches decides
actions = ["click"]                # verbs; leave out for all; "request" is a request that a page is about to send
tools = ["shell"]                  # or tools: then the rule is about tool calls, and `text` is searched in arguments
target = "(?i)delete account"      # regular expression, searched in the activated target, or in "POST https://..."
text = "(?i)drop table"            # regular expression, searched in typed text and keys ("ctrl+w")
domains = ["admin.example.com"]    # only on these pages
reason = "accounts are deleted by people"
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cua.errors import ConfigError
from cua.guard.risk import Facts
from cua.guard.words import forms, texts_of
from envs import EnvSetupError, Hotkey, KeyDown, PressKey, Target, TypeText
from envs.domain_rules import DomainRules

PolicyDecision = Literal["allow", "ask", "deny"]
VERBS = (
    *("click", "move", "drag", "scroll", "typetext", "presskey", "hotkey"),
    *("keydown", "keyup", "mousedown", "mouseup", "wait", "terminate", "request"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRule:
    """Rule of the policy; all given conditions must match."""

    decision: PolicyDecision
    actions: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    target: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    domains: tuple[str, ...] = ()
    reason: str = ""

    def decide_call(self, name: str, arguments: str) -> PolicyDecision | None:
        """Return this rule's decision about a tool call, or None if it does not apply.

        A rule with neither `tools` nor a condition on screens applies to both; the arguments are the call's JSON.
        """
        is_about_screens = self.actions or self.target or self.domains
        if is_about_screens or (self.tools and name not in self.tools):
            return None
        return None if self.text and not self.text.search(arguments) else self.decision

    def decide(self, facts: Facts) -> PolicyDecision | None:
        """Return this rule's decision, or None if it does not apply.

        A target may have several names, for example a misleading label: `deny` and `ask` apply if one of the names or a
        handler matches; for keys and undescribed targets also the model's own text. `allow` applies if all names match.
        A `deny` rule about an undescribed target becomes `ask`, because it might apply.
        """
        if self.tools or (self.actions and facts.verb not in self.actions):
            return None
        if self.domains and not self._is_about(facts.url or ""):
            return None
        if self.text and not self.text.search(_typed(facts)):
            return None
        if self.target is None:
            return self.decision
        return self._decide_target(self.target, facts, facts.target) if facts.target else None

    def _is_about(self, url: str) -> bool:
        """Return True if a page is on the rule's domains: in any spelling of its URL, for `allow` only as written."""
        if not url.startswith(("http:", "https:")):
            return False
        if self.decision == "allow":
            return DomainRules(allowed=self.domains).why_blocked(url) is None
        return DomainRules(denied=self.domains).why_blocked(url) is not None

    def _decide_target(self, pattern: re.Pattern[str], facts: Facts, target: Target) -> PolicyDecision | None:
        is_described = target.is_element and bool(target.names)
        texts = texts_of(target)
        if self.decision != "allow":
            texts += target.handlers if is_described and not facts.is_key else (*target.handlers, facts.claim)
        matches = [any(map(pattern.search, forms(text))) for text in texts]
        if (all(matches) and matches) or (any(matches) and self.decision != "allow"):
            return self.decision
        return "ask" if self.decision == "deny" and not is_described and not target.is_field else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules in order, and the default decision if none applies (None: the mode decides)."""

    rules: tuple[GuardRule, ...] = ()
    default: PolicyDecision | None = None

    def decide(self, facts: Facts) -> tuple[PolicyDecision | None, str]:
        """Return the first decision that applies to an action, with its reason."""
        return self._first(lambda rule: rule.decide(facts))

    def decide_request(self, facts: Facts) -> tuple[PolicyDecision | None, str]:
        """Return the first decision that applies to a request of a page, with its reason; without the default."""
        return replace(self, default=None).decide(facts)

    def decide_call(self, name: str, arguments: str) -> tuple[PolicyDecision | None, str]:
        """Return the first decision that applies to a tool call, with its reason."""
        return self._first(lambda rule: rule.decide_call(name, arguments))

    def _first(self, decide: Callable[[GuardRule], PolicyDecision | None]) -> tuple[PolicyDecision | None, str]:
        for rule in self.rules:
            decision = decide(rule)
            if decision is not None:
                return decision, rule.reason or "a rule of the policy file"
        return self.default, "the policy file's default"


def load_rules(path: Path) -> Rules:
    """Load a policy file.

    Raises:
        ConfigError: If the file is missing or not TOML, or has an unknown key, verb or decision, or an invalid regular
            expression.
    """
    from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

    pattern = Annotated[re.Pattern[str] | None, BeforeValidator(_compile)]

    class RuleEntry(BaseModel):
        model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        decision: PolicyDecision
        actions: tuple[Literal[VERBS], ...] = ()  # type: ignore[valid-type]
        tools: tuple[str, ...] = ()
        target: pattern = None
        text: pattern = None
        domains: Annotated[tuple[str, ...], AfterValidator(_check_domains)] = ()
        reason: str = ""

    class PolicyFile(BaseModel):
        model_config = ConfigDict(extra="forbid")
        default: PolicyDecision | None = None
        rule: tuple[RuleEntry, ...] = ()

    try:
        policy = PolicyFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"cannot read the policy file {path}: {error.strerror}; nothing runs without it") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the policy file {path} is not TOML: {error}; nothing runs until it is fixed") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"the policy file {path} is wrong: {problems}; nothing runs until it is fixed") from error
    rules = tuple(
        GuardRule(**{name: getattr(entry, name) for name in type(entry).model_fields}) for entry in policy.rule
    )
    return Rules(rules=rules, default=policy.default)


def _compile(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error


def _check_domains(domains: tuple[str, ...]) -> tuple[str, ...]:
    try:
        DomainRules(denied=domains)
    except EnvSetupError as error:
        raise ValueError(str(error)) from error
    return domains


def _typed(facts: Facts) -> str:
    action = facts.action
    if isinstance(action, TypeText):
        return action.text
    if isinstance(action, Hotkey):
        return "+".join(action.keys)
    return action.key if isinstance(action, PressKey | KeyDown) else ""
