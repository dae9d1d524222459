"""Reasoning that leaked into the answer: between `<think>` or `◁think▷` markers, or before a lone closing one."""

import re

_OPEN = re.compile(r"<think(?:ing)?>|◁think▷")
_CLOSE = re.compile(r"</think(?:ing)?>|◁/think▷")
_ACTION = re.compile(r"^[ \t]{0,3}#{2,6}[ \t]*action\b", re.I | re.M)
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
    for closing in _CLOSE.finditer(text):
        if _is_leak(text, closing):
            thought = _OPEN.sub("", text[: closing.start()])
            return thought.strip(), text[closing.end() :]
    return "", content


def _unclosed(text: str) -> tuple[str, str]:
    """An opening marker without a closing one: the answer starts at its first action heading."""
    action = _ACTION.search(text)
    if action is None:
        return "", text
    return text[: action.start()].strip(), text[action.start() :]


def _is_leak(text: str, closing: re.Match[str]) -> bool:
    """Whether a lone closing marker ends reasoning: an answer follows, or none has begun before it."""
    after = text[closing.end() :]
    if _ACTION.search(after) or after.lstrip().lower().startswith("## action"):
        return True
    before = text[: closing.start()]
    return not _ACTION.search(before) and not _FENCE.search(before)
