"""`tokenizer_config.json`: checks the ids of control tokens against the slots that the model was trained with."""

import json
from pathlib import Path

from model_runtime.errors import ConfigError
from model_runtime.tokenizer.special import NUM_SLOTS, SLOT_OF, SpecialTokens


def read_special(path: Path, num_ranks: int) -> SpecialTokens:
    """Control tokens of a checkpoint with `num_ranks` ordinary tokens; without the file, the slots of the release.

    Args:
        path: A `tokenizer_config.json`.
        num_ranks: Ordinary tokens, which come before the slots.

    Raises:
        ConfigError: The file is malformed, or its table contradicts the slots.
    """
    plain = SpecialTokens(num_ranks)
    if not path.exists():
        return plain
    table = _read_table(path)
    wrong = {text: token_id for token_id, text in table.items() if plain.ids.get(text, token_id) != token_id}
    if wrong:
        raise ConfigError(f"{path}: added_tokens_decoder {_tell(wrong, plain)}")
    extra = {text: token_id - num_ranks for token_id, text in table.items() if text not in plain.ids}
    for text, slot in extra.items():
        if not 0 <= slot < NUM_SLOTS or slot in SLOT_OF.values():
            found = plain.text_of(num_ranks + slot) if 0 <= slot < NUM_SLOTS else "no control token"
            raise ConfigError(f"{path}: added_tokens_decoder has {text!r} as id {num_ranks + slot}, which is {found}")
    return SpecialTokens(num_ranks, tuple(extra.items()))


def _read_table(path: Path) -> dict[int, str]:
    """Id to text of `added_tokens_decoder`; empty where there is none."""
    try:
        table = json.loads(path.read_bytes()).get("added_tokens_decoder") or {}
        read = {int(token_id): entry["content"] for token_id, entry in table.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{path}: expected added_tokens_decoder of {{id: {{content: text}}}}; {problem}") from error
    if len(set(read.values())) != len(read) or not all(isinstance(text, str) for text in read.values()):
        raise ConfigError(f"{path}: added_tokens_decoder gives a text to two ids, or one that is no text")
    return read


def _tell(wrong: dict[str, int], plain: SpecialTokens) -> str:
    text, found = max(wrong.items(), key=lambda item: item[1])
    told = f"has {text!r} as id {found}; the model was trained with {plain.ids[text]}"
    shifts = {plain.ids[text] - token_id for text, token_id in wrong.items()}
    if shifts <= {1, 2, 3}:
        told += (
            ". The ids are shifted as by a conversion to a fast tokenizer, which drops the reserved slots between them:"
            " take tokenizer_config.json of the original release"
        )
    return told
