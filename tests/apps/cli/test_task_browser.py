"""`cua task` in a real browser, as a process: results, streams, exit codes, faults."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cua.trajectory import load_run
from tests.apps.cli.running import (
    CLICK,
    CUA,
    DONE,
    PAGE,
    WAIT,
    cua,
    descendants,
    environment,
    press_ctrl_c,
    script,
    start,
    wait_until,
    wait_until_gone,
    wait_until_in_charge,
)
from tests.envs.browser.pages import PageServer

pytestmark = pytest.mark.browser


def only_run(runs_dir: Path) -> Path:
    runs = [entry for entry in runs_dir.iterdir() if (entry / "trajectory.jsonl").exists()]
    assert len(runs) == 1
    return runs[0]


@pytest.mark.long
def test_text_output_is_the_answer_on_stdout_and_progress_on_stderr(tmp_path: Path) -> None:
    ended = cua(tmp_path, "task", "Look", "--url", PAGE, "--model", script(tmp_path, CLICK, DONE))
    assert (ended.code, ended.stdout) == (0, "42\n")
    assert "unverified" in ended.stderr
    assert "report.html" in ended.stderr
    report = only_run(tmp_path) / "report.html"
    assert "Click" in report.read_text()


@pytest.mark.long
def test_json_output_is_one_object(tmp_path: Path) -> None:
    ended = cua(tmp_path, "task", "Look", "--url", PAGE, "-m", script(tmp_path, DONE), "--output-format", "json")
    result = json.loads(ended.stdout)
    assert {key: result[key] for key in ("status", "verified", "answer", "steps", "cap", "source")} == {
        "status": "unverified",
        "verified": False,
        "answer": "42",
        "steps": 1,
        "cap": None,
        "source": None,
    }
    assert Path(result["run_dir"]) == only_run(tmp_path)
    assert set(result["usage"]) == {"input_tokens", "output_tokens", "cached_tokens", "cost_usd"}


@pytest.mark.long
def test_stream_json_is_one_event_a_line(tmp_path: Path) -> None:
    model = script(tmp_path, CLICK, DONE)
    ended = cua(tmp_path, "task", "-", "--url", PAGE, "-m", model, "--output-format", "stream-json", stdin="Look")
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [event["event"] for event in events] == [
        "run_started",
        *["observed", "decided", "step_done"] * 2,
        "result",
    ]
    assert events[0]["instruction"] == "Look"
    assert events[2]["actions"][0]["verb"] == "Click"


@pytest.mark.slow
@pytest.mark.parametrize(
    "instruction",
    ["{braces} {0} {{name}}", "点击保存 🙂", "quote \" and ' and \\ and \0x", "a" * 20_000, "line\nbreak"],
)
def test_any_instruction_arrives_whole(tmp_path: Path, instruction: str) -> None:
    ended = cua(tmp_path, "task", "-", "--url", PAGE, "-m", script(tmp_path, DONE), stdin=instruction)
    assert ended.code == 0
    assert load_run(only_run(tmp_path)).header.instruction == instruction


@pytest.mark.slow
def test_a_schema_checks_the_answer(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "integer"}')
    arguments = ["task", "Look", "--url", PAGE, "-m", script(tmp_path, DONE), "--schema", "schema.json"]
    assert cua(tmp_path, *arguments).stdout == "42\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:9/", "127.0.0.1:9"),
        ("http://no-such-host.invalid/", "no-such-host.invalid"),
    ],
)
def test_a_page_that_cannot_be_opened_is_an_error_of_the_world(tmp_path: Path, url: str, text: str) -> None:
    ended = cua(tmp_path, "task", "Look", "--url", url, "-m", script(tmp_path, DONE), "--output-format", "json")
    assert (ended.code, ended.result["status"], ended.result["source"]) == (75, "error", "env")
    assert text in ended.result["reason"]


@pytest.mark.parametrize("url", ["htp://x", "notaurl://", "not a url", "file", "http://"])
def test_a_page_that_is_no_address_is_wrong_usage_and_nothing_is_started(tmp_path: Path, url: str) -> None:
    (tmp_path / "runs").mkdir()
    ended = cua(
        tmp_path / "runs", "task", "Look", "--url", url, "-m", script(tmp_path, DONE), "--output-format", "json"
    )
    assert (ended.code, ended.stdout) == (2, "")
    assert "the start page cannot be opened" in ended.stderr and "Traceback" not in ended.stderr
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.slow
def test_five_unusable_replies_end_as_capped(tmp_path: Path) -> None:
    model = script(tmp_path, *["I do not know"] * 5)
    ended = cua(tmp_path, "task", "Look", "--url", PAGE, "-m", model, "--output-format", "json")
    assert (ended.code, ended.result["status"], ended.result["cap"]) == (3, "capped", "parse_errors")


@pytest.mark.long
def test_a_model_server_that_is_down_is_worth_retrying(tmp_path: Path) -> None:
    ended = cua(
        tmp_path,
        *("task", "Look", "--url", PAGE, "-m", "some-model", "--output-format", "json", "--set", "max_retries=1"),
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
        OPENAI_API_KEY="none",
        timeout_s=120,
    )
    assert (ended.code, ended.result["status"], ended.result["source"]) == (75, "error", "model")
    assert "127.0.0.1:9" in ended.result["reason"]


@pytest.mark.slow
def test_a_full_disk_ends_the_run_as_an_error_of_the_record(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    if os.system(f"mount -t tmpfs -o size=64k tmpfs {small} 2>/dev/null"):
        pytest.skip("this machine does not allow mounting a tmpfs")
    try:
        clicks = [CLICK.replace("0.5, 0.5", f"0.{n}, 0.9") for n in range(10, 70)]
        model = script(tmp_path, *clicks)
        arguments = ["task", "Look", "--url", PAGE, "-m", model, "--output-format", "json", "--max-steps", "60"]
        ended = cua(tmp_path, *arguments, "--set", f"runs_dir={small}", "--viewport", "800x600")
    finally:
        os.system(f"umount {small}")
    assert (ended.code, ended.result["status"], ended.result["source"]) == (75, "error", "record")
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    model = script(tmp_path, CLICK, CLICK, DONE)
    both = [start(tmp_path, "task", f"Run {n}", "--url", PAGE, "-m", model, "--output-format", "json") for n in (1, 2)]
    results = [json.loads(process.communicate(timeout=60)[0]) for process in both]
    assert [result["status"] for result in results] == ["unverified"] * 2
    assert len({result["run_dir"] for result in results}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["at once", "start", "first screenshot", "waiting", "second step"])
def test_ctrl_c_at_any_moment_leaves_a_readable_record_and_no_process(tmp_path: Path, moment: str) -> None:
    model = script(tmp_path, CLICK, WAIT, CLICK, DONE)
    process = start(tmp_path, "task", "Look", "--url", PAGE, "-m", model, "--output-format", "stream-json")
    assert process.stdout is not None
    events = {"at once": 0, "start": 1, "first screenshot": 2, "waiting": 6, "second step": 5}[moment]
    wait_until_in_charge(process)
    for _ in range(events):
        process.stdout.readline()
    below = descendants(process)
    press_ctrl_c(process)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode in ((-signal.SIGINT, 130) if events == 0 else (130,))  # a shell shows both as 130
    assert "Traceback" not in stderr
    for run in tmp_path.glob("*/trajectory.jsonl"):
        record = load_run(run.parent)
        assert record.end is None or record.end.status == "stopped"
        assert events == 0 or record.end is not None
    wait_until_gone(below, tmp_path)


@pytest.mark.long
def test_a_browser_that_is_killed_ends_the_run_as_an_error_of_the_world(tmp_path: Path) -> None:
    model = script(tmp_path, CLICK, WAIT, CLICK, DONE)
    process = start(tmp_path, "task", "Look", "--url", PAGE, "-m", model, "--output-format", "stream-json")
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()
    browsers = [child for child in descendants(process) if "chrom" in child.name() or "headless" in child.name()]
    assert browsers
    for child in browsers:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    stdout, stderr = process.communicate(timeout=60)
    result = json.loads(stdout.splitlines()[-1])
    assert (process.returncode, result["status"], result["source"]) == (75, "error", "env")
    assert "Traceback" not in stderr


@pytest.mark.long
def test_a_run_that_was_killed_is_resumed_without_doing_anything_twice(tmp_path: Path) -> None:
    model = script(tmp_path, CLICK, WAIT, DONE)
    process = start(tmp_path, "task", "Look", "--url", PAGE, "-m", model, "--output-format", "stream-json")
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "decided" and event["step"] == 2:
            break
    run = only_run(tmp_path)
    wait_until(lambda: sum('"acting"' in row for row in (run / "trajectory.jsonl").read_text().splitlines()) == 2)
    below = descendants(process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)
    wait_until_gone(below, tmp_path)
    ended = cua(tmp_path, "task", "--resume", "last", "-m", script(tmp_path, DONE), "--output-format", "json")
    assert (ended.code, ended.result["status"], ended.result["steps"]) == (0, "unverified", 3)
    steps = load_run(run).steps
    assert [step.index for step in steps] == [1, 2, 3]
    assert steps[1].error is not None and "interrupted" in steps[1].error


@pytest.mark.slow
def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    cua(tmp_path, "task", "Look", "--url", PAGE, "-m", script(tmp_path, DONE))
    ended = cua(tmp_path, "task", "--resume", "last")
    assert ended.code == 2
    assert "nothing to resume" in ended.stderr


@pytest.mark.slow
def test_a_capped_run_goes_on_with_a_higher_limit(tmp_path: Path) -> None:
    model = script(tmp_path, CLICK, DONE)
    first = cua(tmp_path, "task", "Look", "--url", PAGE, "-m", model, "--max-steps", "1", "--output-format", "json")
    assert (first.code, first.result["cap"]) == (3, "steps")
    model = script(tmp_path, DONE)
    second = cua(tmp_path, "task", "--resume", "last", "-m", model, "--max-steps", "5", "--output-format", "json")
    assert (second.code, second.result["status"], second.result["steps"]) == (0, "unverified", 2)


@pytest.mark.slow
def test_runs_replay_report_and_export(tmp_path: Path) -> None:
    cua(tmp_path, "task", "Look at it", "--url", PAGE, "-m", script(tmp_path, CLICK, DONE))
    run = only_run(tmp_path)
    assert run.name in cua(tmp_path, "runs").stdout
    assert "Look at it" in cua(tmp_path, "replay", run.name[:20]).stdout
    again = cua(tmp_path, "replay", "last", "--execute")
    assert (again.code, "all as recorded" in again.stdout) == (0, True), again
    assert cua(tmp_path, "report", "last", "-o", "out.html").stdout.strip() == "out.html"
    folder = Path(cua(tmp_path, "export", "last", "results").stdout.strip())
    lines = [json.loads(line) for line in (tmp_path / folder / "traj.jsonl").read_text().splitlines()]
    assert [line["action"] for line in lines][-1] == "DONE"


@pytest.mark.long
def test_secrets_reach_the_page_but_no_record(tmp_path: Path) -> None:
    (tmp_path / "secrets.toml").write_text('pin = "hunter2secret"\n')
    type_pin = "## Action:\nType\n## Code:\n```python\npyautogui.click(0.5, 0.1)\npyautogui.write('{{pin}}')\n```"
    page = (
        "data:text/html,<body style='margin:0'><input style='width:100%25;height:20vh;font-size:40px' "
        "oninput='document.title=this.value.length'>"
    )
    model = script(tmp_path, type_pin, DONE)
    arguments = ["task", "Type", "--url", page, "-m", model, "--secrets", "secrets.toml", "--yolo"]
    assert cua(tmp_path, *arguments).code == 0
    run = only_run(tmp_path)
    record = load_run(run)
    assert record.steps[1].observation.title == str(len("hunter2secret"))
    for path in run.rglob("*"):
        assert path.is_dir() or b"hunter2secret" not in path.read_bytes(), path


@pytest.fixture
def closed_page() -> Iterator[str]:
    """A page for ann only."""
    server = PageServer()
    server.logins["/"] = "ann:tr0ub4dor-3"
    yield server.url("/")
    server.close()


@pytest.mark.slow
def test_a_password_in_the_address_logs_in_and_is_recorded_nowhere(tmp_path: Path, closed_page: str) -> None:
    url = closed_page.replace("//", "//ann:tr0ub4dor-3@")
    arguments = ["-m", script(tmp_path, CLICK, DONE), "--output-format", "stream-json"]
    first = cua(tmp_path, "task", f"Look at {url}", "--url", url, *arguments, "--max-steps", "1")
    record = load_run(only_run(tmp_path))
    assert (first.code, record.steps[0].observation.title) == (3, "inside")
    assert record.header.settings["url"] == closed_page
    again = cua(tmp_path, "task", "--resume", "last", "-m", script(tmp_path, DONE), "--max-steps", "5")
    assert again.code == 0
    notes = load_run(only_run(tmp_path)).steps[1].observation.notes
    assert any("the record does not keep the password of the start address" in note for note in notes)
    assert any(note.startswith("the server answered 401 Unauthorized") for note in notes)
    texts = [first.stdout, first.stderr, cua(tmp_path, "runs").stdout, cua(tmp_path, "replay", "last").stdout]
    texts += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in texts if "tr0ub4dor" in text]


@pytest.mark.long
def test_passwords_in_the_instruction_and_of_a_proxy_are_recorded_nowhere(tmp_path: Path) -> None:
    arguments = ["-m", script(tmp_path, CLICK, DONE), "--output-format", "stream-json", "--max-steps", "1"]
    proxy = "proxy=http://ann:tr0ub4dor-3@127.0.0.1:9"
    first = cua(tmp_path, "task", "See https://bob:sesame-7@h/", "--url", PAGE, *arguments, "--set", proxy)
    assert first.code == 3
    again = cua(tmp_path, "task", "--resume", "last", "-m", script(tmp_path, DONE))
    assert (again.code, "the password of the proxy is not in the record" in again.stderr) == (2, True)
    texts = [first.stdout, first.stderr, cua(tmp_path, "replay", "last").stdout]
    texts += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in texts if "tr0ub4dor" in text or "sesame" in text]


@pytest.mark.long
def test_logins_come_from_a_file(tmp_path: Path, closed_page: str) -> None:
    login = f'[[login]]\norigin = "{closed_page}"\nusername = "ann"\npassword = "tr0ub4dor-3"\n'
    (tmp_path / "logins.toml").write_text(login)
    arguments = ["--url", closed_page, "-m", script(tmp_path, DONE), "--set", "http_auth=logins.toml"]
    assert cua(tmp_path, "task", "Look", *arguments).code == 0
    run = only_run(tmp_path)
    assert load_run(run).steps[0].observation.title == "inside"
    assert not [path for path in run.rglob("*") if path.is_file() and b"tr0ub4dor" in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "expected tables [[login]]"),
        ("[[login]]\norigin = 'https://h/path'\nusername = 'a'\npassword = 'sesame'", "is not an origin"),
        ("[[login]]\norigin = 'https://h'\npassword = 'sesame'", "origin, username and password"),
        ("sesame", "is not TOML"),
        (2 * "[[login]]\norigin = 'https://h'\nusername = 'a'\npassword = 'sesame'\n", "more than one login"),
    ],
)
def test_a_wrong_file_of_logins_stops_before_anything_starts(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "logins.toml").write_text(text)
    arguments = ["--url", PAGE, "-m", script(tmp_path, DONE), "--set", "http_auth=logins.toml"]
    ended = cua(tmp_path, "task", "Look", *arguments)
    assert (ended.code, ended.stdout, list(tmp_path.glob("*/trajectory.jsonl"))) == (2, "", [])
    assert told in " ".join(ended.stderr.split()) and "sesame" not in ended.stderr


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
def test_a_lost_terminal_and_quit_stop_a_run_in_order(tmp_path: Path, number: signal.Signals) -> None:
    terminal, end = os.openpty()
    model = script(tmp_path, CLICK, WAIT, CLICK, DONE)
    process = subprocess.Popen(
        [CUA, "task", "Look", "--url", PAGE, "-m", model],
        stdin=end,
        stdout=end,
        stderr=end,
        text=True,
        env=environment(tmp_path),
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(end)
    shown = b""
    while b"Click" not in shown:
        shown += os.read(terminal, 4096)
    below = descendants(process)
    os.kill(process.pid, number)
    if number == signal.SIGHUP:
        os.close(terminal)
    while number != signal.SIGHUP:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # nobody writes to it any more
            os.close(terminal)
            break
    assert process.wait(timeout=30) == 130
    assert b"Traceback" not in shown, shown.decode()
    end_of_run = load_run(only_run(tmp_path)).end
    assert end_of_run is not None and end_of_run.status == "stopped"
    wait_until_gone(below, tmp_path)
