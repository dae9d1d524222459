"""App without its pages: concurrent sessions, uploaded files, settings, history."""

import asyncio
import secrets
import shutil
import tempfile
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from apps.assistant.errors import FILE_TOO_LARGE, MAX_FILE_BYTES, FileTooLargeError, NotFoundError
from apps.assistant.history import History
from apps.assistant.preferences import Preferences
from apps.assistant.run_request import (
    RunRequest,
    ToolConversation,
    has_live_screen,
    policy_of,
    request_of_header,
    resume_work,
    screen_key,
    screen_work,
    settings_of,
    swarm_work,
    undo_note_for,
)
from apps.assistant.saved_tasks import SavedTasks
from apps.assistant.session import AssistantSession, Work
from apps.assistant.wording import phrase
from apps.cli.terminal import echo
from cua.errors import ConfigError, CuaError
from cua.trajectory import load_run
from envs.errors import EnvError
from visual_tools.ocr import release_engine

MAX_SESSIONS = 24
"""Sessions kept in memory; the oldest idle one is dropped first."""
MAX_RUNNING = 6
"""Active runs: each has a browser or kernel of several hundred MB."""
MAX_OPEN_SCREENS = 2
"""Browsers and desktops that stay open after their runs; the oldest is closed first."""
MAX_UPLOADS_BYTES = 2**30
_MAX_NAME_BYTES = 200  # of an uploaded file's name in UTF-8; file systems allow 255
_NO_ROOM = f"uploads take more than {MAX_UPLOADS_BYTES >> 20} MB together; restart the app"
_SCREEN_MODES = {"instant", "thinking"}
_TICK_S = 5.0
"""Interval of the schedule, well below the minute in which times are given."""
_IDLE_TICKS = 6
"""Intervals without a run after which the text recognition is unloaded; loading it takes 0.3 s."""


