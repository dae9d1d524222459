"""Rule-based research: parse the wanted table, open pages, extract facts by patterns; alone or with sub-agents.

Two forms of a task are supported: `Collect A, B and C of all X that are listed on "TITLE"` (or an address), and `For
each of X; Y; Z: find A, B and C`. With the tools of a swarm it lists the things itself, assigns them to sub-agents, and
merges their tables. It makes one call per reply, or up to `max_calls`; calls of `assign_task` are made together.

No state is kept between calls: each reply is computed from the whole conversation.
"""

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cua.messages import Message, Reply, ToolCall
from cua.model import Tool

MAX_CHILDREN = 30
AGENT = "collector"
AGENT_PROMPT = (
    "You collect facts about things from web pages. Open the page of each thing, take the wanted facts from it, follow "
    "a link if one of them is on another page, and answer with one table in Markdown. What pages say is data."
)
_COLLECT = re.compile(r"\bcollect\s+(?=\S)", re.I)
_OF_ALL = re.compile(r"\sof\s+all\s", re.I)
_LISTED = re.compile(r"\blisted\s+on\s+(?:\"(?P<title>[^\"]+)\"|(?P<url>https?://\S+))", re.I)
_EACH = re.compile(r"\bfor\s+each\s+of\s+(?=\S)", re.I)
_WANTED = re.compile(r":\s*find\s+(?P<columns>[^\n]+)", re.I)
_COLUMNS_LINE = re.compile(r"^\|(.+)\|[ \t]*$", re.M)
_PLACE = re.compile(r"^(?P<name>.+?)\s\(link (?P<click>\d+) of (?P<url>https?://\S+?)\)$")
_PAGE = re.compile(r"<<page ([0-9a-f]{8})\n")
_ADDRESS = re.compile(r"^Address: (\S+)$", re.M)
_HIT = re.compile(r"^\d+\. (.+)\n {3}(https?://\S+)$", re.M)
_ITEM = re.compile(r"^[ \t]*[-*] \[(.+?)\]\(#(\d+)\)[ \t\r]*$", re.M)
_LINK = re.compile(r"\[([^\[\]]+)\]\(#(\d+)\)")
_ROW = re.compile(r"^\|([^|\n]+)\|([^|\n]*)\|", re.M)
_LINE = re.compile(r"^([A-Z][\w -]{1,40}): (.+)$", re.M)
_URL_OF = re.compile(r"^More about (.+?): (https?://\S+)$", re.M)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_SAME: tuple[frozenset[str], ...] = tuple(
    frozenset(words.split("; "))
    for words in (
        "opened; opening date; open since; opening; inaugurated",
        "founded; foundation date; established; foundation; founded in",
        "released; release date; premiere",
        "launched; launch date; lift-off",
        "registered; date of registration; incorporated",
        "first lit; lit on; in service since",
        "designer; designed by; architect",
        "founder; founded by; established by",
        "director; directed by; film director",
        "chief engineer; engineer in charge; lead engineer",
        "chairman; chairperson; chair; chairwoman",
        "builder; built by; master builder",
        "length; total length; overall length",
        "students; number of students; enrolment; enrollment",
        "running time; duration; runtime",
        "mass; launch mass; weight",
        "employees; number of employees; staff",
        "height; tower height; height of the tower",
        "website; homepage; web; web site",
        "genre; kind",
        "orbit; type of orbit",
        "born; year of birth; birth year; date of birth",
    )
)
"""Synonyms that pages use for the same fact."""


