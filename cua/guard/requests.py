"""Judges requests of pages by their effect: changes, data for another site, and the first page of a foreign site."""

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from cua.guard.guard import NO_ACT, Guard, GuardVerdict, StepCheck
from cua.guard.risk import Facts, is_text_field
from cua.guard.words import RiskKind, is_neutral, kind_of_handler, names_ordinary_change
from cua.step import Turn
from envs import Action, Hotkey, KeyDown, KeyUp, PageRequest, PressKey, Target, TypeText, Wait
from envs.domain_rules import DomainRules
from envs.hosts import is_public_name, site_of
from envs.page_request import READ_METHODS

_MAX_SHOWN_CHARS = 200  # of an address in a question or message
_MAX_OPERATION_CHARS = 80  # of an operation's name; the rest are its arguments
_MAX_NAME_CHARS = 60  # of a field's name; longer ones are not words
# Remembered texts that the agent typed, and the shortest one: shorter texts occur in any request by chance
_MAX_TYPED, _MIN_TYPED_CHARS = 100, 4
_MAX_NOES = 3
"""Refusals in one step after which further requests are refused without a question."""
_ACTION_KEYS = frozenset(
    "_method action op operation operationname method cmd command intent do task verb status state".split()
)
_HARMLESS_ENDPOINTS = frozenset(
    "search msearch query runquery read list filter autocomplete suggest suggestions typeahead lookup "
    "find login signin csrf heartbeat keepalive poll presence typing telemetry analytics metrics track "
    "tracking collect beacon stats preview validate render".split()
)
_SENSITIVE_PARTS = frozenset(
    "role roles permission permissions members access keys tokens webhooks forwarding password email 2fa mfa "
    "security".split()
)
_SENSITIVE_FIELDS = frozenset(
    "role roles permission permissions admin isadmin visibility password iban forward forwarding payout "
    "recovery".split()
)
_MAX_OBJECTS = 100  # of a batched request; bounds the time of the check
_PART = re.compile(r'; name="([^"\r\n]{1,60})"\r\n\r\n([^\r\n]{0,80})')
"""Short field of a multipart body."""
_QUERY = re.compile(r"(?:\s|#[^\n]*\n)*(?:query\b|\{)")
_DRAFT = re.compile(r"draft|autosave|\blocks?\b", re.I)
_CONTACT = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}|https?://[^\s\"'<>]{1,200}|\+\d[\d ()/-]{6,20}\d"
    r"|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}"
)
_VARIABLE = re.compile(r"[^/]*[\dA-Z%][^/]*|[^/]{25,}")
_OPENS_ROLES = frozenset({"link", "a", "tab", "treeitem", "summary"})
_HOST = re.compile(
    r"(?<![\w@.=?&/%-])(?P<scheme>https?://)?(?P<host>(?:[\w-]{1,63}\.){1,10}[^\W_]{1,24}|localhost)(?P<port>:\d{1,5})?(?![\w-])"
)
_MAX_INSTRUCTION_CHARS = 20_000  # bounds the time of the search for hosts in an instruction
_RECENT_S = 10.0
"""Seconds in which an earlier step can still have effects: most toasts with an undo button are visible that long."""
_AT_ONCE_S = 2.5  # a page sends what an input caused within this time; later requests are its own
_NO_TURN = Turn(thought="", action_text="(the page by itself)", code="")
_QUIET_KEYS = frozenset("tab shift ctrl up down left right home end pageup pagedown".split())
_QUIET_SHORTCUTS = (["ctrl", "s"], ["ctrl", "a"], ["ctrl", "c"], ["ctrl", "home"], ["ctrl", "end"], ["shift", "tab"])
_FILE_ENDINGS = frozenset("md py sh rs pl zip mov ps".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """Question to a person about a request.

    Attributes:
        verdict: Decision without a person.
        key: Requests with the same key share one answer; empty: the answer applies to this request only.
        is_kept: True if a refusal applies to the rest of the run, False if to the rest of the step.
    """

    verdict: GuardVerdict
    key: tuple[str, ...] = ()
    is_kept: bool = False


class RequestGuard:
    """Check of a run's requests: allows them, asks a person, or refuses; implements `envs.RequestCheck`.

    A plain GET is allowed, except for the first page of a foreign site in a tab. A person is asked about other changes,
    unless a person has approved the step that causes them, or the step names an expected change (Save, Search)
    on the site of the page. Requests that a document sends before its first input are the page's own traffic and are
    allowed, unless they name a risk or contain text that the agent has typed.

    Args:
        guard: Guard with mode, policy rules and approver.
        run: Awaits a person's answer while the run continues, `Control.unless_stopped`.

    Attributes:
        is_strict: True to ask about every change. Set after a page text was addressed to the agent.
    """

    def __init__(self, guard: Guard, run: Callable[[Awaitable[GuardVerdict]], Awaitable[GuardVerdict]]) -> None:
        self._guard = guard
        self._run = run
        self._rules = DomainRules(allowed=guard.allowed_domains)
        self._has_limit = "*" not in guard.allowed_domains
        self._lock = asyncio.Lock()
        self._forget()

    def _forget(self) -> None:
        self._steps: deque[StepCheck] = deque(maxlen=10)
        self._homes: set[str] = set()
        self._allowed: set[tuple[str, ...]] = set()
        self._refused: set[tuple[str, ...]] = set()
        self._refused_in_step: set[tuple[str, ...]] = set()
        self._instruction = ""
        self._contacts: set[str] = set()
        self._typed: deque[str] = deque(maxlen=_MAX_TYPED)
        self._num_noes = 0
        self._is_over = False
        self.is_strict = False

    def begin(self, url: str | None, instruction: str) -> None:
        """Begin a run: the sites of the task are the site of the start page and the sites that the user names.

        Args:
            url: Address of the start page; if it is blank, the first site that is opened belongs to the task.
            instruction: Instruction of the user.
        """
        self._forget()
        self._homes = {"file:"} if url and url.startswith("file:") else {site_of(url or "")} - {""}
        self.add_instruction(instruction)

    def add_instruction(self, instruction: str) -> None:
        """Add an instruction of the user: the sites and contacts in it belong to the task."""
        self._instruction += f"\n{instruction[:_MAX_INSTRUCTION_CHARS].casefold()}"
        self._homes |= set(_sites_in(instruction)) - {""}

    def begin_step(self, step: StepCheck) -> None:
        """Attribute requests to this step from now on, if it has an input."""
        if not all(isinstance(action, NO_ACT) for action in step.actions):
            self._steps.append(step)
            self._refused_in_step.clear()
            self._num_noes = 0
            texts = [action.text for action in step.actions if isinstance(action, TypeText)]
            self._typed += [text.strip().casefold() for text in texts if len(text.strip()) >= _MIN_TYPED_CHARS]
            typed = "\n".join(texts)
            self._contacts |= {
                text.casefold() for text in _CONTACT.findall(typed) if text.casefold() not in self._instruction
            }

    async def __call__(self, request: PageRequest) -> str | None:
        """Return the reason why a request is refused, or None to allow it; a person may be asked.

        Raises:
            StoppedError: If the run was stopped meanwhile.
            CapReachedError: If the time limit of the run was reached meanwhile.
        """
        if self._question(request) is None:
            return None
        async with self._lock:  # one question at a time; an earlier answer may also decide this one
            question = self._question(request)
            if question is None or question.key in self._allowed:
                return None
            is_refused = question.key in self._refused | self._refused_in_step
            if is_refused or self._is_over or self._num_noes >= _MAX_NOES:
                return f"refused before: {question.verdict.reason}"
            verdict = question.verdict
            if verdict.decision == "ask":
                verdict = await self._ask_person(verdict)
            if verdict.decision == "allow":
                self._allowed |= {question.key} - {()}
                if request.is_top:
                    self._homes.add(site_of(request.url))
                return None
            self._num_noes += 1
            (self._refused if question.is_kept else self._refused_in_step).update({question.key} - {()})
            return verdict.reason

    async def _ask_person(self, verdict: GuardVerdict) -> GuardVerdict:
        step = self._steps[-1] if self._steps else None
        turn, actions = (step.turn, step.actions) if step is not None else (_NO_TURN, ())
        try:
            return await self._run(self._guard.ask(verdict, turn, actions))
        except asyncio.CancelledError:  # this request is cancelled, and the run may continue
            raise
        except BaseException:  # the run has ended
            self._is_over = True
            raise

    def _question(self, request: PageRequest) -> _Question | None:
        site = site_of(request.url)
        if not site:
            return None
        if request.method in READ_METHODS:
            return self._of_navigation(request, site) if request.is_top else self._of_read(request, site)
        description = f"{request.method} {request.url[:_MAX_SHOWN_CHARS]}"
        decision, reason = self._guard.rules.decide_request(self._facts(request, description))
        if decision == "deny":
            return _Question(verdict=GuardVerdict(decision="deny", reason=f"{reason} ({description})"))
        if decision == "allow" or self._guard.mode == "yolo" or request.is_by_person:
            return None
        kind = _kind_of(request)
        is_own_traffic = request.is_from_new_document and request.kind != "document" and kind is None
        if is_own_traffic and not self._takes_along(request):
            return None
        step = self._steps[-1] if self._steps else None
        description += f"; caused by: {_cause_of(step)}" if step is not None else ""
        if not self._is_home(request.url, site) and site != site_of(request.page_url):
            text = f"data for another site, {description}"
            return _ask("send", text, ("data", site, _endpoint(request)), is_kept=True)
        if step is not None and step.is_approved and (kind is None or not step.kinds or kind in step.kinds):
            return None
        if _is_of_draft(request) and self._is_expected(request):
            return None
        if kind is not None or decision == "ask":
            return _ask(kind or "submit", description)
        if contact := self._contact_in(request):
            return _ask("send", f"{contact}, which the user has not named, in {description}")
        if _is_sensitive(request):
            return _ask("submit", f"a change of an account or of rights, {description}")
        if self.is_strict:
            return _ask("submit", f"a change on the server, {description}")
        if _is_harmless_endpoint(request) or self._is_expected(request):
            return None
        return _ask("submit", f"a change on the server, {description}", ("change", site, _endpoint(request)))

    def _contact_in(self, request: PageRequest) -> str | None:
        """Return a sent address, phone number or account number that the agent has typed but the user has not given."""
        if not self._contacts:
            return None
        sent = _sent_text(request)
        return next((contact for contact in self._contacts if contact in sent), None)

    def _takes_along(self, request: PageRequest) -> bool:
        """Return True if the request contains a text that the agent has typed."""
        sent = _sent_text(request)
        return any(text in sent for text in self._typed)

    def _of_navigation(self, request: PageRequest, site: str) -> _Question | None:
        if not self._has_limit or self._guard.mode == "yolo" or self._is_home(request.url, site):
            return None
        if not self._homes or request.is_by_person:  # nothing that could mislead the agent was seen yet
            self._homes.add(site)
            return None
        begun = ", ".join(sorted(self._homes))[:_MAX_SHOWN_CHARS]
        text = f"{request.url[:_MAX_SHOWN_CHARS]} is outside of the sites of the task ({begun})"
        return _ask("leave_domains", text, ("page", site), is_kept=True)

    def _of_read(self, request: PageRequest, site: str) -> _Question | None:
        """Return a question about data in another site's URL: text that the agent typed; in strict mode any data."""
        if request.is_by_person or self._is_home(request.url, site) or site == site_of(request.page_url):
            return None
        if self._guard.mode == "yolo" or not (self._takes_along(request) or self.is_strict):
            return None
        text = f"data for another site, {request.url[:_MAX_SHOWN_CHARS]}"
        return _ask("send", text, ("data", site, _endpoint(request)), is_kept=True)

    def _is_home(self, url: str, site: str) -> bool:
        return site in self._homes or (bool(self._rules.allowed) and self._rules.why_blocked(url) is None)

    def _is_expected(self, request: PageRequest) -> bool:
        """Return True if the last step names an expected change; later requests only if nothing but text was typed."""
        now = time.monotonic()
        recent = [step for step in self._steps if now - step.begun_s < _RECENT_S]
        is_at_once = request.kind == "document" or (bool(recent) and now - recent[-1].last_input_s < _AT_ONCE_S)
        if is_at_once:  # a form is submitted by the last input, even if its page takes long
            recent = recent[-1:]
        elif not all(is_text_field(target) for step in recent for _, _, targets in step.inputs for target in targets):
            return False
        return bool(recent) and all(_names_expected(step, request.method) for step in recent)

    def _facts(self, request: PageRequest, description: str) -> Facts:
        handlers = (request.body,) if request.body else ()
        target = Target(role="request", names=(description,), handlers=handlers, page_url=request.page_url)
        return Facts(action=Wait(duration_s=0), verb="request", target=target, claim="", url=request.page_url)


def _sites_in(instruction: str) -> Iterator[str]:
    """Yield sites that a text names, by a URL or by a host name that is not a file name."""
    for match in _HOST.finditer(instruction[:_MAX_INSTRUCTION_CHARS]):
        host, port = match["host"], match["port"] or ""
        is_certain = bool(match["scheme"] or port) or host.startswith("www.")
        last = host.rpartition(".")[2]
        if not is_certain and ((last[:1].isupper() and not host[:1].isupper()) or any(map(str.isdigit, host))):
            continue  # two sentences without a space between them, or a version number
        if is_certain or (is_public_name(host) and last.lower() not in _FILE_ENDINGS):
            yield site_of(f"http://{host}{port}")


def _ask(kind: RiskKind, text: str, key: tuple[str, ...] = (), *, is_kept: bool = False) -> _Question:
    verdict = GuardVerdict(decision="ask", reason=f"risky ({kind.replace('_', ' ')}): {text}", risk=kind)
    return _Question(verdict=verdict, key=key, is_kept=is_kept)


def _cause_of(step: StepCheck) -> str:
    """Return the last thing that a step activated, or the model's text."""
    texts = (target.text for _, _, targets in reversed(step.inputs) for target in targets)
    return next((text for text in texts if text), "") or step.turn.action_text or "the last step"


def _names_expected(step: StepCheck, method: str) -> bool:
    """Return True if every action of a step that has an input is known to do something ordinary."""
    numbers = {number for number, action in enumerate(step.actions) if not _is_quiet(action)}
    quiet = {
        number for number, action in enumerate(step.actions) if _is_quiet(action) and not isinstance(action, TypeText)
    }
    inputs = [(action, targets) for number, action, targets in step.inputs if number not in quiet]
    return numbers <= {number for number, _, _ in step.inputs} and all(
        _is_ordinary(action, target, method) for action, targets in inputs for target in targets
    )


def _is_quiet(action: Action) -> bool:
    """Return True if an action changes nothing on a server, or saves by the usual shortcut."""
    match action:
        case PressKey(key=key) | KeyDown(key=key) | KeyUp(key=key):
            return key.lower() in _QUIET_KEYS
        case Hotkey(keys=keys):
            return [key.lower() for key in keys] in _QUIET_SHORTCUTS
        case TypeText(text=text):
            return len(text) > 2 and text.isprintable()  # if it activates something, its targets are judged
    return isinstance(action, NO_ACT)


def _is_ordinary(action: Action, target: Target, method: str) -> bool:
    if target.is_field:
        is_enter = isinstance(action, PressKey | KeyDown | Hotkey) and "enter" in str(action).lower()
        is_enter |= isinstance(action, TypeText) and not action.text.isprintable()
        return is_text_field(target) and not is_enter
    leads_nowhere = (target.url or "").startswith("javascript:") or (target.url or "").endswith("#")
    if target.role in _OPENS_ROLES and not leads_nowhere:  # many apps open pages, or record the visit, by POST
        return method in ("POST", "PUT") and target.is_element and not is_neutral(target)
    return target.is_element and any(map(names_ordinary_change, target.names))


def _endpoint(request: PageRequest) -> str:
    """Return method, path without ids, and operation: the common part of similar requests."""
    path = _VARIABLE.sub("*", urlsplit(request.url).path)
    return " ".join([request.method, path, *sorted(value for _, value in _operations(request))])


def _is_of_draft(request: PageRequest) -> bool:
    """Return True if a request is about a draft or a lock, which editors create and remove automatically."""
    return _DRAFT.search(urlsplit(request.url).path) is not None


def _is_harmless_endpoint(request: PageRequest) -> bool:
    """Return True if the path names a search, a measurement or similar, or the body is a GraphQL query."""
    parts = urlsplit(request.url).path.lower().split("/")
    queries = [value for name, value in _fields(request) if name == "query" and isinstance(value, str)]
    is_query = bool(queries) and all(_QUERY.match(query) for query in queries)
    words = {word for part in parts[-2:] for word in re.split(r"[^a-z]+", part)}
    return is_query or bool(words & _HARMLESS_ENDPOINTS)


def _kind_of(request: PageRequest) -> RiskKind | None:
    """Return the risk that method, path and operations of a request name."""
    if request.method == "DELETE":
        return "delete"
    parts = urlsplit(request.url)
    if kind_of_handler(f"path {parts.path}?{parts.query}") == "delete":
        return "delete"
    *_, before, last = ["", *parts.path.rstrip("/").split("/")]
    segment = "" if before == "checkout" else before  # an order in preparation: /checkout/shipping-address
    texts = [f"path /{segment}/{last}", *(f"{name} {value}" for name, value in _operations(request))]
    return next((kind for text in texts if (kind := kind_of_handler(text))), None)


def _sent_text(request: PageRequest) -> str:
    query = urlsplit(request.url).query
    return f"{unquote_plus(query)}\n{unquote_plus(request.body)}\n{request.body}".casefold()


def _is_sensitive(request: PageRequest) -> bool:
    """Return True if path or fields of a request are about an account, permissions or keys."""
    parts = urlsplit(request.url).path.lower().split("/")
    names = {part for name, _ in _fields(request) for part in re.split(r"[^a-z]+", name[:_MAX_NAME_CHARS].lower())}
    return bool(_SENSITIVE_PARTS & set(parts) or _SENSITIVE_FIELDS & names)


def _fields(request: PageRequest) -> list[tuple[str, object]]:
    """Return the fields of query and body, of a form or a JSON object."""
    query, body = parse_qsl(urlsplit(request.url).query), _json_of(request.body)
    if body is not None:
        objects = body[:_MAX_OBJECTS] if isinstance(body, list) else [body]
        return [*query, *(field for entry in objects if isinstance(entry, dict) for field in entry.items())]
    parts = _PART.findall(request.body)
    return [*query, *(parts or parse_qsl(request.body))]


def _operations(request: PageRequest) -> Iterator[tuple[str, str]]:
    """Yield fields of query and body that name an operation: `_method=delete`, a GraphQL mutation."""
    for name, value in _fields(request):
        if not isinstance(value, str):
            continue
        if name.lower() in _ACTION_KEYS:
            yield name, value[:_MAX_OPERATION_CHARS]
        elif name == "query" and value.lstrip().startswith("mutation"):
            yield "mutation", value.lstrip()[:_MAX_OPERATION_CHARS]


def _json_of(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
