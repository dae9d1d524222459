"""Charts whose shares are known: random pies, bars and areas by matplotlib, Pillow and OpenCV."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field

import cv2
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import colors as mpl_colors
from numpy.typing import NDArray
from PIL import Image, ImageDraw

RGB = tuple[int, int, int]
TAB10, TAB20, SET2 = (plt.get_cmap(name).colors for name in ("tab10", "tab20", "Set2"))
WORDS = "Rent Food Travel Books Energy Water Music Sport Health Garden".split()
PURE = ["#ff0000", "#0000ff", "#00ff00", "#ffff00", "#ff00ff", "#00ffff"]
BLUES = ["#1f77b4", "#3f8fc6", "#5fa6d6", "#83bce2", "#a9d2ee"]
GREENS = ["#1b7837", "#3a9150", "#5aae61", "#85c785", "#a6dba0"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """An image and the true share of each of its colours."""

    image: NDArray[np.uint8] = field(repr=False)
    truth: dict[RGB, float]
    labels: dict[RGB, str] = field(default_factory=dict)
    note: str = ""
    is_labelled_beside: bool = False


def make_chart(family: str, seed: int) -> Chart:
    """One random chart of a family."""
    return FAMILIES[family](np.random.default_rng([seed, *family.encode()]))


def to_rgb(color: object) -> RGB:
    red, green, blue = (round(255 * part) for part in mpl_colors.to_rgb(color))
    return red, green, blue


def render(fig: plt.Figure, dpi: int, quality: int | None = None) -> NDArray[np.uint8]:
    stream = io.BytesIO()
    fig.savefig(stream, dpi=dpi, format="png")
    plt.close(fig)
    return compress(np.asarray(Image.open(stream).convert("RGB")), quality)


def compress(image: NDArray[np.uint8], quality: int | None) -> NDArray[np.uint8]:
    if quality is None:
        return image
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream).convert("RGB"))


def random_values(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    values = rng.uniform(1, 12, count)
    values[rng.integers(count)] *= rng.uniform(1, 4)
    return values / values.sum()


def pick(rng: np.random.Generator, palette: object, count: int) -> list[object]:
    colors = list(palette)  # type: ignore[call-overload]
    return [colors[index] for index in rng.permutation(len(colors))[:count]]


def similar_colors(rng: np.random.Generator) -> list[object]:
    choice = rng.integers(3)
    if choice == 0:
        return list(TAB20[: 2 * int(rng.integers(2, 6))])
    return list(BLUES if choice == 1 else GREENS)[: int(rng.integers(3, 6))]


def pie(rng: np.random.Generator, colors: list[object], *, quality: int | None = None, **more: object) -> Chart:
    values = random_values(rng, len(colors))
    names = [str(name) for name in rng.permutation(WORDS)[: len(colors)]]
    has_legend = bool(rng.integers(2))
    dpi = int(rng.choice([72, 100, 150, 200]))
    fig, ax = plt.subplots(figsize=tuple(rng.choice([(6.4, 4.8), (5.0, 5.0), (8.0, 5.0)])))
    if rng.integers(2):
        more["autopct"] = rng.choice(["%.1f%%", "%d %%"])
        more["textprops"] = {
            "color": str(rng.choice(["black", "black", "white"])),
            "fontsize": int(rng.integers(8, 15)),
        }
    wedge: dict[str, object] = dict(more.pop("wedgeprops", {}))  # type: ignore[call-overload]
    edge = rng.choice(["", "white", "black"])
    if edge:
        wedge |= {"edgecolor": str(edge), "linewidth": float(rng.choice([0.5, 1.0, 2.0, 3.0]))}
    ax.pie(
        values,
        colors=colors,
        labels=None if has_legend else names,
        startangle=float(rng.uniform(0, 360)),
        counterclock=bool(rng.integers(2)),
        wedgeprops=wedge or None,
        **more,
    )
    if has_legend:
        ax.legend(names, loc=str(rng.choice(["center left", "upper left"])), bbox_to_anchor=(0.95, 0.9))
    if rng.integers(2):
        ax.set_title("Where the money goes", fontsize=int(rng.integers(10, 18)))
    image = render(fig, dpi, quality)
    keys = [to_rgb(color) for color in colors]
    note = f"{dpi} dpi, edge {edge or 'none'} {wedge.get('linewidth', '')}, q {quality}, {more}"
    return Chart(
        image=image,
        truth=dict(zip(keys, values.tolist(), strict=True)),
        labels=dict(zip(keys, names, strict=True)),
        note=note,
        is_labelled_beside=not has_legend,
    )


def any_colors(rng: np.random.Generator) -> list[object]:
    palette = [TAB10, PURE, SET2][int(rng.integers(3))]
    return pick(rng, palette, int(rng.integers(2, min(len(palette), 8) + 1)))


def explode(rng: np.random.Generator, count: int) -> dict[str, object]:
    if rng.integers(2):
        return {"explode": [float(rng.uniform(0.02, 0.12))] * count}
    return {"explode": [float(value) for value in rng.uniform(0.0, 0.2, count) * rng.integers(0, 2, count)]}


def pie_plain(rng: np.random.Generator) -> Chart:
    return pie(rng, any_colors(rng))


def pie_exploded(rng: np.random.Generator) -> Chart:
    colors = any_colors(rng)
    return pie(rng, colors, shadow=bool(rng.integers(2)), **explode(rng, len(colors)))


def pie_shadow(rng: np.random.Generator) -> Chart:
    return pie(rng, any_colors(rng), shadow=True)


def pie_doughnut(rng: np.random.Generator) -> Chart:
    width = float(rng.uniform(0.25, 0.6))
    return pie(rng, any_colors(rng), wedgeprops={"width": width}, pctdistance=1 - width / 2)


def pie_similar(rng: np.random.Generator) -> Chart:
    return pie(rng, similar_colors(rng))


def pie_jpeg(rng: np.random.Generator) -> Chart:
    return pie(rng, any_colors(rng), quality=int(rng.integers(60, 96)))


def pie_hard(rng: np.random.Generator) -> Chart:
    colors = similar_colors(rng)
    return pie(rng, colors, quality=int(rng.integers(70, 96)), shadow=True, **explode(rng, len(colors)))


def pie_by_hand(rng: np.random.Generator) -> Chart:
    """Pillow or OpenCV, no anti-aliasing, black outlines or none, nothing else on the image."""
    colors = [to_rgb(color) for color in any_colors(rng)]
    values = random_values(rng, len(colors))
    radius, outline = int(rng.integers(60, 260)), int(rng.choice([0, 1, 2, 4]))
    size = 2 * radius + int(rng.integers(20, 120))
    x, y = size / 2 + rng.uniform(-5, 5), size / 2 + rng.uniform(-5, 5)
    ends = float(rng.uniform(0, 360)) + np.concatenate([[0], np.cumsum(values) * 360])
    if rng.integers(2):
        canvas = Image.new("RGB", (size, size), str(rng.choice(["white", "#f0f0f0", "black"])))
        draw = ImageDraw.Draw(canvas)
        around = (x - radius, y - radius, x + radius, y + radius)
        for color, start, end in zip(colors, ends[:-1], ends[1:], strict=True):
            draw.pieslice(around, start, end, fill=color, outline="black" if outline else None, width=max(outline, 1))
        image = np.asarray(canvas)
    else:
        image = np.full((size, size, 3), 255, np.uint8)
        for color, start, end in zip(colors, ends[:-1], ends[1:], strict=True):
            turn = np.radians(np.linspace(start, end, 400))
            rim = np.column_stack([x + radius * np.cos(turn), y + radius * np.sin(turn)])
            points = np.rint(np.vstack([[x, y], rim]) * 256).astype(np.int32)
            cv2.fillPoly(image, [points], color, shift=8)
            if outline:
                cv2.polylines(image, [points], True, (0, 0, 0), outline, shift=8)
    return Chart(image=image, truth=dict(zip(colors, values.tolist(), strict=True)), note=f"outline {outline}")


def bars(rng: np.random.Generator, quality: int | None = None) -> Chart:
    style = str(rng.choice(["default", "ggplot", "dark_background", "seaborn-v0_8"]))
    num_series, num_groups = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    layout = str(rng.choice(["single", "grouped", "stacked"]))
    with plt.style.context(style):
        colors = pick(rng, TAB10, num_series if layout != "single" else num_groups)
        table = rng.uniform(2, 10, (num_series, num_groups))
        is_lying = bool(rng.integers(2))
        fig, ax = plt.subplots()
        draw = ax.barh if is_lying else ax.bar
        edge = rng.choice(["", "white", "black"])
        more: dict[str, object] = {"edgecolor": str(edge), "linewidth": 1.0} if edge else {}
        names = [str(name) for name in rng.permutation(WORDS)[: len(colors)]]
        if layout == "single":
            table = table[:1]
            drawn = [draw(np.arange(num_groups), table[0], 0.8, color=colors, **more)]
            totals = table[0]
        elif layout == "grouped":
            wide = 0.8 / num_series
            drawn = [
                draw(np.arange(num_groups) + index * wide, table[index], wide, color=colors[index], **more)
                for index in range(num_series)
            ]
            totals = table.sum(axis=1)
        else:
            base = np.cumsum(np.vstack([np.zeros(num_groups), table[:-1]]), axis=0)
            start = "left" if is_lying else "bottom"
            drawn = [
                draw(np.arange(num_groups), table[index], 0.7, color=colors[index], **{start: base[index]}, **more)
                for index in range(num_series)
            ]
            totals = table.sum(axis=1)
        if rng.integers(2):
            ax.grid(True)
        if rng.integers(2):
            for container in drawn:
                ax.bar_label(container, fmt="%.1f", label_type=str(rng.choice(["edge", "center"])))
        has_legend = layout != "single" and bool(rng.integers(2))
        if has_legend:
            ax.legend(drawn, names, loc="upper left", bbox_to_anchor=(0.0, 1.0), ncols=num_series)
            limit = 1.25 * (table.sum(axis=0).max() if layout == "stacked" else table.max())
            (ax.set_xlim if is_lying else ax.set_ylim)(0, limit)
            (ax.set_ylim if is_lying else ax.set_xlim)(-0.6, num_groups + (0.6 if is_lying else 0))
        image = render(fig, int(rng.choice([80, 100, 150, 200])), quality)
    keys = [to_rgb(color) for color in colors]
    note = f"{style} {layout} edge {edge} lying {is_lying} legend {has_legend} q {quality}"
    return Chart(
        image=image,
        truth=dict(zip(keys, (totals / totals.sum()).tolist(), strict=True)),
        labels=dict(zip(keys, names, strict=True)) if has_legend else {},
        note=note,
    )


def bars_jpeg(rng: np.random.Generator) -> Chart:
    return bars(rng, int(rng.integers(60, 96)))


def stacked_areas(rng: np.random.Generator, quality: int | None = None) -> Chart:
    num_layers, num_points = int(rng.integers(2, 7)), int(rng.integers(4, 14))
    style = str(rng.choice(["default", "default", "ggplot"]))
    with plt.style.context(style):
        colors = pick(rng, [TAB10, SET2][int(rng.integers(2))], num_layers)
        x = np.sort(rng.uniform(0, 10, num_points))
        table = rng.uniform(1, 6, (num_layers, num_points))
        fig, ax = plt.subplots()
        names = [str(name) for name in rng.permutation(WORDS)[:num_layers]]
        ax.stackplot(x, table, colors=colors, labels=names)
        if rng.integers(2):
            ax.legend(loc="upper left", ncols=3)
            ax.set_ylim(0, 1.4 * table.sum(axis=0).max())
        if rng.integers(2):
            ax.grid(True)
        if rng.integers(2):
            ax.margins(x=0)
        image = render(fig, int(rng.choice([80, 100, 150, 200])), quality)
    totals = np.trapezoid(table, x, axis=1)
    keys = [to_rgb(color) for color in colors]
    return Chart(
        image=image, truth=dict(zip(keys, (totals / totals.sum()).tolist(), strict=True)), note=f"{style} q {quality}"
    )


def areas_jpeg(rng: np.random.Generator) -> Chart:
    return stacked_areas(rng, int(rng.integers(60, 96)))


def flat_image(rng: np.random.Generator) -> Chart:
    """Discs and boxes apart from each other on white."""
    colors = [to_rgb(color) for color in pick(rng, TAB10, int(rng.integers(2, 7)))]
    canvas = Image.new("RGB", (640, 420), "white")
    draw = ImageDraw.Draw(canvas)
    for index, color in enumerate(colors):
        left, top, size = 15 + 205 * (index % 3), 15 + 205 * (index // 3), int(rng.integers(40, 185))
        shape = draw.ellipse if rng.integers(2) else draw.rectangle
        shape((left, top, left + size, top + size), fill=color)
    image = np.asarray(canvas)
    sizes = np.array([(image == color).all(axis=2).sum() for color in colors])
    return Chart(image=image, truth=dict(zip(colors, (sizes / sizes.sum()).tolist(), strict=True)))


FAMILIES: dict[str, Callable[[np.random.Generator], Chart]] = {
    "pie, plain": pie_plain,
    "pie, exploded": pie_exploded,
    "pie, shadow": pie_shadow,
    "pie, doughnut": pie_doughnut,
    "pie, similar colours": pie_similar,
    "pie, JPEG": pie_jpeg,
    "pie, by hand": pie_by_hand,
    "pie, similar + shadow + exploded + JPEG": pie_hard,
    "bars": bars,
    "bars, JPEG": bars_jpeg,
    "areas": stacked_areas,
    "areas, JPEG": areas_jpeg,
    "flat image": flat_image,
}
LIMITS = {"pie, similar + shadow + exploded + JPEG": 0.015}
LIMIT = 0.005
