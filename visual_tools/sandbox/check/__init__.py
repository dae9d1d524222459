"""Checks that any sandbox must pass, shipped so that everybody can run them on their own machine."""

from visual_tools.sandbox.check.context import Check, CheckOutcome
from visual_tools.sandbox.check.run import CHECKS, check_sandbox

__all__ = ["CHECKS", "Check", "CheckOutcome", "check_sandbox"]
