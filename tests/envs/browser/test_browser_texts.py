"""The parts of the browser env that need no browser: addresses, secrets, text fields, drawing, finding."""

import os
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from envs.browser.launch import BrowserBinary, find_browser
from envs.browser.navigation import explain, to_url
from envs.browser.overlays.overlay import CssCanvas, CssRect, TextField, text_width_px, wrap
from envs.browser.redact import Redactor
from envs.errors import ActionError


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("example.com", "https://example.com"),
        (" example.com/a b?q=1#x ", "https://example.com/a b?q=1#x"),
        ("http://example.com", "http://example.com"),
        ("HTTPS://Example.com", "HTTPS://Example.com"),
        ("localhost", "http://localhost"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("app.localhost:8000", "http://app.localhost:8000"),
        ("127.0.0.1:80", "http://127.0.0.1:80"),
        ("10.1.2.3/path:9", "http://10.1.2.3/path:9"),
        ("[::1]:8000/x", "http://[::1]:8000/x"),
        ("example.com:8443", "https://example.com:8443"),
        ("bücher.de", "https://bücher.de"),
        ("about:blank", "about:blank"),
        ("data:text/html,hi", "data:text/html,hi"),
    ],
)
def test_addresses_are_completed(typed: str, url: str) -> None:
    assert to_url(typed) == url


@pytest.mark.parametrize(
    "typed",
    ["", "  ", "word", "two words", "javascript:alert(1)", "JavaScript:alert(1)", "file:///etc/passwd", "chrome://crash",
     "view-source:https://example.com", "mailto:a@example.com", "ftp://example.com", "user@example.com", "?q=1"],
)  # fmt: skip
def test_other_texts_are_refused(typed: str) -> None:
    with pytest.raises(ActionError):
        to_url(typed)


@pytest.mark.parametrize(
    "typed", ["http:", "http://", "https:///", "HTTP://?q=1", "https://#top", "http:// example.com", "http://:80/x"]
)
def test_an_address_of_no_host_is_told(typed: str) -> None:
    with pytest.raises(ActionError, match="names no host; write one such as"):
        to_url(typed)


@pytest.mark.parametrize(
    "typed", ["http:/example.com", "http://[::1]:80/", "https://a:b@example.com", "http:example.com"]
)
def test_an_address_with_a_host_is_taken_however_it_is_written(typed: str) -> None:
    assert to_url(typed) == typed


@pytest.mark.parametrize("typed", ["", " \t"])
def test_an_empty_address_is_told(typed: str) -> None:
    with pytest.raises(ActionError, match="the address is empty"):
        to_url(typed)


def test_more_schemes_can_be_taken() -> None:
    assert to_url("file:///tmp/x.html", more_schemes=frozenset({"file"})) == "file:///tmp/x.html"


def test_causes_are_said_in_words() -> None:
    assert explain("Page.goto: net::ERR_NAME_NOT_RESOLVED at http://x/\nCall log:") == (
        "there is no such host (ERR_NAME_NOT_RESOLVED)"
    )
    assert explain("Page.goto: net::ERR_STRANGE at http://x/") == "ERR_STRANGE"
    assert explain("something else\nmore") == "something else"


def test_secrets_are_replaced_also_in_addresses() -> None:
    redact = Redactor(("a b&c", "a b&c and more"))
    assert redact("x a b&c y http://h/?q=a%20b%26c&r=a+b%26c a b&c and more") == "x *** y http://h/?q=***&r=*** ***"
    assert Redactor(())("text") == "text"


def test_a_text_field_is_edited() -> None:
    field = TextField("old")
    assert field.is_selected
    field.type("new")
    for key in ("home", "delete", "right", "backspace", "end", "space", "x", "left", "Y"):
        assert field.press(key)
    assert (field.text, field.shown()) == ("w Yx", "w Y|x")
    assert not field.press("f1")
    field.select_all()
    assert field.press("backspace")
    assert (field.text, field.is_selected) == ("", False)
    assert field.press("backspace")
    assert field.text == ""


