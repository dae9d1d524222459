"""OSWorld's own evaluators, as published, in their own virtual environment and child process.

`cua setup osworld-evaluators` installs them. Requests and responses are JSON; the evaluators reach the guest over HTTP,
have no access to this machine's home folders if bubblewrap is available, write only to the task's folder, and are
killed at the timeout. Any failure in them is an `EvaluationError`, never a 0.
"""

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envs.errors import EvaluationError
from envs.json_fields import Json
from envs.suites.osworld import guest_answers, official_runner
from envs.suites.osworld.evaluators import EvalContext, OsworldVerdict
from envs.suites.osworld.guest_client import GuestAnswerError
from envs.suites.osworld.task_file import INFEASIBLE, TaskFile

PACKAGE = "desktop-env==1.0.2"
REQUIREMENTS: tuple[str, ...] = (
    *("numpy>=1.26,<2; python_version < '3.13'", "numpy>=2.1,<2.4; python_version >= '3.13'"),
    *("pandas>=2.2,<2.3; python_version < '3.13'", "pandas>=2.2.3,<2.4; python_version >= '3.13'"),
    *("Pillow>=11.0,<12", "opencv-python-headless>=4.5,<5", "scikit-image<0.26", "scipy", "ImageHash"),
    *("requests", "requests-toolbelt", "python-dotenv", "pytz", "tldextract", "PyYAML", "xmltodict"),
    *("lxml", "cssselect", "beautifulsoup4", "rapidfuzz", "openpyxl<3.2", "formulas<2"),
    *("python-docx<2", "python-pptx<2", "odfpy", "pypdf<7", "PyPDF2<4", "pdfplumber", "pymupdf<1.27", "borb<3"),
    *("mutagen", "pyacoustid", "librosa<0.12", "fastdtw", "playwright<2"),
)
"""Requirements of `desktop_env.evaluators` and its controllers, with the package's version limits where it has them.

It excludes torch, transformers, gymnasium, and clients of clouds and models, which the package requires but its
evaluators do not use, and `official_runner.OPTIONAL`.
"""
INSTALLED_FILE = "installed.json"
INSTALL_LINE = "cua setup osworld-evaluators"
_TIMEOUT_S = 300.0
_MEMORY_BYTES = 6 * 2**30
_FILE_BYTES = 2**30
_MAX_ANSWER_BYTES = 16 * 2**20
_MAX_STDERR_BYTES = 64 * 2**10
_PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestAddress:
    """Address of the guest for the evaluators.

    Attributes:
        host: Name or address of the guest.
        server_port: Port of the guest server.
        chromium_port: Debugging port of its browser.
        vlc_port: Port of VLC's web interface; 0 if it cannot be reached.
        screen_px: Width and height of the screen.
        token: Token that the guest server requires.
        password: Password of its user.
    """

    host: str
    server_port: int
    chromium_port: int
    vlc_port: int
    screen_px: tuple[int, int]
    token: str | None = None
    password: str = "password"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialEvaluators:
    """Installed evaluators.

    Attributes:
        python: Interpreter that runs them.
        metrics: Available functions.
        getters: Available kinds of results.
        missing: Missing packages that single functions need.
        packages: Versions of the installed packages.
        timeout_s: Maximum duration of a verdict.
    """

    python: Path
    metrics: frozenset[str]
    getters: frozenset[str]
    missing: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = _TIMEOUT_S

    def why_unsupported(self, task: TaskFile) -> str | None:
        """Return what the published package lacks for a task, in one clause; None if it lacks nothing."""
        for metric in task.metrics:
            if metric.function == INFEASIBLE:
                continue
            if metric.function not in self.metrics:
                return f"the function {metric.function}, which {PACKAGE} does not have"
            kinds = [str(config.get("type")) for config in (metric.result, metric.expected) if config is not None]
            for kind in kinds:
                if kind not in self.getters:
                    return f"the result {kind}, which {PACKAGE} does not have"
            for name in (metric.function, *kinds):
                if official_runner.NOT_WITHOUT.get(name) in self.missing:
                    return f"{name}, which needs the package {official_runner.NOT_WITHOUT[name]}"
        return None

    async def judge(self, task: TaskFile, context: EvalContext, guest: GuestAddress) -> OsworldVerdict:
        """Evaluate a feasible task, after its `postconfig`.

        Raises:
            EvaluationError: If the evaluators gave no verdict, crashed, or took too long.
            GuestAnswerError: If the guest gave the evaluators an invalid answer.
        """
        missing = self.why_unsupported(task)
        if missing is not None:
            raise EvaluationError(f"the task {task.key} needs {missing}")
        request = _request(task, context.cache_dir, guest)
        answer = await ask(self.python, request, folder=context.cache_dir, timeout_s=self.timeout_s, guest=guest.host)
        if answer.get("guest"):
            raise GuestAnswerError(f"the guest did not answer OSWorld's evaluator: {answer['guest']}")
        broken = [comparison["error"] for comparison in answer["comparisons"] if "error" in comparison]
        if broken:
            raise EvaluationError(f"OSWorld's evaluator broke: {broken[0]}")
        return OsworldVerdict.of(
            [float(comparison["score"]) for comparison in answer["comparisons"]],
            task.conjunction,
            upstream=answer["upstream"],
        )


