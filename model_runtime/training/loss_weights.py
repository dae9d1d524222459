"""Weights of the losses."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWeights:
    """Weight of each loss.

    Attributes:
        token: Cross-entropy of the next token.
        number: Cross-entropy of number tokens, against a bell over the numbers near the right one.
        choice: Cross-entropy of tokens at which answers begin to differ, which `token` weights like all others.
        copy: Cross-entropy of tokens that are copied from the request.
        letter: Letter in each part of a patch, read after the vision tower's middle block.
        order: Number of letters that follow that one in its word, read from the same rows; heads find the letter by it.
        word: Word centred on an image's token, read from the projector's output.
        match: Token of the image on which that word is centred, found by the product of a code of its letters and a key
            of each token, at the rows of `place`: an attention head can only compare by such products.
        click_point: Click position of the named element, read from the same rows and, if the language model is run,
            from the same token as input of the layer that is trained to look. Names away from that position, such as
            field labels, have the same total weight as all others.
        state: State of that element (ticked, chosen, open or filled), read from the same rows.
        read_word_attn: Attention share of a head after the tower's middle block, from a patch on which a word is
            centred to the patch that shows one of its letters: reading a word means collecting its letters.
        target_attn: Attention share in the last block, from the neighbouring patch to the patch of the word's click
            position.
        state_attn: Attention share in the last block, from the fourth patch of the word's token to the patch that shows
            if the element is on, such as the box on its left.
        place: Position of each of the image's tokens in its screenshot, in coordinates without padding. Read from the
            projector's output and, if the language model is run, from the same token as input of the layer that is
            trained to look.
        pointer: Image token of the target, by the product of two projections of hidden rows.
        attention: Attention share of an axis's head on the target's image token, at the token before a number of that
            axis; before numbers of other axes, on the first token, which has no information. The same for the heads
            that look before a choice and before copied text; each head has the same weight.
        second_attn: Loss `attention` for the numbers of a point, by the same heads of the next layer, where the result
            of the first look can be compared with the request again.
        code: Products of a code of a word's letters with the keys of all tokens of its image in the heads that look at
            the target, as in `match`, and with the queries that seek a word, where the other words of the step must
            have smaller products: all words of each screen are used, not only the few in questions.
        name: Name of the target, read from the same token as input of that head's layer, by the layer that reads words
            from images: request and image then have the same representation. Also read at its position in the request,
            one layer earlier.
        char_position_attn: Attention share of heads in earlier layers from each token of a name in the request to the
            tokens before it: the first head to the previous one, the second to the one before that, and so on.
        name_query_attn: Attention share of some heads, one layer earlier, from the same token to the last token of the
            target's name in the request.
        part_id: Part of the request that a token belongs to or acts for, read at the input of that layer: of several
            requested things, one is next.
        target: Click position of the target along the number's axis, read from that token after that layer, by the
            layer that reads click positions from images: the position then only has to be copied.
    """

    token: float = 1.0
    number: float = 1.0
    choice: float = 1.0
    copy: float = 1.0
    letter: float = 1.0
    order: float = 1.0
    word: float = 1.0
    match: float = 1.0
    click_point: float = 1.0
    state: float = 1.0
    read_word_attn: float = 1.0
    target_attn: float = 1.0
    state_attn: float = 1.0
    place: float = 1.0
    pointer: float = 1.0
    attention: float = 1.0
    second_attn: float = 1.0
    code: float = 1.0
    name: float = 1.0
    char_position_attn: float = 1.0
    name_query_attn: float = 1.0
    part_id: float = 1.0
    target: float = 1.0

    @classmethod
    def only(cls, *parts: str) -> "LossWeights":
        """Return weights of 1 for these losses, 0 for all others."""
        return cls(**{field.name: float(field.name in parts) for field in fields(cls)})

    @property
    def is_of_images(self) -> bool:
        """True if all losses with a weight use only the output of the vision tower and the projector."""
        of_text = (self.token, self.number, self.choice, self.copy)
        looks = (self.pointer, self.attention, self.second_attn, self.code, self.name_query_attn, self.target)
        return not any((*of_text, *looks, self.name, self.char_position_attn, self.part_id))
