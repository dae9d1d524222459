"""Preparation of an evaluation from a person's request: the suite, the plan, the settings, the folder."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from apps.evals.plan import EvalPlan, Selection, find_differences, find_unavailable, leave_out, make_plan
from apps.evals.players import find_player_kind
from apps.evals.results import (
    RESULTS,
    Evaluation,
    KnownBaseline,
    check_can_be_read,
    default_evals_dir,
    find_evaluation,
    load_evaluation,
)
from cua.assemble import make_secrets, recorded_settings
from cua.config import FIELDS, Resolved, Settings, load_settings
from cua.errors import ConfigError, TrajectoryError
from cua.redaction import redacted
from cua.run.budget import Caps
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.run_files import make_run_dir
from envs import Suite
from envs.errors import did_you_mean
from envs.registry import load_suite
from envs.remote import SuiteRef

EXAMPLES = Path(__file__).parents[2] / "examples" / "suite.py"
MAY_DIFFER = ("base_url", "request_timeout", "max_retries", "retry_time", "streaming", "prices")
"""Settings that may change when an evaluation is resumed: they define the connection to the model."""
_LIMITS = ("max_steps", "max_time", "max_tokens", "max_cost", "max_calls")
_NOT_THE_AGENTS = (*_LIMITS, "model", "env_options", "runs_dir", "headed", "har", "mcp", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest:
    """Request for an evaluation; None for the default of the suite, the resumed folder, or the settings.

    Attributes:
        suite: Name or Python file of the suite.
        suite_options: Arguments of the suite's function.
        selection: Selected part of the suite.
        settings: Single settings by name; `max_steps` and `max_time` are limits of an episode, the other limits apply
            to the whole evaluation.
        agent: Kind of agent; None for the suite's default.
        out: Folder for the results.
        resume: Evaluation to resume.
    """

    suite: str | None = None
    suite_options: Mapping[str, object] = field(default_factory=dict)
    selection: Selection | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    agent: str | None = None
    out: Path | None = None
    resume: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """Checked request without a folder.

    Attributes:
        plan: Plan.
        loaded: Suite of the tasks.
        suite: Reference to it.
        settings: Settings of the agent, by name.
        caps: Limits of all episodes together.
        hint: Suggestion for a likely mistake; usually empty.
    """

    plan: EvalPlan
    loaded: Suite
    suite: SuiteRef
    settings: Mapping[str, object]
    caps: Caps
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEvaluation(PlannedRequest):
    """Checked request.

    Attributes:
        evaluation: Plan and folder.
    """

    evaluation: Evaluation


LeaveOut = Callable[[Mapping[str, str], int], bool]
"""Called with the reasons by id of tasks that cannot be evaluated, and the number of all; True to leave them out."""


def prepare(request: EvalRequest, may_leave_out: LeaveOut = lambda unavailable, num_tasks: False) -> PreparedEvaluation:
    """Check the request and make the folder; nothing is started.

    Args:
        request: Request of a person.
        may_leave_out: Called with the tasks that this machine cannot evaluate.

    Raises:
        CuaError: If the request is wrong or differs from the plan of the resumed folder, or tasks cannot be evaluated
            and may not be left out.
        EnvError: If the suite does not exist or is broken.
    """
    kept = load_evaluation(find_evaluation(request.resume)) if request.resume is not None else None
    planned = plan_request(request, may_leave_out, kept.plan if kept is not None else None)
    if kept is not None:
        check_same_plan(kept.folder, kept.plan, planned.plan)
    known = {
        name: KnownBaseline(score=baseline.score, num_episodes=baseline.num_episodes, command=baseline.command)
        for name, baseline in planned.loaded.baselines.items()
    }
    evaluation = kept or Evaluation(folder=Path(), plan=planned.plan, started_at=time.time())
    evaluation = replace(evaluation, plan=planned.plan, baselines=known, groups=planned.loaded.groups, why_stopped="")
    check_can_be_read(evaluation)
    folder = kept.folder if kept is not None else _make_folder(request.out, planned.plan)
    values = {name: getattr(planned, name) for name in PlannedRequest.__slots__}
    return PreparedEvaluation(**values, evaluation=replace(evaluation, folder=folder))


def plan_request(
    request: EvalRequest,
    may_leave_out: LeaveOut = lambda unavailable, num_tasks: False,
    kept: EvalPlan | None = None,
) -> PlannedRequest:
    """Check the request and plan its episodes.

    Args:
        request: Request of a person.
        may_leave_out: Called with the tasks that this machine cannot evaluate.
        kept: Plan of the resumed folder, whose values are the defaults.

    Raises:
        CuaError: If the request is wrong, or tasks cannot be evaluated and may not be left out.
        EnvError: If the suite does not exist or is broken.
    """
    named = request.suite or _suite_of(kept)
    flags = {name: value for name, value in request.settings.items() if name not in _LIMITS}
    if kept is not None:
        flags.setdefault("model", kept.model)
    if str(flags.get("model", "")).startswith("baseline:"):
        flags["coordinates"] = "relative"  # the format of these agents
    resolved = load_settings({**flags, **{name: request.settings.get(name) for name in _LIMITS}})
    path = str(EXAMPLES) if named == "examples" else named
    suite = load_suite(path, **request.suite_options)
    if resolved.sources["approve"] == "default":
        flags["approve"] = suite.approve
        resolved = replace(resolved, settings=replace(resolved.settings, approve=suite.approve))
    if resolved.sources["mark_untrusted"] == "default" and suite.approve == "yolo":
        flags["mark_untrusted"] = False  # requests exactly as published
        resolved = replace(resolved, settings=replace(resolved.settings, mark_untrusted=False))
    plan = _plan(suite, path, named, request, resolved, kept)
    if kept is None:
        plan = _available(suite, plan, may_leave_out)
    elif kept.unavailable:
        plan = leave_out(plan, kept.unavailable)
    return PlannedRequest(
        plan=plan,
        loaded=suite,
        suite=SuiteRef(name=_absolute_file(path, "", ".py"), options=dict(request.suite_options)),
        settings=flags | _absolute_paths(resolved.settings),
        caps=_caps(resolved),
        hint=_hint(suite, resolved.settings),
    )


def check_same_plan(folder: Path, kept: EvalPlan, plan: EvalPlan) -> None:
    """Check that a folder is resumed with its own plan.

    Raises:
        ConfigError: If not.
    """
    if differences := find_differences(kept, plan, may_differ=MAY_DIFFER):
        more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise ConfigError(f"{folder} has another plan: {'; '.join(differences[:3])}{more}")


def _absolute_paths(settings: Settings) -> dict[str, object]:
    """Return the model and the path settings with absolute paths, so that they are valid in any working directory."""
    values = {name: getattr(settings, name) for name in FIELDS}
    paths = {name: value.absolute() for name, value in values.items() if isinstance(value, Path)}
    return {**paths, "model": _absolute_file(settings.model, "scripted:", "")}


def _absolute_file(name: str, prefix: str, suffix: str) -> str:
    """Return a name such as `FILE` or `FILE:FUNCTION` after a prefix, with the path of the file made absolute."""
    file = name.removeprefix(prefix)
    is_file = name.startswith(prefix) and file.partition(":")[0].endswith(suffix)
    return f"{prefix}{Path(file).expanduser().absolute()}" if is_file and file else name


def _available(suite: Suite, plan: EvalPlan, may_leave_out: LeaveOut) -> EvalPlan:
    """Return the plan without the tasks that this machine cannot evaluate, if they may be left out."""
    unavailable = find_unavailable(suite, plan.task_ids)
    if not unavailable:
        return plan
    if not may_leave_out(unavailable, len(plan.task_ids)):
        first = next(iter(unavailable.values()))
        raise ConfigError(
            f"{len(unavailable)} of {len(plan.task_ids)} tasks cannot be evaluated on this machine ({first}); install "
            "what they need, choose others with --tasks, or skip them with --skip-unavailable"
        )
    return leave_out(plan, unavailable)


def _hint(suite: Suite, settings: Settings) -> str:
    """Return a hint for the embedded model, which follows only plain steps; some suites offer that wording."""
    if not settings.has_embedded_model or not suite.steps_option:
        return ""
    return (
        "the embedded model only follows plain steps, and these tasks say what is wanted, not how; "
        f"--suite-option {suite.steps_option} words them as steps"
    )


def _suite_of(kept: EvalPlan | None) -> str:
    """Return the suite name of the resumed folder. A file named by a folder is not run: it is untrusted."""
    if kept is None:
        raise ConfigError(
            "no suite is given; expected for example: cua eval examples; `cua eval list` prints all of them"
        )
    if ".py" in kept.suite:
        raise ConfigError(
            f"the suite of this evaluation is a file, {kept.suite!r}; pass it again, because it is executed"
        )
    return kept.suite


def _plan(
    suite: Suite, path: str, named: str, request: EvalRequest, resolved: Resolved, kept: EvalPlan | None
) -> EvalPlan:
    settings, sources = resolved.settings, resolved.sources
    shown = {name: value for name, value in recorded_settings(settings).items() if name not in _NOT_THE_AGENTS}
    steps, time_s = suite.max_steps, suite.max_time_s
    if kept is not None:
        steps, time_s = kept.max_steps, kept.max_time_s or time_s
    plan = make_plan(
        suite,
        request.selection or Selection(),
        path=path,
        options=request.suite_options,
        model=settings.model,
        settings=redacted(json.loads(json.dumps(shown)), make_secrets(settings).redact),
        max_steps=steps if sources["max_steps"] == "default" else settings.max_steps,
        max_time_s=settings.max_time if settings.max_time is not None else time_s,
        player_name=_player_name(suite, request.agent or (kept.agent if kept is not None else suite.agents[0])),
    )
    plan = replace(plan, suite=named)
    if kept is None or request.selection is not None:
        return plan
    unknown = set(kept.task_ids) - set(suite.task_ids)
    if unknown:
        raise ConfigError(f"the suite has no task {min(unknown)!r} of the resumed evaluation any more")
    families = {id: name for id, name in plan.families.items() if id in set(kept.task_ids)}
    return replace(plan, task_ids=kept.task_ids, families=families, seeds=kept.seeds, repeats=kept.repeats)


def _player_name(suite: Suite, named: str) -> str:
    if named in suite.agents:
        find_player_kind(named)
        return named
    raise ConfigError(
        f"--agent is {named!r}, and the tasks of {suite.name!r} are for {' or '.join(suite.agents)}"
        f"{did_you_mean(named, suite.agents)}"
    )


def _caps(resolved: Resolved) -> Caps:
    settings = resolved.settings
    return Caps(
        max_steps=None,
        max_calls=settings.max_calls,
        max_tokens=settings.max_tokens,
        max_cost_usd=settings.max_cost,
    )


def _make_folder(out: Path | None, plan: EvalPlan) -> Path:
    """Make a folder without an evaluation.

    Raises:
        TrajectoryError: If it cannot be made, or is not empty.
    """
    if out is None:
        root = default_evals_dir()
        with translate_os_errors("write", root):
            return make_run_dir(root, f"{plan.suite_name} {plan.model}", time.time()).absolute()
    with translate_os_errors("write", out):
        if (out / RESULTS).exists():
            raise TrajectoryError(f"{out} already holds an evaluation; resume it with --resume, or use another folder")
        if out.is_dir() and any(out.iterdir()):
            raise TrajectoryError(f"{out} is not empty; use a new folder")
        out.mkdir(parents=True, exist_ok=True)
    return out.absolute()
