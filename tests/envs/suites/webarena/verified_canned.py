"""Canned episodes of WebArena-Verified: answers and requests that are what a task wants, nearly so, or not."""

import json
import random
import re._constants as constants  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from envs.suites.webarena.task_config import fill
from envs.suites.webarena.verified import VerifiedTask
from envs.suites.webarena.verified_values import is_pattern

URLS = {
    "shopping": "http://shopping.test:7770",
    "shopping_admin": "http://admin.test:7780/admin",
    "reddit": "http://reddit.test:9999",
    "gitlab": "http://gitlab.test:8023",
    "map": "http://map.test:3000",
    "wikipedia": "http://wiki.test:8888/wiki",
}
NAVIGATION = {
    "Accept": "text/html,application/xhtml+xml",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-User": "?1",
}
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CannedRun:
    """What is judged: the agent's last words, and the requests of its browser as entries of a HAR file."""

    name: str
    answer: str | None
    entries: tuple[Entry, ...]


def sample(pattern: str) -> str:
    """A text that a pattern fits: of everything little; what has to stand ahead is written there."""
    return _sample(parser.parse(pattern))


def _sample(parsed: Any) -> str:
    return "".join(_sample_one(code, value) for code, value in parsed)


def _sample_one(code: Any, value: Any) -> str:
    if code is constants.LITERAL:
        return chr(value)
    if code is constants.ANY:
        return "."
    if code in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        return _sample(value[2]) * value[0] or ("w" if value[2][0][0] is constants.ANY else "")
    if code is constants.SUBPATTERN:
        return _sample(value[3])
    if code is constants.BRANCH:
        return _sample(value[1][0])
    if code is constants.ASSERT:
        return _sample(value[1])
    if code is constants.IN:
        return _sample_one(*value[0])
    if code is constants.RANGE:
        return chr(value[0])
    if code is constants.CATEGORY:
        return "7" if value is constants.CATEGORY_DIGIT else " " if value is constants.CATEGORY_SPACE else "w"
    return ""  # ends of texts, and what may not stand ahead


def plain(value: Any) -> Any:
    """A value that is what is wanted: of alternatives the first, of a pattern a text that it fits."""
    if is_pattern(value):
        return sample(value)
    return value


def right_data(wanted: Any, schema: Mapping[str, Any]) -> Any:
    """Data that is what a task wants."""
    if wanted is None:
        return None
    item = schema.get("items") or {}
    return [_right_item(value, item) for value in wanted]


def _right_item(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, dict) and schema.get("type") == "object":
        properties = schema.get("properties") or {}
        return {name: _right_item(one, properties.get(name) or {}) for name, one in value.items()}
    if schema.get("type") == "array" and isinstance(value, list):
        return [_right_item(one, schema.get("items") or {}) for one in value]
    return plain(value[0]) if isinstance(value, list) and value else plain(value)


def restated(value: Any, rng: random.Random) -> Iterator[Any]:
    """Other ways to say a value, and ways that are not it."""
    text = str(value)
    yield from (
        text,
        text.upper(),
        f" {text} ",
        f'"{text}".',
        f"{text}x",
        text[:-1],
        f"{text} {text}",
        [value],
        [value, value],
    )
    yield from (
        None,
        "",
        0,
        True,
        False,
        "yes",
        "no",
        {},
        {"a": 1},
        "n/a",
        text.replace(" ", "-"),
        text.replace("e", "é"),
    )
    words = text.split()
    yield from (" ".join(reversed(words)), " ".join(words[:-1]), f"The {text}", "“" + text + "”", f"{text}™")
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from (
            value + 1,
            value + 0.05,
            value + 0.11,
            value - 0.1,
            -value,
            f"${value}",
            f"{value:,}",
            f"{value} USD",
        )
        yield from (
            f"{value:.2f}",
            f"{value:.1f}",
            f"-${value}",
            f"{value}%",
            f"€{value:,.2f}",
            f"1 {value}",
            "two",
            "twenty-three",
        )
        yield from (
            "one hundred and five",
            "two thousand",
            "zero",
            "point five",
            "three point one",
            "twelve hundred",
            f"about {value}",
        )
    for number in (2, 16, 95, 210, rng.randrange(1, 400)):
        yield from (
            f"{number}min",
            f"{number} minutes",
            f"{number}m",
            f"0:{number % 60:02d}:00",
            f"{number // 60}h {number % 60}m",
        )
        yield from (
            f"{number // 60}:{number % 60:02d} hours",
            f"{number // 60} hours, {number % 60} minutes",
            f"{number}:30",
            f":{number % 60:02d}",
        )
        yield from (
            f"{number} km",
            f"{number}k",
            f"{number} m",
            f"{number / 10} miles",
            f"{number},000 m",
            f"{number}",
            f"{number}.5 km",
        )
        yield from (
            f"{number} meters",
            f"{number * 1000} ft",
            f"{number} parsecs of it",
            f"{number} s",
            f"1 day {number} s",
            f"{number}ms",
        )
    yield from (
        "2022-03-02",
        "3/2/2022",
        "03/02/22",
        "2 March 2022",
        "Mar 2nd, 2022",
        "March 2,2022",
        "Wed, 2 Mar 2022 10:11:12",
    )
    yield from (
        "2023-05-31T10:00:00Z",
        "31/05/2023",
        "May 31 2023",
        "20230531",
        "2023/05/31",
        "31.05.2023",
        "not a date",
        "2023-13-01",
    )
    yield from ("5", "05", "may", "May 2023", "Sept", "13", "5.0", 5, 12, "December 2022", "2022-12")
    yield from (
        "40.4424191, -79.9397388",
        "40.4424191 -79.9397388",
        [40.4424191, -79.9397388],
        {"lat": 40.46076, "lng": -79.94666},
    )
    yield from (
        "40.4424191N, 79.9397388W",
        {"latitude": 40.44242, "longitude": -79.93974},
        {"latitude": "40.5"},
        "95, 10",
        ["40.46076", "-79.94666"],
    )
    yield from (
        "ssh://git@metis.lti.cs.cmu.edu:2222/convexegg/chatgpt.git",
        "git@host:convexegg/chatgpt.git",
        "GIT@x:22/a.git",
    )
    yield from (
        "http://gitlab.test:8023/convexegg/chatgpt.git",
        "git clone git@host:root/metaseq.git",
        "http://shopping.test:7770/a b",
    )


