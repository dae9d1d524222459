"""`cua serve` as a process: what needs no torch, and vLLM's place taken by a program that behaves like it."""

import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.apps.cli.running import cua, descendants, press_ctrl_c, start, wait_until_gone
from tests.free_port import find_free_port

FAKE = Path(__file__).parents[2] / "model_runtime" / "launch" / "fake_vllm.py"


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "bin" / "vllm"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable} -S\n{FAKE.read_text()}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def port() -> str:
    return str(find_free_port())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "a model is needed"),
        (["k2.5"], "did you mean --model k2.5"),
        (["--engine", "vlm", "-m", "x"], "did you mean 'vllm'"),
        (["--plan", "--self-test", "http://x"], "choose one"),
        (["--plan", "--gpu", "H2000"], "did you mean H200"),
        (["--plan", "--gpus", "0"], "expected at least one"),
        (["--plan", "-m", "nothing"], "config.json"),
        (["-m", "x", "--pp", "2"], "need --engine vllm"),
        (["-m", "x", "--kernels", "tritn"], "did you mean 'triton'"),
        (["--engine", "vllm", "-m", "x", "--kernels", "torch"], "vLLM chooses its own"),
        (["-m", "x", "--dry-run", "--set", "block_siz=1"], "did you mean 'block_size'"),
        (["-m", "x", "--dry-run", "--set", "block_size=0"], "expected a positive number"),
        (["--engine", "vllm", "-m", "x", "--dry-run", "--", "-tp", "2"], "use --tp"),
        (["--engine", "vllm", "-m", "x", "--vllm", "/nowhere/vllm"], "is not an executable program"),
        (["--engine", "vllm", "-m", "x", "--api-key-env", "NOT_THERE"], "NOT_THERE, which is not set"),
        (["--self-test", "http://127.0.0.1:1/v1"], "no response from http://127.0.0.1:1/v1"),
        (["--self-test", "http://127.0.0.1:1/v1", "--only", "vidoe"], "did you mean 'video'"),
        (["--self-test", "http://127.0.0.1:1/v1", "--api-key-env", "NOT_THERE"], "NOT_THERE, which is not set"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_to_do(tmp_path: Path, arguments: list[str], text: str) -> None:
    ended = cua(tmp_path, "serve", *arguments)
    assert (ended.code, ended.stdout) == (2, "")
    assert text in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_a_dry_run_prints_the_line_for_vllm(tmp_path: Path) -> None:
    options = ["--engine", "vllm", "-m", "moonshotai/Kimi-K2.5", "--tp", "4", "--set", "max_images=20", "--dry-run"]
    ended = cua(tmp_path, "serve", *options, "--", "--seed", "3")
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout == (
        "VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 vllm serve moonshotai/Kimi-K2.5 --tensor-parallel-size 4 "
        "--mm-encoder-tp-mode data --tool-call-parser kimi_k2 --reasoning-parser kimi_k2 --enable-auto-tool-choice "
        "--trust-remote-code --host 127.0.0.1 --port 8000 --logprobs-mode processed_logprobs "
        "--enable-prompt-tokens-details "
        """--limit-mm-per-prompt '{"vision_chunk": 20}' --seed 3\n"""
    )


def test_a_dry_run_prints_the_options_of_the_own_engine(tmp_path: Path) -> None:
    own = ["--port", "9000", "--kernels", "triton", "--set", "block_size=32"]
    ended = cua(tmp_path, "serve", "-m", "k2.5", *own, "--dry-run")
    values = dict(line.split(maxsplit=1) for line in ended.stdout.splitlines() if len(line.split()) > 1)
    assert (ended.code, values["port"], values["block_size"], values["model_dir"]) == (0, "9000", "32", "k2.5")
    assert values["kernels"] == "triton"


@pytest.mark.long
def test_a_plan_is_a_result(tmp_path: Path) -> None:
    ended = cua(tmp_path, "serve", "--plan")
    assert (ended.code, ended.stderr) == (0, "")
    assert "1.026 T parameters" in ended.stdout
    too_small = cua(tmp_path, "serve", "--plan", "--gpu", "H100", "--json")
    assert (too_small.code, too_small.result["fits"]) == (1, False)
    assert too_small.result["advice"][1] == "it fits on 2 nodes of 8 x H100 each"


def test_vllm_is_started_watched_and_ended(tmp_path: Path, program: str, port: str) -> None:
    arguments = ["--engine", "vllm", "-m", "x", "--port", port, "--vllm", program, "--api-key-env", "MY_KEY"]
    process = start(tmp_path, "serve", *arguments, MY_KEY="sekrit", FAKE_VLLM_VERSION="0.19.1")
    assert process.stdout is not None
    assert process.stdout.readline() == f"http://127.0.0.1:{port}/v1\n"
    below = descendants(process)
    assert "sekrit" not in " ".join(" ".join(child.cmdline()) for child in below)
    press_ctrl_c(process)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "key sekrit" in stderr  # the fake says what its environment holds
    assert "vLLM 0.19.1: streamed answers lose tool calls" in stderr
    assert "loading weights: 64 of 64 shards (100 %)" in stderr
    assert f"cua serve --self-test http://127.0.0.1:{port}/v1" in stderr
    wait_until_gone(below, tmp_path)


def test_sigterm_ends_it_too_while_it_still_loads(tmp_path: Path, program: str, port: str) -> None:
    arguments = ["--engine", "vllm", "-m", "x", "--port", port, "--vllm", program]
    process = start(tmp_path, "serve", *arguments, FAKE_VLLM="hang")
    assert process.stderr is not None
    assert any("64 of 64" in line for line in iter(process.stderr.readline, ""))
    below = descendants(process)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    wait_until_gone(below, tmp_path)


def test_a_crash_at_load_is_one_line_and_exit_code_2(tmp_path: Path, program: str, port: str) -> None:
    arguments = ["--engine", "vllm", "-m", "x", "--port", port, "--vllm", program]
    ended = cua(tmp_path, "serve", *arguments, FAKE_VLLM="crash:torch.OutOfMemoryError: CUDA out of memory")
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1].startswith("cua: vLLM ended with exit code 1: a GPU ran out of memory. See")


