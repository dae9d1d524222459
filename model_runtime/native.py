"""This project's own engine, from a checkpoint folder to an `EngineThread`.

engine = make_engine(NativeOptions(model_dir=folder))
async for output in engine.generate(request): ...
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from model_runtime.config import load_config
from model_runtime.engine.contract import ModelCard
from model_runtime.engine.options import EngineOptions
from model_runtime.errors import ConfigError
from model_runtime.launch.options import NativeOptions
from model_runtime.require import require
from model_runtime.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from model_runtime.engine.executor import Executor
    from model_runtime.engine.thread import EngineThread
    from model_runtime.parallel.ranks import RankSpec


def make_engine(options: NativeOptions) -> "EngineThread":
    """Load a model on this machine and start its engine.

    Raises:
        RuntimeFault: The checkpoint, the sizes or the machine do not fit; the text says which and what to do.
    """
    require("torch")
    from model_runtime.engine.engine import Engine
    from model_runtime.engine.thread import EngineThread

    config = load_config(options.model_dir)
    tokenizer = load_tokenizer(options.model_dir)
    check_vocabulary(tokenizer, config.text.vocab_size, config.media_placeholder_token_id)
    sizes = make_engine_options(options)
    listeners: list[Callable[[str], None]] = []

    def tell(text: str) -> None:
        for listener in listeners:
            listener(text)

    executor, sizes = load_executor(make_spec(options, sizes), tell)
    room = sizes.num_blocks * sizes.block_size
    card = ModelCard(
        name=options.served_name or options.model_dir.resolve().name,
        max_model_len=min(config.text.max_position_embeddings, room, sizes.max_model_len or room),
        vocab_size=tokenizer.vocab_size,
        stop_token_ids=(tokenizer.special.im_end, tokenizer.special.eos),
    )
    thread = EngineThread(Engine(executor, tokenizer, card, sizes), tokenizer)
    listeners.append(thread.die)
    return thread


def make_engine_options(options: NativeOptions) -> EngineOptions:
    """The engine's sizes; a number of blocks that is not given is settled when the model is loaded."""
    return EngineOptions(
        block_size=options.block_size,
        num_blocks=options.num_blocks or 2,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_waiting=options.queue_size,
    ).check()


def make_spec(options: NativeOptions, sizes: EngineOptions) -> "RankSpec":
    """What every rank loads."""
    from model_runtime.parallel.ranks import RankSpec, find_address

    size = options.tensor_parallel_size
    device = options.device or find_device()
    return RankSpec(
        model_dir=options.model_dir,
        size=size,
        device=device,
        dtype=options.dtype,
        latent_norm_eps=options.latent_norm_eps,
        kernels=options.kernels,
        options=sizes,
        num_blocks=options.num_blocks,
        cache_bytes=None if options.cache_gib is None else int(options.cache_gib * 2**30),
        address=find_address() if size > 1 else "",
        num_threads=1 if size > 1 and device == "cpu" else None,
    )


def load_executor(spec: "RankSpec", on_death: Callable[[str], None]) -> "tuple[Executor, EngineOptions]":
    """Load every rank, and settle the number of cache blocks that all have room for.

    Args:
        spec: What they load.
        on_death: Called with a text when a rank ends that was not told to.

    Raises:
        RuntimeFault: A rank cannot load its part.
    """
    from model_runtime.engine.runner import Runner
    from model_runtime.parallel.ranks import RankedExecutor, Workers, load_rank

    workers = Workers(spec, on_death) if spec.size > 1 else None
    try:
        model, room = load_rank(spec, 0)
        if workers is None:
            sizes = replace(spec.options, num_blocks=room)
            return Runner(model, sizes), sizes
        sizes = replace(spec.options, num_blocks=min(room, *workers.wait_loaded()))
        workers.send(sizes.num_blocks)
        return RankedExecutor(Runner(model, sizes), workers), sizes
    except BaseException:
        if workers is not None:
            workers.close()
        raise


def find_device() -> str:
    """`cuda` where torch finds a GPU, else `cpu`."""
    return "cuda" if require("torch").cuda.is_available() else "cpu"


def check_vocabulary(tokenizer: Tokenizer, vocab_size: int, media_placeholder: int) -> None:
    """Whether tokenizer and config.json belong together.

    Raises:
        ConfigError: They do not.
    """
    if tokenizer.vocab_size != vocab_size:
        text = f"tiktoken.model makes a vocabulary of {tokenizer.vocab_size}, config.json has vocab_size {vocab_size}"
        raise ConfigError(f"{text}; the two files belong to different models")
    if tokenizer.special.media_pad != media_placeholder:
        text = f"<|media_pad|> is token {tokenizer.special.media_pad}, config.json has media_placeholder_token_id"
        raise ConfigError(f"{text} {media_placeholder}; the two files belong to different models")
