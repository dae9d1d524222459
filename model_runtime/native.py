"""Construction of this project's own engine, from a checkpoint folder to an `EngineThread`.

engine = make_engine(NativeOptions(model_dir=folder))
async for output in engine.generate(request): ...
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from model_runtime.config import load_config
from model_runtime.engine.contract import EngineOptions, ModelCard
from model_runtime.errors import ConfigError, require
from model_runtime.launch.options import NativeOptions
from model_runtime.parallel.comm import OneRank
from model_runtime.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from model_runtime.engine.ranks import RankSpec
    from model_runtime.engine.runner import ModelRunner
    from model_runtime.engine.thread import EngineThread
    from model_runtime.server.options import ServerOptions


def serve_native(options: NativeOptions, emit: Callable[[str], None] = lambda text: None) -> None:
    """Load a model and serve it until SIGINT or SIGTERM. See `model_runtime.server.run.serve` for the shutdown.

    Raises:
        RuntimeFault: If the model cannot be loaded, or the server cannot listen on the address.
    """
    require("torch")
    require("fastapi")
    from model_runtime.processor.processor import Processor
    from model_runtime.server.app import make_app
    from model_runtime.server.run import listen, serve

    if not options.model_dir.is_dir():
        raise ConfigError(
            f"{options.model_dir} is not a folder; expected the folder of a Kimi K2.5 release, with config.json"
        )
    listen(options.host, options.port).close()  # report a port in use before loading, which takes minutes
    server_options = make_server_options(options)
    processor = Processor.load(options.model_dir)
    started = time.monotonic()
    emit(f"loading {options.model_dir}")
    engine = make_engine(options)
    stats, sizes = engine.stats(), engine.card
    sizes_text = f"{stats.num_blocks * options.block_size:,} tokens of cache, {sizes.max_model_len:,} a request"
    emit(f"loaded {sizes.name} in {time.monotonic() - started:.1f} s: {sizes_text}")
    serve(make_app(engine, processor, server_options), host=options.host, port=options.port)


def make_server_options(options: NativeOptions) -> "ServerOptions":
    """Return the HTTP settings from the options.

    Raises:
        ConfigError: If the environment variable for the keys is empty.
    """
    from model_runtime.server.options import MediaAccess, ServerOptions

    return ServerOptions(
        api_keys=read_keys(options.api_keys_env),
        max_body_bytes=options.max_body_mib * 2**20,
        media=MediaAccess(max_items=options.max_images, allow_http=options.allow_http_media),
        queue_timeout_s=options.queue_timeout_s,
        request_timeout_s=options.request_timeout_s,
        drain_s=options.drain_s,
        weights_dir=options.weights_dir,
    )


def read_keys(variable: str | None) -> tuple[str, ...]:
    """Read comma-separated API keys from an environment variable; none without a variable.

    Raises:
        ConfigError: If the variable is named, but holds no key.
    """
    if variable is None:
        return ()
    keys = tuple(key.strip() for key in os.environ.get(variable, "").split(",") if key.strip())
    if not keys:
        raise ConfigError(f"the variable {variable} holds no API key; set it, or omit the option to require none")
    return keys


def make_engine(options: NativeOptions) -> "EngineThread":
    """Load a model on this machine and start its engine.

    Raises:
        RuntimeFault: If the checkpoint, the sizes or the machine do not fit; the text has the cause and the remedy.
    """
    require("torch")
    from model_runtime.engine.engine import Engine
    from model_runtime.engine.thread import EngineThread
    from model_runtime.parallel.comm import check_ranks

    config = load_config(options.model_dir)
    tokenizer = load_tokenizer(options.model_dir)
    check_vocabulary(tokenizer, config.text.vocab_size, config.media_placeholder_token_id)
    sizes = make_engine_options(options)
    check_ranks(config, OneRank(size=options.tensor_parallel_size))
    listeners: list[Callable[[str], None]] = []

    def emit(text: str) -> None:
        for listener in listeners:
            listener(text)

    runner, sizes = load_runner(make_spec(options, sizes), emit)
    capacity = sizes.num_blocks * sizes.block_size
    card = ModelCard(
        name=options.served_name or options.model_dir.resolve().name,
        max_model_len=min(config.text.max_position_embeddings, capacity, sizes.max_model_len or capacity),
        vocab_size=tokenizer.vocab_size,
        stop_token_ids=(tokenizer.special.im_end, tokenizer.special.eos),
    )
    thread = EngineThread(Engine(runner, tokenizer, card, sizes), tokenizer)
    listeners.append(thread.die)
    return thread


def make_engine_options(options: NativeOptions) -> EngineOptions:
    """Return the engine's sizes; if the number of blocks is not given, it is set when the model is loaded."""
    return EngineOptions(
        block_size=options.block_size,
        num_blocks=options.num_blocks or 2,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_waiting=options.queue_size,
        feature_cache_bytes=options.feature_cache_mib * 2**20,
        has_cuda_graphs=options.cuda_graphs and not options.batch_invariant,
        is_batch_invariant=options.batch_invariant,
    ).check()


