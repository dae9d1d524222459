"""Samples are what was sampled: written once, read back equal, and refused where a trainer would learn nonsense."""

import hashlib
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cua.rollouts.samples import (
    BLOBS,
    FILE,
    KeptSets,
    MediaRange,
    PolicySpan,
    RolloutSample,
    SampledRollout,
    SampleError,
    SampleReader,
    SampleWriter,
)

MEDIA = 163_605
IMAGE = b"an encoded image"


def make_sample(**changes: Any) -> RolloutSample:
    """Two turns with an image in the prompt: 8 tokens, of which 1, 6 and 7 are not sampled media or prompt."""
    sample = RolloutSample(
        ids=np.array([5, MEDIA, MEDIA, 6, 70_000, 8, 9, 163_839], dtype=np.uint32),
        mask=np.array([0, 0, 0, 0, 1, 1, 0, 1], dtype=bool),
        logprobs=np.array([0, 0, 0, 0, -0.5, -1.25, 0, -3.0], dtype=np.float32),
        spans=(PolicySpan(4, 6, 3), PolicySpan(7, 8, 4)),
        media=(MediaRange(1, 2, "", "moonvit@1"),),
        routes=np.arange(8 * 2 * 3, dtype=np.uint16).reshape(8, 2, 3) + 300,
        prompt_length=4,
        num_turns=2,
    )
    return replace(sample, **changes)


def make_rollout(writer: SampleWriter, *branches: RolloutSample, **changes: Any) -> SampledRollout:
    sha256 = writer.put_media(IMAGE)
    stored = [
        replace(branch, media=tuple(replace(item, sha256=item.sha256 or sha256) for item in branch.media))
        for branch in branches
    ]
    return replace(SampledRollout(rollout="g/0", group="g", reward=0.5, branches=tuple(stored)), **changes)


def same(left: RolloutSample, right: RolloutSample) -> bool:
    arrays = ("ids", "mask", "logprobs", "routes")
    assert (left.kept is None) is (right.kept is None)
    if left.kept is not None and right.kept is not None:
        pairs = ((left.kept.num, right.kept.num), (left.kept.ids, right.kept.ids))
        assert all(np.array_equal(*pair) and pair[0].dtype == pair[1].dtype for pair in pairs)
        left, right = replace(left, kept=None), replace(right, kept=None)
    plain = {name for name in RolloutSample.__slots__ if name not in arrays}
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in arrays) and all(
        getattr(left, name) == getattr(right, name) for name in plain
    )


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    writer = SampleWriter(tmp_path, media_token_id=MEDIA)
    yield writer
    writer.close()


def read(folder: Path) -> list[SampledRollout]:
    with SampleReader(folder) as reader:
        return list(reader)


def test_a_rollout_is_read_back_as_it_was_written(writer: SampleWriter, tmp_path: Path) -> None:
    first = make_rollout(writer, make_sample(weight=0.25), make_sample(weight=0.75, routes=None, is_truncated=True))
    second = make_rollout(writer, make_sample(policy="frozen:nano@3"), rollout="g/1", reward=None, attempt=2)
    writer.append(first)
    writer.append(second)
    found = read(tmp_path)
    assert [(item.rollout, item.attempt, item.group, item.reward) for item in found] == [
        ("g/0", 1, "g", 0.5),
        ("g/1", 2, "g", None),
    ]
    for item, expected in zip(found, (first, second), strict=True):
        assert all(same(*pair) for pair in zip(item.branches, expected.branches, strict=True))
    assert found[0].branches[0].routes is not None
    assert found[0].branches[0].routes.max() == 347  # beyond 255: experts do not fit into bytes


def test_media_are_stored_once_however_many_branches_use_them(writer: SampleWriter, tmp_path: Path) -> None:
    for number in range(5):
        writer.append(make_rollout(writer, make_sample(routes=None), rollout=f"g/{number}"))
    assert len(list((tmp_path / BLOBS).iterdir())) == 1
    with SampleReader(tmp_path) as reader:
        assert {reader.read_media(item.branches[0].media[0].sha256) for item in reader} == {IMAGE}


def keep(num: list[int], ids: list[int]) -> KeptSets:
    return KeptSets(np.array(num, np.uint32), np.array(ids, np.uint32))


KEPT = keep([0, 0, 0, 0, 2, 1, 0, 3], [5, 70_000, 8, 7, 9, 163_839])


def test_kept_sets_are_read_back(writer: SampleWriter, tmp_path: Path) -> None:
    sample = make_sample(kept=KEPT)
    writer.append(make_rollout(writer, sample))
    found = read(tmp_path)[0].branches[0]
    assert same(found, replace(sample, media=found.media))
    assert found.without_loss().kept is None


