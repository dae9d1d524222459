"""Saved tasks: parameters, times, what was missed, the file, the API."""

import asyncio
import json
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.assistant.api import make_api
from apps.assistant.assistant import Assistant
from apps.assistant.preferences import Preferences
from apps.assistant.saved_tasks import FILE, SavedTask, SavedTasks, Schedule, parse_schedule
from cua.api import run_task
from cua.errors import ConfigError
from cua.models.scripted import ScriptedModel
from cua.run.events import Watch
from envs.fake import FakeEnv
from tests.apps.assistant.test_session import DONE

NOW = datetime(2026, 11, 23, 8, 0)  # a Monday


class OfflineAssistant(Assistant):
    """Runs end at once, on a fake screen."""

    def _work(self, session: Any, order: Any, chosen: Any, files: Any) -> Any:
        async def work(watch: Watch) -> Any:
            model, runs_dir = ScriptedModel([DONE]), chosen["runs_dir"]
            return await run_task(order.instruction, model=model, env=FakeEnv(), watch=watch, runs_dir=runs_dir)

        return work


@pytest.fixture
def assistant(tmp_path: Path) -> Assistant:
    return OfflineAssistant(Preferences(tmp_path / "state" / "assistant.json", {"runs_dir": str(tmp_path / "runs")}))


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("", None),
        ("08:30", Schedule(time(8, 30))),
        ("Mon, friday 17:05", Schedule(time(17, 5), days=frozenset({0, 4}))),
        ("2026-12-24 08:30", Schedule(time(8, 30), on=date(2026, 12, 24))),
    ],
)
def test_times_as_people_write_them(text: str, when: Schedule | None) -> None:
    assert parse_schedule(text) == when


@pytest.mark.parametrize(
    "text", ["soon", "8:30", "25:00", "someday 08:30", "2026-13-01 08:30", "08:30 mon", "1 2 08:30"]
)
def test_other_times_are_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r'expected "08:30" \(each day\)'):
        parse_schedule(text)


def test_the_next_time() -> None:
    half_nine = time(9, 30)
    assert Schedule(half_nine).after(NOW) == datetime(2026, 11, 23, 9, 30)
    assert Schedule(half_nine).after(datetime(2026, 11, 23, 9, 30)) == datetime(2026, 11, 24, 9, 30)
    assert Schedule(half_nine, days=frozenset({0})).after(datetime(2026, 11, 23, 9, 30)) == datetime(
        2026, 11, 30, 9, 30
    )
    assert Schedule(half_nine, on=NOW.date()).after(NOW + timedelta(days=1)) is None


def test_parameters_are_filled_in_and_secrets_are_left_alone() -> None:
    task = SavedTask(instruction="Pay {invoice} with {{card}} and {json: 1} to {to}, {invoice}", values={"to": "Ann"})
    assert task.parameters == ("invoice", "to")
    assert task.request({"invoice": "7 {to}"}).instruction == "Pay 7 {to} with {{card}} and {json: 1} to Ann, 7 {to}"
    with pytest.raises(ConfigError, match="'invoice' has no value; the parameters are: invoice, to"):
        task.request()
    with pytest.raises(ConfigError, match="there is no parameter 'x'"):
        task.request({"x": "1"})


def test_a_time_is_taken_once_and_a_missed_one_is_told(tmp_path: Path) -> None:
    tasks = SavedTasks(tmp_path)
    tasks.save("Daily", SavedTask(instruction="Do it", when="09:30"), NOW)
    tasks.save("By hand", SavedTask(instruction="Do it"), NOW)
    assert tasks.pop_due(NOW + timedelta(hours=1)) == []
    due = datetime(2026, 11, 23, 9, 30, 4)
    other = SavedTasks(tmp_path)  # another app over the same folder
    assert (tasks.pop_due(due), tasks.pop_due(due)) == (["Daily"], [])
    assert other.pop_due(due + timedelta(days=1)) == []
    tasks.close()
    assert other.pop_due(datetime(2026, 11, 26, 12, 0)) == []
    assert other.find("Daily").last == (
        "missed 2026-11-26 09:30 and 2 times before: the app was not open, or the machine slept"
    )
    assert other.pop_due(datetime(2026, 11, 27, 9, 30, 1)) == ["Daily"]
    other.close()


