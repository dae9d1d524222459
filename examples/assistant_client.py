"""A program that works through the assistant's HTTP API: begin, follow, answer, read the result.

python -m examples.assistant_client "http://127.0.0.1:7860/?token=..." "Click Summary. Tell me the Total."
"""

import json
import sys
from typing import Any

import httpx


def run(address: str, instruction: str) -> dict[str, Any]:
    """Do a task on the practice page, allowing what the agent asks; returns how the session stands at the end."""
    base, _, token = address.partition("/?token=")
    with httpx.Client(base_url=f"{base}/api", headers={"authorization": f"Bearer {token}"}, timeout=60) as web:
        begun = web.post("/sessions", json={"instruction": instruction, "mode": "thinking", "place": "practice"})
        begun.raise_for_status()
        session = begun.json()["id"]
        with web.stream("GET", f"/sessions/{session}/events") as stream:
            kind = ""
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "event":
                    show(json.loads(value))
                elif name == "data":
                    view = json.loads(value)
                    for approval in view["approvals"]:
                        print("  allowed:", approval["target"])
                        web.post(f"/sessions/{session}/approvals/{approval['id']}", json={"answer": "once"})
                    if view["phase"] == "ended":
                        return view
    raise RuntimeError("the stream ended before the run did")


def show(event: dict[str, Any]) -> None:
    if event["event"] == "decided":
        print(f"{event['step']:>3}  {event['action']}")


if __name__ == "__main__":
    ended = run(sys.argv[1], sys.argv[2])
    print(ended["result"]["status"] if ended["result"] else ended["error"])
