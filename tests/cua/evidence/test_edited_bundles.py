"""A bundle that was changed after the run: each kind of change is found, and named."""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cua.evidence import write_bundle
from cua.evidence.bundle import derived_files
from cua.evidence.recorded_inputs import restore_inputs
from cua.evidence.verify import find_edits, verify_run
from cua.trajectory import TrajectoryWriter, load_run
from cua.trajectory.chain import HashChain, check_chain, hash_line, link
from tests.cua.evidence.bundles import NoKernels, edit, write_bundle_of
from tests.cua.trajectory.samples import png


def edits(run_dir: Path) -> tuple[str, ...]:
    record = load_run(run_dir, images=None)
    laid_out = restore_inputs(record, run_dir.parent / f"work-{os.urandom(4).hex()}")
    return (*find_edits(record, derived_files(record)), *laid_out.findings)


def rechain(run_dir: Path) -> None:
    """What a careful forger does: every line is chained anew, and the derived files are written again."""
    path = run_dir / "trajectory.jsonl"
    previous, lines = "", []
    for line in path.read_bytes().splitlines():
        data = json.loads(line)
        data.pop("prev")
        chained = link(json.dumps(data, separators=(",", ":")).encode() + b"\n", previous)
        previous = hash_line(chained)
        lines.append(chained)
    path.write_bytes(b"".join(lines))
    write_bundle(run_dir)


def in_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def drop_lines(run_dir: Path) -> None:
    path = run_dir / "trajectory.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith(b'{"event":"replied"'))
    path.write_bytes(b"".join(lines[:at] + lines[at + 3 :]))


def drop_last_line(run_dir: Path) -> None:
    path = run_dir / "trajectory.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def change_pixel(run_dir: Path) -> None:
    path = run_dir / "inputs" / "dots.png"
    image = Image.open(path).convert("RGB")
    image.putpixel((0, 0), (254, 255, 255))
    image.save(path)


def other_code(line: dict[str, Any]) -> None:
    line["outcomes"][0]["data"]["code"] = "print(2)"


def other_calls(line: dict[str, Any]) -> None:
    line["outcomes"][0]["call"]["arguments"] = '{"code": "print(2)"}'
    other_code(line)


