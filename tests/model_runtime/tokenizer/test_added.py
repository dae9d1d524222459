import json
from pathlib import Path

import pytest

from model_runtime.errors import ConfigError
from model_runtime.tokenizer import SpecialTokens
from model_runtime.tokenizer.added import read_special
from tests.model_runtime.tokenizer.test_special import RELEASE


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
        ({163620: "<|new|>", 163621: "<|new|>"}, "gives a text to two ids, or one that is no text"),
        ({163620: 5}, "gives a text to two ids, or one that is no text"),
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
