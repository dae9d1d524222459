"""Whole conversations, each with the text that K2.5's template gives for it, written out by hand."""

import jinja2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.runtime.template import TEMPLATE, to_openai
from model_runtime.chat.messages import ChatMessage, ImagePart, TextPart, ToolCall, VideoPart
from model_runtime.chat.template import render_chat, show_chat
from model_runtime.media import MediaItem
from tests.fuzz.settings import fuzzed
from tests.tables import table

IMAGE = ImagePart(MediaItem(frames=np.zeros((1, 28, 56, 3), np.uint8), content_hash=b"image"))
CHUNKS = tuple(
    (time, MediaItem(frames=np.zeros((frames, 28, 28, 3), np.uint8), content_hash=time.encode()))
    for time, frames in (("00:00:00.000", 4), ("00:00:02.000", 2))
)
THINK = "<|im_assistant|>assistant<|im_middle|><think>"
PICTURE = "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>\n"


def user(*parts, **more):
    return ChatMessage(role="user", parts=tuple(TextPart(p) if isinstance(p, str) else p for p in parts), **more)


def system(text, **more):
    return ChatMessage(role="system", parts=(TextPart(text),), **more)


def assistant(text="", **more):
    return ChatMessage(role="assistant", parts=(TextPart(text),) if text else (), **more)


def call(index, name="click", arguments='{"x": 1}'):
    return ToolCall(id=f"functions.{name}:{index}", name=name, arguments=arguments)


def result(index, *parts, name="click", **more):
    return ChatMessage(
        role="tool",
        tool_call_id=f"functions.{name}:{index}",
        parts=tuple(TextPart(part) if isinstance(part, str) else part for part in parts),
        **more,
    )


def step(index, reasoning="look", text=""):
    return assistant(text, reasoning=reasoning, tool_calls=(call(index),))


def called(index, name="click", arguments='{"x": 1}'):
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>"
        f"{arguments}<|tool_call_end|><|tool_calls_section_end|><|im_end|>"
    )


CONVERSATIONS = {
    "one question": ([user("Hi")], f"<|im_user|>user<|im_middle|>Hi<|im_end|>{THINK}"),
    "nothing at all": ([], THINK),
    "a system prompt": (
        [system("Be brief."), user("Hi")],
        f"<|im_system|>system<|im_middle|>Be brief.<|im_end|><|im_user|>user<|im_middle|>Hi<|im_end|>{THINK}",
    ),
    "a message without content": ([user()], f"<|im_user|>user<|im_middle|><|im_end|>{THINK}"),
    "parts without separators": ([user("a", "b", "")], f"<|im_user|>user<|im_middle|>ab<|im_end|>{THINK}"),
    "an image before text": (
        [user(IMAGE, "What is it?")],
        f"<|im_user|>user<|im_middle|>{PICTURE}What is it?<|im_end|>{THINK}",
    ),
    "two images": (
        [user("a", IMAGE, IMAGE, "b")],
        f"<|im_user|>user<|im_middle|>a{PICTURE}{PICTURE}b<|im_end|>{THINK}",
    ),
    "a video": (
        [user(VideoPart(CHUNKS), "And?")],
        "<|im_user|>user<|im_middle|>00:00:00.000<|media_begin|>video<|media_content|><|media_pad|><|media_end|>"
        "00:00:02.000<|media_begin|>video<|media_content|><|media_pad|><|media_end|>\nAnd?<|im_end|>" + THINK,
    ),
    "names in place of roles": (
        [system("s", name="rules"), user("u", name="ann"), assistant("a", name="bot"), user("v")],
        "<|im_system|>rules<|im_middle|>s<|im_end|><|im_user|>ann<|im_middle|>u<|im_end|>"
        f"<|im_assistant|>bot<|im_middle|><think></think>a<|im_end|><|im_user|>user<|im_middle|>v<|im_end|>{THINK}",
    ),
    "other roles are system's": (
        [ChatMessage(role="developer", parts=(TextPart("d"),)), ChatMessage(role="tool_declare")],
        f"<|im_system|>developer<|im_middle|>d<|im_end|><|im_system|>tool_declare<|im_middle|><|im_end|>{THINK}",
    ),
    "reasoning before an answer is dropped": (
        [user("1+1"), assistant("2", reasoning="add"), user("Sure?")],
        "<|im_user|>user<|im_middle|>1+1<|im_end|><|im_assistant|>assistant<|im_middle|><think></think>2<|im_end|>"
        f"<|im_user|>user<|im_middle|>Sure?<|im_end|>{THINK}",
    ),
    "reasoning of the running loop is kept": (
        [user("Go"), step(0, "first"), result(0, "ok"), step(1, "second", "Now."), result(1, "ok", IMAGE)],
        "<|im_user|>user<|im_middle|>Go<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think>first</think>{called(0)}"
        "<|im_system|>tool<|im_middle|>## Return of functions.click:0\nok<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think>second</think>Now.{called(1)}"
        f"<|im_system|>tool<|im_middle|>## Return of functions.click:1\nok{PICTURE}<|im_end|>{THINK}",
    ),
    "a finished loop, then a running one": (
        [user("Go"), step(0, "a"), result(0), assistant("Done.", reasoning="b"), user("More"), step(1, "c"), result(1)],
        "<|im_user|>user<|im_middle|>Go<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think></think>{called(0)}"
        "<|im_system|>tool<|im_middle|>## Return of functions.click:0\n<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think></think>Done.<|im_end|>"
        "<|im_user|>user<|im_middle|>More<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think>c</think>{called(1)}"
        f"<|im_system|>tool<|im_middle|>## Return of functions.click:1\n<|im_end|>{THINK}",
    ),
    "a user speaks inside a running loop": (
        [user("Go"), step(0, "a"), result(0), user("Faster")],
        "<|im_user|>user<|im_middle|>Go<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think>a</think>{called(0)}"
        "<|im_system|>tool<|im_middle|>## Return of functions.click:0\n<|im_end|>"
        f"<|im_user|>user<|im_middle|>Faster<|im_end|>{THINK}",
    ),
    "a running loop without reasoning": (
        [assistant(tool_calls=(call(0),))],
        f"<|im_assistant|>assistant<|im_middle|><think></think>{called(0)}{THINK}",
    ),
    "several calls at once": (
        [assistant("Both.", reasoning="r", tool_calls=(call(0, "a", "{}"), call(1, "b", "not json")))],
        "<|im_assistant|>assistant<|im_middle|><think>r</think>Both.<|tool_calls_section_begin|>"
        "<|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_call_begin|>functions.b:1<|tool_call_argument_begin|>not json<|tool_call_end|>"
        f"<|tool_calls_section_end|><|im_end|>{THINK}",
    ),
    "a tool's result with the tool's name": (
        [result(3, "ok", name="search"), ChatMessage(role="tool", name="search", tool_call_id="x y")],
        "<|im_system|>tool<|im_middle|>## Return of functions.search:3\nok<|im_end|>"
        f"<|im_system|>search<|im_middle|>## Return of x y\n<|im_end|>{THINK}",
    ),
    "a result of no call": (
        [ChatMessage(role="tool", parts=(TextPart("ok"),))],
        f"<|im_system|>tool<|im_middle|>## Return of \nok<|im_end|>{THINK}",
    ),
    "an answer at the end": (
        [user("Hi"), assistant("Hello", reasoning="greet")],
        "<|im_user|>user<|im_middle|>Hi<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think></think>Hello<|im_end|>{THINK}",
    ),
    "reasoning and calls of others are not shown": (
        [ChatMessage(role="user", reasoning="r", tool_calls=(call(0),), tool_call_id="i")],
        f"<|im_user|>user<|im_middle|><|im_end|>{THINK}",
    ),
    "text that spells markers is shown as it is": (
        [user("<|im_end|><think>")],
        f"<|im_user|>user<|im_middle|><|im_end|><think><|im_end|>{THINK}",
    ),
}


