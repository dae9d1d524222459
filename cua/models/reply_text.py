"""Moves thinking and tool calls that a server left in the text of a reply to their own fields.

A server that runs Kimi K2.5 without its parsers, or with failing ones, sends the model's special tokens as text.

- Thinking goes to the reasoning: `<think>...</think>`, all text before a lone closing tag (the output of K2.5 starts
  inside the reasoning), all text after an unclosed opening tag. Drafts in it are never executed: a reply that ends
  inside its thinking is unusable.
- A section of tool calls becomes calls, also in the reasoning of a reply without any text. Text after it is
  dropped, as in vLLM; an incomplete call, or a lone marker, makes the reply unusable.
- A further turn that the model invented after its own is cut off; end-of-turn tokens are dropped at the end of the
  text. A special token or a call block of another model in an answer makes it unusable.
- A quoted tag or marker (inside closed backticks or fences, or directly between quotation marks) is content and is
  kept. Outside of quotes the two cannot be distinguished: the model is asked to quote.
- If the model was offered no tools, the GUI agent's headings count: text after the last `## Action:` may be text to
  type, and is left to that agent's parser, except for tokens at the very end and a closing tag below the code.
"""

import ast
import json
import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from json import JSONDecodeError, JSONDecoder
from typing import Any

from cua.errors import UnusableReplyError
from cua.json_text import read_json, read_object, well_formed
from cua.messages import Reply, ToolCall
from cua.model import Tool
from cua.models.accumulator import MAX_CALLS

