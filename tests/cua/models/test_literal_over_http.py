"""The embedded model behind a real HTTP server answers like the one in process."""

import io
import os
import re
import signal
import subprocess
import sys

import pytest
from PIL import Image, ImageDraw, ImageFont

from cua.messages import ImagePart, Message, TextPart
from cua.models import ModelSettings, make_model
from tests.cua.models.clients import Connect
from tests.fake_openai import FakeOpenAI

pytest.importorskip("rapidocr", reason="the literal model needs rapidocr: pip install 'cua-k25[literal]'")


def screen() -> bytes:
    image = Image.new("RGB", (640, 400), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(20)
    draw.rectangle((400, 250, 520, 290), fill=(30, 90, 200))
    draw.text((435, 258), "Save", fill="white", font=font)
    draw.text((40, 60), "New expense", fill="black", font=font)
    out = io.BytesIO()
    image.save(out, format="png")
    return out.getvalue()


MESSAGES = [
    Message(role="system", parts=(TextPart(text="You drive a computer."),)),
    Message(role="user", parts=(ImagePart(data=screen()), TextPart(text='# Task Instruction:\nClick "Save".'))),
]


@pytest.mark.parametrize("image_format", ["png", "webp:75"])
async def test_same_answer_over_http(image_format: str) -> None:
    in_process = await make_model("literal").generate(MESSAGES)
    with FakeOpenAI(make_model("literal"), model_id="literal-http") as server:
        settings = ModelSettings(base_url=server.base_url, image_format=image_format)
        client = make_model("literal-http", settings)
        over_http = await client.generate(MESSAGES)
        await client.close()
    clicked = re.search(r"pyautogui\.click\(([\d.]+), ([\d.]+)\)", over_http.content)
    assert clicked is not None, over_http.content
    assert 400 / 640 < float(clicked[1]) < 520 / 640
    assert 250 / 400 < float(clicked[2]) < 290 / 400
    if image_format == "png":
        assert (over_http.content, over_http.reasoning) == (in_process.content, in_process.reasoning)


@pytest.mark.slow
async def test_command_line_server(connect: Connect) -> None:
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "tests.fake_openai", "--model", "literal"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)  # noqa: ASYNC220
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"OPENAI_BASE_URL=http://127\.0\.0\.1:\d+/v1\n", line), line
        client = connect(line.strip().partition("=")[2], model="literal")
        reply = await client.model.generate(MESSAGES)
        assert "pyautogui.click(" in reply.content
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
