"""Client of the assistant's HTTP API: start a run, follow it, answer its questions, read the result.

python -m examples.assistant_client "http://127.0.0.1:7860/?token=..." "Click Summary. Tell me the Total."
"""

import json
import sys
from typing import Any

import httpx


def run(address: str, instruction: str) -> dict[str, Any]:
    """Execute a task on the practice page, allow what the agent asks, and return the final state of the session.

    Raises:
        RuntimeError: If the assistant refuses a request or ends the stream; the text is its answer.
        httpx.TransportError: If it cannot be reached.
    """
    base, _, token = address.partition("/?token=")
    with httpx.Client(base_url=f"{base}/api", headers={"authorization": f"Bearer {token}"}, timeout=60) as web:
        begun = web.post("/sessions", json={"instruction": instruction, "mode": "thinking", "place": "practice"})
        if begun.is_error:
            raise RuntimeError(f"the assistant answers {begun.status_code}: {begun.json()['error']}")
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
                    view: dict[str, Any] = json.loads(value)
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
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        ended = run(sys.argv[1], sys.argv[2])
    except (RuntimeError, httpx.TransportError, httpx.InvalidURL) as error:
        sys.exit(f"error: {error}")
    print(ended["result"]["status"] if ended["result"] else ended["error"])
