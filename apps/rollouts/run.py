"""A run of rollouts: groups of episodes of a suite, played by an agent whose model is recorded by the gateway.

    plan.json       suite, tasks, settings and size of the groups
    rollouts.jsonl  the journal, samples.jsonl and blobs/ the samples (docs/rollouts.md)
    runs/           a folder for each attempt: its record and report.html
    index.html      the page

A process that was killed is continued by the same command with `resume`.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from apps.evals.plan import EvalPlan
from apps.evals.players import PlayerKind, find_player_kind
from apps.evals.request import EvalRequest, PlannedRequest, check_same_plan, plan_request
from apps.evals.results import RUNS
from apps.nano.model import MAX_TOKENS, NanoModel, load_nano
from apps.rollouts.scoring import NUM_BLACKENED, RunScore, score_run
from cua.assemble import env_spec, make_secrets, make_settings_model
from cua.batch.episode import Episode, make_episodes
from cua.batch.executor import ExecutorKind, make_env_provider
from cua.config import Settings, load_settings
from cua.errors import ConfigError, TrajectoryError
from cua.messages import Sampling
from cua.model import Model
from cua.models.endpoint import Endpoint
from cua.models.openai_compat import OpenAICompatModel
from cua.rollouts.gateway import Gateway
from cua.rollouts.gateway_app import HttpEngine
from cua.rollouts.gateway_models import GatewayModels
from cua.rollouts.journal import RolloutJournal
from cua.rollouts.play import make_episode_spec
from cua.rollouts.pressure import EngineSlots, follow_queue
from cua.rollouts.rollout import RolloutLimits
from cua.rollouts.samples import SampleError, SampleWriter
from cua.rollouts.scheduler import RolloutCounts, RolloutGroup, RolloutOptions, RolloutScheduler
from cua.run.budget import Caps
from cua.run.scope import RunScope
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import read_inside
from envs.registry import EnvSecrets

PLAN = "plan.json"
DEFAULTS: Mapping[str, object] = {"model": "nano", "temperature": "1.0", "top_p": "1.0"}
"""Settings whose defaults differ from an evaluation's: the recorded distribution is the model's own."""
MEDIA_TOKEN_ID = 163_605
"""Token that the features of images replace, in the release."""
_MAX_PLAN_BYTES = 64 * 2**20
_PLANS = TypeAdapter(EvalPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Execution options of a run, which do not affect its results.

    Attributes:
        num_parallel: Number of environments at the same time.
        media_token_id: Token that the features of images replace, for a server.
        executor: Place where the environments run.
        ray_address: Address of the cluster, for `ray`; None starts one on this machine.
        with_reports: True to write the page of each agent's run.
    """

    num_parallel: int = 8
    media_token_id: int = MEDIA_TOKEN_ID
    executor: ExecutorKind = "local"
    ray_address: str | None = None
    with_reports: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutsResult:
    """Result of a run.

    Attributes:
        counts: Counts at the end.
        reasons: Numbers of rollouts by kind and reason, of those that ended as `error` or `excluded`.
    """

    counts: RolloutCounts
    reasons: Counter[tuple[str, str]]


