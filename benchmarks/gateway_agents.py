"""Agents of other projects through the gateway, unchanged, in environments of their own.

    python -m venv /path/to/agents && /path/to/agents/bin/pip install mini-swe-agent browser-use
    python -m benchmarks.gateway_agents --python /path/to/agents/bin/python [--agent browser-use]

Serves a tiny random K2.5 and a gateway in front of it, and lets an agent work: mini-swe-agent in an empty folder,
browser-use, with screenshots, at a local page in headless Chromium. The model speaks nonsense, so the agent gets errors
of format and goes on until its limit.

Prints how each prompt relates to the turns before, and how many recorded turns have the ids of the engine's own answer,
and are read by it again, with their images, as one prompt of these ids.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import threading
from collections import Counter
from operator import eq
from pathlib import Path

import httpx
import uvicorn

from cua.json_text import Json, JsonMapping
from cua.models.endpoint import Endpoint
from cua.rollouts.gateway import CompletionEngine, Gateway, GatewaySession
from cua.rollouts.gateway_app import HttpEngine, make_gateway_app
from cua.rollouts.turns import RecordedTurn
from envs.browser.launch import find_browser
from examples.runtime_demo import serve
from model_runtime.checkpoint.tiny import write_tiny
from tests.free_port import find_free_port

NUM_STEPS = 8
MINI_SWE_AGENT = """
import sys
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

address, work, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
settings = {"api_base": address, "api_key": "any", "temperature": 1.0, "max_tokens": 64}
model = LitellmModel(model_name="openai/tiny", model_kwargs=settings, cost_tracking="ignore_errors")
agent = DefaultAgent(
    model,
    LocalEnvironment(cwd=work),
    system_template="You work in a shell.",
    instance_template="Task: {{task}}",
    step_limit=steps,
    max_consecutive_format_errors=0,
)
agent.run("List the files.")
"""
BROWSER_USE = """
import asyncio, functools, http.server, pathlib, sys, threading
from browser_use import Agent, BrowserProfile, ChatOpenAI

address, work, steps, chromium = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
site = pathlib.Path(work) / "site"
site.mkdir()
(site / "index.html").write_text("<h1>Garden</h1><button>Water the roses</button><input placeholder='Plant'>")
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
page = f"http://127.0.0.1:{server.server_port}/"
model = ChatOpenAI(
    model="tiny",
    base_url=address,
    api_key="any",
    temperature=1.0,
    frequency_penalty=None,
    dont_force_structured_output=True,
    max_completion_tokens=64,
)
profile = BrowserProfile(
    executable_path=chromium,
    headless=True,
    chromium_sandbox=False,
    enable_default_extensions=False,
    user_data_dir=f"{work}/profile",
    viewport={"width": 640, "height": 480},
)
agent = Agent(
    task="Water the roses.",
    llm=model,
    browser_profile=profile,
    initial_actions=[{"navigate": {"url": page, "new_tab": False}}],
    max_failures=steps,
    llm_timeout=300,
    step_timeout=400,
    use_judge=False,
)
asyncio.run(agent.run(max_steps=steps))
"""
AGENTS = {"mini-swe-agent": MINI_SWE_AGENT, "browser-use": BROWSER_USE}
QUIET = {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_CLOUD_SYNC": "false", "BROWSER_USE_VERSION_CHECK": "false"}


class RecordingEngine:
    """Engine that keeps its answers."""

    def __init__(self, engine: CompletionEngine) -> None:
        self._engine = engine
        self.answers: list[Json] = []

    async def complete(self, body: JsonMapping) -> Json:
        self.answers.append(await self._engine.complete(body))
        return self.answers[-1]


def ids_of(turn: RecordedTurn) -> list[int]:
    return [*turn.prompt_ids, *turn.output_ids]


def read_again(url: str, session: GatewaySession, turn: RecordedTurn) -> list[int]:
    """Return the ids that the engine reads if it gets those of a turn, with its images."""
    urls = {sha256: found for found, sha256 in session.digests.items()}
    body: Json = {"prompt": ids_of(turn), "max_tokens": 1, "return_token_ids": True}
    if turn.files:
        body["media"] = [{"type": "image_url", "image_url": {"url": urls[sha256]}} for sha256 in turn.files]
    answer = httpx.post(f"{url}/completions", json=body, timeout=600).raise_for_status().json()
    ids: list[int] = answer["choices"][0]["prompt_token_ids"]
    return ids


def run_agent(name: str, python: str, address: str, work: Path) -> "subprocess.CompletedProcess[str]":
    browser = find_browser()
    chromium = browser.path if browser is not None and browser.path is not None else ""
    command = [python, "-c", AGENTS[name], address, str(work), str(NUM_STEPS), chromium]
    environment = {**os.environ, **QUIET, "HOME": str(work), "PYTHONPATH": ""}
    return subprocess.run(command, timeout=1500, capture_output=True, text=True, env=environment)


def measure(name: str, python: str, folder: Path) -> dict[str, object]:
    with serve(folder / "model") as url:
        engine = RecordingEngine(HttpEngine(Endpoint(base_url=url, api_key="none")))
        gateway = Gateway(engine)
        gateway.open_session("agent")
        port = find_free_port()
        server = uvicorn.Server(uvicorn.Config(make_gateway_app(gateway), port=port, log_level="warning"))
        threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True).start()
        ended = run_agent(name, python, f"http://127.0.0.1:{port}/sessions/agent/v1", folder)
        session = gateway.close_session("agent")
        server.should_exit = True
        turns = session.log.turns
        if not turns:
            raise SystemExit(ended.stdout[-3000:] + ended.stderr[-3000:])
        computed = [[*answer["prompt_token_ids"], *answer["choices"][0]["token_ids"]] for answer in engine.answers]
        again = [read_again(url, session, turn) for turn in turns]
    return {
        "exit code": ended.returncode,
        "turns": len(turns),
        "relation to earlier turns": dict(Counter(str(turn.drift) for turn in turns)),
        "ids of a turn, median": int(statistics.median(len(ids_of(turn)) for turn in turns)),
        "images": sum(len(turn.files) for turn in turns),
        "turns with the ids that the engine computed": sum(map(eq, map(ids_of, turns), computed)),
        "turns that it reads again with these ids": sum(map(eq, map(ids_of, turns), again)),
    }


def main() -> None:
    """Run an agent and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="Python with the agent.")
    parser.add_argument("--agent", choices=sorted(AGENTS), default="mini-swe-agent")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder) / "model")
        for name, value in measure(args.agent, args.python, Path(folder)).items():
            print(f"{name:42} {value}")


if __name__ == "__main__":
    main()
