"""Texts of models, pages, servers and files are read in linear time, whatever they repeat."""

import contextlib
import functools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.demo.task import _amount_of
from apps.literal.grammar import parse_instruction
from apps.literal.model import split_request
from apps.literal.research import read_facts, read_task
from apps.literal.step_outcome import _ACTION, _MARK
from apps.office.markdown import IMAGE
from apps.office.sheets.workbook import csv_safe
from apps.video2web.vue.components import prop_name
from cua.answer import find_claims, read_text_answer
from cua.answer_files import find_missing_files
from cua.guard import risk, words
from cua.gui_agent.protocol.parse import find_blocks
from cua.messages import Reply
from cua.models.failures import server_message
from cua.models.reply_text import plain_arguments, separate, split_thinking
from cua.research import pages
from cua.tool_agent import mcp_file, resume
from envs.judge import read_verdict
from envs.suites.apps.tasks_dokuwiki import _DAY_OF_JUNE
from envs.suites.osworld.program_settings import _CONDITION
from envs.suites.webarena.network_trace import _clean_form
from envs.suites.webarena.scoring import includes, includes_all
from envs.suites.webarena.verified import parse_answer
from envs.suites.webarena.verified_values import KINDS, _read_markdown, read_distance, read_duration, read_value
from envs.suites.widesearch.scoring import _CITED
from tests.tables import table
from visual_tools.charts.scales import parse_label

NUM_CHARS = 50_000
MAX_S = 1.0
"""Of processor time; each of these took more than that, most of them more than 12 s, before they were linear."""


def lines(text: str) -> list[Any]:
    return find_blocks(text.split("\n"))


def tidy(text: str) -> Reply:
    return separate(Reply(content=text, finish_reason="length"))


def claims(text: str) -> Any:
    return find_claims(text, ())


def linked(text: str) -> Any:
    return pages.number_links(text, "http://a/")


def page(text: str) -> Any:
    return pages.read_html(text, "http://a/")


def form(text: str) -> Any:
    return _clean_form(text, "multipart/form-data")


def six(text: str) -> Any:
    return includes_all(["6"], text)


def verdict(text: str) -> Any:
    return read_verdict(text, {"yes": True})


def missing_files(text: str) -> list[str]:
    return find_missing_files(text, [])


