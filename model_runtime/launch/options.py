"""Typed options of an engine, also parsed from `NAME=VALUE` text, checked before anything starts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from model_runtime.errors import RuntimeFault, did_you_mean

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOptions:
    """Options of this project's own engine and server.

    Attributes:
        model_dir: Folder of a checkpoint.
        host: Address to listen on.
        port: Port to listen on; 0 for a free one, which is printed.
        served_name: Model name in requests; None for the folder's name.
        api_keys_env: Environment variable with the accepted keys, comma-separated; without it no key is required.
        device: `cpu`, `cuda` or `cuda:N`; None for a GPU if there is one.
        dtype: `bfloat16`, `float32` or `float16`; None for the checkpoint's.
        kernels: `auto` to use Triton where it runs, `torch` to never use it, `triton` to require it.
        kernel_cache_dir: Folder for packed experts in the layout of Triton's kernels, so that the next start does not
            convert them again; as large as the experts. None for no cache.
        cuda_graphs: True to decode with CUDA graphs, captured at the start, on a GPU with Triton's kernels.
        batch_invariant: True to compute each request with the same bits alone and among others, with operators of its
            own instead of `kernels`; two to five times slower on a CPU.
        tensor_parallel_size: Number of ranks that share each layer.
        max_model_len: Maximum tokens of a prompt with its answer; None for the limit of model and cache.
        cache_gib: Memory of the KV cache; None for the free memory.
        num_blocks: Blocks of the KV cache, instead of `cache_gib`.
        block_size: Tokens per block.
        max_num_batched_tokens: Maximum tokens of one engine step.
        max_num_seqs: Maximum sequences of one engine step.
        latent_norm_eps: Epsilon of the two norms inside MLA; None for the configuration's.
        allow_http_media: True to allow images by http(s) URL in requests.
        max_images: Maximum images in a request.
        max_body_mib: Maximum size of a request.
        feature_cache_mib: Memory for encoded images that may be sent again.
        queue_timeout_s: Maximum seconds in the queue; None for no limit.
        request_timeout_s: Maximum seconds of a whole request; None for no limit.
        queue_size: Maximum waiting requests; further ones are rejected as busy.
        drain_s: Seconds for requests in flight to finish at shutdown.
        weights_dir: Folder below which `/v1/update_weights` may choose new weights; None to refuse them.
    """

    model_dir: Path
    host: str = "127.0.0.1"
    port: int = 8000
    served_name: str | None = None
    api_keys_env: str | None = None
    device: str | None = None
    dtype: Literal["bfloat16", "float32", "float16"] | None = None
    kernels: Literal["auto", "torch", "triton"] = "auto"
    kernel_cache_dir: Path | None = None
    cuda_graphs: bool = True
    batch_invariant: bool = False
    tensor_parallel_size: int = 1
    max_model_len: int | None = None
    cache_gib: float | None = None
    num_blocks: int | None = None
    block_size: int = 64
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 64
    latent_norm_eps: float | None = None
    allow_http_media: bool = False
    max_images: int = 128
    max_body_mib: int = 256
    feature_cache_mib: int = 1024
    queue_timeout_s: float | None = None
    request_timeout_s: float | None = None
    queue_size: int = 1024
    drain_s: float = 30.0
    weights_dir: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Options of vLLM as the engine. None for vLLM's own default.

    Attributes:
        model: Folder of a checkpoint, or a model name that vLLM can resolve.
        vllm: The `vllm` program, or the virtual environment that has it.
        host: Address to listen on.
        port: Port to listen on.
        served_name: Model name in requests.
        api_key_env: Environment variable with the key; vLLM gets it through its environment, never on its command line.
        tensor_parallel_size: Number of GPUs that share each layer.
        pipeline_parallel_size: Number of pipeline stages, groups of GPUs with a part of the layers each.
        data_parallel_size: Replicas of attention with their own cache.
        expert_parallel: True to distribute whole experts over GPUs instead of splitting each.
        executor: `mp` on one node, `ray` over several; requires a running Ray cluster.
        max_model_len: Maximum tokens of a prompt with its answer.
        gpu_memory_utilization: Share of each GPU's memory for vLLM, 0 to 1.
        max_num_batched_tokens: Maximum tokens of one engine step.
        max_num_seqs: Maximum sequences of one engine step.
        mm_processor_cache_gb: Memory for prepared images; 0 if each is sent only once.
        mm_processor_cache_type: `lru`, or `shm` to share it between processes.
        max_images: Maximum images and video chunks in a request.
        allowed_media_path: Folder below which requests may name images by file: URL.
        draft_model: EAGLE-3 draft for speculative decoding.
        num_speculative_tokens: Tokens per draft.
        prompt_tokens_details: True to report the number of cached prompt tokens in answers.
        logprobs_mode: Distribution of log-probabilities in answers: `processed_logprobs` for the one that tokens are
            drawn from (with temperature and top_p), `raw_logprobs` for the model's own, which is vLLM's default.
        extra: Further arguments of `vllm serve`, passed unchanged.
    """

    model: str
    vllm: str = "vllm"
    host: str = "127.0.0.1"
    port: int = 8000
    served_name: str | None = None
    api_key_env: str | None = None
    tensor_parallel_size: int = 8
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    expert_parallel: bool = False
    executor: Literal["mp", "ray"] | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    mm_processor_cache_gb: float | None = None
    mm_processor_cache_type: Literal["lru", "shm"] | None = None
    max_images: int | None = None
    allowed_media_path: Path | None = None
    draft_model: str | None = None
    num_speculative_tokens: int = 3
    prompt_tokens_details: bool = True
    logprobs_mode: Literal["processed_logprobs", "raw_logprobs"] = "processed_logprobs"
    extra: tuple[str, ...] = ()


