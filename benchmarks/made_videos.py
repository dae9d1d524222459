"""Videos of any length whose events are known: scoreboards, banners, moving shapes, colour flashes, beeps, scenes.

With distractors there is, besides, what should not be taken for an event: a clock that ticks, a thing that turns at
its place, specks that drift, light that changes slowly, a lamp that blinks, a bar without words, hum that swells,
bangs that are no tones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video_showcase.events import VideoEvent, format_clock
from visual_tools.errors import require

Pixels = NDArray[np.uint8]
SIZE_PX = (320, 180)
SOUND_HZ = 16_000
_CHUNK = 1024
_GAP_S = 7.0
_TEAMS = (("RED", "BLUE"), ("NORTH", "SOUTH"), ("LIONS", "BEARS"), ("ALPHA", "OMEGA"))
_WORDS = ("LEVEL UP", "NEW RECORD", "BOSS DEFEATED", "CHECKPOINT", "BREAKING NEWS", "PAUSE", "WELCOME BACK", "LAST LAP")
_FLASHES = {"red": (220, 30, 30), "white": (250, 250, 250), "yellow": (245, 225, 40), "blue": (40, 70, 230)}
_KINDS = ("text", "score", "motion", "flash", "beep", "scene")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one video is made.

    Attributes:
        name: Its file.
        seconds: How long it is.
        seed: What it shows.
        codec: Of its frames.
        fps: Frames a second.
        key_gap_s: From one keyframe to the next.
        sound: Codec of its sound; "" for none.
        has_distractors: See above.
        mean_gap_s: From one event to the next.
        kinds: Which events there are.
    """

    name: str
    seconds: float
    seed: int
    codec: str = "libx264"
    fps: int = 10
    key_gap_s: float = 20.0
    sound: str = "aac"
    has_distractors: bool = False
    mean_gap_s: float = 45.0
    kinds: tuple[str, ...] = _KINDS


@dataclass(slots=True)
class _Happening:
    event: VideoEvent
    look: dict[str, Any] = field(default_factory=dict)


def make_video(recipe: Recipe, folder: Path) -> tuple[Path, list[VideoEvent]]:
    """Write a video; its events are the truth about it."""
    rng = np.random.default_rng(recipe.seed)
    happenings = list(_plan(recipe, rng))
    path = folder / recipe.name
    _write(path, recipe, _Stage(recipe, happenings, rng))
    return path, [one.event for one in happenings]


def _plan(recipe: Recipe, rng: np.random.Generator) -> Iterator[_Happening]:
    """Events one after another with quiet between them; each kind in turn, in an order by chance."""
    time_s = 5.0 + float(rng.uniform(0, 5))
    score, queue = [0, 0], list[str]()
    kinds = [kind for kind in recipe.kinds if kind != "beep" or recipe.sound]
    while True:
        if not queue:
            queue = [str(kind) for kind in rng.permutation(kinds)]
        kind = queue.pop()
        length_s, text, look = _choose(kind, recipe, rng, score)
        start_s, end_s = (round(one * recipe.fps) / recipe.fps for one in (time_s, time_s + length_s))
        if end_s + 4 > recipe.seconds:
            return
        event = VideoEvent(file=recipe.name, start_s=start_s, end_s=end_s, kind=kind, text=text)
        yield _Happening(event, look)
        time_s = end_s + _GAP_S + float(rng.exponential(max(recipe.mean_gap_s - _GAP_S - length_s, 0.5)))


