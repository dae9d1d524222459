"""A kernel with a bubblewrap of its own: Python has just started in it, nothing is imported yet."""

import json
import os
import sys

from visual_tools.sandbox.zygote import confine
from visual_tools.sandbox.zygote.app import prepare_app, run_app
from visual_tools.sandbox.zygote.birth import split
from visual_tools.sandbox.zygote.plan import spec_from_json
from visual_tools.sandbox.zygote.preload import import_all


def main() -> None:
    """Become the kernel; the descriptors of specification, report and sockets are the first argument."""
    told, report, *sockets = map(int, sys.argv[1].split(","))
    try:
        with os.fdopen(told, encoding="utf-8") as file:
            spec = spec_from_json(file.read())
        import_all()
        app = prepare_app()
        confine.limit(spec.limits, num_others=confine.count_threads_of_user())
        confine.filter_calls()
    except BaseException as error:
        os.write(report, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        raise
    split(None, spec, sockets, report, lambda ports, spec, report: run_app(app, ports, spec, report))
