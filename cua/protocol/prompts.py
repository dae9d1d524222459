"""Texts of the GUI protocol, as data.

Source: Kimi K2.5 technical report, Appendix E.7 (system prompt); the public OSWorld harness's Kimi agent (line
layout, the non-thinking variant, the instruction and the text of a step).
"""

from cua.protocol.options import ProtocolOptions

_OPENING = (
    "You are a GUI agent. You are given an instruction, a screenshot of the screen and your previous interactions "
    "with the computer. You need to perform a series of actions to complete the task."
)
_PASSWORD = " The password of the computer is {password}."
_FORMAT_THINKING = """\
For each step, provide your response in this format:
{thought}
## Action:
{action}
## Code:
{code}"""
_FORMAT_PLAIN = _FORMAT_THINKING.replace("{thought}", "## Thought\n{thought}")
_FUNCTIONS = """\
In the code section, the code should be either pyautogui code or one of the following functions \
wrapped in the code block:
- {"name": "computer.wait", "description": "Make the computer wait for 20 seconds for installation, running code, \
etc.", "parameters": {"type": "object", "properties": {}, "required": []}}
- {"name": "computer.terminate", "description": "Terminate the current task and report its completion status", \
"parameters": {"type": "object", "properties": {"status": {"type": "string", "enum": ["success", "failure"], \
"description": "The status of the task"}, "answer": {"type": "string", "description": "The answer of the task"}}, \
"required": ["status"]}}"""

THINKING_PROMPT = f"{_OPENING}{_PASSWORD}\n\n{_FORMAT_THINKING}\n\n{_FUNCTIONS}"
"""The report's system prompt, `{password}` not yet filled in."""

PLAIN_PROMPT = f"{_OPENING}{_PASSWORD}\n\n{_FORMAT_PLAIN}\n\n{_FUNCTIONS}"
"""The same for a model that does not think first."""


def system_prompt(options: ProtocolOptions) -> str:
    """The system prompt of a run; without a password its sentence is left out."""
    prompt = THINKING_PROMPT if options.thinking else PLAIN_PROMPT
    sentence = _PASSWORD.replace("{password}", options.password) if options.password else ""
    prompt = prompt.replace(_PASSWORD, sentence)
    return f"{prompt}\n\n{options.extra_prompt}" if options.extra_prompt else prompt


def instruction_text(instruction: str) -> str:
    """The instruction as it stands at the end of a request; braces in it mean nothing."""
    return (
        f"# Task Instruction:\n{instruction}\n\n"
        "Please generate the next move according to the screenshot, task instruction and previous steps "
        "(if provided).\n"
    )


def step_text(index: int, thought: str, action: str, *, thinking: bool) -> str:
    """A finished step as the model is reminded of it: thought and action, neither code nor result.

    Args:
        index: 1-based number of the step in the run.
        thought: Its reasoning, never shortened.
        action: Its sentence under `## Action`.
        thinking: Which of the two layouts.
    """
    if thinking:
        return f"# Step {index}:\n◁think▷{thought}◁/think▷## Action:\n{action}\n"
    return f"# Step {index}:\n## Thought:\n{thought}\n\n## Action:\n{action}\n"
