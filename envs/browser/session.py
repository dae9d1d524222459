"""One episode in a browser: its context, its tabs, and their events."""

import asyncio
import contextlib
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envs.browser.a11y import A11yReader
from envs.browser.bound_texts import BoundTexts
from envs.browser.camera import PageCamera
from envs.browser.clipboard import SessionClipboard
from envs.browser.context import Folders, Logins, save_storage_state
from envs.browser.domains import Firewall
from envs.browser.downloads import Downloads
from envs.browser.filter_proxy import FilterProxy
from envs.browser.generations import Generations
from envs.browser.held_requests import HeldRequests
from envs.browser.inspector import Inspector
from envs.browser.navigation import FailedPages, error_note, open_url, to_url
from envs.browser.options import BrowserOptions
from envs.browser.overlays.dialog_box import DialogBox
from envs.browser.overlays.file_list import FileList
from envs.browser.overlays.overlay import Overlay
from envs.browser.overlays.suggestions import Popups, Suggestions
from envs.browser.redact import Redactor
from envs.browser.settle import Interrupts, PageSettler, Traffic
from envs.browser.tabs import PageLimiter, Tabs
from envs.browser.texts import TextReader
from envs.browser.typing_check import TypingCheck
from envs.domain_rules import DomainRules
from envs.errors import ActionError, AddressError
from envs.secret_texts import split_login, without_login

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, FileChooser, Frame, Page, Response

_CLOSE_TIMEOUT_S = 5.0  # a page that hangs must not hold up the end
_MAX_NOTES = 20  # of one step; bounds the tokens of an observation


