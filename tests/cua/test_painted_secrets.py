"""A typed secret that a page paints where no document tells: it is read by OCR and blacked out."""

import asyncio
import io
import json
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from cua import run_task
from cua.models.scripted import ScriptedModel
from cua.run.events import Event, Watch

pytestmark = pytest.mark.browser

SECRET = "Sunflower-719"
PAGE = """<style>* {font: 26px sans-serif} #after::after {content: attr(data-x)}</style><title>T</title>
<input id=i autofocus><p>canvas below</p><canvas id=c width=500 height=50></canvas><p id=after></p><p id=host></p>
<script>
const root = host.attachShadow({mode: 'closed'});
i.oninput = () => {
  const pen = c.getContext('2d');
  pen.font = '26px sans-serif'; pen.clearRect(0, 0, 500, 50); pen.fillText(i.value, 5, 35);
  after.dataset.x = i.value; root.innerHTML = '<p></p>'; root.firstChild.textContent = i.value;
  document.title = i.value; location.hash = i.value;
};
</script>"""


def reply(action: str, code: str) -> str:
    return f"## Action:\n{action}\n## Code:\n```python\n{code}\n```"


@pytest.mark.slow
def test_painted_values_are_in_no_picture_and_no_output(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    from visual_tools.ocr import read_text

    (tmp_path / "secrets.toml").write_text(f'password = "{SECRET}"\n')
    seen: list[Event] = []
    model = ScriptedModel(
        [
            reply("Type", 'pyautogui.write("{{password}}")'),
            reply("Wait", "time.sleep(0.2)"),
            reply("Finish", f'computer.terminate(status="success", answer="it is {SECRET}")'),
        ]
    )
    result = asyncio.run(
        run_task(
            "Type it",
            url=f"data:text/html,{quote(PAGE)}",
            model=model,
            watch=Watch(listener=seen.append),
            secrets=str(tmp_path / "secrets.toml"),
            runs_dir=tmp_path / "runs",
            approve="yolo",
        )
    )
    assert result.end.answer == "it is {{password}}"
    assert SECRET not in repr(seen)
    assert SECRET not in json.dumps([repr(message) for message in model.received])
    assert result.run_dir is not None
    pictures = sorted((Path(result.run_dir) / "images").iterdir())
    assert len(pictures) >= 2
    for picture in pictures:
        image = np.asarray(Image.open(io.BytesIO(picture.read_bytes())).convert("RGB"))
        words = " ".join(line.text for line in read_text(image))
        assert "canva" in words
        assert "719" not in words
        assert "flower" not in words