def test_long_texts_are_wrapped_and_cut() -> None:
    lines = wrap("The quick brown fox jumps over the lazy dog. " * 3 + "x" * 200, 200, 99)
    assert len(lines) > 5
    assert all(text_width_px(line) <= 200 for line in lines)
    assert "".join(lines).replace(" ", "") == ("Thequickbrownfoxjumpsoverthelazydog." * 3 + "x" * 200)
    assert len(wrap("line\n" * 50, 200, 7)) == 7
    assert wrap("", 200, 7) == [""]


@pytest.mark.parametrize("text", ["Löschen?", "Удалить запись?", "削除しますか", "حذف", "🎉"])
def test_any_script_can_be_drawn(text: str) -> None:
    image = Image.new("RGB", (200, 120), (255, 255, 255))
    canvas = CssCanvas(image, 2.0, lambda found: found)
    canvas.text(4, 4, text)
    canvas.field(CssRect(left=2, top=20, width=90, height=34), text * 40, is_selected=True)
    assert len(image.getcolors(99_999) or ()) > 2


@pytest.mark.parametrize(
    "text", ["录确认", "ログイン", "로인확", "तजभर", "ไทย", "বলকম", "தமழர", "ខមរក", "Жщя", "שלום", "مرحبا"]
)
def test_every_installed_script_is_drawn_as_itself(text: str) -> None:
    def draw(shown: str) -> bytes:
        image = Image.new("RGB", (200, 40), (255, 255, 255))
        CssCanvas(image, 1.0, lambda found: found).text(4, 4, shown)
        return image.tobytes()

    fonts = subprocess.run(["fc-list", f":charset={ord(text[0]):x}"], capture_output=True, text=True).stdout
    if not fonts:
        pytest.skip("no font with these letters is installed")
    assert len({draw(char) for char in (*text, "\ue123")}) == len(set(text)) + 1


def test_secrets_are_not_drawn() -> None:
    shown, hidden = (Image.new("RGB", (200, 40), (255, 255, 255)) for _ in range(2))
    CssCanvas(shown, 1.0, Redactor(())).text(4, 4, "***")
    CssCanvas(hidden, 1.0, Redactor(("secret",))).text(4, 4, "secret")
    assert shown.tobytes() == hidden.tobytes()


def put(folder: Path, name: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_browsers_are_found_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs, data, cache = tmp_path / "bin", tmp_path / "data", tmp_path / "cache"
    monkeypatch.delenv("K25_BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(cache))
    assert find_browser() is None
    (cache / "chromium-1234").mkdir(parents=True)
    assert find_browser() is None
    (cache / "chromium-1234" / "INSTALLATION_COMPLETE").touch()
    assert find_browser() == BrowserBinary(path=None, how="Playwright's own", kind="playwright")
    own = put(data / "k25" / "browser", "bin/chromium")
    assert find_browser() == BrowserBinary(
        path=own, how=f"unpacked by `cua setup` under {data / 'k25' / 'browser'}", kind="headless-shell"
    )
    for name, kind in (
        ("google-chrome", "chrome"),
        ("chromium-browser", "chromium"),
        ("chromium", "chromium"),
        ("chromium-headless-shell", "headless-shell"),
    ):
        path = put(programs, name)
        assert find_browser() == BrowserBinary(path=path, how=f"{name} on PATH", kind=kind)  # type: ignore[arg-type]
    shown = find_browser(headless=False)
    assert shown is not None
    assert shown.path == str(programs / "chromium")
    named = put(tmp_path, "my-headless-shell")
    monkeypatch.setenv("K25_BROWSER", named)
    assert find_browser() == BrowserBinary(path=named, how="$K25_BROWSER", kind="headless-shell")
    monkeypatch.setenv("K25_BROWSER", os.devnull)
    assert find_browser() is None
