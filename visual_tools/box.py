"""A rectangle on an image, in its pixels."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Box:
    """A rectangle in pixels of the image: left and top inside, right and bottom just outside.

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
        """Columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows."""
        return self.bottom - self.top

    @property
    def area(self) -> int:
        """Pixels."""
        return max(self.width, 0) * max(self.height, 0)

    @property
    def center(self) -> tuple[float, float]:
        """The middle, x and y in pixels."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns, by which an image is indexed; no side may be negative."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def contains(self, other: "Box", slack_px: int = 0) -> bool:
        """Whether `other` lies inside, give or take `slack_px` on each side."""
        return (
            self.left - slack_px <= other.left
            and self.top - slack_px <= other.top
            and self.right + slack_px >= other.right
            and self.bottom + slack_px >= other.bottom
        )

    def has_point(self, x_px: float, y_px: float) -> bool:
        """Whether a point lies inside."""
        return self.left <= x_px < self.right and self.top <= y_px < self.bottom

    def intersection(self, other: "Box") -> int:
        """Pixels that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0) * max(height, 0)

    def overlap_x(self, other: "Box") -> int:
        """Columns that both cover; negative is the gap between them."""
        return min(self.right, other.right) - max(self.left, other.left)

    def overlap_y(self, other: "Box") -> int:
        """Rows that both cover; negative is the gap between them."""
        return min(self.bottom, other.bottom) - max(self.top, other.top)

    def union(self, other: "Box") -> "Box":
        """The smallest box around both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def padded(self, x_px: int, y_px: int | None = None) -> "Box":
        """Grown by a margin on each side (shrunk when it is negative); may leave the image."""
        y_px = x_px if y_px is None else y_px
        return Box(self.left - x_px, self.top - y_px, self.right + x_px, self.bottom + y_px)

    def moved(self, x_px: int, y_px: int) -> "Box":
        """The same size, elsewhere."""
        return Box(self.left + x_px, self.top + y_px, self.right + x_px, self.bottom + y_px)

    def clipped(self, width: int, height: int) -> "Box":
        """The part that lies on an image of this size."""
        return Box(
            min(max(self.left, 0), width),
            min(max(self.top, 0), height),
            min(max(self.right, 0), width),
            min(max(self.bottom, 0), height),
        )
