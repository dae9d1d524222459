"""Children in actors of a Ray cluster that loses a node, and the protocol to them without Ray."""

import asyncio
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cua.errors import ConfigError, ModelAccessError, ModelError, TruncatedReplyError
from cua.messages import Reply, TextPart, ToolResult
from cua.model import Tool
from cua.run.budget import CapReachedError, Caps
from cua.run.control import Control
from cua.run.events import Watch
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm import executor as module
from cua.swarm.budget import SwarmLimits
from cua.swarm.files import FileChunk, FolderReceiver
from cua.swarm.remote import ChildHost, pack_error, unpack_error
from cua.swarm.session import SwarmResult
from cua.swarm.swarm import Swarm
from cua.trajectory import load_run
from envs import EnvDiedError, EnvSetupError
from envs.browser.launch import find_browser
from tests.cua.swarm.test_children import CLICK, DONE, PAGE, Shout, conversations, make_worker
from tests.cua.swarm.test_faults import states_of
from tests.cua.swarm.test_kinds import COST, NESTED
from tests.cua.swarm.test_swarm import Cast, Note, call, calls, play
from tests.cua.swarm.test_user_orders import Ordered, cancel, cut_after, orders_in, tell
from tests.fake_openai import FakeOpenAI, ok, status
from tests.ray_cluster import lose_node, ray_cluster


def make_note(place: Any) -> Note:
    return Note()


class Write(Tool):
    """Adds a line to `log.txt` of its agent's folder."""

    name = "note"
    description = "Note."
    parameters = Note.parameters

    def __init__(self, place: Any) -> None:
        self._folder = place.kernel.folder

    async def call(self, arguments: Any) -> ToolResult:
        with (self._folder / "log.txt").open("a") as file:
            file.write(f"{arguments['text']}\n")
        return ToolResult(parts=(TextPart(text=(self._folder / "log.txt").read_text()),))


RAY = SwarmOptions(executor="ray", tools=(make_note,))