def test_what_cannot_be_saved_says_why(tmp_path: Path) -> None:
    tasks = SavedTasks(tmp_path)
    for name, task, told in (
        ("A", SavedTask(instruction="Pay {x}", when="09:30"), "'x' has no value"),
        ("A", SavedTask(instruction="Do it", when="2026-11-01 09:30"), "has passed"),
        ("A", SavedTask(instruction="Do it", place="web"), "an address is needed"),
        ("a/b", SavedTask(instruction="Do it"), "cannot be saved"),
    ):
        with pytest.raises(ConfigError, match=told):
            tasks.save(name, task, NOW)
    assert not (tmp_path / FILE).exists()
    (tmp_path / FILE).write_text('{"A": {"instruction": 3}}')
    with pytest.raises(ConfigError, match="Correct the file, or delete it"):
        tasks.load()


async def test_a_task_that_is_due_begins_and_one_that_cannot_says_so(assistant: Assistant, tmp_path: Path) -> None:
    assistant.tasks.save("Works", SavedTask(instruction="Do {what}", values={"what": "it"}, when="09:30"), NOW)
    assistant.tasks.save("Does not", SavedTask(instruction="Do it", mode="agent", when="09:30"), NOW)
    (session,) = await assistant.run_due(datetime(2026, 11, 23, 9, 30))
    assert session.instruction == "Do it"
    last = {name: task.last for name, task in assistant.tasks.load().items()}
    assert last["Works"] == "started 2026-11-23 09:30"
    assert last["Does not"].startswith("not started 2026-11-23 09:30: Agent mode needs a model that calls tools")
    kept = json.loads((tmp_path / "state" / "assistant-tasks" / FILE).read_text())
    assert kept["Works"]["instruction"] == "Do {what}" and kept["Works"]["when"] == "09:30"
    async with asyncio.timeout(10):
        while session.phase != "ended":
            await session.log.wait_for_change(0.2)
    assert session.view()["result"]["status"] == "unverified"
    await assistant.close()


async def test_programs_save_run_and_delete_tasks(assistant: Assistant) -> None:
    app = make_api(assistant)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a/api") as web:
        saved = await web.put("/tasks/Pay", json={"instruction": "Pay {invoice}", "when": ""})
        assert [(row["name"], row["parameters"], row["next"]) for row in saved.json()] == [("Pay", ["invoice"], "")]
        missing = await web.post("/tasks/Pay/run", json={})
        assert (missing.status_code, missing.json()["error"]) == (
            400,
            "The parameter 'invoice' has no value. The parameters are: invoice.",
        )
        begun = await web.post("/tasks/Pay/run", json={"values": {"invoice": "4711"}})
        assert (begun.status_code, begun.json()["instruction"]) == (201, "Pay 4711")
        assert (await web.put("/tasks/Pay", json={"instruction": "x", "when": "soon"})).status_code == 400
        assert (await web.delete("/tasks/Pay")).status_code == 200
        assert (await web.post("/tasks/Pay/run", json={})).status_code == 404
        assert (await web.get("/tasks")).json() == []
        assert (await web.get("/docs.json")).json()["paths"]["/api/sessions/{session_id}/take-over"]
    await assistant.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/sessions/gone", 404),
        ("GET", "/runs/gone", 404),
        ("GET", "/runs/gone/export/report", 404),
        ("DELETE", "/tasks/gone", 404),
        ("PUT", "/settings/modle", 404),
        ("PUT", "/settings/viewport", 400),
        ("PUT", "/settings/max_steps", 400),
        ("PUT", "/secrets/not a name", 400),
    ],
)
async def test_only_what_does_not_exist_is_not_found(assistant: Assistant, method: str, path: str, status: int) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(make_api(assistant)), base_url="http://a/api") as web:
        answer = await web.request(method, path, json={"value": "there is no such value"} if method == "PUT" else None)
    assert answer.status_code == status, answer.text
    await assistant.close()
