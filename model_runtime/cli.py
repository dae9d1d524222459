"""Command line `cua-runtime` for checkpoints, without a server."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from model_runtime.config.types import DType
from model_runtime.errors import ConfigError, RuntimeFault

if TYPE_CHECKING:
    from model_runtime.checkpoint.reader import CheckpointSummary
    from model_runtime.config import K25Config

HELP = """Checkpoints of Kimi K2.5: see whether one is whole, make a small random one, or unpack INT4 experts.

\b
    cua-runtime check /models/Kimi-K2.5
    cua-runtime make-tiny tiny-k25 --int4
    cua-runtime unpack apps/nano/weights nano-dense --dtype float32

Exit codes: 0 all is well, 2 something has to be fixed; the line on stderr says what."""
DTYPES: tuple[DType, ...] = get_args(DType)

app = typer.Typer(
    name="cua-runtime",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@app.command("check")
def check(
    model_dir: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a release: config.json and shards.")],
) -> None:
    """Compare config.json with every tensor in the shards, without reading the weights, and print a summary.

    Finds: contradictions in config.json, missing, extra or misshapen tensors, wrong dtypes, shards that are missing,
    truncated or corrupt, and an index that does not fit its shards. Takes only seconds for the 208,550 tensors of the
    release. The bytes of the weights themselves are not verified.
    """
    from model_runtime.checkpoint.reader import Checkpoint, check_tensors, summarize
    from model_runtime.config import load_config

    config = load_config(model_dir)
    checkpoint = Checkpoint.open(model_dir)
    check_tensors(checkpoint, config)
    summary = summarize(checkpoint, config)
    typer.echo(f"{model_dir}: config.json and all {summary.num_tensors:,} tensors fit")
    for line in _lines(summary, config):
        typer.echo(line)


@app.command("make-tiny")
def make_tiny(
    model_dir: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make; it must be new or empty.")],
    int4: Annotated[bool, typer.Option("--int4", help="Pack routed experts to INT4, as the release does.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the random weights: the same seed, the same files.")] = 0,
    layers: Annotated[int, typer.Option(min=1, help="Decoder layers; the first has no routed experts.")] = 3,
    hidden: Annotated[int, typer.Option(min=1, help="Width of the language model.")] = 64,
    experts: Annotated[int, typer.Option(min=2, help="Routed experts in a layer; two serve each token.")] = 8,
    expert_width: Annotated[int, typer.Option(min=1, help="Width inside a routed expert.")] = 32,
    dtype: Annotated[str, typer.Option(help=f"Of what is not packed: {', '.join(DTYPES)}.")] = "bfloat16",
) -> None:
    """Write a complete small model with random weights: config, shards, index, vocabulary, processor settings.

    Its output is meaningless, but it can be served like the release, and transformers loads it too. It has about half a
    million parameters by default. With --int4, --hidden and --expert-width must be multiples of 32.
    """
    from model_runtime.checkpoint.tiny import tiny_config, write_tiny

    _check_new(model_dir)
    known = _find_dtype(dtype)
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "n_routed_experts": experts,
        "moe_intermediate_size": expert_width,
    }
    write_tiny(model_dir, quantized=int4, seed=seed, config=tiny_config(text=sizes, dtype=known))
    typer.echo(f"{model_dir} written; look at it with: cua-runtime check {model_dir}")


@app.command("unpack")
def unpack(
    model_dir: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a release with experts in INT4.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Folder to make; it must be new or empty.")],
    dtype: Annotated[str | None, typer.Option(help=f"Of all tensors: {', '.join(DTYPES)}. By default DIR's.")] = None,
) -> None:
    """Write a copy of a checkpoint with dense experts, for training it further or for other programs.

    The copy computes what the packed experts compute. It needs four times the space of the experts in bf16.
    """
    from model_runtime.checkpoint.folder import unpack_folder

    _check_new(target)
    unpack_folder(model_dir, target, None if dtype is None else _find_dtype(dtype))
    typer.echo(f"{target} written; look at it with: cua-runtime check {target}")


def _check_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is not an empty folder; use another one")


def _find_dtype(dtype: str) -> DType:
    known = next((name for name in DTYPES if name == dtype), None)
    if known is None:
        raise ConfigError(f"--dtype is {dtype}, expected one of {', '.join(DTYPES)}")
    return known


def _lines(summary: "CheckpointSummary", config: "K25Config") -> list[str]:
    """Return the table printed after the result."""
    text, vision = config.text, config.vision
    packed = f"INT4 in groups of {summary.group_size}" if summary.group_size else "not packed"
    total_bytes = sum(summary.size_bytes.values())
    lines = [
        f"  layers       {text.num_hidden_layers} of width {text.hidden_size}, {vision.num_hidden_layers} vision blocks"
        f" of width {vision.hidden_size}",
        f"  experts      {text.n_routed_experts} a layer, {text.num_experts_per_tok} for each token, {packed}",
        f"  context      {text.max_position_embeddings:,} tokens",
        f"  dtypes       {', '.join(f'{name} {_size(value)}' for name, value in summary.dtypes.items())}",
        f"  files        {_size(total_bytes)} in {summary.num_shards} shards",
        "",
        f"  {'part':<16} {'parameters':>20} {'in the files':>14}",
    ]
    rows = [*summary.num_params.items(), ("all", sum(summary.num_params.values()))]
    sizes = summary.size_bytes | {"all": total_bytes}
    return lines + [f"  {part:<16} {count:>20,} {_size(sizes[part]):>14}" for part, count in rows]


def _size(size_bytes: int) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line; errors that the operator can fix are one line on stderr, without a traceback."""
    try:
        app(args)
    except RuntimeFault as error:
        typer.echo(f"cua-runtime: {error}", err=True)
    except OSError as error:
        typer.echo(f"cua-runtime: {error.filename or 'a file'}: {error.strerror or error}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
