"""Checks that verify the isolation of the sandbox on this machine; `cua doctor --sandbox` runs them."""

from visual_tools.sandbox.check.checks import CHECKS, check_sandbox
from visual_tools.sandbox.check.context import Check, CheckOutcome

__all__ = ["CHECKS", "Check", "CheckOutcome", "check_sandbox"]