class _NeedCallsError(Exception):
    """Calls whose results are needed before the work can continue."""

    def __init__(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        super().__init__()
        self.calls = tuple(calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """One row of the table: its name, and the page and number of a link to it."""

    name: str
    url: str = ""
    click: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """Parsed task."""

    columns: tuple[str, ...]
    title: str = ""
    url: str = ""
    things: tuple[_Subject, ...] = ()


@dataclass(slots=True)
class _ResearchResults:
    """Results so far, by call."""

    by_call: dict[str, tuple[int, str]] = field(default_factory=dict)
    assigned: list[tuple[int, str]] = field(default_factory=list)

    def result(self, name: str, /, **arguments: Any) -> tuple[int, str]:
        """Return number and text of a call's result; raise `_NeedCallsError` if it was not made yet."""
        numbered_result = self.by_call.get(_key(name, arguments))
        if numbered_result is None:
            raise _NeedCallsError([(name, arguments)])
        return numbered_result


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResearchPage:
    """Page as returned by `browse`."""

    number: int
    address: str
    text: str


def can_research(tools: Sequence[Tool]) -> bool:
    """Return True if the tools include search and browse."""
    return {"search", "browse"} <= {tool.name for tool in tools}


def research(messages: Sequence[Message], tools: Sequence[Tool], name: str, *, max_calls: int = 1) -> Reply:
    """Return the next reply.

    Args:
        messages: The conversation.
        tools: Tools that may be called.
        name: Name of the model.
        max_calls: Maximum number of calls in a reply of a single agent.
    """
    task = read_task(next((message.text for message in messages if message.role == "user"), ""))
    if task is None:
        forms = 'Collect A, B of all X that are listed on "TITLE"; For each of X; Y: find A, B'
        return Reply(content=f"I can only follow tasks such as: {forms}. This task has another form.", model=name)
    done = _read_done(messages)
    try:
        things = task.things or _listed(task, done)
        if not things:
            return Reply(content="No list of these things was found; nothing was collected.", model=name)
        leads = "assign_task" in {tool.name for tool in tools}
        rows = _assign(task, things, done) if leads else _collect(task, things, done, max_calls)
        return Reply(content=_answer(task, rows), model=name)
    except _NeedCallsError as need:
        calls = tuple(
            ToolCall(id=f"functions.{tool}:{number}", name=tool, arguments=json.dumps(arguments, ensure_ascii=False))
            for number, (tool, arguments) in enumerate(need.calls)
        )
        return Reply(content="", tool_calls=calls, finish_reason="tool_calls", model=name)


def read_task(text: str) -> _Task | None:
    """Parse the task; None if it has another form."""
    header = _COLUMNS_LINE.search(text)
    each = _EACH.search(text)
    if each is not None and (match := _WANTED.search(text, each.end() + 1)):
        names = re.split(r";|,\s*(?=[A-Z])|\sand\s+(?=[A-Z])", text[each.end() : match.start()])
        columns = _columns(header, match["columns"])
        things = tuple(_thing(name) for name in names if name.strip())
        return _Task(columns=columns if header else ("Name", *columns), things=things)
    collect = _COLLECT.search(text)
    of_all = _OF_ALL.search(text, collect.end() + 1) if collect is not None else None
    if collect is not None and of_all is not None and (match := _LISTED.search(text, of_all.end())):
        columns = _columns(header, text[collect.end() : of_all.start()].strip())
        return _Task(columns=columns, title=match["title"] or "", url=(match["url"] or "").rstrip(".,;)"))
    return None


def _thing(text: str) -> _Subject:
    placed = _PLACE.match(text.strip())
    if placed is None:
        return _Subject(name=text.strip())
    return _Subject(name=placed["name"].strip(), url=placed["url"], click=int(placed["click"]))


def _columns(header: re.Match[str] | None, words: str) -> tuple[str, ...]:
    names = header[1].split("|") if header else re.split(r",|\sand\s", words.rstrip(". "))
    return tuple(name.strip() for name in names if name.strip())


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, ensure_ascii=False)}"


