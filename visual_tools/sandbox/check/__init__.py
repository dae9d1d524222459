"""Checks that tell whether the sandbox on this machine holds; `cua doctor --sandbox` runs them."""

from visual_tools.sandbox.check.checks import CHECKS
from visual_tools.sandbox.check.context import Check, CheckOutcome
from visual_tools.sandbox.check.run import check_sandbox

__all__ = ["CHECKS", "Check", "CheckOutcome", "check_sandbox"]