def answer_text(kind: str, status: str, data: Any, **more: Any) -> str:
    """An answer in the wanted form."""
    return json.dumps(
        {"task_type": kind.upper(), "status": status, "retrieved_data": data, "error_details": None, **more}
    )


def right_entry(check: Mapping[str, Any], *, as_json: bool = False) -> Entry:
    """A request that is what an evaluator wants."""
    expected = check["expected"]
    url = expected["url"][0] if isinstance(expected["url"], list) else expected["url"]
    url = fill(plain(url), URLS)
    url = url if url.startswith("http") else f"{URLS['map']}/{url.lstrip('/')}"
    query = {name: [plain(one) for one in values] for name, values in (expected.get("query_params") or {}).items()}
    if query:
        url = f"{url.partition('?')[0]}?{urlencode(query, doseq=True)}"
    headers = {"Accept": "*/*", **(NAVIGATION if expected.get("http_method", "GET") == "GET" else {})}
    for name, value in (expected.get("headers") or {}).items():
        headers[name] = fill(plain(value[0] if isinstance(value, list) else value), URLS)
    form = {
        name: fill(plain(one[0] if isinstance(one, list) and name not in _lists(check) else one), URLS)
        for name, one in (expected.get("post_data") or {}).items()
        if one is not None
    }
    form = form or ({"filler": "1"} if expected.get("post_data") else {})
    content = {name: plain(one) for name, one in (expected.get("response_content") or {}).items()}
    cookies = {name: plain(one) for name, one in (expected.get("response_cookies") or {}).items()}
    return entry(
        url,
        method=expected.get("http_method", "GET"),
        status=expected.get("response_status", 200),
        headers=headers,
        form=_nested(form),
        content=_nested(content),
        cookies=cookies,
        as_json=as_json or any(name.startswith("$.") and not name.startswith("$.^") for name in form),
    )