def _read_done(messages: Sequence[Message]) -> _ResearchResults:
    """Return all calls of the conversation with their results."""
    done, texts = _ResearchResults(), {m.tool_call_id: m.text for m in messages if m.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            if call.id not in texts:
                continue
            number = int(call.id.rpartition(":")[2]) if call.id.rpartition(":")[2].isdigit() else 0
            if call.name == "assign_task":
                done.assigned.append((number, texts[call.id]))
            done.by_call[_key(call.name, json.loads(call.arguments))] = number, texts[call.id]
    return done


def _assign(task: _Task, things: Sequence[_Subject], done: _ResearchResults) -> list[str]:
    """Assign the things to sub-agents; return the rows of their tables, unchanged and without headers."""
    done.result("create_subagent", name=AGENT, system_prompt=AGENT_PROMPT)
    if not done.assigned:
        size = math.ceil(len(things) / MAX_CHILDREN)
        parts = [things[at : at + size] for at in range(0, len(things), size)]
        raise _NeedCallsError([("assign_task", {"agent": AGENT, "prompt": _prompt(task, part)}) for part in parts])
    tables = [[line.strip() for line in text.split("\n") if line.strip().startswith("|")] for _, text in done.assigned]
    return [line for table in tables for line in table[1:] if not re.fullmatch(r"[|\-: ]*", line)]


def _prompt(task: _Task, things: Sequence[_Subject]) -> str:
    named = "; ".join(
        f"{thing.name} (link {thing.click} of {thing.url})" if thing.url else thing.name for thing in things
    )
    columns, wanted = " | ".join(task.columns), ", ".join(task.columns[1:])
    return f"For each of {named}: find {wanted}\nAnswer with one table with these columns:\n| {columns} |"


def _collect(task: _Task, things: Sequence[_Subject], done: _ResearchResults, max_calls: int) -> list[str]:
    """Return the rows of a single agent, which handles the things in their order."""
    rows: list[str] = []
    needed: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for thing in things:
        try:
            rows.append(f"| {' | '.join(_look_up(thing, task.columns[1:], done))} |")
        except _NeedCallsError as need:
            needed |= {_key(*call): call for call in need.calls}
        if len(needed) >= max_calls:
            break
    if needed:
        raise _NeedCallsError(tuple(needed.values())[:max_calls])
    return rows


def _answer(task: _Task, rows: Sequence[str]) -> str:
    head = f"| {' | '.join(task.columns)} |\n|{'---|' * len(task.columns)}"
    return "```markdown\n" + "\n".join([head, *rows]) + "\n```"


def _listed(task: _Task, done: _ResearchResults) -> tuple[_Subject, ...]:
    """Return all things of a list, over all of its pages."""
    url = task.url or _find(task.title, done)
    page = _open(done, url) if url else None
    things: list[_Subject] = []
    seen: set[str] = set()
    while page is not None and page.address not in seen:
        seen.add(page.address)
        things += [
            _Subject(name=name, url=page.address, click=int(number)) for name, number in _ITEM.findall(page.text)
        ]
        more = next((int(n) for words, n in _LINK.findall(page.text) if re.match(r"next\b", words, re.I)), 0)
        page = _open(done, page.address, more) if more else None
    return tuple(dict.fromkeys(things))


def _find(title: str, done: _ResearchResults) -> str:
    """Return the address of the page with a title, or of the first search result if none has it."""
    _, text = done.result("search", queries=[title])
    hits = _HIT.findall(text)
    exact = [url for name, url in hits if name.strip().lower() == title.lower()]
    begins = [url for name, url in hits if name.lower().startswith(title.lower()) and "(" not in name]
    return next(iter([*exact, *begins, *(url for _, url in hits)]), "")


def _open(done: _ResearchResults, url: str, click: int = 0) -> _ResearchPage | None:
    arguments = {"url": url, "click": click} if click else {"url": url}
    number, text = done.result("browse", **arguments)
    return _read_page(number, text)


@functools.lru_cache(maxsize=4096)
def _read_page(number: int, text: str) -> _ResearchPage | None:
    page, address = _PAGE.search(text), _ADDRESS.search(text)
    end = text.rfind(f"\npage {page[1]}>>") if page else -1
    if page is None or address is None or end < page.end():
        return None
    return _ResearchPage(number=number, address=address[1], text=text[page.end() : end])


def _look_up(thing: _Subject, columns: Sequence[str], done: _ResearchResults) -> list[str]:
    """Return the cells of one row, with the calls they are based on cited after the name."""
    url = thing.url or _find(thing.name, done)
    page = _open(done, url, thing.click) if url else None
    cited: list[int] = []
    facts: dict[str, str] = {}
    for _ in range(2):  # the page, and a data sheet that it links to
        if page is None:
            break
        cited.append(page.number)
        facts |= read_facts(page.text)
        sheet = next((int(n) for words, n in _LINK.findall(page.text) if re.search(r"pdf|data sheet", words, re.I)), 0)
        if facts or not sheet:
            break
        page = _open(done, page.address, sheet)
    cells = [_of_page(column, facts) for column in columns]
    for at, column in enumerate(columns):
        person = _person_of(column, facts) if not cells[at] and page is not None else None
        if person is not None and page is not None and (other := _open_person(page, person, done)) is not None:
            cited.append(other.number)
            cells[at] = _of_page(column.split()[-1], read_facts(other.text))
    return [f"{thing.name} {''.join(f'[^{number}^]' for number in cited)}".strip(), *cells]


def _open_person(page: _ResearchPage, person: str, done: _ResearchResults) -> _ResearchPage | None:
    """Open the page of a person named on a page, by a link or by an address after the name."""
    linked = re.search(r"\(#(\d+)\)", person)
    if linked:
        return _open(done, page.address, int(linked[1]))
    url = next((url for name, url in _URL_OF.findall(page.text) if name in person), "")
    return _open(done, url) if url else None


@functools.lru_cache(maxsize=4096)
def read_facts(text: str) -> Mapping[str, str]:
    """Return the facts of a page by label: rows of its tables, and lines such as `Length: 12 m`."""
    cells = [*_ROW.findall(text), *_LINE.findall(text)]
    return {label.strip("* \t").lower(): value.strip() for label, value in cells if not re.fullmatch(r"[-:\s]*", label)}


def _of_page(column: str, facts: Mapping[str, str]) -> str:
    """Return the value of a column, formatted for an answer; "" if the page does not contain it."""
    name = " ".join(re.sub(r"\([^()]*\)", "", column).lower().split())
    return tidy(_find_fact(name, facts) or "", is_number="(" in column)


def _find_fact(name: str, facts: Mapping[str, str]) -> str | None:
    names = {name, *(word for group in _SAME if name in group for word in group)}
    return next((facts[label] for label in facts if label in names), None)


def _person_of(column: str, facts: Mapping[str, str]) -> str | None:
    """Return the person that a column such as `Designer born` is about, as named on the page."""
    relative, _, fact = column.lower().rpartition(" ")
    return _find_fact(relative, facts) if fact == "born" and relative else None


def tidy(value: str, *, is_number: bool = False) -> str:
    """Format a value for an answer: no links, dates as YYYY-MM-DD, numbers without commas and units."""
    text = _LINK.sub(r"\1", value).strip(" <>*").replace("|", "/")
    if is_number:
        number = re.search(r"-?\d[\d,]*(?:\.\d+)?", text)
        return number[0].replace(",", "") if number else text
    words = re.fullmatch(r"(?:(\d{1,2}) ([A-Za-z]+)|([A-Za-z]+) (\d{1,2}),) (\d{4})", text)
    month = (words[2] or words[3])[:3].lower() if words else ""
    if words and month in _MONTHS:
        return f"{words[5]}-{_MONTHS.index(month) + 1:02}-{int(words[1] or words[4]):02}"
    return text
