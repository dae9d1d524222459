"""Run OSWorld's own evaluators, unmodified, in the Python that they are installed in; a script, not for import.

It reads one JSON request from stdin and writes one JSON answer to stdout; output of the evaluators goes to stderr. It
imports no module of this project. Requests, by `op`:

    names    -> metrics, getters (offered by the package), missing (optional packages that are not installed)
    judge    -> comparisons, upstream: result of each comparison, and the score of upstream's loop; or guest:
                invalid responses of the guest
    metrics  -> results: plain calls of metrics on given values, for tests

Source: `DesktopEnv.evaluate` and `_set_evaluator_info` of xlang-ai/OSWorld, for the order of calls and what `env` has.
"""

import copy
import importlib
import importlib.util
import inspect
import io
import json
import math
import os
import resource
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

OPTIONAL = ("easyocr", "pydrive", "pydrive.auth", "pydrive.drive")
"""Packages that the evaluators import at the top but use in a few functions only, and that are too large to install for
those (torch, the client of all Google services).
"""
NOT_WITHOUT = {"compare_image_text": "easyocr", "googledrive_file": "pydrive"}
"""Functions and kinds of results that need one of them."""
_MAX_CHARS = 2000
_UNSET = object()


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.load(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"))
    _limit(request.get("memory_bytes"), request.get("file_bytes"))
    answer = {"names": _names, "judge": _judge, "metrics": _call_metrics}[request["op"]](request)
    json.dump(answer, answers)
    answers.close()
    os._exit(0)  # threads left by evaluators must not block the exit


def _limit(memory_bytes: int | None, file_bytes: int | None) -> None:
    for kind, most in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_FSIZE, file_bytes)):
        if most:
            resource.setrlimit(kind, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _names(request: Mapping[str, object]) -> dict[str, Any]:
    missing = _missing()
    metrics, getters = _load()
    return {
        "metrics": sorted(name for name, value in vars(metrics).items() if inspect.isfunction(value)),
        "getters": sorted(
            name.removeprefix("get_")
            for name, value in vars(getters).items()
            if inspect.isfunction(value) and name.startswith("get_")
        ),
        "missing": [name for name in missing if "." not in name],
    }


def _call_metrics(request: Mapping[str, Any]) -> dict[str, Any]:
    metrics, _ = _load()
    results: list[dict[str, Any]] = []
    for call in request["calls"]:
        try:
            value = getattr(metrics, call["function"])(*call["arguments"], **(call.get("options") or {}))
            results.append({"score": _number(value)})
        except Exception as error:  # third-party code may raise anything
            results.append({"error": _describe_error(error)})
    return {"results": results}


def _judge(request: Mapping[str, Any]) -> dict[str, Any]:
    metrics, getters = _load()
    watch = _Watch(request["guest"])
    if importlib.util.find_spec("requests") is not None:
        watch.begin()
    env = _make_env(request)
    comparisons = []
    loop = _UpstreamLoop(request["conj"], is_list=request["is_list"])
    for given in request["metrics"]:
        comparison = _compare(env, metrics, getters, given, loop)
        if watch.faults:
            return {"guest": "; ".join(watch.faults.values())[:_MAX_CHARS], "comparisons": [], "upstream": None}
        comparisons.append(comparison)
        score = comparison.get("score")
        ended = (0.0, 1.0)[request["conj"] == "or"]
        if "error" in comparison or score == ended:
            break
    return {"comparisons": comparisons, "upstream": loop.score(), "upstream_error": loop.error}


class _UpstreamLoop:
    """Simulation of upstream's loop over comparisons: a missing file reuses the previous result.

    Args:
        conjunction: `and` or `or`.
        is_list: True if the task has a list of functions.
    """

    def __init__(self, conjunction: str, *, is_list: bool) -> None:
        self.state: object = _UNSET
        self.error: str | None = None
        self._conjunction = conjunction
        self._is_list = is_list
        self._results: list[float] = []
        self._ended: float | None = None

    @property
    def goes_on(self) -> bool:
        return self._ended is None and self.error is None

    def missing(self, call: Callable[[object], object]) -> None:
        """Record a missing result; `call` compares the previous one in its place."""
        if not self.goes_on:
            return
        if self._conjunction == "and" or not self._is_list:
            self._ended = 0.0
        elif self.state is _UNSET:
            self.failed("the first file is missing, and upstream goes on without a result")
        else:
            try:
                self.add(_number(call(self.state)))
            except Exception as error:  # third-party code may raise anything
                self.failed(_describe_error(error))

    def add(self, score: float) -> None:
        if self.goes_on:
            if self._is_list and score == (0.0, 1.0)[self._conjunction == "or"]:
                self._ended = score
            self._results.append(score)

    def failed(self, error: str) -> None:
        if self.goes_on:
            self.error = error

    def score(self) -> float | None:
        if self.error is not None or self._ended is not None or not self._results:
            return None if self.error is not None else self._ended
        results = self._results
        return sum(results) / len(results) if self._conjunction == "and" else max(results)


def _compare(
    env: object, metrics: types.ModuleType, getters: types.ModuleType, given: Mapping[str, Any], loop: _UpstreamLoop
) -> dict[str, Any]:
    """Make one comparison: return its score, the missing file, or the error and its source."""
    stage = f"the getter {given['result'].get('type')}"

    def call(result: object) -> object:
        nonlocal stage
        arguments = [result]
        if given["expected"]:
            stage = f"the getter {given['expected'].get('type')} of what is expected"
            getter = getattr(getters, f"get_{given['expected'].get('type')}")
            arguments.append(getter(env, copy.deepcopy(given["expected"])))
        stage = f"the function {given['function']}"
        return getattr(metrics, given["function"])(*arguments, **(given["options"] or {}))

    try:
        getter = getattr(getters, f"get_{given['result'].get('type')}")
        try:
            result = getter(env, copy.deepcopy(given["result"]))
        except FileNotFoundError as error:
            loop.missing(call)
            return {"score": 0.0, "missing": _describe_error(error)}
        loop.state = result
        score = _number(call(result))
    except Exception as error:  # third-party code may raise anything
        traceback.print_exc()
        loop.failed(_describe_error(error))
        return {"error": f"{stage}: {_describe_error(error)}"}
    loop.add(score)
    return {"score": score}


def _number(value: object) -> float:
    if value is None or isinstance(value, str):
        raise TypeError(f"it gives {value!r:.100}, expected a number")
    number = float(value)  # type: ignore[arg-type]
    if not (math.isfinite(number) and 0.0 <= number <= 1.0):
        raise ValueError(f"it gives {number}, expected a number from 0 to 1")
    return number


def _make_env(request: Mapping[str, Any]) -> object:
    """Make the environment object for getters, like `DesktopEnv`; its controllers are upstream's own."""
    controllers = importlib.import_module("desktop_env.controllers.python")
    setup = importlib.import_module("desktop_env.controllers.setup")
    guest, cache_dir = request["guest"], request["cache_dir"]
    controller = controllers.PythonController(vm_ip=guest["host"], server_port=guest["server_port"])
    width, height = guest["screen_px"]
    setup_controller = setup.SetupController(
        vm_ip=guest["host"],
        server_port=guest["server_port"],
        chromium_port=guest["chromium_port"],
        vlc_port=guest["vlc_port"],
        cache_dir=cache_dir,
        client_password=request["password"],
        screen_width=width,
        screen_height=height,
    )

    class Env(types.SimpleNamespace):
        @property
        def vm_platform(self) -> object:
            return self.controller.get_vm_platform()

        @property
        def vm_screen_size(self) -> object:
            return self.controller.get_vm_screen_size()

    return Env(
        vm_ip=guest["host"],
        server_port=guest["server_port"],
        chromium_port=guest["chromium_port"],
        vlc_port=guest["vlc_port"],
        controller=controller,
        setup_controller=setup_controller,
        cache_dir=cache_dir,
        current_use_proxy=False,
        enable_proxy=False,
        client_password=request["password"],
        config=request["config"],
        evaluator=request["evaluator"],
        task_id=request["task_id"],
        instruction=request["instruction"],
        action_history=[],
    )


class _Watch:
    """Hook that adds the guest's token to requests to the guest, and records invalid responses.

    Upstream's client treats an error of the guest as an empty result, which its functions score 0.

    Attributes:
        faults: Fault of the last response, by request.
    """

    def __init__(self, guest: Mapping[str, Any]) -> None:
        self.faults: dict[tuple[str, str, bytes], str] = {}
        self._base = f"http://{guest['host']}:{guest['server_port']}".lower()  # as in requests
        self._token = guest["token"]
        self._answers = _load_answers(guest["answers"])

    def begin(self) -> None:
        """Start to watch the requests of upstream's client."""
        requests = importlib.import_module("requests")
        plain = requests.Session.send

        def send(session: object, prepared: Any, **given: object) -> Any:
            if not prepared.url.startswith(f"{self._base}/"):
                return plain(session, prepared, **given)
            if self._token:
                prepared.headers["Authorization"] = f"Bearer {self._token}"
            path = prepared.path_url
            key = prepared.method, path, repr(prepared.body).encode()
            try:
                response = plain(session, prepared, **{**given, "allow_redirects": False})
            except requests.RequestException as error:
                self.faults[key] = f"no answer to {path}: {_describe_error(error)}"
                raise
            self._note(key, path, response)
            return response

        requests.Session.send = send

    def _note(self, key: tuple[str, str, bytes], path: str, response: Any) -> None:
        status, data = response.status_code, response.content
        headers = {name.lower(): value for name, value in response.headers.items()}
        fault = self._answers.find_fault(path, status, headers, data)
        self.faults.pop(key, None)
        if fault is not None and not self._answers.is_absent(path, status, data):
            self.faults[key] = f"the guest answered {path} with {fault.text}"


def _load_answers(path: str) -> types.ModuleType:
    """Load `guest_answers` by path: no other module of this project can be imported here."""
    spec = importlib.util.spec_from_file_location("guest_answers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load() -> tuple[types.ModuleType, types.ModuleType]:
    """Import upstream's modules; a missing optional package is replaced by a stub that raises on use."""
    for name in _missing():
        sys.modules[name] = _Absent(name)
    evaluators = "desktop_env.evaluators"
    return importlib.import_module(f"{evaluators}.metrics"), importlib.import_module(f"{evaluators}.getters")


class _Absent(types.ModuleType):
    """Stub module with any attribute; calling one reports the missing package."""

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)

        def refuse(*_: object, **__: object) -> NoReturn:
            raise ImportError(f"the package {self.__name__} is not installed with the evaluators")

        return refuse


def _missing() -> list[str]:
    """Return the missing packages of `OPTIONAL`."""
    tops = {name.partition(".")[0] for name in OPTIONAL}
    absent = {top for top in tops if importlib.util.find_spec(top) is None}
    return [name for name in OPTIONAL if name.partition(".")[0] in absent]


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MAX_CHARS]


if __name__ == "__main__":
    main()
