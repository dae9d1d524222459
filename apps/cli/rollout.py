"""`cua rollout`: rollouts for reinforcement learning, for people and for trainers."""

import base64
import contextlib
import json
import secrets
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from apps.cli import common
from apps.cli.config import choice, chosen_settings
from apps.cli.help_page import App
from apps.cli.terminal import echo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apps.rollouts.scoring import RunScore
    from cua.batch.executor import ExecutorKind
    from cua.json_text import Json
    from cua.rollouts.export import RunSamples
    from cua.rollouts.journal import JournalContent
    from cua.rollouts.scheduler import RolloutCounts, RolloutGroup

app = App(name="rollout", help="Run, show, score and export rollouts for reinforcement learning.")
TaskFlag = partial(typer.Option, rich_help_panel="Tasks and groups")

MAX_REASONS = 5
"""Number of printed reasons of rollouts without a score."""
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder with rollouts.jsonl or samples.jsonl.")]


@app.command("run")
def run(
    given: typer.Context,
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="Suite: a name of `cua eval list`, or FILE.py.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the run.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder, with its options.")] = False,
    parallel: Annotated[
        int, typer.Option("--parallel", "-p", metavar="NUMBER", min=1, max=10_000, help="Environments at a time.")
    ] = 8,
    executor: Annotated[
        str, typer.Option(metavar="KIND", help="Where environments run: local, process or ray.")
    ] = "local",
    ray_address: common.RayAddress = None,
    other: common.Other = None,
    group: Annotated[int, TaskFlag(metavar="NUMBER", min=1, max=100_000, help="Rollouts of each task and seed.")] = 8,
    tasks: Annotated[
        list[str] | None, TaskFlag(metavar="GLOB", help="Tasks whose id matches, such as 'click-*'; repeatable.")
    ] = None,
    limit: Annotated[int | None, TaskFlag(metavar="NUMBER", min=1, help="Only the first tasks.")] = None,
    sample: Annotated[int | None, TaskFlag(metavar="NUMBER", min=1, help="Only a random sample of tasks.")] = None,
    seed: Annotated[int, TaskFlag(metavar="SEED", help="Seed of --sample.")] = 0,
    seeds: Annotated[
        int | None,
        TaskFlag(metavar="NUMBER", min=1, max=100_000, help="Seeds of each task.", show_default="that of the suite"),
    ] = None,
    skip_unavailable: Annotated[
        bool, TaskFlag("--skip-unavailable", help="Leave out tasks that cannot be evaluated on this machine.")
    ] = False,
    suite_option: Annotated[
        list[str] | None, TaskFlag(metavar="NAME=VALUE", help="Option of the suite; repeatable.")
    ] = None,
    model: Annotated[
        str | None,
        common.ModelFlag(
            "--model", "-m", metavar="MODEL", help="nano, or a model id at the endpoint.", show_default="nano"
        ),
    ] = None,
    base_url: common.BaseUrl = None,
    agent: Annotated[
        str | None, common.ModelFlag(metavar="AGENT", help="gui, tools or swarm.", show_default="that of the suite")
    ] = None,
    media_token: Annotated[
        int, common.ModelFlag(metavar="ID", min=0, help="Token of images in the vocabulary of a server's model.")
    ] = 163_605,
    temperature: Annotated[
        str | None, common.ModelFlag(metavar="NUMBER", help="Sampling temperature, above 0.", show_default="1.0")
    ] = None,
    max_steps: Annotated[
        int | None,
        common.LimitFlag(metavar="STEPS", min=1, help="Steps of an episode.", show_default="that of the suite"),
    ] = None,
    max_time: Annotated[
        float | None,
        common.LimitFlag(metavar="SECONDS", min=0.1, help="Time of an episode.", show_default="that of the suite"),
    ] = None,
    report: Annotated[bool, common.OutputFlag("--report/--no-report", help="Write the report of each agent.")] = True,
) -> None:
    """Run groups of episodes of a suite as training data.

    Writes a journal, the samples and a page into the folder.

        cua rollout run screens --group 4 --sample 8 --seeds 1 -o rollouts
        cua rollout run miniwob --model kimi-k2.5 --base-url http://localhost:8000/v1 -o rollouts

    The agents reach the model through a gateway, which records the tokens. A run that was killed or stopped is
    continued by the same command with --resume, which also tries rollouts again that ended with an error. The exit code
    is 1 if no group can be trained on.
    """
    from apps.cli.running import run_cancelled_by_signals
    from apps.evals.plan import Selection
    from apps.evals.request import EvalRequest
    from apps.rollouts.page import write_page
    from apps.rollouts.run import RunOptions, plan_rollouts, run_rollouts
    from cua.assemble import parse_env_options

    kind = cast("ExecutorKind", choice("--executor", executor, ("local", "process", "ray")))
    request = EvalRequest(
        suite=suite,
        suite_options=parse_env_options(suite_option or ()),
        selection=Selection(
            patterns=tuple(tasks or ()),
            limit=limit,
            sample=sample,
            sample_seed=seed,
            num_seeds=seeds,
            repeats=group,
        ),
        settings=chosen_settings(given),
        agent=agent,
    )
    planned = plan_rollouts(request, out, resume=resume, skip_unavailable=skip_unavailable)
    plan = planned.plan
    num_groups = len(plan.task_ids) * len(plan.seeds)
    echo(f"{num_groups} groups of {plan.repeats} rollouts with {plan.model}, in {out}", err=True)
    options = RunOptions(
        num_parallel=parallel,
        media_token_id=media_token,
        executor=kind,
        ray_address=ray_address,
        with_reports=report,
    )
    summary = run_cancelled_by_signals(run_rollouts(planned, out.absolute(), options, listener=_print_group))
    echo(f"{_describe_ends(summary.counts.ends)} of {summary.counts.num_queued} rollouts", err=True)
    for (end, reason), number in summary.reasons.most_common(MAX_REASONS):
        echo(f"{number} {end}: {reason}", err=True)
    echo(f"page: {write_page(out)}")
    if not summary.counts.num_accepted:
        echo("no group has two scores: there is nothing to train on", err=True)
        raise typer.Exit(1)


