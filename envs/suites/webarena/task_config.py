"""WebArena's task configs as data: where a task starts, what is asked for, what is compared in the end.

Source: `config_files/test.raw.json` of web-arena-x/webarena. The state that comes with the package is that of f62e0b99
(September 2025); `TaskData` reads another file of the same form just as well.
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
from envs.json_fields import as_mapping, as_text, as_texts, load_json

DATA = Path(__file__).with_name("data") / "webarena_2025_09_05.zip"
RAW, VERIFIED, HARD = "test.raw.json", "webarena-verified.json", "webarena-verified-hard.ids.json"
CORRECTIONS = "corrections-1"
"""Names their revision; a new one for every change."""
_CORRECTIONS_FILE = Path(__file__).with_name("data") / "corrections.json"
SITES = ("shopping", "shopping_admin", "reddit", "gitlab", "map", "wikipedia")
EVAL_TYPES = ("string_match", "url_match", "program_html")
NOT_ACHIEVABLE = "N/A"
_AND, _OR = " |AND| ", " |OR| "
_MAX_FILE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the agent's answer is compared with; all of it has to hold.

    Attributes:
        exact: The answer itself.
        includes: Parts of it.
        alike: Each has to be said in some words; a judge tells.
        is_not_achievable: The answer is that it cannot be done, for the reason `why`; a judge tells.
        why: The reason.
    """

    exact: str | None = None
    includes: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    is_not_achievable: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCheck:
    """What a page has to hold at the end.

    Attributes:
        url: `last`: the page that the agent left open; `func:NAME(...)`: a function tells the address; else it itself.
        locator: JavaScript that selects a text, `func:NAME(...)`, or nothing: the source of the page.
        prepare: JavaScript that is run before.
        exact: The text itself.
        includes: Parts of it, each with alternatives.
    """

    url: str
    locator: str
    prepare: tuple[str, ...] = ()
    exact: str | None = None
    includes: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig:
    """One task; addresses have the sites' own hosts, or placeholders where a site is not configured.

    Attributes:
        id: Its number, 0 to 811.
        sites: Those that it needs.
        start_urls: One tab each; the first one is active.
        intent: What is asked for.
        template_id: Tasks of one template are the same with other values.
        eval_types: What is compared, in this order; the score is the product.
        answers: For `string_match`.
        reference_urls: For `url_match`: alternatives.
        page_checks: For `program_html`.
        logins: Sites that it starts signed in to, as published; fewer than `sites` where upstream has no such state.
    """

    id: int
    sites: tuple[str, ...]
    start_urls: tuple[str, ...]
    intent: str
    template_id: int
    eval_types: tuple[str, ...]
    answers: Answers = field(default_factory=Answers)
    reference_urls: tuple[str, ...] = ()
    page_checks: tuple[PageCheck, ...] = ()
    logins: tuple[str, ...] = ()

    @property
    def changes_state(self) -> bool:
        """Whether a page is looked at in the end: these tasks change what the site holds."""
        return "program_html" in self.eval_types

    @property
    def is_judged(self) -> bool:
        """True if a model compares its answer."""
        return bool(self.answers.alike) or self.answers.is_not_achievable


def placeholder(site: str) -> str:
    """What stands for the address of a site: `__SHOPPING__`."""
    return f"__{site.upper()}__"


def check_sites(sites: Mapping[str, str]) -> dict[str, str]:
    """Addresses of sites, without the slash at their end, which would spoil every comparison of addresses.

    Raises:
        EnvSetupError: An unknown site, or an address that is none.
    """
    found = {}
    for name, url in sites.items():
        if name not in SITES:
            raise EnvSetupError(f"WebArena has no site {name!r}{did_you_mean(name, SITES)}")
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise EnvSetupError(f"the address of {name} is {url!r}, expected one such as http://127.0.0.1:7770")
        found[name] = url.rstrip("/")
    return found


