"""Vocabulary of nano-K2.5: bytes, numbers of up to three digits, and the words of the agent's protocol.

User strings remain single letters, which the model has to find in the image; text of every request is one token per
word. A coordinate is one token: the three digits after `0.`.
"""

import base64
import re
from collections.abc import Iterable, Iterator

from apps.train import skills
from apps.train.lessons import answer_text
from cua.gui_agent.protocol.prompts import ProtocolOptions, instruction_text, system_prompt

PIECE = re.compile(r"[^\r\n\w]?[^\W\d_]+|\d{1,3}| ?[^\s\w]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+|_")
"""Pattern similar to the release's, which splits text before tokenization: a word with the character before it."""


def make_ranks(texts: Iterable[str]) -> bytes:
    """Return the content of a `tiktoken.model`.

    A piece that is a token is used directly (tiktoken looks up whole pieces first), but its prefixes are not tokens.
    All other words are therefore split into letters, each of which is a token, and a name has as many tokens as
    letters.

    Args:
        texts: Texts of every request and answer.
    """
    tokens = dict.fromkeys(bytes([value]) for value in range(256))
    for digits in (2, 3):
        tokens.update(dict.fromkeys(f"{number:0{digits}}".encode() for number in range(10**digits)))
    for text in texts:
        tokens.update(dict.fromkeys(_words(text)))
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def _words(text: str) -> Iterator[bytes]:
    yield from (piece.encode() for piece in PIECE.findall(text) if len(piece.encode()) > 1 and not piece.isdigit())


def protocol_texts() -> list[str]:
    """Return the texts of every request and answer, for the vocabulary."""
    answers = [answer_text(action, "") for action in (skills.CLICK, skills.TYPE_ACTION, skills.GIVE_UP, skills.FINISH)]
    codes = ["pyautogui.click(x=0., y=0.)", 'pyautogui.write("', 'computer.terminate(status="failure")', '"success")']
    return [
        *("system", "user", "assistant", "image"),
        system_prompt(ProtocolOptions()),
        "\n" + instruction_text('"'),
        *(text.replace("{}", "") for texts in skills.ASK.values() for text in texts),
        *(text for texts in skills.ONLY.values() for text in texts),
        *(text.format(value="", name="") for text in (*skills.TYPE, *skills.TYPE_ONLY)),
        *(text.replace("{}", "") for text in skills.STRANGE),
        *(skills.SEEN, skills.ABSENT, skills.DONE, skills.UNKNOWN),
        *answers,
        *codes,
    ]


def make_vocabulary() -> bytes:
    """Return the content of nano-K2.5's `tiktoken.model`."""
    return make_ranks(protocol_texts())
