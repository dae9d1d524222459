import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from model_runtime.errors import RuntimeFault
from model_runtime.launch.command import (
    OWNED,
    check_version,
    find_bounds,
    find_vllm,
    make_vllm_command,
    make_vllm_environment,
    own_environment,
    parse_version,
    read_version,
    show_command,
)
from model_runtime.launch.options import NativeOptions, VllmOptions, check_options, is_exposed, names_of, with_settings

ALWAYS = (
    "--tensor-parallel-size 8 --mm-encoder-tp-mode data --tool-call-parser kimi_k2 --reasoning-parser kimi_k2 "
    "--enable-auto-tool-choice --trust-remote-code --host 127.0.0.1 --port 8000 "
    "--logprobs-mode processed_logprobs --enable-prompt-tokens-details"
).split()
PLAIN = VllmOptions(model="moonshotai/Kimi-K2.5")


def test_the_plain_command_is_the_model_cards() -> None:
    assert make_vllm_command(PLAIN) == ["vllm", "serve", "moonshotai/Kimi-K2.5", *ALWAYS]


def test_everything_at_once() -> None:
    options = VllmOptions(
        model="/m",
        host="0.0.0.0",
        port=9000,
        served_name="k",
        api_key_env="KEY",
        tensor_parallel_size=4,
        pipeline_parallel_size=2,
        data_parallel_size=3,
        expert_parallel=True,
        executor="ray",
        max_model_len=65536,
        gpu_memory_utilization=0.85,
        max_num_batched_tokens=4096,
        max_num_seqs=32,
        mm_processor_cache_gb=0,
        mm_processor_cache_type="shm",
        max_images=20,
        allowed_media_path=Path("/pictures"),
        draft_model="org/eagle3",
        num_speculative_tokens=4,
        prompt_tokens_details=False,
        logprobs_mode="raw_logprobs",
        extra=("--seed", "3", "--kv-cache-dtype=fp8"),
    )
    command = make_vllm_command(options, program="/v/bin/vllm")
    assert command[:3] == ["/v/bin/vllm", "serve", "/m"]
    assert command[-3:] == ["--seed", "3", "--kv-cache-dtype=fp8"]
    assert command[3:-3] == [
        *("--tensor-parallel-size", "4", "--mm-encoder-tp-mode", "data"),
        *("--tool-call-parser", "kimi_k2", "--reasoning-parser", "kimi_k2"),
        *("--enable-auto-tool-choice", "--trust-remote-code", "--host", "0.0.0.0", "--port", "9000"),
        *("--logprobs-mode", "raw_logprobs"),
        *("--pipeline-parallel-size", "2", "--data-parallel-size", "3", "--data-parallel-backend", "ray"),
        *("--enable-expert-parallel", "--distributed-executor-backend", "ray"),
        *("--served-model-name", "k", "--max-model-len", "65536", "--gpu-memory-utilization", "0.85"),
        *("--max-num-batched-tokens", "4096", "--max-num-seqs", "32"),
        *("--mm-processor-cache-gb", "0", "--mm-processor-cache-type", "shm"),
        *("--limit-mm-per-prompt", '{"vision_chunk": 20}', "--allowed-local-media-path", "/pictures"),
        *("--speculative-config", '{"method": "eagle3", "model": "org/eagle3", "num_speculative_tokens": 4}'),
    ]


def test_every_argument_that_is_set_here_is_owned() -> None:
    given = {"executor": "ray", "data_parallel_size": 2, "pipeline_parallel_size": 2, "expert_parallel": True}
    values = {"served_name": "k", "max_model_len": 1, "gpu_memory_utilization": 0.5, "max_num_batched_tokens": 1}
    more = {"max_num_seqs": 1, "mm_processor_cache_gb": 1, "mm_processor_cache_type": "lru", "max_images": 1}
    last = {"allowed_media_path": Path("/x"), "draft_model": "d"}
    command = make_vllm_command(VllmOptions(model="m", **given, **values, **more, **last))  # type: ignore[arg-type]
    assert {argument for argument in command if argument.startswith("--")} <= set(OWNED)


@pytest.mark.parametrize(
    ("extra", "advice"),
    [
        (("--tensor-parallel-size", "4"), "use --tp"),
        (("--tensor_parallel_size=4",), "use --tp"),
        (("-tp", "4"), "use --tp"),
        (("--tensor-par", "4"), "use --tp"),
        (("--no-enable-prompt-tokens-details",), "use --set prompt_tokens_details"),
        (("--seed", "3", "--api-key", "sekrit"), "use --api-key-env"),
        (("--api-key=sekrit",), "use --api-key-env"),
        (("--tool-call-parser", "hermes"), "K2.5 needs kimi_k2"),
        (("seed", "3"), "not an argument of vLLM"),
    ],
)
def test_what_the_command_says_itself_cannot_be_said_again(extra: tuple[str, ...], advice: str) -> None:
    with pytest.raises(RuntimeFault) as caught:
        make_vllm_command(replace(PLAIN, extra=extra))
    assert advice in str(caught.value)
    assert "sekrit" not in str(caught.value)