class BrowserSession:
    """Browser context with its tabs and the handlers of their events.

    Attributes:
        tabs: The tabs.
        generations: Generations of the tabs.
        downloads: Downloads of the episode.
        overlay: Current overlay over the page.
        notes: Notes for the next observation.
        crashed: Pages whose process crashed and that were not reloaded yet.
        inspector: Finds the targets of inputs in a page.
        bound_texts: Secrets that only some hosts may receive.
        held_requests: Requests that are held until they are checked.
        clipboard: Clipboard of this session.
        popups: Suggestions and tooltips.
        failed_pages: Reasons why tabs show an error page of the browser.
        typing_check: Compares fields with the text typed into them.
        background: Tasks that `close` waits for.
        is_shared: True if the browser has other sessions too.
    """

    def __init__(
        self,
        context: "BrowserContext",
        options: BrowserOptions,
        rules: DomainRules,
        folders: Folders,
        redact: Redactor,
        filter_proxy: FilterProxy | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self.context = context
        self.is_shared = is_shared
        self.tabs = Tabs()
        self.generations = Generations()
        self.overlay: Overlay | None = None
        self.notes: list[str] = []
        self.crashed: list[Page] = []
        self.background: set[asyncio.Task[None]] = set()
        self.interrupts = Interrupts()
        self.inspector = Inspector()
        self.bound_texts = BoundTexts(self.inspector)
        self.clipboard = SessionClipboard(self.inspector, self.bound_texts)
        self.popups = Popups(self.inspector, options.viewport_px)
        self.typing_check = TypingCheck(self.inspector, redact)
        self.firewall = Firewall(rules, filter_proxy)
        self.traffic = Traffic(context)
        self.settler = PageSettler(options, self.traffic, self.interrupts, self)
        self.failed_pages = FailedPages(self.firewall.failure_of)
        self.held_requests = HeldRequests(context, redact, self._add_note, is_shared=is_shared)
        self._page_limiter = PageLimiter(options.max_tabs, options.navigation_timeout_s)
        self._logins = Logins(options.http_logins)
        self._redact = redact
        self.camera = PageCamera(options, redact)
        self.a11y = A11yReader(options.viewport_px, redact)
        self.texts = TextReader(redact)
        self._options = options
        self._rules = rules
        self._folders = folders
        self.downloads = Downloads(
            folders, self.tabs, self.generations, self.notes.append, allows_files=self._is_file_start
        )
        self._crash_urls: set[str] = set()
        self._is_closing = False
        self._is_gone = False

    @property
    def _is_file_start(self) -> bool:
        return (self._options.start_url or "").startswith("file:")

    @property
    def is_connected(self) -> bool:
        """True if the browser is still running."""
        browser = self.context.browser
        return not self._is_gone and browser is not None and browser.is_connected()

    async def open(self) -> None:
        """Install all event handlers, and register the first page."""
        await self.firewall.install(self.context)
        await asyncio.gather(self.clipboard.install(self.context), self.held_requests.install())
        self.context.on("page", self._on_page)
        self.context.on("dialog", self._on_dialog)
        self.context.on("response", self._on_response)
        self.context.on("requestfailed", self.downloads.on_request_failed)
        self.context.on("requestfailed", self.failed_pages.on_request_failed)
        if self.context.browser is not None:
            self.context.browser.on("disconnected", self._on_gone)
        for page in self.context.pages:
            self._on_page(page)
        if not self.tabs.pages:
            await self._open_blank()
        await asyncio.gather(  # each waits for the browser, and not for the others
            self.ensure_page(),
            self._page_limiter.watch(self.context, self.tabs.active),
            self._logins.install(self.context.browser),
        )

    async def ensure_page(self) -> None:
        """Ensure that there is a tab and that the active one is in front."""
        if not self.tabs.pages:
            await self._open_blank()
        if not isinstance(self.overlay, DialogBox):
            await self.tabs.bring_to_front()

    async def list_downloads(self) -> None:
        """Show the list of downloads in a new tab.

        Raises:
            ActionError: If there are too many tabs.
        """
        await self.new_tab()
        await self.goto(self.downloads.folder_address)

    async def new_tab(self) -> None:
        """Open a blank tab.

        Raises:
            ActionError: If there are too many tabs.
        """
        if self._page_limiter.is_full:
            raise ActionError(f"there can be {self._options.max_tabs} tabs, and there are; close one first")
        await self._open_blank()

    async def goto(self, address: str) -> None:
        """Open an address in the active tab; return when the document begins to load.

        The path of a download of this episode shows that file. A user name and a password in the address are kept for
        its origin, and not shown again.

        Raises:
            ActionError: If it is not an address, is blocked, or does not load.
        """
        if await self.downloads.open_file(self.tabs.active, address, self._options.navigation_timeout_s):
            return
        url = to_url(address, more_schemes=frozenset({"file"}) if self._is_file_start else frozenset())
        self.bound_texts.check_address(address, url)
        url, login = split_login(url)
        reason = self._rules.why_blocked(url)
        if login is not None and self.is_shared:
            raise AddressError(
                "an address with a user name and a password needs a browser of its own, and this one is shared"
            )
        if login is not None and not reason:
            self._redact.learn(login.secrets)
            await self._logins.add(login)
        reason = reason or await self.held_requests.why_refused(url, self.tabs.active.url)
        if reason:
            raise AddressError(f"{url} was not opened: {reason}")
        try:
            await open_url(self.tabs.active, url, self._options.navigation_timeout_s)
        except ActionError as error:
            failure = self.firewall.failure_of(url)
            message = f"{url} was not opened: {failure}" if failure else str(error)
            raise ActionError(self.blocked_navigation() or message) from error

    def blocked_navigation(self) -> str | None:
        """Return why a page was not opened, if the rules blocked one since the last call."""
        for blocked in self.firewall.take():
            if blocked.is_navigation:
                return blocked.as_text()
        return None

    async def recover(self) -> str | None:
        """Reload crashed pages, each URL once, and return a message for the agent."""
        message = None
        while self.crashed:
            page = self.crashed.pop()
            url = without_login(page.url)
            await self._bounded(page.close())
            self._forget(page)
            await self._open_blank()
            message = f"the page {url} crashed and was closed"
            if url not in self._crash_urls and urlsplit(url).scheme in ("http", "https", "file"):
                self._crash_urls.add(url)
                message = f"the page {url} crashed and was loaded again; what was entered in it is lost"
                with contextlib.suppress(ActionError):
                    await open_url(self.tabs.active, url, self._options.navigation_timeout_s)
        return message

    async def close(self) -> None:
        """End the episode: save the storage state and close the context."""
        self._is_closing = True
        self.interrupts.drop()
        if self.context.browser is not None:
            self.context.browser.remove_listener("disconnected", self._on_gone)
        if not self.is_connected:
            return
        await self._bounded(self.held_requests.drop())
        await self._bounded(self._page_limiter.close())
        await self._bounded(self._logins.close())
        if isinstance(self.overlay, DialogBox):
            await self._bounded(self.overlay.answer(is_yes=False))
        if work := {*self.background, *self.downloads.under_way}:
            await asyncio.wait(work, timeout=_CLOSE_TIMEOUT_S)
            for task in work:
                task.cancel()
        if self._options.save_storage_state is not None:
            await self._bounded(save_storage_state(self.context, Path(self._options.save_storage_state)))
        await self._bounded(self.context.close())
        await self._bounded(self.held_requests.close())

    async def _open_blank(self) -> None:
        with self._page_limiter.own():
            self._on_page(await self.context.new_page())

    async def _bounded(self, work: Coroutine[object, object, Any]) -> None:
        """Run a clean-up step that may fail or hang, within a time limit."""
        from playwright.async_api import Error

        with contextlib.suppress(Error, TimeoutError):
            await asyncio.wait_for(work, _CLOSE_TIMEOUT_S)

    def is_page_coming(self) -> bool:
        """Return True while a PDF is prepared for a tab, or a tab may close because it only downloads."""
        return self.downloads.is_coming()

    def num_windows(self) -> int:
        """Return the number of windows that are about to open."""
        return self._page_limiter.num_coming(len(self.tabs.pages))

    def surplus_note(self) -> str | None:
        """Return a note for the agent on new tabs beyond the limit."""
        return self._page_limiter.take_note()

    def is_asking(self) -> bool:
        """Return True while a request is held, about which a person may be asked."""
        return self.held_requests.is_asking()

    def has_overlay(self) -> bool:
        """Return True if there is an overlay over the page."""
        return self.overlay is not None

    def clear_overlay(self) -> None:
        """Remove the overlay if it is closed."""
        if self.overlay is not None and self.overlay.is_done:
            if isinstance(self.overlay, Suggestions):
                self.popups.close()
            self.overlay = None

    async def update_popups(self) -> None:
        """Update the suggestions for the focused field, unless there is another overlay.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        if self.overlay is not None and not isinstance(self.overlay, Suggestions):
            return
        suggestions = await self.popups.refresh(self.tabs.active)
        if self.overlay is None or isinstance(self.overlay, Suggestions):  # no other overlay appeared meanwhile
            self.overlay = suggestions

    async def check_typing(self) -> None:
        """Add a note if the content of the focused field differs from the typed text.

        Raises:
            playwright.async_api.Error: If the page is gone.
        """
        if self.overlay is not None and not isinstance(self.overlay, Suggestions):
            return
        self._add_note(await self.typing_check.end())

    def _on_page(self, page: "Page") -> None:
        if self._is_closing or len(self.tabs.pages) >= self._options.max_tabs:
            return
        if not self.tabs.add(page, is_opened=not self._page_limiter.is_opening_own):
            return
        self.generations.watch(page)
        page.on("close", self._on_close)
        page.on("crash", self._on_crash)
        page.on("download", self.downloads.on_download)
        page.on("filechooser", self._on_file_chooser)
        page.on("framenavigated", self._on_navigated)

    def _on_close(self, page: "Page") -> None:
        was_known = page in self.tabs.pages
        self._forget(page)
        if was_known and not self.tabs.pages and not self._is_closing:
            self.notes.append("the last tab was closed; a new blank one was opened")

    def _forget(self, page: "Page") -> None:
        self.tabs.remove(page)
        self.traffic.forget(page)
        self.camera.forget(page)
        self.a11y.forget(page)
        self.texts.forget(page)
        self.inspector.forget(page)
        self.generations.forget(page)
        self.downloads.forget(page)
        if self.overlay is not None and self.overlay.page is page:
            self.overlay = None

    def _on_gone(self, _browser: object) -> None:
        self._is_gone = True
        self.interrupts.signal("died")

    def _on_crash(self, page: "Page") -> None:
        self.crashed.append(page)
        self.interrupts.signal("crash")

    def _on_dialog(self, dialog: "Dialog") -> None:
        asker = urlsplit(dialog.page.url).netloc if dialog.page else ""
        self.overlay = DialogBox(dialog, self._options.viewport_px, asker or "This page")
        if dialog.page is not None:
            self.tabs.activate(dialog.page)
        self.interrupts.signal("dialog")

    def _on_file_chooser(self, chooser: "FileChooser") -> None:
        self.overlay = chosen = FileList(chooser, self._folders.uploads, self._options.viewport_px)
        self._in_background(self._bounded(chosen.detect_folder_input()))

    def _in_background(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def _on_response(self, response: "Response") -> None:
        self.downloads.on_response(response)
        self._add_note(error_note(response, self._logins.origins))

    def _add_note(self, note: str | None) -> None:
        if note is not None and len(self.notes) < _MAX_NOTES:
            self.notes.append(note)

    def _on_navigated(self, frame: "Frame") -> None:
        if frame.parent_frame is not None:
            return
        self.traffic.committed(frame.page)
        if isinstance(self.overlay, FileList | Suggestions) and self.overlay.page is frame.page:
            self.overlay = None
        if self._rules.why_blocked(frame.url) and frame.url.startswith(("http:", "https:")):
            self._in_background(self._bounded(frame.page.goto("about:blank")))
