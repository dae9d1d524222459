"""Messages in the words of the page."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from apps.assistant.run_request import RunRequest
from apps.assistant.saved_tasks import SavedTask
from apps.assistant.wording import phrase, phrase_invalid, phrase_reason
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
    assert phrase_reason("failed", "the agent gave up: --max-steps; no") == "the agent gave up: --max-steps; no"
    assert phrase_reason("error", "ConnectError: [Errno 111] Connection refused") == "Nothing answers there."
    assert re.search("resume", phrase_reason("interrupted", "it ended; --resume goes on"), re.I)
