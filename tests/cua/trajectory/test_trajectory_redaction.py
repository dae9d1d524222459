import json
from dataclasses import replace
from pathlib import Path

import pytest

from cua.messages import Reply, ToolCall
from cua.run.end import End
from cua.secrets import Secret, Secrets
from cua.step import Turn
from cua.trajectory import RunHeader, TrajectoryWriter, load_run
from cua.trajectory.report import write_report
from envs import Dialog, Hotkey, PressKey, Tab, Terminate, TypeText
from tests.cua.trajectory import samples

SECRET = "Hunter2 & süß/漢"
ENCODED = ("Hunter2%20%26%20s%C3%BC%C3%9F%2F%E6%BC%A2", "Hunter2+%26+s%C3%BC%C3%9F%2F%E6%BC%A2")


def everywhere(run_dir: Path) -> list[tuple[str, bytes]]:
    """Name and content of all files of a run, the folder's own name too."""
    return [(run_dir.name, b""), *((path.name, path.read_bytes()) for path in run_dir.rglob("*") if path.is_file())]


@pytest.mark.parametrize("secret", [SECRET, *ENCODED])
def test_a_secret_stands_in_no_file_of_the_run(tmp_path: Path, secret: str) -> None:
    redact = Secrets({"pin": Secret(value=SECRET)}).redact
    said = f"before {secret} after"
    observation = samples.make_observation(
        1,
        url=f"http://x/login?password={secret}&b=1",
        title=said,
        tabs=(Tab(title=said, url=said, is_active=True),),
        dialog=Dialog(kind="prompt", message=said, default_text=said),
        last_action_error=said,
        notes=(said, said),
        a11y_tree=said,
    )
    step = samples.make_step(
        1,
        observation=observation,
        reply=Reply(
            content=said, reasoning=said, tool_calls=(ToolCall(id=said, name=said, arguments=said),), model=said
        ),
        turn=Turn(thought=said, action_text=said, code=said),
        actions=(
            TypeText(text=said),
            PressKey(key=said),
            Hotkey(keys=(said,)),
            Terminate(status="success", answer=said),
        ),
        error=said,
        timings={said: 1.0},
    )
    free = {said: [said, {"deep": (said,)}], "path": Path("/tmp") / said.replace("/", "%2F")}
    header = RunHeader(
        instruction=said, env=said, model=said, env_options=free, task=free, protocol=free, sampling=free, limits=free,
        settings=free, versions={said: said},
    )  # fmt: skip
    with TrajectoryWriter.create(tmp_path, header, redact) as writer:
        samples.write_step(writer, step, until="acting")
        writer.note("guard", said, rule=said, more=free)
        writer.acted(step, 0.0, free)
        writer.acted(replace(step, index=2, turn=replace(step.turn, thought=said + said)), 0.0, free)
        writer.ended(replace(samples.ENDED, end=End(status="failed", reason=said, answer=said), run_dir=said))
    with TrajectoryWriter.reopen(writer.run_dir, redact) as again:
        again.note("info", said)
    write_report(writer.run_dir)
    for name, content in everywhere(writer.run_dir):
        for form in (SECRET, *ENCODED, json.dumps(SECRET)[1:-1], "Hunter2"):
            assert form not in name and form.encode() not in content, f"{form!r} stands in {name}"
    record = load_run(writer.run_dir)
    assert record.steps[0].actions[0] == TypeText(text="before {{pin}} after")
    assert record.steps[0].observation.url == "http://x/login?password={{pin}}&b=1"


def test_texts_without_a_secret_stay_as_they_are(tmp_path: Path) -> None:
    redact = Secrets({"pin": Secret(value=SECRET)}).redact
    step = samples.make_step(1, observation=samples.make_observation(1, url="http://x/a%20b?c=d+e%26"))
    with TrajectoryWriter.create(tmp_path, samples.HEADER, redact) as writer:
        samples.write_step(writer, step)
    assert load_run(writer.run_dir).steps == (step,)
