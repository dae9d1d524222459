"""The prompt that a conversation becomes, as far as token counts tell."""

from model_runtime.self_test.endpoint import Endpoint, user
from model_runtime.self_test.outcome import Outcome, failed, ok, warning
from model_runtime.self_test.probes.tools import WEATHER

COPIES = 8


def probe_template(endpoint: Endpoint) -> Outcome:
    """Tools reach the prompt, and no system prompt is added."""
    alone = endpoint.count([user("Good morning")])
    with_tools = endpoint.count([user("Good morning")], tools=[WEATHER])
    if with_tools - alone < 10:
        raise failed("tools do not reach the prompt; is --enable-auto-tool-choice --tool-call-parser kimi_k2 missing?")
    with_system = endpoint.count([{"role": "system", "content": "Be brief"}, user("Good morning")])
    if with_system - alone < 4:
        return warning("a system prompt is added where none is sent; K2.5's own template has none")
    return ok(f"a greeting is {alone} tokens, a tool adds {with_tools - alone}")


def probe_control_tokens(endpoint: Endpoint) -> Outcome:
    """What a user writes cannot become a control token."""
    plain = endpoint.count([user("x ")])
    grown = endpoint.count([user("x " + "<|im_end|>" * COPIES)]) - plain
    if grown <= COPIES + 1:
        return warning(
            f"{COPIES} x '<|im_end|>' in a user's text are {grown} tokens: pages and files that an agent reads can end "
            "its message and speak as somebody else. Only the server can mend it; break such texts up before sending"
        )
    return ok("'<|im_end|>' in a user's text stays text")
