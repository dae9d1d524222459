"""IPython kernel of a fork: imported and built as far as possible before the fork, connected to its sockets after it.

Its shell shows plain errors, displays images in one form, and prints output in the order of writing.
"""

import array
import asyncio
import codecs
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace, TracebackType
from typing import Any

from visual_tools.sandbox.contract import KernelLimits
from visual_tools.sandbox.zygote import isolation
from visual_tools.sandbox.zygote.display import tidy, to_png
from visual_tools.sandbox.zygote.plan import KernelSpec, spec_from_json
from visual_tools.sandbox.zygote.spawn import split

CELL_PREFIX = "<cell "
_HALF_CHARS = 4000  # shown beginning and end of a long text
_READ_BYTES = 1 << 16  # capacity of a pipe in Linux
_SEND_CHARS = 1 << 16  # maximum buffered before it is sent
_PLAIN_ENV = {"TERM": "dumb", "NO_COLOR": "1"}
_COLOURFUL_ENV = ("CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE")


def _own(error: traceback.TracebackException, folder: str) -> None:
    """Keep only frames of cells and of files in the working folder, in the error and in all its causes."""
    seen: set[int] = set()
    queue: list[traceback.TracebackException | None] = [error]
    while queue:
        exception = queue.pop()
        if exception is None or id(exception) in seen:
            continue
        seen.add(id(exception))
        own = [f for f in exception.stack if f.filename.startswith((CELL_PREFIX, folder + "/"))]
        exception.stack = traceback.StackSummary.from_list(own)
        queue += [exception.__cause__, exception.__context__, *(exception.exceptions or ())]


def format_error(kind: type[BaseException], error: BaseException, tb: TracebackType | None, folder: str) -> list[str]:
    """Return the lines of the error message to show."""
    report = traceback.TracebackException(kind, error, tb, lookup_lines=False, compact=True)
    _own(report, folder)
    return clip("".join(report.format()).rstrip()).splitlines()


def clip(text: str) -> str:
    """Return the text of an error, only head and tail if it is very long."""
    left_out = len(text) - 2 * _HALF_CHARS
    return (
        text if left_out <= 0 else f"{text[:_HALF_CHARS]}[... {left_out} characters left out ...]{text[-_HALF_CHARS:]}"
    )


@cache
def stream_class() -> type[Any]:
    """Return a stream class that first flushes earlier output: of the other stream, or written past Python."""
    base: Any = importlib.import_module("ipykernel.iostream").OutStream

    class OrderedStream(base):  # type: ignore[misc]
        """Stream that keeps Python's output in order with output that others write to its descriptor, a pipe."""

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
            """Forward the content of the pipe."""
            if not self._should_watch or os.getpid() != self._master_pid:
                return
            with self._pipe_lock:  # the thread that held the lock has forwarded what it read
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


def drain(*streams: object) -> None:
    """Forward what subprocesses and C code have written to these streams so far."""
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
        """Compiler that names cells by their number in tracebacks."""

        num_cells = 0

        def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
            self.num_cells += 1
            return f"{CELL_PREFIX}{number or 'unnumbered ' + str(self.num_cells)}>"

    class Publisher(zmqshell.ZMQDisplayPublisher):  # type: ignore[misc]
        limits = KernelLimits()

        def publish(self, data: Any, metadata: Any = None, **more: object) -> None:
            data, metadata = tidy(data, metadata, self.limits)
            drain_streams()
            super().publish(data, metadata, **more)

    class Hook(hook):  # type: ignore[misc]
        limits = KernelLimits()

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

        def set_limits(self, limits: KernelLimits) -> None:
            """Set the image limits for the following cells."""
            self.limits = self.displayhook.limits = self.display_pub.limits = limits

        def system_piped(self, cmd: str) -> None:
            """Run `!cmd`; its output comes through the pipe."""
            drain_streams()
            command = self.var_expand(cmd, depth=1)
            self.user_ns["_exit_code"] = subprocess.call(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL)
            drain_streams()

        system = system_piped

        def payloadpage_page(self, strg: object, *args: object, **kwargs: object) -> None:
            """Print what would go to a pager, as for `name?`."""
            print(strg["text/plain"] if isinstance(strg, dict) else strg)

        def ask_exit(self) -> None:
            """Ignore the request: a cell must not end the kernel."""
            print("exit() has no effect: the kernel keeps running")

        def showtraceback(self, exc_tuple: object = None, *args: object, **kwargs: object) -> None:
            kind, error, tb = self._get_exc_info(exc_tuple)
            self._showtraceback(kind, clip(str(error)), format_error(kind, error, tb, os.environ["HOME"]))

        def _format_exception_for_storage(
            self, exception: BaseException, *args: object, **kwargs: object
        ) -> dict[str, Any]:
            """Return no traceback, since the history is not kept; IPython's method would format every frame again."""
            return {"ename": type(exception).__name__, "evalue": str(exception), "traceback": []}

        def showsyntaxerror(self, *args: object, **kwargs: object) -> None:
            self.showtraceback()

        def showindentationerror(self) -> None:
            self.showtraceback()

    return SandboxShell


