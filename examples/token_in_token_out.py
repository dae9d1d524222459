"""Token in, token out: conversations with tools and images, in which each turn's ids extend those of the turn before.

    python -m examples.token_in_token_out

Serves a tiny random model and holds six conversations of four turns, with thinking and without. The first turn is sent
as messages; each later one as the ids that the server returned, the media in them by their hashes, and the new messages
alone. Prints how many prompts begin with exactly the ids of the turn before and its reply.
"""

import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from examples.runtime_demo import CLICK, serve
from model_runtime.checkpoint.tiny import write_tiny

NUM_CONVERSATIONS, NUM_TURNS = 6, 4
SIZES_PX = ((203, 97), (150, 88), (181, 120), (212, 64))


def draw_noise(size_px: tuple[int, int]) -> dict[str, Any]:
    """An image part of random pixels."""
    file = io.BytesIO()
    Image.effect_noise(size_px, 80).convert("RGB").save(file, "PNG")
    return {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()},
    }


def ask(client: httpx.Client, fields: dict[str, Any], *, seed: int, thinking: bool) -> dict[str, Any]:
    """One turn: an answer with ids, log-probabilities and media hashes."""
    sampling = {"temperature": 1.0, "top_p": 1.0, "seed": seed, "max_tokens": 200, "thinking_budget": 24}
    tokens = {"return_token_ids": True, "logprobs": True, "logprobs_mode": "processed_logprobs"}
    tools = {"tools": [CLICK], "tool_choice": "required", "parallel_tool_calls": False}
    body = fields | sampling | tokens | tools | {"chat_template_kwargs": {"thinking": thinking}}
    answer = client.post("/chat/completions", json=body)
    if answer.status_code != 200:
        raise SystemExit(f"the server answered {answer.status_code}: {answer.text}")
    whole: dict[str, Any] = answer.json()
    choice = whole["choices"][0]
    if len(choice["token_ids"]) != len(choice["logprobs"]["content"]):
        raise SystemExit("ids and log-probabilities differ in number")
    return whole


def hold_conversation(client: httpx.Client, seed: int, *, thinking: bool) -> tuple[int, int]:
    """Return the number of prompts that extend the turn before, and that of prompts after the first."""
    first = [draw_noise(SIZES_PX[0]), {"type": "text", "text": "Click the button."}]
    fields: dict[str, Any] = {"messages": [{"role": "system", "content": "You click."}]}
    fields["messages"].append({"role": "user", "content": first})
    before: list[int] = []
    num_extended = 0
    for turn in range(NUM_TURNS):
        answer = ask(client, fields, seed=seed * 10 + turn, thinking=thinking)
        choice = answer["choices"][0]
        num_extended += turn > 0 and answer["prompt_token_ids"][: len(before)] == before
        before = answer["prompt_token_ids"] + choice["token_ids"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": [draw_noise(SIZES_PX[turn])]}
            for call in choice["message"]["tool_calls"]
        ]
        fields = {"prompt_token_ids": before, "media": answer["media"], "messages": results}
    return num_extended, NUM_TURNS - 1


def main() -> int:
    """Serve the model and hold the conversations; exit status 1 if a prompt does not extend the one before."""
    missing = 0
    with tempfile.TemporaryDirectory(prefix="k25-tokens-") as folder:
        write_tiny(Path(folder))
        with serve(Path(folder)) as url, httpx.Client(base_url=url, timeout=120) as client:
            for thinking in (False, True):
                held = [hold_conversation(client, seed, thinking=thinking) for seed in range(NUM_CONVERSATIONS)]
                num_extended, num_prompts = (sum(column) for column in zip(*held, strict=True))
                print(f"thinking {thinking}: {num_extended} of {num_prompts} prompts extend the turn before exactly")
                missing += num_prompts - num_extended
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
