"""Runs many episodes in parallel, retries infrastructure failures, and records a result for each."""

from cua.batch.episode import Episode, EpisodeKind, EpisodeResult, Player, make_episodes
from cua.batch.episode_log import EpisodeLog
from cua.batch.executor import EnvProvider, make_env_provider
from cua.batch.player import AgentPlayer, SwarmPlayer, ToolsPlayer
from cua.batch.run import BatchOptions, BatchSummary, run_batch

__all__ = [
    "AgentPlayer",
    "BatchOptions",
    "BatchSummary",
    "EnvProvider",
    "Episode",
    "EpisodeKind",
    "EpisodeLog",
    "EpisodeResult",
    "Player",
    "SwarmPlayer",
    "ToolsPlayer",
    "make_env_provider",
    "make_episodes",
    "run_batch",
]