def make_shell(app: Any) -> Any:
    """Create the shell that every fork continues, with matplotlib drawing into the cell's output."""
    kind = _shell_class()
    shell = kind.instance(parent=app, profile_dir=app.profile_dir, user_ns={}, compiler_class=kind.compiler_factory)
    shell.colors = "nocolor"
    shell.limits = KernelLimits()
    shell.display_formatter.active_types = ["text/plain", "text/markdown", "image/png", "image/jpeg"]
    _show_images(shell)
    transforms = shell.input_transformer_manager.cleanup_transforms
    transforms[0] = _keep_line_numbers(transforms[0])
    shell.events.register("post_run_cell", lambda _: drain_streams())
    return shell


def _keep_line_numbers(strip: Callable[[list[str]], list[str]]) -> Callable[[list[str]], list[str]]:
    """Strip leading empty lines only for cell magics, which need it.

    IPython strips them from every cell, after which errors name wrong lines.
    """

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
        inline = importlib.import_module("matplotlib_inline.backend_inline")
        importlib.import_module("IPython.core.pylabtools").activate_matplotlib("inline")
        inline.configure_inline_support(shell, "inline")


def drain_streams() -> None:
    """Flush everything that was written so far, in order."""
    drain(sys.stdout, sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, stream_class()):
            stream.flush()


MODULES = (
    "numpy numpy.fft numpy.linalg numpy.ma numpy.random PIL.Image PIL.ImageDraw PIL.ImageFont PIL.ImageFilter "
    "PIL.ImageOps PIL.ImageChops PIL.ImageEnhance PIL.ImageStat PIL.PngImagePlugin PIL.JpegImagePlugin cv2 "
    "scipy.ndimage scipy.signal scipy.optimize scipy.interpolate scipy.spatial scipy.stats scipy.sparse "
    "scipy.sparse.csgraph scipy.fft scipy.cluster.hierarchy skimage.measure skimage.morphology skimage.segmentation "
    "skimage.feature skimage.filters skimage.graph skimage.transform skimage.color skimage.draw skimage.exposure "
    "skimage.restoration skimage.util skimage.io matplotlib matplotlib.pyplot matplotlib.patches pandas networkx "
    "visual_tools visual_tools.sandbox.inside "
    "json re math collections itertools functools statistics pathlib base64 csv random datetime fractions decimal "
    "string textwrap heapq bisect colorsys subprocess concurrent.futures multiprocessing.pool "
    "multiprocessing.connection multiprocessing.popen_fork multiprocessing.queues multiprocessing.synchronize "
    "stack_data pexpect pandas.io.formats.string PIL.BmpImagePlugin PIL.GifImagePlugin PIL.PpmImagePlugin "
    "PIL.WebPImagePlugin PIL.TiffImagePlugin IPython.core.magic_arguments IPython.core.magics.execution "
    "tornado.platform.asyncio tornado.process"
).split()
_NUM_QUEUED = 64  # messages


def import_all(after_each: Callable[[], None] = lambda: None) -> None:
    """Import the installed packages, so that all kernels have them loaded.

    Args:
        after_each: Called after each import; may raise to end them.
    """
    for module in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
        after_each()
    import visual_tools

    for name in visual_tools.__all__:
        with contextlib.suppress(ImportError, AttributeError):
            getattr(visual_tools, name)
        after_each()
    with contextlib.suppress(ImportError):
        importlib.import_module("matplotlib.font_manager")


def warm_up() -> None:
    """Run operations that are slow the first time: draw text in a figure, print a table."""
    with contextlib.suppress(ImportError):
        import matplotlib.pyplot as plt
        import pandas as pd

        figure, axes = plt.subplots()
        axes.set_title("Title")
        axes.plot([0, 1], label="line")
        axes.legend()
        figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
        plt.close(figure)
        repr(pd.DataFrame({"column": [1.5]}))


def compile_loops(cache_dir: str) -> None:
    """Compile the loops of `visual_tools.paths` in advance; kernels could not keep what they compile.

    Args:
        cache_dir: Cache folder that zygotes share; "" for none.
    """
    with contextlib.suppress(ImportError):
        import numpy as np

        from visual_tools.paths.shortest import METHODS, shortest_path

        config = importlib.import_module("numba").config
        kept, config.CACHE_DIR = config.CACHE_DIR, cache_dir or config.CACHE_DIR
        free = np.ones((4, 4), bool)
        for method in METHODS:
            shortest_path(free, start=(0, 0), goal=(3, 3), method=method)
        config.CACHE_DIR = kept


def freeze() -> None:
    """Exclude all objects from garbage collection, so that it writes to no shared page in a fork."""
    gc.collect()
    gc.freeze()


