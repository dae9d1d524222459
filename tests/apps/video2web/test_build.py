"""The loop that builds a site: real browser, real sandbox, and an author that says what was written down before."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from apps.video2web.build import SiteEvaluator, build
from apps.video2web.render import SitePages
from apps.video2web.rounds import BuildFolder, BuildRequest, Proposal, Round
from apps.video2web.rules_author import LiteralAuthor
from apps.video2web.score import read_reference

pytestmark = pytest.mark.asyncio(loop_scope="session")
SIZE = (480, 260)
GOOD = """<!doctype html><title>Plants</title><style>body{margin:0;font:16px sans-serif;color:#222}
header{background:#234;color:#fff;padding:12px}h1{margin:20px}p{margin:20px}</style>
<header>Fern and Company</header><h1>Plants for your flat</h1><p>We grow two hundred kinds of plants.</p>"""
DRAFT = GOOD.replace("<p>We grow two hundred kinds of plants.</p>", "").replace("#234", "#834")
BETTER = GOOD.replace("#234", "#834")
WORSE = "<!doctype html><p>Something else"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def build_request(evaluator: SiteEvaluator) -> BuildRequest:
    shown = await evaluator.render({"index.html": GOOD.encode()}, "index.html", SIZE)
    return BuildRequest(pages=(read_reference(shown.image, "page.png"),), viewport_px=SIZE, goal=0.999)


class Scripted:
    """Writes the next page of a list, whatever it is told."""

    name = "scripted"

    def __init__(self, pages: Sequence[str]) -> None:
        self.pages = list(pages)
        self.told: list[tuple[int, int, list[str]]] = []

    def _next(self) -> Proposal:
        return Proposal(files={"index.html": self.pages.pop(0).encode()}, summary="next page")

    async def draft(self, build_request: BuildRequest) -> Proposal:
        return self._next()

    async def revise(self, build_request: BuildRequest, best: Round, last: Round, folder: Path) -> Proposal:
        self.told.append((best.number, last.number, best.lines()))
        return self._next()

    async def close(self) -> None:
        pass


@pytest.mark.long
async def test_the_score_rises_and_a_bad_round_is_rolled_back(
    evaluator: SiteEvaluator, build_request: BuildRequest, tmp_path: Path
) -> None:
    folder = BuildFolder(tmp_path / "build")
    folder.begin(build_request, {})
    author, said = Scripted([DRAFT, BETTER, WORSE, GOOD]), list[str]()
    made = await build(folder, build_request, author, evaluator, said.append)
    scores = [each["score"]["score"] for each in made.rounds]
    assert [each["verdict"] for each in made.rounds] == ["kept", "kept", "rolled back", "kept"]
    assert scores[0] < scores[1] < scores[3]
    assert scores[2] < scores[1]
    assert (made.best, made.is_goal_met, made.score) == (3, True, scores[3])
    assert made.reason == "the goal of 0.999 is reached"
    assert folder.site(3) == {"index.html": GOOD.encode()}
    assert [told[:2] for told in author.told] == [(0, 0), (1, 1), (1, 2)]
    assert any(line.startswith("missing: the text 'we grow two hundred") for line in author.told[0][2])
    assert "rolled back" in said[2]


@pytest.mark.long
async def test_it_ends_without_gain_and_goes_on_after_a_kill(
    evaluator: SiteEvaluator, build_request: BuildRequest, tmp_path: Path
) -> None:
    folder = BuildFolder(tmp_path / "build")
    folder.begin(build_request, {})
    with pytest.raises(IndexError):
        await build(folder, build_request, Scripted([DRAFT, BETTER, WORSE]), evaluator, lambda line: None)
    (folder.path / "rounds" / "03.new").mkdir()
    (folder.path / "rounds" / "03.new" / "half.png").write_bytes(b"x")
    author = Scripted([WORSE, GOOD])
    made = await build(folder, folder.request(), author, evaluator, lambda line: None)
    assert [each["verdict"] for each in made.rounds] == ["kept", "kept", "rolled back", "rolled back"]
    assert made.reason == "no gain in 2 rounds"
    assert made.best == 1
    assert author.told[0][:2] == (1, 1)
    assert not made.is_goal_met


@pytest.mark.long
async def test_rules_mend_their_own_draft(
    evaluator: SiteEvaluator, build_request: BuildRequest, tmp_path: Path
) -> None:
    folder = BuildFolder(tmp_path / "build")
    folder.begin(build_request, {})
    made = await build(folder, build_request, LiteralAuthor(), evaluator, lambda line: None)
    scores = [each["score"]["score"] for each in made.rounds if each["verdict"] == "kept"]
    assert scores == sorted(scores)
    assert made.score > 0.95
    assert b"Fern and Company" in folder.site(made.best)["index.html"]


@pytest.mark.long
async def test_a_page_that_cannot_be_shown_costs_its_round_only(
    evaluator: SiteEvaluator, build_request: BuildRequest, tmp_path: Path
) -> None:
    folder = BuildFolder(tmp_path / "build")
    folder.begin(build_request, {})
    author = Scripted([DRAFT, BETTER, GOOD])
    author.pages[1] = ""  # replaced by a site without a page
    broken = Proposal(files={"other.html": b"x"}, summary="moved the page")
    answers = [broken]

    async def revise(build_request: BuildRequest, best: Round, last: Round, folder: Path) -> Proposal:
        return answers.pop(0) if answers else Proposal(files={"index.html": GOOD.encode()}, summary="back")

    author.revise = revise  # type: ignore[method-assign]
    made = await build(folder, build_request, author, evaluator, lambda line: None)
    assert [each["verdict"] for each in made.rounds] == ["kept", "failed", "kept"]
    assert "there is no index.html; found other.html" in made.rounds[1]["findings"][-1]


@pytest.mark.long
async def test_pages_of_an_order_have_names(build_request: BuildRequest) -> None:
    assert BuildRequest(pages=build_request.pages * 3, viewport_px=SIZE).names == (
        "index.html",
        "page-2.html",
        "page-3.html",
    )
    assert SitePages({"index.html": GOOD}).read("/") is not None
