"""The interactive shell of a kernel: plain errors, one form for images, output in the order of writing."""

import array
import codecs
import contextlib
import fcntl
import importlib
import os
import select
import subprocess
import sys
import termios
import threading
import traceback
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any

from visual_tools.sandbox.contract import Limits
from visual_tools.sandbox.zygote.display import tidy, to_png

CELL_PREFIX = "<cell "
_HALF_CHARS = 4000
_READ_BYTES = 1 << 16
_SEND_CHARS = 1 << 16  # at most this much waits to be sent
_PLAIN_ENV = {"TERM": "dumb", "NO_COLOR": "1"}
_COLOURFUL_ENV = ("CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE")


def _own(error: traceback.TracebackException, folder: str) -> None:
    """Leave only frames of cells and of files in the working folder, here and in all causes."""
    seen: set[int] = set()
    queue: list[traceback.TracebackException | None] = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        own = [f for f in one.stack if f.filename.startswith((CELL_PREFIX, folder + "/"))]
        one.stack = traceback.StackSummary.from_list(own)
        queue += [one.__cause__, one.__context__, *(one.exceptions or ())]


def format_error(kind: type[BaseException], error: BaseException, tb: TracebackType | None, folder: str) -> list[str]:
    """The lines to show.

    Args:
        kind: Class of the error.
        error: The error.
        tb: Where it came from.
        folder: The working folder; files below it are the cell's own too.
    """
    told = traceback.TracebackException(kind, error, tb, lookup_lines=False, compact=True)
    _own(told, folder)
    return clip("".join(told.format()).rstrip()).splitlines()


def clip(text: str) -> str:
    """Text of an error, head and tail when it is very long."""
    left_out = len(text) - 2 * _HALF_CHARS
    return (
        text if left_out <= 0 else f"{text[:_HALF_CHARS]}[... {left_out} characters left out ...]{text[-_HALF_CHARS:]}"
    )


@cache
def stream_class() -> type[Any]:
    """A stream that first lets go of what was written before: by the other stream, or past Python."""
    base: Any = importlib.import_module("ipykernel.iostream").OutStream

    class OrderedStream(base):  # type: ignore[misc]
        """Keeps Python's output and output written to the descriptor, which comes through a pipe, in order."""

        last: "OrderedStream | None" = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._pipe_lock = threading.RLock()
            self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
            self._num_waiting = 0
            super().__init__(*args, **kwargs)

        def write(self, string: str) -> int:
            drain(sys.stdout, sys.stderr)
            return self._send(string)

        def _send(self, text: str) -> int:
            other, OrderedStream.last = OrderedStream.last, self
            if other is not None and other is not self and not other.closed:
                other.flush()
            for begin in range(0, len(text) or 1, _SEND_CHARS):
                piece = text[begin : begin + _SEND_CHARS]
                super().write(piece)
                self._num_waiting += len(piece)
                if self._num_waiting >= _SEND_CHARS:
                    self.flush()
            return len(text)

        def flush(self) -> None:
            self._num_waiting = 0
            super().flush()

        def empty_pipe(self) -> None:
            """Pass on what is in the pipe."""
            if not self._should_watch or os.getpid() != self._master_pid:
                return
            with self._pipe_lock:  # whoever has read has passed it on
                while _count_waiting(self._fid):
                    text = self._decode(os.read(self._fid, _READ_BYTES))
                    if text:
                        self._send(text)

        def _watch_pipe_fd(self) -> None:
            poll = select.poll()
            poll.register(self._fid, select.POLLIN)
            with contextlib.suppress(OSError, ValueError):
                while all(event & select.POLLIN for _, event in poll.poll()):  # until the code closes it
                    self.empty_pipe()

    return OrderedStream


def _count_waiting(pipe: int) -> int:
    count = array.array("i", [0])
    with contextlib.suppress(OSError):
        fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def drain(*streams: Any) -> None:
    """Pass on what subprocesses and C code have written to these streams so far."""
    for stream in streams:
        empty_pipe = getattr(stream, "empty_pipe", None)
        if empty_pipe is not None:
            empty_pipe()