def prepare_app() -> Any:
    """Create the kernel application with its shell and kernel, without starting it; called once in the zygote."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # no debugger: it starts threads and listens
    from ipykernel.kernelapp import IPKernelApp
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    app: Any = IPKernelApp.instance(config=config, log_level=50)
    super(IPKernelApp, app).initialize([])  # its own method would open sockets
    app.log.disabled = True
    app.init_pdb()
    app.shell = make_shell(app)
    app.kernel = _make_kernel(app)
    return app


def _make_kernel(app: Any) -> Any:
    base: Any = importlib.import_module("ipykernel.ipkernel").IPythonKernel
    in_context = importlib.import_module("ipykernel.utils")._async_in_context
    loops = importlib.import_module("tornado.ioloop").IOLoop

    class SandboxKernel(base):  # type: ignore[misc]
        """Kernel that processes requests in the main thread itself: there are no subshells."""

        shell_class = type(app.shell)
        _supports_kernel_subshells = False

        async def do_execute(self, *args: object, **kwargs: object) -> dict[str, Any]:
            reply: dict[str, Any] = await super().do_execute(*args, **kwargs)
            return reply | {"traceback": [], "evalue": ""} if "evalue" in reply else reply  # already sent as output

        def start(self) -> None:
            self.io_loop = loops.current()
            self._control_lock = asyncio.Lock()
            self.control_stream.on_recv(self.dispatch_control, copy=False)
            self.shell_stream.on_recv(in_context(lambda message: self.shell_main(None, message)), copy=False)

    kernel: Any = SandboxKernel.instance(parent=app, session=app.session, log=app.log, profile_dir=app.profile_dir)
    app.shell.kernel = kernel
    return kernel


def run_app(app: Any, ports: Mapping[str, int], spec: KernelSpec, report: int) -> None:
    """Serve requests until the kernel is ended; never returns normally.

    Args:
        app: Application created by `prepare_app` before the fork.
        ports: Listening descriptors by channel.
        spec: Specification of the kernel.
        report: Pipe to the zygote; closed before any code runs.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    app.shell.set_limits(spec.limits)
    app.session.pack = _pack
    app.session.key, app.session.pid = spec.key.encode(), os.getpid()
    _open_channels(app, ports)
    os.register_at_fork(after_in_child=_print_to_the_pipe)
    os.close(report)
    app.start()


def _open_channels(app: Any, ports: Mapping[str, int]) -> None:
    import zmq

    make_control_thread = importlib.import_module("ipykernel.control").ControlThread
    make_output_thread = importlib.import_module("ipykernel.iostream").IOPubThread
    make_hook = importlib.import_module("ipykernel.displayhook").ZMQDisplayHook
    make_stream = importlib.import_module("zmq.eventloop.zmqstream").ZMQStream
    context = zmq.Context()
    output = _listen(context, zmq.XPUB, ports["iopub"])
    output.sndhwm = _NUM_QUEUED
    output.setsockopt(zmq.XPUB_NODROP, 1)  # wait for the reader: a lost `idle` would lose the cell
    kernel, shell = app.kernel, app.shell
    kernel.iopub_thread = app.iopub_thread = make_output_thread(output, pipe=False, session=app.session)
    kernel.iopub_thread.start()
    kernel.iopub_socket = app.iopub_socket = kernel.iopub_thread.background_socket
    shell.displayhook.pub_socket = shell.display_pub.pub_socket = kernel.iopub_socket
    sys.stdout = stream_class()(app.session, kernel.iopub_thread, "stdout")
    sys.stderr = stream_class()(app.session, kernel.iopub_thread, "stderr")
    app.displayhook = sys.displayhook = make_hook(app.session, kernel.iopub_socket)
    app.displayhook.get_execution_count = lambda: kernel.execution_count
    kernel.control_thread = make_control_thread(daemon=True)
    kernel.control_stream = make_stream(_listen(context, zmq.ROUTER, ports["control"]), kernel.control_thread.io_loop)
    kernel.control_thread.start()
    kernel.shell_stream = make_stream(_listen(context, zmq.ROUTER, ports["shell"]))
    kernel.shell_channel_thread = SimpleNamespace(parent_thread=threading.current_thread())


def _listen(context: Any, kind: int, descriptor: int) -> Any:
    import zmq

    channel = context.socket(kind)
    channel.linger = 1000
    channel.setsockopt(zmq.USE_FD, descriptor)
    channel.bind(f"ipc://{descriptor}")
    return channel


def _pack(message: Mapping[str, object]) -> bytes:
    """Encode as ASCII JSON, so that text with invalid Unicode does not lose a message."""
    from jupyter_client.jsonutil import json_default

    return json.dumps(message, default=json_default).encode("ascii")


def _print_to_the_pipe() -> None:
    """Redirect output in a fork of the kernel to the pipe of subprocesses, because the kernel's threads are gone."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, os.fdopen(number, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False))


def run_single() -> None:
    """Become the kernel inside its own bubblewrap; the first argument lists the inherited descriptors."""
    spec_fd, report, *sockets = map(int, sys.argv[1].split(","))
    try:
        with os.fdopen(spec_fd, encoding="utf-8") as file:
            spec = spec_from_json(file.read())
        import_all()
        app = prepare_app()
        isolation.limit(spec.limits, num_others=isolation.count_threads_of_user())
        isolation.filter_calls()
    except BaseException as error:
        os.write(report, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        raise
    split(None, spec, sockets, report, lambda ports, spec, report: run_app(app, ports, spec, report))
