"""The judge of sandboxes: what any backend must stand, shipped so that everybody can run it on their own machine."""

from visual_tools.sandbox.check.case import Check, CheckOutcome
from visual_tools.sandbox.check.run import CHECKS, check_sandbox

__all__ = ["CHECKS", "Check", "CheckOutcome", "check_sandbox"]
