"""What the suite says of its tasks, without a browser."""

import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from envs.browser import BrowserEnv
from envs.errors import EnvSetupError
from envs.registry import find_env, load_suite, make_env
from envs.suites.miniwob.env import MiniWobEnv, MiniWobOptions
from envs.suites.miniwob.pages import PageServer, get_pages
from envs.suites.miniwob.tasks import FAMILY_OF, GRADED, score_of


def test_without_the_pages_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(EnvSetupError, match="cua setup miniwob"):
        load_suite("miniwob")


def test_every_task_is_a_page_with_a_family(pages: None) -> None:
    suite = load_suite("miniwob")
    assert len(suite.task_ids) == 125 and suite.seeds == (0, 1, 2, 3, 4) and suite.revision == "miniwob 1.1.0"
    html = get_pages()
    left_out = {"button-delay", "chase-circle", "hover-shape", "moving-items", "simon-says"}
    assert {file.stem for file in (html / "miniwob").glob("*.html")} - left_out == set(FAMILY_OF)
    for task_id in suite.task_ids:
        spec = suite.make_task(task_id, 3).spec
        assert (spec.id, spec.seed, spec.metadata["family"]) == (
            task_id,
            3,
            FAMILY_OF[task_id.removeprefix("miniwob/")],
        )
        assert spec.env is not None and spec.env.name == "miniwob"


def test_other_seeds_than_those_that_were_looked_at(pages: None) -> None:
    assert load_suite("miniwob", first_seed=400).seeds == (400, 401, 402, 403, 404)
    for value in (-1, 1.5, True, "many"):
        with pytest.raises(EnvSetupError, match=r"first_seed is .*expected a whole number from 0"):
            load_suite("miniwob", first_seed=value)


def test_options_of_the_suite_are_those_of_its_env(pages: None) -> None:
    suite = load_suite("miniwob", keep_strip=True, page_size="400x300", device_scale=2)
    spec = suite.make_task("miniwob/click-link", 0).spec.env
    assert spec is not None
    env = make_env(spec)
    assert isinstance(env, MiniWobEnv) and isinstance(env, BrowserEnv)
    assert env.miniwob == MiniWobOptions(keep_strip=True, page_size_px=(400, 300), device_scale=2)
    assert (env.options.viewport_px, env.options.device_scale) == ((400, 300), 2)
    assert find_env("miniwob").takes("go_on") and not find_env("miniwob").takes("viewport")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"viewport": "3x4"}, "no option 'viewport'"),
        ({"settle": "maybe"}, "settle is 'maybe', expected true or false"),
        ({"page_size": "big"}, "page_size is 'big'"),
        ({"device_scale": "2"}, "device_scale is '2', expected a number"),
        ({"device_scale": 0}, "device_scale is a number above 0"),
    ],
)
def test_a_wrong_option_is_told(pages: None, options: dict[str, object], why: str) -> None:
    with pytest.raises(EnvSetupError, match=why):
        load_suite("miniwob", **options)


@pytest.mark.parametrize(
    ("name", "raw", "score"),
    [
        ("click-button", None, 0.0),
        ("click-button", 1, 1.0),
        ("click-button", -1, 0.0),
        ("find-greatest", 0.1, 0.0),
        ("click-checkboxes", 5 / 6, 0.0),
        ("tic-tac-toe", -0.5, 0.0),
        ("circle-center", 0.93, 0.93),
        ("circle-center", -1, 0.0),
        ("draw-line", 1.2, 1.0),
        ("use-colorwheel", 0.94, 0.0),
        ("use-colorwheel", 0.96, 1.0),
        ("odd-or-even", 0.2 + 0.2 + 0.2 + 0.2 + 0.2 - 1e-12, 1.0),
        ("phone-book", 0.4, 0.0),
    ],
)
def test_scores(name: str, raw: float | None, score: float) -> None:
    assert score_of(name, raw) == score
    assert set(GRADED) < set(FAMILY_OF)


def test_the_server_of_the_pages_ends_with_its_last_user(pages: None) -> None:
    one, two = PageServer.enter(get_pages()), PageServer.enter(get_pages())
    try:
        assert one is two
        base = f"http://127.0.0.1:{one.port}"
        with urllib.request.urlopen(f"{base}/core/core.js") as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
        for path in ("/../LICENSE", "/%2e%2e/LICENSE", "//etc/passwd", "/core", "/", "/%00", "/none.html"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(base + path)
    finally:
        one.leave()
        assert any(thread.name == "miniwob-pages" for thread in threading.enumerate())
        two.leave()
    assert not any(thread.name.startswith("miniwob") for thread in threading.enumerate())
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"{base}/core/core.js")
