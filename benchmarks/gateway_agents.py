"""Agents of other projects through the gateway, unchanged, in environments of their own.

    python -m venv /path/to/agents && /path/to/agents/bin/pip install mini-swe-agent
    python -m benchmarks.gateway_agents --python /path/to/agents/bin/python

Serves a tiny random K2.5 and a gateway in front of it, and lets mini-swe-agent work at a task in an empty folder: its
model speaks nonsense, so it gets errors of format and goes on until its limit. Prints how each prompt relates to the
turns before, and whether the ids of the recorded turns are those that the engine computes for the same sequence.
"""

import argparse
import asyncio
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path

import httpx
import uvicorn

from cua.models.endpoint import Endpoint
from cua.rollouts.gateway import Gateway
from cua.rollouts.gateway_app import HttpEngine, make_gateway_app
from examples.runtime_demo import serve
from model_runtime.checkpoint.tiny import write_tiny
from tests.free_port import find_free_port

MINI_SWE_AGENT = """
import sys
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

settings = {"api_base": sys.argv[1], "api_key": "any", "temperature": 1.0, "max_tokens": 64}
model = LitellmModel(model_name="openai/tiny", model_kwargs=settings, cost_tracking="ignore_errors")
agent = DefaultAgent(
    model,
    LocalEnvironment(cwd=sys.argv[2]),
    system_template="You work in a shell.",
    instance_template="Task: {{task}}",
    step_limit=8,
    max_consecutive_format_errors=0,
)
agent.run("List the files.")
"""


def main() -> None:
    """Run the agent and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="Python with mini-swe-agent.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder) / "model")
        with serve(Path(folder) / "model") as url:
            gateway = Gateway(HttpEngine(Endpoint(base_url=url, api_key="none")))
            gateway.open_session("swe")
            port = find_free_port()
            server = uvicorn.Server(uvicorn.Config(make_gateway_app(gateway), port=port, log_level="warning"))
            threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True).start()
            address = f"http://127.0.0.1:{port}/sessions/swe/v1"
            work = Path(folder) / "work"
            work.mkdir()
            ended = subprocess.run(
                [args.python, "-c", MINI_SWE_AGENT, address, str(work)], timeout=500, capture_output=True, text=True
            )
            log = gateway.close_session("swe").log
            server.should_exit = True
            print(f"mini-swe-agent ended with {ended.returncode}; {len(log.turns)} turns")
            if not log.turns:
                raise SystemExit(ended.stderr[-2000:])
            print("relation to earlier turns:", dict(Counter(str(turn.drift) for turn in log.turns)))
            same = 0
            for turn in log.turns:
                body = {"prompt": [*turn.prompt_ids, *turn.output_ids], "max_tokens": 1, "return_token_ids": True}
                answer = httpx.post(f"{url}/completions", json=body, timeout=60).json()
                same += answer["choices"][0].get("prompt_token_ids", answer.get("prompt_token_ids")) == body["prompt"]
            print(f"{same} of {len(log.turns)} sequences are read by the engine as recorded")


if __name__ == "__main__":
    main()