class PickledChannel:
    """A host of this process, to which only what can be pickled goes; dies after so many calls.

    Attributes:
        sent: Verbs and messages in both directions, of all hosts of a test.
    """

    sent: ClassVar[list[tuple[str, bytes]]] = []

    def __init__(self, host: ChildHost, num_calls: float = float("inf")) -> None:
        self._host, self.num_left = host, num_calls

    async def call(self, verb: str, *values: Any) -> Any:
        self.num_left -= 1
        if self.num_left < 0:
            raise EnvDiedError("its node is gone")
        sent = pickle.dumps(values)
        self.sent.append((verb, sent))
        found = pickle.dumps(await self._host.call(verb, *pickle.loads(sent)))
        self.sent.append((f"answer to {verb}", found))
        return pickle.loads(found)

    async def close(self) -> None:
        await self._host.call("close")


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Hosts are of this process; how many calls each lives, the first ones first."""
    lives: list[float] = []

    async def open_actor(open_server: Any, options: Any) -> PickledChannel:
        host, _ = open_server(pickle.loads(pickle.dumps(options)))
        return PickledChannel(host, lives.pop(0) if lives else float("inf"))

    monkeypatch.setattr(PickledChannel, "sent", [])
    monkeypatch.setattr(module, "open_actor", open_actor)
    monkeypatch.setattr(module, "connect_ray", lambda address: None)
    monkeypatch.setattr(module, "count_free_cpus", lambda: 0)
    return lives


async def test_far_children_come_to_the_same_as_near_ones(tmp_path: Path, hosts: list[float]) -> None:
    items = ["a 3", "b 5", "c 1"]
    near = await play(tmp_path / "near", Cast(items), replace(RAY, executor="local"))
    far = await play(tmp_path / "far", Cast(items), RAY)
    told = [
        [(one.state, one.answer, one.num_steps, one.num_calls, one.usage) for one in done.children]
        for done in (near, far)
    ]
    assert told[0] == told[1]
    assert near.run.usage == far.run.usage
    assert near.metrics.critical_steps == far.metrics.critical_steps
    records = [load_run(str(done.run.run_dir)) for done in (near, far)]
    steps = [
        [
            [(step.index, step.reply.tool_calls, [o.result for o in step.outcomes]) for step in one.tool_steps]
            for one in record.agents.values()
        ]
        for record in records
    ]
    assert steps[0] == steps[1]


async def test_limits_are_the_parents(tmp_path: Path, hosts: list[float]) -> None:
    limits = SwarmLimits(run=Caps(max_steps=None, max_calls=20))
    done = await play(tmp_path, Cast(["a 50", "b 50"]), replace(RAY, limits=limits))
    assert {child.state for child in done.children} == {"capped"}
    assert (done.run.end.cap, done.metrics.num_calls) == ("calls", 20)


@pytest.mark.parametrize("line", [None, b'"redirects"'])
async def test_an_order_of_the_user_reaches_a_far_child(tmp_path: Path, hosts: list[float], line: bytes | None) -> None:
    """At once, and after a resume if the journal ends before the child has taken it."""
    model = Ordered(Cast(["a 4", "b 9"]), {("a 4", 2): tell("t001", "only cheap ones"), ("b 9", 4): cancel("t002", 60)})
    done = await model.play(tmp_path / "runs", RAY)
    if line is not None:
        model = Ordered(Cast(["a 4", "b 9"]), {("b 9", 4): cancel("t002", 60)})
        model.swarms.clear()
        cut = cut_after(done, tmp_path / "cut", line.decode())
        done = await resume_swarm(cut, model=model, options=RAY, on_swarm=model.swarms.append)
    assert [child.state for child in done.children] == ["finished", "cancelled"]
    seen = [orders_in(messages) for messages in model.received if messages[1].text == "a 4"]
    assert seen[-3:] == [["only cheap ones"]] * 3


async def test_a_refused_key_stops_all_far_children(tmp_path: Path, hosts: list[float]) -> None:
    model = Cast(["a 2", "b 500"], faults={"a 2": [ModelAccessError("the key is not accepted")]})
    done = await play(tmp_path, model, RAY)
    assert (done.run.end.status, done.run.end.source) == ("error", "model")
    assert {child.state for child in done.children} == {"suspended"}
    assert all("the key is not accepted" in child.reason for child in done.children)


@pytest.mark.parametrize("num_calls", range(5, 22, 4))
async def test_a_child_goes_on_with_its_files_when_its_host_is_lost(
    tmp_path: Path, hosts: list[float], num_calls: int
) -> None:
    hosts.append(num_calls)
    model = Cast(["a 12"])
    done = await play(tmp_path, model, replace(RAY, tools=(Write,)))
    (child,) = done.children
    assert (child.state, child.num_tries, child.answer) == ("finished", 2, "done a 12"), child.reason
    assert child.num_calls == 11
    assert len(model.asked_by("a 12")) in (12, 13)  # a reply that was on its way is asked for again
    log = (Path(str(done.run.run_dir)) / "children" / "t001" / "files" / "log.txt").read_text().splitlines()
    assert log == sorted(set(log), key=int)  # nothing ran twice
    assert len(log) >= 10  # what the last step on that host wrote is lost with it


async def test_a_far_swarm_that_was_killed_goes_on_far_away(tmp_path: Path, hosts: list[float]) -> None:
    """From after any line: what had finished is not asked again, and the parent is shown the same."""
    whole = Cast(["a 2", "b 4"])
    done = await play(tmp_path / "whole", whole, RAY)
    lines = (Path(str(done.run.run_dir)) / "trajectory.jsonl").read_bytes().splitlines(keepends=True)
    begun = next(number for number, line in enumerate(lines) if b"t001 queued" in line)
    for cut in range(begun, len(lines) - 6, 4):
        part = tmp_path / f"cut-{cut}"
        part.mkdir()
        (part / "trajectory.jsonl").write_bytes(b"".join(lines[:cut]))
        model = Cast(["a 2", "b 4"])
        again = await resume_swarm(part, model=model, options=RAY)
        assert [(child.state, child.answer) for child in again.children] == [
            (child.state, child.answer) for child in done.children
        ], cut
        finished = [
            prompt for task, prompt in (("t001", "a 2"), ("t002", "b 4")) if f"{task} finished" in str(lines[:cut])
        ]
        assert not [prompt for prompt in finished if model.asked_by(prompt)], cut
        assert model.asked_by("all")[-1] == whole.asked_by("all")[-1], cut


async def test_an_actor_that_dies_while_it_starts_uses_up_no_try(
    tmp_path: Path, hosts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of all is started again; one beside others is done without."""
    opened: list[bool] = []
    open_actor = module.open_actor

    async def dying(open_server: Any, options: Any) -> Any:
        opened.append(len(opened) % 2 == 1)
        if not opened[-1]:
            raise EnvDiedError("its node is gone")
        return await open_actor(open_server, options)

    monkeypatch.setattr(module, "open_actor", dying)
    monkeypatch.setattr(module, "count_free_cpus", lambda: 9)
    done = await play(tmp_path, Cast(["a 2", "b 2", "c 2"]), RAY)
    assert [(child.state, child.num_tries) for child in done.children] == [("finished", 1)] * 3
    assert opened[:3] == [False, True, False]