def official_dir() -> Path:
    """Return the installation folder, a separate one for each list of packages."""
    import platformdirs

    digest = hashlib.sha256(json.dumps([PACKAGE, *REQUIREMENTS]).encode()).hexdigest()[:10]
    return platformdirs.user_data_path("k25", appauthor=False) / f"osworld-evaluators-{digest}"


def python_of(folder: Path) -> Path:
    """Return the Python of the virtual environment in `folder`."""
    return folder / "venv" / "bin" / "python"


def find_official(folder: Path | None = None) -> OfficialEvaluators | None:
    """Return the installed evaluators; None if they are missing or incomplete."""
    folder = folder or official_dir()
    if not os.access(python_of(folder), os.X_OK):
        return None
    try:
        installed = json.loads((folder / INSTALLED_FILE).read_text("utf-8"))
        return OfficialEvaluators(
            python=python_of(folder),
            metrics=frozenset(installed["metrics"]),
            getters=frozenset(installed["getters"]),
            missing=tuple(installed["missing"]),
            packages=dict(installed["packages"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _request(task: TaskFile, cache_dir: Path, guest: GuestAddress) -> dict[str, object]:
    return {
        "op": "judge",
        "guest": {
            "host": guest.host,
            "server_port": guest.server_port,
            "chromium_port": guest.chromium_port,
            "vlc_port": guest.vlc_port,
            "screen_px": guest.screen_px,
            "token": guest.token,
            "answers": guest_answers.__file__,
        },
        "password": guest.password,
        "cache_dir": str(cache_dir),
        "task_id": task.id,
        "instruction": task.instruction,
        "config": [{"type": step.kind, "parameters": dict(step.parameters)} for step in task.setup],
        "evaluator": {"func": [metric.function for metric in task.metrics], "conj": task.conjunction},
        "conj": task.conjunction,
        "is_list": len(task.metrics) > 1,
        "metrics": [
            {
                "function": metric.function,
                "result": dict(metric.result),
                "expected": dict(metric.expected) if metric.expected is not None else None,
                "options": dict(metric.options),
            }
            for metric in task.metrics
        ],
    }


async def ask(
    python: Path,
    request: Mapping[str, object],
    *,
    folder: Path | None = None,
    timeout_s: float = _TIMEOUT_S,
    guest: str = "127.0.0.1",
) -> Json:
    """Let the runner answer one request, in its own process, which is killed afterwards with its children.

    Args:
        python: Interpreter with the evaluators.
        request: See `official_runner`.
        folder: Writable folder, in addition to a scratch folder.
        timeout_s: Time limit of the process.
        guest: Host that is reached without a proxy.

    Raises:
        EvaluationError: If it does not answer; the message has the reason and the end of the output.
    """
    if not os.access(python, os.X_OK):
        raise EvaluationError(f"OSWorld's evaluators are not at {python}. Run: {INSTALL_LINE}")
    with tempfile.TemporaryDirectory(prefix="k25-evaluator-") as scratch:
        limits = {"memory_bytes": _MEMORY_BYTES, "file_bytes": _FILE_BYTES}
        script = Path(official_runner.__file__)
        argv = [str(python), "-I", "-B", str(script)]
        argv = [*_isolation(python, script, Path(scratch), folder), *argv]
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=_environment(scratch, guest),
                cwd=scratch,
                start_new_session=True,
            )
        except OSError as error:
            raise EvaluationError(f"OSWorld's evaluators cannot be started: {error}. Run: {INSTALL_LINE}") from error
        try:
            async with asyncio.timeout(timeout_s):
                answer, stderr = await _talk(process, json.dumps({**limits, **request}).encode())
        except TimeoutError as error:
            raise EvaluationError(f"OSWorld's evaluator took longer than {timeout_s:g} s, and was ended") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return _read_answer(answer, stderr, process.returncode)


async def _talk(process: asyncio.subprocess.Process, request: bytes) -> tuple[bytes, bytes]:
    """Return the response, and the end of the output."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr

    async def send() -> None:
        with contextlib.suppress(ConnectionError):
            stdin.write(request)
            await stdin.drain()
        stdin.close()

    async def tail() -> bytes:
        kept = b""
        while chunk := await stderr.read(2**16):
            kept = (kept + chunk)[-_MAX_STDERR_BYTES:]
        return kept

    async def answer() -> bytes:
        chunks, size = [], 0
        while chunk := await stdout.read(2**16):
            chunks.append(chunk)
            size += len(chunk)
            if size > _MAX_ANSWER_BYTES:
                raise EvaluationError(f"OSWorld's evaluator answers with more than {_MAX_ANSWER_BYTES} bytes")
        return b"".join(chunks)

    _, result, last_output = await asyncio.gather(send(), answer(), tail())
    await process.wait()
    return result, last_output


def _read_answer(answer: bytes, stderr: bytes, code: int | None) -> Json:
    try:
        value = json.loads(answer)
        if isinstance(value, dict):
            return value
    except (ValueError, RecursionError):
        pass
    lines = stderr.decode("utf-8", "replace").strip().splitlines() or ["no error output"]
    ended = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
    raise EvaluationError(f"OSWorld's evaluator {ended}: {lines[-1][:300]}")


def _environment(scratch: str, guest: str) -> dict[str, str]:
    """Return the environment variables: none of this process except the network settings."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    own = {"HOME": scratch, "TMPDIR": scratch, "NUMBA_CACHE_DIR": scratch, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    return {**kept, **own, "LANG": "C.UTF-8", "NO_PROXY": f"{guest},127.0.0.1,localhost"}


def _isolation(python: Path, script: Path, scratch: Path, folder: Path | None) -> Sequence[str]:
    """Return bubblewrap's arguments: read-only system, no home, two writable folders; empty if it does not work."""
    bubblewrap = _find_bubblewrap()
    if bubblewrap is None:
        return ()
    argv = [bubblewrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    home = Path.home()
    if home != Path("/"):
        argv += ["--tmpfs", str(home)]
    for place in (python.parents[1], python.resolve().parents[1], script, Path(guest_answers.__file__)):
        argv += ["--ro-bind", str(place), str(place)]
    for written in (scratch, folder):
        if written is not None:
            argv += ["--bind", str(written), str(written)]
    return [*argv, "--unshare-pid", "--unshare-ipc", "--new-session", "--die-with-parent", "--chdir", str(scratch)]


@functools.cache
def _find_bubblewrap() -> str | None:
    path = shutil.which("bwrap")
    if path is None:
        return None
    tried = [path, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
    done = subprocess.run(tried, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
    return path if done.returncode == 0 else None
