"""What the model has seen: the screen now, and those before it that the history still holds."""

from dataclasses import dataclass
from functools import cached_property

from cua.models.literal.screen import Screen, read_screen


@dataclass(eq=False)
class Sight:
    """The last few screenshots, read when they are asked for.

    Attributes:
        pictures: Encoded pictures, oldest first; the last one is now.
        has_news: Whether the environment reports something that the picture does not show, such as a download.
        is_stuck: Whether the last two pictures are the same but for a caret or a clock.
    """

    pictures: tuple[bytes, ...]
    has_news: bool = False
    is_stuck: bool = False

    @cached_property
    def now(self) -> Screen:
        """The screen as it is."""
        return read_screen(self.pictures[-1])

    def back(self, count: int) -> Screen | None:
        """The screen so many actions ago; None when it is not in the history any more."""
        return read_screen(self.pictures[-1 - count]) if len(self.pictures) > count else None

    @property
    def before(self) -> Screen | None:
        """The screen on which the last action was done."""
        return self.back(1)
