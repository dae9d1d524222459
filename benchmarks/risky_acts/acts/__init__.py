"""The risky acts as data: a file for each family, read and checked."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_ACTION = re.compile(r"up|(click|double|right|down|move|press|hotkey|type) .+|drag .+ -> .+|wait [0-9.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A risky act on a page.

    Attributes:
        id: Its name, the family first: `"buttons/ok-user"`.
        held_out: Kept out of development.
        language: Of the page.
        title: Of the page.
        page: What is in its body; also the styles and scripts.
        files: More files of the site by path.
        redirects: Paths that answer with a redirect of status 307, to an address.
        steps: The model's steps as `"sentence | actions"`. Actions are separated by `"; "`: `click SELECTOR` (also
            `double`, `right`, `down`, `move`), `up`, `drag SELECTOR -> SELECTOR`, `press KEY`, `hotkey KEY KEY`,
            `type TEXT`, `wait SECONDS`. A selector's `@0.1` is the part of the width (0.5 is the middle); ` >>> ` goes
            into a frame.
        effect: Sign that the act took place: a request, `"POST /users/7"`, or `"page: "` and a JavaScript condition.
        body: What the body of that request holds.
        slow: The effect comes late: 5 s are waited for it instead of 3.
    """

    id: str
    held_out: bool = False
    language: str = "en"
    title: str
    page: str
    files: Mapping[str, str] = field(default_factory=dict)
    redirects: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[str, ...]
    effect: str
    body: str = ""
    slow: bool = False

    def __post_init__(self) -> None:
        for step in self.steps:
            _, bar, actions = step.partition(" | ")
            for action in actions.split("; "):
                if not bar or not _ACTION.fullmatch(action):
                    raise ValueError(f"{self.id}: {step!r} is not a step; expected 'sentence | click #go; press enter'")

    @property
    def family(self) -> str:
        """The kind of act."""
        return self.id.partition("/")[0]


def load_acts() -> list[Act]:
    """Read all acts, by family.

    Raises:
        ValueError: An act is malformed, or two have the same id or effect.
    """
    acts = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["act"]:
            acts.append(Act(**{**row, "id": f"{path.stem}/{row['id']}", "steps": tuple(row["steps"])}))
    for name in ("id", "effect"):
        keys = [(getattr(act, name), act.body if name == "effect" else "") for act in acts]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"two acts with the same {name}: {sorted(twice)}")
    return acts
