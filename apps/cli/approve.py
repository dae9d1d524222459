"""Ask the person at the terminal whether a risky step may be carried out."""

import asyncio
import sys
from collections.abc import Sequence

from apps.cli import terminal
from cua.guard import Approver, Verdict
from cua.step import Turn
from envs import Action


def terminal_approver() -> Approver | None:
    """Asks on the terminal; None when there is no terminal to ask on."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    async def ask(verdict: Verdict, turn: Turn, actions: Sequence[Action]) -> bool:
        terminal.echo(f"\n  {verdict.reason}\n  {turn.action_text}\n{_indented(turn.code)}", err=True)
        terminal.echo("  Allow this step? [y/N] ", err=True, nl=False)
        answer = await asyncio.to_thread(sys.stdin.readline)
        return answer.strip().lower() in ("y", "yes")

    return ask


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())
