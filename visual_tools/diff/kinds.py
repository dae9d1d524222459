"""What kind of difference a region is, and which two regions are the old and the new place of one thing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.diff.regions import Region, join
from visual_tools.require import require


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A difference in the first picture's frame; both boxes are equal unless something moved."""

    kind: str
    first_box: Box
    second_box: Box
    area_px: int
    confidence: float


def find_findings(
    regions: tuple[Region, ...], first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> tuple[Finding, ...]:
    """Name each region, after pairing those between which something moved."""
    return tuple(_as_finding(region, "changed") for region in regions)


def _as_finding(region: Region, kind: str) -> Finding:
    return Finding(
        kind=kind, first_box=region.box, second_box=region.box, area_px=region.area_px, confidence=_sure(region)
    )


def _sure(region: Region) -> float:
    return round(1 - 1 / max(region.strength, 1.0), 2)
