"""Guard of the agent's actions: rules from a file, risk of the activated target, approval by a person."""

from cua.guard.guard import Approver, Guard, GuardVerdict, Mode, StepCheck
from cua.guard.requests import RequestGuard
from cua.guard.risk import Risk
from cua.guard.rules import GuardRule, Rules, load_rules
from cua.guard.words import RiskKind

__all__ = [
    "Approver",
    "Guard",
    "GuardRule",
    "GuardVerdict",
    "Mode",
    "RequestGuard",
    "Risk",
    "RiskKind",
    "Rules",
    "StepCheck",
    "load_rules",
]
