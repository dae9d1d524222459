"""`cua rollout`: what rollouts for reinforcement learning recorded, for people and for trainers."""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.cli.help_page import App
from apps.cli.terminal import echo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cua.json_text import Json
    from cua.rollouts.journal import JournalContent

app = App(name="rollout", help="Show and export rollouts for reinforcement learning.")

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
