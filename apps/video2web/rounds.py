"""Order and rounds of a build, and the folder that stores both.

A round counts once its folder has its final name, so a killed build resumes after its last complete round.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal

from apps.video2web.compare import PageDifferences, difference_image, side_by_side
from apps.video2web.interactions import Interaction, PageAction
from apps.video2web.pixels import RgbImage
from apps.video2web.render import Rendering
from apps.video2web.score import Reference, SiteScore, read_reference
from apps.video2web.site_files import Files, code_bytes, read_site, write_site
from cua.errors import ConfigError
from cua.json_text import read_json
from cua.messages import Usage
from cua.trajectory.images import write_atomically
from visual_tools.box import Box
from visual_tools.images.files import load_image, save_image

GOAL = 0.98
MAX_ROUNDS = 8

_INTERACTION_FACTS = (
    "kind",
    "page",
    "duration_s",
    "easing",
    "wait_s",
    "leads_to",
    "end_state",
    "end_row_px",
    "lost",
)

Verdict = Literal["kept", "rolled back", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFacts:
    """Facts found in a recording, for a model and for the report.

    Attributes:
        facts: Facts as returned by `recording.to_json`.
        sheet: Storyboard image, (H, W, 3) uint8 RGB.
    """

    facts: Mapping[str, Any]
    sheet: RgbImage = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Definition of the site to build.

    Attributes:
        pages: The images of the pages; the first one is `index.html`, the next one `page-2.html`.
        viewport_px: Width and height of the viewport that the pages are rendered in.
        goal: Score at which the build ends.
        max_rounds: Maximum number of rounds after the draft.
        instruction: Additional instruction of the user.
        files: File names of the pages, if they differ from the default.
        interactions: Interactions found in a recording.
        recorded: Facts found in the recording; None without one, and when a build is resumed.
    """

    pages: tuple[Reference, ...]
    viewport_px: tuple[int, int]
    goal: float = GOAL
    max_rounds: int = MAX_ROUNDS
    instruction: str = ""
    files: tuple[str, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    recorded: RecordedFacts | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """File names of the pages."""
        return self.files or ("index.html", *(f"page-{number}.html" for number in range(2, len(self.pages) + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Version of a site written by an author.

    Attributes:
        files: Files of the site.
        summary: Description of the change in one sentence.
        usage: Model usage.
        stop: Reason why there will be no further round; "" if there may be one.
        memory: JSON values that the author receives when it continues from this version.
        run: Folder of the recorded model run.
    """

    files: Files
    summary: str
    usage: Usage = field(default_factory=Usage)
    stop: str = ""
    memory: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Draft or change of it, with its result.

    Attributes:
        number: 0 for the draft.
        base: Number of the round that it changed.
        verdict: `kept` if its site is the best so far, else `rolled back` or `failed`.
        score: Score of its site.
        proposal: Site and description by its author.
        findings: Differences, page by page.
        renderings: Rendered pages; None for a page that could not be shown. Not stored.
        seconds: Duration of the round.
        violations: Violated axe-core rules with their counts, page by page; None for a page that was not
            checked, or without axe-core.
    """

    number: int
    base: int
    verdict: Verdict
    score: SiteScore
    proposal: Proposal
    findings: tuple[PageDifferences, ...]
    renderings: tuple[Rendering | None, ...] = ()
    seconds: float = 0.0
    violations: tuple[tuple[str, ...] | None, ...] = ()

    def lines(self) -> list[str]:
        """Return the differences as text."""
        return [*self.score.missing(), *(line for differences in self.findings for line in differences.lines())]


def viewport_of(request: BuildRequest, reference: Reference) -> tuple[int, int]:
    """Return the viewport for a page: at most as high as its image, since it fills at least the viewport."""
    width, height = request.viewport_px
    return width, min(height, reference.image.shape[0])


class BuildFolder:
    """Folder of a build: `build.json`, `reference/`, `rounds/`.

    Args:
        path: Path of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_begun(self) -> bool:
        """True if a build was begun in the folder."""
        return (self.path / "build.json").is_file()

    def begin(self, request: BuildRequest, about: Mapping[str, Any]) -> None:
        """Write the order into the folder."""
        (self.path / "reference").mkdir(parents=True, exist_ok=True)
        (self.path / "rounds").mkdir(exist_ok=True)
        for number, page in enumerate(request.pages, 1):
            save_image(page.image, self.reference(number))
        facts = {
            "version": 1,
            "viewport_px": request.viewport_px,
            "goal": request.goal,
            "max_rounds": request.max_rounds,
        }
        facts |= {"wish": request.instruction, "names": [page.name for page in request.pages], **about}
        facts["interactions"] = [
            self._keep_interaction(number, interaction) for number, interaction in enumerate(request.interactions, 1)
        ]
        if request.recorded is not None:
            save_image(request.recorded.sheet, self.storyboard)
            _write_json(self.path / "reference" / "facts.json", dict(request.recorded.facts))
        _write_json(self.path / "build.json", facts)

    @property
    def storyboard(self) -> Path:
        """Path of the storyboard image; does not exist without a recording."""
        return self.path / "reference" / "storyboard.png"

    def recorded_facts(self) -> dict[str, Any] | None:
        """Return the facts found in the recording; None without one."""
        path = self.path / "reference" / "facts.json"
        return _read_object(path) if path.is_file() else None

    def _keep_interaction(self, number: int, interaction: Interaction) -> dict[str, Any]:
        images = {"before": interaction.before, "after": interaction.after, "end_page": interaction.end_page}
        for name, image in images.items():
            if image is not None:
                save_image(image, self._interaction_image(number, name))
        facts = {name: getattr(interaction, name) for name in _INTERACTION_FACTS}
        facts |= {"acts": [asdict(act) for act in interaction.acts], "box_px": list(astuple(interaction.box_px))}
        return {**facts, "has_end_page": interaction.end_page is not None}

    def _interaction_image(self, number: int, name: str) -> Path:
        return self.path / "reference" / f"interaction-{number}-{name.replace('_', '-')}.png"

    def _read_interaction(self, number: int, facts: Mapping[str, Any]) -> Interaction:
        return Interaction(
            **{name: facts[name] for name in _INTERACTION_FACTS if name in facts},
            acts=tuple(PageAction(**act) for act in facts["acts"]),
            box_px=Box(*map(int, facts["box_px"])),
            before=load_image(self._interaction_image(number, "before")),
            after=load_image(self._interaction_image(number, "after")),
            end_page=load_image(self._interaction_image(number, "end_page")) if facts["has_end_page"] else None,
        )

    def reference(self, number: int) -> Path:
        """Return the path of the image of a page, counted from 1."""
        return self.path / "reference" / f"reference-page-{number}.png"

    def facts(self) -> dict[str, Any]:
        """Return the data written by `begin`.

        Raises:
            ConfigError: If there is no readable data.
        """
        return _read_object(self.path / "build.json")

    def request(self) -> BuildRequest:
        """Read the order of the build.

        Raises:
            ConfigError: If the order cannot be read.
        """
        facts = self.facts()
        try:
            pages = [
                read_reference(load_image(self.reference(number)), str(name))
                for number, name in enumerate(facts["names"], 1)
            ]
            width, height = (int(side) for side in facts["viewport_px"])
            return BuildRequest(
                pages=tuple(pages),
                viewport_px=(width, height),
                goal=float(facts["goal"]),
                max_rounds=int(facts["max_rounds"]),
                instruction=str(facts["wish"]),
                interactions=tuple(
                    self._read_interaction(number, interaction)
                    for number, interaction in enumerate(facts.get("interactions", ()), 1)
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{self.path / 'build.json'} does not describe a build: {error!r}; start a new build"
            ) from error

    def round_dir(self, number: int) -> Path:
        """Return the folder of a round."""
        return self.path / "rounds" / f"{number:02d}"

    def rounds(self) -> list[dict[str, Any]]:
        """Return the finished rounds, in order."""
        rounds: list[dict[str, Any]] = []
        while (self.round_dir(len(rounds)) / "round.json").is_file():
            rounds.append(_read_object(self.round_dir(len(rounds)) / "round.json"))
        return rounds

    def site(self, number: int) -> dict[str, bytes]:
        """Return the site of a round."""
        return read_site(self.round_dir(number) / "site")

    def keep(self, done: Round, request: BuildRequest) -> dict[str, Any]:
        """Write a round; it counts once its folder has its final name."""
        folder = self.round_dir(done.number)
        fresh = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        if done.proposal.files:
            write_site(done.proposal.files, fresh / "site")
        images = [
            self._keep_images(fresh, done, page, request.pages[page].image)
            for page in range(len(request.pages))
            if done.renderings
        ]
        facts = {
            "number": done.number,
            "base": done.base,
            "verdict": done.verdict,
            "score": done.score.to_json(),
            "said": done.proposal.summary,
            "stop": done.proposal.stop,
            "memory": dict(done.proposal.memory),
            "run": done.proposal.run,
            "usage": asdict(done.proposal.usage),
            "findings": done.lines(),
            "images": images,
            "code_bytes": code_bytes(done.proposal.files),
            "elements": [page.num_elements if page else None for page in done.renderings],
            "accessibility": [None if page is None else list(page) for page in done.violations],
            "seconds": round(done.seconds, 2),
        }
        _write_json(fresh / "round.json", facts)
        fresh.rename(folder)
        return facts

    def _keep_images(self, fresh: Path, done: Round, page: int, reference: Any) -> dict[str, Any]:
        rendering = done.renderings[page]
        if rendering is None:
            return {}
        name = f"round-{done.number}-page-{page + 1}"
        save_image(rendering.image, fresh / f"{name}.png")
        save_image(difference_image(reference, rendering.image), fresh / f"{name}-difference.png")
        regions = []
        for number, box in enumerate(done.findings[page].regions, 1):
            regions.append(f"{name}-worst-{number}.png")
            save_image(side_by_side(reference, rendering.image, box), fresh / regions[-1])
        return {"ours": f"{name}.png", "difference": f"{name}-difference.png", "worst": regions}


def _write_json(path: Path, value: Any) -> None:
    write_atomically(path, json.dumps(value, ensure_ascii=False, indent=1).encode(), is_durable=True)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; begin a new build") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds no object; begin a new build")
    return value


def best_number(rounds: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the number of the last round that was kept."""
    return max((int(each["number"]) for each in rounds if each["verdict"] == "kept"), default=None)
