"""Token ids and log-probabilities in the record: exact, compact, and not where they would tell a secret."""

import base64
import json
import math
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cua.messages import Reply, ReplyTokens, TokenMedia
from cua.trajectory import TrajectoryWriter, load_run
from cua.trajectory.codec import pack_tokens, unpack_tokens
from tests.cua.trajectory import samples

IDS = st.lists(st.integers(0, 2**40)).map(tuple)


@given(IDS, IDS, st.lists(st.floats(max_value=0)).map(tuple), st.lists(st.booleans()).map(tuple))
def test_all_come_back_exactly(
    prompt_ids: tuple[int, ...], ids: tuple[int, ...], logprobs: tuple[float, ...], sampled: tuple[bool, ...]
) -> None:
    tokens = ReplyTokens(prompt_ids=prompt_ids, ids=ids, logprobs=logprobs, sampled=sampled)
    lists = unpack_tokens(json.loads(json.dumps(pack_tokens(tokens))))
    assert ReplyTokens(**{name: tuple(values) for name, values in lists.items()}) == tokens


def test_a_long_prompt_takes_little() -> None:
    tokens = ReplyTokens(prompt_ids=tuple(number * 7919 % 163_840 for number in range(10_000)))
    assert len(json.dumps(pack_tokens(tokens))) < 40_000 < len(json.dumps(tokens.prompt_ids))


@pytest.mark.parametrize(
    "packed",
    [
        [],
        {"ids": "x"},
        {**pack_tokens(ReplyTokens()), "ids": 5},
        {**pack_tokens(ReplyTokens()), "num_kept": ""},
        {**pack_tokens(ReplyTokens()), "ids": "no base64 %"},
        {**pack_tokens(ReplyTokens()), "ids": base64.b64encode(b"not deflated").decode()},
        {**pack_tokens(ReplyTokens()), "ids": base64.b64encode(zlib.compress(b"123")).decode()},
        {**pack_tokens(ReplyTokens()), "ids": base64.b64encode(zlib.compress(bytes(8 * 1000))[:-6]).decode()},
        {**pack_tokens(ReplyTokens()), "ids": base64.b64encode(zlib.compress(bytes(2**26 + 8))).decode()},
    ],
    ids=[
        *("a list", "one missing", "a number", "counts without ids", "no base64", "not deflated"),
        *("half a number", "cut off", "a bomb"),
    ],
)
def test_foreign_data_is_refused(packed: object) -> None:
    with pytest.raises(ValueError):
        unpack_tokens(packed)


def make_reply(text: str) -> Reply:
    tokens = ReplyTokens(
        prompt_ids=(1, 2),
        ids=(3, 4),
        logprobs=(-0.25, -math.pi),
        sampled=(True, False),
        kept_ids=(3, 9),
        num_kept=(2, 0),
        media=(TokenMedia(media_hash="ab", offset=1, num_tokens=1),),
        versions=(("6", 1), ("7", 1)),
        processor="p",
    )
    return Reply(content=text, tokens=tokens, model_version="7")


def test_the_record_keeps_them(tmp_path: Path) -> None:
    step = replace(samples.make_step(1), reply=make_reply("Click it."))
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        samples.write_step(writer, step)
    assert load_run(writer.run_dir).steps[0].reply == make_reply("Click it.")


def test_a_reply_that_holds_a_secret_is_kept_without_its_ids(tmp_path: Path) -> None:
    step = replace(samples.make_step(1), reply=make_reply("It is hunter2."))
    with TrajectoryWriter.create(tmp_path, samples.HEADER, lambda text: text.replace("hunter2", "{{it}}")) as writer:
        samples.write_step(writer, step)
    reply = load_run(writer.run_dir).steps[0].reply
    assert (reply.content, reply.tokens) == ("It is {{it}}.", None)
