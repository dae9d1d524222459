"""Many clients at once against `cua serve` with a tiny model: is anybody lost, and does each get the same?

    python -m benchmarks.runtime.clients [--clients 500] [--seconds 30] [--tokens 8]

Each client asks, waits for its answer and asks again, until the time is over. Lost: an answer that is no 200, is not
whole, or never comes. Fair: how many answers each client got, the least and the most, and Jain's index over them (1
when all got the same). The server runs 64 at a time; the others wait.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from model_runtime.checkpoint.tiny import write_tiny


async def keep_asking(url: str, number: int, tokens: int, until: float) -> tuple[int, int]:
    """One client with a connection of its own: (answers that are whole, answers that are not).

    Plain requests: the agents' client retries and waits at its gate, which would hide what gets lost.
    """
    whole = lost = 0
    body = {"model": "tiny", "prompt": f"client {number}", "max_tokens": tokens, "ignore_eos": True}
    async with httpx.AsyncClient(base_url=url, timeout=600, verify=False) as client:
        while time.perf_counter() < until:
            response = await client.post("/v1/completions", json=body)
            is_whole = response.status_code == 200 and response.json()["usage"]["completion_tokens"] == tokens
            whole, lost = whole + is_whole, lost + (not is_whole)
    return whole, lost


async def run(url: str, clients: int, seconds: float, tokens: int) -> list[tuple[int, int]]:
    """All clients at once."""
    until = time.perf_counter() + seconds
    return await asyncio.gather(*(keep_asking(url, number, tokens, until) for number in range(clients)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--tokens", type=int, default=8)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        model_dir = Path(name) / "tiny"
        write_tiny(model_dir)
        command = [sys.executable, "-m", "apps.cli.main", "serve", "--model", str(model_dir), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("listening on ").strip()
            asyncio.run(run(url, 8, 0.5, 4))  # warm
            counts = asyncio.run(run(url, args.clients, args.seconds, args.tokens))
        finally:
            server.terminate()
            server.wait(timeout=60)
    show(counts, args)


def show(counts: list[tuple[int, int]], args: argparse.Namespace) -> None:
    """Print what came of it."""
    whole = [count for count, _ in counts]
    jain = sum(whole) ** 2 / (len(whole) * sum(count**2 for count in whole))
    print(
        f"{args.clients} clients, {args.seconds:.0f} s: {sum(whole):,} answers whole, {sum(n for _, n in counts)} lost"
    )
    print(f"{sum(whole) * args.tokens / args.seconds:.0f} tokens/s over all")
    print(f"answers of a client: least {min(whole)}, most {max(whole)}; Jain {jain:.4f}")


if __name__ == "__main__":
    main()
