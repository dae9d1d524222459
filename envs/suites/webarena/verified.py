"""WebArena-Verified: the audited tasks, judged by the agent's JSON answer and by the requests of its browser.

Neither a site nor a judge is needed, so that a finished run can be scored offline, from two files for each task:
`agent_response.json`, the text of the answer, and `network.har`. Names and formats are the same as in
webarena-verified.

Source: the rules of webarena-verified 1.2.3; verdicts on canned traces are identical. The tasks are its data.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from envs.errors import EnvSetupError
from envs.json_fields import Json, JsonMapping, as_mapping, as_text, as_texts
from envs.suites.webarena.network_trace import NetworkEvent, parse_json, pick
from envs.suites.webarena.task_config import fill
from envs.suites.webarena.verified_urls import Query, SiteUrls, Url, UrlRules, read_url
from envs.suites.webarena.verified_values import Value, read_value

ANSWER_FORM = """Answer with one JSON object and nothing else:
{"task_type": TYPE, "status": STATUS, "retrieved_data": [...] or null, "error_details": null or "why"}
TYPE: RETRIEVE when data is asked for, MUTATE when something is to be created, changed or deleted, NAVIGATE when a \
page is to be shown.
STATUS: SUCCESS; NOT_FOUND_ERROR when what is asked for does not exist; ACTION_NOT_ALLOWED_ERROR when the site does \
not offer it; PERMISSION_DENIED_ERROR when this user may not; DATA_VALIDATION_ERROR when given data is missing or \
wrong; UNKNOWN_ERROR else.
retrieved_data: for RETRIEVE the list of what was found, all items of one form; null for the others."""
"""Answer format that is appended to the instruction; the wording is not upstream's."""
Outcome = Literal["success", "failure", "error"]


class SchemaReader:
    """Parser that is strict for expected values and tolerant for given ones.

    Args:
        sites: Addresses of the sites, for addresses in texts.
    """

    def __init__(self, sites: SiteUrls) -> None:
        self._sites = sites

    def read_data(self, data: object, schema: JsonMapping, *, strict: bool) -> tuple[Any, ...] | None:
        """Return the list in an answer; None if it has none.

        Raises:
            ValueError: If a value does not have its type and `strict` is set, or there should be no list.
        """
        if not data and not isinstance(data, int | float):
            return None
        if schema.get("type", "array") != "array":
            raise ValueError(f"there is no list to compare with {shown(data)}")
        item = schema.get("items") or {}
        values = data if isinstance(data, list | tuple) else (data,)
        if item.get("type") == "object":
            return tuple(self._read_objects(value, item, strict=strict) for value in values)
        return tuple(self._read(value, _kind_of(item), strict=strict) for value in values)

    def _read(self, value: object, kind: str, *, strict: bool) -> Any:
        """Parse a value of a type; an invalid one is returned unchanged, unless `strict`."""
        try:
            if kind == "url":
                return read_url(value, UrlRules(sites=self._sites, strict=strict))
            return read_value(value, kind, self._sites.abstract)
        except (ValueError, TypeError, RecursionError):
            if strict:
                raise
            return value

    def _read_objects(self, value: object, schema: JsonMapping, *, strict: bool) -> Any:
        if isinstance(value, list | tuple):
            return tuple(self.read_object(item, schema, strict=strict) for item in value)
        return self.read_object(value, schema, strict=strict)

    def read_object(self, value: object, schema: JsonMapping, *, strict: bool) -> Any:
        """Parse the property values of an object.

        Raises:
            ValueError: If it is not an object, or a value does not have its type and `strict` is set.
        """
        if isinstance(value, str):
            parsed = parse_json(value)
            value = parsed if isinstance(parsed, dict) else value
        if not isinstance(value, Mapping):
            if strict:
                raise ValueError(f"{shown(value)} is not an object")
            return value
        properties = schema.get("properties") or {}
        return {
            name: None if item is None else self._read_property(item, properties.get(name), strict=strict)
            for name, item in value.items()
        }

    def _read_property(self, value: object, schema: JsonMapping | None, *, strict: bool) -> Any:
        schema = schema or {}
        if schema.get("type") == "object":
            return self.read_object(value, schema, strict=strict)
        if schema.get("type") != "array":
            return self._read(value, _kind_of(schema), strict=strict)
        item = schema.get("items") or {}
        parsed = parse_json(value) if isinstance(value, str) else value
        if not isinstance(parsed, list | tuple):
            if strict:
                raise ValueError(f"{shown(value)} is not a list")
            return value
        if item.get("type") == "object":
            return self._read_objects(parsed, item, strict=strict)
        return tuple(self._read(entry, _kind_of(item), strict=strict) for entry in parsed)


