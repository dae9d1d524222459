"""A whole run: files in, a streaming server with parallel tool calls, a real sandbox, evidence out and run again."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image

from cua import ConfigError, RunResult, ask
from cua.evidence import Verification, verify_run, write_bundle
from cua.messages import Message, Reply, ToolCall, Usage
from cua.models.scripted import ScriptedModel
from cua.trajectory import load_run
from cua.trajectory.report import write_report
from tests.fake_openai import FakeOpenAI
from visual_tools.sandbox import KernelMaker

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = "import visual_tools as vt\nimage = vt.load_image('dots.png')\nprint((image[..., 0] < 128).sum())"
SHOW = "from PIL import Image\nImage.fromarray(255 - vt.load_image('dots.png'))"
WRITE = "print('made'); open('out.txt', 'w').write('42')"


def cell(code: str, name: str = "ipython", key: str = "code") -> ToolCall:
    return ToolCall(id=f"chatcmpl-tool-{abs(hash(code))}", name=name, arguments=json.dumps({key: code}))


def replies() -> list[Reply]:
    """Two rounds and an answer; the first round has two calls to different tools."""
    usage = Usage(input_tokens=1000, output_tokens=50)
    return [
        Reply(
            content="Counting.",
            reasoning="Dark pixels first.",
            tool_calls=(cell(COUNT), cell("ls; cat dots.png | wc -c", "shell", "command")),
            finish_reason="tool_calls",
            usage=usage,
        ),
        Reply(content="", tool_calls=(cell(SHOW), cell(WRITE)), finish_reason="tool_calls", usage=usage),
        Reply(
            content="600 pixels are dark [^0^]. Inverted they look so [^2.1^]. It is written down [^3^].", usage=usage
        ),
    ]


def dots(folder: Path) -> Path:
    image = Image.new("RGB", (60, 40), "white")
    image.paste("black", (5, 5, 35, 25))
    image.save(folder / "dots.png")
    return folder / "dots.png"


async def run(
    tmp_path: Path, sandbox: KernelMaker | str, given: Sequence[Reply] | None = None, **more: Any
) -> RunResult:
    model = ScriptedModel(replies() if given is None else given)
    return await ask(
        "How many dark pixels?", [dots(tmp_path)], model=model, sandbox=sandbox, runs_dir=tmp_path / "runs", **more
    )


@pytest.mark.long
async def test_over_http_with_streaming_and_parallel_calls(tmp_path: Path, sandbox: KernelMaker) -> None:
    seen: list[Sequence[Message]] = []
    script = iter(replies())

    def answer(messages: Sequence[Message]) -> Reply:
        seen.append(messages)
        return next(script)

    with FakeOpenAI(answer, model_id="kimi-k2.5") as server:
        result = await ask(
            "How many dark pixels?",
            [dots(tmp_path)],
            model="kimi-k2.5",
            base_url=server.base_url,
            sandbox=sandbox,
            runs_dir=tmp_path / "runs",
        )
    assert (result.end.status, result.num_steps) == ("unverified", 3)
    first, _, last = (request.body for request in server.chats)
    assert first["stream"] is True
    assert first["max_tokens"] == 24_000
    assert [tool["function"]["name"] for tool in first["tools"]] == ["ipython", "view_image", "files", "shell"]
    assert [part["type"] for part in first["messages"][1]["content"]] == ["text", "image_url", "text"]
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "tool"]
    ids = [call["id"] for message in last["messages"] for call in message.get("tool_calls") or ()]
    assert ids == ["functions.ipython:0", "functions.shell:1", "functions.ipython:2", "functions.ipython:3"]
    assert [message.get("tool_call_id") for message in last["messages"] if message["role"] == "tool"] == ids
    assert last["messages"][2]["reasoning_content"] == "Dark pixels first."
    assert last["messages"][3]["content"] == "[^0^]\n600"
    assert [part["type"] for part in last["messages"][6]["content"]] == ["text", "image_url"]
    assert result.usage == Usage(input_tokens=3000, output_tokens=150, cost_usd=0.0)


@pytest.mark.long
async def test_pictures_of_results_can_go_in_a_user_message(tmp_path: Path, sandbox: KernelMaker) -> None:
    script = iter(replies())
    with FakeOpenAI(lambda messages: next(script), model_id="gpt") as server:
        await ask(
            "?",
            [dots(tmp_path)],
            model="gpt",
            base_url=server.base_url,
            sandbox=sandbox,
            runs_dir=tmp_path / "runs",
            tool_images="user",
        )
    last = server.chats[-1].body["messages"]
    assert [message["role"] for message in last][-4:] == ["assistant", "tool", "tool", "user"]
    assert isinstance(last[-3]["content"], str)
    assert [part["type"] for part in last[-1]["content"]] == ["text", "image_url"]


@pytest.mark.long
async def test_the_record_is_what_happened(tmp_path: Path, sandbox: KernelMaker) -> None:
    result = await run(tmp_path, sandbox)
    assert result.run_dir is not None
    record = load_run(result.run_dir, images=None)
    assert record.result == result
    assert [step.index for step in record.tool_steps] == [1, 2, 3]
    assert record.tool_steps[0].reply.tool_calls[0].id == "functions.ipython:0"
    outcomes = [outcome for step in record.tool_steps for outcome in step.outcomes]
    assert [outcome.number for outcome in outcomes] == [0, 1, 2, 3]
    assert outcomes[0].result.text == "600"
    picture = outcomes[2].result.parts[1]
    assert getattr(picture, "data", b"").startswith(b"\x89PNG")
    assert record.header.env == "tools"
    assert record.header.env_options == {"sandbox": sandbox.backend}
    assert (Path(result.run_dir) / "files" / "out.txt").read_text() == "42"
    assert (Path(result.run_dir) / "inputs" / "dots.png").read_bytes() == (tmp_path / "dots.png").read_bytes()


async def test_the_answer_names_what_it_rests_on(tmp_path: Path, sandbox: KernelMaker) -> None:
    result = await run(tmp_path, sandbox)
    folder = Path(result.run_dir or "")
    answer = json.loads((folder / "answer.json").read_text())
    assert answer["answer"] == result.end.answer
    assert [claim["is_supported"] for claim in answer["claims"]] == [True, True, True]
    assert answer["claims"][0]["evidence"][0]["cell"] == COUNT
    (picture,) = answer["claims"][1]["evidence"][0]["pictures"]
    assert Image.open(folder / picture).size == (60, 40)
    assert answer["inputs"][0]["name"] == "dots.png"
    assert answer["versions"]["numpy"]
    assert answer["verification"] is None


async def test_the_notebook_is_one_and_holds_the_outputs(tmp_path: Path, sandbox: KernelMaker) -> None:
    result = await run(tmp_path, sandbox)
    notebook = nbformat.read(Path(result.run_dir or "") / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code] == ["%cd files", COUNT, "%%bash\nls; cat dots.png | wc -c", SHOW, WRITE]
    assert code[1].outputs[0].text.strip() == "600"
    assert code[3].outputs[0].data["image/png"].startswith("iVBORw0KGgo")


async def test_running_it_again_gives_the_same(tmp_path: Path, sandbox: KernelMaker) -> None:
    result = await run(tmp_path, sandbox)
    folder = Path(result.run_dir or "")
    verification = await verify_run(folder, sandbox)
    assert [(cell.number, cell.verdict, cell.why) for cell in verification.cells] == [
        (number, "same", "") for number in range(4)
    ]
    assert (verification.num_claims, verification.num_reproduced) == (3, 3)
    assert verification.is_reproduced
    write_bundle(folder, verification)
    assert json.loads((folder / "answer.json").read_text())["verification"]["is_reproduced"] is True


async def test_what_does_not_come_out_the_same_is_told(tmp_path: Path, sandbox: KernelMaker) -> None:
    given = [
        Reply(content="", tool_calls=(cell("import time; print(time.time_ns())"), cell("print(1)"))),
        Reply(content="Now [^0^]. One [^1^]."),
    ]
    result = await run(tmp_path, sandbox, given)
    verification: Verification = await verify_run(Path(result.run_dir or ""), sandbox)
    assert [cell.verdict for cell in verification.cells] == ["differs", "same"]
    assert verification.cells[0].why.startswith("the text differs: ")
    assert (verification.num_claims, verification.num_reproduced) == (2, 1)
    assert not verification.is_reproduced


async def test_verify_uses_the_inputs_as_they_were(tmp_path: Path, sandbox: KernelMaker) -> None:
    spoil = "from PIL import Image\nprint(Image.open('dots.png').size)\nImage.new('RGB', (3, 3)).save('dots.png')"
    given = [Reply(content="", tool_calls=(cell(spoil),)), Reply(content="done [^0^]")]
    result = await run(tmp_path, sandbox, given)
    assert (await verify_run(Path(result.run_dir or ""), sandbox)).is_reproduced


async def test_the_page_of_a_run_shows_code_results_and_claims(tmp_path: Path, sandbox: KernelMaker) -> None:
    result = await run(tmp_path, sandbox)
    page = write_report(result.run_dir or "").read_text("utf-8")
    assert "600 pixels are dark" in page
    assert 'href="#image-2-1"' in page
    assert 'id="image-2-1"' in page
    assert page.count("data:image/") >= 2
    assert "3 statements and what they rest on" in page


@pytest.mark.slow
async def test_an_endless_cell_is_interrupted_and_variables_stay(tmp_path: Path) -> None:
    given = [
        Reply(content="", tool_calls=(cell("kept = 5\nwhile True: pass"),)),
        Reply(content="", tool_calls=(cell("print(kept)"),)),
        Reply(content="five [^1^]"),
    ]
    started = time.monotonic()
    result = await run(tmp_path, "auto", given, cell_timeout=1.0)
    record = load_run(result.run_dir or "", images=0)
    first, second = (outcome for step in record.tool_steps for outcome in step.outcomes)
    assert first.result.data["status"] == "interrupted"
    assert second.result.text == "5"
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("question", "more", "told"),
    [
        ("  ", {}, "the question is empty"),
        ("?", {"model": "literal"}, "cannot call tools"),
        ("?", {"sandbox_": "nope"}, "sandbox_"),
    ],
)
async def test_wrong_settings_are_told_before_anything_starts(
    tmp_path: Path, sandbox: KernelMaker, question: str, more: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        await ask(question, [dots(tmp_path)], sandbox=sandbox, runs_dir=tmp_path / "runs", **more)
    assert not (tmp_path / "runs").exists()
