"""Server-sent events: bytes in, the data of each event out.

Source: WHATWG HTML, section 9.2.6, as far as OpenAI's protocol uses it (only `data` fields count).
"""

import re
from collections.abc import Iterable, Iterator


def read_events(blocks: Iterable[bytes]) -> Iterator[str]:
    """The data of each event. One that the end cuts off is given too: some servers end without a blank line."""
    data: list[str] = []
    for line in _lines(blocks):
        if line == "":
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
    if data:
        yield "\n".join(data)


def _lines(blocks: Iterable[bytes]) -> Iterator[str]:
    left = b""
    for block in blocks:
        *lines, left = re.split(rb"\r\n|\n|\r(?=[^\n])", left + block)  # a last \r may be half of a \r\n
        yield from (line.decode(errors="replace") for line in lines)
    if left:
        yield left.decode(errors="replace").removesuffix("\r")