def shown(value: object) -> str:
    """Return a value as one short line of ASCII."""
    text = ascii(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _kind_of(schema: JsonMapping) -> str:
    return str(schema.get("format") or schema.get("type") or "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedVerdict:
    """Result of judging a task.

    Attributes:
        outcome: `error` if a comparison was not possible at all; it counts as a failure.
        parts: The outcome of each evaluator, in the config's order.
        reasons: Reason for each evaluator that did not succeed.
    """

    outcome: Outcome
    parts: tuple[Outcome, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """1 for success, else 0."""
        return 1.0 if self.outcome == "success" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTask:
    """One audited task, with placeholders in the addresses.

    Attributes:
        id: Task number, the same as in the original set.
        sites: Sites that the task needs.
        start_urls: Addresses, one tab each; the first one is active.
        intent: The instruction, with the format of the data.
        template_id: Template of the task; tasks of one template differ only in their values.
        kind: `retrieve`, `mutate` or `navigate`.
        checks: The evaluators, as in the file.
    """

    id: int
    sites: tuple[str, ...]
    start_urls: tuple[str, ...]
    intent: str
    template_id: int
    kind: str
    checks: tuple[JsonMapping, ...]

    @property
    def changes_state(self) -> bool:
        """True if the task changes a site."""
        return self.kind == "mutate"

    def filled(self, urls: Mapping[str, str]) -> tuple[str, ...]:
        """Return the start pages with the addresses of the sites."""
        return tuple(fill(list(self.start_urls), urls))


def parse_verified(content: object, task_name: str = "a task of WebArena-Verified") -> VerifiedTask:
    """Parse a task.

    Raises:
        EnvSetupError: If a field is missing or has the wrong type.
    """
    task = as_mapping(content, task_name)
    id, template = task.get("task_id"), task.get("intent_template_id")
    if isinstance(id, bool) or not isinstance(id, int):
        raise EnvSetupError(f"{task_name}: task_id is {id!r}, expected a whole number")
    task_name = f"task {id} of WebArena-Verified"
    checks = task.get("eval")
    if not isinstance(checks, list):
        raise EnvSetupError(f"{task_name}: eval is a {type(checks).__name__}, expected a list")
    checks = [as_mapping(check, f"{task_name}: eval") for check in checks]
    for check in checks:
        if check.get("evaluator") not in ("AgentResponseEvaluator", "NetworkEventEvaluator"):
            raise EnvSetupError(f"{task_name}: there is no evaluator {check.get('evaluator')!r}")
        as_mapping(check.get("expected"), f"{task_name}: expected")
    answers = [check for check in checks if check["evaluator"] == "AgentResponseEvaluator"]
    if not answers:
        raise EnvSetupError(f"{task_name}: no evaluator looks at the answer")
    return VerifiedTask(
        id=id,
        sites=tuple(as_texts(task.get("sites"), f"{task_name}: sites")),
        start_urls=tuple(as_texts(task.get("start_urls"), f"{task_name}: start_urls")),
        intent=as_text(task.get("intent"), f"{task_name}: intent"),
        template_id=template if isinstance(template, int) else -1,
        kind=as_text(answers[0]["expected"].get("task_type"), f"{task_name}: task_type").lower(),
        checks=tuple(checks),
    )


def judge(
    task: VerifiedTask, answer: str | None, events: Sequence[NetworkEvent], urls: Mapping[str, str]
) -> VerifiedVerdict:
    """Judge an episode; no site or model is used.

    Args:
        task: The task.
        answer: The agent's final answer.
        events: Requests of the browser, in order.
        urls: Addresses of the sites, by name.
    """
    missing = [name for name in task.sites if name not in urls]
    if missing:
        return VerifiedVerdict(outcome="error", reasons=(f"no address is known for {missing[0]}",))
    if not events:
        return VerifiedVerdict(outcome="error", reasons=("there are no requests",))
    scorer = _Scorer(task, SiteUrls({name: urls[name] for name in task.sites}))
    parts: list[Outcome] = []
    reasons = []
    for check in task.checks:
        outcome: Outcome = "success"
        try:
            reason = scorer.why_not(check, answer, events)
        except (ValueError, TypeError, AttributeError, KeyError, re.error) as error:  # as published: this is an error
            outcome, reason = "error", f"{check['evaluator']}: {error}"
        if reason:
            outcome = "failure" if outcome == "success" else outcome
            reasons.append(reason)
        parts.append(outcome)
    whole: Outcome = "error" if "error" in parts else "failure" if "failure" in parts else "success"
    return VerifiedVerdict(outcome=whole, parts=tuple(parts), reasons=tuple(reasons))


class _Scorer:
    """Comparison of an episode with the expectations of one task."""

    def __init__(self, task: VerifiedTask, sites: SiteUrls) -> None:
        self._task = task
        self._sites = sites
        self._reader = SchemaReader(sites)

    def why_not(self, check: Mapping[str, object], answer: str | None, events: Sequence[NetworkEvent]) -> str:
        """Return why an evaluator is not met; empty if it is met."""
        if check["evaluator"] == "AgentResponseEvaluator":
            return self._judge_answer(check, answer)
        return self._judge_events(check, [event for event in events if event.counts])

    def _judge_answer(self, check: JsonMapping, answer: str | None) -> str:
        expected, schema = check["expected"], check.get("results_schema") or {}
        wanted = self._reader.read_data(expected.get("retrieved_data"), schema, strict=True)
        given = parse_answer(answer)
        if not isinstance(given, Mapping):
            return "the answer is not a JSON object"
        values = {name: _lookup(given, name) for name in expected if _has(given, name)}
        values.setdefault("retrieved_data", None) if "retrieved_data" in expected else None
        data = None
        if self._task.kind == "retrieve" and "retrieved_data" in values:
            data = self._reader.read_data(values["retrieved_data"], schema, strict=False)
        texts = {name: values[name].strip() for name in ("task_type", "status") if name in values}
        for name in ("task_type", "status"):
            answer_text = texts.get(name)
            if not answer_text or not read_value(expected[name], "string").is_met_by(read_value(answer_text, "string")):
                return f"{name} is {answer_text!r}, expected {expected[name]!r}"
        if "retrieved_data" not in values:  # as published: values that are not in the config are ignored
            return "retrieved_data is missing"
        if self._task.kind != "retrieve" or (wanted is None and data is None):
            return ""
        if wanted is None or data is None:
            return (
                f"retrieved_data is {shown(values['retrieved_data'])}, expected {'none' if wanted is None else 'some'}"
            )
        if not is_same(wanted, data, ordered=check.get("ordered") is True):
            return f"retrieved_data is {shown(values['retrieved_data'])}"
        return ""

    def _judge_events(self, check: JsonMapping, events: Sequence[NetworkEvent]) -> str:
        expected = {"response_status": 200, "http_method": "GET", **check["expected"]}
        matching = list(self._find_events(check, expected, events))
        wanted = self._read_wanted(check, expected)
        matching = matching[-1:] if check.get("last_event_only", True) else matching
        request = f"{expected['http_method']} {shown(expected['url'])}"
        if check.get("should_not_exist"):
            return f"there is a request that there should not be, {request}" if matching else ""
        given = [self._read_event(check, expected, event) for event in matching]
        if any(is_same(wanted, values, ordered=False, is_open=True) for values in given):
            return ""
        return f"no request is as wanted, {request}" if matching else f"there is no request {request}"

    def _find_events(
        self, check: Mapping[str, object], expected: JsonMapping, events: Sequence[NetworkEvent]
    ) -> Iterator[NetworkEvent]:
        """Yield the events to compare: for a navigation the last page, else all with the method and the path."""
        if self._task.kind == "navigate" and expected["http_method"] == "GET":
            yield from [event for event in events if event.is_navigation][-1:]
            return
        if not events:
            return
        url = read_url(expected["url"], self._rules(check, strict=True))
        referer = (expected.get("headers") or {}).get("referer")
        from_url = read_url(referer, self._rules(check, strict=True)) if referer else None
        rules = self._rules(check, strict=False)
        for event in events:
            if event.method.lower() != expected["http_method"].lower() or not url.has_path_of(
                read_url(event.url, rules)
            ):
                continue
            its_referer = event.header("referer")
            if from_url is None or not its_referer or from_url.has_path_of(read_url(its_referer.lower(), rules)):
                yield event

    def _rules(self, check: JsonMapping, *, strict: bool) -> UrlRules:
        schema = check.get("query_params_schema")
        return UrlRules(
            sites=self._sites,
            strict=strict,
            ignored=tuple(check.get("ignored_query_params") or ()),
            ignored_patterns=tuple(check.get("ignored_query_params_patterns") or ()),
            has_base64=check.get("decode_base64_query") is True,
            typed=partial(self._read_query, schema=schema, strict=strict) if schema else None,
        )

    def _read_query(self, query: Query, *, schema: JsonMapping, strict: bool) -> Query:
        typed: Query = self._reader.read_object(query, schema, strict=strict)
        return typed

    def _read_wanted(self, check: JsonMapping, expected: JsonMapping) -> Json:
        rules = self._rules(check, strict=True)
        values = {
            "url": read_url(expected["url"], rules, expected.get("query_params")),
            "post_data": self._read_form(expected.get("post_data"), check, strict=True),
            "response_content": expected.get("response_content") or None,
            "response_cookies": self._read_cookies(expected.get("response_cookies"), strict=True),
            "response_status": expected["response_status"],
            "http_method": expected["http_method"],
        }
        if expected.get("headers") is not None:
            values["headers"] = self._read_headers(expected["headers"], rules)
        return values

    def _read_event(self, check: Mapping[str, object], expected: JsonMapping, event: NetworkEvent) -> Json:
        """Return the values of a request that the check names."""
        form = pick(event.form, expected["post_data"], is_open=True) if expected.get("post_data") else None
        content = event.content if expected.get("response_content") else None
        cookies = {
            name: event.cookies[name] for name in expected.get("response_cookies") or () if name in event.cookies
        }
        headers = {name: event.header(name) for name in expected.get("headers") or () if event.header(name) is not None}
        rules = self._rules(check, strict=False)
        values = {
            "url": self._read_seen_url(event.url, rules),
            "post_data": self._read_form(form, check, strict=False),
            "response_content": pick(content, expected["response_content"]) if content else None,
            "response_cookies": self._read_cookies(cookies, strict=False),
            "response_status": event.status,
            "http_method": event.method,
        }
        return {**values, "headers": self._read_headers(headers, rules)} if headers else values

    def _read_seen_url(self, url: object, rules: UrlRules) -> Any:
        try:
            return read_url(url, rules)
        except ValueError:
            return url

    def _read_form(self, form: JsonMapping | None, check: JsonMapping, *, strict: bool) -> Any:
        if not form:
            return None
        ignored = check.get("ignored_post_data_params_patterns") or ()
        kept = {name: value for name, value in form.items() if not any(_finds(pattern, name) for pattern in ignored)}
        return self._reader.read_object(kept, check.get("post_data_schema") or {}, strict=strict) if kept else kept

    def _read_cookies(self, cookies: JsonMapping | None, *, strict: bool) -> Json | None:
        if not cookies:
            return None
        return {name: self._read_plain(value, strict=strict) for name, value in cookies.items()}

    def _read_headers(self, headers: JsonMapping, rules: UrlRules) -> Json:
        values = {}
        for name, value in headers.items():
            if name in ("redirect_url", "referer") and value:
                values[name] = read_url(value, rules) if rules.strict else self._read_seen_url(value, rules)
            elif isinstance(value, str):
                values[name] = self._read_plain(self._sites.abstract(value), strict=rules.strict)
            else:
                values[name] = value
        return values

    def _read_plain(self, value: object, *, strict: bool) -> Any:
        try:
            return read_value(value, "string")
        except ValueError:
            if strict:
                raise
            return value


def is_same(wanted: object, given: object, *, ordered: bool, is_open: bool = False) -> bool:
    """Return True if a given value equals the wanted one, in structure and values.

    Args:
        wanted: Expected value, parsed strictly.
        given: Given value, parsed as far as possible.
        ordered: True if the order of lists matters.
        is_open: True if objects may have additional keys.
    """
    if wanted is None or given is None:
        return wanted is given
    if isinstance(wanted, Value | Url):
        return wanted.is_met_by(given)
    if isinstance(wanted, Mapping):
        if not isinstance(given, Mapping):
            return False
        if not wanted:
            raise ValueError("an object without keys is wanted")
        if not given.keys() >= wanted.keys() or (not is_open and given.keys() != wanted.keys()):
            return False
        return all(is_same(value, given[name], ordered=ordered, is_open=is_open) for name, value in wanted.items())
    if isinstance(wanted, list | tuple):
        if not isinstance(given, list | tuple):
            return False
        compare = partial(is_same, ordered=ordered, is_open=is_open)
        if ordered:
            return len(wanted) == len(given) and all(map(compare, wanted, given))
        rest = list(given)
        for item in wanted:
            place = next((place for place, other in enumerate(rest) if compare(item, other)), None)
            if place is None:
                return False
            del rest[place]
        return not rest
    return bool(wanted == given)


def parse_answer(answer: str | None) -> Any:
    """Parse the JSON value of an answer, also in a code block; text that is not JSON is returned; None if empty."""
    if answer is None:
        return None
    block, end, _ = answer.partition("```")[2].removeprefix("json").partition("```")
    return parse_json((block if end else answer).strip()) or None


def _has(given: Mapping[str, object], name: str) -> bool:
    return name in given or (name == "task_type" and "performed_operation" in given)


def _lookup(given: Mapping[str, object], name: str) -> Any:
    return given[name] if name in given else given["performed_operation"]


def _finds(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False
