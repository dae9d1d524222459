"""Evaluators for the kinds of comparison that most tasks need, reimplemented independently of upstream.

A task that needs another function or another source of results raises `UnsupportedError` and never scores 0: it needs
upstream's own evaluators.

Sheets are compared by value or as printed, by the rules of `compare_table`. Values are read and compared by pandas, as
upstream: a column of integers differs from the same numbers with a decimal point.

Source: `evaluators` of xlang-ai/OSWorld, for the meaning of each function, each rule and each kind of result.
"""

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile

from envs.errors import EvaluationError
from envs.json_fields import JsonMapping
from envs.suites.osworld.downloads import get_file, inside
from envs.suites.osworld.guest_client import GuestAnswerError, GuestClient
from envs.suites.osworld.program_settings import (
    ALONE,
    CHROME_PROFILE,
    CHROME_SETTINGS,
    GIMP_FOLDER,
    SETTINGS_METRICS,
    VIDEO_TYPES,
    VLC_CONFIG,
    Rules,
    chrome_setting,
    commonest,
    find_patterns,
)
from envs.suites.osworld.task_file import INFEASIBLE, Conjunction, Metric, TaskFile, ValueSource

RULES = ("sheet_name", "sheet_data", "sheet_print")
_ENCODINGS = ("utf-8", "latin-1")
_DIGITS = 4
_MAX_WORKBOOK_BYTES = 64 * 2**20  # with the limit below: bounds memory for files that an agent made
COMPARE_TABLE = "compare_table"
"""Name of the function that takes its rules as options, in addition to both files."""
_MAX_FILE_BYTES = 256 * 2**20
_FAILED = "__EVALUATION_FAILED__"
"""Placeholder of upstream's getters for a value that could not be determined."""


def why_not_compared(options: JsonMapping) -> str | None:
    """Return what is missing for the rules of a comparison, in one clause; None if nothing is missing."""
    rules = options.get("rules") or []
    other = next((rule.get("type") for rule in rules if rule.get("type") not in RULES), None)
    if other is not None:
        return f"the rule {other} of compare_table"
    missing = [name for name in ("pandas", "openpyxl") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)}, which the extra osworld brings" if missing else None


def compare_table(result: str | None, expected: str | None, options: JsonMapping) -> float:
    """Return 1 if a workbook meets all rules, most of which name a sheet of the reference.

    Args:
        result: Path of a workbook; None if it is missing.
        expected: Path of the reference.
        options: `rules`, each with `type`, `sheet_idx0` and `sheet_idx1`: a number, `RI0`, `RNname` of the result, or
            `EI0`, `ENname` of the reference.

    Raises:
        EvaluationError: If the reference cannot be read, or a rule does not name a sheet.
    """
    if result is None:
        return 0.0
    book = _read(result)
    reference = _read(expected) if expected is not None else None
    if book is None:
        return 0.0
    if expected is not None and reference is None:
        raise EvaluationError(f"the reference {Path(expected).name} is not a workbook")
    return float(all(_follows(rule, book, reference) for rule in options["rules"]))


def _follows(rule: JsonMapping, book: "_Book", reference: "_Book | None") -> bool:
    if rule["type"] == "sheet_name":
        return book.names == (reference.names if reference is not None else None)
    books = [_find(rule[name], book, reference) for name in ("sheet_idx0", "sheet_idx1")]
    read: Callable[[_Book, str], Any] = _Book.printed if rule["type"] == "sheet_print" else _Book.values
    first = read(*books[0])
    if first is None:
        return False
    second = read(*books[1])
    if second is None:
        raise EvaluationError(f"there is no sheet {rule['sheet_idx1']!r} to compare with")
    if rule["type"] == "sheet_print":
        is_same = bool(first == second)
        return is_same or (bool(rule.get("ignore_case")) and _lower(first) == _lower(second))
    digits = int(rule.get("precision", _DIGITS))
    return bool(first.round(digits).equals(second.round(digits)))


def _lower(lines: Sequence[str]) -> list[str]:
    return [line.lower() for line in lines]


class _Book:
    """Workbook, with the CSV files next to it that contain its sheets as printed."""

    def __init__(self, path: str, pandas_file: Any) -> None:
        self._path = Path(path)
        self._file = pandas_file
        self.names: list[str] = list(pandas_file.sheet_names)

    def values(self, name: str) -> Any:
        """Return the values of a sheet as a `pandas.DataFrame`; None if it does not exist."""
        import pandas

        return pandas.read_excel(self._file, name) if name in self.names else None

    def printed(self, name: str) -> list[str] | None:
        """Return the lines of `BOOK-SHEET.csv` in reverse, without empty ones at the end; None if it does not exist."""
        file = self._path.with_name(f"{self._path.stem}-{name}.csv")
        for encoding in _ENCODINGS:
            with contextlib.suppress(UnicodeDecodeError):
                try:
                    lines = [line.strip() for line in file.read_text(encoding).splitlines()]
                except OSError:
                    return None
                while lines and not lines[-1]:
                    lines.pop()
                return lines[::-1]
        return None


