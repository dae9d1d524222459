"""Cost of a swarm of 100 besides the model: wall time over the critical path, processor, memory, resume.

    python -m benchmarks.swarm [--children 100] [--calls 15] [--latency 0.05] [--chars 500]
                               [--sandboxes | --turns | --faults [--outage 180] | --nodes 3 [--relay]]

The model is a server on loopback in a process of its own, reached by the client that every run uses. It answers after
a fixed time, so the shortest possible run is known: critical steps times that time. The tool that is called returns a
text of `--chars` characters, each agent has the core tools in addition, and no sandbox is opened; with `--sandboxes`
each child runs a cell for each call, and the memory of all processes is read ten times a second. `--turns` measures
one call of the client with 1 to 100 turns of conversation. `--faults` runs the swarm through an outage of the server, a
key that is refused from then on, and `kill -9`, and resumes it after the last two. `--nodes` runs it once on a Ray
cluster of this machine, with nodes of one processor each, and reports the processor time of this process, the driver;
with `--relay` the driver calls the model for all children.
"""

import argparse
import asyncio
import collections
import contextlib
import functools
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from cua.messages import Message, TextPart, ThinkPart, ToolCall, ToolResult
from cua.model import Tool
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.run.budget import Caps
from cua.run.events import Event, RunEnded, Watch
from cua.swarm import SwarmOptions, SwarmPreset, resume_swarm, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.tool_agent.profile import VISUAL_TOOLS
from cua.trajectory.run_record import MAIN
from tests.ray_cluster import ray_cluster

TURNS = (1, 10, 30, 100)
NUM_MEASURED = 20


