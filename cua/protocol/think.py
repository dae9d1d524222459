"""Reasoning that leaked into the answer: between `<think>` or `◁think▷` markers, or before a lone closing one."""

import re

_OPEN = re.compile(r"<think(?:ing)?>|◁think▷")
_CLOSE = re.compile(r"</think(?:ing)?>|◁/think▷")
_ACTION = re.compile(r"(?:^|(?<=>)|(?<=▷))[ \t]{0,3}#{2,6}[ \t]*action\b", re.I | re.M)
_FENCE = re.compile(r"^[ \t]*(?:#{2,6}[ \t]*code\b[ \t:]*)?(?:`{3,}|~{3,})[ \t]*\S", re.I | re.M)


def split_thinking(content: str) -> tuple[str, str]:
    """Thought and answer. Markers inside the answer (somebody types `</think>`) stay where they are."""
    text = content.lstrip()
    opening = _OPEN.match(text)
    if opening:
        closing = _CLOSE.search(text, opening.end())
        if closing is None:
            return _unclosed(text[opening.end() :])
        return text[opening.end() : closing.start()].strip(), text[closing.end() :]
    closing = _leak_end(text)
    if closing is None:
        return "", content
    return _OPEN.sub("", text[: closing.start()]).strip(), text[closing.end() :]


def _unclosed(text: str) -> tuple[str, str]:
    """An opening marker without a closing one: the answer starts at its first action heading."""
    action = _ACTION.search(text)
    if action is None:
        return "", text
    return text[: action.start()].strip(), text[action.start() :]


def _leak_end(text: str) -> re.Match[str] | None:
    """The lone closing marker that ends reasoning: an answer follows it, or none has begun before it."""
    actions = [match.start() for match in _ACTION.finditer(text)]
    fence = _FENCE.search(text)
    answer_start = min([*actions[:1], *([fence.start()] if fence else [])], default=len(text))
    answer_end = actions[-1] if actions else -1
    for closing in _CLOSE.finditer(text):
        if closing.end() <= answer_end or closing.start() < answer_start:
            return closing
    return None