def _read(path: str) -> _Book | None:
    """Open a workbook; return None if the file is not one."""
    import openpyxl
    import pandas
    from openpyxl.utils.exceptions import InvalidFileException as InvalidFile

    try:
        if Path(path).stat().st_size > _MAX_WORKBOOK_BYTES:
            raise EvaluationError(f"{Path(path).name} has more than {_MAX_WORKBOOK_BYTES} bytes")
        openpyxl.load_workbook(path)
        return _Book(path, pandas.ExcelFile(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile, ParseError, InvalidFile):
        return None  # openpyxl has no specific exceptions for most damaged files


def _find(index: int | str, result: _Book, reference: _Book | None) -> tuple[_Book, str]:
    """Return the workbook and the name of a sheet; "" if the sheet does not exist.

    Raises:
        EvaluationError: If the index does not name a sheet, or names one of a missing reference.
    """
    text = f"RI{index}" if isinstance(index, int) else str(index)
    book = {"R": result, "E": reference}.get(text[:1])
    if book is None or text[1:2] not in ("I", "N"):
        raise EvaluationError(f"{index!r} does not name a sheet; expected a number, RI0, RNname, EI0 or ENname")
    if text[1] == "N":
        return book, text[2:]
    number = int(text[2:]) if text[2:].isdecimal() else len(book.names)
    return book, book.names[number] if number < len(book.names) else ""


class UnsupportedError(EvaluationError):
    """Raised for a task whose evaluator is not available."""


class MissingFileError(Exception):
    """Raised when a compared file does not exist; the score of the comparison is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalContext:
    """Inputs of an evaluation.

    Attributes:
        guest: The guest, in the final state of the episode.
        cache_dir: Local folder of the task: results of its setup, files from the guest, reference files.
    """

    guest: GuestClient
    cache_dir: Path


def why_unsupported(task: TaskFile) -> str | None:
    """Return why a task cannot be judged by these functions, in one clause; None if it can."""
    for metric in task.metrics:
        if metric.function == INFEASIBLE:
            continue
        if metric.function not in (*METRICS, COMPARE_TABLE):
            return f"the function {metric.function}"
        if metric.function == COMPARE_TABLE and (why := why_not_compared(metric.options)) is not None:
            return why
        for name, config in (("result", metric.result), ("expected", metric.expected)):
            if config is not None and config.get("type") not in GETTERS:
                return f"the {name} {config.get('type')}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OsworldVerdict:
    """Result of evaluating an episode.

    Attributes:
        score: Score in [0, 1].
        upstream: Score of upstream's harness, including its faults; None if it would crash and count nothing.
    """

    score: float
    upstream: float | None

    @staticmethod
    def of(scores: Sequence[float], conjunction: Conjunction, *, upstream: float | None) -> "OsworldVerdict":
        """Combine the scores of comparisons, up to the decisive one."""
        score = max(scores) if conjunction == "or" else 0.0 if 0.0 in scores else sum(scores) / len(scores)
        return OsworldVerdict(score=score, upstream=upstream)


Compare = Callable[[TaskFile, EvalContext], Awaitable[OsworldVerdict]]
"""Function that makes the comparisons of a feasible task."""


async def judge(
    task: TaskFile,
    context: EvalContext,
    *,
    claims_failure: bool,
    has_ended: bool = True,
    compare: Compare | None = None,
) -> OsworldVerdict:
    """Evaluate a task, after its `postconfig`.

    Args:
        task: The task.
        context: Inputs of the evaluation.
        claims_failure: True if the agent ended the episode by reporting failure.
        has_ended: True if the agent ended the episode; upstream treats an unfinished one as FAIL.
        compare: Makes the comparisons; None uses the functions of this module.

    Raises:
        EvaluationError: If the evaluators cannot give a verdict.
        EnvError: If the guest does not answer.
    """
    has_failed_upstream = claims_failure or not has_ended
    if task.is_infeasible:
        return OsworldVerdict(score=float(claims_failure), upstream=float(has_failed_upstream))
    if claims_failure:
        return OsworldVerdict(score=0.0, upstream=0.0)
    verdict = await (compare or compare_here)(task, context)
    return replace(verdict, upstream=0.0) if has_failed_upstream else verdict


async def compare_here(task: TaskFile, context: EvalContext) -> OsworldVerdict:
    """Evaluate a task with the functions of this module.

    Raises:
        UnsupportedError: If the functions do not cover the task.
        EnvError: If the guest does not answer.
    """
    missing = why_unsupported(task)
    if missing is not None:
        raise UnsupportedError(f"the task {task.key} needs {missing}, which is not among our evaluators")
    scores: list[float] = []
    has_crashed = False
    for metric in task.metrics:
        try:
            score = await _compare(metric, context)
        except MissingFileError:  # upstream's getter asserts that such files exist
            score, has_crashed = 0.0, True
        scores.append(score)
        if score == (1.0 if task.conjunction == "or" else 0.0):
            break
    verdict = OsworldVerdict.of(scores, task.conjunction, upstream=None)
    return verdict if has_crashed else replace(verdict, upstream=verdict.score)


async def _compare(metric: Metric, context: EvalContext) -> float:
    """Make one comparison.

    Raises:
        MissingFileError: If a compared file is missing.
    """
    result = await GETTERS[metric.result["type"]](context, metric.result)
    if metric.expected is None and metric.function not in (*ALONE, COMPARE_TABLE):
        raise UnsupportedError(f"the function {metric.function} compares with nothing")
    expected = await GETTERS[metric.expected["type"]](context, metric.expected) if metric.expected is not None else None
    if metric.function == COMPARE_TABLE:
        return await asyncio.to_thread(compare_table, result, expected, metric.options)
    return await asyncio.to_thread(METRICS[metric.function], result, expected)


async def _run(context: EvalContext, config: ValueSource) -> tuple[str, str]:
    ended = await context.guest.execute(config["command"], shell=bool(config.get("shell")))
    return ended.stdout, ended.stderr


async def _get_output(context: EvalContext, config: ValueSource) -> str:
    return (await _run(context, config))[0]


async def _get_error(context: EvalContext, config: ValueSource) -> str:
    return (await _run(context, config))[1]


async def _get_terminal(context: EvalContext, config: ValueSource) -> str | None:
    return await context.guest.terminal_output()


async def _get_rule(context: EvalContext, config: ValueSource) -> object:
    return config.get("rules")


async def _get_guest_file(context: EvalContext, config: ValueSource) -> str | None:
    """Copy a file from the guest and return its path; None if it is missing. Of several files the first is compared."""
    if config.get("time_suffix"):
        raise UnsupportedError("a result that is named by the time")
    copies = [await _copy(context, path, dest) for path, dest in _files(config)]
    return copies[0]


async def _copy(context: EvalContext, source: str, dest: str) -> str | None:
    data = await context.guest.read_file(source, max_bytes=_MAX_FILE_BYTES)
    path = inside(context.cache_dir, dest)
    if data is None:
        path.unlink(missing_ok=True)  # of an earlier attempt
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def _files(config: ValueSource) -> list[tuple[str, str]]:
    """Return (source, local name) of each file.

    Raises:
        UnsupportedError: If files other than the first one are compared.
    """
    if not config.get("multi"):
        return [(str(config["path"]), str(config["dest"]))]
    if config.get("gives", [0]) != [0]:
        raise UnsupportedError("several files that are judged together")
    return list(zip(map(str, config["path"]), map(str, config["dest"]), strict=True))


async def _get_cached_file(context: EvalContext, config: ValueSource) -> str:
    path = inside(context.cache_dir, str(config["path"]))
    if not path.is_file():
        raise MissingFileError(path)
    return str(path)


async def _get_reference_file(context: EvalContext, config: ValueSource) -> str:
    paths = [(inside(context.cache_dir, dest), source) for source, dest in _files(config)]
    for path, source in paths:
        await get_file(source, path)
    return str(paths[0][0])


async def _get_vlc_config(context: EvalContext, config: ValueSource) -> str | None:
    return await _get_guest_file(context, {**config, "path": VLC_CONFIG})


async def _get_gimp_file(context: EvalContext, config: ValueSource) -> str | None:
    return await _get_guest_file(context, {**config, "path": f"{GIMP_FOLDER}/{config['file_name']}"})


async def _get_chrome_setting(context: EvalContext, config: ValueSource) -> object:
    return chrome_setting(await _read_json(context, f"{CHROME_PROFILE}/Preferences"), str(config["type"]))


async def _get_bookmarks(context: EvalContext, config: ValueSource) -> object:
    bookmarks = await _read_json(context, f"{CHROME_PROFILE}/Bookmarks")
    return bookmarks.get("roots") if bookmarks else None


async def _read_json(context: EvalContext, path: str) -> Mapping[str, object] | None:
    data = await context.guest.read_file(path, max_bytes=_MAX_FILE_BYTES)
    try:
        value = json.loads(data or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


async def _get_default_video_player(context: EvalContext, config: ValueSource) -> str:
    script = "\n".join(f"xdg-mime query default video/{kind}" for kind in VIDEO_TYPES)
    return commonest((await context.guest.execute(script, shell=True)).stdout.splitlines())


async def _get_folder(context: EvalContext, config: ValueSource) -> Mapping[str, object]:
    try:
        return await context.guest.list_directory(str(config["path"]))
    except GuestAnswerError as error:
        if error.is_absent:
            raise MissingFileError(config["path"]) from error
        raise


async def _get_accessibility_tree(context: EvalContext, config: ValueSource) -> str:
    return await context.guest.accessibility_tree()


Getter = Callable[[EvalContext, ValueSource], Awaitable[Any]]
GETTERS: Mapping[str, Getter] = {
    "rule": _get_rule,
    "vm_command_line": _get_output,
    "vm_command_error": _get_error,
    "vm_terminal_output": _get_terminal,
    "vm_file": _get_guest_file,
    "cache_file": _get_cached_file,
    "cloud_file": _get_reference_file,
    "vlc_config": _get_vlc_config,
    "gimp_config_file": _get_gimp_file,
    "bookmarks": _get_bookmarks,
    "default_video_player": _get_default_video_player,
    "list_directory": _get_folder,
    "accessibility_tree": _get_accessibility_tree,
    **dict.fromkeys(CHROME_SETTINGS, _get_chrome_setting),
}
"""Getters of results and expected values, by `type`."""


def exact_match(result: object, rules: Rules) -> float:
    """Return 1 if the result equals `expected`."""
    return float(result == rules["expected"])


def match_in_list(result: object, rules: Rules) -> float:
    """Return 1 if the result is one of `expected`."""
    return float(result in rules["expected"])


def is_in_list(result: Any, rules: Rules) -> float:
    """Return 1 if the result contains `expected`."""
    return float(rules["expected"] in result)


def check_include_exclude(result: str | None, rules: Rules) -> float:
    """Return 1 if a text contains all of `include` and none of `exclude`."""
    if result is None:
        return 0.0
    has_all = all(text in result for text in rules.get("include", ()))
    return float(has_all and not any(text in result for text in rules.get("exclude", ())))


def check_list(result: str | None, rules: Rules) -> float:
    """Return 1 if each pattern of `expect` matches some line of a file, and no pattern of `unexpect` matches any."""
    if result is None:
        return 0.0
    lines = Path(result).read_text("utf-8").splitlines(keepends=True)
    wanted, unwanted = (find_patterns(rules.get(name, ()), lines) for name in ("expect", "unexpect"))
    return float(all(wanted) and not any(unwanted))


def check_json_settings(result: str | None, rules: Rules) -> float:
    """Return 1 if a JSON file has all keys of `expected` with their values."""
    if not result:
        return 0.0
    try:
        settings = json.loads(Path(result).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return 0.0
    absent = object()
    return float(
        isinstance(settings, dict)
        and all(settings.get(key, absent) == value for key, value in rules["expected"].items())
    )


def check_direct_json_object(result: object, rules: Rules) -> float:
    """Return 1 if an object, or a JSON text of one, has the values of `expected`.

    With `expect_in_result` a value may be one of several, or a part of the text.
    """
    if isinstance(result, str):
        result = json.loads(result.strip().replace("'", '"'))
    expected = rules.get("expected") or {}
    if not isinstance(result, dict) or _FAILED in expected.values():
        return 0.0
    is_right = _is_in if rules.get("expect_in_result") else _is_equal
    in_any_order = bool(expected.get("ignore_list_order"))
    return float(all(is_right(result.get(key), value, in_any_order) for key, value in expected.items()))


def _is_equal(value: Any, wanted: Any, in_any_order: bool) -> bool:
    return bool(sorted(value) == sorted(wanted) if in_any_order else value == wanted)


def _is_in(value: object, wanted: object, in_any_order: bool) -> bool:
    if isinstance(wanted, list):
        return any(item in value if isinstance(value, list) else item == value for item in wanted)
    return isinstance(wanted, str) and isinstance(value, str | list) and wanted in value


MetricFunction = Callable[[Any, Any], float]
METRICS: Mapping[str, MetricFunction] = {
    **{
        function.__name__: function
        for function in (
            exact_match,
            match_in_list,
            is_in_list,
            check_include_exclude,
            check_list,
            check_json_settings,
            check_direct_json_object,
        )
    },
    **SETTINGS_METRICS,
}
"""Comparisons by name."""