Listener = Callable[[RolloutGroup, RolloutCounts], None]
"""Called with each group that is handed out, and the state of the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEngine:
    """Engine of a run.

    Attributes:
        engine: Engine of the gateway.
        model: Name of the model at the engine.
        media_token_id: Token that the features of images replace.
        sampling: Parameters of every call.
        weights: Folder of the weights; None if they are elsewhere.
    """

    engine: HttpEngine
    model: str
    media_token_id: int
    sampling: Sampling
    weights: Path | None


@asynccontextmanager
async def open_engine(settings: Settings, media_token_id: int = MEDIA_TOKEN_ID) -> AsyncIterator[RolloutEngine]:
    """Open the engine of the configured model.

    Args:
        settings: Settings of the model.
        media_token_id: Token that the features of images replace, for a server.

    Raises:
        ConfigError: If the model returns no token ids, or would be sampled greedily.
    """
    temperature, top_p = (
        value if isinstance(value, float) else None for value in (settings.temperature, settings.top_p)
    )
    if temperature == 0.0:
        raise ConfigError("the temperature is 0: greedy tokens cannot be trained on; expected a number above 0")
    model, max_tokens = make_settings_model(settings), settings.max_output_tokens
    async with AsyncExitStack() as stack:
        stack.push_async_callback(model.close)
        if isinstance(model, NanoModel):
            thread, app = await asyncio.to_thread(load_nano, model.folder, model.name)
            stack.push_async_callback(thread.close)
            engine = HttpEngine(Endpoint(base_url="http://nano.localhost/v1", api_key="none"), app=app)
            stack.push_async_callback(engine.close)
            max_tokens, media_token_id = max_tokens or MAX_TOKENS, thread.tokenizer.special.media_pad
        elif isinstance(model, OpenAICompatModel):
            engine = HttpEngine(model.endpoint)
            stack.push_async_callback(engine.close)
            await engine.check_access()
        else:
            raise ConfigError(
                f"the model {model.name!r} returns no token ids; use --model nano, or a server such as `cua serve` "
                "with --base-url"
            )
        yield RolloutEngine(
            engine=engine,
            model=model.name,
            media_token_id=media_token_id,
            sampling=Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens),
            weights=model.folder if isinstance(model, NanoModel) else None,
        )


def plan_rollouts(
    request: EvalRequest, folder: Path, *, resume: bool, skip_unavailable: bool = False
) -> PlannedRequest:
    """Check the request and the folder, which a run makes or continues.

    Args:
        request: Suite, tasks and settings; `selection.repeats` is the size of a group.
        folder: Folder of the run.
        resume: True to continue a run in the folder.
        skip_unavailable: True to leave out the tasks that this machine cannot evaluate.

    Raises:
        CuaError: If the request is wrong, the folder is in use, or has another plan.
        EnvError: If the suite does not exist or is broken.
    """
    request = replace(request, settings={**DEFAULTS, **request.settings})
    planned = plan_request(request, lambda unavailable, num_tasks: skip_unavailable)
    if (folder / PLAN).exists():
        if not resume:
            raise ConfigError(f"{folder} already holds a run; continue it with --resume, or use another folder")
        check_same_plan(folder, read_plan(folder), planned.plan)
    elif resume:
        raise ConfigError(f"{folder} holds no run to resume")
    else:
        with translate_os_errors("read", folder):
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise ConfigError(f"{folder} is not an empty folder; use a new one")
    return planned


def read_plan(folder: Path) -> EvalPlan:
    """Read the plan of a run.

    Raises:
        TrajectoryError: If there is none, or it is damaged.
    """
    try:
        return _PLANS.validate_json(read_inside(folder, PLAN, max_bytes=_MAX_PLAN_BYTES))
    except OSError as error:
        raise TrajectoryError(f"{folder} holds no plan of a run: {error.strerror}") from error
    except ValidationError as error:
        raise TrajectoryError(f"{folder / PLAN} is damaged: {error.errors()[0]['msg']}") from error


async def run_rollouts(
    planned: PlannedRequest,
    folder: Path,
    options: RunOptions,
    *,
    listener: Listener,
) -> RolloutsResult:
    """Run all groups that have not ended.

    Args:
        planned: Checked request.
        folder: Folder with its plan.
        options: Execution options.
        listener: Called with each group that is handed out.

    Raises:
        CuaError: If a setting is wrong, the model records no tokens, the folder cannot be written, or images do not
            reach the trainer.
        EnvError: If the cluster does not exist.
    """
    plan, kind = planned.plan, find_player_kind(planned.plan.agent)
    if kind.makes_models:
        raise ConfigError(f"the tokens of the agent {plan.agent!r} cannot be recorded; expected gui, tools or swarm")
    settings = load_settings(planned.settings).settings
    secrets = make_secrets(settings)
    scope = RunScope(caps=planned.caps)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(open_engine(settings, options.media_token_id))
        if engine.weights is not None and "base_url" in planned.settings:
            raise ConfigError(
                f"{plan.model} is the bundled model in this process, which --base-url does not reach; leave one of "
                "them out, or serve it by another name (cua serve --served-name NAME)"
            )
        await asyncio.to_thread(_keep_plan, folder, plan)
        provider = make_env_provider(
            options.executor if kind.uses_envs else "local",
            planned.suite,
            max_idle=options.num_parallel,
            max_leased=options.num_parallel,
            ray_address=options.ray_address,
            secrets=EnvSecrets(masked_texts=secrets.values, http_logins=secrets.logins),
        )
        stack.push_async_callback(provider.close)
        episodes = make_episodes(
            [(task_id, seed, 0) for seed in plan.seeds for task_id in plan.task_ids],
            make_task=provider.make_task,
            take_env=provider.take_env,
            make_model=_no_model,
            env=env_spec(settings),
        )
        _check_can_repeat(episodes)
        limits = {"max_steps": plan.max_steps, "max_time": plan.max_time_s}
        chosen = {name: value for name, value in planned.settings.items() if name not in ("model", "env", "runs_dir")}
        player = await stack.enter_async_context(kind.make(folder / RUNS, {**chosen, **limits}))
        writer = SampleWriter(folder, media_token_id=engine.media_token_id)
        stack.callback(writer.close)
        models = GatewayModels(Gateway(engine.engine, engine.model), writer, name=plan.model, sampling=engine.sampling)
        journal = RolloutJournal(folder, writer)
        slots = EngineSlots(plan.repeats, options.num_parallel)
        scheduler = await stack.enter_async_context(
            RolloutScheduler(
                journal, options=RolloutOptions(get_slots=lambda: int(min(slots.num_slots, provider.max_leased)))
            )
        )
        following = asyncio.create_task(
            follow_queue(slots, engine.engine.find_num_waiting, lambda: _count_running(scheduler.counts))
        )
        stack.callback(following.cancel)
        groups = []
        for episode in episodes:
            spec = make_episode_spec(
                episode,
                player,
                scope=scope,
                caps=Caps(max_steps=plan.max_steps),
                limits=RolloutLimits(run_s=plan.max_time_s or RolloutLimits().run_s),
                open_session=models.open,
            )
            groups.append(scheduler.submit(spec, plan.repeats))
        async for group in scheduler.finished():
            listener(group, scheduler.counts)
            if options.with_reports:
                await asyncio.to_thread(_write_reports, folder, group, kind)
        for group in groups if options.with_reports else ():  # those without a baseline are not handed out
            await asyncio.to_thread(_write_reports, folder, group, kind)
        if engine.weights is not None and scheduler.counts.num_accepted:
            score = await record_score(journal, engine.weights, max_rollouts=NUM_BLACKENED)
            if score.problem:
                raise SampleError(score.problem)
        return RolloutsResult(
            counts=scheduler.counts,
            reasons=Counter(
                (end.kind, end.reason)
                for group in groups
                for end in group.ends
                if end is not None and end.kind in ("error", "excluded")
            ),
        )


def _keep_plan(folder: Path, plan: EvalPlan) -> None:
    if not (folder / PLAN).exists():
        with translate_os_errors("write", folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / PLAN, json.dumps(asdict(plan)).encode())


def _count_running(counts: RolloutCounts) -> int:
    return sum(number for state, number in counts.states.items() if state != "queued")


async def record_score(journal: RolloutJournal, weights: Path, max_rollouts: int | None = None) -> RunScore:
    """Score the samples of a run with the weights of its last version, and record the result in the journal.

    Raises:
        CuaError: See `score_run`.
    """
    score = await asyncio.to_thread(score_run, journal.folder, weights, max_rollouts=max_rollouts)
    journal.measured(score.version or 0, score.mismatch)
    if score.image_effect is not None:
        journal.measured_images(score.image_effect)
    return score


def _write_reports(folder: Path, group: RolloutGroup, kind: PlayerKind) -> None:
    """Write the missing reports of a group."""
    for end in group.ends:
        run = None if end is None or end.run_dir is None else folder / end.run_dir
        if run is not None and not (run / kind.report_file).exists():
            with contextlib.suppress(TrajectoryError):
                kind.write_run_report(run)


def _check_can_repeat(episodes: tuple[Episode, ...]) -> None:
    """Check that several attempts at a task can run at once, and one after the other.

    Raises:
        ConfigError: If not.
    """
    for episode in episodes:
        if reason := episode.exclusive_reason or episode.no_retry_reason:
            raise ConfigError(f"the task {episode.task_id!r} cannot be tried by a group: {reason}")


def _no_model() -> Model:
    raise ConfigError("the model of a rollout is its session")
