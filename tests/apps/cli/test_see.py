"""`cua see`: each operation through the real command, on real images and a real video."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont
from skimage.data import data_dir

from tests.apps.cli.running import Ended, cua
from tests.visual_tools.drawing import Canvas
from tests.visual_tools.video.making import Recipe, make_video, paint_number, read_number
from visual_tools import load_image

EXAMPLES = Path(__file__).parents[3] / "examples"
COINS = str(Path(data_dir) / "coins.png")


def see(folder: Path, *arguments: str) -> Ended:
    return cua(folder, "see", *arguments)


def see_json(folder: Path, *arguments: str) -> dict[str, Any]:
    ended = see(folder, *arguments, "--json")
    assert ended.code == 0, ended.stderr
    return ended.result


@pytest.mark.long
def test_count(tmp_path: Path) -> None:
    ended = see(tmp_path, "count", COINS)
    assert (ended.code, ended.stderr) == (0, "wrote coins-count.png\n")
    assert ended.stdout.startswith("24 objects (0 at the border, 0 cut from touching neighbours, ")
    assert load_image(tmp_path / "coins-count.png").shape == load_image(COINS).shape


@pytest.mark.long
def test_json_is_the_result_without_arrays(tmp_path: Path) -> None:
    found = see_json(tmp_path, "count", COINS)
    result = found.pop("result")
    head = {"operation": "count", "file": COINS, "found": True, "written": ["coins-count.png"], "notes": []}
    assert found == head
    assert (result["count"], len(result["objects"])) == (24, 24)
    assert set(result) == {"count", "num_at_border", "num_split", "num_specks", "objects"}
    assert set(result["objects"][0]["box_px"]) == {"left", "top", "right", "bottom"}
    assert "outline_px" not in result["objects"][0]


@pytest.mark.long
def test_several_files_one_line_each(tmp_path: Path) -> None:
    Image.new("RGB", (50, 40), "white").save(tmp_path / "empty.png")
    ended = see(tmp_path, "count", COINS, "empty.png")
    assert [line.split(" objects")[0] for line in ended.stdout.splitlines()] == [f"{COINS}: 24", "empty.png: 0"]
    assert (tmp_path / "empty-count.png").exists()
    ended = see(tmp_path, "count", COINS, "empty.png", "-o", "both.png")
    assert (ended.code, ended.stdout) == (2, "")
    assert "--output is one file" in ended.stderr


@pytest.mark.slow
def test_measure_with_a_scale(tmp_path: Path) -> None:
    picture = Image.new("RGB", (300, 200), "white")
    ImageDraw.Draw(picture).rectangle((50, 50, 149, 99), fill="navy")
    picture.save(tmp_path / "part.png")
    result = see_json(tmp_path, "measure", "part.png", "--dpi", "254")["result"]
    (one,) = result["objects"]
    assert (result["unit"], one["length"], one["width"], one["area"]) == ("mm", 10.0, 5.0, 50.0)
    shown = see(tmp_path, "measure", "part.png", "--scale-bar", "50,1,cm").stdout.splitlines()
    assert shown[0] == "1 object, lengths in cm (0.02 cm a pixel)"
    assert shown[2].split()[:5] == ["1", "2", "6", "2", "1"]
    ended = see(tmp_path, "measure", "part.png", "--scale-bar", "find")
    assert (ended.code, ended.stdout) == (2, "")
    assert "found no text such as" in ended.stderr


@pytest.mark.slow
def test_the_way_through_the_maze(tmp_path: Path) -> None:
    ended = see(tmp_path, "maze", str(EXAMPLES / "maze.png"), "--start", "green", "--goal", "red")
    assert ended.code == 0, ended.stderr
    assert ended.stdout.splitlines()[1] == "checked step by step: no wall is touched, and no path is shorter"
    assert (tmp_path / "maze-maze.png").exists()


@pytest.mark.long
def test_no_way_is_exit_code_1(tmp_path: Path) -> None:
    picture = Image.new("RGB", (120, 60), "white")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 119, 59), outline="black", width=4)
    draw.rectangle((58, 0, 62, 59), fill="black")
    picture.save(tmp_path / "walled.png")
    ended = see(tmp_path, "maze", "walled.png", "--start", "20,30", "--goal", "100,30", "--json")
    assert (ended.code, ended.result["found"], ended.result["written"]) == (1, False, [])
    assert ended.result["result"]["reason"]


@pytest.mark.long
def test_a_picture_without_a_maze_gets_no_path(tmp_path: Path) -> None:
    dots, text = Image.new("RGB", (600, 400), "white"), Image.new("RGB", (600, 400), "white")
    ImageDraw.Draw(dots).ellipse((50, 50, 90, 90), fill="red")
    ImageDraw.Draw(dots).ellipse((450, 300, 500, 350), fill="green")
    for y in range(20, 380, 20):
        ImageDraw.Draw(text).text((20, y), "The quick brown fox jumps over the lazy dog. " * 2, fill="black")
    dots.save(tmp_path / "dots.png")
    text.save(tmp_path / "text.png")
    figure = Figure(figsize=(6.4, 4))
    figure.subplots().bar(["a", "b"], [3, 1], color=["red", "green"])
    figure.savefig(tmp_path / "bars.png")
    ends = ("--start", "red", "--goal", "green")
    for arguments in (["dots.png"], ["dots.png", *ends], ["text.png"], ["bars.png"], ["bars.png", *ends]):
        ended = see(tmp_path, "maze", *arguments)
        assert (ended.code, ended.stdout[:9], ended.stderr) == (1, "no maze: ", ""), arguments


@pytest.mark.long
def test_a_maze_says_its_road_and_the_gaps_that_it_needs(tmp_path: Path) -> None:
    picture = Image.new("RGB", (300, 140), "white")
    draw = ImageDraw.Draw(picture)
    for wall in (
        (0, 0, 299, 4),
        (0, 135, 299, 139),
        (0, 0, 4, 139),
        (295, 0, 299, 139),
        (0, 45, 254, 49),
        (45, 90, 299, 94),
    ):
        draw.rectangle(wall, fill="black")
    draw.rectangle((100, 45, 101, 49), fill="white")
    picture.save(tmp_path / "gap.png")
    ended = see(tmp_path, "maze", "gap.png", "--start", "20,20", "--goal", "280,120")
    assert ended.code == 0, ended.stderr
    _, _, road, gap = ended.stdout.splitlines()
    assert road == "road: light, detected; dark does not connect the ends"
    assert gap.startswith("unsure: it needs 1 narrow gap in the walls")
    assert "without them the path is " in gap


@pytest.mark.long
def test_bars_of_one_colour_are_listed(tmp_path: Path) -> None:
    picture = Image.new("RGB", (400, 300), "white")
    for number, length in enumerate((60, 120, 180)):
        ImageDraw.Draw(picture).rectangle((60 + 90 * number, 280 - length, 110 + 90 * number, 279), fill="#e24a33")
    picture.save(tmp_path / "bars.png")
    lines = see(tmp_path, "share", "bars.png").stdout.splitlines()
    assert [line.split()[2] for line in lines if line.startswith("bar ")] == ["16.67%", "33.33%", "50.00%"]
    assert "unsure: no axis with numbers was read, so the bars have shares and no values" in lines


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "scale", "doubt"),
    [
        ([12, 30, 7, 22], "linear", None),
        ([12, -30, 7, -22], "linear", "bars lie on both sides of 0; shares are of lengths without their sign"),
        ([10, 100, 1000, 10000], "log", "the axis is logarithmic, so that shares are of drawn lengths, not values"),
        (
            [12, 30, 0, 22],
            "linear",
            "no bar was found for Carla: it may be too short, or its name be given to another bar",
        ),
    ],
)
def test_bars_whose_shares_are_no_shares_are_unsure(
    tmp_path: Path, values: list[float], scale: str, doubt: str | None
) -> None:
    figure = Figure(figsize=(6.4, 4))
    axes = figure.subplots()
    axes.bar(["Anton", "Berta", "Carla", "Doris"], values, color="#4477aa")
    axes.set_yscale(scale)
    figure.savefig(tmp_path / "bars.png", dpi=100)
    lines = see(tmp_path, "share", "bars.png").stdout.splitlines()
    assert [line for line in lines if line.startswith("unsure")] == ([f"unsure: {doubt}"] if doubt else [])
    assert sum(line.startswith("bar ") for line in lines) == sum(value != 0 for value in values)


@pytest.mark.long
@pytest.mark.parametrize(
    ("degrees", "side"),
    [(45, "right"), (45, "center"), (90, "center"), (270, "center"), (-45, "left"), (-30, "center")],
)
def test_turned_names_are_those_of_their_bars(tmp_path: Path, degrees: int, side: str) -> None:
    names = ["Argentina", "Belgium", "Cameroon", "Denmark", "Ecuador", "Finland"]
    figure = Figure(figsize=(6.4, 4.8))
    axes = figure.subplots()
    axes.bar(names, [12, 30, 7, 22, 17, 26], color="#4477aa")
    axes.set_xticks(range(6), names, rotation=degrees, ha=side)
    figure.subplots_adjust(bottom=0.3)
    figure.savefig(tmp_path / "bars.png", dpi=100)
    lines = see(tmp_path, "share", "bars.png").stdout.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("bar ")] == names, lines
    assert not [line for line in lines if line.startswith("unsure")]


@pytest.mark.long
def test_sectors_of_one_colour_are_listed(tmp_path: Path) -> None:
    picture = Image.new("RGB", (300, 300), "white")
    for start, end in ((0, 60), (60, 200), (200, 360)):
        ImageDraw.Draw(picture).pieslice((20, 20, 280, 280), start, end, fill="#4477aa", outline="white", width=4)
    picture.save(tmp_path / "pie.png")
    lines = see(tmp_path, "share", "pie.png").stdout.splitlines()
    shares = [float(line.split()[-1].rstrip("%")) for line in lines if line.startswith("sector at ")]
    assert shares == pytest.approx([44.4, 38.9, 16.7], abs=1)


@pytest.mark.long
def test_one_share_of_one_colour_is_unsure(tmp_path: Path) -> None:
    picture = Image.new("RGB", (400, 300), "white")
    for number, length in enumerate((60, 120, 180)):
        ImageDraw.Draw(picture).rectangle((60 + 90 * number, 280 - length, 110 + 90 * number, 279), outline="black")
    picture.save(tmp_path / "outlines.png")
    lines = see(tmp_path, "share", "outlines.png").stdout.splitlines()
    assert "unsure: everything measured has one colour; no bars or sectors were told apart in it" in lines


@pytest.mark.long
def test_shares_of_a_pie(tmp_path: Path) -> None:
    result = see_json(tmp_path, "share", str(EXAMPLES / "pie.png"))["result"]
    assert (result["kind"], result["shares"][0]["label"]) == ("pie", "Rent")
    assert sum(one["share"] for one in result["shares"]) == pytest.approx(1)


@pytest.mark.long
def test_differences(tmp_path: Path) -> None:
    result = see_json(tmp_path, "diff", str(EXAMPLES / "spot-pair.png"))["result"]
    assert len(result["differences"]) >= 7
    two = see(tmp_path, "diff", str(EXAMPLES / "spot-left.png"), str(EXAMPLES / "spot-right.png"))
    assert two.stdout.startswith(f"{len(result['differences'])} differences")
    assert two.stderr == "wrote spot-left-diff.png\n"


@pytest.mark.slow
def test_a_cut_out_is_found_again_and_another_picture_is_not(tmp_path: Path) -> None:
    assert see(tmp_path, "crop", COINS, "--box", "15,20,120,90").stdout == "105x70 px\n"
    assert np.array_equal(load_image(tmp_path / "coins-crop.png"), load_image(COINS)[20:90, 15:120])
    found = see(tmp_path, "template", COINS, "coins-crop.png")
    assert (found.code, found.stdout) == (0, "15,20,120,90  score 1.000, scale 1.00\n")
    Image.effect_noise((60, 60), 90).save(tmp_path / "noise.png")
    missing = see(tmp_path, "template", COINS, "noise.png")
    assert (missing.code, missing.stdout[:9]) == (1, "not found")


@pytest.mark.long
def test_text(tmp_path: Path) -> None:
    pie = str(EXAMPLES / "pie.png")
    assert "Rent" in see(tmp_path, "ocr", pie).stdout.splitlines()
    found = see(tmp_path, "ocr", pie, "--find", "Travel")
    assert (found.code, found.stderr) == (0, "wrote pie-ocr.png\n")
    missing = see(tmp_path, "ocr", pie, "--find", "Gardening")
    assert (missing.code, missing.stderr) == (1, "")
    assert missing.stdout.startswith("'Gardening' was not found among")


@pytest.mark.long
def test_turned_text(tmp_path: Path) -> None:
    canvas = Canvas(300, 300).turned_text(150, 150, "Upside down", 180).turned_text(30, 150, "Up the side", 270)
    canvas.picture.save(tmp_path / "turned.png")

    lines = see_json(tmp_path, "ocr", "turned.png")["result"]["lines"]

    assert {(line["text"], line["angle_deg"]) for line in lines} == {("Upside down", 180.0), ("Up the side", 270.0)}
    assert all(len(line["corners_px"]) == 4 for line in lines)


@pytest.mark.long
def test_codes(tmp_path: Path) -> None:
    import zxingcpp

    code = zxingcpp.create_barcode("cua see codes", zxingcpp.BarcodeFormat.QRCode).to_image(scale=6)
    Image.fromarray(np.asarray(code)).save(tmp_path / "code.png")
    assert see(tmp_path, "codes", "code.png").stdout == "QR Code: cua see codes\n"
    none = see(tmp_path, "codes", COINS)
    assert (none.code, none.stdout) == (1, "no code\n")


@pytest.mark.long
def test_what_of_an_odd_file_was_not_used_is_noted(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (60, 40), color) for color in ("white", "red", "blue")]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    Image.fromarray(np.full((40, 60), 1020, np.uint16)).save(tmp_path / "raw.tif")  # 12 bits, as cameras store them
    frames[1].convert("CMYK").save(tmp_path / "print.jpg")
    for name, note in (
        ("moving.gif", "moving.gif has 3 frames or pages; only the first was used"),
        ("raw.tif", "raw.tif has grey levels up to 1020 of 65535, so that nearly all is black; stretch them"),
        ("print.jpg", None),
    ):
        ended = see(tmp_path, "grid", name, "--json")
        assert ended.code == 0
        assert ended.result["notes"] == ([note] if note else [])
        assert (f"note: {note}" in ended.stderr) == bool(note)
    assert "note: moving.gif has 3 frames" in see(tmp_path, "diff", "print.jpg", "moving.gif", "--force").stderr


@pytest.mark.slow
def test_polygons_edges_and_views(tmp_path: Path) -> None:
    picture = Image.new("RGB", (200, 100), "white")
    ImageDraw.Draw(picture).rectangle((20, 20, 99, 69), fill="green")
    picture.save(tmp_path / "box.png")
    shapes = see(tmp_path, "polygons", "box.png").stdout.splitlines()
    assert shapes == [
        "1 shape: 1 rectangle",
        "1. rectangle in 20,20,100,70, corners 20,20 99,20 99,69 20,69",
    ]
    assert see(tmp_path, "edges", "box.png").stdout.startswith("1.2")
    assert see(tmp_path, "rotate", "box.png", "--by", "90").stdout == "100x200 px\n"
    assert (
        see(tmp_path, "zoom", "box.png", "--box", "0,0,50,25", "--scale", "4").stdout
        == "200x100 px, 4 times 0,0,50,25\n"
    )
    assert see(tmp_path, "grid", "box.png", "--step", "50").stdout == "200x100 px\n"
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == [f"box{name}.png" for name in ("-edges", "-grid", "-polygons", "-rotate", "-zoom", "")]


@pytest.mark.long
def test_axes_of_a_chart(tmp_path: Path) -> None:
    picture = Image.new("RGB", (640, 480), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(18)
    draw.line((80, 20, 80, 420), fill="black", width=2)
    draw.line((80, 420, 600, 420), fill="black", width=2)
    for step in range(6):
        draw.line((80 + 100 * step, 420, 80 + 100 * step, 427), fill="black", width=2)
        draw.text((80 + 100 * step, 432), str(10 * step), fill="black", font=font, anchor="mt")
        draw.line((73, 420 - 80 * step, 80, 420 - 80 * step), fill="black", width=2)
        draw.text((68, 420 - 80 * step), str(200 * step), fill="black", font=font, anchor="rm")
    picture.save(tmp_path / "chart.png")
    at = see_json(tmp_path, "axes", "chart.png", "--at", "330,220")["result"]["at"]
    assert at == {"x": pytest.approx(25, abs=0.3), "y": pytest.approx(500, abs=6)}


@pytest.mark.slow
def test_videos(tmp_path: Path) -> None:
    make_video(tmp_path, 40)
    assert see_json(tmp_path, "probe", "video.mp4")["result"]["num_frames"] == 40
    shown = see(tmp_path, "frames", "video.mp4", "--at", "0.5,2.25")
    assert shown.stdout == "frame 5 at 0.500 s\nframe 22 at 2.200 s\n"
    written = [tmp_path / "video-frames" / f"video-{number:06}.png" for number in (5, 22)]
    assert [read_number(load_image(path)) for path in written] == [5, 22]
    assert see(tmp_path, "sheet", "video.mp4", "--columns", "3", "--rows", "2").stdout.startswith("6 frames")
    stills = [paint_number(5)] * 15 + [255 - paint_number(200)] * 15
    make_video(tmp_path, stills, Recipe(name="stills.mp4"))
    assert see(tmp_path, "scenes", "stills.mp4").stdout.splitlines() == [
        "2 scenes",
        "1. 0.000 s to 1.500 s (start)",
        "2. 1.500 s to 3.000 s (cut)",
    ]
    clip = see_json(tmp_path, "clip", "video.mp4", "--start", "1", "--end", "2", "--exact")
    assert (clip["written"], clip["result"]["num_frames"]) == (["video-clip.mp4"], 10)
    again = see(tmp_path, "clip", "video.mp4", "--start", "1", "--end", "2")
    assert (again.code, "--force" in again.stderr) == (2, True)


@pytest.mark.slow
def test_what_is_there_is_replaced_only_when_it_is_ours(tmp_path: Path) -> None:
    assert see(tmp_path, "grid", COINS).code == 0
    assert see(tmp_path, "grid", COINS).code == 0
    other = tmp_path / "mine.png"
    Image.new("RGB", (3, 3)).save(other)
    before = other.read_bytes()
    refused = see(tmp_path, "grid", COINS, "-o", "mine.png")
    assert (refused.code, other.read_bytes()) == (2, before)
    assert "not written by cua see" in refused.stderr
    assert see(tmp_path, "grid", COINS, "-o", "mine.png", "--force").code == 0
    assert other.read_bytes() != before


@pytest.mark.long
def test_an_input_is_never_written_to(tmp_path: Path) -> None:
    before = Path(COINS).read_bytes()
    (tmp_path / "link.png").symlink_to(COINS)
    for output in (COINS, "link.png"):
        ended = see(tmp_path, "grid", COINS, "-o", output, "--force")
        assert (ended.code, "never overwritten" in ended.stderr) == (2, True)
    assert Path(COINS).read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["count", "nothing.png"], "there is no file"),
        (["count", __file__], "not an image"),
        (["probe", COINS], "coins.png"),
        (["crop", COINS, "--box", "1,2,3"], "expected 4 numbers"),
        (["crop", COINS, "--box", "9,9,3,3"], "left < right"),
        (["count", COINS, "--color", "redd"], "expected a CSS name"),
        (["count", COINS, "--method", "otus"], "did you mean 'otsu'"),
        (["measure", COINS, "--dpi", "100", "--mm-per-px", "1"], "one scale only"),
        (["measure", COINS, "--scale-bar", "long"], "LENGTH_PX,VALUE,UNIT"),
        (["axes", COINS], "axis"),
        (["grid", COINS, "-o", "."], "is a folder"),
        (["conut", COINS], "count"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], text: str) -> None:
    ended = see(tmp_path, *arguments)
    assert (ended.code, ended.stdout) == (2, "")
    assert text in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_reward(tmp_path: Path) -> None:
    (tmp_path / "predictions.jsonl").write_text('9\n"ten"\n\n')
    (tmp_path / "truths.jsonl").write_text("10\n10\n")
    scored = see(tmp_path, "reward", "count", "predictions.jsonl", "truths.jsonl")
    assert (scored.code, scored.stdout.splitlines()[:2]) == (
        0,
        ["0.4500  mean of 2", "item 2 scores 0: Input should be a valid integer"],
    )
    assert see_json(tmp_path, "reward", "count", "predictions.jsonl", "truths.jsonl")["score"] == 0.45
    (tmp_path / "truths.jsonl").write_text("10\n")
    wrong = see(tmp_path, "reward", "count", "predictions.jsonl", "truths.jsonl")
    assert (wrong.code, "has 2 items" in wrong.stderr) == (2, True)