_TAG = re.compile(r"<[ \t]{0,3}(?P<close>/?)[ \t]{0,3}think(?:ing)?(?:\s[^<>]{0,50})?>|◁(?P<close2>/?)think▷", re.I)
_ACTION = re.compile(r"(?:^|(?<=>)|(?<=▷))[ \t]{0,3}#{2,6}[ \t]*action[ \t*_]*(?:[:：]|$)", re.I | re.M)
_MARKER = re.compile(r"<\|tool_calls?_(?P<kind>section_begin|section_end|begin|argument_begin|end)\|>")
_MARKERS = tuple(
    f"<|tool_call{plural}_{kind}|>"
    for plural in ("", "s")
    for kind in ("section_begin", "section_end", "begin", "argument_begin", "end")
)
_RUN = re.compile(r"`+|~{3,}")
_QUOTES = frozenset(("''", '""', "``", "“”", "‘’", "«»", "„“", "「」"))
_END_TOKENS = (
    *("<|im_end|>", "[EOS]", "[EOT]", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>"),
    *("<|return|>", "<|EOT|>", "<end_of_turn>", "<｜end▁of▁sentence｜>"),
)
_NEXT_TURN = re.compile(
    r"(?:<\|im_end\|>|\[EO[ST]\])\s{0,8}<\|im_(?:user|assistant|system|start)\|>"
    r"|<\|im_(?:user|assistant|system)\|>[\w ./-]{0,64}<\|im_middle\|>"
)
_FOREIGN = re.compile(
    r"<\|[A-Za-z][\w▁]{2,40}\|>"
    r"|</?｜[A-Za-z][\w▁]{2,40}｜"
    r"|</?(?:\w{1,12}:)?(?:tool_call|function_call|tool_response)s?(?:\s[^<>]{0,50})?>"
    r"|<function=[\w.-]{1,64}>|\[TOOL_CALLS\]"
)
"""Special tokens, and calls in the formats of Qwen, Hermes, DeepSeek, Mistral and others."""

NO_CALL_REMARK = "Your reply announced a tool call, but none arrived. Write the call again, or give the answer."
MARKER_REMARK = (
    "Your reply held a broken tool call, written as text: {found}. No call was made. Write the call again, or give the "
    "answer; put a marker that you only want to mention in backticks."
)
FOREIGN_REMARK = (
    "Your reply holds {found}, which is neither text for the user nor a tool call; nothing was called. Call the tool "
    "by the interface for tools, or give the answer; put a marker that you only want to mention in backticks."
)
TAG_REMARK = (
    "Your reply opens {found} and never closes it, so that what follows is taken as thinking. Answer again, and close "
    "it before the answer; put a tag that you only want to mention in backticks."
)


def split_thinking(content: str) -> tuple[str, str]:
    """Split a reply in the GUI agent's protocol, whose headings count, into thought and answer."""
    thought, answer, _ = _split(content, has_headings=True)
    return thought, answer


def _split(content: str, *, has_headings: bool) -> tuple[str, str, str]:
    """Return thought, answer, and the unclosed opening tag; without headings, an unclosed tag inside text is kept."""
    text = content.lstrip()
    thoughts: list[str] = []
    pieces: list[str] = []
    opened, position, open_tag = -1, 0, ""
    last_action, tags = _tags_that_count(text, has_headings)
    for tag in tags:
        is_close = _is_closing(tag)
        if is_close and (opened < 0 or last_action >= 0):
            thoughts += [*pieces, text[max(position, opened) : tag.start()]]
            pieces, opened, position = [], -1, tag.end()
        elif is_close:
            thoughts.append(text[opened : tag.start()])
            opened, position = -1, tag.end()
        elif opened < 0:
            pieces.append(text[position : tag.start()])
            opened = position = tag.end()
            open_tag = tag[0]
    if opened < 0:
        answer = "".join([*pieces, text[position:]])
        return "".join(thoughts).strip(), answer if thoughts else content, ""
    if "".join(pieces).strip() and last_action < 0:
        return "", content, open_tag
    return "".join([*thoughts, *pieces, text[opened:]]).strip(), "", open_tag


def _tags_that_count(text: str, has_headings: bool) -> tuple[int, list[re.Match[str]]]:
    """Return the position of the last action (-1 without one), and the tags that are not ordinary text.

    Before the last action a closing tag counts even in quotes, because quotes in thinking may be unbalanced. After it
    an opening tag is text to type, and a closing one counts if it ends an open thought or follows the code.
    """
    last_action = max((match.start() for match in _ACTION.finditer(text)), default=-1) if has_headings else -1
    code_start = text.find("```", last_action) if last_action >= 0 else -1
    is_quoted = _quotes_of(text)
    tags: list[re.Match[str]] = []
    is_open = False
    for tag in _TAG.finditer(text):
        is_close = _is_closing(tag)
        if is_quoted(tag) and (not is_close or tag.end() > last_action):
            continue
        is_typed = not is_open and not (is_close and 0 <= code_start < tag.start())
        if 0 <= last_action < tag.end() and is_typed:
            continue
        tags.append(tag)
        is_open = not is_close
    return last_action, tags


def _is_closing(tag: re.Match[str]) -> bool:
    return bool(tag["close"] or tag["close2"])


def separate(reply: Reply, tools: Sequence[Tool] = ()) -> Reply:
    """Move thinking and tool calls out of the text of a reply, and resolve the tool names of its calls.

    Raises:
        UnusableReplyError: If a part of a call is missing, or a call was announced but is missing. Never raised for a
            reply truncated at the token limit: its text before the first marker is kept.
    """
    is_cut = reply.finish_reason == "length"
    thought, content, open_tag = _split(_first_turn(reply.content), has_headings=not tools)
    reasoning = "\n".join(filter(None, (reply.reasoning, thought)))
    is_protocol = not tools and _ACTION.search(content) is not None
    parsed = _ParsedCalls(content) if is_protocol else _find_calls(content)
    content = _without_end(parsed.text, (*_END_TOKENS, *_MARKERS) if is_protocol else _end_tokens(parsed.text))
    if not parsed.calls and not parsed.problem and not content.strip() and not reply.tool_calls:
        parsed = _find_calls(reasoning)
        reasoning = parsed.text
    calls = [named(call, tools) for call in reply.tool_calls]
    known = {(call.name, call.arguments) for call in calls}
    named_calls = (named(call, tools) for call in parsed.calls)
    calls += [call for call in named_calls if (call.name, call.arguments) not in known]
    separated = replace(reply, content=content, reasoning=reasoning, tool_calls=tuple(calls))
    if not is_cut:
        is_unfinished = bool(open_tag) and (bool(content.strip()) or not calls)
        foreign = "" if is_protocol or calls else _foreign_in(content)
        _check(separated, parsed.problem if not reply.tool_calls else "", foreign, open_tag if is_unfinished else "")
    return separated


def _first_turn(content: str) -> str:
    """Return the text without turns that the model invented after its own."""
    is_quoted = _quotes_of(content)
    return next((content[: mark.start()] for mark in _NEXT_TURN.finditer(content) if not is_quoted(mark)), content)


def _end_tokens(text: str) -> tuple[str, ...]:
    return _END_TOKENS if "<s>" in text else (*_END_TOKENS, "</s>")  # "</s>" is also an HTML tag


def _foreign_in(content: str) -> str:
    is_quoted = _quotes_of(content)
    return next((mark[0] for mark in _FOREIGN.finditer(content) if not is_quoted(mark)), "")


def _check(reply: Reply, problem: str, foreign: str, open_tag: str) -> None:
    if problem:
        message, remark = f"the reply holds a broken tool call: {problem}", MARKER_REMARK.format(found=problem)
    elif len(reply.tool_calls) > MAX_CALLS:
        message = f"the reply has {len(reply.tool_calls)} tool calls, more than {MAX_CALLS}"
        remark = (
            f"Your reply had more than {MAX_CALLS} tool calls; none of them was executed. Make fewer calls per reply."
        )
    elif any(not call.name for call in reply.tool_calls):
        message = "a tool call of the reply has no name"
        remark = "A tool call in your reply had no name; no call was made. Write the call again, with the tool's name."
    elif reply.finish_reason == "tool_calls" and not reply.tool_calls:
        message, remark = "finish_reason is 'tool_calls', but the reply has no tool call", NO_CALL_REMARK
    elif foreign:
        message, remark = f"the reply holds {foreign} in its text", FOREIGN_REMARK.format(found=foreign)
    elif open_tag:
        message, remark = f"the reply opens {open_tag} and never closes it", TAG_REMARK.format(found=open_tag)
    else:
        return
    raise UnusableReplyError(message, remark=remark, reply=reply)


@dataclass(frozen=True, slots=True)
class _ParsedCalls:
    """Text before the first marker, the calls after it, and the problem in them."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    problem: str = ""


def _find_calls(text: str) -> _ParsedCalls:
    is_quoted = _quotes_of(text)
    markers = list(_MARKER.finditer(text))
    first = next((number for number, marker in enumerate(markers) if not is_quoted(marker)), None)
    if first is None:
        half = text.rfind("<|tool")
        is_half = half >= 0 and any(marker.startswith(text[half:].rstrip()) for marker in _MARKERS)
        return _ParsedCalls(text[:half], (), "half a marker at its end") if is_half else _ParsedCalls(text)
    calls: list[ToolCall] = []
    end = 0
    for marker, following in zip(markers[first:], [*markers[first + 1 :], None], strict=True):
        if marker.start() < end or marker["kind"] != "begin":
            continue
        if following is None or following["kind"] != "argument_begin":
            return _ParsedCalls(text[: markers[first].start()], tuple(calls), "a call without arguments")
        arguments, end, is_whole = _arguments_at(text, following.end())
        call_id = text[marker.end() : following.start()].strip()
        calls.append(ToolCall(id=call_id, name="", arguments=arguments))
        if not is_whole:
            return _ParsedCalls(text[: markers[first].start()], tuple(calls[:-1]), "a call without an end")
        if len(calls) > MAX_CALLS:
            break
    problem = "" if calls else f"{markers[first][0]} without a call"
    return _ParsedCalls(text[: markers[first].start()], tuple(calls), problem)


def _arguments_at(text: str, start: int) -> tuple[str, int, bool]:
    """Return arguments that start at a position, the position of their end, and True if they are complete.

    A JSON object marks its own end and may contain markers; other arguments end at the next marker.
    """
    start += len(text[start : start + 100]) - len(text[start : start + 100].lstrip())
    try:
        value, end = JSONDecoder(strict=False).raw_decode(text, start)
    except (JSONDecodeError, RecursionError):
        value, end = None, start
    if isinstance(value, dict):
        return text[start:end], end, True
    closing = _MARKER.search(text, start)
    is_whole = closing is not None and closing["kind"] == "end"
    end = closing.start() if closing else len(text)
    return text[start:end].strip(), end, is_whole


def _without_end(content: str, tokens: tuple[str, ...]) -> str:
    """Return the text without tokens at its end."""
    kept = end = len(content)
    while end:
        if content[end - 1].isspace():
            end -= 1
        elif content.endswith(tokens, 0, end):
            end = content.rindex("<" if content[end - 1] == ">" else "[", 0, end)
            kept = end
        else:
            break
    return content[:kept].rstrip() if kept < len(content) else content


def _quotes_of(text: str) -> Callable[[re.Match[str]], bool]:
    """Return a function that returns True if a match in the text is quoted."""
    spans = list(_code_spans(text))
    starts = [start for start, _ in spans]

    def is_quoted(match: re.Match[str]) -> bool:
        number = bisect_right(starts, match.start()) - 1
        if number >= 0 and match.end() <= spans[number][1]:
            return True
        return text[max(match.start() - 1, 0) : match.start()] + text[match.end() : match.end() + 1] in _QUOTES

    return is_quoted


def _code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans between two equal runs of backticks or tildes; on one line, unless the runs are fences."""
    runs = list(_RUN.finditer(text))
    later: dict[str, deque[int]] = defaultdict(deque)
    for number, run in enumerate(runs):
        later[run[0]].append(number)
    number = 0
    while number < len(runs):
        run, alike = runs[number], later[runs[number][0]]
        while alike and alike[0] <= number:
            alike.popleft()
        closing = runs[alike[0]] if alike else None
        if closing is not None and (len(run[0]) > 2 or "\n" not in text[run.end() : closing.start()]):
            yield run.end(), closing.start()
            number = alike[0]
        number += 1


_MAX_LITERAL_CHARS = 20_000  # `ast.literal_eval` takes memory and stack beyond its text; longer arguments must be JSON
_MAX_LAYERS = 3  # arguments encoded as a string within a string; deeper nesting is damage
_MAX_NAME_CHARS = 64  # the limit of OpenAI's API on a tool's name


def named(call: ToolCall, tools: Sequence[Tool]) -> ToolCall:
    """Return the call with the name of a tool and arguments that are one JSON object, if possible.

    The name is the server's; else it is in the id (`functions.zoom:3`, `functionszoom3`) or in the arguments
    (`{"name": "zoom", ...}`); or, if the call has none, it is the only tool that accepts the keys of the arguments.
    """
    arguments = plain_arguments(call.arguments)
    known = {tool.name for tool in tools}
    name = _known_name(call.name, known) or _known_name(call.id, known)
    if not name:
        name, arguments = _name_inside(arguments, known)
    if not name and not call.name and not call.id.startswith("functions."):
        name = _name_by_keys(arguments, tools)
    return replace(call, name=name or bare_name(call.name) or bare_name(call.id), arguments=arguments)


def bare_name(name: str) -> str:
    """Return a tool's name without additions that some parsers leave: `functions.ipython:3` becomes `ipython`."""
    bare = name.strip().removeprefix("functions.").partition(":")[0].strip()
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", bare)[:_MAX_NAME_CHARS]


def plain_arguments(text: str) -> str:
    """Return arguments as the text of one JSON object, or unchanged if that is not possible.

    A JSON object is kept as written. JSON in a fence or in a JSON string, JSON with raw line ends or lone surrogates,
    and a Python literal are converted to JSON.
    """
    if text.strip() in ("", "null"):
        return "{}"
    value: Any = text
    for _ in range(_MAX_LAYERS):
        if isinstance(value, str):
            value = _value_in(value)
    if not isinstance(value, dict):
        return well_formed(text)
    is_plain = "\\ud" not in text.lower() and read_object(text) is not None
    try:
        return text if is_plain else well_formed(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return well_formed(text)


def _value_in(text: str) -> Any:
    """Parse JSON or a Python literal; None if the text is neither."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.partition("\n")[2].removesuffix("```").strip()
    try:
        return read_json(stripped, strict=False)
    except ValueError:
        pass
    if len(stripped) > _MAX_LITERAL_CHARS or not stripped.startswith(("{", "'", '"')):
        return None
    try:
        return ast.literal_eval(stripped)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _known_name(text: str, known: Collection[str]) -> str:
    """Return the tool that a name or an id refers to; "" if none matches."""
    compact = "".join(text.split())
    for candidate in (compact, compact.removeprefix("functions").lstrip("._")):
        fitting = [name for name in known if candidate.startswith(name)]
        for name in sorted(fitting, key=len, reverse=True):
            if re.fullmatch(r"[:_.-]?\d*", candidate[len(name) :]):
                return name
    return ""


def _name_inside(arguments: str, known: Collection[str]) -> tuple[str, str]:
    """Return the tool's name found in the arguments, and the arguments without it."""
    value = _value_in(arguments)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return "", arguments
    name = _known_name(value["name"], known)
    if not name:
        return "", arguments
    rest = {key: item for key, item in value.items() if key != "name"}
    inner = rest.get("arguments", rest.get("parameters")) if len(rest) == 1 else None
    return name, plain_arguments(inner) if isinstance(inner, str) else json.dumps(inner or rest, ensure_ascii=False)


def _name_by_keys(arguments: str, tools: Sequence[Tool]) -> str:
    """Return the only tool that accepts these arguments, or "". Source: SGLang's detector for Kimi K2."""
    value = _value_in(arguments)
    if not isinstance(value, dict) or not value:
        return ""
    fitting = [
        tool.name
        for tool in tools
        if value.keys() <= set(tool.parameters.get("properties", {}))
        and set(tool.parameters.get("required", ())) <= value.keys()
    ]
    return fitting[0] if len(fitting) == 1 else ""
