"""Our comparisons against OSWorld's own ones, on drawn inputs, strange ones included; what differs is named."""

import asyncio
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from envs.errors import EvaluationError
from envs.suites.osworld.evaluators import METRICS
from envs.suites.osworld.official import ask, find_official
from envs.suites.osworld.program_settings import ALONE

OFFICIAL = find_official()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        OFFICIAL is None, reason="OSWorld's own evaluators are not installed: cua setup osworld-evaluators"
    ),
]
CASES = 400

Case = tuple[str, Any, Any]
"""Function, what is judged (bytes: the content of a file), rules."""

words = st.sampled_from(["", "a", "b", "ab", "a b", "A", "é", "1", "true", "\n", "a\nb", "None", "x" * 50])
numbers = st.sampled_from([0, 1, 2, -1, 0.5, 100, 125, 10**9])
leaves = st.one_of(st.none(), st.booleans(), numbers, words)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)
keys = st.sampled_from(["a", "b", "c"])
patterns = st.sampled_from(["a", "^a", "b$", "[ab]+", "\\d", "", "é", "^$"])
broken = st.sampled_from([b"", b"{", b"[1", b"\xff\xfe", b"null", b"3", b"[]", b'"a"'])


def maybe(strategy: Any) -> Any:
    """It, or None in its place: a file that the guest does not have."""
    return st.one_of(st.none(), strategy, strategy, strategy)


def case(function: str, judged: Any, rules: Any) -> Any:
    return st.tuples(st.just(function), judged, rules)


def record(**fields: Any) -> Any:
    return st.fixed_dictionaries(fields)


def lines(*some: str) -> Any:
    return st.lists(st.sampled_from(some), max_size=6).map(lambda found: "\n".join(found).encode())


json_file = st.one_of(broken, objects.map(lambda value: json.dumps(value).encode()))
rule = record(key=st.lists(keys, max_size=2), method=st.sampled_from(["eq", "ne", "lt", "re", "re.I"]), ref=leaves)


def vlc(function: str, key: str) -> Any:
    some = (f"{key}=0", f"{key}=1", f"#{key}=0", f"{key}=", f"  {key}=1", f"not-{key}=0", f"{key}=1=0", "[core]", "")
    return case(
        function,
        maybe(lines(*some)),
        st.one_of(numbers, words).map(lambda value: {f"expected_{key.replace('-', '_')}": value}),
    )


def registry(path: str, name: str) -> Any:
    opening = '<?xml version="1.0"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'

    def item(value: str | None) -> str:
        inner = "" if value is None else f"<value>{value}</value>"
        return f'<item oor:path="{path}"><prop oor:name="{name}" oor:op="fuse">{inner}</prop></item>'

    items = st.lists(st.sampled_from([None, "false", "true", "3", "10", "Times", ""]).map(item), max_size=3)
    return maybe(st.one_of(broken, items.map(lambda found: f"{opening}{''.join(found)}</oor:items>".encode())))


