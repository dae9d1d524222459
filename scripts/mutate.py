"""Break one guard at a time in a copy of the project and see whether the module's own tests notice.

python scripts/mutate.py [MODULE ...] [--each 3] [--seed 0] [--tests PATH ...] [--list]

A mutation is a comparison turned or made off by one, a guard (an `if` that ends in raise, return, continue or break)
taken out, `and` for `or`, a `not` dropped, a limit made a thousand times as high, `min` for `max`, an order dropped or
turned, or True for False. Each is applied to a copy of the tracked files, never to the working tree. A mutation that
no test notices survives: the test is missing, or the mutation changes nothing that can be seen.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT_NAME = re.compile(r"_?[A-Z][A-Z0-9_]+$")
FACTOR = 1000

TARGETS: dict[str, tuple[str, ...]] = {
    "cua/gui_agent/agent.py": ("tests/cua/gui_agent/test_agent.py", "tests/cua/run/test_control.py"),
    "cua/gui_agent/decide.py": ("tests/cua/gui_agent/test_agent.py", "tests/cua/run/test_caps.py"),
    "cua/run/budget.py": ("tests/cua/run/test_caps.py",),
    "cua/gui_agent/episode.py": ("tests/cua/gui_agent/test_loop_detection.py",),
    "cua/secrets.py": ("tests/cua/test_secrets.py",),
    "cua/redaction.py": ("tests/cua/test_masking.py",),
    "cua/models/gate.py": ("tests/cua/models/test_retry.py",),
    "cua/trajectory/writer.py": ("tests/cua/trajectory/test_trajectory_writer.py",),
    "cua/trajectory/load.py": ("tests/cua/trajectory/test_trajectory_load.py",),
    "cua/trajectory/disk.py": (
        "tests/cua/trajectory/test_trajectory_load.py",
        "tests/cua/trajectory/test_trajectory_writer.py",
    ),
    "cua/guard/guard.py": ("tests/cua/guard",),
    "cua/guard/risk.py": ("tests/cua/guard",),
    "cua/guard/rules.py": ("tests/cua/guard/test_rules.py",),
    "cua/gui_agent/interpreter/limits.py": ("tests/cua/gui_agent/interpreter/test_limits.py",),
    "cua/gui_agent/interpreter/values.py": (
        "tests/cua/gui_agent/interpreter/test_refusals.py",
        "tests/cua/gui_agent/interpreter/test_language.py",
    ),
    "cua/gui_agent/interpreter/coordinates.py": ("tests/cua/gui_agent/interpreter/test_coordinates.py",),
    "cua/gui_agent/protocol/parse.py": ("tests/cua/gui_agent/protocol",),
    "cua/gui_agent/protocol/history.py": ("tests/cua/gui_agent/protocol",),
    "envs/browser/navigation.py": ("tests/envs/browser/test_browser_texts.py",),
    "envs/browser/domains.py": ("tests/envs/test_domain_rules.py",),
    "envs/browser/tabs.py": ("tests/envs/browser/test_browser_tabs.py",),
    "envs/browser/overlays/dialog_box.py": ("tests/envs/browser/test_browser_dialogs.py",),
    "envs/browser/settle.py": ("tests/envs/browser/test_interrupts.py",),
    "visual_tools/sandbox/collect.py": ("tests/visual_tools/sandbox/test_collect.py",),
    "visual_tools/regions/counting.py": (
        "tests/visual_tools/regions/test_separate.py",
        "tests/visual_tools/regions/test_counting.py",
    ),
    "visual_tools/regions/components.py": ("tests/visual_tools/regions/test_components.py",),
    "visual_tools/video/cuts.py": ("tests/visual_tools/video/test_cuts.py",),
    "visual_tools/ocr.py": ("tests/visual_tools/test_text_directions.py",),
    "model_runtime/engine/scheduler.py": ("tests/model_runtime/engine/test_scheduler.py",),
    "model_runtime/engine/kv_cache.py": ("tests/model_runtime/engine/test_kv_cache.py",),
    "model_runtime/engine/output_text.py": ("tests/model_runtime/engine/test_output_text.py",),
    "model_runtime/server/body.py": ("tests/model_runtime/server/test_body.py",),
    "model_runtime/engine/engine.py": (
        "tests/model_runtime/engine/test_engine.py",
        "tests/model_runtime/engine/test_scheduler.py",
    ),
    "model_runtime/engine/thread.py": ("tests/model_runtime/engine/test_thread.py",),
    "model_runtime/server/app.py": ("tests/model_runtime/server/test_middleware.py",),
}
"""Modules full of guards, with the quick tests that are theirs."""

SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change of a module.

    Attributes:
        module: Path from the project's root.
        line: Where, from 1.
        kind: What sort of change.
        before: The code that is replaced.
        after: What stands there instead.
        start: Where `before` begins in the module, in bytes.
    """

    module: str
    line: int
    kind: str
    before: str
    after: str
    start: int

    def apply(self, source: bytes) -> bytes:
        """The module with this change."""
        return source[: self.start] + self.after.encode() + source[self.start + len(self.before.encode()) :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:70] for text in (self.before, self.after))
        return f"{self.module}:{self.line} {self.kind}: {before}  ->  {after}"


