"""Secret values are found in texts however programs write them."""

import base64
import html
import json
import urllib.parse
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.browser.redact import _BLOCK_CHARS, Redactor, scrub_har
from envs.secret_texts import SecretForms
from tests.tables import table

SECRET = 'Hünter/2 & "x"\\漢🎉'


def forms_of(value: str) -> dict[str, str]:
    quoted = urllib.parse.quote(value, safe="")
    return {
        "plain": value,
        "percent": quoted,
        "percent, small letters": quoted.replace("%C3%BC", "%c3%bc"),
        "percent of percent": urllib.parse.quote(quoted, safe=""),
        "form": urllib.parse.urlencode({"p": value}).removeprefix("p="),
        "everything percent": "".join(f"%{byte:02X}" for byte in value.encode()),
        "json": json.dumps(value)[1:-1],
        "json, letters as they are": json.dumps(value, ensure_ascii=False)[1:-1],
        "json in json": json.dumps(json.dumps(value))[3:-3],
        "json with slashes": json.dumps(value).replace("/", "\\/")[1:-1],
        "python": repr(value)[1:-1],
        "html": html.escape(value),
        "html of html": html.escape(html.escape(value)),
        "html numbers": "".join(f"&#{ord(char)};" for char in value),
        "html hex": "".join(f"&#x{ord(char):X};" for char in value),
        "over two lines": value[:4] + "\n    " + value[4:],
        "invisible marks": "\u200b".join(value),
    }


@pytest.mark.parametrize("name", [*forms_of(SECRET)])
def test_a_form_is_found(name: str) -> None:
    redact = SecretForms([(SECRET, "{{pin}}")])
    assert redact(f"before={forms_of(SECRET)[name]};after") == "before={{pin}};after"


@table("before", ["", "u", "us", "use", "user:"])
@table("after", ["", "x", "xy", " and more"])
@table("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_wherever_the_value_stands_in_it(before: str, after: str, encode: object) -> None:
    assert callable(encode)
    text = encode((before + SECRET + after).encode()).decode()
    told = Redactor([SECRET])(f"Authorization: Basic {text}")
    assert "***" in told
    left = told.removeprefix("Authorization: Basic ").replace("***", "|").split("|")
    assert sum(map(len, left)) <= 4 * (len((before + after).encode()) + 2) / 3 + 4


def test_the_longest_value_comes_first_and_others_stay() -> None:
    redact = SecretForms([("abc", "{{a}}"), ("abcdef", "{{b}}")])
    assert redact("abc abcdef abd a+b%20c") == "{{a}} {{b}} abd a+b%20c"
    assert SecretForms([])("abc") == "abc"


@given(st.text(min_size=1, max_size=30), st.text(max_size=60), st.integers(0, 100))
@pytest.mark.long
def test_any_value_is_found_across_pieces(value: str, around: str, at: int) -> None:
    forms = SecretForms([(value, "\x00")])
    text = around + value + around
    cut = forms.cut_at(text)
    assert 0 <= cut <= len(text)
    assert value == "\x00" or value not in forms(text)
    whole = around + value + around
    head = forms.cut_at(whole[: min(at, len(whole))])
    assert value == "\x00" or value not in forms(whole[:head]) + "\x01" + forms(whole[head:])


@pytest.mark.long
def test_time_is_linear_in_the_text() -> None:
    forms = SecretForms([("aaaaaaaaaaaaaaaaaaaab", "x"), ("\\\\\\\\\\\\b", "y")])
    for text in ("a" * 200_000, "\\" * 20_000, "%25" * 20_000, "&amp;" * 20_000, "\u200b" * 20_000, "a\n" * 50_000):
        assert forms(text) == text


@pytest.mark.parametrize("suffix", [".har", ".zip"])
def test_a_har_file_is_cleaned_across_blocks(tmp_path: Path, suffix: str) -> None:
    filler = "x" * (_BLOCK_CHARS - 5)
    content = json.dumps({"url": f"http://h/?q={SECRET}", "a": filler, "b": SECRET, "c": f"{filler}{SECRET}"})
    path = tmp_path / f"run{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("har.har", content)
            archive.writestr("body.bin", b"\xff\xfe" + SECRET.encode())
    else:
        path.write_text(content)
    scrub_har(path, Redactor([SECRET]))
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            told = archive.read("har.har").decode()
            assert archive.read("body.bin") == b"\xff\xfe***"
    else:
        told = path.read_text()
    assert json.loads(told) == {"url": "http://h/?q=***", "a": filler, "b": "***", "c": f"{filler}***"}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_har_file_that_cannot_be_cleaned_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", SECRET * 50)
    data = bytearray(path.read_bytes())
    data[40:60] = b"\0" * 20
    path.write_bytes(bytes(data))
    scrub_har(path, Redactor([SECRET]))
    assert list(tmp_path.iterdir()) == []