def _choose(kind: str, recipe: Recipe, rng: np.random.Generator, score: list[int]) -> tuple[float, str, dict[str, Any]]:
    """Length in seconds, words and looks of the next event of a kind."""
    match kind:
        case "text":
            words = f"{rng.choice(_WORDS)} {rng.integers(10, 99)}"
            return float(rng.uniform(2.5, 8)), words, {"y": int(rng.integers(60, 120)), "is_light": rng.random() < 0.5}
        case "score":
            score[int(rng.integers(0, 2))] += 1
            teams = _TEAMS[recipe.seed % len(_TEAMS)]
            return 3.0, f"{teams[0]} {score[0]} : {score[1]} {teams[1]}", {}
        case "motion":
            rows = int(rng.integers(70, 150)), int(rng.integers(70, 150))
            look = {"rows": rows, "size": int(rng.integers(22, 38)), "is_back": rng.random() < 0.5}
            color = tuple(int(one) for one in rng.integers(150, 255, 3))
            return (
                float(rng.uniform(3, 10)),
                "a shape moves across",
                {**look, "color": color, "is_round": rng.random() < 0.5},
            )
        case "flash":
            name = str(rng.choice(list(_FLASHES)))
            return float(rng.uniform(0.5, 1.2)), f"{name} flash", {"color": _FLASHES[name], "share": 0.85}
        case "beep":
            hertz = int(rng.choice([440, 660, 880, 1200, 1800]))
            return float(rng.uniform(0.3, 1.2)), f"tone of {hertz} Hz", {"hertz": hertz}
        case "icon":
            return (
                float(rng.uniform(4, 8)),
                "the icon",
                {"x": int(rng.integers(20, 270)), "y": int(rng.integers(60, 140))},
            )
        case _:
            return 1.0, "another scene", {"seed": int(rng.integers(1 << 30))}


def make_icon() -> Pixels:
    """The icon that `template` events show, (24, 24, 3) uint8."""
    icon = Image.new("RGB", (24, 24), "#103a70")
    draw = ImageDraw.Draw(icon)
    draw.ellipse((3, 3, 20, 20), fill="#ffd23f")
    draw.polygon([(12, 5), (18, 17), (6, 17)], fill="#b3123a")
    return np.asarray(icon)


