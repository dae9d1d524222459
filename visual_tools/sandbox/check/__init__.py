"""Checks that verify the isolation of the sandbox on this machine; `cua doctor --sandbox` runs them."""

from visual_tools.sandbox.check.checks import CHECKS, check_sandbox
from visual_tools.sandbox.check.context import CheckOutcome, SandboxCheck

__all__ = ["CHECKS", "CheckOutcome", "SandboxCheck", "check_sandbox"]
