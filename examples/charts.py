"""`python -m examples.charts FOLDER`: draw the charts of the examples, whose true figures stand here.

Needs matplotlib.
"""

import sys
from pathlib import Path
from typing import Any

PIE = {"Rent": 38.4, "Food": 21.7, "Travel": 14.2, "Energy": 11.9, "Books": 8.3, "Music": 5.5}
PIE_COLORS = dict(
    zip(PIE, ("#2f6db5", "#e4572e", "#f3a712", "#5ba45b", "#8fb8de", "#7a4f9a"), strict=True)  # two blues on purpose
)


def draw_pie() -> Any:
    """A pie with a shadow, one slice pulled out, percentages and a legend, as a matplotlib figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5.2))
    wedges, *_ = axes.pie(
        list(PIE.values()),
        colors=list(PIE_COLORS.values()),
        explode=[0.0, 0.08, 0.0, 0.0, 0.0, 0.0],
        startangle=75,
        counterclock=False,
        shadow=True,
        autopct="%.0f %%",
        pctdistance=0.72,
        textprops={"color": "white", "fontsize": 12, "fontweight": "bold"},
        wedgeprops={"edgecolor": "white", "linewidth": 1.2},
    )
    axes.legend(wedges, list(PIE), loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=12, frameon=False)
    axes.set_title("Where a month's money goes", fontsize=15, pad=14)
    return figure


def main() -> None:
    """Write `pie.png` into the folder that the command line names."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    draw_pie().savefig(folder / "pie.png", dpi=110)


if __name__ == "__main__":
    main()
