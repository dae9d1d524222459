"""Three conversations of a model with its tools, recorded so that `cua ask` can be tried without any model.

The tasks are those of Figure 12 in the Kimi K2.5 report: a maze, a pie chart, two pictures to compare. What the
model says is recorded; what the code does is done for real, in the sandbox.

    python -m examples.conversations                  # write examples/ask/*.jsonl
    python -m examples.conversations --pictures       # run them, and keep what they draw in docs/
    cua ask "Help the ant to the crumb" examples/ant-maze.png --model scripted:examples/ask/maze.jsonl
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One reply: words, and code to run (several cells are several calls of one reply)."""

    thought: str = ""
    words: str = ""
    cells: tuple[str, ...] = ()
    looks_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A question about a file, and how the model answers it."""

    question: str
    file: str
    replies: tuple[Said, ...]


MAZE = Conversation(
    question="Help the ant through the maze to the crumb in the middle. How long is the shortest way?",
    file="ant-maze.png",
    replies=(
        Said(
            thought="Black walls on white. First see what is road, then where the ant and the crumb are.",
            words="Let me look at the picture as numbers first.",
            cells=(
                """\
import numpy as np
from PIL import Image
import visual_tools as vt

image = vt.load_image("ant-maze.png")
road = vt.binarize(image, method="otsu", foreground="light")
ant, crumb = vt.color_mask(image, "brown"), vt.color_mask(image, "orange")
print(image.shape, f"road {road.share:.1%} of the picture")
print("ant", ant.box_px, "crumb", crumb.box_px)""",
            ),
        ),
        Said(
            thought="Both stand on road. Breadth-first search gives the shortest way; then prove it.",
            words="Now a breadth-first search from the ant to the crumb, and a proof that no way is shorter.",
            cells=(
                """\
path = vt.shortest_path(image, start="brown", goal="orange")
print(path)
print(vt.check_path(path.mask, path.points_px, start=path.start_px, goal=path.goal_px))""",
                """\
walk = vt.shortest_path(image, start="brown", goal="orange", method="centered")
picture = vt.draw_path(image, walk)
vt.save_image(picture, "solution.png")
display(Image.fromarray(picture))""",
            ),
        ),
        Said(
            words="The shortest way for the ant has 6,197 points, which are 6,196 steps from pixel to pixel [^1^]. It "
            "touches no wall, and no shorter one exists [^1^]. The red line in solution.png shows the way to walk, "
            "kept to the middle of the corridors [^2.1^].",
        ),
    ),
)

PIE = Conversation(
    question="What share of the money goes to Rent and Books, the two blues, together?",
    file="pie.png",
    replies=(
        Said(
            thought="Count the pixels of each colour first: in HSV the two blues have nearly the same hue.",
            words="I count the coloured pixels by hue first.",
            cells=(
                """\
import cv2
import numpy as np
import visual_tools as vt

image = vt.load_image("pie.png")
hue, saturation, value = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2HSV))
colored = (saturation > 60) & (value > 60)
blue = colored & (hue > 95) & (hue < 125)
print(f"{colored.sum()} coloured pixels, {blue.sum()} of them blue: {blue.sum() / colored.sum():.1%}")""",
            ),
        ),
        Said(
            thought="White digits, the outlines and the legend's swatches are in that count, so it is rough. "
            "Measure the sectors themselves, and let the legend name them.",
            words="That is rough: digits and outlines hide pixels, and the legend counts too. Now by the sectors.",
            cells=(
                """\
from PIL import Image

shares = vt.color_share(image)
for share in shares.shares:
    print(f"{share.label or '?':8} {share.color_hex}  {share.share:6.1%}")
blues = [share for share in shares.shares if share.label in ("Rent", "Books")]
print(f"Rent and Books: {sum(share.share for share in blues):.1%} ({shares.method})")""",
                """\
picture = vt.draw_share(image, shares)
vt.save_image(picture, "shares.png")
display(Image.fromarray(picture))""",
            ),
        ),
        Said(
            words="Rent takes 38.4 % and Books 8.3 % of the pie, together 46.7 % [^1^]. Each sector with its share is "
            "in shares.png [^2.1^]. The plain count of blue pixels comes close to it and is rougher [^0^].",
        ),
    ),
)

DIFFERENCES_FOUND = """\
There are 10 differences [^1^], boxed and numbered in differences.png [^1.1^]; the 13 regions of changed pixels [^0^] \
belong to them:

