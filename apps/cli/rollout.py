"""`cua rollout`: what rollouts for reinforcement learning recorded, for people and for trainers."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from apps.cli.help_page import App
from apps.cli.terminal import echo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cua.json_text import Json
    from cua.rollouts.journal import JournalContent
    from cua.rollouts.samples import RolloutSample, SampleReader
    from model_runtime.processor.processor import Processor
    from model_runtime.training.scoring import SampledSequence

app = App(name="rollout", help="Show, score and export rollouts for reinforcement learning.")

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder with rollouts.jsonl or samples.jsonl.")]


@app.command("show")
def show(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print groups, scores, ends and trained tokens of a run."""
    from cua.errors import ConfigError
    from cua.rollouts.journal import FILE, read_journal

    journal = read_journal(run) if (run / FILE).exists() else None
    samples = _count_samples(run)
    if journal is None and samples is None:
        raise ConfigError(f"{run} has neither rollouts.jsonl nor samples.jsonl")
    summary = {**(_summarise(journal) if journal else {}), **({"samples": samples} if samples else {})}
    if as_json:
        echo(json.dumps(summary))
        return
    if journal is not None:
        ends = ", ".join(f"{number} {kind}" for kind, number in summary["ends"].items()) or "none"
        echo(f"rollouts: {sum(summary['ends'].values())} ended ({ends}), {summary['open']} open")
        echo(f"policy: version {summary['version']}")
        echo(f"{'group':40}  rollouts  scored  mean score  handed out")
        for name, group in summary["groups"].items():
            mean = "" if group["mean_score"] is None else f"{group['mean_score']:.3f}"
            handed = "yes" if group["is_taken"] else "no"
            echo(f"{name[:40]:40}  {group['size']:8}  {group['num_scored']:6}  {mean:>10}  {handed:>10}")
        for reason, number in summary["reasons"].items():
            echo(f"{number} x {reason}")
    if samples is not None:
        echo(f"samples: {samples['num_samples']} of {samples['num_rollouts']} rollouts")
        echo(
            f"tokens: {samples['trained_tokens']:,} of {samples['tokens']:,} are trained; "
            f"mean reward {samples['mean_reward']:.3f}"
        )


@app.command("export")
def export(
    run: RunArgument,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="jsonl, verl or slime.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="JSON lines to write.")],
) -> None:
    """Write samples as JSON lines with the fields of a trainer.

    Images are base64. An existing file is not replaced.
    """
    from cua.errors import ConfigError
    from cua.rollouts.export import export_rows

    rows = export_rows(run, form)
    first = next(rows, None)  # unreadable samples are refused before a file is made
    try:
        with output.open("x", encoding="utf-8") as file:
            number = 0
            while first is not None:
                file.write(json.dumps(first, default=_to_json) + "\n")
                number, first = number + 1, next(rows, None)
    except FileExistsError as error:
        raise ConfigError(f"{output} exists; name another file") from error
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from error
    echo(f"{number} samples in {output}", err=True)


