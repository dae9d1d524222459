"""Probes for any endpoint that serves K2.5."""

from model_runtime.self_test.outcome import Outcome, Report, show_report
from model_runtime.self_test.run import SelfTestOptions, run_self_test

__all__ = ["Outcome", "Report", "SelfTestOptions", "run_self_test", "show_report"]
