"""Words found among an image's tokens by their letters, as a head of attention would find them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.training.lessons import IGNORED

CODE_DIM = 64


class WordCodes(nn.Embedding):
    """Codes of words: a sum of rows, one for each letter at its place.

    So what tells words apart has to lie in the tokens' hidden states in directions that add up, where attention finds
    it; a word can be read from a state, letter by letter behind a softmax each, without.

    Args:
        dim: Of a code.
        num_letters: Classes of a letter.
        word_length: Letters of a word that count.
        scale: Size of the numbers that a row begins with: by it goes what the codes teach others at first.
    """

    def __init__(self, dim: int, *, num_letters: int, word_length: int, scale: float = 1.0) -> None:
        super().__init__(word_length * (num_letters + 1), dim)  # behind the letters, that there is none
        self.weight.data *= scale
        self.num_letters, self.word_length = num_letters, word_length

    def forward(self, words: Tensor) -> Tensor:
        """(W, letters) int64, padded with `IGNORED` -> (W, dim)."""
        letters = F.pad(words, (0, self.word_length - words.shape[1]), value=IGNORED)
        classes = torch.where(letters == IGNORED, self.num_letters, letters)
        numbers = classes + torch.arange(self.word_length) * (self.num_letters + 1)
        return super().forward(numbers.to(self.weight.device)).sum(1)


class WordMatcher(nn.Module):
    """Codes of words and keys of tokens, whose product says on which token a word is centred.

    Args:
        hidden: Width of the tokens' states.
        num_letters: Classes of a letter.
        word_length: Letters of a word that count.
    """

    def __init__(self, hidden: int, *, num_letters: int, word_length: int) -> None:
        super().__init__()
        self.code = WordCodes(CODE_DIM, num_letters=num_letters, word_length=word_length)
        self.key = nn.Linear(hidden, CODE_DIM)

    def forward(self, rows: Tensor, counts: Sequence[int], places: Tensor, words: Tensor) -> Tensor:
        """`find_match_loss` of the tokens of all images end to end, (T, hidden)."""
        return find_match_loss(self.code(words) @ self.key(rows).T / CODE_DIM**0.5, counts, places, words)


def find_match_loss(scores: Tensor, counts: Sequence[int], places: Tensor, words: Tensor) -> Tensor:
    """Mean of -log of the share that a word's code gives, of all tokens of its image, to those it is centred on.

    Args:
        scores: (W, T), of each word with the tokens of all images end to end.
        counts: Tokens of each image.
        places: (W,) int64, the token that each word is centred on.
        words: (W, letters) int64, padded with `IGNORED`.

    Returns:
        () fp32.
    """
    image_of = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    is_elsewhere = image_of != image_of[places].unsqueeze(1)
    scores = scores.masked_fill(is_elsewhere.to(scores.device), -torch.inf)
    is_same = (words.unsqueeze(1) == words).all(2) & (image_of[places].unsqueeze(1) == image_of[places])
    word, other = is_same.nonzero(as_tuple=True)
    is_right = torch.zeros(scores.shape, dtype=torch.bool).index_put((word, places[other]), torch.tensor(True))
    shares = scores.float().log_softmax(1).masked_fill(~is_right.to(scores.device), -torch.inf)
    return -shares.logsumexp(1).mean()