def find_mutations(module: str, source: bytes) -> list[Mutation]:
    """All mutations of a module, in the order of its lines."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for kind, old, new in _changes_of(node, is_at_top=node in tree.body):
            begin = starts[old.lineno - 1] + old.col_offset
            end = starts[(old.end_lineno or old.lineno) - 1] + (old.end_col_offset or 0)
            text = ast.unparse(new)
            found.append(
                Mutation(
                    module=module,
                    line=old.lineno,
                    kind=kind,
                    before=source[begin:end].decode(),
                    after=text if isinstance(new, ast.Constant | ast.Name) else f"({text})",
                    start=begin,
                )
            )
    return sorted(found, key=lambda one: (one.start, one.kind, one.after))


def _changes_of(node: ast.AST, *, is_at_top: bool) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """For each change of one node: its kind, the expression that goes, and the one that comes."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield "comparison", node, _with(node, ops=[SWAPS[type(op)]()])
            if isinstance(node.comparators[0], ast.Constant) and type(node.comparators[0].value) is int:
                nudged = ast.Constant(node.comparators[0].value + 1)
                yield "off by one", node, _with(node, comparators=[nudged])
        case ast.BoolOp():
            yield "and/or", node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node, node.operand
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            yield "min/max", node.func, ast.Name("max" if name == "min" else "min")
        case ast.Call(func=ast.Name(id="sorted")):
            yield "order", node, ast.Call(ast.Name("list"), node.args, [])
        case ast.keyword(arg="reverse", value=ast.Constant() as value):
            yield "order", value, ast.Constant(not value.value)
        case ast.Lambda(body=ast.UnaryOp(op=ast.USub()) as body):
            yield "order", body, body.operand
        case ast.Return(value=ast.Constant(value=bool()) as value):
            yield "result", value, ast.Constant(not value.value)
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return | ast.Continue | ast.Break):
        yield "guard", node.test, ast.Constant(False)
    if is_at_top and isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        number = node.value.value
        if isinstance(target, ast.Name) and LIMIT_NAME.match(target.id) and isinstance(number, int | float):
            yield "limit", node.value, ast.Constant(number * FACTOR)


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


class Scratch:
    """A copy of the tracked files in a folder of its own, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, names.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def run(self, tests: tuple[str, ...], timeout_s: float) -> str:
        """How the tests end: "passed", "failed" or "timeout". They run in a fork, which has what they need loaded."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = self._run_here(tests)
            finally:  # whatever happens, the fork does not go on as if it were this process
                os._exit(code)
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return "passed" if status == 0 else "failed"
            time.sleep(0.02)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "timeout"

    def _run_here(self, tests: tuple[str, ...]) -> int:
        os.setsid()
        os.chdir(self.folder)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.environ["PYTHONPATH"] = sys.path[0] = str(self.folder)
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))

    def try_out(self, mutation: Mutation, tests: tuple[str, ...], timeout_s: float) -> str:
        """What became of a mutation: "killed", "timeout" or "SURVIVED"."""
        path = self.folder / mutation.module
        source = path.read_bytes()
        try:
            self._write(path, mutation.apply(source))
            ended = self.run(tests, timeout_s)
        finally:
            self._write(path, source)
        return {"passed": "SURVIVED", "failed": "killed"}.get(ended, ended)

    def _write(self, path: Path, source: bytes) -> None:
        path.write_bytes(source)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()  # it goes by size and second, which two mutations may share


def preload() -> None:
    """Import what tests take long to import; nothing of the project, whose modules are those of the copy."""
    for name in ("hypothesis", "numpy", "pydantic", "pytest_asyncio", "httpx", "openai", "PIL.Image", "cv2", "torch"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main() -> int:
    """Try mutations and print what became of each; 1 when one survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="without: those of the table in this script")
    parser.add_argument("--each", type=int, default=3, help="mutations of each module")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--tests", nargs="+", default=(), help="instead of the table's")
    parser.add_argument(
        "--timeout", type=float, default=20.0, help="seconds, added to three times the duration of all tests"
    )
    parser.add_argument("--list", action="store_true", help="only say which mutations there are")
    arguments = parser.parse_args()
    preload()
    counts = {"killed": 0, "timeout": 0, "SURVIVED": 0}
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        scratch = Scratch(Path(folder))
        for module in arguments.modules or TARGETS:
            mutations = find_mutations(module, (scratch.folder / module).read_bytes())
            chosen = random.Random(f"{arguments.seed} {module}").sample(mutations, min(arguments.each, len(mutations)))
            chosen.sort(key=lambda one: one.start)
            if arguments.list:
                print(*mutations, sep="\n")
                continue
            tests = tuple(arguments.tests) or TARGETS[module]
            started = time.monotonic()
            if scratch.run(tests, 600.0) != "passed":
                print(f"{module}: its tests fail without any mutation")
                continue
            timeout_s = arguments.timeout + 3 * (time.monotonic() - started)
            for mutation in chosen:
                outcome = scratch.try_out(mutation, tests, timeout_s)
                counts[outcome] += 1
                print(f"{outcome:8} {mutation}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["SURVIVED"] else 0


if __name__ == "__main__":
    sys.exit(main())
