"""A small byte-pair vocabulary in tiktoken's file format, trained on the text below.

Source: Sennrich et al. 2016, arXiv 1508.07909, section 3.2, on bytes instead of characters.
"""

import base64
import re
from collections import Counter
from functools import lru_cache
from itertools import chain, pairwise, product

WORDS = re.compile(r" ?[^\W\d]+| ?\d{1,3}| ?[^\s\w]+|\s+")
Pair = tuple[bytes, bytes]

TEXT = """
The agent looks at the screen, thinks about the instruction, and acts: it clicks, drags, scrolls, types and waits.
A screenshot is 1920x1080 pixels wide; coordinates are fractions between 0.0 and 1.0,
counted from the upper left corner.
Open the browser, search for the weather in London, and tell me whether it will rain tomorrow afternoon.
Which file was changed yesterday? Please rename every picture in the folder, then close the window without saving.
There are twelve apples, seven oranges and a bowl of strawberries on the kitchen table beside the yellow lamp.
import pyautogui
pyautogui.click(x=0.5, y=0.25)
pyautogui.typewrite("hello world", interval=0.01)
def find_largest(values: list[float]) -> float:
    best = values[0]
    for value in values[1:]:
        if value > best:
            best = value
    return best
{"name": "get_weather", "description": "Weather of a city", "parameters": {"type": "object", "properties": {"city":
{"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer"}}, "required": ["city"]}}
# Tools
## functions
namespace functions {
type read_file = (_: { path: string, offset?: number, limit?: number }) => any;
}
I should first check whether the dialog is open. The button "Save as..." is grey, so nothing was edited yet.
Let me wait.
Because the video shows four frames a chunk, the answer depends on their order: before, during, after, and at the end.
Numbers: 1, 2, 3, 10, 64, 100, 128, 256, 1000, 2025, 3.14159, 42%, $19.99; signs: + - * / = < > & | ^ ~ @ # !
I'm sure you've seen it; they're here, we'll go, he'd stay, she doesn't know, it's fine,
that isn't what I'd have chosen.
Schöne Grüße aus München: Öl, Ärger, süß. Déjà vu à l'été, ça va? El niño comió piñas. Привет, мир! Как дела?
今天天气很好，我们去公园散步吧。请打开浏览器，搜索最新的新闻，然后告诉我结果。屏幕上有一个蓝色的按钮。
今日はとても良い天気ですね。ありがとうございます。안녕하세요, 오늘 날씨가 좋네요. 🙂 🚀 ✅
"""


@lru_cache(maxsize=4)
def tiny_ranks(num_ranks: int = 1024) -> bytes:
    """Content of a `tiktoken.model` of that many ranks: 256 bytes, then merges, the most frequent pairs first.

    Where the text has no more pairs to merge, the sequences of two and three bytes that are left follow.

    Raises:
        ValueError: Fewer than 256 ranks.
    """
    if num_ranks < 256:
        raise ValueError(f"{num_ranks} ranks, expected 256 (one for each byte) or more")
    tokens = dict.fromkeys(bytes([value]) for value in range(256))
    tokens.update(dict.fromkeys(_train(num_ranks - len(tokens))))
    for filler in chain(product(range(256), repeat=2), product(range(256), repeat=3)):
        if len(tokens) >= num_ranks:
            break
        tokens.setdefault(bytes(filler))
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def _train(num_merges: int) -> list[bytes]:
    """Tokens made by merging the most frequent pair again and again; of equal ones the first in byte order."""
    words = {tuple(word[i : i + 1] for i in range(len(word))): count for word, count in _count_words().items()}
    merged: list[bytes] = []
    while len(merged) < num_merges:
        pairs: Counter[Pair] = Counter()
        for parts, count in words.items():
            for pair in pairwise(parts):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merged.append(best[0] + best[1])
        words = {_merge(parts, best): count for parts, count in words.items()}
    return merged


def _count_words() -> Counter[bytes]:
    return Counter(word.encode() for word in WORDS.findall(TEXT))


def _merge(parts: tuple[bytes, ...], pair: Pair) -> tuple[bytes, ...]:
    out: list[bytes] = []
    i = 0
    while i < len(parts):
        if parts[i : i + 2] == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return tuple(out)
