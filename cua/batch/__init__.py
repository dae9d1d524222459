"""Many episodes at once: given out, tried again where the infrastructure failed, and each accounted for."""

from cua.batch.episode import Episode, EpisodeKind, EpisodeResult
from cua.batch.journal import EpisodeJournal
from cua.batch.run import BatchOptions, BatchSummary, run_batch

__all__ = ["BatchOptions", "BatchSummary", "Episode", "EpisodeJournal", "EpisodeKind", "EpisodeResult", "run_batch"]