def parse_config(content: object, where: str = "a task of WebArena") -> TaskConfig:
    """Read a config whose placeholders are filled in.

    Raises:
        EnvSetupError: Something is missing or of another kind than it has to be.
    """
    task = as_mapping(content, where)
    id = task.get("task_id")
    if isinstance(id, bool) or not isinstance(id, int):
        raise EnvSetupError(f"{where}: task_id is {id!r}, expected a whole number")
    where = f"task {id} of WebArena"
    evaluation = as_mapping(task.get("eval"), f"{where}: eval")
    types = tuple(as_texts(evaluation.get("eval_types"), f"{where}: eval_types"))
    if not types or (unknown := set(types) - set(EVAL_TYPES)):
        told = f"{min(unknown)!r}" if types else "empty"
        raise EnvSetupError(f"{where}: eval_types has {told}; expected one of {', '.join(EVAL_TYPES)}")
    answers = Answers()
    if "string_match" in types:
        answers = _parse_answers(evaluation, where)
    urls: tuple[str, ...] = ()
    if "url_match" in types:
        if (rule := evaluation.get("url_note", "GOLD in PRED")) != "GOLD in PRED":
            raise EnvSetupError(f"{where}: url_note is {rule!r}; the only rule for addresses is 'GOLD in PRED'")
        urls = tuple(as_text(evaluation.get("reference_url"), f"{where}: reference_url").split(_OR))
        if not all(url.strip() for url in urls):
            raise EnvSetupError(f"{where}: reference_url is blank, which every address would match")
    checks = evaluation.get("program_html") if "program_html" in types else []
    if not isinstance(checks, list):
        raise EnvSetupError(f"{where}: program_html is a {type(checks).__name__}, expected a list")
    if "program_html" in types and not checks:
        raise EnvSetupError(f"{where}: program_html is empty, so that any page would be right")
    template = task.get("intent_template_id")
    return TaskConfig(
        id=id,
        sites=tuple(as_texts(task.get("sites"), f"{where}: sites")),
        start_urls=tuple(as_text(task.get("start_url"), f"{where}: start_url").split(_AND)),
        intent=as_text(task.get("intent"), f"{where}: intent"),
        template_id=template if isinstance(template, int) else -1,
        eval_types=types,
        answers=answers,
        reference_urls=urls,
        page_checks=tuple(_parse_check(check, where) for check in checks),
        logins=_parse_logins(task.get("storage_state")),
    )


def _parse_logins(storage_state: object) -> tuple[str, ...]:
    """`./.auth/gitlab.reddit_state.json` is a state of both sites."""
    name = PurePosixPath(storage_state).name if isinstance(storage_state, str) else ""
    return tuple(filter(None, name.removesuffix("_state.json").split(".")))


def _parse_answers(evaluation: Mapping[str, Any], where: str) -> Answers:
    given = as_mapping(evaluation.get("reference_answers"), f"{where}: reference_answers")
    if unknown := set(given) - {"exact_match", "must_include", "fuzzy_match"}:
        raise EnvSetupError(f"{where}: reference_answers has {min(unknown)!r}, which nothing compares")
    fuzzy = given.get("fuzzy_match", [])
    is_not_achievable = fuzzy == NOT_ACHIEVABLE
    exact = given.get("exact_match")
    if exact is None and not fuzzy and not given.get("must_include"):
        raise EnvSetupError(f"{where}: reference_answers is empty, so that any answer would be right")
    return Answers(
        exact=None if exact is None else as_text(exact, f"{where}: exact_match"),
        includes=tuple(as_texts(given.get("must_include", []), f"{where}: must_include")),
        alike=() if is_not_achievable else tuple(as_texts(fuzzy, f"{where}: fuzzy_match")),
        is_not_achievable=is_not_achievable,
        why=as_text(evaluation.get("string_note"), f"{where}: string_note") if is_not_achievable else "",
    )


def _parse_check(content: object, where: str) -> PageCheck:
    check = as_mapping(content, f"{where}: program_html")
    wanted = as_mapping(check.get("required_contents"), f"{where}: required_contents")
    if "exact_match" not in wanted and "must_include" not in wanted:
        raise EnvSetupError(f"{where}: required_contents has neither exact_match nor must_include")
    exact = wanted.get("exact_match")
    includes = () if exact is not None else as_texts(wanted.get("must_include"), f"{where}: must_include")
    if exact is None and not all(part.strip() for text in includes or [""] for part in text.split(_OR)):
        raise EnvSetupError(f"{where}: must_include is empty or has a blank part, which every page would have")
    return PageCheck(
        url=as_text(check.get("url"), f"{where}: url"),
        locator=as_text(check.get("locator"), f"{where}: locator").strip(),
        prepare=tuple(as_texts(check.get("prep_actions", []), f"{where}: prep_actions")),
        exact=None if exact is None else as_text(exact, f"{where}: exact_match"),
        includes=tuple(tuple(part.split(_OR)) for part in includes),
    )