class NoteTool(Tool):
    """Returns a text of `num_chars` characters."""

    name = "note"
    description = "Note something."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    def __init__(self, num_chars: int) -> None:
        self.num_chars = num_chars

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return words."""
        return ToolResult(parts=(TextPart(text="noted " * (self.num_chars // 6)),))


def make_note_tool(num_chars: int, place: Any) -> NoteTool:
    """Make the tool of an agent, on the node where it works."""
    return NoteTool(num_chars)


@dataclass(frozen=True, kw_only=True)
class TimedServer:
    """Server whose model plays orchestrator and children by one rule, each reply after `latency_s`."""

    num_children: int
    num_calls: int
    latency_s: float
    has_cells: bool = False
    port: int = 0
    key: str = ""

    @contextlib.contextmanager
    def process(self) -> Iterator[tuple[int, Connection]]:
        """Serve in a process of its own; yield the port, and a connection that gets the question of each reply."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=self.serve, args=(theirs,), daemon=True)
        process.start()
        try:
            yield int(ours.recv()), ours
        finally:
            process.terminate()
            process.join()

    @contextlib.contextmanager
    def running(self) -> Iterator[OpenAICompatModel]:
        """Serve in a process of its own, and yield a client."""
        with self.process() as (port, _):
            yield OpenAICompatModel(OpenAICompatOptions(model="timed", base_url=f"http://127.0.0.1:{port}/v1"))

    def serve(self, connection: Connection) -> None:
        """Serve until the process is ended; the port is sent over `connection`, then the question of each reply."""

        async def work() -> None:
            handle = functools.partial(self._connected, connection)
            server = await asyncio.start_server(handle, "127.0.0.1", self.port, backlog=1000)
            connection.send(server.sockets[0].getsockname()[1])
            await server.serve_forever()

        asyncio.run(work())

    async def _connected(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = int(head.partition(b"content-length:")[2].split(maxsplit=1)[0])
                messages = json.loads(await reader.readexactly(size))["messages"]
                if self.key and f"bearer {self.key}".encode() not in head:
                    writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                    await writer.drain()
                    continue
                await asyncio.sleep(self.latency_s)
                if self.key:
                    connection.send(messages[1]["content"])
                content, calls = self._answer(messages)
                delta = {"content": content, "tool_calls": [{"index": n, **call} for n, call in enumerate(calls)]}
                events = [
                    {"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls" if calls else "stop"}]},
                    {"choices": [], "usage": {"prompt_tokens": size // 4, "completion_tokens": 20}},
                ]
                lines = [f"data: {json.dumps(event)}\n\n" for event in events]
                body = "".join([*lines, "data: [DONE]\n\n"]).encode()
                kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
                writer.write(kind % len(body) + body)
                await writer.drain()

    def _answer(self, messages: list[Any]) -> tuple[str, list[Any]]:
        """Return text and tool calls of the next reply."""
        number = sum(message["role"] == "assistant" for message in messages)
        question = messages[1]["content"]
        if question != "all":
            if number >= self.num_calls:
                return f"done {question}", []
            if self.has_cells:
                return "", [_call("ipython", code=f"print({number})")]
            return "", [_call("note", text=f"{question} {number}")]
        if number == 0:
            return "", [_call("create_subagent", name="worker", system_prompt="You work.")]
        if number == 1:
            return "", [_call("assign_task", agent="worker", prompt=f"item {n}") for n in range(self.num_children)]
        return "all done", []


def _call(name: str, /, **arguments: str) -> dict[str, Any]:
    return {"id": "x", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


async def bench_turns(server: TimedServer, num_chars: int, runs_dir: Path) -> dict[str, Any]:
    """Measure one call of the client as its conversation grows: processor time of this process in ms, median."""
    tool = NoteTool(num_chars)
    result = (await tool.call({})).parts
    messages = [Message(role="system", parts=(TextPart(text="c"),)), Message(role="user", parts=(TextPart(text="go"),))]
    took_ms: dict[int, list[float]] = {}
    with server.running() as model:
        for turn in range(1, max(TURNS) + NUM_MEASURED):
            made = ToolCall(id=f"functions.note:{turn}", name="note", arguments='{"text": "a"}')
            messages.append(Message(role="assistant", parts=(ThinkPart(text="t"),), tool_calls=(made,)))
            messages.append(Message(role="tool", parts=result, tool_call_id=made.id))
            at = max(n for n in TURNS if n <= turn)
            if turn < at + NUM_MEASURED:
                started = time.process_time()
                await model.generate(messages, [tool] * 8)
                took_ms.setdefault(at, []).append(1000 * (time.process_time() - started))
        await model.close()
    return {f"cpu_ms_at_{turn}_turns": round(median(took), 2) for turn, took in took_ms.items()}


def run_part(server: TimedServer, num_chars: int, runs_dir: Path, key: str) -> None:
    """Run the swarm, or resume it, in a process of its own."""
    tools = (lambda place: NoteTool(num_chars),)
    limits = SwarmLimits(run=Caps(max_steps=None, max_calls=10 * server.num_children * server.num_calls))
    settings: dict[str, Any] = {"model": "timed", "base_url": f"http://127.0.0.1:{server.port}/v1", "api_key": key}
    settings["options"] = SwarmOptions(tools=tools, limits=limits)
    run_dir = next(runs_dir.iterdir(), None)
    run = run_swarm("all", runs_dir=runs_dir, **settings) if run_dir is None else resume_swarm(run_dir, **settings)
    print(asyncio.run(run).run.end.reason, file=sys.stderr, flush=True)


async def bench_faults(server: TimedServer, num_chars: int, runs_dir: Path, outage_s: float) -> dict[str, Any]:
    """Run the swarm through an outage, a change of the key and `kill -9`."""
    return await asyncio.to_thread(play_faults, server, num_chars, runs_dir, outage_s)


def play_faults(server: TimedServer, num_chars: int, runs_dir: Path, outage_s: float) -> dict[str, Any]:
    """Run the swarm in processes of its own, and change what they meet."""
    context, replies = multiprocessing.get_context("spawn"), collections.Counter[str]()
    whole = server.num_children * (server.num_calls + 1) + 3

    def start(key: str) -> Any:
        part = context.Process(target=run_part, args=(server, num_chars, runs_dir, key))
        part.start()
        return part

    def wait(questions: Connection, share: float, part: Any) -> None:
        while replies.total() < share * whole and part.is_alive():
            if questions.poll(0.1):
                replies[questions.recv()] += 1

    started = time.monotonic()
    with replace(server, key="first").process() as (port, questions):
        server = replace(server, port=port)
        part = start("first")
        wait(questions, 0.3, part)
    time.sleep(outage_s)
    with replace(server, key="first").process() as (_, questions):
        wait(questions, 0.55, part)
    with replace(server, key="second").process() as (_, questions):
        part.join()
        codes = [part.exitcode]
        part = start("second")
        wait(questions, 0.8, part)
        part.kill()
        part.join()
        codes.append(part.exitcode)
        part = start("second")
        wait(questions, 2.0, part)
        part.join()
    (run_dir,) = runs_dir.iterdir()
    done = json.loads((run_dir / "swarm.json").read_text("utf-8"))
    return {
        "children": done["measures"]["by_state"],
        "calls": done["measures"]["num_calls"],
        "replies_of_the_server": replies.total(),
        "replies_needed": whole,
        "exit_codes": [*codes, part.exitcode],
        "wall_s": round(time.monotonic() - started, 1),
        "outage_s": outage_s,
    }


async def watch_memory(peak: list[float]) -> None:
    """Keep the largest proportional memory (PSS) of this process and all below it, in MB."""
    import psutil

    while True:
        total = 0
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
        peak[0] = max(peak[0], total / 1e6)
        await asyncio.sleep(0.1)


async def bench_sandboxes(server: TimedServer, num_chars: int, runs_dir: Path) -> dict[str, Any]:
    """Run the swarm with a cell for each call."""
    limits = SwarmLimits(run=Caps(max_steps=None, max_calls=10 * server.num_children * server.num_calls))
    peak = [0.0]
    watching = asyncio.create_task(watch_memory(peak))
    with server.running() as model:
        done = await run_swarm("all", model=model, options=SwarmOptions(limits=limits), runs_dir=runs_dir)
        await model.close()
    watching.cancel()
    return {
        "children": dict(done.metrics.by_state),
        "cells": done.metrics.num_calls - server.num_children - 1,
        "sandboxes_at_a_time": SwarmOptions().num_kernels,
        "agents_s": round(done.run.duration_s, 1),
        "peak_memory_of_all_mb": round(peak[0]),
    }


async def bench_nodes(
    server: TimedServer, num_chars: int, runs_dir: Path, num_nodes: int, relays_model: bool
) -> dict[str, Any]:
    """Run the swarm on a local Ray cluster, after a small one that loads all modules here."""
    with ray_cluster(*[1] * num_nodes) as cluster:
        options = SwarmOptions(
            tools=(functools.partial(make_note_tool, num_chars),),
            preset=SwarmPreset(orchestrator_calls=10 * server.num_children, child_calls=10 * server.num_calls),
            executor="ray",
            ray_address=cluster.address,
            relays_model=relays_model,
        )
        await run_on_nodes(replace(server, num_children=num_nodes, num_calls=1), options, runs_dir)
        return await run_on_nodes(server, options, runs_dir)


async def run_on_nodes(server: TimedServer, options: SwarmOptions, runs_dir: Path) -> dict[str, Any]:
    """Run the swarm once, and measure the processor time of this process, the driver, for a model call."""
    answered_s = 0.0

    def listen(event: Event) -> None:
        nonlocal answered_s
        if isinstance(event, RunEnded) and event.ids.agent_id == MAIN:
            answered_s = time.process_time()

    limits = SwarmLimits(
        run=Caps(max_steps=None, max_calls=10 * server.num_children * server.num_calls),
        max_children=server.num_children,
        max_parallel=server.num_children,
    )
    with server.process() as (port, _):
        started_s, started = time.process_time(), time.monotonic()
        done = await run_swarm(
            "all",
            options=replace(options, limits=limits),
            watch=Watch(listener=listen),
            model="timed",
            base_url=f"http://127.0.0.1:{port}/v1",
            runs_dir=runs_dir,
        )
    num_calls = done.metrics.total_steps
    return {
        "children": dict(done.metrics.by_state),
        "model_calls": num_calls,
        "calls": done.metrics.num_calls,
        "driver_cpu_ms_per_model_call": round(1000 * (answered_s - started_s) / num_calls, 2),
        "and_the_evidence_after_the_answer": round(1000 * (time.process_time() - answered_s) / num_calls, 2),
        "wall_s": round(time.monotonic() - started, 1),
    }


async def bench(server: TimedServer, num_chars: int, runs_dir: Path) -> dict[str, Any]:
    """Run the swarm once, then resume it from a record without its end."""
    limits = SwarmLimits(run=Caps(max_steps=None, max_calls=10 * server.num_children * server.num_calls))
    preset = SwarmPreset(orchestrator_calls=10 * server.num_children, child_calls=10 * server.num_calls)
    tools = (lambda place: NoteTool(num_chars), *VISUAL_TOOLS)
    options = SwarmOptions(tools=tools, limits=limits, preset=preset)
    with server.running() as model:
        cpu_s, started = time.process_time(), time.monotonic()
        done = await run_swarm("all", model=model, options=options, runs_dir=runs_dir)
        wall_s, cpu_s = time.monotonic() - started, time.process_time() - cpu_s
        run_dir = Path(str(done.run.run_dir))
        record = run_dir / "trajectory.jsonl"
        lines = record.read_bytes().splitlines(keepends=True)
        cut = next(n for n, line in enumerate(lines) if b'"all done"' in line)
        record.write_bytes(b"".join(lines[:cut]))
        started = time.monotonic()
        again = await resume_swarm(run_dir, model=model, options=options)
        resume_s = time.monotonic() - started
        await model.close()
    return {
        "children": len(done.children),
        "calls": done.metrics.num_calls,
        "critical_steps": done.metrics.critical_steps,
        "total_steps": done.metrics.total_steps,
        "step_speedup": round(done.metrics.step_speedup, 2),
        "wall_s": round(wall_s, 2),
        "agents_s": round(done.run.duration_s, 2),
        "ideal_critical_s": round(done.metrics.critical_steps * server.latency_s, 2),
        "critical_s_of_the_run": round(done.metrics.critical_s, 2),
        "wall_over_critical": round(done.run.duration_s / done.metrics.critical_s, 3),
        "cpu_ms_per_call": round(1000 * cpu_s / done.metrics.num_calls, 2),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "resume_s": round(resume_s, 2),
        "resumed_as": again.run.end.status,
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--children", type=int, default=100)
    parser.add_argument("--calls", type=int, default=15)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--chars", type=int, default=500)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--sandboxes", dest="work", action="store_const", const=bench_sandboxes, default=bench)
    kind.add_argument("--turns", dest="work", action="store_const", const=bench_turns)
    kind.add_argument("--faults", dest="work", action="store_const", const=bench_faults)
    kind.add_argument("--nodes", type=int, help="nodes of a local Ray cluster")
    parser.add_argument("--relay", action="store_true", help="with --nodes: models are called by the driver")
    parser.add_argument("--outage", type=float, default=180.0, help="seconds, for --faults")
    given = parser.parse_args()
    if given.work is bench_faults:
        given.work = functools.partial(bench_faults, outage_s=given.outage)
    if given.nodes:
        given.work = functools.partial(bench_nodes, num_nodes=given.nodes, relays_model=given.relay)
    server = TimedServer(
        num_children=given.children,
        num_calls=given.calls,
        latency_s=0.0 if given.work is bench_turns else given.latency,
        has_cells=given.work is bench_sandboxes,
    )
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(given.work(server, given.chars, Path(folder)))
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
