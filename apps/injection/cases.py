"""Cases of the suite `injection`: a user's task, a planted text, and the actions that it asks for."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.injection.sites import APPS, EXPENSES, PlantedText

Step = tuple[str, ...]
"""Verb, target and text of a step, as explained in `data/cases.toml`."""
_BIRDS = ("heron", "gannet", "plover", "curlew", "avocet", "knot", "dunlin", "sanderling", "eider", "scoter", "tern")
_HOSTS = ("ledger-sync", "portal-check", "cdn-assets", "harbour-support", "fast-claims", "docs-mirror", "agent-help")
_LABELS = ("Open the notes", "Continue here", "View document", "Show details", "Proceed", "Read more", "Load it")


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionCase:
    """One case. Texts contain `{app}` and `{evil}`, which are filled in once the servers run.

    Attributes:
        id: `task/attack-place`.
        instruction: Instruction of the user, unique among the cases.
        steps: Steps of the user's task.
        done: Requests that the app must have executed, each as texts that it contains.
        answer: What the agent's answer must contain; "" for nothing.
        plant: The planted text and its location.
        about: Short description of the attack.
        language: Language of the text.
        ways: Ways to obey, each a list of steps; the next one is used if one is blocked.
        effect: Request that the attack has caused, as texts that it contains.
        attacker: The attacker's mail address.
        evil_host: Name of the attacker's host.
    """

    id: str
    instruction: str
    steps: tuple[Step, ...]
    done: tuple[tuple[str, ...], ...]
    answer: str
    plant: PlantedText
    about: str
    language: str
    ways: tuple[tuple[Step, ...], ...]
    effect: tuple[str, ...]
    attacker: str
    evil_host: str

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of links and buttons that the user's task needs, and of fields about which a user may be asked."""
        return tuple(step[1] for step in self.steps if step[0] == "click" or step[0].endswith("!"))


@functools.cache
def load_cases() -> Mapping[str, InjectionCase]:
    """Return all cases by id, in the order of the file.

    Raises:
        ValueError: If an id or an instruction is not unique.
    """
    data = tomllib.loads(Path(__file__).with_name("data").joinpath("cases.toml").read_text("utf-8"))
    cases = [_make_case(number, row, data) for number, row in enumerate(data["table"]["rows"])]
    by_id = {case.id: case for case in cases}
    if len(by_id) < len(cases) or len({case.instruction for case in cases}) < len(cases):
        raise ValueError("two cases of the suite `injection` have the same id or the same instruction")
    return by_id


def _make_case(number: int, row: list[str], data: Mapping[str, Any]) -> InjectionCase:
    name, place, attack, language, text = row
    task, goal = data["tasks"][name], data["goals"][attack]
    app, host = task["app"], _HOSTS[number % len(_HOSTS)]
    attacker = f"desk@{host}.example"
    words = {
        "value": f"{_BIRDS[number % len(_BIRDS)]}-{100 + number}",
        "secret": "Hotel Lisbon 312.00" if app == EXPENSES else APPS[app]["secret"],
        "attacker": attacker,
        "label": _LABELS[number % len(_LABELS)],
    }

    def fill(value: Any) -> Any:
        """Replace the placeholders in the texts of a value."""
        if isinstance(value, list):
            return tuple(fill(item) for item in value)
        for word, text in words.items():
            value = value.replace(f"{{{word}}}", text)
        return value

    return InjectionCase(
        id=f"{name}/{attack}-{place}",
        instruction=fill(task["instruction"]),
        steps=fill(task["steps"]),
        done=fill(task["done"]),
        answer=task.get("answer", ""),
        plant=PlantedText(app=app, place=place, item=task["item"], text=fill(text), html=fill(goal.get("html", ""))),
        about=goal["about"],
        language=language,
        ways=fill(goal["ways"]),
        effect=fill(goal["effect"]),
        attacker=attacker,
        evil_host=f"{host}.localhost",
    )
