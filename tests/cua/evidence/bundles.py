"""Small bundles of `cua ask`, written as the agent writes them, and a maker of kernels that must not be reached."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from cua.evidence import write_bundle
from cua.messages import ImagePart, Reply, TextPart, ToolCall, ToolResult, Usage
from cua.run.end import End, RunResult
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.inputs import InputFile, copy_inputs, find_inputs
from cua.trajectory import RunHeader, TrajectoryWriter
from cua.trajectory.chain import hash_files
from cua.trajectory.events import TOOLS_ENV
from tests.cua.trajectory.samples import png
from visual_tools.sandbox import Kernel, KernelLimits

CODE = "print(1 + 1)"
ANSWER = "It is two [^0^]."


class NoKernels:
    """No code may be run; implements `KernelMaker`."""

    backend = "none"

    async def make_kernel(
        self, folder: Path, *, readable: Sequence[Path] = (), limits: KernelLimits | None = None
    ) -> Kernel:
        raise AssertionError("a kernel was asked for")

    async def close(self) -> None: ...

    async def __aenter__(self) -> "NoKernels":
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None: ...


def write_bundle_of(folder: Path, *, answer: str = ANSWER) -> Path:
    """A run with one picture as input, one cell that printed 2 and showed a picture, and an answer."""
    Image.new("RGB", (8, 6), "white").save(folder / "dots.png")
    inputs = find_inputs([folder / "dots.png"])
    header = RunHeader(
        instruction="How many?",
        env=TOOLS_ENV,
        model="scripted",
        settings={"settings": {}, "inputs": [_entry(file) for file in inputs]},
    )
    with TrajectoryWriter.create(folder / "runs", header, is_durable=False) as writer:
        copy_inputs(inputs, writer.run_dir / "inputs", writer.run_dir / "files")
        writer.asked((TextPart(text="How many?"),))
        call = ToolCall(id="functions.ipython:0", name="ipython", arguments=json.dumps({"code": CODE}))
        data = {"kind": "ipython", "code": CODE, "status": "ok", "text": "2\n", "execution_count": 1}
        result = ToolResult(parts=(TextPart(text="2"), ImagePart(data=png("shown"))), data=data)
        outcome = CallOutcome(number=0, call=call, result=result)
        for index, reply, outcomes in (
            (1, Reply(content="", tool_calls=(call,), finish_reason="tool_calls"), (outcome,)),
            (2, Reply(content=answer), ()),
        ):
            writer.replied(index, reply)
            if outcomes:
                writer.calling(index, reply.tool_calls)
            writer.called(ToolStep(index=index, reply=reply, outcomes=outcomes))
        end = End(status="unverified", reason="the model's answer", answer=answer)
        writer.ended(RunResult(end=end, num_steps=2, usage=Usage(), duration_s=1.0))
        files, is_whole = hash_files(writer.run_dir)
        writer.sealed(files, is_whole=is_whole)
    write_bundle(writer.run_dir)
    return writer.run_dir


def _entry(file: InputFile) -> dict[str, Any]:
    return {"name": file.name, "size_bytes": file.size_bytes, "is_copied": file.is_copied, "sha256": file.sha256}


def edit(run_dir: Path, event: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the first line of a kind in a record, as somebody with an editor does."""
    path = run_dir / "trajectory.jsonl"
    lines = path.read_text("utf-8").split("\n")
    position = next(i for i, line in enumerate(lines) if line.startswith(f'{{"event":"{event}"'))
    data = json.loads(lines[position])
    change(data)
    lines[position] = json.dumps(data, separators=(",", ":"))
    path.write_text("\n".join(lines), "utf-8")


def set_inputs(run_dir: Path, *inputs: Any) -> None:
    """Let the record name other inputs."""
    edit(run_dir, "run", lambda data: data["header"]["settings"].update(inputs=list(inputs)))
