"""How much each loss counts."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWeights:
    """How much each part counts.

    Attributes:
        token: Cross-entropy of the next token.
        number: The same for tokens that are numbers, against a bell over the numbers near the right one.
        choice: The same for tokens by which one answer begins to differ from others, which `token` counts as one of
            many.
        copy: The same for tokens that are copied from the request.
        letter: Which letter each part of a patch shows, read behind the vision tower's middle block.
        order: How many letters of its word follow that one, read from the same rows: by that it is found.
        word: Which word is centred on a image's token, read from what the projector gives.
        match: Which of all tokens of its image that word is centred on, found by a product of a code of its letters
            and a key of each token, where `place` is read: a head of attention can compare no better than so.
        aim: Where what the word names is clicked, read from the same rows and, where the language model is run, from
            the same token as it comes to the layer that is taught to look; names that stand elsewhere, as labels of
            fields, count as much as all others.
        state: Whether that is ticked, chosen, open or filled, read from the same rows.
        gather: How much of its attention a head behind the tower's middle block gives, from a patch on which a word is
            centred, to the patch that shows one of its letters: reading a word is bringing its letters together.
        reach: The same, in the last block, from the patch beside it to the patch that is clicked when that word is
            asked for.
        mark: The same, there, from the fourth patch of its token to the one that shows whether what it names is on,
            such as the box left of it.
        place: Where in its screenshot each of the image's tokens lies, as coordinates say it: padding does not count.
            Read from what the projector gives and, where the language model is run, from the same token as it comes to
            the layer that is taught to look.
        pointer: Which of the image's tokens is meant, by the product of two projections of hidden rows.
        attention: How much of its attention the head of an axis gives to the image's token meant, at the token before
            a number of that axis; before numbers of others, to the first token, which says nothing. So for the heads
            that look before a choice and before what is copied; each head counts the same.
        again: As `attention` for the numbers of a point, by the same heads of the layer behind: what was looked at can
            be compared with what is sought once more.
        code: In the heads that are taught to look at the target, the products of a code of a word's letters with the
            keys of all tokens of its image, as in `match`, and with the queries that seek a word, where other words of
            the step must have less: of each screen all words teach them, and not the few that are asked for.
        name: What the target is called, read from the same token as it comes to that head's layer, by the very layer
            that reads words from images: what is asked for and what is seen are written alike. Read, too, where the
            request has named it, a layer before.
        spell: How much of their attention the heads of the layers before that give, from each token of a name in the
            request, to the tokens before it: the first head to the last one, the second to the one before that, and
            so on.
        seek: How much of its attention each of some heads gives, a layer before, from the same token to the one with
            which the request has named the target.
        part: Which part of the request a token belongs to or acts for, read where that layer takes it: of several
            things that are asked for, one is next.
        target: Where the target is clicked along the number's axis, read from that token behind that layer, by the
            very layer that reads where what a word names is clicked: it has only to be copied.
    """

    token: float = 1.0
    number: float = 1.0
    choice: float = 1.0
    copy: float = 1.0
    letter: float = 1.0
    order: float = 1.0
    word: float = 1.0
    match: float = 1.0
    aim: float = 1.0
    state: float = 1.0
    gather: float = 1.0
    reach: float = 1.0
    mark: float = 1.0
    place: float = 1.0
    pointer: float = 1.0
    attention: float = 1.0
    again: float = 1.0
    code: float = 1.0
    name: float = 1.0
    spell: float = 1.0
    seek: float = 1.0
    part: float = 1.0
    target: float = 1.0

    @classmethod
    def only(cls, *parts: str) -> "LossWeights":
        """These count 1, the others nothing."""
        return cls(**{field.name: float(field.name in parts) for field in fields(cls)})

    @property
    def is_of_images(self) -> bool:
        """Whether only what the vision tower and the projector give is asked for."""
        of_text = (self.token, self.number, self.choice, self.copy)
        looks = (self.pointer, self.attention, self.again, self.code, self.seek, self.target)
        return not any((*of_text, *looks, self.name, self.spell, self.part))
