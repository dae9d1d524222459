"""Probes for any endpoint that serves K2.5."""

from apps.endpoint_check.outcome import EndpointReport, Outcome, show_report
from apps.endpoint_check.run import SelfTestOptions, run_self_test

__all__ = ["EndpointReport", "Outcome", "SelfTestOptions", "run_self_test", "show_report"]
