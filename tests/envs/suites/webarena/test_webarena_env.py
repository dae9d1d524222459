"""WebArena's env and suite in a real browser, on a stand-in for its sites."""

import asyncio
import contextlib
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from envs import EnvSpec, InstructionTask, TaskSpec, Terminate
from envs.browser.launch import find_browser
from envs.errors import EnvDiedError, EnvError, EnvSetupError
from envs.registry import load_suite, make_env
from envs.suites.webarena.env import WebArenaEnv
from envs.suites.webarena.page_checks import CallContext, MagentoClient, call_function
from envs.suites.webarena.scoring import ALL_FIXES, AS_PUBLISHED
from envs.suites.webarena.site_state import hold_sites, load_changes, reserve_sites, reset_site
from envs.suites.webarena.sites import Site, find_shared_hosts, make_sites, read_sites, with_resets
from envs.suites.webarena.task_config import TaskData, parse_config
from envs.suites.webarena.tasks import ScoringRule, WebArenaTask
from tests.envs.suites.webarena.stand_in import StandIn

Test = TypeVar("Test", bound=Callable[..., Any])


def in_browser(test: Test) -> Test:
    """A test in the browser that all tests of this module share."""
    has_one = pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
    marked: Test = pytest.mark.browser(has_one(pytest.mark.asyncio(loop_scope="module")(test)))
    return marked


@pytest.fixture(scope="module")
def site() -> Iterator[StandIn]:
    server = StandIn()
    yield server
    server.close()


