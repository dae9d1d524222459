import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from apps.setup.install import run_setup
from apps.setup.report import DoctorRow
from apps.setup.suites import SUITES, PinnedWheel, find_installers, install_miniwob, unpack
from cua.errors import ConfigError
from envs.errors import EnvSetupError
from envs.suites.miniwob.pages import find_pages, get_pages, installed_dir

PAGES = ("core/core.js", "miniwob/click-test.html", "common/ui_utils.js")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty data folder, and an index of packages that is a folder of this test."""
    (tmp_path / "index").mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))


def make_wheel(folder: Path, members: dict[str, str]) -> PinnedWheel:
    path = folder / "index" / "miniwob-1.1.0-py3-none-any.whl"
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: miniwob\nVersion: 1.1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, text in {
            **members,
            **{f"miniwob-1.1.0.dist-info/{name}": text for name, text in about.items()},
        }.items():
            file.writestr(name, text)
    return PinnedWheel(name="miniwob", version="1.1.0", sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_the_pages_come_by_pip_and_nothing_else_of_the_wheel(tmp_path: Path) -> None:
    members = {f"miniwob/html/{name}": name for name in PAGES}
    code = {"miniwob/environment.py": "import selenium", "miniwob-1.1.0.dist-info/licenses/LICENSE": "MIT"}
    wheel = make_wheel(tmp_path, {**members, **code})
    assert find_pages() is None

    row = await install_miniwob(print, wheel)

    html = tmp_path / "data/k25/miniwob-1.1.0/html"
    assert row == DoctorRow(name="miniwob", level="ok", actual=f"the pages of MiniWoB++ 1.1.0 in {html}")
    assert find_pages() == get_pages() == html
    assert files_below(html.parent) == sorted(["LICENSE", *(f"html/{name}" for name in PAGES)])
    assert [path.name for path in html.parents[1].iterdir()] == ["miniwob-1.1.0"]  # no scratch folder is left

    (tmp_path / "index/miniwob-1.1.0-py3-none-any.whl").unlink()  # again: nothing is fetched
    assert await install_miniwob(print, wheel) == row


@pytest.mark.long
async def test_what_was_deleted_comes_back(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {f"miniwob/html/{name}": name for name in PAGES})
    await install_miniwob(print, wheel)
    (installed_dir() / "html/core/core.js").unlink()
    assert find_pages() is None
    assert (await install_miniwob(print, wheel)).level == "ok"
    assert find_pages() is not None


async def test_a_wheel_with_another_hash_is_refused(tmp_path: Path) -> None:
    make_wheel(tmp_path, {f"miniwob/html/{name}": "mine now" for name in PAGES})
    row = await install_miniwob(print)
    assert row.level == "fail"
    assert row.actual.startswith("pip did not get miniwob 1.1.0: ")
    assert find_pages() is None
    assert list(installed_dir().parent.iterdir()) == []


@pytest.mark.long
async def test_offline_says_what_was_expected_and_what_to_type() -> None:
    report = await run_setup(print, browser=False, desktop=False, sandbox=False, suites=["miniwob"])
    assert report.exit_code == 1
    (row,) = report.rows
    assert "Could not find a version that satisfies the requirement miniwob==1.1.0" in row.actual
    assert (row.fix, row.expected) == (
        "cua setup miniwob",
        "miniwob 1.1.0 from PyPI, or from where PIP_INDEX_URL or PIP_FIND_LINKS say",
    )
    with pytest.raises(EnvSetupError, match="Get them with: cua setup miniwob"):
        get_pages()


async def test_a_wheel_without_pages_is_refused(tmp_path: Path) -> None:
    row = await install_miniwob(print, make_wheel(tmp_path, {"miniwob/html/core/core.js": ""}))
    assert row.actual == "miniwob-1.1.0-py3-none-any.whl has no pages in it"
    assert find_pages() is None


@pytest.mark.parametrize("name", ["pages/../../evil", "/pages/evil", "pages\\..\\evil", "C:/pages/evil"])
def test_a_name_that_points_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("pages/ok", "")
        file.writestr(name, "")
    with pytest.raises(zipfile.BadZipFile, match="points elsewhere"):
        unpack(tmp_path / "a.zip", tmp_path / "out", {"pages": "pages"})
    assert not (tmp_path / "out").exists()


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("pages/zeros", bytes(60_000_000))
    with pytest.raises(zipfile.BadZipFile, match="50000000 bytes"):
        unpack(tmp_path / "a.zip", tmp_path / "out", {"pages": "pages"})
    assert not (tmp_path / "out").exists()


def test_names_are_checked_before_anything_is_done() -> None:
    with pytest.raises(ConfigError, match=r"'minwob' is not a suite .* did you mean 'miniwob'"):
        find_installers(["miniwob", "minwob"])
    assert find_installers(["miniwob", "miniwob"]) == (SUITES["miniwob"],)


def test_the_help_names_all_suites() -> None:
    from typer.testing import CliRunner

    from apps.cli.main import app

    told = CliRunner().invoke(app, ["setup", "--help"], env={"COLUMNS": "200"}).output
    words = (
        "".join(told.split()).partition("Suitesoftaskstoinstall:")[2].partition(".")[0].split(",")
    )  # lines are broken
    assert sorted(words) == sorted(SUITES)
