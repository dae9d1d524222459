"""Control tokens, and their table in a checkpoint."""

import json
from pathlib import Path

import pytest

from model_runtime.errors import ConfigError
from model_runtime.tokenizer import SpecialTokens
from model_runtime.tokenizer.special import read_special

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


def write(folder: Path, table: object) -> Path:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"added_tokens_decoder": table}))
    return path


def as_table(texts: dict[int, str]) -> dict[str, dict[str, object]]:
    return {str(token_id): {"content": text, "special": True} for token_id, text in texts.items()}


def test_the_release_and_nothing_at_all_give_the_slots(tmp_path):
    assert read_special(tmp_path / "tokenizer_config.json", 163584) == SpecialTokens(163584)
    assert read_special(write(tmp_path, as_table(RELEASE)), 163584) == SpecialTokens(163584)
    assert read_special(write(tmp_path, {}), 1000) == SpecialTokens(1000)
    assert read_special(write(tmp_path, None), 1000) == SpecialTokens(1000)


def test_a_new_name_in_a_free_slot_is_taken_over(tmp_path):
    table = as_table({**RELEASE, 163620: "<|new|>", 163589: "<|reserved_token_163589|>"})
    assert read_special(write(tmp_path, table), 163584) == SpecialTokens(163584, (("<|new|>", 36),))


def test_ids_shifted_by_a_conversion_are_told_as_such(tmp_path):
    in_order = sorted(RELEASE)[:-2]
    shifted = {163584 + n: RELEASE[token_id] for n, token_id in enumerate(in_order)}
    path = write(tmp_path, as_table(shifted))
    with pytest.raises(ConfigError) as caught:
        read_special(path, 163584)
    assert str(caught.value) == (
        f"{path}: added_tokens_decoder has '</think>' as id 163604; the model was trained with 163607. The ids are"
        " shifted as by a conversion to a fast tokenizer, which drops the reserved slots between them: take"
        " tokenizer_config.json of the original release"
    )


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ({163586: "[EOS]"}, "has '[EOS]' as id 163586; the model was trained with 163585"),
        ({163610: "<think>"}, "has '<think>' as id 163610; the model was trained with 163606"),
        ({163586: "<|im_stop|>"}, "has '<|im_stop|>' as id 163586, which is <|im_end|>"),
        ({163840: "<|new|>"}, "has '<|new|>' as id 163840, which is no control token"),
        ({12: "<|new|>"}, "has '<|new|>' as id 12, which is no control token"),
        ({163620: "<|new|>", 163621: "<|new|>"}, "gives a text to two ids, or one that is not text"),
        ({163620: 5}, "gives a text to two ids, or one that is not text"),
    ],
)
def test_other_contradictions(tmp_path, texts, told):
    path = write(tmp_path, as_table(texts))
    with pytest.raises(ConfigError) as caught:
        read_special(path, 163584)
    assert str(caught.value) == f"{path}: added_tokens_decoder {told}"


@pytest.mark.parametrize("table", [[1], {"x": {"content": "a"}}, {"5": "a"}, {"5": {}}, "text"])
def test_a_malformed_table_is_told(tmp_path, table):
    with pytest.raises(ConfigError, match=r"expected added_tokens_decoder of \{id: \{content: text\}\}"):
        read_special(write(tmp_path, table), 163584)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_malformed_file_is_told(tmp_path, content):
    path = tmp_path / "tokenizer_config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json: expected"):
        read_special(path, 163584)
