"""What the agent may do: rules from a file, risk by what an action lands on, approval by a person."""

from cua.guard.guard import Approver, Guard, Mode, Verdict
from cua.guard.risk import Risk
from cua.guard.rules import Rule, Rules, load_rules

__all__ = ["Approver", "Guard", "Mode", "Risk", "Rule", "Rules", "Verdict", "load_rules"]