BAD: dict[str, dict[str, Any]] = {
    "a log-probability short": {"logprobs": np.zeros(7, dtype=np.float32)},
    "a mask that is longer": {"mask": np.zeros(9, dtype=bool)},
    "a log-probability outside of the mask": {"logprobs": np.full(8, -1, dtype=np.float32)},
    "a log-probability above 0": {"logprobs": np.array([0, 0, 0, 0, 0.5, 0, 0, 0], dtype=np.float32)},
    "a log-probability that is not finite": {"logprobs": np.array([0, 0, 0, 0, -np.inf, 0, 0, 0], dtype=np.float32)},
    "an image cut off": {"media": ()},
    "an image of more features than tokens": {"media": (MediaRange(1, 3, "", "moonvit@1"),)},
    "images that overlap": {"media": (MediaRange(1, 1, "", "a"), MediaRange(1, 1, "", "a"))},
    "an image at another place": {"media": (MediaRange(2, 2, "", "a"),)},
    "a version for a part of the mask": {"spans": (PolicySpan(4, 6, 3),)},
    "spans that overlap": {"spans": (PolicySpan(4, 8, 3), PolicySpan(7, 8, 4))},
    "a version beyond the end": {"spans": (PolicySpan(4, 9, 3),)},
    "greedy tokens": {"spans": (PolicySpan(4, 8, 3, 0.0),)},
    "an unknown nucleus": {"spans": (PolicySpan(4, 8, 3, 1.0, 0.0),)},
    "a nucleus without kept sets": {"spans": (PolicySpan(4, 6, 3), PolicySpan(7, 8, 4, 1.0, 0.9))},
    "kept sets of fewer tokens": {"kept": keep([0, 0, 0, 0, 1], [70_000])},
    "a kept id too few": {"kept": keep([0, 0, 0, 0, 2, 0, 0, 0], [70_000])},
    "a kept id too many": {"kept": keep([0, 0, 0, 0, 1, 0, 0, 0], [70_000, 70_001])},
    "a token outside of its kept set": {"kept": keep([0, 0, 0, 0, 2, 0, 0, 0], [5, 6])},
    "a kept id twice": {"kept": keep([0, 0, 0, 0, 2, 0, 0, 0], [70_000, 70_000])},
    "kept ids out of order": {"kept": keep([0, 0, 0, 0, 2, 0, 0, 0], [70_000, 5])},
    "a kept set outside of the mask": {"kept": keep([1, 0, 0, 0, 0, 0, 0, 0], [5])},
    "a prompt that is trained": {"prompt_length": 5},
    "a prompt longer than the sample": {"prompt_length": 9},
    "routes of another length": {"routes": np.zeros((7, 2, 3), dtype=np.uint16)},
    "routes in bytes": {"routes": np.zeros((8, 2, 3), dtype=np.uint8)},
    "a weight that does not sum to 1": {"weight": 0.5},
    "a negative weight": {"weight": -1.0},
}


@pytest.mark.parametrize("problem", BAD)
def test_an_inconsistent_sample_is_refused_when_it_is_written(writer: SampleWriter, problem: str) -> None:
    with pytest.raises(SampleError, match="g/0"):
        writer.append(make_rollout(writer, make_sample(**BAD[problem])))


def test_a_media_token_that_is_trained_is_refused(writer: SampleWriter) -> None:
    mask = np.array([0, 1, 0, 0, 1, 1, 0, 1], dtype=bool)
    with pytest.raises(SampleError, match="media tokens are in the mask"):
        writer.append(make_rollout(writer, make_sample(mask=mask, prompt_length=0, spans=(PolicySpan(0, 8, 1),))))


def test_media_that_were_not_stored_are_refused(writer: SampleWriter) -> None:
    with pytest.raises(SampleError, match="were not stored"):
        writer.append(make_rollout(writer, make_sample(media=(MediaRange(1, 2, "0" * 64, "moonvit@1"),))))


@pytest.mark.parametrize("reward", [-0.1, 1.5, float("nan")])
def test_a_reward_outside_of_0_to_1_is_refused(writer: SampleWriter, reward: float) -> None:
    with pytest.raises(SampleError, match="reward"):
        writer.append(make_rollout(writer, make_sample(), reward=reward))


def test_a_torn_line_is_left_out_and_replaced_by_the_next_writer(writer: SampleWriter, tmp_path: Path) -> None:
    for name in ("g/0", "g/1"):
        writer.append(make_rollout(writer, make_sample(), rollout=name))
    writer.close()
    path = tmp_path / FILE
    whole = path.read_bytes()
    for size in range(whole.index(b"\n") + 1, len(whole)):
        if size % 97 == 0 or whole[size - 1 : size] == b"\n":
            path.write_bytes(whole[:size])
            assert len(read(tmp_path)) == whole[:size].count(b"\n") - 1
    with_rest = SampleWriter(tmp_path, media_token_id=MEDIA)
    with_rest.append(make_rollout(with_rest, make_sample(), rollout="g/2"))
    with_rest.close()
    assert [item.rollout for item in read(tmp_path)] == ["g/0", "g/2"]