def _lists(check: Mapping[str, Any]) -> set[str]:
    properties = (check.get("post_data_schema") or {}).get("properties") or {}
    return {name for name, one in properties.items() if one.get("type") == "array"}


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """An object that has these values at paths such as `$.a[0].b`."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        if "?(" in path:
            found["configurable-matrix-serialized"] = json.dumps(
                [{"newProduct": 1, "attributes": one} for one in value] + [{"newProduct": 0, "attributes": "z"}]
            )
            continue
        if path.startswith("$.^"):
            found[sample(path[2:])] = value
            continue
        if not path.startswith("$."):
            found[path] = value
            continue
        place: Any = found
        *steps, last = path[2:].replace("[", ".[").split(".")
        for step, after in zip(steps, [*steps[1:], last], strict=True):
            empty: Any = [] if after.startswith("[") else {}
            place = _step(place, step, empty)
        _step(place, last, value)
    return found


def _step(place: Any, step: str, value: Any) -> Any:
    if step.startswith("["):
        index = int(step[1:-1])
        while len(place) <= index:
            place.append({})
        if not place[index] or not isinstance(value, dict | list):
            place[index] = value if not (isinstance(value, dict) and not value) else place[index]
        return place[index]
    return place.setdefault(step, value)


def entry(
    url: str,
    *,
    method: str = "GET",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, Any] | None = None,
    content: Mapping[str, Any] | None = None,
    cookies: Mapping[str, str] | None = None,
    as_json: bool = False,
    as_multipart: bool = False,
) -> Entry:
    """An entry of a HAR file."""
    request: Entry = {
        "url": url,
        "method": method,
        "headers": [{"name": name, "value": value} for name, value in (headers or NAVIGATION).items()],
    }
    if form:
        request["postData"] = {"mimeType": "application/x-www-form-urlencoded; charset=UTF-8", "text": urlencode(form)}
        if as_json:
            request["postData"] = {"mimeType": "application/json", "text": json.dumps(form)}
        if as_multipart:
            parts = "".join(
                f'--bnd\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{one}\r\n' for name, one in form.items()
            )
            request["postData"] = {"mimeType": "multipart/form-data; boundary=bnd", "text": f"{parts}--bnd--\r\n"}
    response: Entry = {"status": status, "redirectURL": "", "headers": []}
    if content:
        response["content"] = {"mimeType": "application/json", "text": json.dumps(content)}
    if cookies:
        response["cookies"] = [{"name": name, "value": quote(one)} for name, one in cookies.items()]
    return {"request": request, "response": response}


def make_runs(task: VerifiedTask, seed: int = 0) -> Iterator[CannedRun]:
    """Right ones, near misses, empty and strange ones, the same for the same seed."""
    rng = random.Random(f"{task.id} {seed}")
    first = next(check for check in task.checks if check["evaluator"] == "AgentResponseEvaluator")
    expected, schema = first["expected"], first.get("results_schema") or {}
    status, data = expected["status"], right_data(expected.get("retrieved_data"), schema)
    start = entry(task.filled(URLS)[0].rstrip("/") + "/")
    checks = [check for check in task.checks if check["evaluator"] == "NetworkEventEvaluator"]
    entries = (start, *(right_entry(check) for check in checks if not check.get("should_not_exist")))
    right = answer_text(task.kind, status, data)

    def run(name: str, **changes: Any) -> CannedRun:
        return CannedRun(**{"name": name, "answer": right, "entries": entries, **changes})

    yield run("right")
    yield from _answers(task, status, data, run, rng)
    if checks:
        yield from _traffic(checks, start, entries, run, rng)


def _answers(task: VerifiedTask, status: str, data: Any, run: Any, rng: random.Random) -> Iterator[CannedRun]:
    kind = task.kind
    whole = answer_text(kind, status, data)
    yield run("in a block", answer=f"Done.\n```json\n{whole}\n```\n")
    yield run("in words", answer=f"The answer is {data}")
    for strange in (
        None,
        "",
        "{}",
        "[]",
        "null",
        "7",
        '"x"',
        whole[:-1],
        f"[{whole}]",
        '{"status": 5, "task_type": "RETRIEVE"}',
    ):
        yield run("strange", answer=strange)
    yield run("lower case", answer=whole.lower())
    yield run("other kind", answer=answer_text("mutate" if kind != "mutate" else "navigate", status, data))
    for other in ("SUCCESS", "NOT_FOUND_ERROR", " success. ", "", "done"):
        yield run("other status", answer=answer_text(kind, other, data))
    given = json.loads(whole)
    given["performed_operation"] = given.pop("task_type")
    yield run("old name", answer=json.dumps(given))
    given = json.loads(whole)
    del given["retrieved_data"]
    yield run("no data", answer=json.dumps(given))
    for other in (None, [], [None], [""], "x", 0, False, {}, [[]], [{}], "N/A", ["N/A"]):
        yield run("other data", answer=answer_text(kind, status, other))
    if not data:
        return
    for other in (
        data[::-1],
        data[:-1],
        data[1:],
        [*data, data[0]],
        [*data, "x"],
        data[0],
        json.dumps(data),
        [data],
        data * 2,
    ):
        yield run("other list", answer=answer_text(kind, status, other))
    place = rng.randrange(len(data))
    for changed in _changed(data[place], rng):
        yield run("other value", answer=answer_text(kind, status, [*data[:place], changed, *data[place + 1 :]]))


def _changed(value: Any, rng: random.Random) -> Iterator[Any]:
    if isinstance(value, dict) and value:
        name = rng.choice(list(value))
        yield {key: one for key, one in value.items() if key != name}
        yield {**value, "more": 1}
        yield {key.upper(): one for key, one in value.items()}
        yield json.dumps(value)
        for one in restated(value[name], rng):
            yield {**value, name: one}
        return
    yield from restated(value, rng)


def _traffic(
    checks: Sequence[Mapping[str, Any]], start: Entry, entries: tuple[Entry, ...], run: Any, rng: random.Random
) -> Iterator[CannedRun]:
    yield run("nothing", entries=())
    yield run("start only", entries=(start,))
    yield run("backwards", entries=entries[::-1])
    yield run("twice", entries=(*entries, *entries[1:]))
    yield run("page behind", entries=(*entries, entry(f"{URLS['shopping']}/elsewhere")))
    yield run("image behind", entries=(*entries, entry(f"{URLS['shopping']}/a.png")))
    yield run("page of others", entries=(*entries, entry("http://example.test/?q=1")))
    yield run("failed behind", entries=(*entries, entry(entries[-1]["request"]["url"], status=500)))
    number = rng.randrange(len(checks))
    for changed in _spoilt(checks[number], rng):
        others = [
            right_entry(check) for check in checks if check is not checks[number] and not check.get("should_not_exist")
        ]
        yield run("spoilt", entries=(start, *others, changed))
        yield run("spoilt, then right", entries=(start, changed, *entries[1:]))
        yield run("right, then spoilt", entries=(*entries, changed))


def _spoilt(check: Mapping[str, Any], rng: random.Random) -> Iterator[Entry]:
    def fresh() -> Entry:
        return json.loads(json.dumps(right_entry(check)))  # type: ignore[no-any-return]

    whole = fresh()
    url = whole["request"]["url"]
    base, _, query = url.partition("?")
    yield whole
    strange = (
        *(f"{url}/", f"{base}/more", base, f"{base}/?{query}", f"{url}#part", f"{url}{'&' if query else '?'}more=1"),
        *(url.upper(), f"{url}&", base[:-1], base.replace("/", "//").replace(":////", "://"), f"{base}/x/../"),
        *(f"{base}%20", f"{base}?{query.replace('+', '%20')}"),
    )
    for other in strange:
        yield _with(fresh(), url=other)
    if query:
        pairs = query.split("&")
        place = rng.randrange(len(pairs))
        for pair in (
            "",
            f"{pairs[place]}x",
            f"{pairs[place].partition('=')[0]}=",
            pairs[place].upper(),
            f"{pairs[place]}&{pairs[place]}",
        ):
            yield _with(fresh(), url=f"{base}?{'&'.join([*pairs[:place], pair, *pairs[place + 1 :]]).strip('&')}")
        yield _with(fresh(), url=f"{base}?{'&'.join(reversed(pairs))}")
    for status in (200, 302, 404, 204, 201):
        one = fresh()
        one["response"]["status"] = status
        yield one
    for method in ("GET", "POST", "PUT", "get"):
        one = fresh()
        one["request"]["method"] = method
        yield one
    named = (
        ("accept", "text/html"),
        ("Referer", f"{URLS['map']}/x"),
        ("Cookie", "_osm_directions_engine=fossgis_osrm_foot"),
        ("REFERER", f"{URLS['shopping_admin']}/sales/order/?x=1"),
    )
    for headers in ([], *([{"name": name, "value": value}] for name, value in named)):
        one = fresh()
        one["request"]["headers"] = headers
        yield one
    one = fresh()
    one["response"].pop("cookies", None)
    one["response"].pop("content", None)
    yield one
    yield from _spoilt_forms(check, rng)


def _spoilt_forms(check: Mapping[str, Any], rng: random.Random) -> Iterator[Entry]:
    expected = check["expected"]
    wanted = expected.get("post_data") or {}
    if not wanted:
        return
    name = rng.choice(list(wanted))
    value = wanted[name]
    text = str(plain(value[0] if isinstance(value, list) else value))
    strange = (
        *(None, "", text.upper(), f"{text} ", f"{text}x", text[:-1], f'"{text}"', f"{text},7", "7", "$7.00", 7),
        *("# T\n\n* a", "[1]", "{}", f"<p>{text}</p>", "5, 4, 3", ["7", "8"]),
    )
    for other in strange:
        changed = {**check, "expected": {**expected, "post_data": {**wanted, name: other}}}
        yield right_entry(changed)
        yield right_entry(changed, as_json=True)
    yield right_entry({**check, "expected": {**expected, "post_data": {**wanted, "more": "1"}}})
    without = {key: one for key, one in wanted.items() if key != name}
    yield right_entry({**check, "expected": {**expected, "post_data": without}})
    form = {key: one for key, one in wanted.items() if isinstance(one, str | int) and not key.startswith("$")}
    if form:
        whole = right_entry(check)
        same = {"method": whole["request"]["method"], "status": whole["response"]["status"]}
        yield entry(whole["request"]["url"], form=form, as_multipart=True, **same)
        yield entry(whole["request"]["url"], form={**form, name: "other"}, as_multipart=True, **same)


def _with(one: Entry, *, url: str) -> Entry:
    one["request"]["url"] = url
    return one