def test_the_key_goes_by_environment_only(tmp_path: Path) -> None:
    options = replace(PLAIN, model=str(tmp_path), api_key_env="MY_KEY")
    made = make_vllm_environment(options, {"MY_KEY": "sekrit", "PATH": "/bin"})
    assert made == {
        "MY_KEY": "sekrit",
        "PATH": "/bin",
        "VLLM_API_KEY": "sekrit",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }
    shown = show_command(make_vllm_command(options), own_environment(options), options.api_key_env)
    assert "sekrit" not in shown
    assert 'VLLM_API_KEY="$MY_KEY" vllm serve' in shown
    with pytest.raises(RuntimeFault, match="MY_KEY, which is not set"):
        make_vllm_environment(options, {"MY_KEY": ""})


def test_a_name_of_a_model_may_be_looked_up() -> None:
    assert own_environment(PLAIN) == {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def test_the_line_shown_is_one_that_a_shell_takes_apart_again() -> None:
    options = replace(PLAIN, model="/my models/k2.5", max_images=20)
    shown = shlex.split(show_command(make_vllm_command(options), {"A": "b c"}))
    assert shown == ["A=b c", *make_vllm_command(options)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (replace(PLAIN, tensor_parallel_size=0), "tensor_parallel_size is 0"),
        (replace(PLAIN, port=70000), "port is 70000"),
        (replace(PLAIN, gpu_memory_utilization=90), "gpu_memory_utilization is 90"),
        (replace(PLAIN, mm_processor_cache_gb=-1), "mm_processor_cache_gb is -1"),
        (replace(PLAIN, api_key_env=""), "has no name"),
        (
            NativeOptions(model_dir=Path("m"), block_size=-1, port=70000),
            "block_size is -1, expected a positive number; port",
        ),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: NativeOptions | VllmOptions, text: str) -> None:
    with pytest.raises(RuntimeFault) as caught:
        check_options(options)
    assert text in str(caught.value)


def test_settings_are_typed() -> None:
    base = NativeOptions(model_dir=Path("m"), latent_norm_eps=1e-5)
    settings = ["block_size=32", "cache_gib=1.5", "allow_http_media=true", "latent_norm_eps=", "kernels=torch"]
    expected = NativeOptions(
        model_dir=Path("m"), block_size=32, cache_gib=1.5, allow_http_media=True, latent_norm_eps=None, kernels="torch"
    )
    assert with_settings(base, settings) == expected
    assert with_settings(PLAIN, ["allowed_media_path=/x"]).allowed_media_path == Path("/x")
    assert "extra" not in names_of(VllmOptions)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("block_size", "is not NAME=VALUE"),
        ("blok_size=3", "did you mean 'block_size'"),
        ("block_size=many", "--set block_size=many"),
        ("kernels=fast", "'auto', 'torch' or 'triton'"),
        ("extra=x", "has no such setting"),
    ],
)
def test_settings_that_are_wrong_are_told(setting: str, text: str) -> None:
    with pytest.raises(RuntimeFault) as caught:
        with_settings(NativeOptions(model_dir=Path("m")), [setting])
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.20.0\n", (0, 20, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("vllm 0.19.1rc2.dev3", (0, 19, 1)),
        ("INFO 11-20 18.5 starting\n0.33\n", (0, 33, 0)),
        ("none", None),
        ("", None),
    ],
)
def test_versions_are_read(text: str, version: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == version


def test_bounds_by_version_and_options() -> None:
    with pytest.raises(RuntimeFault, match=r"vLLM 0.14.1 cannot serve this: K2.5 is not known to it"):
        check_version((0, 14, 1), PLAIN)
    with pytest.raises(RuntimeFault, match=r"EAGLE-3 drafts of K2.5 need 0.18.0"):
        check_version((0, 17, 0), replace(PLAIN, draft_model="d"))
    assert [bound.below for bound in find_bounds((0, 17, 0), PLAIN)] == [(0, 20, 0), (0, 32, 0)]
    assert "streamed answers lose tool calls" in check_version((0, 19, 1), PLAIN)[0]
    assert [bound.below for bound in find_bounds((0, 20, 0), PLAIN)] == [(0, 32, 0)]
    assert check_version((0, 33, 0), replace(PLAIN, draft_model="d")) == []
    assert "cannot be read" in check_version(None, PLAIN)[0]


def make_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_program_is_found_and_asked_for_its_version(tmp_path: Path) -> None:
    program = make_program(tmp_path / "env" / "bin" / "vllm", f"#!{sys.executable} -S\nprint('0.21.3')")
    assert find_vllm(str(tmp_path / "env")) == program
    assert find_vllm(str(program)) == program
    assert read_version(program) == (0, 21, 3)
    make_program(program.with_name("python"), "#!/bin/sh\necho 0.22.0")
    assert read_version(program) == (0, 22, 0)
    make_program(program.with_name("python"), "#!/bin/sh\nexit 1")
    assert read_version(program) == (0, 21, 3)
    make_program(program, "#!/bin/sh\nexit 1")
    assert read_version(program) is None
    for missing in (str(tmp_path / "nothing"), "no-such-program-of-any-name"):
        with pytest.raises(RuntimeFault, match="is not an executable program"):
            find_vllm(missing)


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True), ("10.1.2.3", True)]
)
def test_which_addresses_others_can_reach(host: str, expected: bool) -> None:
    assert is_exposed(host) is expected
