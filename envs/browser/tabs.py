"""The tabs of a browser context: which there are, and which one is looked at."""

from typing import TYPE_CHECKING

from envs.errors import ActionError
from envs.observation import Tab

if TYPE_CHECKING:
    from playwright.async_api import Page


class Tabs:
    """Pages in the order of their tabs; a new one becomes the active one."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self._active: Page | None = None
        self._in_front: Page | None = None
        self._titles: dict[Page, str] = {}

    @property
    def active(self) -> "Page":
        """The page that is looked at.

        Raises:
            ActionError: There is none at this moment.
        """
        if self._active is None:
            raise ActionError("the tab was closed")
        return self._active

    def add(self, page: "Page", *, after: "Page | None" = None) -> bool:
        """Take in a new page and make it the active one; False when it is known already."""
        if page in self.pages or page.is_closed():
            return False
        at = self.pages.index(after) + 1 if after in self.pages else len(self.pages)
        self.pages.insert(at, page)
        self._active = page
        return True

    def remove(self, page: "Page") -> None:
        """A page is gone; its neighbour becomes the active one if need be."""
        if page not in self.pages:
            return
        at = self.pages.index(page)
        self.pages.remove(page)
        self._titles.pop(page, None)
        if self._active is page:
            self._active = self.pages[min(at, len(self.pages) - 1)] if self.pages else None

    def select(self, number: int) -> None:
        """Make a tab, counted from 0, the active one; counting goes around."""
        self._active = self.pages[number % len(self.pages)]

    def activate(self, page: "Page") -> None:
        """Make a page the active one."""
        if page in self.pages:
            self._active = page

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) tab."""
        self.select(self.pages.index(self.active) + by)

    async def bring_to_front(self) -> None:
        """Let the browser show the active page, if it does not yet."""
        if self._active is not None and self._active is not self._in_front:
            await self._active.bring_to_front()
            self._in_front = self._active

    def set_title(self, page: "Page", title: str | None) -> None:
        """Remember a page's title."""
        if title is not None and page in self.pages:
            self._titles[page] = title

    def title(self, page: "Page") -> str:
        """A page's title as last seen."""
        return self._titles.get(page, "")

    def listed(self) -> tuple[Tab, ...]:
        """The tabs as an observation has them."""
        return tuple(Tab(title=self.title(page), url=page.url, is_active=page is self._active) for page in self.pages)
