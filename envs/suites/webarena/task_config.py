"""WebArena's task configs as data: start pages, instruction, and checks.

Source: `config_files/test.raw.json` of web-arena-x/webarena. The bundled file is from revision f62e0b99 (September
2025); `TaskData` reads other files of the same format.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from envs.errors import EnvSetupError, did_you_mean
from envs.json_fields import JsonMapping, as_mapping, as_text, as_texts, load_json

DATA = Path(__file__).with_name("data") / "webarena_2025_09_05.zip"
RAW, VERIFIED, HARD = "test.raw.json", "webarena-verified.json", "webarena-verified-hard.ids.json"
CORRECTIONS = "corrections-1"
"""Revision of the corrections; it changes with every correction."""
_CORRECTIONS_FILE = Path(__file__).with_name("data") / "corrections.json"
SITES = ("shopping", "shopping_admin", "reddit", "gitlab", "map", "wikipedia")
EVAL_TYPES = ("string_match", "url_match", "program_html")
NOT_ACHIEVABLE = "N/A"
_AND, _OR = " |AND| ", " |OR| "
_MAX_FILE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceAnswers:
    """Expected answers; all conditions must hold.

    Attributes:
        exact: The exact answer.
        includes: Parts that the answer must contain.
        alike: Statements that the answer must make in any wording; decided by a judge.
        is_not_achievable: True if the right answer is that the task is impossible, because of `why`; decided by a
            judge.
        why: Reason why the task is impossible.
    """

    exact: str | None = None
    includes: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    is_not_achievable: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCheck:
    """Expected content of a page at the end.

    Attributes:
        url: `last` for the page that the agent left open; `func:NAME(...)` for a function that returns it; else an
            address.
        locator: JavaScript that selects a text, `func:NAME(...)`, or "" for the source of the page.
        prepare: JavaScript to run before the locator.
        exact: The exact text.
        includes: Parts that the text must contain, each with alternatives.
    """

    url: str
    locator: str
    prepare: tuple[str, ...] = ()
    exact: str | None = None
    includes: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig:
    """One task; addresses have the hosts of the sites, or placeholders if a site is not configured.

    Attributes:
        id: Task number, 0 to 811.
        sites: Sites that the task needs.
        start_urls: Addresses, one tab each; the first one is active.
        intent: The instruction.
        template_id: Template of the task; tasks of one template differ only in their values.
        eval_types: Evaluators, in this order; the score is the product.
        answers: Expected answers for `string_match`.
        reference_urls: Alternatives for `url_match`.
        page_checks: Checks for `program_html`.
        logins: Sites that are signed in at the start, as published; fewer than `sites` if upstream has no such state.
    """

    id: int
    sites: tuple[str, ...]
    start_urls: tuple[str, ...]
    intent: str
    template_id: int
    eval_types: tuple[str, ...]
    answers: ReferenceAnswers = field(default_factory=ReferenceAnswers)
    reference_urls: tuple[str, ...] = ()
    page_checks: tuple[PageCheck, ...] = ()
    logins: tuple[str, ...] = ()

    @property
    def changes_state(self) -> bool:
        """True if the evaluation reads a page at the end: these tasks change the content of a site."""
        return "program_html" in self.eval_types

    @property
    def is_judged(self) -> bool:
        """True if a model judges the answer."""
        return bool(self.answers.alike) or self.answers.is_not_achievable


def placeholder(site: str) -> str:
    """Return the placeholder of a site's address, `__SHOPPING__`."""
    return f"__{site.upper()}__"


def check_sites(sites: Mapping[str, str]) -> dict[str, str]:
    """Return addresses of sites without a trailing slash, which would break comparisons of addresses.

    Raises:
        EnvSetupError: If a site is unknown, or an address is invalid.
    """
    checked = {}
    for name, url in sites.items():
        if name not in SITES:
            raise EnvSetupError(f"WebArena has no site {name!r}{did_you_mean(name, SITES)}")
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise EnvSetupError(f"the address of {name} is {url!r}, expected one such as http://127.0.0.1:7770")
        checked[name] = url.rstrip("/")
    return checked


