"""The `vllm serve` command for Kimi K2.5: arguments, environment, and known limits of each vLLM version.

This module does not serve; it only starts a process to read vLLM's version.

Source: model card of Kimi K2.5, vLLM's recipe for it, `vllm serve --help` of 0.32.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model_runtime.errors import RuntimeFault, did_you_mean
from model_runtime.launch.options import VllmOptions, check_options

Severity = Literal["error", "warning"]
Version = tuple[int, int, int]

ASK_PYTHON = """
import importlib.metadata as m
names = m.packages_distributions().get("vllm") or ["vllm"]
print(m.version(names[0]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProblem:
    """A known problem below a version.

    Attributes:
        below: First version without the problem.
        severity: `error` if vLLM must not be started.
        reason: Description of the problem.
        only_with: Field of the options that must be set for the problem to occur; None for always.
    """

    below: Version
    severity: Severity
    reason: str
    only_with: str | None = None


BOUNDS = (
    KnownProblem(below=(0, 15, 0), severity="error", reason="K2.5 is not known to it: first used with 0.15.0"),
    KnownProblem(
        below=(0, 18, 0),
        severity="error",
        reason="EAGLE-3 drafts of K2.5 need 0.18.0",
        only_with="draft_model",
    ),
    KnownProblem(
        below=(0, 20, 0),
        severity="warning",
        reason="streamed answers lose tool calls (vllm-project/vllm 41182) and long arguments are cut (37184); "
        "both are fixed in 0.20.0",
    ),
    KnownProblem(
        below=(0, 32, 0),
        severity="warning",
        reason="reasoning and tool calls have separate parsers, so markers can leak where a call starts inside "
        "the reasoning; since 0.32.0 it is one parser",
    ),
)
"""Problems known in November 2026. K2.6's guide names 0.19.1 as verified."""


def find_vllm(vllm: str) -> Path:
    """Return the program for `--vllm`: a program, a virtual environment, or a name on PATH.

    Raises:
        RuntimeFault: If it is not found.
    """
    path = Path(vllm).expanduser()
    if path.is_dir():
        path = path / "bin" / "vllm"
    program = shutil.which(str(path)) if path.parent != Path() else shutil.which(vllm)
    if program is None:
        advice = "Install vLLM in a virtual environment of its own and name it: --vllm FOLDER"
        raise RuntimeFault(f"{str(path)!r} is not an executable program. {advice}")
    return Path(program)


def read_version(program: Path, *, timeout_s: float = 120.0) -> Version | None:
    """Return the version of a vLLM, from the interpreter next to the program, else from the program; None if both
    fail.
    """
    python = program.with_name("python")
    commands = [[str(python), "-I", "-c", ASK_PYTHON]] if python.exists() else []
    for command in [*commands, [str(program), "--version"]]:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        except (subprocess.TimeoutExpired, OSError):
            continue
        version = parse_version(done.stdout) if done.returncode == 0 else None
        if version is not None:
            return version
    return None


def parse_version(text: str) -> Version | None:
    """Return the version in the last line of a text, such as `0.20.0rc1+cpu`; None if there is none."""
    lines = text.strip().splitlines()
    match = re.search(r"(?<![\d.])(\d+)\.(\d+)(?:\.(\d+))?", lines[-1]) if lines else None
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def find_bounds(version: Version, options: VllmOptions) -> list[KnownProblem]:
    """Return the known problems of this version with these options."""
    return [
        bound
        for bound in BOUNDS
        if version < bound.below and (bound.only_with is None or getattr(options, bound.only_with))
    ]


def check_version(version: Version | None, options: VllmOptions) -> list[str]:
    """Return warnings about this version.

    Raises:
        RuntimeFault: If it cannot serve K2.5 with these options.
    """
    if version is None:
        return ["the version of vLLM cannot be read; K2.5 needs 0.15.0 or newer, 0.20.0 for streamed tool calls"]
    shown = ".".join(map(str, version))
    bounds = find_bounds(version, options)
    errors = [bound.reason for bound in bounds if bound.severity == "error"]
    if errors:
        raise RuntimeFault(f"vLLM {shown} cannot serve this: {'; '.join(errors)}. Upgrade it, or name another: --vllm")
    return [f"vLLM {shown}: {bound.reason}" for bound in bounds]


PARSER = "kimi_k2"

OWNED = {
    "--model": "--model",
    "--tensor-parallel-size": "--tp",
    "-tp": "--tp",
    "--pipeline-parallel-size": "--pp",
    "-pp": "--pp",
    "--data-parallel-size": "--dp",
    "-dp": "--dp",
    "--data-parallel-backend": "--ray",
    "--enable-expert-parallel": "--ep",
    "-ep": "--ep",
    "--distributed-executor-backend": "--ray",
    "--max-model-len": "--max-model-len",
    "--gpu-memory-utilization": "--set gpu_memory_utilization=SHARE",
    "--max-num-batched-tokens": "--set max_num_batched_tokens=N",
    "--max-num-seqs": "--set max_num_seqs=N",
    "--host": "--host",
    "--port": "--port",
    "--served-model-name": "--served-name",
    "--api-key": "--api-key-env, since every user of the machine can read command lines",
    "--speculative-config": "--draft-model",
    "-sc": "--draft-model",
    "--mm-encoder-tp-mode": "nothing: the vision tower is small, each GPU keeps all of it",
    "--mm-processor-cache-gb": "--set mm_processor_cache_gb=N",
    "--mm-processor-cache-type": "--set mm_processor_cache_type=lru|shm",
    "--limit-mm-per-prompt": "--set max_images=N",
    "--allowed-local-media-path": "--set allowed_media_path=FOLDER",
    "--tool-call-parser": "nothing: K2.5 needs kimi_k2",
    "--reasoning-parser": "nothing: K2.5 needs kimi_k2",
    "--enable-auto-tool-choice": "nothing: it is always on",
    "--trust-remote-code": "nothing: it is always on",
    "--enable-prompt-tokens-details": "--set prompt_tokens_details=true|false",
    "--logprobs-mode": "--set logprobs_mode=processed_logprobs|raw_logprobs",
}
"""Arguments of vLLM that this command sets itself, with the replacement for giving them after `--`."""


def make_vllm_command(options: VllmOptions, *, program: str | None = None) -> list[str]:
    """Return the command line, program first. It never contains a secret.

    Raises:
        RuntimeFault: If an option is out of range, or an extra argument duplicates an option.
    """
    check_options(options)
    check_extra(options.extra)
    return [program or options.vllm, "serve", options.model, *_arguments(options), *options.extra]


def _arguments(options: VllmOptions) -> Iterator[str]:
    yield from ("--tensor-parallel-size", str(options.tensor_parallel_size))
    yield from ("--mm-encoder-tp-mode", "data")
    yield from ("--tool-call-parser", PARSER, "--reasoning-parser", PARSER)
    yield from ("--enable-auto-tool-choice", "--trust-remote-code")
    yield from ("--host", options.host, "--port", str(options.port))
    yield from ("--logprobs-mode", options.logprobs_mode)
    if options.prompt_tokens_details:
        yield "--enable-prompt-tokens-details"
    yield from _layout(options)
    for name, value in _values(options).items():
        if value is not None:
            yield from (name, str(value))


def _layout(options: VllmOptions) -> Iterator[str]:
    if options.pipeline_parallel_size > 1:
        yield from ("--pipeline-parallel-size", str(options.pipeline_parallel_size))
    if options.data_parallel_size > 1:
        yield from ("--data-parallel-size", str(options.data_parallel_size))
        if options.executor == "ray":
            yield from ("--data-parallel-backend", "ray")
    if options.expert_parallel:
        yield "--enable-expert-parallel"
    if options.executor is not None:
        yield from ("--distributed-executor-backend", options.executor)


def _values(options: VllmOptions) -> dict[str, object]:
    return {
        "--served-model-name": options.served_name,
        "--max-model-len": options.max_model_len,
        "--gpu-memory-utilization": options.gpu_memory_utilization,
        "--max-num-batched-tokens": options.max_num_batched_tokens,
        "--max-num-seqs": options.max_num_seqs,
        "--mm-processor-cache-gb": options.mm_processor_cache_gb,
        "--mm-processor-cache-type": options.mm_processor_cache_type,
        "--limit-mm-per-prompt": _media_limit(options.max_images),
        "--allowed-local-media-path": options.allowed_media_path,
        "--speculative-config": _speculation(options),
    }


def _media_limit(max_images: int | None) -> str | None:
    """Return the media limit: K2.5 has one modality in vLLM, `vision_chunk`, an image or up to four frames of a
    video.
    """
    return None if max_images is None else json.dumps({"vision_chunk": max_images})


def _speculation(options: VllmOptions) -> str | None:
    if options.draft_model is None:
        return None
    drafts = {"method": "eagle3", "model": options.draft_model}
    return json.dumps({**drafts, "num_speculative_tokens": options.num_speculative_tokens})


def check_extra(extra: tuple[str, ...]) -> None:
    """Check that extra arguments for vLLM do not set anything that this command sets.

    Raises:
        RuntimeFault: If one does, or the first is not an option.
    """
    for argument in extra:
        name, *_ = argument.split("=", 1)
        name = name.replace("_", "-") if name.startswith("--") else name
        mine = OWNED.get(name) or OWNED.get(name.replace("--no-", "--", 1)) or OWNED.get(_full_name(name))
        if mine is not None:
            raise RuntimeFault(f"{argument.split('=')[0]} after -- is also an option of `cua serve`; use {mine}")
    if extra and not extra[0].startswith("-"):
        hint = did_you_mean(f"--{extra[0]}", OWNED)
        raise RuntimeFault(f"{extra[0]!r} is not an argument of vLLM; expected one that starts with a dash{hint}")


def _full_name(name: str) -> str:
    """Return the full name of an abbreviated argument, as vLLM's parser does: `--tensor-par` is
    `--tensor-parallel-size`.
    """
    starts = [known for known in OWNED if name.startswith("--") and len(name) > 4 and known.startswith(name)]
    return starts[0] if len(starts) == 1 else name


def make_vllm_environment(options: VllmOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for vLLM: without telemetry, with the key, offline if the model is on disk.

    Raises:
        RuntimeFault: If the environment variable for the key is empty or not set.
    """
    variables = {**environment, **(own_environment(options))}
    if options.api_key_env is not None:
        key = environment.get(options.api_key_env, "")
        if not key:
            raise RuntimeFault(f"--api-key-env names {options.api_key_env}, which is not set; set it to the key")
        variables["VLLM_API_KEY"] = key
    return variables


def own_environment(options: VllmOptions) -> dict[str, str]:
    """Return the variables that are set for vLLM, without the key."""
    own = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    return {**own, "HF_HUB_OFFLINE": "1"} if Path(options.model).is_dir() else own


def show_command(command: list[str], environment: Mapping[str, str], api_key_env: str | None = None) -> str:
    """Return the command as a line for a POSIX shell; a key is shown only as its variable's name."""
    before = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    key = [f'VLLM_API_KEY="${api_key_env}"'] if api_key_env else []
    return " ".join([*before, *key, shlex.join(command)])
