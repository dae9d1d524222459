"""OSWorld's task files as data: setup steps, instruction, and comparisons.

Source: `evaluation_examples` of xlang-ai/OSWorld. The bundled files are from 2026-04-29; `OsworldTaskData` also reads
newer checkouts.
"""

import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from envs.errors import EnvSetupError, did_you_mean
from envs.json_fields import JsonMapping, as_mapping, as_text, as_texts, load_json

DATA = Path(__file__).with_name("data") / "osworld_2026_04_29.zip"
LISTS = ("all", "nogdrive", "small", "infeasible")
"""Lists of tasks in the data; `infeasible` is made from the tasks, since upstream's list lacks one of them."""
DOMAINS = (
    "chrome",
    "gimp",
    "libreoffice_calc",
    "libreoffice_impress",
    "libreoffice_writer",
    "multi_apps",
    "os",
    "thunderbird",
    "vlc",
    "vs_code",
)
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Office": ("libreoffice_calc", "libreoffice_impress", "libreoffice_writer"),
    "Daily": ("vlc", "thunderbird", "chrome"),
    "Professional": ("gimp", "vs_code"),
    "OS": ("os",),
    "Workflow": ("multi_apps",),
}
INFEASIBLE = "infeasible"
UPSTREAM = "upstream"
"""Name of the score of upstream's harness."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""Valid name of a task or a domain, which is used as a folder name."""
_MAX_FILE_BYTES = 2**20
_MAX_FILES = 10_000

