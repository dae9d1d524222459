"""Weights of the losses."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWeights:
    """Weight of each loss. `word_rows` and other tensors in backticks are those of `Targets`.

    Losses on the answer are marked "Text"; on the vision part "Patches" and "Image tokens"; on the language model's
    attention from the answer to the image "Looking"; on the way from the answer to the request "Request".

    Attributes:
        token: Text: cross-entropy of the next token.
        number: Text: cross-entropy of number tokens, against a normal distribution around the right one.
        choice: Text: cross-entropy of tokens at which answers begin to differ, which `token` weights like all others.
        copy: Text: cross-entropy of tokens that are copied from the request.
        letter: Patches: letter in each part of a patch, read after the vision tower's middle block.
        order: Patches: number of letters that follow the letter in its word, read from the rows that `letter` reads;
            attention heads find a letter by it.
        read_word_attn: Patches: attention share of a head after the tower's middle block, from a patch on which a word
            is centred to the patch that shows one of its letters: reading a word means collecting its letters.
        target_attn: Patches: attention share in the tower's last block, from the right patch of a word's image
            token, in the row without the word, to the patch at the click position of the element that the word names.
        state_attn: Patches: attention share in the tower's last block, from the left patch of a word's image
            token, in the row without the word, to the patch that shows if the element is on, such as the box on its
            left.
        word: Image tokens: word centred on an image token, read from the projector's output at `word_rows`.
        match: Image tokens: image token on which a word is centred, found by the product of a code of the word's
            letters and a key of each image token, at the rows that `place` reads: an attention head can only compare by
            such products.
        click_point: Image tokens: click position of the element that a word names, read from the projector's output at
            `word_rows` and, if the language model is run, from the input of the supervised layer at `word_rows`. Names
            away from that position, such as field labels, have the same total weight as all others.
        state: Image tokens: state of the element that a word names (ticked, chosen, open or filled), read from the
            projector's output at `word_rows`.
        place: Image tokens: position of each image token in its screenshot, in coordinates without padding, read from
            the projector's output and, if the language model is run, from the input of the supervised layer.
        pointer: Looking: image token of the target, by the product of two projections of final hidden rows.
        attention: Looking: attention share of an axis's head of the supervised layer on the target's image token, at
            the token before a number of that axis; before numbers of other axes, on the first token, which has no
            information. The same for the heads that look before a choice and before copied text; each head has the same
            weight.
        second_attn: Looking: loss `attention` for the numbers of a point, by the same heads of the next layer, where
            the result of the first look can be compared with the request again.
        code: Looking: products of a code of a word's letters with the keys of all tokens of its image in the heads that
            look at the target, as in `match`, and with the queries at `query_word_rows`, where the other words of the
            step must have smaller products: all words of each screen are used, not only the few in questions.
        target: Looking: click position of the target along a number's axis, read at `attention_rows` after the
            supervised layer, by the layer that reads click positions from images: the position then only has to be
            copied.
        name: Request: name of the target, read from the input of the supervised layer at `query_word_rows`, by the
            layer that reads words from images: request and image then have the same representation. Also read at
            `name_rows`, one layer earlier.
        char_position_attn: Request: attention share of heads in earlier layers from each token of a name in the request
            to the tokens before it: the first head to the previous one, the second to the one before that, and so on.
        name_query_attn: Request: attention share of some heads, one layer before the supervised layer, from
            `query_rows` to the last token of the target's name in the request.
        part_id: Request: part of the request that a token belongs to or acts for, read at the input of the layer before
            the supervised layer: of several requested things, one is next.
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
    def only(cls, *losses: str) -> "LossWeights":
        """Return weights of 1 for these losses, 0 for all others."""
        return cls(**{field.name: float(field.name in losses) for field in fields(cls)})

    @property
    def needs_vision_only(self) -> bool:
        """True if all losses with a weight use only the output of the vision tower and the projector."""
        text = (self.token, self.number, self.choice, self.copy)
        looking = (self.pointer, self.attention, self.second_attn, self.code, self.target)
        request = (self.name, self.char_position_attn, self.name_query_attn, self.part_id)
        return not any((*text, *looking, *request))