def parse_config(content: object, task_name: str = "a task of WebArena") -> TaskConfig:
    """Parse a config whose placeholders are filled in.

    Raises:
        EnvSetupError: If a field is missing or has the wrong type.
    """
    task = as_mapping(content, task_name)
    id = task.get("task_id")
    if isinstance(id, bool) or not isinstance(id, int):
        raise EnvSetupError(f"{task_name}: task_id is {id!r}, expected a whole number")
    task_name = f"task {id} of WebArena"
    evaluation = as_mapping(task.get("eval"), f"{task_name}: eval")
    types = tuple(as_texts(evaluation.get("eval_types"), f"{task_name}: eval_types"))
    if not types or (unknown := set(types) - set(EVAL_TYPES)):
        value = f"{min(unknown)!r}" if types else "empty"
        raise EnvSetupError(f"{task_name}: eval_types has {value}; expected one of {', '.join(EVAL_TYPES)}")
    answers = ReferenceAnswers()
    if "string_match" in types:
        answers = _parse_answers(evaluation, task_name)
    urls: tuple[str, ...] = ()
    if "url_match" in types:
        if (rule := evaluation.get("url_note", "GOLD in PRED")) != "GOLD in PRED":
            raise EnvSetupError(f"{task_name}: url_note is {rule!r}; the only rule for addresses is 'GOLD in PRED'")
        urls = tuple(as_text(evaluation.get("reference_url"), f"{task_name}: reference_url").split(_OR))
        if not all(url.strip() for url in urls):
            raise EnvSetupError(f"{task_name}: reference_url is blank, which every address would match")
    checks = evaluation.get("program_html") if "program_html" in types else []
    if not isinstance(checks, list):
        raise EnvSetupError(f"{task_name}: program_html is a {type(checks).__name__}, expected a list")
    if "program_html" in types and not checks:
        raise EnvSetupError(f"{task_name}: program_html is empty, so that any page would be right")
    template = task.get("intent_template_id")
    return TaskConfig(
        id=id,
        sites=tuple(as_texts(task.get("sites"), f"{task_name}: sites")),
        start_urls=tuple(as_text(task.get("start_url"), f"{task_name}: start_url").split(_AND)),
        intent=as_text(task.get("intent"), f"{task_name}: intent"),
        template_id=template if isinstance(template, int) else -1,
        eval_types=types,
        answers=answers,
        reference_urls=urls,
        page_checks=tuple(_parse_check(check, task_name) for check in checks),
        logins=_parse_logins(task.get("storage_state")),
    )


def _parse_logins(storage_state: object) -> tuple[str, ...]:
    """Return the sites of a stored login: `./.auth/gitlab.reddit_state.json` contains both."""
    name = PurePosixPath(storage_state).name if isinstance(storage_state, str) else ""
    return tuple(filter(None, name.removesuffix("_state.json").split(".")))


def _parse_answers(evaluation: Mapping[str, object], task_name: str) -> ReferenceAnswers:
    given = as_mapping(evaluation.get("reference_answers"), f"{task_name}: reference_answers")
    if unknown := set(given) - {"exact_match", "must_include", "fuzzy_match"}:
        raise EnvSetupError(f"{task_name}: reference_answers has {min(unknown)!r}, which nothing compares")
    fuzzy = given.get("fuzzy_match", [])
    is_not_achievable = fuzzy == NOT_ACHIEVABLE
    exact = given.get("exact_match")
    if exact is None and not fuzzy and not given.get("must_include"):
        raise EnvSetupError(f"{task_name}: reference_answers is empty, so that any answer would be right")
    return ReferenceAnswers(
        exact=None if exact is None else as_text(exact, f"{task_name}: exact_match"),
        includes=tuple(as_texts(given.get("must_include", []), f"{task_name}: must_include")),
        alike=() if is_not_achievable else tuple(as_texts(fuzzy, f"{task_name}: fuzzy_match")),
        is_not_achievable=is_not_achievable,
        why=as_text(evaluation.get("string_note"), f"{task_name}: string_note") if is_not_achievable else "",
    )


def _parse_check(content: object, task_name: str) -> PageCheck:
    check = as_mapping(content, f"{task_name}: program_html")
    wanted = as_mapping(check.get("required_contents"), f"{task_name}: required_contents")
    if "exact_match" not in wanted and "must_include" not in wanted:
        raise EnvSetupError(f"{task_name}: required_contents has neither exact_match nor must_include")
    exact = wanted.get("exact_match")
    includes = () if exact is not None else as_texts(wanted.get("must_include"), f"{task_name}: must_include")
    if exact is None and not all(part.strip() for text in includes or [""] for part in text.split(_OR)):
        raise EnvSetupError(f"{task_name}: must_include is empty or has a blank part, which every page would have")
    return PageCheck(
        url=as_text(check.get("url"), f"{task_name}: url"),
        locator=as_text(check.get("locator"), f"{task_name}: locator").strip(),
        prepare=tuple(as_texts(check.get("prep_actions", []), f"{task_name}: prep_actions")),
        exact=None if exact is None else as_text(exact, f"{task_name}: exact_match"),
        includes=tuple(tuple(part.split(_OR)) for part in includes),
    )