ANY_CASE = st.one_of(
    case("exact_match", values, record(expected=values)),
    case("match_in_list", leaves, record(expected=st.lists(leaves, max_size=3))),
    case("is_in_list", st.lists(leaves, max_size=3), record(expected=leaves)),
    case(
        "check_include_exclude",
        maybe(words),
        st.fixed_dictionaries(
            {}, optional={"include": st.lists(words, max_size=2), "exclude": st.lists(words, max_size=2)}
        ),
    ),
    case(
        "check_list",
        maybe(st.one_of(broken, st.lists(words).map(lambda found: "\n".join(found).encode()))),
        st.fixed_dictionaries(
            {}, optional={"expect": st.lists(patterns, max_size=2), "unexpect": st.lists(patterns, max_size=2)}
        ),
    ),
    case("check_json_settings", maybe(json_file), record(expected=objects)),
    case(
        "check_direct_json_object",
        st.one_of(objects, objects.map(json.dumps), words, st.none()),
        st.fixed_dictionaries({"expected": objects}, optional={"expect_in_result": st.booleans()}),
    ),
    case(
        "check_json",
        maybe(json_file),
        st.fixed_dictionaries(
            {}, optional={"expect": st.lists(rule, max_size=2), "unexpect": st.lists(rule, max_size=2)}
        ),
    ),
    vlc("check_qt_bgcone", "qt-bgcone"),
    vlc("check_qt_max_volume", "qt-max-volume"),
    vlc("check_qt_minimal_view", "qt-minimal-view"),
    vlc("check_one_instance_when_started_from_file", "one-instance-when-started-from-file"),
    case(
        "is_vlc_recordings_folder",
        maybe(lines("input-record-path=/a", "#input-record-path=/b", "input-record-path=", "x")),
        record(recording_file_path=st.sampled_from(["/a", "/b", ""])),
    ),
    case(
        "check_qt_slider_colours",
        maybe(
            lines(
                "qt-slider-colours=1;2;3",
                "qt-slider-colours=200;1;1",
                "#qt-slider-colours=9;9;9",
                "qt-slider-colours=a;b",
                "",
            )
        ),
        record(
            type=st.sampled_from(["match", "blackish"]), expected_qt_slider_colours=st.sampled_from(["1;2;3", "9;9;9"])
        ),
    ),
    case(
        "check_config_status",
        maybe(
            lines(
                '(theme "Dark")',
                "(default-image (width 4))",
                "# (theme x)",
                "theme Dark)",
                "(undo-levels 100)",
                "  (undo-levels 7)",
                "(a b c)",
                "()",
            )
        ),
        record(
            key=st.one_of(
                st.sampled_from(["theme", "undo-levels", "a"]),
                st.sampled_from([["a", "b"], ["default-image", "(width"]]),
            ),
            value=st.sampled_from(['"Dark"', "100", "c", "4"]),
        ),
    ),
    case(
        "check_thunderbird_prefs",
        maybe(
            lines(
                'user_pref("a", 1);',
                'user_pref("a", true);',
                'user_pref("b", "x y");',
                "// comment",
                'user_pref("a", 2)',
                "",
            )
        ),
        st.fixed_dictionaries(
            {},
            optional={
                "expect": st.dictionaries(
                    keys, record(method=st.sampled_from(["eq", "ne", "re"]), ref=leaves), max_size=2
                ),
                "unexpect": st.dictionaries(keys, record(method=st.just("eq"), ref=leaves), max_size=2),
            },
        ),
    ),
    case(
        "check_auto_saving_time",
        registry("/org.openoffice.Office.Common/Save/Document", "AutoSaveTimeIntervall"),
        record(minutes=st.sampled_from([3, 10])),
    ),
    case(
        "check_presenter_console_disable",
        registry("/org.openoffice.Office.Impress/Misc/Start", "EnablePresenterScreen"),
        st.none(),
    ),
    case(
        "find_default_font",
        registry("/org.openoffice.Office.Writer/DefaultFont", "Standard"),
        record(font_name=st.sampled_from(["Times", "3"])),
    ),
    case(
        "check_font_size",
        st.dictionaries(st.sampled_from(["default_font_size", "x"]), st.sampled_from([1, 16, 20, 99]), max_size=2),
        st.one_of(
            record(type=st.just("value"), value=numbers), record(type=st.just("range"), min=numbers, max=numbers)
        ),
    ),
    case(
        "check_gnome_favorite_apps",
        st.sampled_from(["['a', 'b']", "@as []", "['a']", "x", "", "['b', 'a']\n"]),
        record(expected=st.lists(st.sampled_from("ab"), max_size=2)),
    ),
    case(
        "check_moved_jpgs",
        record(children=st.lists(record(name=st.sampled_from("abc")), max_size=3, unique_by=str)),
        record(expected=st.lists(st.sampled_from("abc"), max_size=3, unique=True)),
    ),
    case(
        "is_utc_0",
        st.sampled_from(["", "a\nb\nc\nTime zone: Etc/UTC (UTC, +0000)\n", "a\nb\nc\nTime zone: X (X, +0100)", "a\nb"]),
        st.none(),
    ),
    case(
        "file_contains",
        maybe(st.lists(words).map(lambda found: " ".join(found).encode())),
        record(expected=st.lists(words, max_size=2)),
    ),
    case(
        "check_line_number",
        maybe(lines("12:30:45 x", "24:00:00", "a 01:02:60", "", "1:2:3")),
        record(expected=st.sampled_from(["0", "1", 2])),
    ),
)

Differs = Callable[[Case, float | None, float | None], bool]
REGISTRY = ("check_auto_saving_time", "check_presenter_console_disable", "find_default_font")
VLC = "check_qt_ check_one_instance is_vlc_recordings_folder".split()


def names_a_missing_key(one: Case) -> bool:
    """Whether something is unwanted at a place that the file does not have, which upstream takes for null."""
    return one[0] == "check_json" and bool(one[2].get("unexpect"))