CHANGES: list[tuple[Callable[[Path], object], str]] = [
    (lambda run: edit(run, "ended", lambda data: data["result"]["end"].update(answer="Three.")), "record was changed"),
    (lambda run: edit(run, "called", other_code), "record was changed: line 6"),
    (lambda run: edit(run, "run", lambda data: data["header"].update(model="another")), "line 2 does not follow"),
    (drop_lines, "does not follow"),
    (drop_last_line, "no seal"),
    (change_pixel, "the input dots.png is not the file"),
    (lambda run: in_json(run / "answer.json", lambda data: data.update(answer="Three.")), "answer.json does not say"),
    (lambda run: in_json(run / "answer.json", lambda data: data.pop("claims")), "answer.json does not say"),
    (lambda run: (run / "answer.json").unlink(), "answer.json cannot be read"),
    (lambda run: in_json(run / "notebook.ipynb", lambda data: data["cells"].pop()), "notebook.ipynb does not say"),
    (lambda run: (run / "files" / "dots.png").write_text("x"), "files/dots.png is not what it was"),
    (lambda run: (run / "files" / "dots.png").unlink(), "files/dots.png is not what it was"),
    (lambda run: (run / "files" / "more.csv").write_text("x"), "files/more.csv was not there"),
    (lambda run: (run / "images" / "more.png").write_bytes(png("more")), "images/more.png is in no line"),
    (lambda run: (run / "trajectory.jsonl").open("a").write('{"event":"note","at":1,"kind":"x","text":""}\n'), "line"),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_change_is_found(tmp_path: Path, number: int) -> None:
    change, told = CHANGES[number]
    run_dir = write_bundle_of(tmp_path)
    assert edits(run_dir) == ()
    change(run_dir)
    assert any(told in finding for finding in edits(run_dir)), edits(run_dir)


FORGERIES: list[tuple[Callable[[Path], object], str]] = [
    (lambda run: edit(run, "ended", lambda data: data["result"]["end"].update(answer="Three.")), "last reply says"),
    (lambda run: edit(run, "called", other_code), "not the code that the model called"),
    (lambda run: edit(run, "called", other_calls), "not those of the model's reply"),
    (
        lambda run: edit(run, "called", lambda data: data["outcomes"][0].update(number=7)),
        "call 7 was found where call 0",
    ),
    (
        lambda run: edit(run, "called", lambda data: data["outcomes"][0]["parts"][0].update(text="3")),
        "is not what its cell printed",
    ),
]


@pytest.mark.parametrize("number", range(len(FORGERIES)))
def test_a_forged_chain_does_not_hide_what_contradicts_itself(tmp_path: Path, number: int) -> None:
    change, told = FORGERIES[number]
    run_dir = write_bundle_of(tmp_path)
    change(run_dir)
    rechain(run_dir)
    found = edits(run_dir)
    assert load_run(run_dir).chain.status == "whole"
    assert any(told in finding for finding in found), found


def test_who_rewrites_everything_gets_another_fingerprint(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path)
    before = load_run(run_dir).chain.fingerprint
    assert len(before) == 32
    assert json.loads((run_dir / "answer.json").read_text())["fingerprint"] == before
    rechain(run_dir)
    assert load_run(run_dir).chain.fingerprint == load_run(run_dir).chain.fingerprint
    edit(run_dir, "asked", lambda data: data["parts"][0].update(text="How few?"))
    rechain(run_dir)
    assert edits(run_dir) == ()
    assert load_run(run_dir).chain.fingerprint != before


def test_a_copy_under_another_name_is_unchanged(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "from a colleague"
    shutil.copytree(write_bundle_of(tmp_path), copy)
    assert edits(copy) == ()


def test_a_picture_is_named_by_its_content(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path)
    (picture,) = (run_dir / "images").iterdir()
    picture.write_bytes(png("another"))
    with pytest.raises(Exception, match="its content does not match its name"):
        asyncio.run(verify_run(run_dir, NoKernels()))


def test_a_record_of_an_earlier_version_carries_no_chain_and_says_so(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path)
    path = run_dir / "trajectory.jsonl"
    lines = []
    for line in path.read_text().splitlines():
        data = json.loads(line)
        data.pop("prev")
        if data["event"] == "run":
            data["header"]["schema_version"] = 1
        if data["event"] != "sealed":
            lines.append(json.dumps(data) + "\n")
    path.write_text("".join(lines))
    record = load_run(run_dir)
    assert record.chain == HashChain(
        status="none", fingerprint=hashlib.sha256(lines[-1][:-1].encode()).hexdigest()[:32]
    )
    assert "carries no chain" in record.chain.describe()
    assert edits(run_dir) == ()


def test_a_record_that_should_have_a_chain_and_has_none_is_broken(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path)
    for event in ("run", "asked", "replied", "calling", "called", "ended", "sealed"):
        for _ in range(2):
            edit(run_dir, event, lambda data: data.pop("prev", None))
    assert load_run(run_dir).chain.status == "broken"


def test_a_gui_record_is_chained_too_and_goes_on(tmp_path: Path) -> None:
    from tests.cua.trajectory import samples

    run_dir = samples.write_run(tmp_path, result=None)
    with TrajectoryWriter.reopen(run_dir, is_durable=False) as writer:
        samples.write_step(writer, samples.make_step(3))
    assert load_run(run_dir).chain.status == "whole"
    edit(run_dir, "acting", lambda data: data["actions"].clear())
    assert load_run(run_dir).chain == check_chain(
        (run_dir / "trajectory.jsonl").read_bytes().splitlines(), is_expected=True
    )
    with pytest.raises(Exception, match="line 5 does not follow from the line before it"):
        TrajectoryWriter.reopen(run_dir, is_durable=False)


def test_a_torn_last_line_leaves_the_chain_whole(tmp_path: Path) -> None:
    from tests.cua.trajectory import samples

    run_dir = samples.write_run(tmp_path, result=None)
    path = run_dir / "trajectory.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    assert load_run(run_dir).chain.status == "whole"
    TrajectoryWriter.reopen(run_dir, is_durable=False).close()
    assert load_run(run_dir).chain.status == "whole"


@pytest.mark.parametrize("depth", [3, 40])
def test_links_and_deep_folders_are_sealed_without_following(tmp_path: Path, depth: int) -> None:
    from cua.trajectory.chain import hash_files

    folder = tmp_path / "files" / "/".join(["d"] * depth)
    folder.mkdir(parents=True)
    (folder / "x").write_text("x")
    (tmp_path / "files" / "link").symlink_to("/etc/passwd")
    (tmp_path / "files" / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "files" / "pipe")
    files, is_whole = hash_files(tmp_path)
    assert (files["link"], files["loop"], files["pipe"]) == ("", "", "")
    assert is_whole is (depth == 3)


def test_a_file_that_only_the_answer_names_is_a_finding(tmp_path: Path) -> None:
    run_dir = write_bundle_of(tmp_path, answer="The dots of dots.png are circled in circled.png [^0^].")
    assert edits(run_dir) == ("the answer names the file circled.png, which the run does not have",)
