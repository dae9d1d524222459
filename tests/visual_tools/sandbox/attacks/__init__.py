"""Attacks and requirements beyond the checks of `cua doctor --sandbox`: every sandbox must pass them too."""

from tests.visual_tools.sandbox.attacks import (
    behaviour,
    channel,
    evasion,
    files,
    kernel_calls,
    network,
    processes,
    resources,
)
from visual_tools.sandbox.check.checks import CHECKS
from visual_tools.sandbox.check.context import SandboxCheck

ALL_CHECKS: tuple[SandboxCheck, ...] = (
    *behaviour.CHECKS,
    *files.CHECKS,
    *network.CHECKS,
    *processes.CHECKS,
    *kernel_calls.CHECKS,
    *channel.CHECKS,
    *evasion.CHECKS,
    *resources.CHECKS,
    *CHECKS,  # last: where nothing isolates, one of them replaces the file that an inherited descriptor shows
)
