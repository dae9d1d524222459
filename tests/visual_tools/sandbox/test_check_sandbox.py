"""Checks of sandboxes: what holds passes, and every check can fail."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.ordinary_user import ROOT, as_ordinary_user, find_obstacle
from tests.visual_tools.sandbox.attacks import ALL_CHECKS
from tests.visual_tools.sandbox.open_sandbox import FakeSandbox, OpenSandbox
from visual_tools.sandbox import Backend, Sandbox
from visual_tools.sandbox.backends import describe_backends
from visual_tools.sandbox.check.checks import CHECKS, check_sandbox
from visual_tools.sandbox.check.context import CheckOutcome, SandboxCheck
from visual_tools.sandbox.contract import KernelMaker, Status

OPEN_TO_ANYBODY = {
    "files outside the working folder cannot be read",
    "home folders do not show what is in them",
    "symbolic links out of the folder lead nowhere",
    "the environment of no process shows the secrets of the parent",
    "the parent's environment variables are not handed in",
    "processes outside are not seen",
    "no descriptor of the parent is inherited",
    "folders of other kernels cannot be read",
    "nothing is written to this machine's folders for temporary files, home and run",
    "folders of other kernels cannot be written",
    "files outside cannot be changed, cut, moved or removed",
    "modes, owners, times and attributes of files outside cannot be changed",
    "no TCP connection to this machine, IPv4 or IPv6, loopback or outer address",
    "no UDP message to this machine",
    "no name is looked up",
    "Unix sockets of this machine cannot be reached by path",
    "abstract Unix sockets of this machine cannot be reached",
    "programs started by a cell have no network either",
    "no sockets but Unix and internet ones can be made",
    "network interfaces of this machine are not seen",
    "signals do not reach processes outside",
    "signals do not go out through the owner of a pipe",
    "limits of other processes cannot be changed",
    "priorities and processors of other processes cannot be changed",
    "no_new_privs is set: setuid programs have no power",
    "the layout of memory cannot be made predictable",
    "nothing stays in this machine's shared memory and message queues",
    "the line of another kernel cannot be joined",
    "what others do with files cannot be watched",
    "what names this machine, this start of it and its folders is hidden",
}
"""Attacks that succeed for an ordinary user where nothing isolates, on any Linux."""

OPEN_TO_ROOT = {
    "password files and private keys cannot be read",
    "hard links to files outside cannot be made",
    "roots and current folders of other processes lead nowhere",
    "the memory of other processes cannot be opened",
    "system folders cannot be written",
    "modes of programs and libraries cannot be changed",
    "raw sockets cannot be made",
    "other processes cannot be traced",
    "the memory of other processes cannot be read or written",
    "new namespaces cannot be made or entered",
    "nothing can be mounted",
    "a kernel has no capability, is not root and cannot become it",
}
"""Attacks that succeed for root besides, unless this machine is itself a container without capabilities."""

WEAKNESSES_OF_LANDLOCK = frozenset(
    {
        "threads and processes of Python's own pools work",  # their semaphores lie in /dev/shm
        "a kernel has no capability, is not root and cannot become it",  # it keeps the user who started it
    }
)


def failed(outcomes: list[CheckOutcome]) -> set[str]:
    return {outcome.name for outcome in outcomes if not outcome.passed}


def is_gentle_attack(check: SandboxCheck) -> bool:
    return check.kind == "attack" and check.place == "shared"


def has_capabilities() -> bool:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    effective = next(line for line in lines if line.startswith("CapEff"))
    sys_admin_and_ptrace = 1 << 21 | 1 << 19
    return os.geteuid() == 0 and int(effective.split()[1], 16) & sys_admin_and_ptrace == sys_admin_and_ptrace


@pytest.fixture(scope="module")
def backends() -> dict[Backend, str]:
    return {report.backend: "" if report.works else report.reason for report in describe_backends()}


def test_there_are_enough_checks_and_each_has_its_own_name() -> None:
    attacks = [check for check in ALL_CHECKS if check.kind == "attack"]
    assert len(ALL_CHECKS) >= 45
    assert len(attacks) >= 30
    assert len({check.name for check in ALL_CHECKS}) == len(ALL_CHECKS)
    assert {check.kind for check in CHECKS} == {"attack", "limit"}


@pytest.mark.slow
async def test_no_check_passes_with_every_fake() -> None:
    """One fake claims that every attempt works, one ends every cell in a death that nobody explains."""

    async def passing(status: Status, *, claims: bool) -> set[str]:
        async def make() -> KernelMaker:
            return FakeSandbox(status, claims=claims)

        outcomes = await check_sandbox(make, checks=ALL_CHECKS)
        assert [outcome.name for outcome in outcomes] == [check.name for check in ALL_CHECKS]
        return {outcome.name for outcome in outcomes} - failed(outcomes)

    claimed, dead = await asyncio.gather(passing("ok", claims=True), passing("died", claims=False))
    assert claimed & dead == set()


@pytest.mark.slow
async def test_gentle_attacks_succeed_where_nothing_isolates() -> None:
    async def make() -> KernelMaker:
        return OpenSandbox()

    succeeded = failed(await check_sandbox(make, checks=[check for check in ALL_CHECKS if is_gentle_attack(check)]))
    expected = OPEN_TO_ANYBODY | (OPEN_TO_ROOT if has_capabilities() else set())
    assert expected - succeeded == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "weaknesses"),
    [("bubblewrap", frozenset()), pytest.param("landlock", WEAKNESSES_OF_LANDLOCK, marks=pytest.mark.slow)],
)
async def test_a_backend_holds_against_gentle_checks(
    backends: dict[Backend, str], backend: Backend, weaknesses: frozenset[str]
) -> None:
    """The others take longer: `test_the_best_backend_holds_against_everything` makes them."""
    if backends[backend]:
        pytest.skip(backends[backend])
    said: list[str] = []
    checks = [check for check in ALL_CHECKS if check.place == "shared"]
    outcomes = await check_sandbox(lambda: Sandbox.start(backend), say=said.append, checks=checks)
    fell = {outcome.name: outcome.detail for outcome in outcomes if not outcome.passed}
    assert {name: detail for name, detail in fell.items() if name not in weaknesses} == {}
    assert len(said) == len(checks)


@pytest.mark.slow
@pytest.mark.parametrize("user", ["this one", "an ordinary one"])
def test_the_best_backend_holds_against_everything(backends: dict[Backend, str], user: str) -> None:
    if backends["bubblewrap"]:
        pytest.skip(backends["bubblewrap"])
    if user == "an ordinary one" and (obstacle := find_obstacle()):
        pytest.skip(obstacle)
    with tempfile.TemporaryDirectory(prefix="k") as name:
        home = Path(name) / "home"
        home.mkdir()
        Path(name).chmod(0o755)
        home.chmod(0o777)
        prefix = as_ordinary_user(Path(name)) if user == "an ordinary one" else []
        argv = [*prefix, sys.executable, "-m", "tests.visual_tools.sandbox.attacks"]
        environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == {"made": len(ALL_CHECKS), "fell": {}}


async def test_a_sandbox_that_is_given_stays_open() -> None:
    class Counted(FakeSandbox):
        num_closed = 0

        async def close(self) -> None:
            self.num_closed += 1

    maker = Counted("ok", claims=True)
    checks = [check for check in CHECKS if check.name == "files outside the working folder cannot be read"]
    (outcome,) = await check_sandbox(maker, checks=checks)
    assert (outcome.kind, outcome.passed, maker.num_closed) == ("attack", False, 0)
    assert "worked: claimed" in outcome.detail
