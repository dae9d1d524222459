"""How long it takes to turn a conversation of an agent into token ids: 100 steps, then one step more.

    python -m benchmarks.runtime.template [--steps 100] [--runs 9] [--ranks 20000]

Beside ours, in the same run and with the same vocabulary: the usual way, a Jinja template to one text and tiktoken on
the whole of it with control tokens allowed; and, where it can be built, the same template in transformers' tokenizer.
The vocabulary is learnt from Python's standard library, as the release's cannot be had: 20,000 ranks, an eighth of the
release's, so that texts make more tokens and more merges than they would with it.
"""

import argparse
import base64
import random
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import tiktoken

from model_runtime.chat.messages import ChatMessage, ImagePart, TextPart, ToolCall
from model_runtime.chat.template import encode_chat, render_chat, show_chat
from model_runtime.media import MediaItem
from model_runtime.tokenizer import Tokenizer, load_tokenizer
from model_runtime.tokenizer.tokenizer import PATTERN, TextCache

TEMPLATE = (
    "{%- macro body(m) -%}"
    "{%- if m.content is string -%}{{ m.content }}{%- else -%}{%- for part in m.content or [] -%}"
    "{%- if part.type == 'text' -%}{{ part.text }}"
    "{%- elif part.type == 'image' -%}<|media_begin|>image<|media_content|><|media_pad|><|media_end|>{{ '\n' }}"
    "{%- else -%}<|kimi_k25_video_placeholder|>{{ '\n' }}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- endmacro -%}"
    "{%- set seen = namespace(last=-1) -%}"
    "{%- for m in messages -%}{%- if m.role == 'assistant' and not m.tool_calls -%}"
    "{%- set seen.last = loop.index0 -%}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if preserve_thinking -%}{%- set seen.last = -1 -%}{%- endif -%}"
    "{%- if tools_ts_str -%}<|im_system|>tool_declare<|im_middle|>{{ tools_ts_str }}<|im_end|>{%- endif -%}"
    "{%- for m in messages -%}"
    "{{ {'user': '<|im_user|>', 'assistant': '<|im_assistant|>'}.get(m.role, '<|im_system|>') }}"
    "{{ m.name or m.role }}<|im_middle|>"
    "{%- if m.role == 'assistant' -%}"
    "<think>{%- if thinking and loop.index0 > seen.last -%}{{ m.reasoning_content or '' }}{%- endif -%}</think>"
    "{%- elif m.role == 'tool' -%}## Return of {{ m.tool_call_id }}{{ '\n' }}{%- endif -%}"
    "{{ body(m) }}"
    "{%- if m.role == 'assistant' and m.tool_calls -%}<|tool_calls_section_begin|>"
    "{%- for call in m.tool_calls -%}"
    "<|tool_call_begin|>{{ call.id }}<|tool_call_argument_begin|>{{ call.arguments }}<|tool_call_end|>"
    "{%- endfor -%}<|tool_calls_section_end|>{%- endif -%}"
    "<|im_end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|><think>"
    "{%- if not thinking -%}</think>{%- endif -%}{%- endif -%}"
)
"""K2.5's chat template as Jinja, written from its description for this comparison and for the tests."""

WORDS = (
    "the button window opens a list of files and then click on save as pdf in menu settings page row 12 total".split()
)


def make_conversation(num_steps: int) -> list[ChatMessage]:
    """An agent at its work: each step a thought, an action and 2 KB of what it sees; images in the last three."""
    words = random.Random(0)
    image = MediaItem(frames=np.zeros((1, 728, 1288, 3), np.uint8), content_hash=b"picture")

    def text(num_chars: int) -> str:
        found = ""
        while len(found) < num_chars:
            found += words.choice(WORDS) + words.choice([" ", " ", " ", " ", ", ", ".\n"])
        return found

    messages = [
        ChatMessage(role="system", parts=(TextPart(text(2000)),)),
        ChatMessage(role="user", parts=(TextPart(text(300)),)),
    ]
    for step in range(num_steps):
        call = ToolCall(id=f"functions.computer:{step}", name="computer", arguments=f'{{"code": "{text(100)!r}"}}')
        seen: tuple[Any, ...] = (TextPart(text(2000)),)
        if step >= num_steps - 3:
            seen += (ImagePart(image),)
        messages.append(ChatMessage(role="assistant", reasoning=text(600), tool_calls=(call,)))
        messages.append(ChatMessage(role="tool", tool_call_id=call.id, parts=seen))
    return messages


def to_openai(message: ChatMessage) -> dict[str, Any]:
    """A message as the Jinja template takes it."""
    parts = [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image" if isinstance(part, ImagePart) else "video"}
        for part in message.parts
    ]
    calls = [{"id": call.id, "arguments": call.arguments} for call in message.tool_calls]
    more = {"name": message.name, "reasoning_content": message.reasoning, "tool_call_id": message.tool_call_id}
    return {"role": message.role, "content": parts, "tool_calls": calls, **more}


