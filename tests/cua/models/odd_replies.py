"""Replies of servers that host Kimi, as odd as they are met; each with what a client has to make of it.

A form is a list of events of a stream; `body_of` gives the same reply as a whole answer, where it has one.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
CALL = "<|tool_call_begin|>functions.echo:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
ARGUMENTS = '{"text": "hi"}'

Outcome = Literal["call", "answer", "again", "told", "error"]


@dataclass(frozen=True)
class Form:
    """A reply.

    Attributes:
        events: JSON of its stream, or raw bytes of a body.
        outcome: `call`: echo is called with `value` or `hi`. `answer`: the text `value` is the answer. `again`: the
            same request is sent once more. `told`: likewise, then the model is told `value`. `error`: the run ends
            with `value` as reason.
        is_streamed_only: There is no such whole answer.
    """

    events: list[Any]
    outcome: Outcome
    value: str = ""
    is_streamed_only: bool = False


def event(delta: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"model": "fake", "choices": [{"index": 0, "delta": delta, "finish_reason": finish} | more]}


def text(content: Any, finish: Any = "stop", **more: Any) -> list[Any]:
    return [event({"role": "assistant", "content": content} | more), event({}, finish)]


def calling(*calls: dict[str, Any], finish: Any = "tool_calls") -> list[Any]:
    return [event({"tool_calls": list(calls)}), event({}, finish)]


def made(arguments: Any = ARGUMENTS, *, name: Any = "echo", call_id: Any = "functions.echo:0") -> dict[str, Any]:
    return {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def call_pieces(*pieces: dict[str, Any]) -> list[Any]:
    return [*(event({"tool_calls": [piece]}) for piece in pieces), event({}, "tool_calls")]


def with_usage(usage: Any) -> list[Any]:
    return [*text("Five."), {"choices": [], "usage": usage}]


LEAK = SECTION.format(CALL.format(ARGUMENTS))
DRAFT = "## Action:\nEnd it.\n## Code:\n```python\ncomputer.terminate(status='success', answer='draft')\n```\n"
NO_CALL = "announced a tool call, but none arrived"
BROKEN = "held a broken tool call"

FORMS: dict[str, Form] = {
    # Calls.
    "plain call": Form(calling(made()), "call"),
    "finish stop with a call": Form(calling(made(), finish="stop"), "call"),
    "finish in capitals": Form(calling(made(), finish="TOOL_CALLS"), "call"),
    "name repeated": Form(
        call_pieces(made('{"text": '), {"index": 0, "function": {"name": "echo", "arguments": '"hi"}'}}), "call",
        is_streamed_only=True,
    ),
    "name and arguments in pieces": Form(
        call_pieces(
            {"index": 0, "id": "a", "function": {"name": "ec"}}, {"index": 0, "function": {"name": "ho"}},
            *({"index": 0, "function": {"arguments": char}} for char in ARGUMENTS),
        ),
        "call", is_streamed_only=True,
    ),
    "no index": Form(calling({"id": "a", "function": {"name": "echo", "arguments": ARGUMENTS}}), "call"),
    "index as text": Form(calling(made() | {"index": "0"}), "call"),
    "integer id": Form(calling(made(call_id=17)), "call"),
    "id null": Form(calling(made(call_id=None)), "call"),
    "calls as an object": Form([event({"tool_calls": made()}), event({}, "tool_calls")], "call"),
    "no function level": Form(calling({"name": "echo", "arguments": ARGUMENTS}), "call"),
    "legacy function_call": Form(
        [event({"function_call": {"name": "echo", "arguments": ARGUMENTS}}), event({}, "function_call")], "call"
    ),
    "name with blanks": Form(calling(made(name=" echo\n")), "call"),
    "name with prefix and number": Form(calling(made(name="functions.echo:3")), "call"),
    "name null, told by the id": Form(calling(made(name=None)), "call"),
    "name null, told by the keys": Form(calling(made(name=None, call_id="3")), "call"),
    "id without dot and colon": Form(calling(made(name="", call_id="functionsecho5")), "call"),
    "function null": Form(
        call_pieces({"index": 0, "id": "functions.echo:0", "function": None},
                    {"index": 0, "function": {"name": "echo", "arguments": ARGUMENTS}}),
        "call", is_streamed_only=True,
    ),
    "arguments as an object": Form(calling(made({"text": "hi"})), "call"),
    "arguments encoded twice": Form(calling(made(json.dumps(ARGUMENTS))), "call"),
    "arguments fenced": Form(calling(made(f"```json\n{ARGUMENTS}\n```")), "call"),
    "arguments as Python": Form(calling(made("{'text': 'hi'}")), "call"),
    "arguments null": Form(calling(made(None)), "told", "'text' is a required property"),
    "arguments that are code": Form(calling(made("__import__('os')")), "told", "cannot be read"),
    "function null for good": Form(calling({"index": 0, "function": None}), "told", "had no name"),
    "a thousand calls": Form(
        calling(*({"index": i, "id": f"c{i}", "function": {"name": "echo", "arguments": ARGUMENTS}}
                  for i in range(1000))),
        "told", "more than 512 tool calls",
    ),
    "empty call deltas": Form([*text("Let me compute.", None)[:1], event({"tool_calls": []}), event({}, "tool_calls")],
                              "told", NO_CALL),
    # Markers of Kimi.
    "section": Form(text(LEAK), "call"),
    "singular section": Form(text(LEAK.replace("calls_section", "call_section")), "call"),
    "words before a section": Form(text(f"I compute. {LEAK}"), "call"),
    "section over deltas": Form([*(event({"content": char}) for char in LEAK), event({}, "stop")], "call",
                                is_streamed_only=True),
    "section without an end": Form(text(SECTION.format(CALL.format(ARGUMENTS)).rpartition("<|")[0]), "call"),
    "call without a section": Form(text(CALL.format(ARGUMENTS)), "call"),
    "section in the reasoning": Form(text("", reasoning_content=f"I compute. {LEAK}"), "call"),
    "section in an open thought": Form(text(f"<think>I compute. {LEAK}"), "call"),
    "section behind a thought": Form(text(f"<think>I compute.</think>{LEAK}"), "call"),
    "finish tool_calls with a section": Form(text(LEAK, "tool_calls"), "call"),
    "OpenAI id, name inside": Form(
        text(LEAK.replace("functions.echo:0", "call_ab12").replace("{", '{"name": "echo", ')), "call"
    ),
    "bare counter as id": Form(text(LEAK.replace("functions.echo:0", "0")), "call"),
    "marker within the arguments": Form(
        text(SECTION.format(CALL.format(json.dumps({"text": "hi", "x": "<|tool_call_end|>"})))), "told",
        "Additional properties",
    ),
    "structured call and stray markers": Form(
        [event({"content": "I compute. <|tool_calls_section_end|>", "tool_calls": [made()]}), event({}, "tool_calls")],
        "call",
    ),
    "section without a call": Form(text(SECTION.format("")), "told", BROKEN),
    "call without arguments": Form(text("<|tool_call_begin|>functions.echo:0<|tool_call_end|>"), "told", BROKEN),
    "call cut": Form(text(LEAK[:100]), "told", BROKEN),
    "half a marker at the end": Form(text("The sum is 5. <|tool_calls_sec"), "told", BROKEN),
    "end marker alone": Form(text("The sum is 5.<|tool_call_end|>"), "told", BROKEN),
    "marker in backticks": Form(text("K2 writes `<|tool_call_begin|>` first."), "answer",
                                "K2 writes `<|tool_call_begin|>` first."),
    "marker in quotes": Form(text('It is "<|tool_call_begin|>".'), "answer", 'It is "<|tool_call_begin|>".'),
    "section in a fence": Form(text(f"So:\n```\n{LEAK}\n```\nDone."), "answer", f"So:\n```\n{LEAK}\n```\nDone."),
    "end of turn": Form(text("Five.<|im_end|>"), "answer", "Five."),
    "turn made up": Form(text("Five.<|im_end|><|im_user|>user<|im_middle|>What?<|im_end|>"), "answer", "Five."),
    "turns made up": Form(
        text("Five.\n<|im_end|>\n<|im_assistant|>assistant<|im_middle|>hm</think>Six."), "answer", "Five."
    ),
    "turn made up without an end": Form(text("Five.[EOS]<|im_system|>tool<|im_middle|>6"), "answer", "Five."),
    "end token mentioned": Form(text("The token <|im_end|> ends a turn."), "told", "holds <|im_end|>, which"),
    "turn in a fence": Form(text("```\n<|im_end|><|im_user|>\n```\nit is"), "answer",
                            "```\n<|im_end|><|im_user|>\n```\nit is"),
    # Markers of other models.
    "ends of others": Form(text("Five.<|eot_id|> <｜end▁of▁sentence｜></s>\n<|endoftext|>"), "answer", "Five."),
    "call of Hermes": Form(text(f'<tool_call>\n{{"name": "echo", "arguments": {ARGUMENTS}}}\n</tool_call>'), "told",
                           "holds <tool_call>, which"),
    "call of Qwen": Form(text("I compute. <function=echo><parameter=text>hi</parameter></function>"), "told",
                         "holds <function=echo>, which"),
    "call of DeepSeek": Form(text("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>echo"), "told",
                             "holds <｜tool▁calls▁begin｜"),
    "call of Mistral": Form(text(f'[TOOL_CALLS][{{"name": "echo", "arguments": {ARGUMENTS}}}]'), "told",
                            "holds [TOOL_CALLS], which"),
    "calls in XML": Form(text("<function_calls>\n<invoke name='echo'></invoke>\n</function_calls>"), "told",
                         "holds <function_calls>, which"),
    "channel": Form(text("<|channel|>final<|message|>Five."), "told", "holds <|channel|>, which"),
    "call of another in backticks": Form(text("Qwen writes `<tool_call>` and `<|im_end|>`."), "answer",
                                         "Qwen writes `<tool_call>` and `<|im_end|>`."),
    "HTML and pipes": Form(text("<b>5</b> <s>6</s> <call/> a <| b |> c <|x|> <tool> || <s>7</s>"), "answer",
                           "<b>5</b> <s>6</s> <call/> a <| b |> c <|x|> <tool> || <s>7</s>"),
    # Thinking.
    "thought": Form(text("<think>hm</think>Five."), "answer", "Five."),
    "two thoughts": Form(text("<think>hm</think>\n<think>so</think>Five."), "answer", "Five."),
    "thought in the middle": Form(text("It is <think>hm</think>five."), "answer", "It is five."),
    "closing tag only": Form(text("hm\n</think>\n\nFive."), "answer", "Five."),
    "thought over deltas": Form([event({"content": "<thi"}), event({"content": "nk>hm</th"}),
                                 event({"content": "ink>Five."}), event({}, "stop")], "answer", "Five.",
                                is_streamed_only=True),
    "tags in capitals": Form(text("<THINK>hm</Think>Five."), "answer", "Five."),
    "tags with blanks and attributes": Form(text("< think lang='en'>hm</think >Five."), "answer", "Five."),
    "open thought": Form(text("<think>It is five."), "told", "never closes it"),
    "open thought with a draft": Form(text(f"<think>Maybe, but it is forbidden:\n{DRAFT}"), "told", "never closes it"),
    "open thought with two drafts": Form(text(f"<think >\n{DRAFT}or\n{DRAFT}no."), "told", "never closes it"),
    "open thought with bare code": Form(
        text("<Thinking>\n```python\ncomputer.terminate(status='success', answer='draft')\n```"), "told",
        "never closes it",
    ),
    "thought with a draft alone": Form(text(f"<think >{DRAFT}no.</think >\n"), "told", "neither an answer nor a tool"),
    "draft before a closing tag": Form(text(f"{DRAFT}No, I must not.</think>"), "told", "neither an answer nor a tool"),
    "draft in a nested thought": Form(text(f"<think>a<think>b</think>{DRAFT}</think>"), "told", "neither an answer"),
    "open thought in the middle": Form(text("It is <think>five."), "told", "never closes it"),
    "tag in backticks": Form(text("Use `<think>` and `</think>`."), "answer", "Use `<think>` and `</think>`."),
    # Text.
    "content list": Form(text([{"type": "text", "text": "Fi"}, {"type": "text", "text": "ve."}]), "answer", "Five."),
    "content list with reasoning": Form(text([{"type": "reasoning", "text": "hm"}, "Five."]), "answer", "Five."),
    "content null at the end": Form([event({"content": "Five."}), event({"content": None}, "stop")], "answer", "Five.",
                                    is_streamed_only=True),
    "lone surrogate": Form(text("Five \ud83d."), "answer", "Five \ufffd."),
    "surrogates in two deltas": Form([event({"content": "Five \ud83d"}), event({"content": "\ude00."}),
                                      event({}, "stop")], "answer", "Five 😀.", is_streamed_only=True),
    "surrogate at the end": Form(text("Five.\ud83d"), "answer", "Five.\ufffd"),
    "surrogate in arguments": Form(calling(made('{"text": "hi\\ud83d"}')), "call", "hi\ufffd"),
    "surrogate pair split in arguments": Form(
        call_pieces(made('{"text": "hi\\ud83d'), {"index": 0, "function": {"arguments": '\\ude00"}'}}), "call", "hi😀",
        is_streamed_only=True,
    ),
    "refusal of odd type": Form(text("Five.", refusal=False), "answer", "Five."),
    "reasoning of odd type": Form(text("Five.", reasoning_content={"a": 1}), "answer", "Five."),
    "delta null": Form([event({"content": "Five."}), event(None, "stop")], "answer", "Five.", is_streamed_only=True),
    "choice null first": Form([{"choices": [None]}, *text("Five.")], "answer", "Five.", is_streamed_only=True),
    "two choices": Form(
        [{"choices": [*event({"content": "Five."}, "stop")["choices"],
                      {"index": 1, "delta": {"content": "Six."}, "finish_reason": "stop"}]}], "answer", "Five."
    ),
    "two choices, the second one first": Form(
        [{"choices": [{"index": 1, "delta": {"content": "Six."}, "finish_reason": "stop"},
                      *event({"content": "Five."}, "stop")["choices"]]}], "answer", "Five.", is_streamed_only=True
    ),
    "two choices, the second one begins": Form(
        [{"choices": [{"index": 1, "delta": {"role": "assistant", "content": ""}}]}, *text("Five."),
         {"choices": [{"index": 1, "delta": {"content": "Six."}, "finish_reason": "stop"}]}], "answer", "Five.",
        is_streamed_only=True,
    ),
    "only choice with another number": Form(
        [{"choices": [{"index": 1, "delta": {"content": "Five."}, "finish_reason": "stop"}]}], "answer", "Five."
    ),
    "usage in odd types": Form(with_usage({"prompt_tokens": "12", "completion_tokens": 3.0,
                                           "prompt_tokens_details": []}), "answer", "Five."),
    "usage is text": Form(with_usage("none"), "answer", "Five."),
    "usage is NaN": Form(with_usage({"prompt_tokens": float("nan"), "completion_tokens": float("inf")}),
                         "answer", "Five."),
    "model and version are numbers": Form([*text("Five."), {"model": 5, "system_fingerprint": 7, "choices": []}],
                                          "answer", "Five."),
    "log-probabilities of odd type": Form([event({"content": "Five."}, "stop", logprobs=[1], token_ids=["a"])],
                                          "answer", "Five."),
    "error of no meaning": Form([{"error": {"code": None, "message": ""}, "choices": []}, *text("Five.")],
                                "answer", "Five.", is_streamed_only=True),
    # Ends.
    "stop of other servers": Form(text("Five.", "stop_sequence"), "answer", "Five."),
    "length of other servers": Form(text("The sum is", "model_length"), "told", "was cut"),
    "finish abort": Form(text("The sum is", "abort"), "again"),
    "finish error": Form(text("The sum is", "error"), "again"),
    "finish unknown": Form(text("Five.", "banana"), "error", "ends with finish_reason 'banana'"),
    "finish is a number": Form(text("Five.", 5), "error", "ends with finish_reason '5'"),
    "finish empty": Form(text("Five.", ""), "error", "ends with no finish_reason"),
    "finish tool_calls without a call": Form(text("Five.", "tool_calls"), "told", NO_CALL),
    "finish content_filter": Form(text("Five.", "content_filter"), "error", "content filter stopped the reply"),
    "finish length": Form(text("The sum is", "length"), "told", "was cut"),
    "nothing": Form(text(""), "told", "was empty"),
    "only exclamation marks of reasoning": Form(text(None, reasoning_content="!!!!!!!!"), "told",
                                                "neither an answer nor a tool call"),
    "no choices": Form([{"model": "fake", "choices": []}], "error", "has no choices"),
    "error and no choices": Form([{"choices": [], "error": {"message": "engine died"}}], "again"),
    "error object instead of a reply": Form([{"object": "error", "message": "engine died", "code": 500}], "again"),
    "choices is text": Form([{"choices": "none"}], "error", "has no choices"),
}  # fmt: skip


def _line(item: Any) -> bytes:
    return b"data: " + json.dumps(item).encode() + b"\n\n"


def stream_of(form: Form) -> bytes:
    """The reply as an event stream."""
    return b"".join(map(_line, form.events)) + b"data: [DONE]\n\n"


def body_of(form: Form) -> bytes:
    """The reply as a whole answer: the fields of all its deltas in one message."""
    whole: dict[str, Any] = {}
    for item in form.events:
        choices = item.get("choices")
        whole |= {key: value for key, value in item.items() if key != "choices" or choices or "choices" not in whole}
        if isinstance(choices, list) and choices:
            old = whole.get("_choices", [{}])
            first = {**old[0], **{key: value for key, value in choices[0].items() if value is not None}}
            first["message"] = {**old[0].get("message", {}), **(first.pop("delta", None) or {})}
            rest = [{**other, "message": other["delta"]} for other in choices[1:]]
            whole["_choices"] = [first, *rest]
    return json.dumps({**whole, **({"choices": whole.pop("_choices")} if "_choices" in whole else {})}).encode()
