"""Wrong requests and large ones."""

import json
from collections.abc import Mapping
from typing import Any

from model_runtime.self_test.endpoint import Endpoint, Raw, user
from model_runtime.self_test.outcome import Outcome, failed, ok, warning

BIG_MIB = 24
BROKEN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def probe_errors(endpoint: Endpoint) -> Outcome:
    """Wrong requests are refused in OpenAI's shape."""
    base = endpoint.body([user("Hi")], max_tokens=1)
    without = {name: value for name, value in base.items() if name != "messages"}
    wrong: dict[str, Any] = {
        "a body that is not JSON": b"{",
        "no messages": without,
        "messages that are a text": {**base, "messages": "Hi"},
        "a picture that is none": {**base, "messages": [user("Hi", BROKEN)]},
    }
    found = [text for what, body in wrong.items() if (text := _fault(what, endpoint.post(body)))]
    if found:
        raise failed("; ".join(found))
    other = endpoint.post({**base, "model": "no-such-model"})
    if other.status == 200:
        return warning("refused in OpenAI's shape; but a model of another name is answered too")
    return ok("refused with 4xx and error.message")


def _fault(what: str, raw: Raw) -> str | None:
    if raw.status >= 500:
        return f"{what} gives HTTP {raw.status}, expected 4xx: the server takes the blame for the client"
    if raw.status < 400:
        return f"{what} is accepted (HTTP {raw.status})"
    error = raw.body.get("error") if isinstance(raw.body, Mapping) else None
    if isinstance(error, Mapping) and isinstance(error.get("message"), str):
        return None
    return f"{what} gives HTTP {raw.status} without error.message: clients show nothing useful ({raw.text[:60]!r})"


def probe_big_body(endpoint: Endpoint) -> Outcome:
    """A request as large as one with twenty screenshots."""
    body = json.dumps(endpoint.body([user("Hi")], max_tokens=1)).encode()
    raw = endpoint.post(body[:-1] + b" " * (BIG_MIB * 2**20) + b"}")
    if raw.status == 413:
        raise failed(f"{BIG_MIB} MiB is too large (HTTP 413); behind nginx set client_max_body_size 256m")
    if raw.status != 200:
        raise failed(f"{BIG_MIB} MiB gives HTTP {raw.status}: {raw.reason}")
    return ok(f"{BIG_MIB} MiB are taken")
