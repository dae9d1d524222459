import pytest

from model_runtime.tokenizer import SpecialTokens

RELEASE = {
    163584: "[BOS]",
    163585: "[EOS]",
    163586: "<|im_end|>",
    163587: "<|im_user|>",
    163588: "<|im_assistant|>",
    163590: "<|start_header_id|>",
    163591: "<|end_header_id|>",
    163593: "[EOT]",
    163594: "<|im_system|>",
    163595: "<|tool_calls_section_begin|>",
    163596: "<|tool_calls_section_end|>",
    163597: "<|tool_call_begin|>",
    163598: "<|tool_call_argument_begin|>",
    163599: "<|tool_call_end|>",
    163601: "<|im_middle|>",
    163602: "<|media_begin|>",
    163603: "<|media_content|>",
    163604: "<|media_end|>",
    163605: "<|media_pad|>",
    163606: "<think>",
    163607: "</think>",
    163838: "[UNK]",
    163839: "[PAD]",
}


def test_all_slots_of_the_release():
    ids = SpecialTokens().ids
    assert {token_id: text for text, token_id in ids.items() if "reserved" not in text} == RELEASE
    assert list(ids.values()) == list(range(163584, 163840))
    reserved = [text for text in ids if "reserved" in text]
    assert reserved[:4] == [f"<|reserved_token_{token_id}|>" for token_id in (163589, 163592, 163600, 163608)]
    assert len(reserved) == 256 - 23


def test_names_lead_to_the_same_ids():
    special = SpecialTokens()
    named = (special.bos, special.eos, special.im_end, special.media_pad, special.think_begin, special.think_end)
    assert named == (163584, 163585, 163586, 163605, 163606, 163607)
    assert special.section_begin == 163595
    assert all(special.id_of(text) == token_id for text, token_id in special.ids.items())
    assert [special.is_special(n) for n in (163583, 163584, 163839, 163840)] == [False, True, True, False]


def test_a_checkpoint_may_name_more_slots():
    special = SpecialTokens(1000, (("<|extra|>", 30),))
    assert special.id_of("<|extra|>") == 1030
    assert special.text_of(1030) == "<|extra|>"
    assert special.text_of(1031) == "<|reserved_token_1031|>"


def test_other_texts_are_no_control_tokens():
    with pytest.raises(KeyError):
        SpecialTokens().id_of("<|im_start|>")
