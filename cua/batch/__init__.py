"""Runs many episodes in parallel, retries infrastructure failures, and records a result for each."""

from cua.batch.episode import Episode, EpisodeKind, EpisodeResult, Player, make_episodes
from cua.batch.executor import EpisodeExecutor, make_executor
from cua.batch.journal import EpisodeJournal
from cua.batch.player import AgentPlayer, SwarmPlayer, ToolsPlayer
from cua.batch.run import BatchOptions, BatchSummary, run_batch

__all__ = [
    "AgentPlayer",
    "BatchOptions",
    "BatchSummary",
    "Episode",
    "EpisodeExecutor",
    "EpisodeJournal",
    "EpisodeKind",
    "EpisodeResult",
    "Player",
    "SwarmPlayer",
    "ToolsPlayer",
    "make_episodes",
    "make_executor",
    "run_batch",
]
