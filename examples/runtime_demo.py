"""Kimi K2.5's runtime on a laptop: a tiny random model, served, asked twice by an agent's client.

    python -m examples.runtime_demo

Writes a tiny checkpoint in the release's format (INT4 experts), serves it with `cua serve`, and sends what an agent
sends: a screenshot and a tool, streaming, through the OpenAI SDK. The second step sends everything again with the
tool's answer and a new screenshot; what it shares with the first comes from the cache. The model is random and speaks
nonsense; the call of the tool is nevertheless valid, because `tool_choice` constrains it.
"""

import base64
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai import OpenAI
from PIL import Image, ImageDraw

CLICK = {
    "type": "function",
    "function": {
        "name": "click",
        "description": "Click a point of the screen.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "x": {"type": "integer", "minimum": 0, "maximum": 1279},
                "y": {"type": "integer", "minimum": 0, "maximum": 719},
                "button": {"enum": ["left", "right"]},
            },
            "required": ["x", "y", "button"],
            "additionalProperties": False,
        },
    },
}


def draw_screenshot(text: str) -> str:
    """A 1280x720 window with a button, as a data URL."""
    image = Image.new("RGB", (1280, 720), "#dde3ea")
    draw = ImageDraw.Draw(image)
    draw.rectangle((200, 120, 1080, 600), fill="white", outline="#888")
    draw.rectangle((200, 120, 1080, 160), fill="#36516f")
    draw.text((216, 132), text, fill="white")
    draw.rounded_rectangle((560, 480, 720, 530), 8, fill="#2f6fdb")
    draw.text((620, 498), "Save", fill="white")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


@contextmanager
def serve(model_dir: Path) -> Iterator[str]:
    """`cua serve` on a free port; the address of its API."""
    command = [sys.executable, "-m", "apps.cli.main", "serve", "--model", str(model_dir), "--port", "0"]
    process = subprocess.Popen([*command, "--set", "device=cpu"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise SystemExit(f"the server did not start: {line or 'it ended'}")
        yield line.removeprefix("listening on ").strip() + "/v1"
    finally:
        process.terminate()
        process.wait(timeout=30)


def ask(client: OpenAI, model: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One streamed step; prints what came and how fast. Returns the assistant's message."""
    started = time.perf_counter()
    first_s = None
    call: dict[str, Any] = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    thoughts = ""
    usage = None
    stream: Any = client.chat.completions.create(
        model=model,
        messages=messages,  # type: ignore[arg-type]
        tools=[CLICK],  # type: ignore[list-item]
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=400,
        seed=7,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"thinking_budget": 24},
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            first_s = first_s or time.perf_counter() - started
            thoughts += getattr(choice.delta, "reasoning_content", None) or ""
            for part in choice.delta.tool_calls or []:
                call["id"] += part.id or ""
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    took_s = time.perf_counter() - started
    assert usage is not None
    assert first_s is not None
    rate = (usage.completion_tokens - 1) / (took_s - first_s)
    cached = usage.prompt_tokens_details.cached_tokens
    print(f"  thoughts   {thoughts[:70]!r}")
    print(f"  call       {call['id']} {json.dumps(json.loads(call['function']['arguments']))}")
    print(f"  prompt     {usage.prompt_tokens:,} tokens, {cached:,} of them from the cache")
    print(f"  time       {first_s * 1000:.0f} ms to the first token, then {rate:.0f} tokens/s")
    return {"role": "assistant", "content": None, "reasoning_content": thoughts, "tool_calls": [call]}


def main() -> None:
    """Make, serve, ask twice."""
    with tempfile.TemporaryDirectory(prefix="k25-tiny-") as folder:
        model_dir = Path(folder) / "tiny-k25"
        print("==> a tiny random checkpoint in the release's format, experts in INT4")
        command = [sys.executable, "-m", "model_runtime.cli", "make-tiny", str(model_dir), "--int4"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-m", "model_runtime.cli", "check", str(model_dir)], check=True)
        print("==> cua serve")
        with serve(model_dir) as url:
            client = OpenAI(base_url=url, api_key="none")
            model = client.models.list().data[0].id
            messages: list[dict[str, Any]] = [
                {"role": "system", "content": "You work a computer by calling tools. " * 8},
                {"role": "user", "content": [_image("Untitled"), {"type": "text", "text": "Save the document."}]},
            ]
            print("==> step 1: a screenshot and a tool")
            reply = ask(client, model, messages)
            done = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": [_image("Saved")]}
            print("==> step 2: the same again, the tool's answer and a new screenshot")
            ask(client, model, [*messages, reply, done])


def _image(title: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": draw_screenshot(title)}}


if __name__ == "__main__":
    main()
