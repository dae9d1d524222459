"""Control tokens: 256 slots after the ordinary ranks, 23 of them named; checked against `tokenizer_config.json`.

Source: `tokenizer_config.json` of the release, `added_tokens_decoder`. Slots are counted from the number of ordinary
ranks (163,584 in the release), so that a tiny vocabulary has the same layout.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model_runtime.errors import ConfigError

NUM_SLOTS = 256  # reserved ids behind the ranks, as in the release's tokenizer
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
        extra: (text, slot) of names beyond `SLOT_OF`, if the checkpoint has some.
    """

    first_id: int = 163_584
    extra: tuple[tuple[str, int], ...] = ()

    def id_of(self, text: str) -> int:
        """Return the id of a control token by its text, for example `"<|im_end|>"`; raises KeyError for others."""
        slot = SLOT_OF.get(text)
        return self.first_id + slot if slot is not None else self.ids[text]

    def text_of(self, token_id: int) -> str:
        """Return the text of a control token; unnamed slots are `<|reserved_token_ID|>`."""
        slot = token_id - self.first_id
        named = _TEXT_OF.get(slot) or next((text for text, extra_slot in self.extra if extra_slot == slot), None)
        return named or f"<|reserved_token_{token_id}|>"

    def is_special(self, token_id: int) -> bool:
        """Return True if the id is one of the 256 slots."""
        return self.first_id <= token_id < self.first_id + NUM_SLOTS

    @property
    def ids(self) -> dict[str, int]:
        """Ids of all slots by text, in order."""
        return {self.text_of(token_id): token_id for token_id in range(self.first_id, self.first_id + NUM_SLOTS)}

    @property
    def bos(self) -> int:
        """Id of `[BOS]`."""
        return self.first_id

    @property
    def eos(self) -> int:
        """Id of `[EOS]`."""
        return self.id_of("[EOS]")

    @property
    def im_end(self) -> int:
        """Id of `<|im_end|>`, which ends a message; a stop token although config.json names `[EOS]`."""
        return self.id_of("<|im_end|>")

    @property
    def media_pad(self) -> int:
        """Id of `<|media_pad|>`, the placeholder for embeddings of media."""
        return self.id_of("<|media_pad|>")

    @property
    def think_begin(self) -> int:
        """Id of `<think>`."""
        return self.id_of("<think>")

    @property
    def think_end(self) -> int:
        """Id of `</think>`."""
        return self.id_of("</think>")

    @property
    def section_begin(self) -> int:
        """Id of `<|tool_calls_section_begin|>`."""
        return self.id_of("<|tool_calls_section_begin|>")

    def is_in_reasoning(self, token_ids: Sequence[int]) -> bool:
        """Return True if ids end inside an open reasoning block: their last control token is `<think>`."""
        return next(filter(self.is_special, reversed(token_ids)), None) == self.think_begin

    @property
    def reasoning_ends(self) -> tuple[int, ...]:
        """Ids that end reasoning: its own marker, a section of calls, and a call without one."""
        return self.think_end, self.section_begin, self.id_of("<|tool_call_begin|>")


_TEXT_OF = {slot: text for text, slot in SLOT_OF.items()}


def read_special(path: Path, num_ranks: int) -> SpecialTokens:
    """Read the control tokens of a checkpoint with `num_ranks` ordinary tokens; without the file, the slots of the
    release.

    Raises:
        ConfigError: If the file is malformed, or its table contradicts the slots.
    """
    plain = SpecialTokens(num_ranks)
    if not path.exists():
        return plain
    table = _read_table(path)
    wrong = {text: token_id for token_id, text in table.items() if plain.ids.get(text, token_id) != token_id}
    if wrong:
        raise ConfigError(f"{path}: added_tokens_decoder {_describe(wrong, plain)}")
    extra = {text: token_id - num_ranks for token_id, text in table.items() if text not in plain.ids}
    for text, slot in extra.items():
        if not 0 <= slot < NUM_SLOTS or slot in SLOT_OF.values():
            actual = plain.text_of(num_ranks + slot) if 0 <= slot < NUM_SLOTS else "no control token"
            raise ConfigError(f"{path}: added_tokens_decoder has {text!r} as id {num_ranks + slot}, which is {actual}")
    return SpecialTokens(num_ranks, tuple(extra.items()))


def _read_table(path: Path) -> dict[int, str]:
    """Return texts by id from `added_tokens_decoder`; empty if there is none."""
    try:
        table = json.loads(path.read_bytes()).get("added_tokens_decoder") or {}
        read = {int(token_id): entry["content"] for token_id, entry in table.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{path}: expected added_tokens_decoder of {{id: {{content: text}}}}; {problem}") from error
    if len(set(read.values())) != len(read) or not all(isinstance(text, str) for text in read.values()):
        raise ConfigError(f"{path}: added_tokens_decoder gives a text to two ids, or one that is not text")
    return read


def _describe(wrong: dict[str, int], plain: SpecialTokens) -> str:
    text, actual_id = max(wrong.items(), key=lambda item: item[1])
    message = f"has {text!r} as id {actual_id}; the model was trained with {plain.ids[text]}"
    shifts = {plain.ids[text] - token_id for text, token_id in wrong.items()}
    if shifts <= {1, 2, 3}:
        message += (
            ". The ids are shifted as by a conversion to a fast tokenizer, which drops the reserved slots between them:"
            " take tokenizer_config.json of the original release"
        )
    return message
