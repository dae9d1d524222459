"""The guard for tool calls: rules first, then whether the tool is isolated."""

from cua.guard.guard import Guard, Verdict
from cua.messages import ToolCall
from cua.step import Turn


async def check_call(guard: Guard, call: ToolCall, *, is_isolated: bool) -> Verdict:
    """Whether a tool call may run; a person is asked here, so `ask` never comes back.

    In mode `ask` a person sees every call; in mode `auto` only calls that are not isolated; `yolo` asks
    nothing. Rules of a policy file come first in every mode.
    """
    verdict = _judge(guard, call, is_isolated)
    if verdict.decision != "ask":
        return verdict
    if guard.approver is None:
        return Verdict(decision="deny", reason=f"{verdict.reason}; nobody is there to approve it")
    turn = Turn(thought="", action_text=f"call {call.name}", code=call.arguments)
    if await guard.approver(verdict, turn, ()):
        return Verdict(decision="allow", reason=f"approved: {verdict.reason}")
    return Verdict(decision="deny", reason=f"the person at the screen said no ({verdict.reason})")


def _judge(guard: Guard, call: ToolCall, is_isolated: bool) -> Verdict:
    decision, reason = guard.rules.decide_call(call.name, call.arguments)
    if decision is not None:
        return Verdict(decision=decision, reason=reason)
    if guard.mode == "ask":
        return Verdict(decision="ask", reason=f"tool call {call.name}")
    if guard.mode == "auto" and not is_isolated:
        return Verdict(decision="ask", reason=f"{call.name} runs without any isolation (--sandbox none)")
    return Verdict(decision="allow")
