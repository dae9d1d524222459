"""Guard of the agent's actions: rules from a file, risk of the activated target, approval by a person."""

from cua.guard.guard import Approver, Guard, Mode, StepCheck, Verdict
from cua.guard.requests import RequestGuard
from cua.guard.risk import Risk
from cua.guard.rules import Rule, Rules, load_rules
from cua.guard.words import RiskKind

__all__ = [
    "Approver",
    "Guard",
    "Mode",
    "RequestGuard",
    "Risk",
    "RiskKind",
    "Rule",
    "Rules",
    "StepCheck",
    "Verdict",
    "load_rules",
]