@pytest.fixture(scope="module")
def sites_file(site: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sites") / "sites.toml"
    path.write_text(
        f'[reddit]\nurl = "{site.url}/"\n[shopping]\nurl = "{site.url.replace("127.0.0.1", "localhost")}"\n'
    )
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env(sites_file: Path) -> AsyncIterator[WebArenaEnv]:
    made = make_env(EnvSpec(name="webarena", options={"sites": str(sites_file)}))
    assert isinstance(made, WebArenaEnv)
    yield made
    await made.close()


def post_task(site: StandIn, *, others: Any = None, **changes: Any) -> WebArenaTask:
    """Task 600 of the file: post something in /f/consoles; here the page says what it wants."""
    raw = {
        "task_id": 600,
        "sites": ["reddit"],
        "start_url": f"{site.url}/f/pics/1 |AND| {site.url}/f/cars/2",
        "intent": "Open a post",
        "eval": {
            "eval_types": ["string_match", "url_match", "program_html"],
            "reference_answers": {"must_include": ["racing cars"]},
            "reference_url": f"{site.url}/f/cars",
            "program_html": [
                {
                    "url": "func:reddit_get_post_url('__last_url__')",
                    "locator": "document.querySelector('.submission__inner').outerText",
                    "required_contents": {"must_include": ["racing cars & more", "you are in"]},
                }
            ],
        },
        **changes,
    }
    return WebArenaTask(parse_config(raw), TaskSpec(id="webarena/600"), others)


@pytest.mark.long
@in_browser
async def test_an_episode_from_login_to_verdict(env: WebArenaEnv, site: StandIn) -> None:
    task = post_task(site)
    before = site.logins
    observation = await env.reset(task)
    assert site.logins == before + 1
    tabs = [(tab.url.removeprefix(site.url), tab.is_active) for tab in observation.tabs]
    assert tabs == [("/f/pics/1", True), ("/f/cars/2", False)]

    await env.step([Terminate(status="success", answer="It says Racing Cars")])
    assert (await task.evaluate(env)).score == 0.0  # the wrong page is open
    await env.goto(f"{site.url}/f/cars/2/a-title")
    num_pages = len(env.page.context.pages)
    assert (await task.evaluate(env)).score == 1.0
    assert (await task.evaluate(env)).score == 1.0
    assert len(env.page.context.pages) == num_pages and env.page.url == f"{site.url}/f/cars/2/a-title"
    assert "/f/cars/2/" in site.seen  # the post itself, opened beside
    await env.step([Terminate(status="success", answer="")])
    assert (await task.evaluate(env)).score == 0.0
    await task.teardown(env)


@pytest.mark.long
@in_browser
async def test_a_login_is_kept_and_made_anew_when_it_is_lost(env: WebArenaEnv, site: StandIn) -> None:
    task = post_task(site, start_url=f"{site.url}/f/pics/1")
    await env.reset(task)
    await task.teardown(env)
    known = site.logins
    await env.reset(task)
    await task.teardown(env)
    assert site.logins == known
    site.sessions.clear()
    await env.reset(task)
    await task.teardown(env)
    assert site.logins == known + 1
    assert "you are in" in await env.page.content()

    both = post_task(site, sites=["shopping", "reddit"], start_url=f"{site.url}/f/pics/1")
    await env.reset(both)
    await both.teardown(env)
    known = site.logins
    site.sessions.remove(f"s{known}")  # of the forum, which was the last one to be signed in to
    await env.reset(both)
    await both.teardown(env)
    assert site.logins == known + 1, "only the one that was lost is made anew"
    assert await env.site("shopping").is_signed_in(env.page) and await env.site("reddit").is_signed_in(env.page)


@pytest.mark.long
@in_browser
async def test_two_sites_on_one_host_are_told_and_logins_are_the_published_ones(site: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(f'[reddit]\nurl = "{site.url}"\n[shopping]\nurl = "{site.url}"\n')
    env = make_env(EnvSpec(name="webarena", options={"sites": str(file)}))
    assert isinstance(env, WebArenaEnv)
    raw = {
        "task_id": 671,
        "sites": ["shopping", "reddit"],
        "storage_state": "./.auth/reddit_state.json",
        "start_url": f"{site.url}/f/pics/1",
        "intent": "Post it",
        "eval": {"eval_types": ["url_match"], "reference_url": f"{site.url}/f/cars"},
    }
    told = "shopping and reddit are on one host and may sign each other out; give each a host name of its own"
    try:
        for parity, warnings, num_logins in ((True, [], 1), (False, [told], 2)):
            site.sessions.clear()
            before = site.logins
            task = WebArenaTask(parse_config(raw), TaskSpec(id="webarena/671"), parity=parity)
            await env.reset(task)
            await task.teardown(env)
            assert [one for one in task.warnings if "one host" in one] == warnings
            assert site.logins - before == num_logins
            await env.close()
            env = make_env(EnvSpec(name="webarena", options={"sites": str(file)}))
            assert isinstance(env, WebArenaEnv)
    finally:
        await env.close()


@pytest.mark.long
@in_browser
async def test_a_page_is_prepared_before_it_is_read(env: WebArenaEnv, site: StandIn) -> None:
    hidden = "<button onclick=\"this.outerHTML = '<p id=found>42 &amp; more</p>'\">Show</button>"
    site.pages["/f/hidden"] = hidden
    check = {
        "url": f"{site.url}/f/hidden",
        "locator": "document.querySelector('#found').outerText",
        "required_contents": {"exact_match": "42 & more"},
    }

    async def scored(*prep_actions: str) -> float:
        wanted = {"eval_types": ["program_html"], "program_html": [{**check, "prep_actions": list(prep_actions)}]}
        task = post_task(site, start_url=f"{site.url}/f/pics/1", eval=wanted)
        await env.reset(task)
        try:
            return (await task.evaluate(env)).score
        finally:
            await task.teardown(env)

    assert await scored("document.querySelector('button').click()") == 1.0
    assert await scored("document.querySelector('.nobody').click()") == 0.0, "what fails prepares nothing"


@in_browser
@pytest.mark.long
async def test_nothing_but_the_sites_is_reached(env: WebArenaEnv, site: StandIn) -> None:
    other = StandIn()
    try:
        task = post_task(site, start_url=f"{site.url}/f/pics/1")
        await env.reset(task)
        with pytest.raises(EnvSetupError, match="outside of the allowed domains"):
            await env.goto(other.url)
        assert not other.seen
        await task.teardown(env)
    finally:
        other.close()


@in_browser
@pytest.mark.long
async def test_a_refused_account_and_a_site_that_is_gone(site: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    gone = StandIn()
    gone.close()
    for url, password, told in (
        (site.url, "wrong", "refuses the account"),
        (gone.url, "test1234", "the login to"),
    ):
        file.write_text(f'[reddit]\nurl = "{url}"\npassword = "{password}"\n')
        refused = make_env(EnvSpec(name="webarena", options={"sites": str(file)}))
        task = post_task(site)
        try:
            with pytest.raises(EnvSetupError, match=told) as error:
                await refused.reset(task)
            assert password not in str(error.value)
        finally:
            await task.teardown(refused)  # type: ignore[arg-type]
            await refused.close()


@in_browser
@pytest.mark.long
async def test_the_score_by_other_rules_is_kept_beside(env: WebArenaEnv, site: StandIn) -> None:
    page = {"url": "last", "locator": "document.querySelector('.nobody')", "required_contents": {"exact_match": "None"}}
    config = {
        "eval_types": ["string_match", "program_html"],
        "reference_answers": {"must_include": ["6"]},
        "program_html": [page],
    }
    as_is = parse_config({"task_id": 1, "sites": [], "start_url": "x", "intent": "y", "eval": config})
    judged = {"eval_types": ["string_match"], "reference_answers": {"fuzzy_match": ["six"]}}
    asks = parse_config({"task_id": 1, "sites": [], "start_url": "x", "intent": "y", "eval": judged})
    others = {
        "upstream": ScoringRule(config=as_is, fixes=AS_PUBLISHED),
        "raw": ScoringRule(config=as_is, fixes=ALL_FIXES),
        "asks": ScoringRule(config=asks, fixes=ALL_FIXES),
    }
    task = post_task(site, others=others, start_url=f"{site.url}/f/cars/2", eval=config)
    await env.reset(task)
    await env.step([Terminate(status="success", answer="6 of them")])
    verdict = await task.evaluate(env)
    assert verdict.score == 0.0  # the page has no such place, and that is no text
    assert verdict.other_scores == {"upstream": 1.0, "raw": 0.0, "asks": 0.0}
    assert task.warnings[-1:] == [
        "no verdict by the rules asks, counted 0: "
        "task 1 is judged by a model, and none is named; name one by judge=MODEL"
    ]
    await task.teardown(env)


@pytest.mark.long
@in_browser
async def test_an_error_page_is_neither_a_verdict_nor_a_login(
    env: WebArenaEnv, site: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "broken", {})
    task = post_task(site)
    await env.reset(task)
    await env.goto(f"{site.url}/f/cars/2/a-title")
    await env.step([Terminate(status="success", answer="It says Racing Cars")])
    for status, told in ((502, "the site answers 502"), (429, "the site answers 429"), (401, "the site answers 401")):
        site.broken["/f/cars/2/"] = status
        with pytest.raises(EnvDiedError, match=f"cannot be opened for the verdict: {told}"):
            await task.evaluate(env)
    site.broken["/f/cars/2/"] = 404  # the agent may have removed it
    assert (await task.evaluate(env)).score == 0.0
    await task.teardown(env)
    site.broken["/notifications"] = 503
    with pytest.raises(EnvSetupError, match="answers 503 for /notifications") as broken:
        await env.reset(post_task(site))
    assert broken.value.retryable
    await env.reset(InstructionTask(instruction="Look."))
    site.broken["/notifications"] = 404
    assert not await env.site("reddit").is_signed_in(env.page)


def test_a_shop_that_tells_something_else_gives_no_verdict(site: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    place: Any = CallContext(page=type("P", (), {"url": "x"})(), shop=MagentoClient(url=site.url))
    for told in ('{"message": "down"}', '["a"]', '{"items": []}', '{"items": [{}]}', "<p>Down</p>"):
        monkeypatch.setattr(site, "pages", {"/rest/V1/orders": told, "/rest/V1/products/B/reviews": told})
        for call in ("shopping_get_latest_order_url()", "shopping_get_sku_latest_review_author('B')"):
            with pytest.raises(EnvDiedError, match=r"returned no|does not answer"):
                asyncio.run(call_function(call, place))


def test_what_the_shop_tells(site: StandIn) -> None:
    shop = MagentoClient(url=site.url)
    place: Any = CallContext(page=type("P", (), {"url": "x"})(), shop=shop)

    def told(text: str) -> str:
        return asyncio.run(call_function(text, place))

    assert told("shopping_get_latest_order_url()") == f"{site.url}/sales/order/view/order_id/190/"
    assert told("shopping_get_sku_latest_review_author('B 1/2')") == "Ann"
    assert told("shopping_get_sku_latest_review_rating('B')") == "80"
    site.reviews.clear()
    assert told("shopping_get_sku_latest_review_author('B')") == ""
    assert told("shopping_get_sku_latest_review_rating('B')") == ""
    assert "/rest/V1/products/B%201%2F2/reviews" in site.seen
    with pytest.raises(EnvSetupError, match="does not take these arguments"):
        told("shopping_get_latest_order_url('x')")
    wrong: Any = CallContext(page=place.page, shop=MagentoClient(url=site.url, password="secret"))
    with pytest.raises(EnvDiedError, match="does not answer") as error:
        asyncio.run(call_function("shopping_get_latest_order_url()", wrong))
    assert "secret" not in str(error.value) and "secret" not in repr(wrong.shop)
    with pytest.raises(EnvSetupError, match="the site shopping is not configured"):
        asyncio.run(call_function("shopping_get_latest_order_url()", CallContext(page=place.page)))


def test_tasks_of_sites_that_are_not_there_are_left_out(sites_file: Path) -> None:
    suite = load_suite("webarena", sites=str(sites_file))
    assert len(suite.task_ids) == 187 + 106 + 5 and (
        suite.left_out == "514 tasks, which need gitlab, map, shopping_admin, wikipedia"
    )
    assert (suite.max_steps, suite.revision) == (30, "7b50386fd691-corrections-1")
    only = load_suite("webarena", sites=str(sites_file), only="reddit", parity="upstream")
    assert len(only.task_ids) == 106 and only.revision.endswith("-parity")
    spec = only.make_task("webarena/600", None).spec  # type: ignore[union-attr]
    assert (spec.metadata["family"], spec.metadata["template"]) == ("reddit", 3765)
    assert spec.metadata["labels"] == {"template": "3765", "evaluation": "url_match+program_html"}
    assert len(load_suite("webarena", sites=str(sites_file), split="hard").task_ids) < 258
    reset = load_suite("webarena", sites=str(sites_file), reset_command="true")
    once = [[made.make_task(f"webarena/{id}", None).no_retry_reason for id in (600, 26)] for made in (suite, reset)]
    assert once == [["it changes reddit, which no reset command puts back", ""], ["", ""]]
    for options, told in (
        ({}, "sites is missing"),
        ({"sites": str(sites_file), "split": "soft"}, "expected one of all, hard"),
        ({"sites": str(sites_file), "parity": "x"}, "expected 'upstream' or nothing"),
        ({"sites": str(sites_file), "only": "map"}, "no task is left: they need other sites than"),
        ({"sites": str(sites_file.with_name("none.toml"))}, "the sites cannot be read"),
    ):
        with pytest.raises(EnvError, match=told):
            load_suite("webarena", **options)


def test_a_site_that_is_gone_and_no_judge_are_known_beforehand(site: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    gone = "http://127.0.0.1:9"
    file.write_text(f'[shopping]\nurl = "{site.url}"\n[reddit]\nurl = "{gone}"\n')
    suite = load_suite("webarena", sites=str(file))
    found = suite.find_unavailable(suite.task_ids)
    counts = Counter(found.values())
    silent = f"needs a site that does not work: reddit at {gone} does not answer (ConnectError)"
    judge = "needs a model as the judge of answers in words; name one by judge and judge_url in the file of sites"
    assert counts.keys() == {silent, judge} and counts[silent] == 106 + 5
    file.write_text(f'judge = "j"\njudge_url = "{site.url}/v1"\n{file.read_text()}')
    judged = load_suite("webarena", sites=str(file))
    assert set(judged.find_unavailable(judged.task_ids).values()) == {silent}
    shop = [id for id in judged.task_ids if not found.get(id, "").startswith("needs a site")]
    assert judged.find_unavailable(shop) == {}
    verified = load_suite("webarena-verified", sites=str(file))
    assert set(verified.find_unavailable(verified.task_ids).values()) == {silent}
    with pytest.raises(EnvSetupError, match=r"reddit at http://127.0.0.1:9 does not answer"):
        judged.find_unavailable([id for id in judged.task_ids if id not in shop and found[id] == silent][:1])


def test_a_damaged_config_is_an_error_of_its_task_alone(sites_file: Path, tmp_path: Path) -> None:
    good = {"task_id": 0, "sites": ["shopping"], "start_url": "__SHOPPING__", "intent": "Look."}
    evaluation = {"eval_types": ["string_match"], "reference_answers": {"exact_match": "a"}}
    data = [
        good | {"eval": evaluation},
        good | {"task_id": 1},
        good | {"task_id": 2, "eval": evaluation | {"reference_answers": {}}},
        good | {"task_id": 3, "eval": evaluation | {"eval_types": ["program_html"], "program_html": []}},
        good | {"task_id": 4, "eval": evaluation | {"eval_types": ["url_match"], "reference_url": "a |OR| "}},
    ]
    (tmp_path / "tasks.json").write_text(json.dumps(data))
    suite = load_suite("webarena", sites=str(sites_file), data=str(tmp_path / "tasks.json"), parity=True)
    assert suite.task_ids == tuple(f"webarena/{number}" for number in range(5))
    assert suite.make_task("webarena/0", None).instruction == "Look."
    wrong = ("eval is missing", "any answer would be right", "any page would be right", "every address would match")
    for number, told in enumerate(wrong, 1):
        with pytest.raises(EnvSetupError, match=told):
            suite.make_task(f"webarena/{number}", None)
    assert suite.find_unavailable(suite.task_ids) == {}


@pytest.mark.long
def test_corrections_are_laid_over_unless_the_run_is_as_published(sites_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text('[shopping_admin]\nurl = "http://shop.test/admin"\n[shopping]\nurl = "http://shop.test"\n')

    def includes(**options: Any) -> tuple[str, ...]:
        task = load_suite("webarena", sites=str(file), **options).make_task("webarena/43", None)
        assert isinstance(task, WebArenaTask)
        return task.config.answers.includes

    assert includes()[-1] == "nike"
    assert includes(corrected=False) == includes(parity=True) == TaskData().task(43).answers.includes


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[shopping", "cannot be read"),
        ("", "names no site"),
        ('[shoping]\nurl = "http://x"', "'shoping' is not a site.*shopping"),
        ('shopping = "http://x"', "'shopping' is not a site"),
        (
            '[shopping]\naddress = "http://x"',
            r"\[shopping\] has 'address'; expected password, reset, reset_timeout, url, user",
        ),
        ('[shopping]\nurl = "http://x"\nreset_timeout = -1', "reset_timeout a number of seconds"),
        ('[shopping]\nurl = "http://x"\nreset = 7', "reset is a command"),
        ('[shopping]\nuser = "x"', "the address of shopping is ''"),
        ('[shopping]\nurl = "http://x"\npassword = 7', "user and password are texts"),
        ('judge = 7\n[shopping]\nurl = "http://x"', "judge, judge_url, user and password are texts"),
    ],
)
def test_a_file_of_sites_that_is_none(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "sites.toml").write_text(content)
    with pytest.raises(EnvSetupError, match=told):
        read_sites(tmp_path / "sites.toml")


def test_sites_on_one_host_are_told(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    path.write_text(
        'judge = "m"\n[shopping]\nurl = "http://h:7770/"\n[reddit]\nurl = "http://h:9999"\n[map]\nurl = "http://h:3000"\n'
    )
    file = read_sites(path)
    assert find_shared_hosts(file.sites.values()) == (("shopping", "reddit"),) and file.judge == "m"
    assert file.sites["shopping"] == Site(
        name="shopping", url="http://h:7770", user="emma.lopez@gmail.com", password="Password.123"
    )
    assert "Password" not in repr(file) and file.sites["map"].domain == "h:3000"


def _hold(url: str, alone: bool, ready: Any, leave: Any) -> None:
    async def run() -> None:
        async with hold_sites(make_sites({"reddit": url}).values(), alone=alone, timeout_s=5):
            ready.set()
            await asyncio.to_thread(leave.wait)

    asyncio.run(run())


@pytest.mark.parametrize(("theirs", "ours", "waits"), [(True, False, True), (False, True, True), (False, False, False)])
def test_who_changes_a_site_has_it_alone_across_processes(
    tmp_path: Path, theirs: bool, ours: bool, waits: bool
) -> None:
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    url = f"http://{tmp_path.name}.test"
    other = context.Process(target=_hold, args=(url, theirs, ready, leave))
    other.start()
    assert ready.wait(60)

    async def take(timeout_s: float) -> None:
        async with hold_sites(make_sites({"reddit": url}).values(), alone=ours, timeout_s=timeout_s):
            pass

    if waits:
        with pytest.raises(EnvSetupError, match="another task kept reddit"):
            asyncio.run(take(0.2))
    leave.set()
    asyncio.run(take(60))
    other.join()
    assert other.exitcode == 0


def test_sites_are_let_go_when_the_wait_for_another_one_fails(tmp_path: Path) -> None:
    both = make_sites({"reddit": f"http://a-{tmp_path.name}.test", "gitlab": f"http://b-{tmp_path.name}.test"})

    async def run() -> None:
        async with hold_sites([both["gitlab"]], alone=True, timeout_s=1):
            with pytest.raises(EnvSetupError, match="another task kept gitlab"):
                async with hold_sites(both.values(), alone=True, timeout_s=0.2):
                    pass
            async with hold_sites([both["reddit"]], alone=True, timeout_s=1):
                pass

    asyncio.run(run())


def resettable(site: StandIn, command: str, timeout_s: float = 30) -> Site:
    return Site(name="reddit", url=site.url, reset=command, reset_timeout_s=timeout_s)


async def taken(site: Site, id: str, *, alone: bool = False) -> tuple[list[str], int]:
    """What was found: warnings, and how many tasks changed it before."""
    async with reserve_sites([site], task_id=id, alone=alone, timeout_s=5) as found:
        return list(found.warnings), found.changes_before[site.name]


async def test_a_site_that_was_changed_is_put_back_before_the_next_task(site: StandIn, tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = resettable(site, f"echo $K25_SITE $K25_SITE_URL >> {log}; echo done")
    await reset_site(one)
    log.unlink()
    assert await taken(one, "a", alone=True) == ([], 0) and load_changes(one) == ("a",)
    assert not log.exists()
    async with reserve_sites([one], task_id="b", alone=False, timeout_s=5) as found:
        assert (found.warnings, found.changes_before) == ((), {"reddit": 0}) and load_changes(one) == ()
    assert log.read_text() == f"reddit {site.url}\n"
    await taken(one, "c")
    assert log.read_text().count("\n") == 1, "nothing changed it"
    without = Site(name="reddit", url=site.url)
    await taken(without, "d", alone=True)
    told = "reddit was not put back since 1 task changed it, last d"
    assert await taken(without, "e", alone=True) == ([told], 1)
    assert load_changes(one) == ("d", "e")
    await reset_site(one)


@pytest.mark.parametrize(
    ("command", "timeout_s", "told"),
    [
        ("echo broken >&2; exit 3", 30, "the reset command of reddit ended with 3: broken"),
        ("echo $$ > PID; sleep 1000 & echo $! >> PID; wait", 1, "reddit was not put back within 1 s"),
    ],
)
async def test_a_reset_that_fails_is_no_fault_of_the_agent(
    site: StandIn, tmp_path: Path, command: str, timeout_s: float, told: str
) -> None:
    pids = tmp_path / "pids"
    one = resettable(site, command.replace("PID", str(pids)), timeout_s)
    await taken(Site(name="reddit", url=site.url), "a", alone=True)
    with pytest.raises(EnvSetupError, match=told) as error:
        await taken(one, "b")
    assert error.value.retryable
    assert load_changes(one) == ("a",), "it is tried again before the next task"
    for pid in pids.read_text().split() if pids.exists() else ():
        await asyncio.to_thread(wait_for_end, int(pid))
    await reset_site(resettable(site, "true"))


def wait_for_end(pid: int) -> None:
    """A killed process is gone, or a zombie that nobody waits for."""
    status = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while status.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)


async def test_a_site_that_does_not_come_back_is_told() -> None:
    gone = StandIn()
    gone.close()
    with pytest.raises(EnvSetupError, match=r"was not put back within 0\.5 s"):
        await reset_site(resettable(gone, "true", 0.5))


@pytest.mark.long
async def test_a_site_is_back_when_it_answers_itself(site: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for status in (404, 403, 500, 302):
        monkeypatch.setattr(site, "broken", {"": status, "/": status})
        with pytest.raises(EnvSetupError, match="was not put back within"):
            await reset_site(resettable(site, "true", 0.4))
    monkeypatch.setattr(site, "broken", {"": 401, "/": 401})
    await reset_site(resettable(site, "true", 10.0))
    here = make_sites({"shopping": site.url})["shopping"]
    assert here.is_up(302, "/login") and here.is_up(302, f"{site.url}/a")
    assert not here.is_up(302, "//login.test/") and not here.is_up(101)


@pytest.mark.long
def test_reset_commands_by_site(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    path.write_text('[shopping]\nurl = "http://a"\nreset = "own"\nreset_timeout = 5\n[reddit]\nurl = "http://b"\n')
    file = read_sites(path)
    assert (file.sites["shopping"].reset, file.sites["shopping"].reset_timeout_s) == ("own", 5.0)

    def commands(text: str) -> list[str]:
        return [site.reset for site in with_resets(file, text).sites.values()]

    assert commands("") == ["own", ""]
    assert commands("reddit=docker restart x=1\nshopping=y") == ["y", "docker restart x=1"]
    assert commands("A=1 ./all.sh") == ["own", "A=1 ./all.sh"]
    for wrong in ("map=x", "reddit="):
        with pytest.raises(EnvSetupError, match="the sites are shopping, reddit"):
            commands(wrong)
