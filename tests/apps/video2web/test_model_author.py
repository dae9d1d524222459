"""A model that repairs what a comparison names: in the real sandbox, over a real streaming server, and killed."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from apps.video2web.build import SiteEvaluator, build
from apps.video2web.edit import edit_site
from apps.video2web.model_author import ModelAuthor
from apps.video2web.report import write_build_report
from apps.video2web.rounds import BuildFolder, BuildRequest
from apps.video2web.score import read_reference
from apps.video2web.site_files import read_site, write_site
from cua.messages import ImagePart, Message, Reply, ToolCall
from cua.models.scripted import ScriptedModel
from tests.apps.video2web.test_build import DRAFT, GOOD, SIZE, WORSE, Scripted
from tests.fake_openai import FakeOpenAI, FunctionModel
from visual_tools.images.files import save_image
from visual_tools.sandbox import KernelMaker

pytestmark = pytest.mark.asyncio(loop_scope="session")
MISSING = re.compile(r"missing: the text '(.*?)' at")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def build_request(evaluator: SiteEvaluator) -> BuildRequest:
    shown = await evaluator.render({"index.html": GOOD.encode()}, "index.html", SIZE)
    return BuildRequest(pages=(read_reference(shown.image, "page.png"),), viewport_px=SIZE, goal=0.999, max_rounds=4)


def _write(html: str) -> Reply:
    arguments = json.dumps({"action": "write", "path": "site/index.html", "content": html})
    return Reply(
        content="", tool_calls=(ToolCall(id="1", name="files", arguments=arguments),), finish_reason="tool_calls"
    )


def _call(name: str, **arguments: str) -> Reply:
    return Reply(
        content="",
        tool_calls=(ToolCall(id="1", name=name, arguments=json.dumps(arguments)),),
        finish_reason="tool_calls",
    )


class Repairing:
    """Does something bad first, then compares, and puts back what the comparison names."""

    def __init__(self) -> None:
        self.page = DRAFT
        self.compared: list[str] = []
        self.num_images = 0

    def __call__(self, messages: Sequence[Message]) -> Reply:
        rounds = sum("Change the files so that less differs" in message.text for message in messages)
        last = messages[-1]
        self.num_images = max(self.num_images, sum(isinstance(part, ImagePart) for part in last.parts))
        if last.role == "user":
            return _write(WORSE) if rounds == 1 else _call("compare_site")
        if last.name == "compare_site" or "score 0" in last.text:
            self.compared.append(last.text)
            missing = MISSING.findall(last.text)
            if missing:
                self.page += "".join(f"<p>{text.capitalize()}</p>" for text in missing)
            else:
                self.page = self.page.replace("#834", "#234")
            return _write(self.page)
        return Reply(content=f"Round {rounds} is done.\nMore words.")


async def _draft(folder: BuildFolder, build_request: BuildRequest, evaluator: SiteEvaluator) -> None:
    folder.begin(build_request, {})
    first = BuildRequest(pages=build_request.pages, viewport_px=SIZE, goal=1, max_rounds=0)
    await build(folder, first, Scripted([DRAFT]), evaluator, lambda line: None)


@pytest.mark.long
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_model_repairs_what_the_comparison_names(
    evaluator: SiteEvaluator, build_request: BuildRequest, sandbox: KernelMaker, tmp_path: Path, is_streamed: bool
) -> None:
    folder = BuildFolder(tmp_path / "build")
    await _draft(folder, build_request, evaluator)
    repairing = Repairing()
    with FakeOpenAI(repairing) as server:
        given = (
            {"model": "fake", "base_url": server.base_url, "api_key": "x"}
            if is_streamed
            else {"model": FunctionModel(repairing)}
        )
        author = ModelAuthor(evaluator, sandbox=sandbox, runs_dir=tmp_path / "runs", **given)
        try:
            made = await build(folder, build_request, author, evaluator, lambda line: None)
        finally:
            await author.close()
    assert [each["verdict"] for each in made.rounds] == ["kept", "rolled back", "kept", "kept"]
    assert made.is_goal_met
    assert made.rounds[1]["said"] == "Round 1 is done."
    assert "missing: the text 'we grow two hundred kinds of plants.'" in repairing.compared[0]
    assert len(repairing.compared) == 2
    assert repairing.num_images >= 2
    assert b"#234" in folder.site(3)["index.html"]
    assert "trajectory.jsonl" in os.listdir(made.rounds[1]["run"])  # noqa: PTH208
    if is_streamed:
        assert {tool["function"]["name"] for tool in server.chats[0].body["tools"]} >= {
            "compare_site",
            "ipython",
            "files",
        }
        assert server.chats[0].body["stream"] is True


HOSTILE = {
    "script": ("<script>for(;;);</script>", "does not come to rest"),
    "network": ("<img src=http://127.0.0.1:9/x.png><script>fetch('file:///etc/passwd')</script>", "not loaded"),
    "alert": ("<script>alert(1);confirm(2);prompt(3)</script><p>We grow two hundred kinds of plants.", ""),
    "huge": ("<div style='height:900000px;width:90000px'>x</div>", "px wider than its window|does not come to rest"),
    "redirect": ("<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>", ""),
}


@pytest.mark.slow
async def test_hostile_pages_cost_their_round_only(
    evaluator: SiteEvaluator, build_request: BuildRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.video2web.render._RENDER_TIMEOUT_S", 4.0)
    for name, (html, line) in HOSTILE.items():
        folder = BuildFolder(tmp_path / name)
        folder.begin(build_request, {})
        author = Scripted([DRAFT, DRAFT + html, GOOD])
        made = await asyncio.wait_for(build(folder, build_request, author, evaluator, lambda line: None), 60)
        assert made.is_goal_met, name
        assert re.search(line, "\n".join(made.rounds[1]["findings"])), name


@pytest.mark.long
async def test_a_site_that_code_has_tampered_with_is_not_followed(
    evaluator: SiteEvaluator, build_request: BuildRequest, sandbox: KernelMaker, tmp_path: Path
) -> None:
    folder = BuildFolder(tmp_path / "build")
    await _draft(folder, build_request, evaluator)
    secret = tmp_path / "secret.html"
    secret.write_text(GOOD)

    def answer(messages: Sequence[Message]) -> Reply:
        if messages[-1].role == "user":
            return _call("shell", command=f"cd site && rm index.html && ln -s {secret} index.html; cd .. && ls -l site")
        return Reply(content="Linked.")

    author = ModelAuthor(evaluator, model=FunctionModel(answer), sandbox=sandbox, runs_dir=tmp_path / "runs")
    try:
        made = await build(folder, build_request, author, evaluator, lambda line: None)
    finally:
        await author.close()
    assert [each["verdict"] for each in made.rounds] == ["kept", "failed", "failed"]
    assert "has no index.html" in made.rounds[1]["said"]
    assert secret.read_text() == GOOD


@pytest.mark.long
async def test_a_sentence_changes_a_site_and_what_breaks_it_is_taken_back(
    evaluator: SiteEvaluator, sandbox: KernelMaker, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    write_site({"index.html": GOOD.encode()}, site)
    sticky = GOOD.replace("header{", "header{position:sticky;top:0;")
    answers = [_write(GOOD + "<script>nothing.there()</script>"), Reply(content="Broke it."), _write(sticky)]
    model = ScriptedModel([*answers, Reply(content="The header is sticky.")])
    author = ModelAuthor(evaluator, model=model, sandbox=sandbox, runs_dir=tmp_path / "runs")
    folder, said = BuildFolder(tmp_path / "edit"), list[str]()
    try:
        made = await edit_site(
            site, "make the header sticky", folder, author, evaluator, viewport_px=SIZE, say=said.append
        )
    finally:
        await author.close()
    assert [each["verdict"] for each in made.rounds] == ["kept", "rolled back", "kept"]
    assert "the browser complains: script error: nothing is not defined" in said[0]
    assert read_site(site) == {"index.html": sticky.encode()}
    assert "make the header sticky" in model.received[0][-1].text
    assert "was taken back" in model.received[2][-1].text
    assert made.is_goal_met
    assert write_build_report(folder, made.reason).stat().st_size > 5000


@pytest.mark.slow
async def test_the_command_goes_on_after_a_kill(evaluator: SiteEvaluator, tmp_path: Path) -> None:
    page = GOOD.replace("<p>", "<p style='margin-bottom:140px'>")
    shown = await evaluator.render({"index.html": page.encode()}, "index.html", SIZE)
    save_image(shown.image, tmp_path / "page.png")
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answer(messages: Sequence[Message]) -> Reply:
        loop.call_soon_threadsafe(seen.set)
        rounds = sum("Change the files so that less differs" in message.text for message in messages)
        if "taken back" in messages[-1].text or rounds > 1:
            time.sleep(1.5)
        if messages[-1].role == "user":
            return _call("shell", command=f"printf 'body{{min-height:%spx}}' {shown.image.shape[0]} >> site/style.css")
        return Reply(content="Made the page higher.")

    with FakeOpenAI(answer) as server:
        words = ["web", "build", "page.png", "-o", "site", "--model", "fake", "--base-url", server.base_url]
        command = [sys.executable, "-m", "apps.cli.main", *words, "--goal", "1", "--rounds", "2"]
        env = {**os.environ, "OPENAI_API_KEY": "x", "K25_RUNS_DIR": str(tmp_path / "runs")}
        first = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        rounds = tmp_path / "site-build" / "rounds"
        for _ in range(600):
            if (rounds / "01" / "round.json").exists():
                break
            await asyncio.sleep(0.1)
        first.send_signal(signal.SIGKILL)
        await first.wait()
        before = json.loads((rounds / "01" / "round.json").read_text())
        again = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "apps.cli.main", "web", "build", "-o", "site", "--resume"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert again.returncode == 0, again.stderr
    assert "round 2:" in again.stderr
    assert "draft:" not in again.stderr
    assert json.loads((rounds / "01" / "round.json").read_text()) == before
    assert (tmp_path / "site" / "index.html").is_file()
    assert (tmp_path / "site-build" / "report.html").stat().st_size > 10_000


@pytest.mark.long
async def test_a_limit_ends_the_build_with_the_best_round(
    evaluator: SiteEvaluator, build_request: BuildRequest, sandbox: KernelMaker, tmp_path: Path
) -> None:
    folder = BuildFolder(tmp_path / "build")
    await _draft(folder, build_request, evaluator)
    author = ModelAuthor(
        evaluator, model=FunctionModel(Repairing()), sandbox=sandbox, runs_dir=tmp_path / "runs", max_calls=1
    )
    try:
        made = await build(folder, build_request, author, evaluator, lambda line: None)
    finally:
        await author.close()
    assert made.reason.startswith("capped: ")
    assert made.best == 0
