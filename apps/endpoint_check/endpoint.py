"""An endpoint under test: requests, responses, and outcomes for transport errors."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apps.endpoint_check.answer import ParsedAnswer, TokenUsage, join_stream, parse_answer, parse_usage, read_events
from apps.endpoint_check.outcome import NoResponse, failed, inconclusive, not_supported
from model_runtime.errors import RuntimeFault, require
from model_runtime.json_types import Json, JsonMapping

if TYPE_CHECKING:
    import httpx

Message = JsonMapping
SHORT = 32
OFF = {"chat_template_kwargs": {"thinking": False}}
ON = {"chat_template_kwargs": {"thinking": True}}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawResponse:
    """A response before it is checked; `body` is None if it is not JSON."""

    status: int
    body: object
    text: str

    @property
    def reason(self) -> str:
        """The server's error message in one line."""
        error = self.body.get("error", self.body) if isinstance(self.body, Mapping) else None
        message = error.get("message") or error.get("detail") if isinstance(error, Mapping) else error
        return " ".join(str(message or self.text or "nothing").split())[:300]

    @property
    def usage(self) -> TokenUsage | None:
        """Usage of an accepted request."""
        return parse_usage(self.body.get("usage")) if self.status == 200 and isinstance(self.body, Mapping) else None

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens of an accepted request, from its usage."""
        return self.usage.prompt if self.usage else None


def user(text: str, *parts: Mapping[str, object]) -> dict[str, object]:
    """Return a user message with media before text, the order that K2.5 uses."""
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}] if parts else text}


class CheckedEndpoint:
    """One endpoint. `context` is the maximum sequence length that it reports, if any.

    Not the agents' client: a probe sends requests that no client should send, such as malformed bodies, and checks
    answers that a client would repair or refuse.
    """

    def __init__(self, url: str, *, model: str | None, api_key: str | None, timeout_s: float) -> None:
        self.url = url.rstrip("/").removesuffix("/chat/completions")
        self.timeout_s = timeout_s
        self.context: int | None = None
        self._name = model
        self._httpx = require("httpx")
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        is_secure = self.url.startswith("https")  # loading certificates is slow
        self._client = self._httpx.Client(headers=headers, timeout=timeout_s, trust_env=False, verify=is_secure)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @property
    def model(self) -> str:
        """Model name used in requests."""
        return self._name or "kimi-k2.5"

    def open(self) -> None:
        """Look up the model's name, which also checks that a server answers.

        Raises:
            RuntimeFault: If no response from the address, or it requires another key.
        """
        try:
            raw = self.get("/models")
            if raw.status == 404 and not self.url.endswith("/v1"):
                self.url += "/v1"
                raw = self.get("/models")
        except NoResponse as error:
            raise RuntimeFault(
                f"no response from {self.url}: {error}. Expected a URL such as http://HOST:8000/v1"
            ) from error
        if raw.status in (401, 403):
            raise RuntimeFault(
                f"{self.url} refuses the API key (HTTP {raw.status}); pass its variable with --api-key-env NAME"
            )
        listed = raw.body.get("data") if isinstance(raw.body, Mapping) else None
        cards = [card for card in listed if isinstance(card, Mapping)] if isinstance(listed, list) else []
        card = next((card for card in cards if card.get("id") == self._name), cards[0] if cards else {})
        self._name = self._name or card.get("id")
        length = card.get("max_model_len")
        self.context = length if isinstance(length, int) else None

    def needs(self, num_tokens: int) -> None:
        """End the probe if the endpoint reports a shorter context than this."""
        if self.context is not None and self.context < num_tokens:
            raise not_supported(f"this needs {num_tokens} tokens of context, the server takes {self.context}")

    def budget(self, num_tokens: int) -> int:
        """Return the number of output tokens to request: `num_tokens`, or fewer if the context is short."""
        return num_tokens if self.context is None else max(1, min(num_tokens, self.context // 4))

    def ask(self, messages: Sequence[Message], **options: object) -> ParsedAnswer:
        """Request a whole answer. Ends the probe as failed if the server refuses or the answer has another shape."""
        raw = self.post(self.body(messages, **options))
        if raw.status != 200:
            raise failed(f"HTTP {raw.status}: {raw.reason}")
        answer = parse_answer(raw.body)
        if answer.problems:
            raise failed("; ".join(answer.problems))
        return answer

    def stream(self, messages: Sequence[Message], **options: object) -> ParsedAnswer:
        """Request a streamed answer. The caller checks its `problems`."""
        more = {"stream": True, "stream_options": {"include_usage": True}}
        request = self._client.build_request(
            "POST", f"{self.url}/chat/completions", json={**self.body(messages, **options), **more}
        )
        with self._sent(request) as response:
            blocks = self._blocks(response)
            if response.status_code != 200:
                raise failed(f"streaming: HTTP {response.status_code}: {_raw(response, blocks).reason}")
            return join_stream(read_events(blocks))

    def count(self, messages: Sequence[Message], **options: object) -> int:
        """Return the number of prompt tokens that the server bills."""
        return self.usage(self.ask(messages, **{"max_tokens": 1, **options})).prompt

    def usage(self, answer: ParsedAnswer) -> TokenUsage:
        """Return the usage of an answer; ends the probe if there is none."""
        if answer.usage is None:
            raise failed("the answer has no usage with prompt_tokens, completion_tokens and total_tokens")
        return answer.usage

    def body(self, messages: Sequence[Message], **options: object) -> Json:
        """Return a request body: greedy, short, without thinking, unless the options say otherwise."""
        base = {"model": self.model, "messages": list(messages), "temperature": 0, "seed": 0, "max_tokens": SHORT}
        return {**base, **OFF, **options}

    def post(self, body: object, path: str = "/chat/completions") -> RawResponse:
        """Send any request; bytes are sent unchanged."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        return self._whole(self._client.build_request("POST", self.url + path, content=content, headers=headers))

    def get(self, path: str) -> RawResponse:
        """Send a GET request."""
        return self._whole(self._client.build_request("GET", self.url + path))

    def _whole(self, request: "httpx.Request") -> RawResponse:
        with self._sent(request) as response:
            return _raw(response, self._blocks(response))

    def _sent(self, request: "httpx.Request") -> "closing[httpx.Response]":
        try:
            return closing(self._client.send(request, stream=True))
        except self._httpx.TimeoutException as error:
            raise NoResponse(f"no answer within {self.timeout_s:g} s") from error
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            raise NoResponse(f"{type(error).__name__}: {error}") from error

    def _blocks(self, response: "httpx.Response") -> Iterator[bytes]:
        deadline = time.monotonic() + self.timeout_s
        try:
            for block in response.iter_bytes():
                yield block
                if time.monotonic() > deadline:
                    raise NoResponse(f"the answer was not complete within {self.timeout_s:g} s")
        except self._httpx.TimeoutException as error:
            raise NoResponse(f"the answer stalled for {self.timeout_s:g} s") from error
        except self._httpx.HTTPError as error:
            raise NoResponse(f"the answer was cut off: {type(error).__name__}: {error}") from error


def _raw(response: "httpx.Response", blocks: Iterator[bytes]) -> RawResponse:
    text = b"".join(blocks).decode(errors="replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    return RawResponse(status=response.status_code, body=body, text=text)


def repeated(endpoint: CheckedEndpoint, messages: Sequence[Message], first: ParsedAnswer, **options: object) -> None:
    """End the probe if the same request does not return the same text again, which makes comparisons impossible."""
    if endpoint.ask(messages, **options).content != first.content:
        raise inconclusive("the same request gives different texts (temperature 0, seed 0); they cannot be compared")