def check_options(options: NativeOptions | VllmOptions) -> None:
    """Check that each number is in its valid range.

    Raises:
        RuntimeFault: If one is not; the text names all of them.
    """
    wrong = list(_wrong_numbers(options))
    if wrong:
        raise RuntimeFault("; ".join(wrong))


def _wrong_numbers(options: NativeOptions | VllmOptions) -> Iterator[str]:
    for name in POSITIVE:
        value = getattr(options, name, None)
        if value is not None and value <= 0:
            yield f"{name} is {value}, expected a positive number"
    lowest = 0 if isinstance(options, NativeOptions) else 1
    if not lowest <= options.port <= 65_535:
        yield f"port is {options.port}, expected {lowest} to 65535"
    share = getattr(options, "gpu_memory_utilization", None)
    if share is not None and not 0 < share <= 1:
        yield f"gpu_memory_utilization is {share}, expected a share above 0 and at most 1"
    cache = getattr(options, "mm_processor_cache_gb", None)
    if cache is not None and cache < 0:
        yield f"mm_processor_cache_gb is {cache}, expected 0 or more"
    if options.api_keys_env == "" if isinstance(options, NativeOptions) else options.api_key_env == "":
        yield "the variable of the API key has no name"


POSITIVE = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "max_model_len", "max_num_seqs"),
    *("max_num_batched_tokens", "num_speculative_tokens", "block_size", "num_blocks", "cache_gib", "queue_size"),
    *("max_body_mib", "latent_norm_eps", "feature_cache_mib", "queue_timeout_s", "request_timeout_s"),
)
"""Fields of both kinds of options that must be positive if given."""


def is_exposed(host: str) -> bool:
    """Return True if other machines can reach a server that listens on this address."""
    return host not in LOOPBACK and not host.startswith("127.")


AnyOptions = TypeVar("AnyOptions", NativeOptions, VllmOptions)


def with_settings(options: AnyOptions, settings: Iterable[str]) -> AnyOptions:
    """Return the options with some fields replaced; `NAME=` alone means None.

    Raises:
        RuntimeFault: If a text is not NAME=VALUE, names no field, or the value has the wrong type.
    """
    changed: dict[str, Any] = {}
    kind = type(options)
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in names_of(kind)}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise RuntimeFault(f"--set {setting!r} is not NAME=VALUE")
        changed[name] = _value(name, value, hints)
    return replace(options, **changed)


def _value(name: str, text: str, hints: dict[str, Any]) -> object:
    if name not in hints:
        hint = did_you_mean(name, hints) or f"; expected one of {', '.join(sorted(hints))}"
        raise RuntimeFault(f"--set {name}: this engine has no such setting{hint}")
    if text == "" and type(None) in getattr(hints[name], "__args__", ()):
        return None
    try:
        value: object = TypeAdapter(hints[name]).validate_strings(text)
    except ValidationError as error:
        raise RuntimeFault(f"--set {name}={text}: {error.errors()[0]['msg']}") from error
    return value


def names_of(options: type[NativeOptions] | type[VllmOptions]) -> list[str]:
    """Return the names that `with_settings` accepts."""
    return [field.name for field in fields(options) if field.name != "extra"]
