"""A loopback server that answers as K2.5 should, with one fault at a time on demand."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.apps.endpoint_check import words
from tests.apps.endpoint_check.words import Body, Words

KEY = "sekrit"


class FakeK25:
    """In a test: `with FakeK25("no_done") as server: ... server.url`."""

    def __init__(self, *faults: str) -> None:
        self.faults = frozenset(faults)
        self.seen: set[str] = set()
        self.num_requests = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.fake = self  # type: ignore[attr-defined]
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> "FakeK25":
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def has(self, fault: str) -> bool:
        return fault in self.faults


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    @property
    def fake(self) -> FakeK25:
        return self.server.fake  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            self._send(404, _error("no such page"))
            return
        if self.fake.has("needs_key") and self.headers.get("authorization") != f"Bearer {KEY}":
            self._send(401, _error("wrong key"))
            return
        card = {"id": "kimi-k2.5", "object": "model", "max_model_len": 1200 if self.fake.has("short") else 262_144}
        self._send(200, {"object": "list", "data": [card]})

    def do_POST(self) -> None:
        self.fake.num_requests += 1
        raw = self.rfile.read(int(self.headers["content-length"]))
        if self.fake.has("hangs"):
            self.fake.released.wait(30)
            self.close_connection = True
            return
        if self.fake.has("small_body") and len(raw) > 2**20:
            self._send(413, _error("too large"))
            return
        try:
            body = json.loads(raw)
        except json.JSONDecodeError:
            self._refuse("the body is not JSON")
            return
        problem = self._problem(body)
        if problem:
            self._refuse(problem)
        elif self.fake.has("video_500") and words.has_video(body):
            self._send(500, _error("Internal Server Error"))
        else:
            self._answer(body)

    def _problem(self, body: Body) -> str | None:
        has = self.fake.has
        if not isinstance(body.get("messages"), list):
            return "messages must be a list"
        if has("one_picture") and words.num_pictures(body) > 1:
            return "At most 1 image(s) may be provided in one prompt."
        if has("no_video") and words.has_video(body):
            return "video is not supported"
        if has("no_schema") and "response_format" in body:
            return "response_format is not supported"
        if has("no_auto_tools") and body.get("tools"):
            return '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        if has("no_tool_pictures") and words.has_tool_pictures(body):
            return "tool messages hold text only"
        if body.get("model") != "kimi-k2.5" and not has("any_name"):
            return "no such model"
        try:
            words.check_pictures(body)
        except Exception:
            return "cannot read an image"
        return None

    def _refuse(self, text: str) -> None:
        if self.fake.has("plain_errors"):
            self._send(400, {"detail": text})
        elif self.fake.has("blames_itself"):
            self._send(500, _error(text))
        else:
            self._send(400, _error(text))

    def _answer(self, body: Body) -> None:
        if self.fake.has("drips"):
            self._drip()
            return
        made = words.answer(body, self.fake.faults)
        usage = self._usage(body, made)
        message = self._message(body, made)
        if body.get("stream"):
            self._stream(message, made, usage)
            return
        choice = {"index": 0, "message": message, "finish_reason": made.finish}
        self._send(
            200, {"id": "1", "object": "chat.completion", "model": "kimi-k2.5", "choices": [choice], "usage": usage}
        )

    def _usage(self, body: Body, made: Words) -> Body:
        has = self.fake.has
        prompt = words.prompt_tokens(body, self.fake.faults)
        known = json.dumps(body["messages"])
        cached = prompt // 64 * 64 if known in self.fake.seen else 0
        self.fake.seen.add(known)
        total = prompt + made.num_tokens + (7 if has("wrong_total") else 0)
        usage: Body = {"prompt_tokens": prompt, "completion_tokens": made.num_tokens, "total_tokens": total}
        if not has("no_cache_details"):
            usage["prompt_tokens_details"] = {"cached_tokens": 0 if has("no_cache") else cached}
        return usage

    def _message(self, body: Body, made: Words) -> Body:
        """The message as its parsers make it, faults included."""
        has, reasoning, content = self.fake.has, "".join(made.reasoning), "".join(made.content)
        calls = [{"id": given, "type": "function", "function": {"name": name, "arguments": arguments}}
                 for given, name, arguments in made.calls]  # fmt: skip
        if has("unparsed_thoughts") and reasoning:
            reasoning, content = "", f"{reasoning}</think>{content}" if made.finish != "length" else reasoning
        if has("drops_thoughts"):
            reasoning = ""
        if has("instant_in_reasoning") and not reasoning:
            reasoning, content = content, ""
        if has("leaks_markers") and calls:
            content, calls, made.finish = content + words.raw_section(made.calls), [], "stop"
        if has("merges_calls") and len(calls) > 1:
            calls[0]["function"]["arguments"] = "".join(arguments for *_, arguments in made.calls)  # type: ignore[index]
            calls = calls[:1]
        if has("sanitised_ids"):
            calls = [{**call, "id": words.sanitised(str(call["id"]))} for call in calls]
        if has("wrong_finish") and calls:
            made.finish = "stop"
        field = "reasoning" if has("newer_field") else "reasoning_content"
        message: Body = {"role": "assistant", "content": content or None, field: reasoning or None}
        return {**message, "tool_calls": calls} if calls else message

    def _stream(self, message: Body, made: Words, usage: Body) -> None:
        has = self.fake.has
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for delta in self._deltas(message):
            self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        finish = None if has("no_finish") else made.finish
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if not has("no_stream_usage"):
            self._event({"choices": [], "usage": usage})
        if not has("no_done"):
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _deltas(self, message: Body) -> Iterator[Body]:
        has = self.fake.has
        yield {"role": "assistant", "content": ""}
        for name in ("reasoning_content", "reasoning", "content"):
            parts = words.pieces(message.get(name) or "")
            for part in parts[::2] if has("stream_loses_text") and name == "content" else parts:
                yield {name: self._cut(part)}
        calls = message.get("tool_calls", [])
        for at, call in enumerate(calls[:1] if has("stream_loses_calls") else calls):
            index = 0 if has("shared_index") else at
            arguments = call["function"]["arguments"]
            yield {"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]}
            for part in words.pieces(arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}

    def _cut(self, part: str) -> str:
        is_wide = any(ord(character) > 0x2FFF for character in part)
        return "\ufffd" * len(part) if self.fake.has("cuts_characters") and is_wide else part

    def _event(self, chunk: Body) -> None:
        full = {"id": "1", "object": "chat.completion.chunk", "model": "kimi-k2.5", **chunk}
        self.wfile.write(f"data: {json.dumps(full)}\n\n".encode())

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        deadline = time.monotonic() + 30
        while not self.fake.released.wait(0.05) and time.monotonic() < deadline:
            try:
                self.wfile.write(b" ")
                self.wfile.flush()
            except OSError:
                return

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _error(text: str) -> Body:
    return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}}