class _Stage:
    """Paints frames: what does not change between two of them is painted once."""

    def __init__(self, recipe: Recipe, happenings: list[_Happening], rng: np.random.Generator) -> None:
        self.recipe = recipe
        self.happenings = happenings
        self._ground: dict[int, Pixels] = {}
        self._board: dict[str, Pixels] = {}
        self._banner: dict[str, Pixels] = {}
        self._specks = rng.uniform(0, 1, (40, 3))
        self._icon = make_icon()
        self._scene = int(rng.integers(1 << 30))
        teams = _TEAMS[recipe.seed % len(_TEAMS)]
        self._score = f"{teams[0]} 0 : 0 {teams[1]}"
        self._next = 0
        self._active: list[_Happening] = []
        self._last_key: tuple[Any, ...] = ()
        self._last: Pixels = np.zeros((SIZE_PX[1], SIZE_PX[0], 3), np.uint8)

    def paint(self, number: int) -> tuple[Pixels, bool]:
        """A frame, and whether it differs from the one before."""
        time_s = number / self.recipe.fps
        self._advance(time_s)
        moving = [one for one in self._active if one.event.kind in ("text", "motion", "flash", "icon")]
        key = (self._scene, self._score, tuple(id(one) for one in moving))
        has_motion = self.recipe.has_distractors or any(one.event.kind == "motion" for one in moving)
        if key == self._last_key and not has_motion:
            return self._last, False
        image = self._find_ground().copy()
        if self.recipe.has_distractors:
            self._distract(image, time_s)
        self._lay(image, self._find_board(), (SIZE_PX[0] // 2, 6))
        for one in moving:
            self._show(image, one, time_s)
        self._last_key, self._last = key, image
        return image, True

    def _advance(self, time_s: float) -> None:
        while self._next < len(self.happenings) and self.happenings[self._next].event.start_s <= time_s + 1e-6:
            one = self.happenings[self._next]
            self._next += 1
            self._active.append(one)
            if one.event.kind == "scene":
                self._scene = one.look["seed"]
            if one.event.kind == "score":
                self._score = one.event.text
        self._active = [one for one in self._active if one.event.end_s > time_s + 1e-6]

    def _show(self, image: Pixels, one: _Happening, time_s: float) -> None:
        look, event = one.look, one.event
        match event.kind:
            case "text":
                self._lay(image, self._find_banner(event.text, look["is_light"]), (SIZE_PX[0] // 2, look["y"]))
            case "icon":
                image[look["y"] : look["y"] + 24, look["x"] : look["x"] + 24] = self._icon
            case "flash":
                color = np.array(look["color"], np.float32)
                image[:] = (image * (1 - look["share"]) + color * look["share"]).astype(np.uint8)
            case _:
                share = (time_s - event.start_s) / event.duration_s
                self._move(image, look, 1 - share if look["is_back"] else share)

    def _move(self, image: Pixels, look: dict[str, Any], share: float) -> None:
        cv2 = require("cv2", "visual")
        size = look["size"]
        x = round(-size / 2 + share * (SIZE_PX[0] + size))
        y = round(look["rows"][0] + share * (look["rows"][1] - look["rows"][0]))
        if look["is_round"]:
            cv2.circle(image, (x, y), size // 2, look["color"], -1)
        else:
            half = size // 2
            cv2.rectangle(image, (x - half, y - half), (x + half, y + half), look["color"], -1)

    def _distract(self, image: Pixels, time_s: float) -> None:
        cv2 = require("cv2", "visual")
        light = 1 + 0.12 * np.sin(time_s / 23)
        image[:] = np.minimum(image * light, 255).astype(np.uint8)
        for x, y, speed in self._specks:
            at = int((x + time_s * (0.01 + 0.03 * speed)) % 1 * SIZE_PX[0]), int(y * SIZE_PX[1])
            image[at[1] : at[1] + 1, at[0] : at[0] + 1] = 255
        self._lay(image, self._label(format_clock(time_s)), (SIZE_PX[0] - 40, SIZE_PX[1] - 18))
        turn = time_s * 4
        tip = int(14 + 8 * np.cos(turn)), int(SIZE_PX[1] - 14 + 8 * np.sin(turn))
        cv2.line(image, (14, SIZE_PX[1] - 14), tip, (255, 255, 255), 2)
        if int(time_s * 1.5) % 11 == 0:
            cv2.circle(image, (300, 20), 9, (255, 240, 120), -1)
        if int(time_s) % 97 < 5:
            cv2.rectangle(image, (60, 140), (260, 158), (30, 30, 40), -1)

    def _label(self, text: str) -> Pixels:
        if len(self._banner) > 64:
            self._banner.clear()
        if text not in self._banner:
            self._banner[text] = _words(text, 12, (235, 235, 235), (20, 20, 24))
        return self._banner[text]

    def _find_ground(self) -> Pixels:
        if self._scene not in self._ground:
            self._ground = {self._scene: _paint_ground(self._scene)}
        return self._ground[self._scene]

    def _find_board(self) -> Pixels:
        if self._score not in self._board:
            self._board = {self._score: _words(self._score, 15, (255, 255, 255), (12, 28, 52))}
        return self._board[self._score]

    def _find_banner(self, text: str, is_light: bool) -> Pixels:
        colors = ((20, 20, 30), (240, 238, 225)) if is_light else ((255, 244, 190), (70, 16, 24))
        key = f"{text}{is_light}"
        if key not in self._banner:
            self._banner[key] = _words(text, 20, *colors)
        return self._banner[key]

    def _lay(self, image: Pixels, part: Pixels, at: tuple[int, int]) -> None:
        left = max(min(at[0] - part.shape[1] // 2, SIZE_PX[0] - part.shape[1]), 0)
        image[at[1] : at[1] + part.shape[0], left : left + part.shape[1]] = part[: SIZE_PX[1] - at[1]]


def _words(text: str, size: int, ink: tuple[int, ...], ground: tuple[int, ...]) -> Pixels:
    font = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(text)
    part = Image.new("RGB", (int(right - left) + 16, int(bottom - top) + 10), ground)
    ImageDraw.Draw(part).text((8 - left, 5 - top), text, fill=ink, font=font)
    return np.asarray(part)


def _paint_ground(seed: int) -> Pixels:
    """A landscape of flat areas with a soft gradient."""
    rng = np.random.default_rng(seed)
    width, height = SIZE_PX
    sky, earth = rng.integers(20, 200, 3), rng.integers(10, 150, 3)
    horizon = int(rng.integers(70, 130))
    image = np.zeros((height, width, 3), np.uint8)
    ramp = np.linspace(1, 0.75, horizon)[:, None, None]
    image[:horizon] = (sky * ramp).astype(np.uint8)
    image[horizon:] = earth
    canvas = Image.fromarray(image)
    draw = ImageDraw.Draw(canvas)
    for _ in range(int(rng.integers(4, 9))):
        left, wide, high = rng.integers(0, width), rng.integers(20, 80), rng.integers(15, 60)
        color = tuple(int(one) for one in rng.integers(20, 210, 3))
        draw.rectangle((int(left), horizon - int(high), int(left + wide), horizon), fill=color)
    return np.asarray(canvas)


def _write(path: Path, recipe: Recipe, stage: _Stage) -> None:
    av = require("av", "visual")
    with av.open(f"file:{path}", "w") as out:
        video = out.add_stream(recipe.codec, rate=recipe.fps, options=_options(recipe))
        video.width, video.height, video.pix_fmt = *SIZE_PX, "yuv420p"
        video.codec_context.thread_count = 1  # encoders that wait for each other by spinning are slow on a busy machine
        video.gop_size = max(round(recipe.key_gap_s * recipe.fps), 1)
        if recipe.codec != "libx264":
            video.bit_rate = 90_000
        sound = _Sound(out, recipe, stage.happenings) if recipe.sound else None
        yuv = None
        for number in range(round(recipe.seconds * recipe.fps)):
            image, is_new = stage.paint(number)
            if is_new or yuv is None:
                yuv = av.VideoFrame.from_ndarray(image, "rgb24").reformat(format="yuv420p")
            yuv.pts, yuv.time_base = number, Fraction(1, recipe.fps)
            out.mux(video.encode(yuv))
            if sound is not None:
                sound.write_until(number / recipe.fps)
        out.mux(video.encode(None))
        if sound is not None:
            sound.write_until(recipe.seconds + 1)
            sound.close()


class _Sound:
    """The sound of a video, written as its frames are."""

    def __init__(self, out: Any, recipe: Recipe, happenings: list[_Happening]) -> None:
        self._out, self._stream = out, out.add_stream(recipe.sound, rate=SOUND_HZ, layout="mono")
        self._stream.bit_rate = 24_000
        self._pieces, self._written_s = _sound(recipe, happenings), 0.0

    def write_until(self, time_s: float) -> None:
        while self._written_s < time_s and (piece := next(self._pieces, None)) is not None:
            self._written_s = (piece.pts + piece.samples) / SOUND_HZ
            self._out.mux(self._stream.encode(piece))

    def close(self) -> None:
        self._out.mux(self._stream.encode(None))


def _options(recipe: Recipe) -> dict[str, str]:
    if recipe.codec == "libx264":
        return {"preset": "ultrafast", "crf": "33", "sc_threshold": "0", "bf": "2"}
    if recipe.codec.startswith("libvpx"):
        return {"deadline": "realtime", "cpu-used": "8"}
    if recipe.codec == "libx265":
        return {"preset": "ultrafast", "crf": "33", "x265-params": "log-level=none:scenecut=0"}
    return {}


def _sound(recipe: Recipe, happenings: list[_Happening]) -> Iterator[Any]:
    """Quiet noise with the beeps in it, piece by piece; with distractors also hum that swells, and bangs."""
    av = require("av", "visual")
    rng = np.random.default_rng(recipe.seed + 1)
    noise = rng.normal(0, 0.004, SOUND_HZ * 4).astype(np.float32)
    beeps = [one for one in happenings if one.event.kind == "beep"]
    for start in range(0, round(recipe.seconds * SOUND_HZ), _CHUNK):
        at_s = (start + np.arange(_CHUNK)) / SOUND_HZ
        offset = start % (len(noise) - _CHUNK)
        wave = noise[offset : offset + _CHUNK].copy()
        if recipe.has_distractors:
            wave += (0.004 * (1 + np.sin(at_s / 17)) * np.sin(2 * np.pi * 100 * at_s)).astype(np.float32)
            if int(at_s[0]) % 131 == 60 and at_s[0] % 1 < 0.3:
                wave += rng.normal(0, 0.12, _CHUNK).astype(np.float32)
        while beeps and beeps[0].event.end_s < at_s[0]:
            beeps.pop(0)
        if beeps and beeps[0].event.start_s < at_s[-1]:
            is_on = (at_s >= beeps[0].event.start_s) & (at_s < beeps[0].event.end_s)
            wave += (0.3 * is_on * np.sin(2 * np.pi * beeps[0].look["hertz"] * at_s)).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(wave[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = SOUND_HZ, start, Fraction(1, SOUND_HZ)
        yield frame