async def test_children_wait_together_for_a_cluster_without_a_free_cpu(
    tmp_path: Path, hosts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    num_opened = 0

    async def full(open_server: Any, options: Any) -> Any:
        nonlocal num_opened
        num_opened += 1
        await asyncio.sleep(0.2)
        raise EnvSetupError("no node of the Ray cluster had a free CPU", retryable=True)

    monkeypatch.setattr(module, "open_actor", full)
    options = replace(RAY, limits=replace(RAY.limits, num_retries=0))
    done = await play(tmp_path, Cast(["a 1", "b 1", "c 1", "d 1"]), options)
    assert num_opened == 1
    assert all("had a free CPU" in child.reason for child in done.children), states_of(done)


async def test_one_request_says_how_many_actors_fit(
    tmp_path: Path, hosts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    num_requests = num_opened = 0
    open_actor = module.open_actor

    def count() -> int:
        nonlocal num_requests
        num_requests += 1
        return 3

    async def counted(open_server: Any, options: Any) -> Any:
        nonlocal num_opened
        num_opened += 1
        return await open_actor(open_server, options)

    monkeypatch.setattr(module, "open_actor", counted)
    monkeypatch.setattr(module, "count_free_cpus", count)
    monkeypatch.setattr(module, "FULL_S", 60.0)  # longer than the test
    done = await play(tmp_path, Cast([f"{letter} 2" for letter in "abcdefgh"]), RAY)
    assert [child.state for child in done.children] == ["finished"] * 8
    assert (num_requests, num_opened) == (1, 3)


async def test_a_child_is_cancelled_at_once_while_an_actor_starts(
    tmp_path: Path, hosts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one gets this actor."""
    open_actor, swarms, num_opened, seconds = module.open_actor, list[Swarm](), 0, list[float]()

    async def slow(open_server: Any, options: Any) -> Any:
        nonlocal num_opened
        num_opened += 1
        began = time.monotonic()
        await swarms[0].cancel("t001")
        while swarms[0].children[0].state != "cancelled":
            await asyncio.sleep(0.01)
        seconds.append(time.monotonic() - began)
        return await open_actor(open_server, options)

    monkeypatch.setattr(module, "open_actor", slow)
    async with asyncio.timeout(30):
        done = await play(tmp_path, Cast(["a 2", "b 2"]), RAY, on_swarm=swarms.append)
    assert [child.state for child in done.children] == ["cancelled", "finished"]
    assert num_opened == 1
    assert seconds[0] < 1.0


async def test_children_are_suspended_while_all_actors_are_gone_and_go_on_after_a_resume(
    tmp_path: Path, hosts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only actor is lost, and the cluster has no other one for a while, or for good."""
    open_actor, is_back, num_opened = module.open_actor, False, 0

    async def gone(open_server: Any, options: Any) -> Any:
        nonlocal num_opened
        num_opened += 1
        if num_opened > 1 and not is_back:
            await asyncio.sleep(0.5)
            raise EnvSetupError("no node of the Ray cluster had a free CPU", retryable=True)
        return await open_actor(open_server, options)

    hosts.append(7)
    monkeypatch.setattr(module, "open_actor", gone)
    options = replace(RAY, limits=replace(RAY.limits, num_retries=1))
    done = await play(tmp_path, Cast(["a 9", "b 9"]), options)
    assert [child.state for child in done.children] == ["suspended"] * 2
    assert done.run.end.exit_code == 75
    for child in done.children:
        notes = load_run(str(done.run.run_dir)).agents[child.id].notes
        states = [(note.data["state"], note.data["reason"]) for note in notes if note.kind == "child"]
        assert ("suspended", "an actor on the Ray cluster") in states, states
    is_back = True
    model = Cast(["a 9", "b 9"])
    again = await resume_swarm(Path(str(done.run.run_dir)), model=model, options=options)
    assert [child.state for child in again.children] == ["finished"] * 2
    assert len(model.asked_by("a 9")) < 9  # it goes on where it was


async def test_files_go_there_and_back(tmp_path: Path, hosts: list[float]) -> None:
    (tmp_path / "in.txt").write_text("words")
    assign = call("assign_task", agent="worker", prompt="child", files=["in.txt"], returns=["out.txt"])
    model = conversations(every=[calls(make_worker()), calls(assign), "all done"], child=[calls(call("shout")), "done"])
    options = replace(RAY, tools=(Shout,))
    done = await run_swarm("every", [tmp_path / "in.txt"], model=model, options=options, runs_dir=tmp_path / "runs")
    assert (Path(str(done.run.run_dir)) / "files" / "t001" / "out.txt").read_text() == "WORDS"


async def test_far_children_have_children(tmp_path: Path, hosts: list[float]) -> None:
    deep = replace(RAY, limits=SwarmLimits(max_depth=2))
    done = await run_swarm("every", model=conversations(**NESTED), options=deep, runs_dir=tmp_path)
    assert [child.answer for child in done.children] == ["middle done", "a done", "b done"]


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no Chromium found: cua setup")
@pytest.mark.long
async def test_far_children_in_browsers_are_on_record_once(tmp_path: Path, hosts: list[float]) -> None:
    made = call("create_subagent", name="clicker", system_prompt="You click.", kind="browser")
    assign = call("assign_task", agent="clicker", prompt="page", url=PAGE.format("one"))
    said = [Reply(content=text, usage=COST) for text in (CLICK, DONE.replace("{{question}}", "one"))]
    model = conversations(every=[calls(made), calls(assign), "all done"], page=said)
    done = await run_swarm("every", model=model, options=RAY, runs_dir=tmp_path, approve="yolo")
    (child,) = done.children
    assert (child.state, child.answer, child.num_steps, child.num_calls) == ("finished", "seen one", 2, 2), child.reason
    record = load_run(str(done.run.run_dir)).agents["t001"]
    assert (len(record.steps), record.usage, record.discarded) == (2, COST + COST, ())
    assert all(outcome.carried_out for outcome in record.outcomes)


KEY = "sk-test-1234567890"


async def play_over_http(tmp_path: Path, model: Any, options: SwarmOptions = RAY, **given: Any) -> SwarmResult:
    """The model is at an endpoint, so the hosts call it themselves."""
    with FakeOpenAI(model, model_id="fake") as server:
        return await play(tmp_path, "fake", options, base_url=server.base_url, api_key=KEY, **given)


@pytest.mark.long
async def test_hosts_call_a_model_at_an_endpoint_themselves(tmp_path: Path, hosts: list[float]) -> None:
    items = ["a 3", "b 5", "c 30"]
    near = await play_over_http(tmp_path / "near", Cast(items), replace(RAY, executor="local"))
    assert not PickledChannel.sent
    far = await play_over_http(tmp_path / "far", Cast(items))
    told = [
        [(one.state, one.answer, one.num_steps, one.num_calls, one.usage, one.num_tries) for one in done.children]
        for done in (near, far)
    ]
    assert told[0] == told[1]
    assert (near.run.usage, near.metrics.critical_steps) == (far.run.usage, far.metrics.critical_steps)
    records = [load_run(str(done.run.run_dir)).agents for done in (near, far)]
    assert [
        [(step.index, step.reply.content, step.reply.tool_calls) for step in records[0][name].tool_steps]
        for name in records[0]
    ] == [
        [(step.index, step.reply.content, step.reply.tool_calls) for step in records[1][name].tool_steps]
        for name in records[0]
    ]
    assert not any(b"generate" in message for _, message in PickledChannel.sent)
    assert {verb for verb, message in PickledChannel.sent if KEY.encode() in message} == {"open_model"}
    assert KEY not in (Path(str(far.run.run_dir)) / "trajectory.jsonl").read_text()


async def test_a_model_of_another_machine_is_called_by_the_parent(
    tmp_path: Path, hosts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a loopback address, which means another machine there."""
    monkeypatch.setattr(module, "network_id", lambda: "elsewhere")
    done = await play_over_http(tmp_path, Cast(["a 3"]))
    assert [(child.state, child.answer) for child in done.children] == [("finished", "done a 3")]
    assert any(b"generate" in message for _, message in PickledChannel.sent)


async def test_hosts_share_the_requests_at_the_same_time(
    tmp_path: Path, hosts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "count_free_cpus", lambda: 9)  # a host for each child
    await play_over_http(tmp_path, Cast(["a 3", "b 3"]))
    sent = [pickle.loads(message)[0] for verb, message in PickledChannel.sent if verb in ("exchange", "take")]
    shares = [values for messages in sent for _, verb, values in messages if verb == "share"]
    assert shares == [(256,), (128,), (128,)]


@pytest.mark.parametrize("caps", [Caps(max_steps=40), Caps(max_steps=None, max_tokens=3000)])
async def test_leased_calls_keep_the_limits_of_the_run(tmp_path: Path, hosts: list[float], caps: Caps) -> None:
    model = Cast([f"{letter} 50" for letter in "abcdef"])
    done = await play_over_http(tmp_path, model, replace(RAY, limits=SwarmLimits(run=caps)))
    assert {child.state for child in done.children} == {"capped"}
    asked = sum(len(model.asked_by(item)) for item in model.items)
    if caps.max_tokens is None:
        assert asked == 38  # and two of the orchestrator
    else:
        assert 27 <= asked <= 28  # 90 % are for the children, overshot by one call at most
        assert done.run.usage.total_tokens == 100 * asked


@pytest.mark.parametrize("num_calls", range(5, 13, 2))
async def test_a_lost_host_returns_its_lease(tmp_path: Path, hosts: list[float], num_calls: int) -> None:
    hosts.append(num_calls)
    model, swarms = Cast(["a 12"]), list[Swarm]()
    done = await play_over_http(tmp_path, model, replace(RAY, tools=(Write,)), on_swarm=swarms.append)
    (child,) = done.children
    assert (child.state, child.num_tries, child.answer) == ("finished", 2, "done a 12"), child.reason
    assert (child.num_calls, done.run.end.status) == (11, "unverified")
    assert len(model.asked_by("a 12")) in (12, 13, 14)
    assert swarms[0].scope.budget.num_steps - 3 in (12, 13)  # without those of the orchestrator; 13: one may be lost
    log = (Path(str(done.run.run_dir)) / "children" / "t001" / "files" / "log.txt").read_text().splitlines()
    assert log == sorted(set(log), key=int)


async def test_a_pause_recalls_leased_calls(tmp_path: Path, hosts: list[float]) -> None:
    controls: list[Control] = []

    class Pausing(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if messages[1].text != "all" and len(messages) == 6:
                controls[0].pause()
                await asyncio.sleep(0.3)
            return await super().generate(messages, tools, sampling)

    model = Pausing(["a 9"])
    running = asyncio.create_task(play_over_http(tmp_path, model, watch=Watch(on_control=controls.append)))
    while not controls or not controls[0].is_paused:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.0)
    assert len(model.asked_by("a 9")) == 3
    controls[0].resume()
    done = await running
    assert [(child.state, child.num_steps) for child in done.children] == [("finished", 9)]


@pytest.mark.parametrize("executor", ["local", "ray"])
async def test_waits_for_the_endpoint_are_on_record(tmp_path: Path, hosts: list[float], executor: Any) -> None:
    with FakeOpenAI(Cast(["a 3"]), model_id="fake") as server:
        server.next(ok, ok, status(429, **{"retry-after": "0.6"}))
        done = await play(tmp_path, "fake", replace(RAY, executor=executor), base_url=server.base_url)
    states = ["created", "queued", "running", "suspended", "running", "finished"]
    assert states_of(done.run.run_dir, "t001") == states


async def test_a_key_that_hosts_cannot_use_suspends_all(tmp_path: Path, hosts: list[float]) -> None:
    with FakeOpenAI(Cast(["a 2", "b 500"]), model_id="fake") as server:
        server.next(ok, ok)
        server.always(status(401, "no more"))
        done = await play(tmp_path, "fake", RAY, base_url=server.base_url)
    assert (done.run.end.status, done.run.end.source) == ("error", "model")
    assert {child.state for child in done.children} == {"suspended"}


@pytest.mark.parametrize(
    "error",
    [
        ModelError("down", retryable=True),
        ModelAccessError("no"),
        TruncatedReplyError("cut", reply=Reply(content="x")),
        CapReachedError("calls", "all used"),
        EnvDiedError("gone"),
    ],
)
def test_errors_travel_as_they_are(error: Exception) -> None:
    again = unpack_error(pickle.loads(pickle.dumps(pack_error(error))))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_name_that_leads_out_of_the_folder_is_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    receiver = FolderReceiver(folder)
    receiver.add([FileChunk(name, b"x") for name in ("../out.txt", "link/out.txt", "/tmp/k25-out.txt", "a/in.txt")])
    receiver.commit()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.txt")] == ["files/a/in.txt"]
    assert not Path("/tmp/k25-out.txt").exists()


def load_runs(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_what_cannot_travel_is_refused_before_anything_starts(tmp_path: Path) -> None:
    options = replace(RAY, make_env=lambda spec: None)
    with pytest.raises(ConfigError, match="made on its nodes"):
        await play(tmp_path, Cast(["a 1"]), options)
    assert not load_runs(tmp_path)


def test_without_ray_one_line_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['ray'] = None; from apps.cli.main import main; main()"
    arguments = ["swarm", "x", "--executor", "ray", "-m", "literal", "--set", "search=local:world"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'cua-k25[ray]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_cluster(1, 1, 1) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("is_leased", [False, True])
async def test_a_cluster_that_loses_a_node_loses_no_child(tmp_path: Path, cluster: Any, is_leased: bool) -> None:
    items = [f"{letter} 8" for letter in "abcdef"]

    class Killing(Cast):
        """Takes the node away while all children wait for their fifth reply, of whichever node they are."""

        def __init__(self) -> None:
            super().__init__(items)
            self.num_waiting = 0
            self.is_killed = asyncio.Event()

        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            number = sum(message.role == "assistant" for message in messages)
            if messages[1].text != "all" and number == 4 and not self.is_killed.is_set():
                self.num_waiting += 1
                if self.num_waiting == len(items):
                    try:
                        await asyncio.to_thread(lose_node, cluster, cluster.list_all_nodes()[-1])
                    finally:  # the child that asks may be of the lost node: nobody waits for its answer then
                        self.is_killed.set()
                await asyncio.wait_for(self.is_killed.wait(), 120)
            return await super().generate(messages, tools, sampling)

    model = Killing()
    options = replace(RAY, ray_address=cluster.address)
    done = await (play_over_http if is_leased else play)(tmp_path, model, options)
    assert model.is_killed.is_set()
    assert [(child.state, child.answer) for child in done.children] == [("finished", f"done {item}") for item in items]
    tries = [child.num_tries for child in done.children]
    assert 1 <= tries.count(2) <= 5, tries  # those of the node, and no others
    assert set(tries) == {1, 2}
    assert [child.num_calls for child in done.children] == [7] * 6
    record = load_run(str(done.run.run_dir))
    lengths = [len(one.tool_steps) for one in record.agents.values()]
    assert [length for length in lengths if length] == [8] * 6  # 0: lost before its question was asked
