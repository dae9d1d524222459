"""`cua serve` with a real tiny model, used as people use it."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from openai import OpenAI

from model_runtime.checkpoint.tiny import write_tiny
from tests.model_runtime.serving import Served, environment, serve

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "tiny"
    write_tiny(folder, quantized=True)
    return folder


@pytest.fixture(scope="module")
def served(model_dir: Path) -> Iterator[Served]:
    with serve(model_dir) as server:
        yield server


def cua(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "apps.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**environment(), **more},
    )


@pytest.mark.slow
def test_token_in_token_out() -> None:
    command = [sys.executable, "-m", "examples.token_in_token_out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment())
    lines = [line for line in done.stdout.splitlines() if line.startswith("thinking")]
    assert [line.split(": ")[1].split(" prompts")[0] for line in lines] == ["18 of 18"] * 2, done.stderr
    assert done.returncode == 0


@pytest.mark.slow
def test_a_task_runs_to_its_cap_without_an_error(served: Served, tmp_path: Path) -> None:
    page = "data:text/html,<h1>Hello</h1><button>Go</button>"
    done = cua(
        *("task", "Click Go", "--url", page, "--model", "tiny", "--max-tokens", "400", "--max-steps", "2"),
        *("--output-format", "json"),
        OPENAI_BASE_URL=served.url,
        OPENAI_API_KEY="none",
        XDG_STATE_HOME=str(tmp_path),
    )
    result = json.loads(done.stdout)
    assert (result["status"], done.returncode) == ("capped", 3)
    assert result["usage"]["output_tokens"] > 0


@pytest.mark.long
def test_many_clients_at_once_all_get_their_answer(served: Served) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        client = OpenAI(base_url=served.url, api_key="none")
        done = client.completions.create(model="tiny", prompt=f"{number}", max_tokens=4, temperature=0)
        answers[number] = done.choices[0].text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(answers) == list(range(40))


@pytest.mark.long
def test_the_log_names_requests_and_holds_none_of_their_words(served: Served) -> None:
    OpenAI(base_url=served.url, api_key="none").completions.create(
        model="tiny", prompt="xylophone", max_tokens=1, extra_headers={"x-request-id": "find-me"}
    )
    for _ in range(100):
        lines = [line for line in served.said if "find-me" in line]
        if lines:
            break
        time.sleep(0.05)
    assert len(lines) == 1
    assert "xylophone" not in "".join(served.said)


@pytest.mark.slow
def test_a_folder_that_changes_while_it_is_served_changes_no_answer(tmp_path: Path) -> None:
    write_tiny(tmp_path / "m", seed=1)
    with serve(tmp_path / "m") as server:
        client = OpenAI(base_url=server.url, api_key="none")

        def ask() -> str:
            done = client.completions.create(model="m", prompt="hello", max_tokens=8, temperature=0)
            return str(done.choices[0].text)

        before = ask()
        for shard in (tmp_path / "m").glob("*.safetensors"):
            shard.write_bytes(b"\0" * 100)
        assert ask() == before


@pytest.mark.slow
def test_it_ends_when_told_and_finishes_what_it_began(model_dir: Path) -> None:
    with serve(model_dir) as server:
        text = {"model": "tiny", "prompt": "count", "max_tokens": 300, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", server.url + "/completions", json=text, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line.startswith("data: ")]
        assert rest[-1] == "data: [DONE]"
        assert server.process.wait(timeout=20) == 0


@pytest.mark.slow
def test_ranks_end_with_the_server_even_when_it_is_killed(model_dir: Path) -> None:
    with serve(model_dir, "--tp", "2") as server:
        workers = psutil.Process(server.process.pid).children(recursive=True)
        assert any("spawn_main" in " ".join(worker.cmdline()) for worker in workers)
        server.process.kill()
        _, alive = psutil.wait_procs(workers, timeout=20)
        assert alive == []


@pytest.mark.slow
def test_a_killed_rank_is_told_and_the_server_ends(model_dir: Path) -> None:
    with serve(model_dir, "--tp", "2") as server:
        workers = psutil.Process(server.process.pid).children(recursive=True)
        next(w for w in workers if "spawn_main" in " ".join(w.cmdline())).kill()
        for _ in range(200):
            health = httpx.get(server.url.removesuffix("/v1") + "/health")
            if health.status_code == 503:
                break
            time.sleep(0.05)
        assert health.status_code == 503
        assert "SIGKILL" in health.text
        answer = httpx.post(server.url + "/completions", json={"model": "tiny", "prompt": "a", "max_tokens": 1})
        assert answer.status_code in (500, 503)
        assert "rank 1 ended" in answer.json()["error"]["message"]
        assert server.process.wait(timeout=20) == 75
    assert [line for line in server.said if line.startswith("cua: ")] == [
        "cua: rank 1 ended (signal SIGKILL); requests in flight are lost. Start the server again\n"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--model", "nowhere"], "nowhere"),
        (["--model", "MODEL", "--tp", "3"], "cannot be split over 3 ranks"),
        (["--model", "MODEL", "--set", "kernels=triton", "--set", "device=cpu"], "triton"),
        (["--model", "MODEL", "--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY holds no API key"),
        (["--model", "MODEL", "--set", "cache_gib=0.000001"], "left for the cache"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(model_dir: Path, arguments: list[str], text: str) -> None:
    done = cua("serve", "--port", "0", *(str(model_dir) if a == "MODEL" else a for a in arguments))
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_demo_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.runtime_demo"], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "functions.click:0" in done.stdout
    assert "functions.click:1" in done.stdout
    assert "0 of them from the cache" in done.stdout
    assert done.stdout.count("tokens/s") == 2
