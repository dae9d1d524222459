"""Control tokens: 256 slots after the ordinary ranks, 23 of them with a name.

Source: `tokenizer_config.json` of the release, `added_tokens_decoder`. Slots are counted from the number of ordinary
ranks (163,584 in the release), so that a tiny vocabulary has the same layout.
"""

from dataclasses import dataclass

NUM_SLOTS = 256
SLOT_OF = {
    "[BOS]": 0,
    "[EOS]": 1,
    "<|im_end|>": 2,
    "<|im_user|>": 3,
    "<|im_assistant|>": 4,
    "<|start_header_id|>": 6,
    "<|end_header_id|>": 7,
    "[EOT]": 9,
    "<|im_system|>": 10,
    "<|tool_calls_section_begin|>": 11,
    "<|tool_calls_section_end|>": 12,
    "<|tool_call_begin|>": 13,
    "<|tool_call_argument_begin|>": 14,
    "<|tool_call_end|>": 15,
    "<|im_middle|>": 17,
    "<|media_begin|>": 18,
    "<|media_content|>": 19,
    "<|media_end|>": 20,
    "<|media_pad|>": 21,
    "<think>": 22,
    "</think>": 23,
    "[UNK]": 254,
    "[PAD]": 255,
}


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the control tokens of a vocabulary with `first_id` ordinary ranks.

    Attributes:
        first_id: Id of the first slot.
        extra: (text, slot) of names beyond `SLOT_OF`, where a checkpoint has given some.
    """

    first_id: int = 163_584
    extra: tuple[tuple[str, int], ...] = ()

    def id_of(self, text: str) -> int:
        """Id of a control token by its text, for example `"<|im_end|>"`; KeyError for others."""
        slot = SLOT_OF.get(text)
        return self.first_id + slot if slot is not None else self.ids[text]

    def text_of(self, token_id: int) -> str:
        """Text of a control token; unnamed slots are `<|reserved_token_ID|>`."""
        slot = token_id - self.first_id
        named = _TEXT_OF.get(slot) or next((text for text, taken in self.extra if taken == slot), None)
        return named or f"<|reserved_token_{token_id}|>"

    def is_special(self, token_id: int) -> bool:
        """Whether the id is one of the 256 slots."""
        return self.first_id <= token_id < self.first_id + NUM_SLOTS

    @property
    def ids(self) -> dict[str, int]:
        """Every slot: its text to its id, in order."""
        return {self.text_of(token_id): token_id for token_id in range(self.first_id, self.first_id + NUM_SLOTS)}

    @property
    def bos(self) -> int:
        """`[BOS]`."""
        return self.first_id

    @property
    def eos(self) -> int:
        """`[EOS]`."""
        return self.id_of("[EOS]")

    @property
    def im_end(self) -> int:
        """`<|im_end|>`: ends a message; a stop token although config.json names `[EOS]`."""
        return self.id_of("<|im_end|>")

    @property
    def media_pad(self) -> int:
        """`<|media_pad|>`: stands where embeddings of media go."""
        return self.id_of("<|media_pad|>")

    @property
    def think_begin(self) -> int:
        """`<think>`."""
        return self.id_of("<think>")

    @property
    def think_end(self) -> int:
        """`</think>`."""
        return self.id_of("</think>")

    @property
    def section_begin(self) -> int:
        """`<|tool_calls_section_begin|>`."""
        return self.id_of("<|tool_calls_section_begin|>")

    @property
    def reasoning_ends(self) -> tuple[int, ...]:
        """What ends reasoning: its own marker, a section of calls, and a call without one."""
        return self.think_end, self.section_begin, self.id_of("<|tool_call_begin|>")


_TEXT_OF = {slot: text for text, slot in SLOT_OF.items()}
