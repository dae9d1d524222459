"""A bundle that a stranger made: it opens, writes and reads nothing but its own files."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cua.errors import ConfigError, CuaError, TrajectoryError
from cua.evidence import verify_run, write_bundle
from cua.trajectory import TrajectoryWriter, load_run
from cua.trajectory.report import write_report
from cua.trajectory.runs import check_own, list_runs
from tests.cua.evidence.bundles import NoKernels, edit, set_inputs, write_bundle_of
from tests.cua.trajectory import samples


def verify(run_dir: Path, **more: Any) -> None:
    asyncio.run(verify_run(run_dir, NoKernels(), **more))


def entry(name: Any, *, is_copied: Any = True) -> dict[str, Any]:
    return {"name": name, "size_bytes": 3, "is_copied": is_copied, "sha256": ""}


@pytest.mark.parametrize(
    "name",
    [
        *("../../x", "..", ".", "", "a/../../x", "/etc/hostname", "sub/x", "./x", "//x", "x/"),
        *("nul\0x", "\ud800.png", "x" * 300, "\n".join(["a"] * 500)),
    ],
)
def test_a_name_that_is_not_plain_is_refused(tmp_path: Path, name: str) -> None:
    run_dir = write_bundle_of(tmp_path)
    (run_dir.parent / "x").write_text("outside")
    set_inputs(run_dir, entry(name))
    with pytest.raises(TrajectoryError, match=r"leads out|cannot be the name|too long|not a plain file name|damaged"):
        verify(run_dir)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "inputs", [5, [5], [{"name": "x"}], [entry(7)], [entry("x", is_copied=[])], [entry("x"), entry("x")]]
)
def test_a_list_of_inputs_that_is_none_is_damage(tmp_path: Path, inputs: Any) -> None:
    run_dir = write_bundle_of(tmp_path)
    edit(run_dir, "run", lambda data: data["header"]["settings"].update(inputs=inputs))
    with pytest.raises(TrajectoryError):
        verify(run_dir)


def test_a_file_of_this_machine_is_opened_only_when_its_owner_names_it(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path)
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    set_inputs(run_dir, entry(str(secret), is_copied=False))
    with pytest.raises(ConfigError, match="opens no file of this machine"):
        verify(run_dir)
    with pytest.raises(ConfigError, match="opens no file of this machine"):
        verify(run_dir, inputs=[tmp_path / "dots.png"])
    with pytest.raises(AssertionError, match="a kernel was asked for"):
        verify(run_dir, inputs=[secret])


def make_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def make_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path, outside: Path) -> None:
    path.mkdir()


def make_device(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


def make_sparse(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


ODD = [make_link, make_pipe, make_folder, make_device, make_sparse]


@pytest.mark.parametrize("make", ODD)
def test_an_input_that_is_no_plain_file_is_refused(tmp_path: Path, make: Any) -> None:
    run_dir = write_bundle_of(tmp_path)
    (tmp_path / "outside").write_text("mine")
    (run_dir / "inputs" / "dots.png").unlink()
    make(run_dir / "inputs" / "dots.png", tmp_path / "outside")
    with pytest.raises(TrajectoryError, match=r"link|not a regular file|bytes"):
        verify(run_dir)


@pytest.mark.parametrize("make", ODD)
def test_a_picture_that_is_no_plain_file_is_refused(tmp_path: Path, make: Any) -> None:
    run_dir = write_bundle_of(tmp_path)
    (picture,) = (run_dir / "images").iterdir()
    content = picture.read_bytes()
    picture.unlink()
    (tmp_path / "outside").write_bytes(content)
    make(picture, tmp_path / "outside")
    with pytest.raises(TrajectoryError, match=r"link|not a regular file|bytes"):
        load_run(run_dir, images=None)
    assert write_report(run_dir).is_file()


@pytest.mark.parametrize("folder", ["inputs", "images"])
def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path, folder: str) -> None:
    run_dir = write_bundle_of(tmp_path)
    (run_dir / folder).rename(tmp_path / "elsewhere")
    (run_dir / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CuaError, match="link"):
        verify(run_dir)


@pytest.mark.parametrize("make", ODD)
def test_a_record_that_is_no_plain_file_is_refused(tmp_path: Path, make: Any) -> None:
    run_dir = write_bundle_of(tmp_path)
    (run_dir / "trajectory.jsonl").rename(tmp_path / "outside")
    make(run_dir / "trajectory.jsonl", tmp_path / "outside")
    with pytest.raises(TrajectoryError, match=r"link|not a regular file|bytes"):
        load_run(run_dir)
    assert [run.status for run in list_runs(run_dir.parent)] in ([], ["damaged"])


@pytest.mark.parametrize("name", ["lock", "trajectory.jsonl", "images"])
def test_going_on_with_a_run_writes_through_no_link(tmp_path: Path, name: str) -> None:
    run_dir = samples.write_run(tmp_path / "runs", result=None)
    target = tmp_path / "precious"
    (run_dir / name).rename(target)
    before = target.read_bytes() if target.is_file() else sorted(target.iterdir())
    (run_dir / name).symlink_to(target)
    with (
        pytest.raises(TrajectoryError, match="link"),
        TrajectoryWriter.reopen(run_dir, is_durable=False) as writer,
    ):
        writer.observed(3, samples.make_observation(3))
    assert (target.read_bytes() if target.is_file() else sorted(target.iterdir())) == before


def test_evidence_is_not_written_through_a_link(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path)
    (tmp_path / "precious").write_text("mine")
    for name in ("answer.json", "notebook.ipynb", "report.html"):
        (run_dir / name).unlink(missing_ok=True)
        (run_dir / name).symlink_to(tmp_path / "precious")
    write_bundle(run_dir)
    write_report(run_dir)
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "shell"},
        {"kind": "ipython", "code": 5},
        {"kind": [], "code": {}},
        {"kind": "ipython", "outputs": 7},
        {"kind": "ipython", "outputs": [3]},
        {"kind": "ipython", "outputs": [{"data": {"image/png": -9}}]},
        {"kind": "ipython", "outputs": [{"data": ["image/png"]}]},
        {"kind": "ipython", "files_written": {"a": 1}, "execution_count": "x"},
    ],
)
def test_odd_fields_of_a_call_are_damage_or_nothing(tmp_path: Path, data: dict[str, Any]) -> None:
    run_dir = write_bundle_of(tmp_path)
    edit(run_dir, "called", lambda line: line["outcomes"][0].update(data=data))
    try:
        write_bundle(run_dir)
    except TrajectoryError as error:
        assert "call 0 is damaged" in str(error)
    write_report(run_dir)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_lines_nested_deep_are_damage(tmp_path: Path, depth: int) -> None:
    run_dir = write_bundle_of(tmp_path)
    path = run_dir / "trajectory.jsonl"
    deep = '{"event":"note","at":1,"kind":"x","text":"","data":{"a":' + "[" * depth + "]" * depth + "}}\n"
    path.write_text(path.read_text() + deep)
    with pytest.raises(TrajectoryError, match="nested more than 200 deep"):
        load_run(run_dir)
    path.write_text("[" * depth + "]" * depth + "\n")
    assert [run.status for run in list_runs(run_dir.parent)] == ["damaged"]


@pytest.mark.parametrize("at", [1e300, "nan", -1e18, "inf"])
def test_times_that_no_clock_shows(tmp_path: Path, at: Any) -> None:
    run_dir = write_bundle_of(tmp_path)
    edit(run_dir, "run", lambda data: (data.update(at=at), data["header"].update(started_at=at)))
    assert len(list_runs(run_dir.parent)) == 1
    write_report(run_dir)


def test_only_own_runs_are_carried_out_again(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path / "downloads", result=None)
    with pytest.raises(TrajectoryError, match="is not in your folder of runs"):
        check_own(run_dir, tmp_path / "runs")
    check_own(run_dir, tmp_path / "downloads")


def test_arguments_nested_deep_are_shown_as_they_are(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path)
    deep = "[" * 100_000

    def nest(line: dict[str, Any]) -> None:
        line["outcomes"][0]["call"]["arguments"] = json.dumps({"code": 1})[:-1] + ', "x": ' + deep

    edit(run_dir, "called", nest)
    write_report(run_dir)
    write_bundle(run_dir)