@app.command("score")
def score(
    run: RunArgument,
    weights: Annotated[Path, typer.Option("--weights", metavar="FOLDER", help="Model that sampled the rollouts.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check recorded log-probabilities against those of the training code.

    They are computed in float32 on the CPU. Exit code 1 if k3, an estimate of the KL divergence, is above 0.005.
    """
    from dataclasses import asdict

    import numpy as np

    from cua.errors import ConfigError
    from cua.rollouts.mismatch import MAX_K3, measure_mismatch

    scored = list(_score_samples(run, weights))
    if not scored:
        raise ConfigError(f"{run} has no samples with trained tokens")
    recorded, computed = (np.concatenate(column) for column in zip(*scored, strict=True))
    found = measure_mismatch(recorded, computed, np.ones(len(recorded), dtype=bool))
    if as_json:
        echo(json.dumps({"num_samples": len(scored), **asdict(found)}))
    else:
        echo(f"samples: {len(scored)}, {found.num_tokens:,} trained tokens")
        echo(f"difference of log-probabilities: at most {found.abs_max:.2g}, 99 % below {found.abs_p99:.2g}")
        echo(f"k1 {found.k1:.2g}, k3 {found.k3:.2g} (limit {MAX_K3})")
    if found.k3 > MAX_K3:
        raise typer.Exit(1)


def _score_samples(run: Path, weights: Path) -> "Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]":
    """Yield recorded and computed log-probabilities of the trained tokens of each sample."""
    from envs.errors import require

    torch = require("torch", "runtime")
    from cua.rollouts.export import read_rollouts
    from cua.rollouts.samples import SampleReader
    from model_runtime.checkpoint.folder import unpack_folder
    from model_runtime.checkpoint.reader import Checkpoint, is_quantized
    from model_runtime.model import load_model
    from model_runtime.processor.processor import Processor
    from model_runtime.training.scoring import score_tokens

    with TemporaryDirectory() as folder, SampleReader(run) as media, torch.inference_mode():
        source = weights
        if is_quantized(Checkpoint.open(weights)):
            source = Path(folder)
            unpack_folder(weights, source, "float32")
        model = load_model(source, dtype="float32", kernels="autograd")
        processor = Processor.load(weights)
        for rollout in read_rollouts(run):
            for sample in rollout.branches:
                if sample.mask.any():
                    computed = score_tokens(model, _make_sequence(sample, media, processor, weights))
                    yield sample.logprobs[sample.mask], computed.numpy()


def _make_sequence(
    sample: "RolloutSample", media: "SampleReader", processor: "Processor", weights: Path
) -> "SampledSequence":
    """Convert a sample to the input of the training code."""
    import numpy as np
    import torch

    from cua.errors import ConfigError
    from model_runtime.engine.sampling.state import find_banned_ids
    from model_runtime.tokenizer import load_tokenizer
    from model_runtime.training.scoring import SampledSequence

    names = {item.processor for item in sample.media} - {processor.processor_id}
    if names:
        raise ConfigError(f"images were converted by {names.pop()}, and here by {processor.processor_id}")
    temperatures = np.zeros(len(sample.ids))
    for span in sample.spans:
        temperatures[span.start : span.end] = span.temperature
    num_kept = np.zeros(len(sample.ids)) if sample.kept is None else sample.kept.num
    kept_ids = np.zeros(0) if sample.kept is None else sample.kept.ids
    return SampledSequence(
        token_ids=tuple(sample.ids.tolist()),
        images=tuple(processor.image(media.read_media(item.sha256)) for item in sample.media),
        positions=torch.from_numpy(sample.mask.nonzero()[0]),
        temperatures=torch.from_numpy(temperatures[sample.mask]),
        num_kept=torch.from_numpy(num_kept[sample.mask].astype(np.int64)),
        kept_ids=torch.from_numpy(kept_ids.astype(np.int64)),
        banned_ids=find_banned_ids(load_tokenizer(weights).special),
    )


def _summarise(journal: "JournalContent") -> "Json":
    groups = {
        key: {"size": group["size"], "num_scored": 0, "mean_score": None, "is_taken": key in journal.taken}
        for key, group in journal.groups.items()
    }
    scores: dict[str, list[float]] = {}
    for rollout, end in journal.ends.items():
        if end.score is not None and "#" not in rollout:  # sub-tasks are not members of the group
            scores.setdefault(rollout.rpartition("/")[0], []).append(end.score)
    for key, values in scores.items():
        if key in groups:
            groups[key] |= {"num_scored": len(values), "mean_score": sum(values) / len(values)}
    return {
        "ends": dict(Counter(end.kind for end in journal.ends.values())),
        "open": len(journal.open),
        "version": journal.version,
        "groups": groups,
        "reasons": dict(Counter(end.reason for end in journal.ends.values() if end.reason).most_common(10)),
    }


def _count_samples(run: Path) -> "Json | None":
    from cua.rollouts.export import read_rollouts
    from cua.rollouts.samples import FILE

    if not (run / FILE).exists():
        return None
    counts: Counter[str] = Counter()
    rewards = 0.0
    for rollout in read_rollouts(run):
        counts["num_rollouts"] += 1
        rewards += rollout.reward or 0.0
        for branch in rollout.branches:
            counts["num_samples"] += 1
            counts["tokens"] += len(branch.ids)
            counts["trained_tokens"] += int(branch.mask.sum())
    names = ("num_rollouts", "num_samples", "tokens", "trained_tokens")
    return {name: counts[name] for name in names} | {"mean_reward": rewards / max(1, counts["num_rollouts"])}


def _to_json(value: "bytes | NDArray[np.generic]") -> object:
    """Return images as base64, and arrays as lists."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.tolist()
