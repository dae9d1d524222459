import pytest
import torch

from model_runtime.engine.sampling import SamplingParams
from model_runtime.engine.sampling.counts import apply_penalties, make_counts

LOGITS = [2.0, -2.0, 0.0, 1.0, -1.0, 3.0]
PROMPT = (0, 1, 1, 5)
OUTPUT = (3, 4, 3, 0)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(presence_penalty=0.5), [1.5, -2.0, 0.0, 0.5, -1.5, 3.0]),
        (SamplingParams(frequency_penalty=0.5), [1.5, -2.0, 0.0, 0.0, -1.5, 3.0]),
        (SamplingParams(presence_penalty=-1.0, frequency_penalty=0.25), [2.75, -2.0, 0.0, 1.5, -0.25, 3.0]),
        (SamplingParams(repetition_penalty=2.0), [1.0, -4.0, 0.0, 0.5, -2.0, 1.5]),
        (SamplingParams(repetition_penalty=0.5), [4.0, -1.0, 0.0, 2.0, -0.5, 6.0]),
        (SamplingParams(repetition_penalty=2.0, frequency_penalty=1.0), [0.0, -4.0, 0.0, -1.5, -3.0, 1.5]),
    ],
)
def test_penalties(params: SamplingParams, expected: list[float]) -> None:
    counts = make_counts(PROMPT, params)
    assert counts is not None
    for token_id in OUTPUT:
        counts.add(token_id)
    row = torch.tensor(LOGITS)
    apply_penalties(row, counts, params)
    assert row.tolist() == expected


def test_nothing_is_counted_without_penalties() -> None:
    assert make_counts(PROMPT, SamplingParams()) is None


def test_no_token_yet() -> None:
    params = SamplingParams(frequency_penalty=1.0)
    counts = make_counts(PROMPT, params)
    assert counts is not None
    row = torch.tensor(LOGITS)
    apply_penalties(row, counts, params)
    assert row.tolist() == LOGITS
