import math

import pytest
import torch

from model_runtime.training.lessons import IGNORED
from model_runtime.training.losses import WordMatcher

NUM_LETTERS, WORD_LENGTH = 5, 3
WORDS = torch.tensor([[1, 2], [3, IGNORED], [1, 2], [4, 0]])
COUNTS, PLACES = (4, 3), torch.tensor([0, 2, 3, 5])  # the first and the third are one word, in one image


@pytest.fixture
def matcher() -> WordMatcher:
    torch.manual_seed(0)
    return WordMatcher(6, num_letters=NUM_LETTERS, word_length=WORD_LENGTH)


def test_without_a_hint_each_token_of_its_image_is_as_likely(matcher: WordMatcher) -> None:
    torch.nn.init.zeros_(matcher.key.weight)
    torch.nn.init.zeros_(matcher.key.bias)
    wanted = (2 * math.log(4 / 2) + math.log(4) + math.log(3)) / 4
    assert matcher(torch.randn(7, 6), COUNTS, PLACES, WORDS).item() == pytest.approx(wanted)


def test_tokens_of_other_images_do_not_count(matcher: WordMatcher) -> None:
    rows = torch.randn(7, 6)
    own = matcher(rows[4:], COUNTS[1:], PLACES[3:] - 4, WORDS[3:])
    both = matcher(rows, COUNTS, PLACES[3:], WORDS[3:])
    assert both.item() == pytest.approx(own.item(), rel=1e-5)


def test_codes_and_keys_learn_to_find_words(matcher: WordMatcher) -> None:
    """Also such that one of the words has letters that the other has elsewhere, or one more."""
    words = torch.tensor([[1, 2], [2, 1], [1, 2], [1, IGNORED]])
    rows = torch.randn(6, 6)
    places = torch.tensor([0, 1, 3, 5])
    optimizer = torch.optim.Adam(matcher.parameters(), lr=0.05)
    for _ in range(200):
        loss = matcher(rows, (3, 3), places, words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
