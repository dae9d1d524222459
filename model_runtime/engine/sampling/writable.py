"""Control tokens that a model may write, and those that nothing but a template or a processor writes."""

from model_runtime.tokenizer.special import NUM_SLOTS, SpecialTokens

WRITABLE = (
    *("[EOS]", "<|im_end|>", "[EOT]", "<think>", "</think>"),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
)
"""Control tokens that a model may write. The others are written by the template and by the processor of media alone: a
role marker would put words into the mouth of the user or the system, a media placeholder stands for embeddings that are
not there, and the reserved slots, padding and unknown token mean nothing to a reader."""


def find_writable_ids(special: SpecialTokens) -> frozenset[int]:
    """Ids of the control tokens that a model may write."""
    return frozenset(map(special.id_of, WRITABLE))


def find_banned_ids(special: SpecialTokens) -> tuple[int, ...]:
    """Control tokens that are never sampled."""
    writable = find_writable_ids(special)
    slots = range(special.first_id, special.first_id + NUM_SLOTS)
    return tuple(slot for slot in slots if slot not in writable)