1. The small blue kite at the top is gone [^1.1^].
2. A small brown balloon is new [^1.1^].
3. The red kite has moved down and to the right [^1.1^].
4. The large brown balloon has grown [^1.1^].
5. The sign BOOKS has moved [^1.1^].
6. The house has another colour: white instead of pink [^1.1^].
7. The sign PORT says PARK [^2^].
8. A sign EXIT is new [^2^].
9. The sign MILK is gone [^2^].
10. The car has another colour [^1.1^]."""

DIFFERENCES = Conversation(
    question="What is different between the two pictures?",
    file="spot-pair.png",
    replies=(
        Said(
            thought="Two pictures side by side in one file. Cut them apart, subtract, see what is left.",
            words="I cut the file into its two pictures and subtract them.",
            cells=(
                """\
import cv2
import numpy as np
from PIL import Image
import visual_tools as vt

pair = vt.load_image("spot-pair.png")
halves = vt.split_halves(pair)
gap = cv2.absdiff(halves.first, halves.second).max(axis=2) > 30
count, _, stats, _ = cv2.connectedComponentsWithStats(gap.astype(np.uint8))
print(halves.layout, halves.first.shape, f"{count - 1} regions of changed pixels")
display(Image.fromarray(np.where(gap, 0, 255).astype(np.uint8)))""",
            ),
        ),
        Said(
            thought="More regions than things that changed: shapes fall apart, a moved thing counts twice. "
            "Merge them to what a person would call one difference.",
            words="Some of these regions belong together. I merge them into differences as a person would count them.",
            cells=(
                """\
result = vt.pixel_diff(pair)
print(result)
picture = vt.draw_diff(pair, None, result)
vt.save_image(picture, "differences.png")
display(Image.fromarray(picture))""",
                """\
words = lambda half: {line.text for line in vt.read_text(half)}
first, second = words(halves.first), words(halves.second)
print("only left:", sorted(first - second), " only right:", sorted(second - first))""",
            ),
        ),
        Said(words=DIFFERENCES_FOUND),
    ),
)

CONVERSATIONS = {"maze": MAZE, "pie": PIE, "differences": DIFFERENCES}
PICTURES = {
    "maze": ("solution.png", "figure12-maze.png"),
    "pie": ("shares.png", "figure12-pie.png"),
    "differences": ("differences.png", "figure12-differences.png"),
}
"""What each conversation draws, and its copy in `docs/`."""


def to_jsonl(conversation: Conversation) -> str:
    """The replies as `--model scripted:FILE` reads them, one a line."""
    return "".join(json.dumps(_reply(reply), ensure_ascii=False) + "\n" for reply in conversation.replies)


def _reply(turn: Said) -> dict[str, object]:
    asked = [("ipython", {"code": cell}) for cell in turn.cells]
    asked += [("view_image", {"path": turn.looks_at})] if turn.looks_at else []
    calls = [
        {"id": f"call_{position}", "name": name, "arguments": json.dumps(arguments)}
        for position, (name, arguments) in enumerate(asked)
    ]
    reply: dict[str, object] = {"content": turn.words, "reasoning": turn.thought, "tool_calls": calls}
    return {name: value for name, value in reply.items() if value}


def draw_pictures() -> None:
    """Run every conversation and copy what it has drawn into `docs/`."""
    import asyncio
    import shutil
    import tempfile

    from cua import ask

    with tempfile.TemporaryDirectory() as runs_dir:
        for name, conversation in CONVERSATIONS.items():
            script = f"scripted:{FOLDER / name}.jsonl"
            result = asyncio.run(
                ask(conversation.question, [HERE / conversation.file], model=script, runs_dir=runs_dir)
            )
            drawn, kept = PICTURES[name]
            shutil.copyfile(Path(result.run_dir or "") / "files" / drawn, HERE.parent / "docs" / kept)


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, conversation in CONVERSATIONS.items():
        (FOLDER / f"{name}.jsonl").write_text(to_jsonl(conversation), encoding="utf-8")
    if "--pictures" in sys.argv[1:]:
        draw_pictures()


if __name__ == "__main__":
    main()
