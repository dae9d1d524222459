"""Journals are untrusted: a torn last line is left out, every other line that no writer writes is refused."""

import json
from pathlib import Path

import pytest

from cua.errors import ConfigError, TrajectoryError
from cua.rollouts.journal import FILE, RolloutJournal, read_journal
from cua.rollouts.mismatch import PolicyMismatch
from cua.rollouts.rollout import RolloutEnd
from cua.rollouts.samples import SampleWriter
from tests.cua.rollouts.test_samples import MEDIA, make_rollout, make_sample

HEADER = b'{"event": "rollouts", "version": 1}\n'
ENDED = {
    "event": "ended",
    "id": "g/0",
    "kind": "scored",
    "reason": "",
    "score": 0.5,
    "is_truncated": False,
    "num_attempts": 1,
    "version": 0,
    "run_dir": "runs/1",
}
MISMATCH = {
    "event": "mismatch",
    "number": 1,
    "num_tokens": 8,
    "k1": 0.0,
    "k3": 0.0,
    "sequence_ratio": 1.0,
    "abs_p99": 0.0,
    "abs_max": 0.0,
    "share_below": 0.0,
    "share_above": 0.0,
}
MOVED = {"id": "g/0", "state": "running", "try": 1, "version": 0}
GROUP = {"event": "group", "group": "g", "size": 2, "draws": {}}


def write(folder: Path, *lines: bytes) -> None:
    (folder / FILE).write_bytes(HEADER + b"".join(lines))


def encode(values: object) -> bytes:
    return json.dumps(values).encode() + b"\n"


async def test_a_journal_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    journal = RolloutJournal(tmp_path)
    mismatch = PolicyMismatch(
        num_tokens=8, k1=-0.1, k3=0.0, sequence_ratio=1.0, abs_p99=0.0, abs_max=0.0, share_below=0.0, share_above=1.0
    )
    end = RolloutEnd(kind="stale", reason="old \ud800", score=1.0, num_attempts=2, version=3, run_dir="runs/1")
    journal.submitted("g", size=100_000, draws={"order": ["a", "b"]})
    journal.ended("g/0", end)
    journal.note("version", number=4)
    journal.note("stuck", states={}, queue="", oldest=[])
    journal.measured(4, mismatch)
    journal.measured_images(0.25)
    await journal.take("g")
    await journal.close()
    found = read_journal(tmp_path)
    assert found.ends == {
        "g/0": RolloutEnd(**{name: getattr(end, name) for name in end.__slots__} | {"reason": "old \ufffd"})
    }
    assert found.groups == {"g": {"size": 100_000, "draws": {"order": ["a", "b"]}}}
    assert (found.taken, found.version, found.mismatches, found.image_effect) == ({"g": 4}, 4, {4: mismatch}, 0.25)


@pytest.mark.parametrize(
    "line",
    [
        b"no json\n",
        b"\n",
        b"\x00\x00\n",
        b"[1]\n",
        b"[" * 100_000 + b"\n",
        b"{}\n",
        encode(ENDED)[:-20] + b"\n",
        encode({**GROUP, "draws": {"text": "a" * 2**20}}),
        *map(
            encode,
            [
                {**MOVED, "state": "flying"},
                {**MOVED, "id": 5},
                {**MOVED, "try": -1},
                {**MOVED, "try": 10**30},
                {"event": "unknown"},
                {"event": ["ended"]},
                {**ENDED, "kind": "won"},
                {**ENDED, "id": None},
                {**ENDED, "score": "a"},
                {**ENDED, "score": float("nan")},
                {**ENDED, "score": 1e308},
                {**ENDED, "score": 10**400},
                {**ENDED, "score": -0.1},
                {**ENDED, "reason": 1},
                {**ENDED, "is_truncated": "no"},
                {**ENDED, "num_attempts": "1"},
                {**ENDED, "version": 1.5},
                {**ENDED, "run_dir": 5},
                {name: value for name, value in ENDED.items() if name != "score"},
                {**GROUP, "size": 10**13},
                {**GROUP, "size": 0},
                {**GROUP, "size": "2"},
                {**GROUP, "draws": []},
                {**GROUP, "group": 7},
                {"event": "taken"},
                {"event": "version", "number": "x"},
                {"event": "version", "number": -1},
                {**MISMATCH, "k3": "a"},
                {**MISMATCH, "k1": float("inf")},
                {**MISMATCH, "share_above": 2.0},
                {"event": "images", "effect": float("nan")},
            ],
        ),
    ],
    ids=lambda line: line[:60].decode(errors="replace"),
)
@pytest.mark.parametrize("after", [b"", encode(MOVED)])
def test_a_damaged_line_is_refused_with_its_number(tmp_path: Path, line: bytes, after: bytes) -> None:
    write(tmp_path, encode(MOVED), line, after)
    with pytest.raises(TrajectoryError, match=r"rollouts\.jsonl, line 3, is not a line of a journal \(.{1,300}\)$"):
        read_journal(tmp_path)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    whole = encode(ENDED)
    for size in range(len(whole)):
        write(tmp_path, encode(MOVED), whole[:size])
        assert read_journal(tmp_path).open == {"g/0"}
    write(tmp_path, encode(MOVED), whole)
    assert read_journal(tmp_path).open == set()


async def test_a_group_that_no_reader_would_take_is_refused(tmp_path: Path) -> None:
    journal = RolloutJournal(tmp_path)
    with pytest.raises(ConfigError, match="has 100,001 rollouts"):
        journal.submitted("g", size=100_001, draws={})
    await journal.close()


async def test_samples_follow_the_lines_of_their_attempt(tmp_path: Path) -> None:
    """A process that resumes counts attempts by these lines: without them, it would use a number again."""
    writer = SampleWriter(tmp_path, media_token_id=MEDIA)
    journal = RolloutJournal(tmp_path, writer)
    journal.note("version", number=7)
    await journal.sampled(make_rollout(writer, make_sample()))
    assert read_journal(tmp_path).version == 7
    await journal.close()
    writer.close()
