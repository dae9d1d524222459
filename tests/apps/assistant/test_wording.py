"""Messages in the words of the page."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from apps.assistant.run_request import RunRequest
from apps.assistant.saved_tasks import SavedTask
from apps.assistant.wording import SHOWN, phrase, phrase_invalid, phrase_reason
from cua.errors import CuaError

CASES = {
    "--max-steps is 'x', expected a whole number": "Most steps is 'x', expected a whole number.",
    "options.viewport: expected WIDTHxHEIGHT; got '1'": "Size of the browser: expected WIDTHxHEIGHT. Got '1'.",
    "K25_BASE_URL is empty; set --base-url": "Endpoint is empty. Set Endpoint.",
    "no response from http://127.0.0.1:9: ConnectError: [Errno 111] Connection refused. Expected a URL": (
        "No response from http://127.0.0.1:9: nothing answers there. Expected a URL."
    ),
    "httpx.ConnectError: All connection attempts failed": "Nothing answers there.",
    "no connection to http://x.example: [Errno -2] Name or service not known. Is the server running?": (
        "No connection to http://x.example: no server has this name. Is the server running?"
    ),
    "UnsupportedProtocol: Request URL has an unsupported protocol 'ftp://'.": (
        "Addresses begin with http:// or https://."
    ),
    "the price file /p cannot be read: [Errno 2] No such file or directory: '/p'": (
        "The price file /p cannot be read: No such file or directory."
    ),
    "this model may not accept images; check with `cua doctor`": "This model may not accept images.",
    "its process ended before the run did; --resume goes on": (
        "Its process ended before the run did. Resume continues it."
    ),
    "the text 'run --max-steps; K25_MODEL' stays as it is": "The text 'run --max-steps; K25_MODEL' stays as it is.",
    "http://a.example:8000/v1 answered 500": "http://a.example:8000/v1 answered 500.",
    "/home/a/max_steps.toml is wrong; max_steps is odd": "/home/a/max_steps.toml is wrong. Most steps is odd.",
    "the model's words don't end; isn't that so?": "The model's words don't end. Isn't that so?",
}


@pytest.mark.parametrize("text", CASES)
def test_messages_are_sentences_in_the_words_of_the_page(text: str) -> None:
    assert phrase(CuaError(text)) == CASES[text]
    assert phrase(CASES[text]) == CASES[text]


@pytest.mark.parametrize(
    ("model", "given", "text"),
    [
        (RunRequest, {}, "The instruction is missing."),
        (RunRequest, {"instruction": ""}, "The instruction is empty."),
        (RunRequest, {"instruction": "x", "colour": 1}, "The colour is not known here."),
        (SavedTask, {"instruction": "x", "when": "x" * 101}, "The time: expected 100 characters or fewer."),
        (SavedTask, {"instruction": "x", "values": {"a": 1}}, "The values, a: expected a string."),
    ],
)
def test_requests_of_another_form_are_described_without_paths(model: Any, given: Any, text: str) -> None:
    with pytest.raises(ValidationError) as error:
        model.model_validate(given)
    assert phrase(error.value) == phrase_invalid(error.value.errors()) == text


def test_words_of_a_model_are_kept() -> None:
    assert phrase_reason("the agent gave up: --max-steps; no") == "the agent gave up: --max-steps; no"
    assert phrase_reason("ConnectError: [Errno 111] Connection refused") == "Nothing answers there."
    assert re.search("resume", phrase_reason("it ended; --resume goes on"), re.I)


FOLDER = Path(__file__).parents[3] / "apps" / "assistant"
INSTRUCTIONS = "Collect Bridge, Opened"  # texts for an agent
IN_CODE = re.compile(r"[<\\]|=>|-src |\{ |M\d|https?:|--|var\(")
IN_SCRIPTS = re.compile(r'"([^"\n]+)"|`([^`\n]+)`')


def texts_of(path: Path) -> Iterator[str]:
    """Texts in a file, as the page shows them: X stands for values, docstrings are left out."""
    if path.suffix == ".js":
        for line in path.read_text().splitlines():
            yield from (plain or re.sub(r"\$\{[^}]*\}", "X", filled) for plain, filled in IN_SCRIPTS.findall(line))
        return
    nodes = list(ast.walk(ast.parse(path.read_text())))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    raised = {id(part) for node in nodes if isinstance(node, ast.Raise) for part in ast.walk(node)}
    for node in nodes:
        if id(node) not in skipped and isinstance(node, ast.JoinedStr | ast.Constant):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
            yield phrase(text) if id(node) in raised else text


def test_no_sentence_of_the_page_is_longer_than_twelve_words() -> None:
    paths = [*FOLDER.glob("*.py"), *FOLDER.glob("static/*.js")]
    texts = {text for path in paths if path.name != "wording.py" for text in texts_of(path)}
    texts |= {sentence for text in SHOWN.values() for sentence in (text.label, text.about)}
    shown = [text for text in texts if not IN_CODE.search(text) and INSTRUCTIONS not in text]
    sentences = [sentence for text in shown for sentence in re.split(r"(?<=[.?!])\s+", text)]
    assert len(sentences) > 300
    assert [sentence for sentence in sentences if len(sentence.split()) > 12] == []
