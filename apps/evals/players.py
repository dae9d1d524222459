"""Kinds of players by name: how to play episodes, and their descriptions in reports.

    [project.entry-points."k25.players"]
    phone = "my_package.phone:PLAYER"            # a PlayerKind

A suite names the kinds that can play it in `Suite.agents`; plans and results hold the name.
"""

import importlib.metadata
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cua.batch.episode import Player
from cua.batch.player import AgentPlayer, SwarmPlayer, ToolsPlayer
from cua.errors import ConfigError, CuaError, TrajectoryError, name_choices
from cua.swarm.report import PAGE as SWARM_PAGE
from cua.swarm.report import write_swarm_report
from cua.trajectory.report import write_report
from cua.trajectory.run_files import REPORT
from envs.foreign import contained, describe_defect

GROUP = "k25.players"
_BASELINES = {"null": "does nothing", "fail": "says failure", "random": "clicks anywhere"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerKind:
    """Registered kind of player.

    Attributes:
        make: Called with the folder of the runs and the settings of every run by name, including its limits `max_steps`
            and `max_time`; returns the `Player`, an async context manager.
        about: Text after the name of the model in reports; "" for the usual kind.
        uses_envs: True if an episode takes an environment from the `EnvProvider`.
        makes_models: True if `make` takes the name of the model as the setting `model`; otherwise the evaluation
            makes the model of each episode.
        report_file: Name of the file that `write_run_report` writes into the folder of a run.
        write_run_report: Writes the report of a run and returns its path; raises `TrajectoryError` on failure.
        baselines: Baseline agents without skill of this kind, by name.
        scores_parts: True if the other scores of an episode are parts of its score, which not every episode has.
    """

    make: Callable[[Path, Mapping[str, Any]], AbstractAsyncContextManager[Player]]
    about: str = ""
    uses_envs: bool = False
    makes_models: bool = False
    report_file: str = REPORT
    write_run_report: Callable[[Path], Path] = write_report
    baselines: Mapping[str, str] = field(default_factory=lambda: _BASELINES)
    scores_parts: bool = False


def _make_site_player(runs_dir: Path, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[Player]:
    from apps.video2web.suite import SitePlayer

    return nullcontext(SitePlayer(runs_dir, **settings))


def _write_build_page(run_dir: Path) -> Path:
    from apps.video2web.report import write_build_report
    from apps.video2web.rounds import BuildFolder

    try:
        return write_build_report(BuildFolder(run_dir))
    except CuaError as error:  # as for any other run
        raise TrajectoryError(str(error)) from error


_OURS = {
    "gui": PlayerKind(make=lambda runs, settings: nullcontext(AgentPlayer(runs, **settings)), uses_envs=True),
    "tools": PlayerKind(make=lambda runs, settings: ToolsPlayer(runs, **settings), about="one agent with tools"),
    "swarm": PlayerKind(
        make=lambda runs, settings: nullcontext(SwarmPlayer(runs, **settings)),
        about="a swarm",
        report_file=SWARM_PAGE,
        write_run_report=write_swarm_report,
    ),
    "web": PlayerKind(
        make=_make_site_player,
        about="an author of sites",
        makes_models=True,
        write_run_report=_write_build_page,
        baselines={
            "null": "does nothing",
            "image": "takes the image for the page",
            "text": "writes the text it reads, nothing else",
        },
        scores_parts=True,
    ),
}


def player_names() -> tuple[str, ...]:
    """Return the names of all kinds of players, built-in ones first."""
    return tuple(dict.fromkeys([*_OURS, *sorted(importlib.metadata.entry_points(group=GROUP).names)]))


def find_player_kind(name: str) -> PlayerKind:
    """Return the kind with the given name.

    Raises:
        ConfigError: If the kind is unknown, or its distribution is broken.
    """
    if name in _OURS:
        return _OURS[name]
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        try:
            with contained():
                player = entry.load()
        except Exception as error:  # code of another distribution
            raise ConfigError(
                f"the player {name!r} ({entry.value}) cannot be loaded: {describe_defect(error)}"
            ) from error
        if not isinstance(player, PlayerKind):
            raise ConfigError(f"the player {name!r} is a {type(player).__name__}; expected a PlayerKind")
        return player
    raise ConfigError(f"there is no player {name!r}.{name_choices(name, player_names())}")


def find_recorded_kind(name: str) -> PlayerKind:
    """Return the kind named in results; one that is not installed has only its name, and cannot play."""
    try:
        return find_player_kind(name)
    except ConfigError:
        return PlayerKind(make=lambda runs, settings: find_player_kind(name).make(runs, settings), about=name)


def baseline_names() -> tuple[str, ...]:
    """Return the names of all baseline agents without skill."""
    return tuple(dict.fromkeys(name for kind in player_names() for name in find_recorded_kind(kind).baselines))