def make_spec(options: NativeOptions, sizes: EngineOptions) -> "RankSpec":
    """Return the part of the model for every rank to load."""
    from model_runtime.engine.ranks import RankSpec, find_address

    size = options.tensor_parallel_size
    device = options.device or find_device()
    return RankSpec(
        model_dir=options.model_dir,
        size=size,
        device=device,
        dtype=options.dtype,
        latent_norm_eps=options.latent_norm_eps,
        kernels="invariant" if options.batch_invariant else options.kernels,
        kernel_cache_dir=options.kernel_cache_dir,
        options=sizes,
        num_blocks=options.num_blocks,
        cache_bytes=None if options.cache_gib is None else int(options.cache_gib * 2**30),
        address=find_address() if size > 1 else "",
        num_threads=1 if size > 1 and device == "cpu" else None,
    )


def load_runner(spec: "RankSpec", on_death: Callable[[str], None]) -> "tuple[ModelRunner, EngineOptions]":
    """Load every rank and set the number of cache blocks to one that fits on all; `on_death` is called with a text if a
    rank exits.

    Raises:
        RuntimeFault: If a rank cannot load its part.
    """
    from model_runtime.engine.ranks import RankedRunner, RankProcesses, load_rank
    from model_runtime.engine.runner import Runner

    workers = RankProcesses(spec, on_death) if spec.size > 1 else None
    try:
        model, capacity = load_rank(spec, 0)
        if workers is None:
            sizes = replace(spec.options, num_blocks=capacity)
            return Runner(model, sizes), sizes
        sizes = replace(spec.options, num_blocks=min(capacity, *workers.wait_loaded()))
        workers.send(sizes.num_blocks)
        return RankedRunner(Runner(model, sizes), workers), sizes
    except BaseException:
        if workers is not None:
            workers.close()
        raise


def find_device() -> str:
    """Return `cuda` if torch finds a GPU, else `cpu`."""
    return "cuda" if require("torch").cuda.is_available() else "cpu"


def check_vocabulary(tokenizer: Tokenizer, vocab_size: int, media_placeholder: int) -> None:
    """Check that tokenizer and config.json match.

    Raises:
        ConfigError: If they do not.
    """
    if tokenizer.vocab_size != vocab_size:
        text = f"tiktoken.model makes a vocabulary of {tokenizer.vocab_size}, config.json has vocab_size {vocab_size}"
        raise ConfigError(f"{text}; the two files belong to different models")
    if tokenizer.special.media_pad != media_placeholder:
        text = f"<|media_pad|> is token {tokenizer.special.media_pad}, config.json has media_placeholder_token_id"
        raise ConfigError(f"{text} {media_placeholder}; the two files belong to different models")