DIFFERENCES: dict[str, Differs] = {
    "what is missing or damaged is 0, where upstream's function crashes": lambda one, own, their: (
        their is None and own == 0.0
    ),
    "only whole lines KEY=VALUE of VLC's settings count, upstream takes #KEY=VALUE and NOT-KEY=VALUE, too": (
        lambda one, own, their: one[0].startswith(tuple(VLC)) and b"=" in (one[1] or b"")
    ),
    "a folder that is not set is the empty one": lambda one, own, their: (
        one[0] == "is_vlc_recordings_folder" and not one[2]["recording_file_path"]
    ),
    "lines of GIMP's without words are passed over": lambda one, own, their: (
        one[0] == "check_config_status" and their is None
    ),
    "settings of LibreOffice's without a value are passed over": lambda one, own, their: (
        one[0] in REGISTRY and b'fuse"></prop>' in (one[1] or b"")
    ),
    "Chrome has its own font size when none is stored": lambda one, own, their: (
        one[0] == "check_font_size" and "default_font_size" not in one[1] and their is None
    ),
    "an empty dock is one": lambda one, own, their: one[0] == "check_gnome_favorite_apps" and one[1].startswith("@as"),
    "what a file does not have is not unwanted": lambda one, own, their: names_a_missing_key(one) and own == 1.0,
    "settings are an object": lambda one, own, their: (
        one[0] in ("check_json_settings", "check_direct_json_object") and own == 0.0 and not one[2]["expected"]
    ),
}
"""By name: whether two verdicts on a case (None: a crash) differ for a reason that is documented in docs/osworld.md."""


def ours(one: Case, path: Path | None) -> float | None:
    function, judged, rules = one
    try:
        return float(METRICS[function](str(path) if path is not None else judged, rules))
    except Exception:  # what it raises is no score, as in an evaluation
        return None


@settings(
    max_examples=4, phases=[Phase.generate], deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.lists(ANY_CASE, min_size=CASES, max_size=CASES))
def test_they_agree(cases: list[Case]) -> None:
    assert OFFICIAL is not None
    with tempfile.TemporaryDirectory() as name:
        calls, mine = [], []
        for number, one in enumerate(cases):
            path = None
            if isinstance(one[1], bytes):
                path = Path(name) / f"file-{number}"
                path.write_bytes(one[1])
            mine.append(ours(one, path))
            arguments = [str(path) if path is not None else one[1]]
            calls.append({"function": one[0], "arguments": arguments if one[0] in ALONE else [*arguments, one[2]]})
        answer = asyncio.run(ask(OFFICIAL.python, {"op": "metrics", "calls": calls}, folder=Path(name)))
    theirs = [found.get("score") for found in answer["results"]]
    odd = [
        (one, own, their)
        for one, own, their in zip(cases, mine, theirs, strict=True)
        if own != their and not any(explains(one, own, their) for explains in DIFFERENCES.values())
    ]
    assert odd == []


def test_they_agree_on_sheets(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("pandas")
    from envs.suites.osworld.evaluators import compare_table

    assert OFFICIAL is not None
    rng = random.Random(0)
    cells: list[Any] = [None, "", "a", "A", 0, 1, 1.0, 1.00004, 1.00006, True, "1", "=1+1", -2.5, 10**12]
    calls: list[dict[str, Any]] = []
    mine = []
    for number in range(150):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = [[rng.choice(cells) for _ in range(3)] for _ in range(rng.randrange(4))]
        for name in ("r", "e"):
            book = openpyxl.Workbook()
            book.active.title = rng.choice(("S", "S", "T"))
            for row in rows:
                book.active.append([rng.choice(cells) if rng.random() < 0.05 else cell for cell in row])
            book.save(folder / f"{name}.xlsx")
            if rng.random() < 0.8:
                ends = rng.choice(("", "\n", "\n\n "))
                text = "\n".join(",".join(map(str, row)) for row in rows)
                (folder / f"{name}-S.csv").write_text(text.swapcase() + ends if rng.random() < 0.2 else text + ends)
        rules: list[dict[str, Any]] = [
            {
                "type": rng.choice(("sheet_data", "sheet_data", "sheet_print", "sheet_name")),
                "sheet_idx0": rng.choice((0, 1, "RI0", "RNS", "RNT", "RNx")),
                "sheet_idx1": rng.choice(("EI0", "EI0", "ENS", "EI3", "RI0")),
                "ignore_case": rng.random() < 0.5,
            }
            for _ in range(rng.choice((1, 1, 2)))
        ]
        paths = [str(folder / f"{name}.xlsx") for name in ("r", "e")]
        calls.append({"function": "compare_table", "arguments": paths, "options": {"rules": rules}})
        try:
            mine.append(compare_table(*paths, {"rules": rules}))
        except EvaluationError:
            mine.append(None)
    answer = asyncio.run(ask(OFFICIAL.python, {"op": "metrics", "calls": calls}, folder=tmp_path))
    theirs = [found.get("score") for found in answer["results"]]
    odd = [
        (call["options"], own, their)
        for call, own, their in zip(calls, mine, theirs, strict=True)
        if own != their
        and not (own == 0.0 and their is None)  # the first rule that fails ends ours
        and not (own is None and their == 0.0)  # a reference that lacks its sheet is an error
    ]
    assert odd == []
    assert {0.0, 1.0, None} <= set(mine)