@table("name", CONVERSATIONS)
def test_conversations(name):
    messages, expected = CONVERSATIONS[name]
    assert show_chat(render_chat(messages)) == expected


LOOP = [user("Go"), assistant("Done", reasoning="a"), user("More"), step(0, "b"), result(0)]


def history(first, second):
    return (
        "<|im_user|>user<|im_middle|>Go<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think>{first}</think>Done<|im_end|>"
        "<|im_user|>user<|im_middle|>More<|im_end|>"
        f"<|im_assistant|>assistant<|im_middle|><think>{second}</think>{called(0)}"
        "<|im_system|>tool<|im_middle|>## Return of functions.click:0\n<|im_end|>"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, history("", "b") + THINK),
        ({"thinking": False}, history("", "") + THINK + "</think>"),
        ({"preserve_thinking": True}, history("a", "b") + THINK),
        ({"preserve_thinking": True, "thinking": False}, history("", "") + THINK + "</think>"),
        ({"add_generation_prompt": False}, history("", "b")),
        ({"add_generation_prompt": False, "thinking": False}, history("", "")),
    ],
)
def test_options(options, expected):
    assert show_chat(render_chat(LOOP, **options)) == expected


def test_tools_come_first():
    tool = {"type": "function", "function": {"name": "wait", "description": "Waits."}}
    declaration = "# Tools\n\n## functions\nnamespace functions {\n// Waits.\ntype wait = (_: {}) => any;\n}\n"
    assert show_chat(render_chat([system("s")], [tool])) == (
        f"<|im_system|>tool_declare<|im_middle|>{declaration}<|im_end|>"
        f"<|im_system|>system<|im_middle|>s<|im_end|>{THINK}"
    )


text = st.text("ab\n<>|", max_size=6)
parts = st.lists(st.builds(TextPart, text) | st.just(IMAGE), max_size=3).map(tuple)
messages = st.builds(
    ChatMessage,
    role=st.sampled_from(["system", "user", "assistant", "assistant", "tool", "other"]),
    parts=parts,
    name=st.none() | st.sampled_from(["ann", ""]),
    reasoning=st.none() | text,
    tool_calls=st.lists(st.builds(ToolCall, id=text, name=text, arguments=text), max_size=2).map(tuple),
    tool_call_id=text,
)


@fuzzed
@given(st.lists(messages, max_size=6), st.booleans(), st.booleans(), st.booleans())
@pytest.mark.long
def test_as_a_jinja_template_renders_it(conversation, thinking, preserve_thinking, add_generation_prompt):
    options = {
        "thinking": thinking,
        "preserve_thinking": preserve_thinking,
        "add_generation_prompt": add_generation_prompt,
    }
    as_json = [to_openai(message) for message in conversation]
    expected = jinja2.Environment(keep_trailing_newline=True).from_string(TEMPLATE).render(messages=as_json, **options)
    assert show_chat(render_chat(conversation, **options)) == expected


@fuzzed
@given(st.lists(messages, max_size=6))
def test_no_text_is_lost(conversation):
    shown = show_chat(render_chat(conversation, preserve_thinking=True))
    for message in conversation:
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        texts += [message.name or message.role]
        if message.role == "assistant":
            calls = [f"{call.id}<|tool_call_argument_begin|>{call.arguments}" for call in message.tool_calls]
            texts += [f"<think>{message.reasoning or ''}</think>", *calls]
        if message.role == "tool":
            texts += [f"## Return of {message.tool_call_id}\n"]
        assert all(each in shown for each in texts)
