import base64

import pytest

from model_runtime.errors import ConfigError
from model_runtime.tokenizer.ranks import read_ranks

BYTES = [bytes([byte]) for byte in range(256)]


def write(path, tokens):
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens)))
    return path


def test_tokens_in_the_order_of_ranks(tmp_path):
    path = tmp_path / "tiktoken.model"
    lines = [base64.b64encode(token) + b" %d" % rank for rank, token in enumerate([*BYTES, b"ab", b"abc"])]
    path.write_bytes(b"\r\n".join(reversed(lines)) + b"\n\n")
    assert list(read_ranks(path).items()) == [(token, rank) for rank, token in enumerate([*BYTES, b"ab", b"abc"])]


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"tiktoken\.model cannot be read: No such file"):
        read_ranks(tmp_path / "tiktoken.model")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"YWI=", "257: expected a token in base64, a space and its rank, found 'YWI='"),
        (b"YWI= x", "257: expected a token in base64, a space and its rank, found 'YWI= x'"),
        (b"Y!I= 256", "257: expected a token in base64, a space and its rank, found 'Y!I= 256'"),
        (b"YWI 256", "257: expected a token in base64, a space and its rank, found 'YWI 256'"),
        (b"YWI= 256 1", "257: expected a token in base64, a space and its rank, found 'YWI= 256 1'"),
        (b"YWI= 255", "257: b'ab' with rank 255 stands twice, or its rank does"),
        (b"YQ== 256", "257: b'a' with rank 256 stands twice, or its rank does"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, told):
    path = write(tmp_path / "tiktoken.model", BYTES)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(ConfigError) as caught:
        read_ranks(path)
    assert str(caught.value) == f"{path}:{told}"


def test_what_is_missing_is_named(tmp_path):
    path = write(tmp_path / "tiktoken.model", BYTES[:200])
    with pytest.raises(ConfigError, match=r"no token for 56 single bytes, the first is 0xc8"):
        read_ranks(path)
    path = write(tmp_path / "tiktoken.model", BYTES)
    path.write_bytes(path.read_bytes() + b"YWI= 258\n")
    with pytest.raises(ConfigError, match="257 tokens, but ranks go up to 258 and 256 is missing"):
        read_ranks(path)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="no token for 256 single bytes"):
        read_ranks(path)