Conjunction = Literal["and", "or"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """Step that runs on the guest before the task, or before its verdict.

    Attributes:
        kind: `launch`, `download`, `execute`, ...
        parameters: Parameters of that kind.
    """

    kind: str
    parameters: JsonMapping


class ValueSource(TypedDict, total=False):
    """Source of a result or an expected value, with the keys that the getters read.

    Attributes:
        type: Name of the getter.
        command: `vm_command_line`: command to run.
        shell: True to run the command in a shell.
        rules: `rule`: the value itself.
        path: Files: path or address; several with `multi`.
        dest: Names in the task's folder.
        multi: True for several files.
        gives: Indices of the compared files.
        time_suffix: True if the name ends with the time.
        file_name: `gimp_config_file`: name in Gimp's folder.
    """

    type: str
    command: str | list[str]
    shell: bool
    rules: object
    path: str | list[str]
    dest: str | list[str]
    multi: bool
    gives: list[int]
    time_suffix: bool
    file_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One comparison: `function(result, expected, **options)`.

    Attributes:
        function: Name of the function.
        result: Source of the judged value: a getter's `type` and its parameters; empty for `infeasible`.
        expected: Source of the expected value; None for a comparison without one.
        options: Named arguments of the function.
    """

    function: str
    result: ValueSource
    expected: ValueSource | None = None
    options: JsonMapping = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """One task.

    Attributes:
        id: Task id, a UUID.
        domain: Folder of the file, one of `DOMAINS`.
        instruction: The instruction.
        setup: Steps before the task.
        metrics: Comparisons, in this order.
        conjunction: `and` if all comparisons must succeed; `or` if one must.
        postconfig: Steps before the comparisons.
        related_apps: Names of programs, in inconsistent spellings.
        needs_proxy: True if upstream opens its sites through a proxy.
        needs_account: True if it needs a Google Drive account.
        snapshot: Snapshot name, for information only.
    """

    id: str
    domain: str
    instruction: str
    setup: tuple[SetupStep, ...]
    metrics: tuple[Metric, ...]
    conjunction: Conjunction
    postconfig: tuple[SetupStep, ...]
    related_apps: tuple[str, ...]
    needs_proxy: bool
    needs_account: bool
    snapshot: str

    @property
    def is_infeasible(self) -> bool:
        """True if the right answer is that the task cannot be done."""
        return any(metric.function == INFEASIBLE for metric in self.metrics)

    @property
    def key(self) -> str:
        """Key of the task, `DOMAIN/ID`."""
        return f"{self.domain}/{self.id}"


def parse_task(domain: str, content: object, name: str) -> TaskFile:
    """Parse a task.

    Args:
        domain: Folder of the file.
        content: Parsed JSON of the file.
        name: Name for error messages.

    Raises:
        EnvSetupError: If a field is missing or has the wrong type.
    """
    task = as_mapping(content, name)
    id = as_text(task.get("id"), f"{name}: id")
    for field_name, text in (("id", id), ("the domain", domain)):
        if not _NAME.fullmatch(text):
            raise EnvSetupError(f"{name}: {field_name} is {text[:80]!r}, expected letters, digits, '-', '_' and '.'")
    evaluator = as_mapping(task.get("evaluator"), f"{name}: evaluator")
    instruction = as_text(task.get("instruction"), f"{name}: instruction")
    if not instruction.strip():
        raise EnvSetupError(f"{name}: instruction is blank")
    setup = parse_steps(task.get("config"), f"{name}: config")
    conjunction = evaluator.get("conj", "and")
    if conjunction not in ("and", "or"):
        raise EnvSetupError(f"{name}: evaluator: conj is {conjunction!r}, expected 'and' or 'or'")
    apps = task.get("related_apps")
    return TaskFile(
        id=id,
        domain=domain,
        instruction=instruction,
        setup=setup,
        metrics=_parse_metrics(evaluator, f"{name}: evaluator"),
        conjunction=conjunction,
        postconfig=parse_steps(evaluator.get("postconfig"), f"{name}: evaluator: postconfig"),
        related_apps=tuple(str(app) for app in apps) if isinstance(apps, list) else (),
        needs_proxy=task.get("proxy") is True,
        needs_account=any(step.kind in ("googledrive", "login") for step in setup),
        snapshot=str(task.get("snapshot") or ""),
    )


def parse_steps(content: object, name: str) -> tuple[SetupStep, ...]:
    """Parse a list of steps; None or a missing list gives an empty one.

    Raises:
        EnvSetupError: If the content is not such a list.
    """
    if content is None:
        return ()
    if not isinstance(content, list):
        raise EnvSetupError(f"{name} is a {type(content).__name__}, expected a list of steps")
    steps = []
    for number, entry in enumerate(content, 1):
        step = as_mapping(entry, f"{name}: step {number}")
        kind = as_text(step.get("type"), f"{name}: step {number}: type")
        parameters = step.get("parameters")
        steps.append(
            SetupStep(
                kind=kind,
                parameters={} if parameters is None else as_mapping(parameters, f"{name}: step {number}: parameters"),
            )
        )
    return tuple(steps)


class OsworldTaskData:
    """All tasks of one revision. A damaged file affects its task only.

    Args:
        path: Folder like upstream's `evaluation_examples` or a zip file of one; None for the bundled files.

    Raises:
        EnvSetupError: If the folder does not exist, or has no tasks.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or DATA
        files = _read_zip(self._path) if self._path.is_file() else _read_folder(self._path)
        self._tasks = {name: data for name, data in files.items() if name.startswith("examples/")}
        self._lists = {name: data for name, data in files.items() if name.startswith("test_")}
        if not self._tasks:
            raise EnvSetupError(f"{self._path} has no task files; expected a folder with examples/DOMAIN/ID.json")
        self.revision = _digest(files)
        self._keys = {name.removeprefix("examples/").removesuffix(".json"): name for name in self._tasks}

    def task(self, key: str) -> TaskFile:
        """Return one task by `DOMAIN/ID`, or by an unambiguous prefix of it.

        Raises:
            EnvSetupError: If the task does not exist, the key is ambiguous, or the file is damaged; the message is one
                line.
        """
        matches = (
            [key] if key in self._keys else [known for known in self._keys if known.startswith(key)] if key else []
        )
        if len(matches) != 1:
            count = f"there are {len(matches)} tasks" if matches else "there is no task"
            raise EnvSetupError(f"{count} of OSWorld with {key!r}{'' if matches else did_you_mean(key, self._keys)}")
        name = self._keys[matches[0]]
        domain = matches[0].partition("/")[0]
        return parse_task(domain, _load(self._tasks, name, f"{self._path.name}: {name}"), name)

    def keys(self, list_name: str = "all", domains: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the keys of the tasks of a list, in its order.

        Args:
            list_name: One of `LISTS`, or the path of a file like upstream's `test_*.json`.
            domains: Domains to include; empty for all.

        Raises:
            EnvSetupError: If the list or domain does not exist, or none of its tasks exists.
        """
        wanted = tuple(domains)
        for domain in wanted:
            if domain not in DOMAINS:
                raise EnvSetupError(f"OSWorld has no domain {domain!r}{did_you_mean(domain, DOMAINS)}")
        keys = [key for key in self._list(list_name) if not wanted or key.partition("/")[0] in wanted]
        if keys and not any(key in self._keys for key in keys):
            raise EnvSetupError(f"the list {list_name} names {keys[0]}, which {self._path.name} does not have")
        return tuple(dict.fromkeys(keys))

    def is_infeasible(self, key: str) -> bool:
        """Return True if a task is marked as infeasible; False for a damaged file."""
        try:
            return self.task(key).is_infeasible
        except EnvSetupError:
            return False

    def _list(self, name: str) -> list[str]:
        if name == INFEASIBLE:
            return [key for key in self._keys if self.is_infeasible(key)]
        if name == "all" and "test_all.json" not in self._lists:
            return list(self._keys)
        if (file_name := f"test_{name}.json") in self._lists:
            content = _load(self._lists, file_name, file_name)
        elif Path(name).is_file():
            file_name, content = name, _load({name: _read_file(Path(name))}, name, name)
        else:
            names = (*LISTS, "local")
            raise EnvSetupError(
                f"there is no list {name!r}{did_you_mean(name, names)}; expected {', '.join(names)}, or a file like "
                "upstream's test_all.json"
            )
        domains = as_mapping(content, file_name)
        return [f"{domain}/{id}" for domain, ids in domains.items() for id in as_texts(ids, f"{file_name}: {domain}")]


def _parse_metrics(evaluator: Mapping[str, object], task_name: str) -> tuple[Metric, ...]:
    given = evaluator.get("func")
    names = given if isinstance(given, list) else [given]
    if not names:
        raise EnvSetupError(f"{task_name}: func is an empty list")
    columns = {
        name: _column(evaluator.get(name), len(names), isinstance(given, list), f"{task_name}: {name}")
        for name in ("result", "expected", "options")
    }
    for source in (*columns["result"], *columns["expected"]):
        if "type" in source:
            as_text(source["type"], f"{task_name}: type of a result")
    return tuple(
        Metric(function=as_text(name, f"{task_name}: func"), result=result, expected=expected or None, options=options)
        for name, result, expected, options in zip(names, *columns.values(), strict=True)
    )


def _column(given: object, count: int, is_list: bool, field_name: str) -> list[Any]:
    """Return the value for each function; a missing value is an empty mapping."""
    entries = given if isinstance(given, list) else [given]
    if given is None:
        entries = [None] * count
    if len(entries) != count or (isinstance(given, list) and not is_list):
        raise EnvSetupError(f"{field_name} has {len(entries)} entries for {count} functions")
    return [{} if entry is None else as_mapping(entry, field_name) for entry in entries]


_Content = bytes | EnvSetupError
"""Content of a file, or the error of reading it."""


def _load(files: Mapping[str, _Content], name: str, label: str) -> object:
    """Return the JSON value of a file.

    Raises:
        EnvSetupError: If the file could not be read, or is damaged.
    """
    content = files[name]
    if isinstance(content, EnvSetupError):
        raise EnvSetupError(f"{label} {content}")
    return load_json(content, label)


def _read_zip(path: Path) -> dict[str, _Content]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if _is_wanted(info.filename)]
            _check_count(len(members), path)
            return {info.filename: _read_member(archive, info) for info in members}
    except (zipfile.BadZipFile, OSError) as error:
        raise EnvSetupError(f"{path} cannot be read: {error}") from error


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Content:
    if info.file_size > _MAX_FILE_BYTES:
        return _too_large(info.file_size)
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, NotImplementedError) as error:
        return EnvSetupError(f"cannot be read: {error}")


def _read_folder(path: Path) -> dict[str, _Content]:
    if not path.is_dir():
        raise EnvSetupError(f"there is no folder {path}; expected one with examples/DOMAIN/ID.json and test_all.json")
    files = {str(file.relative_to(path)): file for file in (*path.glob("test_*.json"), *path.glob("examples/*/*.json"))}
    _check_count(len(files), path)
    return {name: _read_file(files[name]) for name in sorted(files)}


def _read_file(path: Path) -> _Content:
    try:
        size_bytes = path.stat().st_size
        if not path.is_file():
            return EnvSetupError(f"is a {'folder' if path.is_dir() else 'device or pipe'}, expected a file")
        return _too_large(size_bytes) if size_bytes > _MAX_FILE_BYTES else path.read_bytes()
    except OSError as error:
        return EnvSetupError(f"cannot be read: {error.strerror}")


def _too_large(size_bytes: int) -> EnvSetupError:
    return EnvSetupError(f"has {size_bytes} bytes, expected at most {_MAX_FILE_BYTES}")


def _check_count(count: int, path: Path) -> None:
    if count > _MAX_FILES:
        raise EnvSetupError(f"{path} has {count} task files, expected at most {_MAX_FILES}")


def _is_wanted(name: str) -> bool:
    parts = name.split("/")
    is_task = len(parts) == 3 and parts[0] == "examples"
    return name.endswith(".json") and (is_task or (len(parts) == 1 and name.startswith("test_")))


def _digest(files: Mapping[str, _Content]) -> str:
    """Return a digest of the content of all files, independent of their container."""
    digest = hashlib.sha256()
    for name in sorted(files):
        content = files[name]
        data = str(content).encode() if isinstance(content, EnvSetupError) else content
        digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "backslashreplace"))
        digest.update(data)
    return digest.hexdigest()[:12]
