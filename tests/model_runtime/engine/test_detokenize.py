"""Text as it comes equals text decoded whole."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from model_runtime.engine.contract import Delta
from model_runtime.engine.detokenize import Detokenizer
from model_runtime.tokenizer import SpecialTokens, Tokenizer
from tests.fuzz.settings import fuzzed

PIECES = (
    *(bytes([byte]) for byte in range(256)),
    b"ab",
    "é".encode()[:1] + b"x",
    "漢".encode(),
    "漢".encode()[1:],
    b"\xf0\x9f",
)
SPECIAL = SpecialTokens(len(PIECES))
TOKENIZER = Tokenizer(
    SPECIAL,
    (*PIECES, *(text.encode() for text in SPECIAL.ids)),
    None,  # type: ignore[arg-type]
)


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta if isinstance(delta, str) else SPECIAL.text_of(delta) for delta in deltas)


def feed_all(token_ids: list[int]) -> list[Delta]:
    detokenizer = Detokenizer(TOKENIZER)
    deltas = [delta for token_id in token_ids for delta in detokenizer.feed(token_id)]
    return [*deltas, *detokenizer.finish()]


bytes_of_text = st.text(alphabet="aé漢😀\x00\ufffd", max_size=8).map(lambda text: list(text.encode()))
anything = st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=30)


@fuzzed
@given(st.one_of(anything, st.lists(st.one_of(bytes_of_text, anything)).map(lambda parts: [*chain(*parts)])))
def test_deltas_together_are_the_whole_decode(token_ids: list[int]) -> None:
    deltas = feed_all(token_ids)
    assert text_of(deltas) == TOKENIZER.decode(token_ids)
    assert "" not in deltas
    assert [delta for delta in deltas if isinstance(delta, int)] == [i for i in token_ids if SPECIAL.is_special(i)]


@fuzzed
@given(st.text())
def test_valid_text_is_never_torn(text: str) -> None:
    detokenizer = Detokenizer(TOKENIZER)
    shown = ""
    for count, byte in enumerate(text.encode(errors="replace"), start=1):
        shown += "".join(map(str, detokenizer.feed(byte)))
        assert shown == text.encode(errors="replace")[:count].decode(errors="ignore")


def test_an_emoji_waits_until_it_is_whole() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    fed = [detokenizer.feed(byte) for byte in "a😀".encode()]
    assert fed == [("a",), (), (), (), ("😀",)]
    assert detokenizer.finish() == ()


def test_half_a_character_before_a_control_token_is_given_up() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    assert detokenizer.feed(0xE6) == ()
    assert detokenizer.feed(SPECIAL.think_end) == ("\ufffd", SPECIAL.think_end)
    assert detokenizer.feed(ord("x")) == ("x",)


def test_the_name_of_a_control_token_spelled_as_text_is_text() -> None:
    assert feed_all(list(b"</think>")) == list("</think>")
