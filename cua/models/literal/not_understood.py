"""Words that no rule accounts for: they are named and nothing is done, instead of being dropped or typed."""


class NotUnderstoodError(ValueError):
    """A phrase holds words that have no meaning to the grammar.

    Attributes:
        words: The words, with their quotes.
        hint: What would be understood.
    """

    def __init__(self, words: str, hint: str = "") -> None:
        super().__init__(words)
        self.words = " ".join(words.split())
        self.hint = hint