def if_valid(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader that also takes texts that `read` refuses by a ValueError."""

    def read_if_valid(text: str) -> None:
        with contextlib.suppress(ValueError):
            read(text)

    return read_if_valid


READERS: list[tuple[Callable[[str], Any], str, str, str]] = [
    (_amount_of, "", "1", "1,1" * 9),
    (IMAGE.findall, "", "![", ""),
    (csv_safe, "=", "1", "x"),
    (missing_files, 'a.pdf "', " x", ""),
    (missing_files, "", "b.pdf ", ""),
    (missing_files, "a.pdf ", "```x ", ""),
    (missing_files, "", "no a b ", "a.pdf"),
    (missing_files, "a.pdf ", "(a ", "b.pdf"),
    (missing_files, "a.pdf ", "a.", ""),
    (missing_files, "a.pdf ", "a+", "://"),
    (missing_files, "a.pdf ", "図", "b.pdf"),
    (prop_name, "s", "1", "x"),
    (re.compile(_DAY_OF_JUNE).findall, "", "1", ""),
    (parse_label, "1", " ", "x"),
    (_CONDITION.findall, "", "AND (a,a,", ""),
    (_CONDITION.findall, "", "AND (a,b,", ""),
    (_CITED.findall, "", " ", "x"),
    (_CITED.findall, "", "\n", "x"),
    (_CITED.findall, "", " [^a", "x"),
    (verdict, "", " -", "x"),
    (parse_answer, "```", " ", "x"),
    (parse_answer, "```", " \n", "x"),
    (parse_answer, "```", "\n", "``"),
    (parse_answer, "", "```json\n", "x"),
    (form, "", 'name="passw"\r\nx', ""),
    (form, "", 'name="pwd"\r\nx\r\n', ""),
    (form, 'name="', "pwd=", "!"),
    (lambda text: includes("x", text, is_alone=True), "", ".", "y"),
    (six, "6", ".", "x"),
    (six, "", "6'", "x"),
    (_read_markdown, "", "\n", "x"),
    (_read_markdown, "a", "\n ", "x"),
    (_read_markdown, "", "[", ""),
    (_read_markdown, "", "[\n", "x"),
    (_read_markdown, "", "(", ""),
    (_read_markdown, "( a", " ", "b)"),
    (_read_markdown, "", "[a](", ""),
    (if_valid(read_duration), "", " ", "!"),
    (if_valid(read_duration), "1", " ", "!"),
    (if_valid(read_duration), "", "1", "!"),
    (if_valid(read_duration), "", "1:", "!"),
    (if_valid(read_distance), "", "1", "!"),
    (if_valid(read_distance), "", "1.", "!"),
    (split_request, "# Task Instruction:\n", "\n \t", "x"),
    (parse_instruction, "enter ", 'user "a" and ', "x"),
    (parse_instruction, "", "click x then ", "x"),
    (parse_instruction, "", "“", "x"),
    (parse_instruction, "", "'", "x"),
    (parse_instruction, "click ", "[(", "x"),
    (parse_instruction, "type ", "foo in the bar as ", "x"),
    (parse_instruction, 'type "a" into b, ', "c,", "!"),
    (read_task, "", "for each of ", "x"),
    (read_task, "", "collect a of all ", "x"),
    (read_task, "collect a", " ", "x"),
    (read_facts, "|", "\n", "x"),
    (read_facts, "", "| ", "x"),
    (_ACTION.findall, "## Action", "\n", ""),
    (_MARK.match, "[1/2] x", ' · wait 1 of "x', "\n"),
    (claims, "", "a. ", "x"),
    (claims, "a.", " ", "x"),
    (read_text_answer, "```", " \n", "x"),
    (lines, "## code", " ", "x"),
    (lines, "", "```a\n", "x"),
    (split_thinking, "", "<think>", "x"),
    (split_thinking, "", "<think></think>", "x"),
    (split_thinking, "", "`</think>", "x"),
    (split_thinking, "", "## Action: </think>", "x"),
    (tidy, "", "<|tool_call_begin|>", "x"),
    (tidy, "", '<|tool_call_begin|>a<|tool_call_argument_begin|>{"a":"', "x"),
    (tidy, "", '<|tool_call_begin|>a<|tool_call_argument_begin|>{"a":[1,', "x"),
    (tidy, "", "`<|tool_call_end|>` ", "x"),
    (tidy, "", "<|im_end|> ", "x"),
    (tidy, "", "<|tool", "x"),
    (tidy, "", "[EOS] ", "x"),
    (tidy, "", "<|im_user|>", "x"),
    (tidy, "", "<tool_call ", "x"),
    (tidy, "", "<think ", "x"),
    (plain_arguments, "{", "-", "x"),
    (plain_arguments, "{'a':", "(", "x"),
    (plain_arguments, "{'a':", "[{", "x"),
    (server_message, "", "<script>", "x"),
    (server_message, "", "<", "x"),
    (pages.plain_text, "", "<!--", "x"),
    (pages.plain_text, "", "<script>", "x"),
    (pages.plain_text, "", "<title>", "x"),
    (pages.plain_text, "", "<p ", "x"),
    (page, '"', "\t", "x"),
    (page, "<pre>a", "\n", "x</pre>"),
    (page, "<table>", "<th>", ""),
    (linked, "", "[a", "x"),
    (linked, "[", "[a]", "x"),
    (linked, "", "![", "x"),
    (linked, "", "![a](", "x"),
    (risk._SHELL.findall, "", "curl ", "x"),
    (risk._SHELL.findall, "git push ", " ", "x"),
    (risk._QUESTION.findall, "", "a", "x"),
    (risk._QUOTED.findall, "", "“", "x"),
    (words._IN_WORD.findall, "", "1.", "x"),
    (words._IDLE.findall, "", ".remove( ", "x"),
    (words._IDLE.findall, "", "confirm(", "x"),
    (words.kind_of_handler, "href ", "/a", "x"),
    (risk._PURPOSE.split, "", " to", "x"),
    (words._CLAUSE_END.split, "", ".", "x"),
    (words.kind_of, "", "don't delete ", ""),
    (words.kind_of, "", "不删除", ""),
    (words.kind_of, "", "delete filter ", "x"),
    (words.kind_of, "", "筛选", "删除"),
    (resume._NO_PYTHON.findall, "", "\n", "x"),
    (mcp_file._VARIABLE.findall, "", "${A:-", "x"),
]
"""What reads, and the text: its start, what is repeated, its end."""

VALUES = [("", "1", "%"), ("", "[\n", ""), ("", "(", ""), ("", "\n", "x"), ("1", " ", "x"), ("", "\n #", "")]
READERS += [(if_valid(functools.partial(read_value, kind=kind)), *text) for kind in KINDS for text in VALUES]


@pytest.mark.long
@table(
    ("read", "start", "pump", "end"),
    READERS,
)
def test_hostile_texts(read: Callable[[str], Any], start: str, pump: str, end: str) -> None:
    text = start + pump * (NUM_CHARS // len(pump)) + end
    for _ in range(2):  # a collection of garbage may fall into one of them
        started = time.process_time()
        read(text)
        took_s = time.process_time() - started
        if took_s < MAX_S:
            break
    assert took_s < MAX_S
