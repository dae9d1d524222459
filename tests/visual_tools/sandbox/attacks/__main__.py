"""Run every check against the best backend and print those that fail as JSON."""

import asyncio
import json

from tests.visual_tools.sandbox.attacks import ALL_CHECKS
from visual_tools.sandbox import Sandbox
from visual_tools.sandbox.check.checks import check_sandbox

outcomes = asyncio.run(check_sandbox(Sandbox.start, checks=ALL_CHECKS))
print(json.dumps({"made": len(outcomes), "fell": {it.name: it.detail for it in outcomes if not it.passed}}))
