"""How often each token stands in the prompt and in the output, and the penalties that follow from it."""

from array import array
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from model_runtime.engine.sampling.params import SamplingParams


class TokenCounts:
    """The distinct tokens of a sequence with their number in the output; a token of the prompt alone has 0."""

    def __init__(self, prompt_ids: Sequence[int] = ()) -> None:
        self._ids = array("q", dict.fromkeys(prompt_ids))
        self._counts = array("q", bytes(8 * len(self._ids)))
        self._places = {token_id: place for place, token_id in enumerate(self._ids)}

    def add(self, token_id: int) -> None:
        """One more of this token in the output."""
        place = self._places.setdefault(token_id, len(self._ids))
        if place == len(self._ids):
            self._ids.append(token_id)
            self._counts.append(0)
        self._counts[place] += 1

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Ids (N,) int64 and counts (N,) int64."""
        ids, counts = (torch.from_numpy(np.array(column, dtype=np.int64)) for column in (self._ids, self._counts))
        return ids.to(device), counts.to(device)


def make_counts(prompt_ids: Sequence[int], params: SamplingParams) -> TokenCounts | None:
    """Counts as far as the penalties of `params` need them; None without penalties."""
    if params.repetition_penalty != 1.0:
        return TokenCounts(prompt_ids)
    return TokenCounts() if params.presence_penalty or params.frequency_penalty else None


def apply_penalties(row: Tensor, counts: TokenCounts, params: SamplingParams) -> None:
    """Change one row of logits, (V,) float32, in place.

    The repetition penalty comes first and scales; the other two are subtracted.

    Source: repetition: CTRL, arXiv:1909.05858, section 4.1, with negative logits multiplied instead of divided, as
    all peers do; presence and frequency: OpenAI's API reference.
    """
    ids, number = counts.tensors(row.device)
    logits = row[ids]
    if params.repetition_penalty != 1.0:
        factor = params.repetition_penalty
        logits = torch.where(logits > 0, logits / factor, logits * factor)
    logits -= params.frequency_penalty * number + params.presence_penalty * (number > 0)
    row[ids] = logits