@cache
def _shell_class() -> type[Any]:
    compiler: Any = importlib.import_module("ipykernel.compiler").XCachingCompiler
    hook: Any = importlib.import_module("ipykernel.displayhook").ZMQShellDisplayHook
    zmqshell: Any = importlib.import_module("ipykernel.zmqshell")

    class CellCompiler(compiler):  # type: ignore[misc]
        """Cells are called by their number in tracebacks."""

        num_cells = 0

        def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
            self.num_cells += 1
            return f"{CELL_PREFIX}{number or 'unnumbered ' + str(self.num_cells)}>"

    class Publisher(zmqshell.ZMQDisplayPublisher):  # type: ignore[misc]
        limits = Limits()

        def publish(self, data: Any, metadata: Any = None, **more: Any) -> None:
            data, metadata = tidy(data, metadata, self.limits)
            drain_streams()
            super().publish(data, metadata, **more)

    class Hook(hook):  # type: ignore[misc]
        limits = Limits()

        def start_displayhook(self) -> None:
            drain_streams()
            super().start_displayhook()

        def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
            super().write_format_data(*tidy(format_dict, md_dict, self.limits))

    class SandboxShell(zmqshell.ZMQInteractiveShell):  # type: ignore[misc]
        compiler_factory = CellCompiler
        displayhook_class = Hook
        display_pub_class = Publisher

        def init_environment(self) -> None:
            super().init_environment()
            os.environ.update(_PLAIN_ENV)
            for name in _COLOURFUL_ENV:
                os.environ.pop(name, None)

        def set_limits(self, limits: Limits) -> None:
            """What images may be from now on."""
            self.limits = self.displayhook.limits = self.display_pub.limits = limits

        def system_piped(self, cmd: str) -> None:
            """Run `!cmd`; its output comes through the pipe."""
            drain_streams()
            command = self.var_expand(cmd, depth=1)
            self.user_ns["_exit_code"] = subprocess.call(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL)
            drain_streams()

        system = system_piped

        def payloadpage_page(self, strg: Any, *args: Any, **kwargs: Any) -> None:
            """Print what would go to a pager, as `name?` does."""
            print(strg["text/plain"] if isinstance(strg, dict) else strg)

        def ask_exit(self) -> None:
            """The kernel is not the cell's to end."""
            print("exit() has no effect: the kernel keeps running")

        def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            kind, error, tb = self._get_exc_info(exc_tuple)
            self._showtraceback(kind, clip(str(error)), format_error(kind, error, tb, os.environ["HOME"]))

        def _format_exception_for_storage(self, exception: BaseException, *args: Any, **kwargs: Any) -> dict[str, Any]:
            """For a history that is not kept; IPython's own would format every frame once more."""
            return {"ename": type(exception).__name__, "evalue": str(exception), "traceback": []}

        def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
            self.showtraceback()

        def showindentationerror(self) -> None:
            self.showtraceback()

    return SandboxShell


def make_shell(app: Any) -> Any:
    """The shell that every fork continues, with matplotlib drawing into the cell's output.

    Args:
        app: The kernel application.
    """
    kind = _shell_class()
    shell = kind.instance(parent=app, profile_dir=app.profile_dir, user_ns={}, compiler_class=kind.compiler_factory)
    shell.colors = "nocolor"
    shell.limits = Limits()
    shell.display_formatter.active_types = ["text/plain", "text/markdown", "image/png", "image/jpeg"]
    _show_images(shell)
    transforms = shell.input_transformer_manager.cleanup_transforms
    transforms[0] = _keep_line_numbers(transforms[0])
    shell.events.register("post_run_cell", lambda _: drain_streams())
    return shell


def _keep_line_numbers(strip: Callable[[list[str]], list[str]]) -> Callable[[list[str]], list[str]]:
    """IPython strips empty lines at the top, after which errors name wrong lines; only cell magics need it."""

    def strip_before_magic(lines: list[str]) -> list[str]:
        first = next((line for line in lines if line.strip()), "")
        return strip(lines) if first.startswith("%%") else lines

    return strip_before_magic


def _show_images(shell: Any) -> None:
    from PIL import Image

    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type(Image.Image, lambda image: to_png(image, shell.limits))
    formatters["image/jpeg"].for_type(Image.Image, lambda image: None)
    with contextlib.suppress(ImportError):
        inline: Any = importlib.import_module("matplotlib_inline.backend_inline")
        importlib.import_module("IPython.core.pylabtools").activate_matplotlib("inline")
        inline.configure_inline_support(shell, "inline")


def drain_streams() -> None:
    """Let everything that was written so far be on its way, in order."""
    drain(sys.stdout, sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, stream_class()):
            stream.flush()
