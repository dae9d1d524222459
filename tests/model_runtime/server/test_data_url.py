"""Data URLs of any text: bytes or a `MediaError`, nothing else."""

import base64
import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.errors import MediaError
from model_runtime.server.media import read_data_url

FUZZ = settings(max_examples=int(os.environ.get("FUZZ_EXAMPLES", "60")), deadline=None, derandomize=True, database=None)
HEADS = st.sampled_from(["data:image/png;base64,", "data:;base64,", "data:image/png,", "data:", "data:text/a;base64,"])


@FUZZ
@given(data=st.binary(min_size=1, max_size=300), blanks=st.sampled_from(["", " ", "\n", "\r\n\t", "\u2003"]))
def test_bytes_come_back_whatever_blanks_are_between(data: bytes, blanks: str) -> None:
    text = base64.b64encode(data).decode()
    url = "data:image/png;base64," + blanks + blanks.join(text)
    assert read_data_url(url, "image", max_bytes=300) == data


@FUZZ
@given(head=HEADS, rest=st.text(max_size=60) | st.text("AZaz09+/= ", max_size=60))
@example(head="data:image/png;base64,", rest="=")
@example(head="data:image/png;base64,", rest="AA==AA==")
def test_any_text_is_read_or_refused(head: str, rest: str) -> None:
    try:
        assert read_data_url(head + rest, "image", max_bytes=20)
    except MediaError as error:
        assert error.status == 400
        assert len(str(error)) < 200


@pytest.mark.parametrize(("size", "is_taken"), [(999, True), (1000, True), (1001, False), (10_000, False)])
def test_the_limit_is_of_bytes_not_of_characters(size: int, is_taken: bool) -> None:
    for encode in (base64.b64encode, base64.encodebytes):
        url = "data:image/png;base64," + encode(bytes(size)).decode()
        if is_taken:
            assert len(read_data_url(url, "image", max_bytes=1000)) == size
        else:
            with pytest.raises(MediaError, match="larger than 1000 bytes"):
                read_data_url(url, "image", max_bytes=1000)
