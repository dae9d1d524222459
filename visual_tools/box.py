"""Rectangle on an image, in pixels."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Box:
    """Rectangle in pixels of the image; left and top are inclusive, right and bottom exclusive.

    Attributes:
        left: First column.
        top: First row.
        right: Column after the last one.
        bottom: Row after the last one.
    """

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.bottom - self.top

    @property
    def area(self) -> int:
        """Area in pixels."""
        return max(self.width, 0) * max(self.height, 0)

    @property
    def center(self) -> tuple[float, float]:
        """Center, x and y in pixels."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def slices(self) -> tuple[slice, slice]:
        """Row and column slices for indexing an image; no side may be negative."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def contains(self, other: "Box", slack_px: int = 0) -> bool:
        """Return True if `other` is inside, with a tolerance of `slack_px` on each side."""
        return (
            self.left - slack_px <= other.left
            and self.top - slack_px <= other.top
            and self.right + slack_px >= other.right
            and self.bottom + slack_px >= other.bottom
        )

    def has_point(self, x_px: float, y_px: float) -> bool:
        """Return True if a point is inside."""
        return self.left <= x_px < self.right and self.top <= y_px < self.bottom

    def intersection(self, other: "Box") -> int:
        """Return the number of pixels that both boxes cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0) * max(height, 0)

    def overlap_x(self, other: "Box") -> int:
        """Return the number of columns that both boxes cover; a negative value is the gap between them."""
        return min(self.right, other.right) - max(self.left, other.left)

    def overlap_y(self, other: "Box") -> int:
        """Return the number of rows that both boxes cover; a negative value is the gap between them."""
        return min(self.bottom, other.bottom) - max(self.top, other.top)

    def union(self, other: "Box") -> "Box":
        """Return the smallest box around both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def padded(self, x_px: int, y_px: int | None = None) -> "Box":
        """Return the box expanded by a margin on each side (shrunk if negative); it may extend beyond the image."""
        y_px = x_px if y_px is None else y_px
        return Box(self.left - x_px, self.top - y_px, self.right + x_px, self.bottom + y_px)

    def moved(self, x_px: int, y_px: int) -> "Box":
        """Return the box moved by an offset in pixels."""
        return Box(self.left + x_px, self.top + y_px, self.right + x_px, self.bottom + y_px)

    def clipped(self, width: int, height: int) -> "Box":
        """Return the part of the box on an image of this size."""
        return Box(
            min(max(self.left, 0), width),
            min(max(self.top, 0), height),
            min(max(self.right, 0), width),
            min(max(self.bottom, 0), height),
        )
