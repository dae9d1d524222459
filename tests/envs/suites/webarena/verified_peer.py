"""Runs webarena-verified's own evaluators, unmodified, on canned runs; started by tests in a Python that has it.

    WEBARENA_VERIFIED_PYTHON verified_peer.py < runs.jsonl > verdicts.jsonl

That Python (3.11 or newer) has webarena-verified==1.2.3, by `pip install`. The first line names the sites,
{"urls": {"shopping": "http://..."}}; then one line each, {"task_id": ..., "answer": ..., "entries": [entries of a HAR
file]}; back comes {"outcome": ..., "parts": [...]}.
"""

import json
import logging
import sys


def main() -> None:
    from webarena_verified.api.internal.data_reader import WebArenaVerifiedDataReader
    from webarena_verified.api.internal.evaluator import WebArenaVerifiedEvaluator
    from webarena_verified.types.config import EnvironmentConfig, WebArenaVerifiedConfig
    from webarena_verified.types.task import WebArenaSite

    logging.disable(logging.CRITICAL)
    first = json.loads(sys.stdin.readline())
    environments = {WebArenaSite(name): EnvironmentConfig(urls=[url]) for name, url in first["urls"].items()}
    config = WebArenaVerifiedConfig(environments=environments)
    judge = WebArenaVerifiedEvaluator(config=config, reader=WebArenaVerifiedDataReader(config))
    for line in sys.stdin:
        episode = json.loads(line)
        result = judge.evaluate_task(
            task_id=episode["task_id"], agent_response=episode["answer"], network_trace=episode["entries"]
        )
        told = {"outcome": str(result.status), "parts": [str(one.status) for one in result.evaluators_results]}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