def changed_line(path: Path, **changes: object) -> None:
    """Change fields of the first branch, as a writer with a defect would."""
    header, line = path.read_bytes().splitlines()[:2]
    values = json.loads(line)
    values["branches"][0] |= changes
    path.write_bytes(header + b"\n" + json.dumps(values).encode() + b"\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"weight": 0.5},
        {"ids": ""},
        {"ids": "AAA"},
        {"ids": "not base64!"},
        {"mask": "/w=="},
        {"media": []},
        {"media": [[1, 2, "../../secret", "p"]]},
        {"num_turns": "2"},
        {"unknown": 1},
        {"routes": {"sha256": "0" * 64, "layers": 2, "top_k": 3}},
        {"spans": []},
        {"kept": "0" * 64},
        {"kept": hashlib.sha256(IMAGE).hexdigest()},
    ],
)
def test_content_is_checked_when_it_is_read(writer: SampleWriter, tmp_path: Path, changes: dict[str, object]) -> None:
    writer.append(make_rollout(writer, make_sample()))
    changed_line(tmp_path / FILE, **changes)
    with pytest.raises(SampleError, match="line 2"):
        read(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"[1", b'{"rollout": "a'])
def test_a_damaged_line_is_named_once(writer: SampleWriter, tmp_path: Path, damage: bytes) -> None:
    writer.append(make_rollout(writer, make_sample()))
    with (tmp_path / FILE).open("ab") as file:
        file.write(damage + b"\n")
    with pytest.raises(SampleError, match=r"line 3: the line: Invalid JSON: [^:]+ at column \d+$"):
        read(tmp_path)


def test_an_attempt_is_a_number_of_32_bits(writer: SampleWriter, tmp_path: Path) -> None:
    writer.append(make_rollout(writer, make_sample()))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b'"attempt":1', b'"attempt":1' + b"0" * 30))
    with pytest.raises(SampleError, match="line 2: attempt: "):
        read(tmp_path)


def test_an_attempt_counts_once(writer: SampleWriter, tmp_path: Path) -> None:
    for attempt in (1, 2):
        writer.append(make_rollout(writer, make_sample(), attempt=attempt))
    path = tmp_path / FILE
    header, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + b"".join([lines[0], *lines]))
    assert [item.attempt for item in read(tmp_path)] == [1, 2]


def test_an_image_that_is_gone_is_noticed(writer: SampleWriter, tmp_path: Path) -> None:
    writer.append(make_rollout(writer, make_sample(routes=None)))
    (tmp_path / BLOBS / hashlib.sha256(IMAGE).hexdigest()).unlink()
    with pytest.raises(SampleError, match=r"line 2: .*not stored"):
        read(tmp_path)


def test_a_damaged_image_is_noticed(writer: SampleWriter, tmp_path: Path) -> None:
    sha256 = writer.put_media(IMAGE)
    (tmp_path / BLOBS / sha256).write_bytes(b"a black image..")
    with SampleReader(tmp_path) as reader, pytest.raises(SampleError, match="damaged"):
        reader.read_media(sha256)


@pytest.mark.parametrize("text", [b"", b"{}\n", b'{"format": "k25-samples/2", "media_token_id": 1}\n', b"\xff\n"])
def test_another_format_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(SampleError, match="k25-samples/1"):
        SampleReader(tmp_path)


def test_a_file_of_another_media_token_is_not_continued(writer: SampleWriter, tmp_path: Path) -> None:
    writer.append(make_rollout(writer, make_sample()))
    with pytest.raises(SampleError, match=f"media token {MEDIA}"):
        SampleWriter(tmp_path, media_token_id=1)


def test_reading_takes_the_memory_of_one_rollout(writer: SampleWriter, tmp_path: Path) -> None:
    length = 100_000
    mask = np.ones(length, dtype=bool)
    logprobs = np.full(length, -1, dtype=np.float32)
    for number in range(12):
        sample = RolloutSample(
            ids=np.arange(length, dtype=np.uint32),
            mask=mask,
            logprobs=logprobs,
            spans=(PolicySpan(0, length, number),),
            prompt_length=0,
        )
        writer.append(SampledRollout(rollout=f"g/{number}", group="g", reward=1.0, branches=(sample,)))
    size_bytes = (tmp_path / FILE).stat().st_size
    tracemalloc.start()
    with SampleReader(tmp_path) as reader:
        count = sum(1 for _ in reader)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 12
    assert peak_bytes < size_bytes / 2


def test_a_sample_without_loss_keeps_its_tokens(writer: SampleWriter) -> None:
    stale = make_sample().without_loss()
    assert not stale.mask.any()
    assert np.array_equal(stale.ids, make_sample().ids)
    writer.append(make_rollout(writer, stale))
