"""`--resume last` means the newest run of the command, and says which newer one it passes over."""

from dataclasses import replace
from pathlib import Path

import pytest

from apps.cli.task import own_run
from apps.video_showcase.run import PLAN
from cua.errors import TrajectoryError
from tests.cua.trajectory import samples

COMMANDS = ("task", "ask", "swarm", "video")


def run_of(runs_dir: Path, command: str, day: int) -> Path:
    kind = {} if command == "task" else {"env": "tools"}
    profile = "images" if command == "ask" else "swarm"
    started_at = samples.HEADER.started_at + 86_400 * day
    header = replace(samples.HEADER, started_at=started_at, protocol={"profile": profile}, **kind)
    run_dir = samples.write_run(runs_dir, header=header)
    if command == "video":
        (run_dir / PLAN).touch()
    return run_dir


@pytest.mark.parametrize("newest", COMMANDS)
@pytest.mark.parametrize("wanted", COMMANDS)
def test_last_of_another_command_is_named_with_the_command_that_goes_on_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: str, newest: str
) -> None:
    name = run_of(tmp_path, newest, 2).name
    advice = f"the newest run, {name}, is of `cua {newest}`; resume it with: cua {newest} --resume {name}"
    if wanted == newest:
        assert own_run("last", {"runs_dir": tmp_path}, wanted).name == name
        assert capsys.readouterr().err == f"last is {name}\n"
        return
    with pytest.raises(TrajectoryError) as error:
        own_run("last", {"runs_dir": tmp_path}, wanted)
    assert str(error.value).splitlines()[1:] == [advice]
    older = run_of(tmp_path, wanted, 1)
    run_of(tmp_path, next(command for command in COMMANDS if command not in (wanted, newest)), 0)
    assert own_run("last", {"runs_dir": tmp_path}, wanted) == older
    assert capsys.readouterr().err.splitlines() == [f"last is {older.name}", advice]
