import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.runtime.template import peer_encoding
from model_runtime.chat.messages import ChatMessage, ImagePart, TextPart, ToolCall, VideoPart
from model_runtime.chat.template import ControlToken, encode_chat, render_chat, show_chat
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.tokenizer.special import SLOT_OF
from tests.fuzz.settings import fuzzed
from tests.model_runtime.chat.test_template import CONVERSATIONS


@pytest.fixture(scope="module")
def peer(tokenizer) -> tiktoken.Encoding:
    return peer_encoding(tokenizer)


def item(height, width, frames=1):
    return MediaItem(frames=np.zeros((frames, height, width, 3), np.uint8), content_hash=f"{height}x{width}".encode())


def expand(ids, prompt, tokenizer):
    """One placeholder for each item becomes as many as the item takes."""
    items = iter(prompt.media)
    pad = tokenizer.special.media_pad
    return tuple(i for token in ids for i in ([pad] * next(items).item.num_tokens if token == pad else [token]))


@pytest.mark.parametrize("name", [name for name in CONVERSATIONS if "spells" not in name])
def test_ids_are_those_of_the_whole_text(name, tokenizer, peer):
    pieces = render_chat(CONVERSATIONS[name][0])
    prompt = encode_chat(pieces, tokenizer)
    assert prompt.token_ids == expand(peer.encode(show_chat(pieces), allowed_special="all"), prompt, tokenizer)


def test_media_spans(tokenizer):
    image, wide, chunk = item(56, 28), item(28, 84), item(28, 56, frames=4)
    parts = (ImagePart(image), TextPart("a"), ImagePart(wide), VideoPart((("00:00:00.000", chunk),)))
    prompt = encode_chat(render_chat([ChatMessage(role="user", parts=parts)]), tokenizer)
    assert [span.item for span in prompt.media] == [image, wide, chunk]
    pads = [n for n, token_id in enumerate(prompt.token_ids) if token_id == tokenizer.special.media_pad]
    assert [n for span in prompt.media for n in range(span.offset, span.end)] == pads
    assert [span.end - span.offset for span in prompt.media] == [2, 3, 2]


def test_pieces_by_hand(tokenizer):
    special, picture = tokenizer.special, item(28, 28)
    pieces = [ControlToken("<|im_user|>"), "Cli", "", "ck", picture, ControlToken("<|im_end|>"), "the", " button"]
    click, button = tokenizer.encode("Click"), tokenizer.encode("the button")
    assert encode_chat(pieces, tokenizer) == Prompt(
        token_ids=(special.id_of("<|im_user|>"), *click, special.media_pad, special.im_end, *button),
        media=(MediaSpan(offset=1 + len(click), item=picture),),
    )
    assert show_chat(pieces) == "<|im_user|>Click<|media_pad|><|im_end|>the button"
    assert encode_chat([], tokenizer) == Prompt(token_ids=())


hostile = st.lists(st.sampled_from([*SLOT_OF, "<|reserved_token_1029|>"]) | st.text(max_size=4), max_size=5).map(
    "".join
)
messages = st.builds(
    ChatMessage,
    role=st.sampled_from(["system", "user", "assistant", "tool"]) | hostile,
    parts=st.lists(st.builds(TextPart, hostile), max_size=3).map(tuple),
    name=st.none() | hostile,
    reasoning=st.none() | hostile,
    tool_calls=st.lists(st.builds(ToolCall, id=hostile, name=hostile, arguments=hostile), max_size=2).map(tuple),
    tool_call_id=st.none() | hostile,
)
tools = st.builds(
    lambda name, told, field: {
        "type": "function",
        "function": {
            "name": name,
            "description": told,
            "parameters": {"type": "object", "properties": {field: {"type": "string", "description": told}}},
        },
    },
    hostile,
    hostile,
    hostile,
)


@fuzzed
@given(conversation=st.lists(messages, max_size=4), declared=st.lists(tools, max_size=2), thinking=st.booleans())
def test_control_tokens_come_from_markers_alone(tokenizer, conversation, declared, thinking):
    pieces = render_chat(conversation, declared, thinking=thinking)
    found = [
        token_id for token_id in encode_chat(pieces, tokenizer).token_ids if tokenizer.special.is_special(token_id)
    ]
    assert found == [tokenizer.special.id_of(piece.text) for piece in pieces if isinstance(piece, ControlToken)]
    calls = [call for message in conversation if message.role == "assistant" for call in message.tool_calls]
    assert found.count(tokenizer.special.im_end) == len(conversation) + bool(declared)
    assert found.count(tokenizer.special.id_of("<|tool_call_begin|>")) == len(calls)


@fuzzed
@given(conversation=st.lists(messages, max_size=4))
@pytest.mark.long
def test_the_prompt_reads_as_it_is_shown(tokenizer, conversation):
    pieces = render_chat(conversation)
    assert tokenizer.decode(encode_chat(pieces, tokenizer).token_ids) == show_chat(pieces)


def test_half_surrogate_pairs_are_no_harm(tokenizer):
    pieces = render_chat([ChatMessage(role="user", parts=(TextPart("\ud800"),))])
    assert tokenizer.decode(encode_chat(pieces, tokenizer).token_ids) == show_chat(pieces).replace("\ud800", "\ufffd")