class Assistant:
    """Interface of the app for pages and programs.

    Args:
        preferences: Settings of the app.
        max_uploads_bytes: Total disk space for uploads.
        own_places: Hosts with port at which the app listens; the agent's browser may not open them.

    Attributes:
        sessions: Sessions by id, oldest first.
        preferences: Settings of the app.
        tasks: Saved tasks.
    """

    def __init__(
        self,
        preferences: Preferences | None = None,
        *,
        max_uploads_bytes: int = MAX_UPLOADS_BYTES,
        own_places: Sequence[str] = (),
    ) -> None:
        self._max_uploads_bytes = max_uploads_bytes
        self._own_places = tuple(own_places)
        self.preferences = preferences or Preferences()
        beside = self.preferences.file
        self.tasks = SavedTasks(beside.with_name("assistant-tasks") if beside is not None else None)
        self.sessions: dict[str, AssistantSession] = {}
        self._conversations: dict[str, ToolConversation] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="k25-assistant-"))
        self._last_error = ""

    @property
    def history(self) -> History:
        """Runs in the folder of the settings."""
        from cua.config import load_settings

        return History(load_settings(self.preferences.values).settings.runs_dir)

    @property
    def uploads_dir(self) -> Path:
        """Folder of uploaded files."""
        return self._folder / "uploads"

    @property
    def page_dir(self) -> Path:
        """Folder of the page's own uploads until a request uses them."""
        return self._folder / "page"

    def find(self, session_id: str) -> AssistantSession:
        """Return a session by id.

        Raises:
            NotFoundError: If it does not exist.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise NotFoundError("there is no such session (any more)")
        return session

    async def send(self, request: RunRequest, session_id: str = "") -> AssistantSession:
        """Start a run, or send a message to the active run.

        Args:
            request: Request to execute. For an active run it is a redirect: only its instruction is used.
            session_id: Id of the session; a new one by default.

        Raises:
            CuaError: If it cannot be done: a setting is wrong, or too many runs are active.
        """
        if not request.instruction.strip():
            raise ConfigError('the instruction is empty; expected a text such as "Click Save"')
        session = self.find(session_id) if session_id else None
        if session is not None and session.is_running:
            if request.files:
                raise CuaError(
                    "files can be added only with a new question; wait for the answer, or stop the run first"
                )
            session.redirect(request.instruction)
            return session
        placed = self._placed(request, session)
        chosen = settings_of(placed, self.preferences.values, denied=self._own_places)
        files = [self._find_upload(name) for name in request.files]
        if session is None or (session.mode != request.mode and not {session.mode, request.mode} <= _SCREEN_MODES):
            session = self._make_session(request.mode)
        await self._close_screens(session)
        work = self._work(session, request, chosen, files)
        session.mode = request.mode
        if request.is_on_screen:
            session.place, session.where = placed.place, placed.url or placed.app or ""
        session.questions.policy = policy_of(chosen)
        is_live = request.is_on_screen and has_live_screen(chosen, self.preferences.secrets)
        shown = [
            {"name": path.name, "image": await asyncio.to_thread(session.log.keep_file_thumbnail, path)}
            for path in files
        ]
        session.start(
            work,
            request.instruction,
            has_live_screen=is_live,
            undo_note=undo_note_for(placed, chosen),
            files=shown,
        )
        return session

    def _placed(self, request: RunRequest, session: AssistantSession | None) -> RunRequest:
        """Return the request with the place where its screen started, after a check that it can continue there.

        Raises:
            CuaError: If the screen is closed, or does not fit the request and the settings.
        """
        if request.place != "here" or not request.is_on_screen:
            return request
        if session is None or not session.can_continue or session.open_screen is None:
            raise CuaError("the screen of this session is closed; choose where to start")
        if request.files:
            raise CuaError("files can be added only with a new start; choose where to start")
        start = {"url": session.where} if session.place == "web" else {"app": session.where or None}
        placed = request.model_copy(update={"place": session.place, **start})
        chosen = settings_of(placed, self.preferences.values, denied=self._own_places)
        if session.open_screen.key != screen_key(chosen, self.preferences.secrets):
            raise CuaError("settings of the screen have changed; choose where to start")
        if not has_live_screen(chosen, self.preferences.secrets):
            raise CuaError("a typed secret may be visible on this screen; choose where to start")
        return placed

    async def _close_screens(self, kept: AssistantSession) -> None:
        """Close the oldest screens that stayed open after their runs, other than the given one."""
        idle = [session for session in self.sessions.values() if session.can_continue and session is not kept]
        for session in idle[: -(MAX_OPEN_SCREENS - 1)]:
            await session.close_screen()

    def resume(self, run_id: str) -> AssistantSession:
        """Resume a recorded run in a new session.

        Raises:
            CuaError: If the run does not exist.
        """
        run_dir = self.history.find(run_id)
        request = self._request_of(run_id)
        if request.is_on_screen and request.place == "practice":
            raise CuaError("the practice page ended with its run; run it again instead")
        session = self._make_session(request.mode)
        chosen = {name: value for name, value in self.preferences.values.items() if name in ("api_key", "runs_dir")}
        is_live = request.is_on_screen and has_live_screen(self.preferences.values, self.preferences.secrets)
        work = resume_work(session, run_dir, chosen, self.preferences.secrets)
        session.questions.policy = policy_of(self.preferences.values)
        session.start(work, request.instruction, has_live_screen=is_live, undo_note=undo_note_for(request, chosen))
        return session

    async def again(self, run_id: str) -> AssistantSession:
        """Repeat a recorded run's task in a new session.

        Raises:
            CuaError: If the run does not exist, or cannot be started.
        """
        return await self.send(self._request_of(run_id))

    async def run_task(self, name: str, values: Mapping[str, str] | None = None) -> AssistantSession:
        """Start a saved task in a new session.

        Raises:
            CuaError: If the task does not exist, a parameter has no value, or it cannot be started.
        """
        return await self.send(self.tasks.find(name).request(values))

    async def run_due(self, now: datetime) -> list[AssistantSession]:
        """Start the tasks that are due; the list of tasks shows the result of each."""
        sessions = []
        for name in self.tasks.pop_due(now):
            missed = self.tasks.find(name).last
            try:
                sessions.append(await self.run_task(name))
                outcome = f"started {now:%Y-%m-%d %H:%M}"
            except (CuaError, EnvError) as error:
                outcome = f"not started {now:%Y-%m-%d %H:%M}: {phrase(error)}"
            self.tasks.report(name, f"{outcome}; {missed}" if missed else outcome)
        return sessions

    async def run_schedule(self) -> None:
        """Start saved tasks at their times, and free memory when idle, until cancelled."""
        num_idle = 0
        while True:
            num_idle = 0 if any(session.is_running for session in self.sessions.values()) else num_idle + 1
            if num_idle == _IDLE_TICKS:
                await asyncio.to_thread(release_engine)
            try:
                await self.run_due(datetime.now())
            except (CuaError, OSError) as error:  # the page shows the error of the file
                if str(error) != self._last_error:
                    self._last_error = str(error)
                    echo(f"saved tasks: {error}", err=True)
            await asyncio.sleep(_TICK_S)

    async def discard(self, session_id: str) -> None:
        """Close a session and delete it; its runs stay in the history."""
        session = self.find(session_id)
        await session.close()
        conversation = self._conversations.pop(session_id, None)
        if conversation is not None:
            await conversation.close()
        self.sessions.pop(session_id, None)

    def has_room(self, more_bytes: int = 0) -> bool:
        """Return True if uploads may use more disk space."""
        return self._held_bytes() + more_bytes <= self._max_uploads_bytes

    def _held_bytes(self) -> int:
        files = [path.stat() for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink()]
        return sum({file.st_ino: file.st_size for file in files}.values())

    async def save_upload(self, name: str, chunks: AsyncIterator[bytes]) -> str:
        """Save an uploaded file; return the name by which a request refers to it.

        Raises:
            FileTooLargeError: If it is too large.
            CuaError: If the disk space for uploads is used up.
        """
        target = self._make_upload_place(name)
        size, held = 0, self._held_bytes()
        try:
            with target.open("xb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > MAX_FILE_BYTES:
                        raise FileTooLargeError(FILE_TOO_LARGE)
                    if held + size > self._max_uploads_bytes:
                        raise CuaError(_NO_ROOM)
                    file.write(chunk)
        except BaseException:
            shutil.rmtree(target.parent, ignore_errors=True)
            raise
        return f"{target.parent.name}/{target.name}"

    async def close(self) -> None:
        """Close all sessions and remove the uploads."""
        await asyncio.gather(*(self.discard(session_id) for session_id in tuple(self.sessions)))
        self.tasks.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _work(
        self, session: AssistantSession, request: RunRequest, chosen: Mapping[str, Any], files: Sequence[Path]
    ) -> Work:
        if request.is_on_screen:
            return screen_work(session, request, chosen, self._gather(files), self.preferences.secrets)
        if request.mode == "swarm":
            return swarm_work(session, request, chosen, list(files))
        conversation = self._conversations.setdefault(session.id, ToolConversation(chosen))
        return conversation.ask(request.instruction, list(files))

    def _make_session(self, mode: str) -> AssistantSession:
        if sum(session.is_running for session in self.sessions.values()) >= MAX_RUNNING:
            raise CuaError(f"{MAX_RUNNING} sessions are at work; stop one first")
        idle = [session for session in self.sessions.values() if not session.is_running]
        while len(self.sessions) >= MAX_SESSIONS and idle:
            oldest = idle.pop(0)
            if oldest.id not in self._conversations and not oldest.can_continue:  # others are closed by the user
                del self.sessions[oldest.id]
        session = AssistantSession(mode)
        self.sessions[session.id] = session
        return session

    def _request_of(self, run_id: str) -> RunRequest:
        return request_of_header(load_run(self.history.find(run_id), images=0).header)

    def _make_upload_place(self, name: str) -> Path:
        plain = "".join(char for char in Path(name.replace("\\", "/")).name if unicodedata.category(char)[0] != "C")
        folder = self.uploads_dir / secrets.token_hex(8)
        folder.mkdir(parents=True, mode=0o700)
        end = plain.encode("utf-8", "ignore")[-_MAX_NAME_BYTES:].decode("utf-8", "ignore")
        return folder / (end.strip(". ") or "file")

    def _gather(self, files: Sequence[Path]) -> Path | None:
        """Return a folder with all files, from which a page may be given any of them; None without files."""
        if not files:
            return None
        folder = self._folder / "given" / secrets.token_hex(8)
        folder.mkdir(parents=True, mode=0o700)
        for number, file in enumerate(files, start=1):
            name = file.name
            while (folder / name).exists():  # two files of one name
                name = f"{number}-{name}"
            (folder / name).hardlink_to(file)
        return folder

    def _find_upload(self, name: str) -> Path:
        folders = self.uploads_dir.iterdir() if self.uploads_dir.is_dir() else ()
        for path in (path for folder in folders for path in folder.iterdir()):
            if f"{path.parent.name}/{path.name}" == name:
                return path
        raise NotFoundError(f"there is no uploaded file {name[:200]!r}; upload it first")
