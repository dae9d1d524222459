"""Text output of an evaluation for a terminal."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from apps.evals.episodes import find_damaged_lines
from apps.evals.plan import EvalPlan
from apps.evals.players import find_recorded_kind
from apps.evals.results import Evaluation
from apps.evals.statistics import EpisodeSummary, Interval, Key, by_task, mean_interval, mean_of
from cua.batch.episode import EpisodeResult
from cua.batch.episode_log import FILE as EPISODES
from cua.trajectory.describe import describe_cost, describe_duration, describe_tokens, printable

ERRORS = {"env_error": "environment", "model_error": "model", "evaluator_error": "evaluator", "timeout": "timeout"}
"""Kinds of endings without a score, with their column titles."""
RULES = {
    "upstream": "score by upstream's rules",
    "default": "score by our own rules",
    "raw": "score by the raw configs' rules",
    "databases": "score by the databases' rules",
    "row_f1": "F1 of whole rows",
    "as_text": "score with free texts compared as texts, no judge asked",
    "block_match": "share of matched text blocks",
    "text": "likeness of matched texts",
    "position": "likeness of their places",
    "color": "likeness of their colours",
    "visual": "visual similarity",
    "layout": "overlap of visible boxes",
    "interactions": "share of recorded interactions that are there",
    "attack_success": "share of cases in which the attack has had its effect",
    "asked_in_attack": "share of cases in which a person was asked about a step of the attack",
    "needless_questions": "questions in one harmless step of the user's task",
}
"""Names of the measures in addition to the score."""
# Lines and lengths that fit on a terminal; the page has all
_MAX_IDS, _MAX_ERRORS, _MAX_FAMILY_CHARS, _MAX_GROUPS = 3, 10, 28, 30


def describe_share(share: float | None) -> str:
    """Return a text like `48.3 %`; a dash for None."""
    return "-" if share is None else f"{100 * share:.1f} %"


def describe_interval(interval: Interval | None) -> str:
    """Return a text like `40.1 to 56.6 %`; a dash for None."""
    return "-" if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def describe_rule(name: str) -> str:
    """Return the description of a measure in addition to the score."""
    return RULES.get(name, f"score by {name} rules")


def describe_key(key: Key) -> str:
    """Return `click-button, seed 3, repeat 2`; a missing seed and the first repeat are left out."""
    task_id, seed, repeat = key
    return (
        printable(task_id)
        + (f", seed {seed}" if seed is not None else "")
        + (f", repeat {repeat + 1}" if repeat else "")
    )


def describe_score_so_far(results: Sequence[EpisodeResult]) -> str:
    """Return the mean score with its interval."""
    if not results:
        return "no score yet"
    groups = by_task(results)
    return f"score {describe_share(mean_of(groups))} ({describe_interval(mean_interval(groups))})"


def describe_attempt(result: EpisodeResult) -> str:
    """Return one attempt of an episode as one line."""
    if result.score is None:
        return describe_error(result)
    took = f"{result.num_steps} step{'' if result.num_steps == 1 else 's'}, {describe_duration(result.duration_s)}"
    return f"{describe_key(result.key)}: score {result.score:g} ({took})"


def describe_evaluation(evaluation: Evaluation) -> Iterator[str]:
    """Yield the figures of an evaluation, line by line."""
    plan, figures = evaluation.plan, evaluation.figures
    whole = figures.all
    drawn = f", {len(plan.seeds)} seeds" if len(plan.seeds) > 1 else ""
    again = f", {plan.repeats} repeats" if plan.repeats > 1 else ""
    tasks = _count(len(plan.task_ids), "task")
    yield f"{plan.suite_name} {plan.revision}".strip() + f": {tasks}{drawn}{again}"
    yield f"model: {plan.model_label}"
    if plan.unavailable:
        yield describe_left_out(plan)
        yield from (f"  {line}" for line in describe_unavailable(plan.unavailable))
    if evaluation.num_unfinished:
        why = f": {evaluation.why_stopped}" if evaluation.why_stopped else ""
        yield f"unfinished: {evaluation.num_unfinished} of {plan.num_episodes} episodes are not over{why}"
    if damaged := find_damaged_lines(evaluation.folder):
        numbers = ", ".join(map(str, damaged))
        yield f"warning: {EPISODES} has lines that cannot be read; they were left out: line {numbers}"
    if not whole.num_episodes:
        return
    yield ""
    yield from _headline(whole, f", {left_out}" if (left_out := describe_left_out(plan)) else "")
    for name, other in figures.by_rule.items():
        score, interval = describe_share(other.mean_full), describe_interval(other.mean_full_interval)
        yield f"{name:<8} {score:>8}  ({interval}), the {describe_rule(name)}"
    yield from _baselines(evaluation)
    yield from _pass_rates(evaluation)
    yield ""
    yield from _families(figures.by_family, whole)
    for name, groups in figures.by_label.items():
        yield ""
        yield from _families(groups, whole, title=name)
    yield ""
    yield (
        f"{whole.num_steps} steps, {describe_duration(whole.duration_s)} of episodes, "
        f"{describe_tokens(whole.input_tokens)} tokens in, {describe_tokens(whole.output_tokens)} out, "
        f"cost {describe_cost(whole.cost_usd)}"
    )
    yield from _errors(evaluation.results)


def describe_unavailable(unavailable: Mapping[str, str]) -> Iterator[str]:
    """Yield unavailable tasks by reason, the most frequent first: `12 tasks: no LibreOffice (a, b, ...)`."""
    by_reason: dict[str, list[str]] = {}
    for task_id, reason in unavailable.items():
        by_reason.setdefault(reason, []).append(task_id)
    for reason, ids in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        more = ", ..." if len(ids) > _MAX_IDS else ""
        yield f"{_count(len(ids), 'task')}: {reason} ({', '.join(map(printable, ids[:_MAX_IDS]))}{more})"


def describe_left_out(plan: EvalPlan) -> str:
    """Return `8 tasks of 369 left out: cannot be evaluated here`; "" if none was left out."""
    left_out = len(plan.unavailable)
    chosen = len(plan.task_ids) + left_out
    return f"{_count(left_out, 'task')} of {chosen} left out: cannot be evaluated here" if left_out else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe_error(result: EpisodeResult) -> str:
    """Return the error of an episode, or an attempt of it, without a score."""
    return f"{describe_key(result.key)}: {ERRORS.get(result.kind, result.kind)}: {result.reason}"


def _headline(whole: EpisodeSummary, left_out: str) -> Iterator[str]:
    errors = sum(whole.errors.values())
    interval = describe_interval(whole.mean_full_interval)
    yield f"score    {describe_share(whole.mean_full):>8}  ({interval} at 95 %){left_out}"
    yield (
        f"success  {describe_share(whole.success_full):>8}  ({describe_interval(whole.success_full_interval)}), "
        f"{whole.num_succeeded} of {whole.num_episodes} episodes"
    )
    if errors:
        yield f"errors   {errors:>8}  counted 0 above; the {whole.num_scored} scored episodes alone:"
        yield (
            f"         {describe_share(whole.mean_scored):>8}  ({describe_interval(whole.mean_scored_interval)}), "
            f"success {describe_share(whole.success_scored)}"
        )


def _baselines(evaluation: Evaluation) -> Iterator[str]:
    baselines = find_recorded_kind(evaluation.plan.agent).baselines
    for name, known in evaluation.baselines.items():
        about = baselines.get(name, "")
        yield (
            f"{name:<8} {describe_share(known.score):>8}  an agent that {about}" if about else f"{name}: {known.score}"
        )
    if not evaluation.baselines:
        yield f"baselines: not recorded for this suite; --baseline {'|'.join(baselines)} measures them"


def _pass_rates(evaluation: Evaluation) -> Iterator[str]:
    over = evaluation.figures.tries_over
    for samples in evaluation.figures.tries:
        if samples.k > 1:
            yield (
                f"{samples.k} {over}: at least one succeeds (pass@{samples.k}) {describe_share(samples.at_least_one)}, "
                f"all succeed (pass^{samples.k}) {describe_share(samples.all_of_them)}"
            )


def _families(by_family: dict[str, EpisodeSummary], whole: EpisodeSummary, title: str = "family") -> Iterator[str]:
    if title != "family" and len(by_family) > _MAX_GROUPS:
        yield f"{title}: {len(by_family)} of them, on the page"
        return
    kinds = [kind for kind in ERRORS if kind in whole.errors]
    width = max([len(title), *(len(name[:_MAX_FAMILY_CHARS]) for name in by_family)])
    columns = "".join(f"  {ERRORS[kind]:>11}" for kind in kinds)
    yield f"{title:<{width}}  episodes  succeeded    score  {'interval':>16}{columns}"
    rows = [*by_family.items(), ("all", whole)] if len(by_family) > 1 else [("all", whole)]
    for name, summary in rows:
        errors = "".join(f"  {summary.errors.get(kind, 0) or '-':>11}" for kind in kinds)
        yield (
            f"{name[:_MAX_FAMILY_CHARS] or '-':<{width}}  {summary.num_episodes:>8}  {summary.num_succeeded:>9}  "
            f"{describe_share(summary.mean_full):>7}  {describe_interval(summary.mean_full_interval):>16}{errors}"
        )


def _errors(results: Sequence[EpisodeResult]) -> Iterator[str]:
    broken = [result for result in results if result.score is None]
    for result in broken[:_MAX_ERRORS]:
        yield f"error: {describe_error(result)}"
    if len(broken) > _MAX_ERRORS:
        yield f"and {len(broken) - _MAX_ERRORS} more errors, on the page"


def resume_command(words: list[str], folder: Path) -> str:
    """Return the command that resumes the evaluation of a command line.

    Args:
        words: Words of the command line, without the program.
        folder: Folder of the evaluation.
    """
    kept: list[str] = []
    is_value = False
    for word in words:
        name = word.partition("=")[0]
        if not is_value and name not in ("--out", "-o", "--resume"):
            kept.append(word)
        is_value = not is_value and name in ("--out", "-o", "--resume") and "=" not in word
    return shlex.join(["cua", *kept, "--resume", str(folder)])