class TaskData:
    """All tasks of one revision, their addresses still placeholders.

    Args:
        path: A file like upstream's `test.raw.json`, or a zip that holds one; None: what comes with the package.

    Raises:
        EnvSetupError: There is no such file, or it holds no tasks.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or DATA
        raw = self._read(RAW)
        content = load_json(raw, str(self._path))
        if not isinstance(content, list) or not content:
            raise EnvSetupError(f"{self._path} holds no list of tasks")
        self._tasks: dict[int, Mapping[str, Any]] = {}
        for number, entry in enumerate(content):
            task = as_mapping(entry, f"{self._path}: entry {number}")
            id = task.get("task_id")
            if isinstance(id, bool) or not isinstance(id, int) or id in self._tasks:
                raise EnvSetupError(f"{self._path}: entry {number} has the task_id {id!r}, missing or there twice")
            self._tasks[id] = task
        self.revision = hashlib.sha256(raw).hexdigest()[:12]

    @property
    def ids(self) -> tuple[int, ...]:
        """All task ids, in the file's order."""
        return tuple(self._tasks)

    def raw(self, task_id: int) -> Mapping[str, Any]:
        """One config as it stands in the file.

        Raises:
            EnvSetupError: There is none.
        """
        if task_id not in self._tasks:
            raise EnvSetupError(f"WebArena has no task {task_id!r}; expected one of 0 to {max(self._tasks)}")
        return self._tasks[task_id]

    def task(
        self, task_id: int, sites: Mapping[str, str] | None = None, corrections: Iterable["Correction"] = ()
    ) -> TaskConfig:
        """One task.

        Args:
            task_id: Its number.
            sites: Addresses of sites, which replace the placeholders.
            corrections: Laid over the file; those of other tasks do not matter.

        Raises:
            EnvSetupError: There is none, or it is damaged.
        """
        content: Any = self.raw(task_id)
        for correction in corrections:
            if correction.task_id == task_id:
                content = correction.applied(content)
        return parse_config(fill(content, check_sites(sites or {})))

    def hard_ids(self) -> tuple[int, ...]:
        """The 258 tasks that the audited set calls hard."""
        content = load_json(self._read(HARD), HARD)
        ids = content.get("task_ids") if isinstance(content, dict) else content
        if not isinstance(ids, list):
            raise EnvSetupError(f"{HARD} is no list of task ids")
        return tuple(ids)

    def verified(self) -> dict[int, Mapping[str, Any]]:
        """The audited configs by task id, which have a schema of their own."""
        content = load_json(self._read(VERIFIED), VERIFIED)
        if not isinstance(content, list):
            raise EnvSetupError(f"{VERIFIED} is no list of tasks")
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
    """A change to one config; the file itself stays as it is.

    Attributes:
        task_id: Of which task.
        fields: New values by path, `eval.reference_answers`, `intent`; None takes the field away.
        reason: Why.
        source: Who says so.
    """

    task_id: int
    fields: Mapping[str, Any]
    reason: str
    source: str

    def applied(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The config with it; the one given stays as it is.

        Raises:
            EnvSetupError: It names a field in something that has none.
        """
        found = json.loads(json.dumps(content))
        for path, value in self.fields.items():
            *parents, name = path.split(".")
            place = found
            for parent in parents:
                place = place.get(parent) if isinstance(place, dict) else None
            if not isinstance(place, dict):
                raise EnvSetupError(f"a correction of task {self.task_id} names {path!r}, which the task does not have")
            if value is None:
                place.pop(name, None)
            else:
                place[name] = value
        changed: Mapping[str, Any] = found
        return changed


def load_corrections(path: Path | None = None) -> Sequence[Correction]:
    """Read corrections.

    Args:
        path: A file of one's own; None: those that come with the package.

    Raises:
        EnvSetupError: It cannot be read, or says something else.
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


def fill(content: Any, sites: Mapping[str, str]) -> Any:
    """The same JSON value with addresses in place of placeholders, in all its texts.

    `__SHOPPING_ADMIN__` is another placeholder than `__SHOPPING__`; `__last_url__` and `__page__` are none.
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