class TaskData:
    """All tasks of one revision, with placeholders in the addresses.

    Args:
        path: File like upstream's `test.raw.json`, or a zip with one; None for the bundled file.

    Raises:
        EnvSetupError: If the file does not exist, or has no tasks.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or DATA
        raw = self._read(RAW)
        content = load_json(raw, str(self._path))
        if not isinstance(content, list) or not content:
            raise EnvSetupError(f"{self._path} holds no list of tasks")
        self._tasks: dict[int, JsonMapping] = {}
        for number, entry in enumerate(content):
            task = as_mapping(entry, f"{self._path}: entry {number}")
            id = task.get("task_id")
            if isinstance(id, bool) or not isinstance(id, int) or id in self._tasks:
                raise EnvSetupError(f"{self._path}: entry {number} has the task_id {id!r}, missing or there twice")
            self._tasks[id] = task
        self.revision = hashlib.sha256(raw).hexdigest()[:12]

    @property
    def ids(self) -> tuple[int, ...]:
        """All task ids, in the order of the file."""
        return tuple(self._tasks)

    def raw(self, task_id: int) -> JsonMapping:
        """Return one config as it is in the file.

        Raises:
            EnvSetupError: If the task does not exist.
        """
        if task_id not in self._tasks:
            raise EnvSetupError(f"WebArena has no task {task_id!r}; expected one of 0 to {max(self._tasks)}")
        return self._tasks[task_id]

    def task(
        self, task_id: int, sites: Mapping[str, str] | None = None, corrections: Iterable["Correction"] = ()
    ) -> TaskConfig:
        """Return one task.

        Args:
            task_id: Task number.
            sites: Addresses of sites, which replace the placeholders.
            corrections: Applied to the config; corrections of other tasks are ignored.

        Raises:
            EnvSetupError: If the task does not exist, or its config is damaged.
        """
        content: Any = self.raw(task_id)
        for correction in corrections:
            if correction.task_id == task_id:
                content = correction.applied(content)
        return parse_config(fill(content, check_sites(sites or {})))

    def hard_ids(self) -> tuple[int, ...]:
        """Return ids of the 258 tasks in the audited set's `hard` split."""
        content = load_json(self._read(HARD), HARD)
        ids = content.get("task_ids") if isinstance(content, dict) else content
        if not isinstance(ids, list):
            raise EnvSetupError(f"{HARD} is not a list of task ids")
        return tuple(ids)

    def verified(self) -> dict[int, JsonMapping]:
        """Return audited configs by task id; they have their own schema."""
        content = load_json(self._read(VERIFIED), VERIFIED)
        if not isinstance(content, list):
            raise EnvSetupError(f"{VERIFIED} is not a list of tasks")
        return {task["task_id"]: task for task in content}

    def _read(self, name: str) -> bytes:
        try:
            if not zipfile.is_zipfile(self._path):
                if name != RAW:
                    raise EnvSetupError(f"{self._path} is one file and has no {name}")
                if self._path.stat().st_size > _MAX_FILE_BYTES:
                    raise EnvSetupError(f"{self._path} has more than {_MAX_FILE_BYTES} bytes")
                return self._path.read_bytes()
            with zipfile.ZipFile(self._path) as archive:
                if archive.getinfo(name).file_size > _MAX_FILE_BYTES:
                    raise EnvSetupError(f"{self._path}: {name} has more than {_MAX_FILE_BYTES} bytes")
                return archive.read(name)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise EnvSetupError(f"{self._path} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Correction of one config; the file itself stays unchanged.

    Attributes:
        task_id: Number of the task.
        fields: New values by path, `eval.reference_answers`, `intent`; None removes the field.
        reason: Reason for the correction.
        source: Source of the correction.
    """

    task_id: int
    fields: JsonMapping
    reason: str
    source: str

    def applied(self, content: Mapping[str, object]) -> JsonMapping:
        """Return a corrected copy of a config.

        Raises:
            EnvSetupError: If the path of a field does not exist in the config.
        """
        corrected = json.loads(json.dumps(content))
        for path, value in self.fields.items():
            *parents, name = path.split(".")
            place = corrected
            for parent in parents:
                place = place.get(parent) if isinstance(place, dict) else None
            if not isinstance(place, dict):
                raise EnvSetupError(f"a correction of task {self.task_id} names {path!r}, which the task does not have")
            if value is None:
                place.pop(name, None)
            else:
                place[name] = value
        changed: JsonMapping = corrected
        return changed


def load_corrections(path: Path | None = None) -> Sequence[Correction]:
    """Load corrections.

    Args:
        path: Path of a corrections file; None for the bundled one.

    Raises:
        EnvSetupError: If the file cannot be read, or has another format.
    """
    path = path or _CORRECTIONS_FILE
    try:
        content = json.loads(path.read_text("utf-8"))
        return tuple(
            Correction(
                task_id=int(entry["task_id"]),
                fields=dict(entry["fields"]),
                reason=str(entry["reason"]),
                source=str(entry["source"]),
            )
            for entry in content
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvSetupError(f"the corrections cannot be read from {path}: {error!r}") from error


def fill(content: object, sites: Mapping[str, str]) -> Any:
    """Replace the placeholders in all texts of a JSON value with addresses.

    `__SHOPPING_ADMIN__` and `__SHOPPING__` are different placeholders; `__last_url__` and `__page__` are not replaced.
    """
    if isinstance(content, str):
        for name, url in sites.items():
            content = content.replace(placeholder(name), url)
        return content
    if isinstance(content, Mapping):
        return {key: fill(value, sites) for key, value in content.items()}
    if isinstance(content, Sequence):
        return [fill(value, sites) for value in content]
    return content
