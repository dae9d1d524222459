"""Secrets out of everything that leaves a run: events for whoever watches, the result, what a person is asked."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from cua.guard import Approver, Verdict
from cua.run.events import Event, Listener, Thinking
from cua.run.watch import Watch
from cua.secrets import Secrets
from cua.step import Turn
from cua.trajectory.codec import open_fields
from envs import Action

T = TypeVar("T")


def redacted(value: T, redact: Callable[[str], str]) -> T:
    """A copy of our data with every text redacted, but the closed words of `Literal` fields.

    Args:
        value: A dataclass, or what such a class may hold; bytes and other objects stay as they are.
        redact: Replaces secret values.
    """
    return _redacted(value, redact)  # type: ignore[no-any-return]


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        old = {name: getattr(value, name) for name in open_fields(type(value))}
        new = {name: _redacted(item, redact) for name, item in old.items()}
        changed = {name: item for name, item in new.items() if item is not old[name] and item != old[name]}
        return dataclasses.replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        return {_redacted(key, redact): _redacted(item, redact) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_redacted(item, redact) for item in value)
    return value


def redacting(watch: Watch, secrets: Secrets) -> Watch:
    """The same watchers, who get to see placeholders where secret values stood, and addresses without passwords."""
    return dataclasses.replace(
        watch,
        listener=_redacting_listener(watch.listener, secrets) if watch.listener else None,
        approver=_redacting_approver(watch.approver, secrets) if watch.approver else None,
    )


def _redacting_listener(listener: Listener, secrets: Secrets) -> Listener:
    """Streamed text is held back until no value can go on in the next piece of it."""
    held = ""

    def listen(event: Event) -> None:
        nonlocal held
        if isinstance(event, Thinking):
            held += event.text
            cut = secrets.forms.cut_at(held)
            said, held = secrets.redact(held[:cut]), held[cut:]
        else:
            said, held = secrets.redact(held), ""
        if said:
            listener(Thinking(text=said))
        if not isinstance(event, Thinking):
            listener(redacted(event, secrets.redact))

    return listen


def _redacting_approver(approver: Approver, secrets: Secrets) -> Approver:
    async def ask(verdict: Verdict, turn: Turn, actions: Sequence[Action]) -> bool:
        return await approver(
            redacted(verdict, secrets.redact), redacted(turn, secrets.redact), redacted(tuple(actions), secrets.redact)
        )

    return ask