def write_vocabulary(folder: Path, num_ranks: int) -> None:
    """`tiktoken.model` with byte pairs learnt from the modules of Python's standard library."""
    from tokenizers import Regex, models, pre_tokenizers, trainers
    from tokenizers import Tokenizer as Learner
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    learner = Learner(models.BPE())
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    learner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), to_bytes])
    files = sorted(map(str, Path(sysconfig.get_paths()["stdlib"]).glob("*.py")))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=num_ranks, initial_alphabet=alphabet, show_progress=False)
    learner.train(files, trainer)
    byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
    tokens = [bytes(byte_of[letter] for letter in learner.id_to_token(rank)) for rank in range(num_ranks)]
    lines = (base64.b64encode(token) + b" %d" % rank for rank, token in enumerate(tokens))
    (folder / "tiktoken.model").write_bytes(b"\n".join(lines))


def peer_encoding(tokenizer: Tokenizer) -> tiktoken.Encoding:
    """tiktoken with control tokens, as the release's own tokenizer builds it."""
    ranks = {token: rank for rank, token in enumerate(tokenizer.tokens[: tokenizer.special.first_id])}
    return tiktoken.Encoding("peer", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=tokenizer.special.ids)


def make_transformers_way(model_dir: Path, tokenizer: Tokenizer) -> Callable[[list[dict[str, Any]]], list[int]]:
    """apply_chat_template of a fast tokenizer that transformers converts from the same ranks."""
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    converter = TikTokenConverter(
        str(model_dir / "tiktoken.model"), pattern=PATTERN, extra_special_tokens=list(tokenizer.special.ids)
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=converter.converted(), chat_template=TEMPLATE)

    def encode(messages: list[dict[str, Any]]) -> list[int]:
        return fast.apply_chat_template(messages, add_generation_prompt=True, thinking=True)["input_ids"]

    return encode


def median_ms(run: Callable[[], object], num_runs: int) -> float:
    """Median of the time that `run` takes."""
    times = []
    for _ in range(num_runs):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


def without_pads(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Ids without placeholders, of which the usual way has one for each image."""
    return [token_id for token_id in ids if token_id != tokenizer.special.media_pad]


def measure(steps: int, runs: int, num_ranks: int, model_dir: Path) -> Iterator[str]:
    """The lines of the report."""
    write_vocabulary(model_dir, num_ranks)
    tokenizer = load_tokenizer(model_dir)
    messages = make_conversation(steps)
    longer = make_conversation(steps + 1)
    as_json, encoding = [to_openai(message) for message in messages], peer_encoding(tokenizer)
    template = jinja2.Environment().from_string(TEMPLATE)

    def ours(known: Tokenizer, conversation: list[ChatMessage] = messages) -> Any:
        return encode_chat(render_chat(conversation), known)

    def usual() -> list[int]:
        text = template.render(messages=as_json, thinking=True, add_generation_prompt=True)
        return encoding.encode(text, allowed_special="all")

    def forgetful() -> Tokenizer:
        return replace(tokenizer, _seen=TextCache())

    prompt, flat = ours(tokenizer), usual()
    assert without_pads(prompt.token_ids, tokenizer) == without_pads(flat, tokenizer)
    num_chars = len(show_chat(render_chat(messages)))
    sizes = f"{len(messages)} messages, {num_chars:,} characters, {len(prompt.token_ids):,} tokens"
    yield f"{steps} steps, {sizes}; medians of {runs}"
    cold = median_ms(lambda: ours(forgetful()), runs)
    warm = median_ms(lambda: ours(tokenizer), runs)
    step = statistics.median(_one_more(ours, forgetful, messages, longer) for _ in range(runs))
    peer = median_ms(usual, runs)
    yield f"  ours, nothing seen before:         {cold:7.1f} ms; / the usual way: {cold / peer:.2f}x"
    yield f"  ours, one step more than before:   {step:7.1f} ms; / the usual way: {step / peer:.2f}x"
    yield f"  ours, all seen before:             {warm:7.1f} ms; / the usual way: {warm / peer:.2f}x"
    yield f"  jinja, then tiktoken on the text:  {peer:7.1f} ms"
    encode = make_transformers_way(model_dir, tokenizer)
    same = encode(as_json) == flat
    yield f"  transformers' apply_chat_template: {median_ms(lambda: encode(as_json), runs):7.1f} ms; same ids: {same}"


def _one_more(
    ours: Callable[..., Any],
    forgetful: Callable[[], Tokenizer],
    messages: list[ChatMessage],
    longer: list[ChatMessage],
) -> float:
    """Milliseconds for a conversation of which all but the last step was encoded before."""
    tokenizer = forgetful()
    ours(tokenizer, messages)
    return median_ms(lambda: ours(tokenizer, longer), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for line in measure(arguments.steps, arguments.runs, arguments.ranks, Path(folder)):
            print(line)


if __name__ == "__main__":
    main()
