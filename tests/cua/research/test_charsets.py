"""Encodings of pages and files: which one is used, and that search, `browse` and `download` agree."""

import json
from pathlib import Path

import pytest

from cua.messages import ToolCall
from cua.research.fetch import Fetcher, Web, make_web
from cua.research.local import LocalIndex
from cua.research.network import AddressRules
from cua.research.pages import charset_of, codec_of, decode, is_text, read_document
from cua.tools import Toolset
from cua.tools.research import make_research_tools
from tests.cua.research.site import Answer, pages, serving
from tests.tables import table

pytest.importorskip("trafilatura")

META = '<meta charset="{}"><p>{}</p>'


@table(
    "body, charset, expected",
    [
        ("Žluťoučký".encode("iso-8859-2"), "iso-8859-2", "Žluťoučký"),
        ("日本語".encode("shift_jis"), "Shift_JIS", "日本語"),
        ("naïve – €".encode("cp1252"), "latin1", "naïve – €"),
        ("naïve – €".encode("cp1252"), "", "naïve – €"),
        ("naïve".encode(), "", "naïve"),
        ("naïve".encode(), "x-unknown", "naïve"),
        ("naïve".encode(), "unicode_escape", "naïve"),
        (rb"na\u00efve", "unicode_escape", r"na\u00efve"),
        # the byte order mark, then the header, then the page
        (b"\xef\xbb\xbf" + "ž".encode(), "iso-8859-2", "ž"),
        ("ž".encode("utf-16"), "iso-8859-2", "ž"),
        (META.format("utf-8", "ž").encode("iso-8859-2"), "iso-8859-2", META.format("utf-8", "ž")),
        (META.format("iso-8859-2", "ž").encode("iso-8859-2"), "", META.format("iso-8859-2", "ž")),
        (META.format("shift_jis", "ｱ").encode("shift_jis"), "", META.format("shift_jis", "ｱ")),
        (META.format("utf-16", "ž").encode(), "", META.format("utf-16", "ž")),
        (META.format("iso-8859-2", "ž").encode(), "", META.format("iso-8859-2", "ĹŸ".replace("Ÿ", "ž"))),
        ('<?xml version="1.0" encoding="koi8-r"?><a>да</a>'.encode("koi8-r"), "", None),
        ("<!-- <meta charset=koi8-r> --><p>ž</p>".encode(), "", "<!-- <meta charset=koi8-r> --><p>ž</p>"),
        ("An example: <meta charset=koi8-r> ž".encode(), "", "An example: <meta charset=koi8-r> ž"),
        # UTF-16 without a mark
        ("Plain words – and more".encode("utf-16-le"), "", "Plain words – and more"),
        ("Plain words – and more".encode("utf-16-be"), "", "Plain words – and more"),
        ("Žluť".encode("utf-16-be"), "utf-16be", "Žluť"),
        (b"", "", ""),
    ],
)
def test_the_encoding_of_a_text(body: bytes, charset: str, expected: str | None) -> None:
    if expected is None:
        expected = body.decode("koi8-r")
    assert decode(body, charset) == expected
    assert is_text(body, charset)


@table(
    "label, codec",
    [
        *((label, "cp1252") for label in "latin1 ISO-8859-1 iso88591 us-ascii l1 windows-1252 x-cp1252 cp819".split()),
        *((label, "cp1254") for label in "latin5 iso-8859-9 windows-1254".split()),
        *((label, "cp932") for label in "shift_jis sjis x-sjis windows-31j ms_kanji csshiftjis".split()),
        *((label, "gb18030") for label in "gb2312 gbk x-gbk chinese gb18030".split()),
        *((label, "cp949") for label in "euc-kr cseuckr korean ks_c_5601-1987 windows-949".split()),
        *((label, "big5hkscs") for label in "big5 big5-hkscs x-x-big5 cn-big5".split()),
        *((label, "cp874") for label in "tis-620 windows-874 iso-8859-11".split()),
        *((label, "iso8859-8") for label in "iso-8859-8-i csiso88598e visual hebrew".split()),
        *(("utf8", "utf-8"), (" UTF-8 ", "utf-8"), ("utf-16", "utf-16-le"), ("x-euc-jp", "euc_jp"), ("koi8", "koi8-r")),
        *((label, "") for label in ["", "utf-7", "punycode", "idna", "rot13", "hex", "mbcs", "../x", "\0", "x" * 5000]),
    ],
)
def test_labels_are_those_of_browsers(label: str, codec: str) -> None:
    assert codec_of(label) == codec


def test_the_charset_of_a_header() -> None:
    headers = ("text/html; charset=ISO-8859-2", 'text/html;x=1;CHARSET="Shift_JIS"; y=2', "text/html", "text/charset=x")
    assert [charset_of(header) for header in headers] == ["ISO-8859-2", "Shift_JIS", "", ""]


@pytest.mark.parametrize(
    "body", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", bytes(range(256)) * 20, b"\0" * 100, b"MZ\x90\0\x03\0\0\0"]
)
def test_what_is_not_text_is_refused(body: bytes) -> None:
    assert not is_text(body)
    with pytest.raises(ValueError, match="it is not text but image/x"):
        read_document(body, "image/x", "http://x.test/")


async def test_pages_of_other_encodings_are_read_and_downloaded(tmp_path: Path) -> None:
    html = {"Content-Type": "text/html; charset=iso-8859-2"}
    text = {"Content-Type": "text/plain; charset=Shift_JIS"}
    wide = {"Content-Type": "text/html; charset=utf-16"}
    site_pages = {
        "/cz": Answer("<title>Žluťoučký</title><p>Příliš žluťoučký kůň</p>".encode("iso-8859-2"), headers=html),
        "/jp.txt": Answer("日本語の文".encode("shift_jis"), headers=text),
        "/wide": Answer("<html><p>Příliš wide</p></html>".encode("utf-16"), headers=wide),
    }
    with serving(pages(site_pages)) as site:
        fetcher = Fetcher(rules=AddressRules(allow_hosts=frozenset({site.host})))
        tools = Toolset(make_research_tools(Web(engine=LocalIndex(), fetcher=fetcher), tmp_path))

        async def call(name: str, **arguments: object) -> str:
            return (await tools.dispatch(ToolCall(id="x", name=name, arguments=json.dumps(arguments)))).text

        czech = await call("browse", url=f"{site.url}/cz")
        assert "Title: Žluťoučký" in czech and "Příliš žluťoučký kůň" in czech
        assert "日本語の文" in await call("browse", url=f"{site.url}/jp.txt")
        assert "Příliš wide" in await call("browse", url=f"{site.url}/wide")
        kept = await call("download", urls=[f"{site.url}/wide", f"{site.url}/jp.txt"])
        assert ", html, sha256" in kept and ", text, sha256" in kept


async def test_files_in_utf_16_are_found_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "marked.txt").write_bytes("A quokka – with a mark".encode("utf-16"))
    (docs / "bare.md").write_bytes("# Notes\nA numbat without a mark".encode("utf-16-le"))
    (docs / "page.html").write_bytes("<title>Page</title><p>A wombat</p>".encode("utf-16-be"))
    web = make_web(f"local:{docs}")
    for word, title in (("quokka", "marked.txt"), ("numbat", "Notes"), ("wombat", "Page")):
        (hit,) = await web.engine.search(word, 5)
        assert hit.title == title
        assert word in (await web.fetcher.read(await web.fetcher.fetch(hit.url))).text
