"""Why vLLM did not start, read from what it wrote, and what to do about it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownFault:
    """A text that vLLM or what it stands on writes, what it means, and what to do."""

    pattern: str
    meaning: str
    advice: str


KNOWN = (
    KnownFault(
        r"unrecognized arguments: (.*)",
        "this vLLM does not know {1}",
        "upgrade vLLM, or leave the option out that this comes from",
    ),
    KnownFault(
        r"invalid (tool call|reasoning) parser|KeyError: 'kimi_k2'",
        "this vLLM has no parser named kimi_k2",
        "upgrade vLLM to 0.20.0 or newer",
    ),
    KnownFault(
        r"Model architectures .* (are not supported|failed to be inspected)|model type `?'?kimi_k25|"
        r"does not recognize this architecture",
        "this vLLM does not know the model's architecture",
        "upgrade vLLM to 0.15.0 or newer; --model must be a folder of Kimi K2.5 itself",
    ),
    KnownFault(
        r"Address already in use|\[Errno 98\]",
        "the port is taken",
        "choose another with --port, or end the program that has it",
    ),
    KnownFault(
        r"libcuda\.so|No CUDA GPUs are available|Failed to infer device type|Found no NVIDIA driver",
        "vLLM sees no GPU",
        "check `nvidia-smi`; in a container give it the GPUs (--gpus all); an empty CUDA_VISIBLE_DEVICES hides them",
    ),
    KnownFault(
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient",
        "the NVIDIA driver is older than this vLLM's CUDA",
        "upgrade the driver, or take a vLLM built for an older CUDA",
    ),
    KnownFault(
        r"is less than desired GPU memory utilization",
        "something else already takes memory of a GPU",
        "end what `nvidia-smi` shows, or lower --set gpu_memory_utilization=SHARE",
    ),
    KnownFault(
        r"No available memory for the cache blocks|larger than the available KV cache|"
        r"larger than the maximum number of tokens that can be stored in KV cache",
        "weights fit, but the cache does not hold one sequence of that length",
        "lower --max-model-len, raise --set gpu_memory_utilization=SHARE, or use more GPUs: see `cua serve --plan`",
    ),
    KnownFault(
        r"CUDA out of memory|OutOfMemoryError|HIP out of memory|CUDA error: out of memory",
        "a GPU ran out of memory",
        "see what fits with `cua serve --plan`; lower --max-model-len, --set max_num_batched_tokens=N or "
        "--set gpu_memory_utilization=SHARE",
    ),
    KnownFault(
        r"World size \(\d+\) is larger than the number of available GPUs|invalid device ordinal|"
        r"larger than the number of available GPUs",
        "more GPUs are asked for than there are",
        "lower --tp, or join nodes with --ray",
    ),
    KnownFault(
        r"Could not find any running Ray instance|Failed to connect to Ray|placement group .* (cannot|can't)",
        "the Ray cluster is not there or too small",
        "start it: `ray start --head` on this node, `ray start --address HEAD:6379` on the others",
    ),
    KnownFault(
        r"NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError",
        "the GPUs cannot talk to each other",
        "run again with NCCL_DEBUG=INFO; over nodes set NCCL_SOCKET_IFNAME to the network card; in a container "
        "give /dev/shm room (--ipc=host)",
    ),
    KnownFault(
        r"operator torchvision::nms does not exist",
        "torchvision was built for another torch",
        "uninstall torchvision, torchaudio and torchcodec there, or install those made for that torch",
    ),
    KnownFault(
        r"cannot import name 'bytes_to_unicode'",
        "the model's own tokenizer code does not know this transformers",
        "upgrade vLLM, or install the transformers it asks for",
    ),
    KnownFault(
        r"No module named '(tiktoken|blobfile)'",
        "the tokenizer's package {1} is missing",
        "pip install {1} in vLLM's environment",
    ),
    KnownFault(
        r"No space left on device|Bus error",
        "a disk or /dev/shm is full",
        "free the disk; in a container give /dev/shm room (--ipc=host or --shm-size 32g)",
    ),
    KnownFault(
        r"SafetensorError|header too large|incomplete metadata|does not exist: .*safetensors",
        "a file of the checkpoint is broken or cut off",
        "compare sizes with the index and fetch that shard again",
    ),
    KnownFault(
        r"Repository Not Found|is not a local folder|Invalid repository ID|couldn't connect to",
        "there is no model of that name",
        "give --model the folder of the checkpoint",
    ),
)
"""In order of precision: the first that matches anywhere in what was written is what is told."""


def find_fault(lines: Iterable[str]) -> KnownFault | None:
    """The first known fault that these lines tell of, its blanks filled in."""
    text = "\n".join(lines)
    for fault in KNOWN:
        found = re.search(fault.pattern, text)
        if found:
            first = found.group(1) if found.groups() and found.group(1) else ""
            return KnownFault(
                fault.pattern, fault.meaning.replace("{1}", first), fault.advice.replace("{1}", first or "it")
            )
    return None


def explain_exit(return_code: int, lines: list[str]) -> str:
    """One sentence: how it ended, why as far as is known, what to do."""
    ended = _how_it_ended(return_code)
    fault = find_fault(lines)
    if fault is not None:
        return f"vLLM {ended}: {fault.meaning}. {fault.advice[0].upper()}{fault.advice[1:]}"
    if return_code in (-9, 137):
        return f"vLLM {ended}: the kernel probably ran out of memory for it (see dmesg). Loading needs room in RAM"
    last = next((line for line in reversed(lines) if re.search(r"Error|error:|Exception", line)), "")
    told = last or next((line for line in reversed(lines) if line.strip()), "it wrote nothing")
    return f"vLLM {ended}: {told.strip()}. The lines above say more"


def _how_it_ended(return_code: int) -> str:
    return f"was ended by signal {-return_code}" if return_code < 0 else f"ended with exit code {return_code}"