def _print_group(group: "RolloutGroup", counts: "RolloutCounts") -> None:
    scores = " ".join("-" if end is None or end.score is None else f"{end.score:g}" for end in group.ends)
    ended = f"{sum(counts.ends.values())}/{counts.num_queued}"
    echo(f"[{ended}] {group.key}: mean score {group.mean_score:.3f} ({scores})", err=True)


def _describe_ends(ends: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in ends.items()) or "none"


@app.command("show")
def show(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[bool, typer.Option("--html", help="Write index.html into the folder, and print its path.")] = False,
) -> None:
    """Print groups, scores, ends and tokens of a run, or write its page."""
    from cua.errors import ConfigError
    from cua.rollouts.export import RunSamples
    from cua.rollouts.journal import FILE, read_journal

    if html:
        from apps.rollouts.page import write_page

        echo(f"page: {write_page(run)}")
        return
    journal = read_journal(run) if (run / FILE).exists() else None
    found = RunSamples(run, journal)
    samples = _count_samples(found)
    if journal is None and samples is None:
        raise ConfigError(f"{run} has neither rollouts.jsonl nor samples.jsonl")
    summary = {**(_summarise(journal) if journal else {}), **({"samples": samples} if samples else {})}
    if found.problem:
        echo(found.problem, err=True)
    if as_json:
        echo(json.dumps(summary))
        return
    if journal is not None:
        ends = summary["ends"]
        echo(f"rollouts: {sum(ends.values())} ended ({_describe_ends(ends)}), {summary['open']} open")
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


@app.command("score")
def score(
    run: RunArgument,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Weights of the last version.", show_default="those of the model nano"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check recorded log-probabilities against those of the training code.

    They are computed in float32 on the CPU, for the first rollouts also with black images, and recorded for the page.
    Exit code 1 if k3, an estimate of the KL divergence, is above 0.005, or black images change nothing.
    """
    import asyncio
    from dataclasses import asdict

    from apps.nano.model import find_weights
    from apps.rollouts.run import record_score
    from apps.rollouts.scoring import score_run
    from cua.rollouts.journal import FILE, RolloutJournal
    from cua.rollouts.mismatch import MAX_K3

    folder = weights or find_weights()

    async def recorded() -> "RunScore":
        journal = RolloutJournal(run)
        try:
            return await record_score(journal, folder)
        finally:
            await journal.close()

    found = asyncio.run(recorded()) if (run / FILE).exists() else score_run(run, folder)
    mismatch = found.mismatch
    if as_json:
        echo(json.dumps({"num_samples": found.num_samples, "image_effect": found.image_effect, **asdict(mismatch)}))
    else:
        echo(f"samples: {found.num_samples}, {mismatch.num_tokens:,} trained tokens")
        echo(f"difference of log-probabilities: at most {mismatch.abs_max:.2g}, 99 % below {mismatch.abs_p99:.2g}")
        echo(f"k1 {mismatch.k1:.2g}, k3 {mismatch.k3:.2g} (limit {MAX_K3})")
        if found.image_effect is not None:
            echo(f"black images change log-probabilities by {found.image_effect:.3g} on average")
    if found.problem:
        echo(found.problem, err=True)
        raise typer.Exit(1)


@app.command("export")
def export(
    run: RunArgument,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="jsonl, verl or slime.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="JSON lines to write.")],
) -> None:
    """Write samples as JSON lines with the fields of a trainer.

    Images are base64. An existing file is not replaced. Exit code 1 if a rollout that ended as scored has no samples.
    """
    from cua.errors import ConfigError
    from cua.rollouts.export import RunSamples, export_rows

    if output.exists():
        raise ConfigError(f"{output} exists; name another file")
    samples, number = RunSamples(run), 0
    draft = output.with_name(f".{output.name[:200]}.{secrets.token_hex(6)}.part")
    try:
        with draft.open("x", encoding="utf-8") as file:
            for row in export_rows(run, form, samples):
                file.write(json.dumps(row, default=_to_json) + "\n")
                number += 1
        draft.rename(output)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    echo(f"{number} samples in {output}", err=True)
    if samples.problem:
        echo(samples.problem, err=True)
        raise typer.Exit(1)


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


def _count_samples(samples: "RunSamples") -> "Json | None":
    from cua.rollouts.samples import FILE

    if not (samples.folder / FILE).exists():
        return None
    counts: Counter[str] = Counter()
    rewards = 0.0
    for rollout in samples:
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