def test_a_death_while_serving_is_worth_another_try(tmp_path: Path, program: str, port: str) -> None:
    arguments = ["--engine", "vllm", "-m", "x", "--port", port, "--vllm", program]
    ended = cua(tmp_path, "serve", *arguments, FAKE_VLLM="dies_later")
    assert (ended.code, ended.stdout) == (75, f"http://127.0.0.1:{port}/v1\n")
    assert "Traceback" not in ended.stderr


def test_a_vllm_that_is_too_old_is_not_started(tmp_path: Path, program: str) -> None:
    ended = cua(tmp_path, "serve", "--engine", "vllm", "-m", "x", "--vllm", program, FAKE_VLLM_VERSION="0.14.0")
    assert (ended.code, ended.stdout) == (2, "")
    assert "vLLM 0.14.0 cannot serve this" in ended.stderr
    assert "INFO starting" not in ended.stderr


class _Models(BaseHTTPRequestHandler):
    """A server that lists a model and can do nothing else."""

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "k", "max_model_len": 4096}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._send(500, {"detail": "no"})

    def _send(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Models)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.long
def test_a_self_test_is_a_table_or_json_and_its_exit_code(tmp_path: Path, url: str) -> None:
    good = cua(tmp_path, "serve", "--self-test", url, "--only", "models")
    assert (good.code, good.stdout.splitlines()[0]) == (0, f"k at {url}")
    assert "models  ok  k; 4,096 tokens of context" in good.stdout
    assert good.stderr == "1/1 models: Check the list of models.\n"
    bad = cua(tmp_path, "serve", "--self-test", url, "--only", "models,chat", "--json")
    assert bad.code == 1
    assert [(probe["name"], probe["status"]) for probe in bad.result["probes"]] == [
        ("models", "ok"),
        ("chat", "failed"),
    ]
    assert bad.result["probes"][1]["text"] == "HTTP 500: no"


def test_what_needs_no_engine_loads_no_torch(tmp_path: Path) -> None:
    ended = cua(tmp_path, "serve", "--plan", PYTHONPROFILEIMPORTTIME="1")
    assert "model_runtime.launch.plan" in ended.stderr
    assert not [line for line in ended.stderr.splitlines() if line.split("|")[-1].strip() in ("torch", "fastapi")]
