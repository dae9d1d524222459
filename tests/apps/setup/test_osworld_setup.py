"""`cua setup osworld-local`: the home that guests begin with; an archive from a guest is foreign data."""

import io
import tarfile
from pathlib import Path

import pytest

from apps.setup.osworld import SCREEN, _find_missing, _unpack, install_osworld_minimal
from apps.setup.suites import find_installers
from envs.suites.osworld.env import GuestOptions
from envs.suites.osworld.guest_client import GuestClient
from envs.suites.osworld.local import LocalGuest
from tests.envs.suites.osworld.test_osworld_local import why_skip


def make_archive(*members: tuple[str, bytes, bytes]) -> bytes:
    """Of members: name, type, content."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname, member.mode = kind, len(content), "/etc/passwd", 0o600
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture(params=["filter", "no filter"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python with and without filters of archives, which came with 3.11.4."""
    if request.param == "no filter":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


@pytest.mark.usefixtures("version")
def test_links_and_devices_of_a_guest_are_left_out(tmp_path: Path) -> None:
    members = (("a/b", tarfile.REGTYPE, b"1"), ("link", tarfile.SYMTYPE, b""), ("device", tarfile.CHRTYPE, b""))
    assert _unpack(make_archive(("a", tarfile.DIRTYPE, b""), *members), tmp_path / "home") == 1
    assert sorted(path.name for path in (tmp_path / "home").rglob("*")) == ["a", "b"]
    assert (tmp_path / "home" / "a" / "b").stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("name", ["../out", "/tmp/k25-out"])
def test_what_points_elsewhere_is_not_unpacked_there(tmp_path: Path, name: str) -> None:
    archive = make_archive((name, tarfile.REGTYPE, b"1"))
    if name.startswith("/"):  # it is taken as relative
        assert _unpack(archive, tmp_path / "home") == 1
    else:
        with pytest.raises(tarfile.TarError):
            _unpack(archive, tmp_path / "home")
    assert not (tmp_path / "out").exists() and not Path("/tmp/k25-out").exists()


def test_its_names() -> None:
    assert len(find_installers(["osworld-local", "osworld-local-minimal"])) == 2


@pytest.mark.slow
@pytest.mark.skipif(bool(why_skip()), reason=why_skip())
async def test_a_home_is_made_and_guests_begin_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if await _find_missing(SCREEN):
        pytest.skip("its packages are not installed")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    rows = await install_osworld_minimal(print)
    assert [(row.name, row.level) for row in rows] == [("programs", "ok"), ("pyautogui", "ok"), ("home", "ok")]
    async with LocalGuest() as guest:
        client = GuestClient((await guest.fresh(GuestOptions())).base_url)
        assert b"qt-privacy-ask=0" in (await client.read_file("~/.config/vlc/vlcrc") or b"")
        await client.close()
