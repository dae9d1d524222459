"""The app without its pages: sessions side by side, uploaded files, settings, history."""

import asyncio
import secrets
import shutil
import tempfile
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apps.assistant.history import History
from apps.assistant.order import (
    Conversation,
    Order,
    has_live_screen,
    order_again,
    resume_work,
    screen_work,
    settings_of,
    swarm_work,
)
from apps.assistant.preferences import Preferences
from apps.assistant.session import Session, Work
from cua.errors import ConfigError, CuaError
from cua.trajectory import load_run

MAX_SESSIONS = 24
MAX_RUNNING = 6
MAX_FILE_BYTES = 100 * 2**20
MAX_UPLOADS_BYTES = 2**30
_MAX_NAME_CHARS = 120


class Assistant:
    """Everything that a page or a program can reach.

    Args:
        preferences: Settings of the app.

    Attributes:
        sessions: By name, oldest first.
        preferences: As given.
    """

    def __init__(self, preferences: Preferences | None = None) -> None:
        self.preferences = preferences or Preferences()
        self.sessions: dict[str, Session] = {}
        self._conversations: dict[str, Conversation] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="k25-assistant-"))
        self._uploaded_bytes = 0

    @property
    def history(self) -> History:
        """Runs in the folder that the settings name."""
        from cua.config import load_settings

        return History(load_settings(self.preferences.values).settings.runs_dir)

    @property
    def uploads_dir(self) -> Path:
        """Where uploaded files lie."""
        return self._folder / "uploads"

    @property
    def page_dir(self) -> Path:
        """Where the page's own uploads lie until an order takes them."""
        return self._folder / "page"

    def find(self, session_id: str) -> Session:
        """A session by name.

        Raises:
            CuaError: There is none.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise CuaError("there is no such session (any more)")
        return session

    async def send(self, order: Order, session_id: str = "") -> Session:
        """Begin something, or say something to what is going on.

        Args:
            order: What is asked for. To a run on a screen that is going on it is a redirect: only its words count.
            session_id: In which session; a new one when left out.

        Raises:
            CuaError: It cannot be done: a setting is wrong, too much is going on, a question is being answered.
        """
        if not order.instruction.strip():
            raise ConfigError('the instruction is empty; expected a text such as "Click Save"')
        session = self.find(session_id) if session_id else None
        if session is not None and session.is_running:
            if session.mode not in ("instant", "thinking"):
                raise CuaError("it is still answering; wait for its answer, or stop it first")
            session.redirect(order.instruction)
            return session
        chosen = settings_of(order, self.preferences.values)
        files = [self._find_upload(name) for name in order.files]
        if session is None or session.mode != order.mode:
            session = self._make_session(order.mode)
        work = self._work(session, order, chosen, files)
        session.start(work, order.instruction, has_live_screen=order.is_on_screen and has_live_screen(chosen))
        return session

    def resume(self, run_id: str) -> Session:
        """Go on with a recorded run, in a new session.

        Raises:
            CuaError: There is no such run.
        """
        run_dir = self.history.find(run_id)
        order = self._order_of(run_id)
        session = self._make_session(order.mode)
        chosen = {name: value for name, value in self.preferences.values.items() if name in ("api_key", "runs_dir")}
        is_live = order.is_on_screen and has_live_screen({**self.preferences.values})
        session.start(resume_work(session, run_dir, chosen), order.instruction, has_live_screen=is_live)
        return session

    async def again(self, run_id: str) -> Session:
        """Do a recorded run's task once more, in a new session.

        Raises:
            CuaError: There is no such run, or it cannot be started.
        """
        return await self.send(self._order_of(run_id))

    async def discard(self, session_id: str) -> None:
        """End a session and forget it; its runs stay in the history."""
        session = self.find(session_id)
        await session.close()
        conversation = self._conversations.pop(session_id, None)
        if conversation is not None:
            await conversation.close()
        self.sessions.pop(session_id, None)

    async def save_upload(self, name: str, chunks: AsyncIterator[bytes]) -> str:
        """Take a file; returns the name by which an order mentions it.

        Raises:
            CuaError: It is too large, or there is no room for more.
        """
        target = self._make_upload_place(name)
        size = 0
        try:
            with target.open("xb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > MAX_FILE_BYTES:
                        raise CuaError(f"the file is larger than {MAX_FILE_BYTES >> 20} MB")
                    if self._uploaded_bytes + size > MAX_UPLOADS_BYTES:
                        raise CuaError(f"uploads take more than {MAX_UPLOADS_BYTES >> 20} MB together; restart the app")
                    file.write(chunk)
        except BaseException:
            shutil.rmtree(target.parent, ignore_errors=True)
            raise
        self._uploaded_bytes += size
        return f"{target.parent.name}/{target.name}"

    def take_file(self, path: Path, name: str) -> str:
        """Copy a file that the page's own upload has saved; returns the name by which an order mentions it."""
        target = self._make_upload_place(name)
        shutil.copyfile(path, target)
        self._uploaded_bytes += target.stat().st_size
        return f"{target.parent.name}/{target.name}"

    async def close(self) -> None:
        """End all sessions and remove the uploads."""
        await asyncio.gather(*(self.discard(session_id) for session_id in tuple(self.sessions)))
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _work(self, session: Session, order: Order, chosen: Mapping[str, Any], files: Sequence[Path]) -> Work:
        if order.is_on_screen:
            return screen_work(order, chosen, list(files))
        if order.mode == "swarm":
            return swarm_work(session, order, chosen, list(files))
        conversation = self._conversations.setdefault(session.id, Conversation(chosen))
        return conversation.ask(order.instruction, list(files))

    def _make_session(self, mode: str) -> Session:
        if sum(session.is_running for session in self.sessions.values()) >= MAX_RUNNING:
            raise CuaError(f"{MAX_RUNNING} sessions are at work; stop one first")
        idle = [session for session in self.sessions.values() if not session.is_running]
        while len(self.sessions) >= MAX_SESSIONS and idle:
            oldest = idle.pop(0)
            if oldest.id not in self._conversations:  # a kernel that still runs is closed by a person
                del self.sessions[oldest.id]
        session = Session(mode)
        self.sessions[session.id] = session
        return session

    def _order_of(self, run_id: str) -> Order:
        from cua.swarm.report import is_swarm

        record = load_run(self.history.find(run_id), images=0)
        is_tool_run = record.is_tool_run
        return order_again(
            record.header.settings, record.header.instruction, record.header.env, is_tool_run, is_swarm(record)
        )

    def _make_upload_place(self, name: str) -> Path:
        plain = "".join(char for char in Path(name.replace("\\", "/")).name if unicodedata.category(char)[0] != "C")
        folder = self.uploads_dir / secrets.token_hex(8)
        folder.mkdir(parents=True, mode=0o700)
        return folder / (plain.strip(". ")[-_MAX_NAME_CHARS:] or "file")

    def _find_upload(self, name: str) -> Path:
        folders = self.uploads_dir.iterdir() if self.uploads_dir.is_dir() else ()
        for path in (path for folder in folders for path in folder.iterdir()):
            if f"{path.parent.name}/{path.name}" == name:
                return path
        raise ConfigError(f"there is no uploaded file {name[:200]!r}; upload it first")
