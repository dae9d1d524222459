"""The IPython kernel of a fork: imported and built as far as possible before the fork, given its sockets after it."""

import asyncio
import contextlib
import gc
import importlib
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from visual_tools.sandbox.zygote import isolation
from visual_tools.sandbox.zygote.plan import KernelSpec, spec_from_json
from visual_tools.sandbox.zygote.shell import make_shell, stream_class
from visual_tools.sandbox.zygote.spawn import split

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


def import_all() -> None:
    """Import the packages that are installed; kernels have the same ones."""
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import visual_tools

    for name in visual_tools.__all__:
        with contextlib.suppress(ImportError, AttributeError):
            getattr(visual_tools, name)
    with contextlib.suppress(ImportError):
        importlib.import_module("matplotlib.font_manager")


def warm_up() -> None:
    """Do once what is slow the first time: draw text in a figure, print a table."""
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
    """Have the compiled loops of `visual_tools.paths` at hand; kernels could not keep what they compile.

    Args:
        cache_dir: Where they are kept from one zygote to the next; "" for nowhere.
    """
    with contextlib.suppress(ImportError):
        import numpy as np

        from visual_tools.paths.shortest import METHODS, shortest_path

        config: Any = importlib.import_module("numba").config
        kept, config.CACHE_DIR = config.CACHE_DIR, cache_dir or config.CACHE_DIR
        free = np.ones((4, 4), bool)
        for method in METHODS:
            shortest_path(free, start=(0, 0), goal=(3, 3), method=method)
        config.CACHE_DIR = kept


def freeze() -> None:
    """Take everything out of the garbage collector's reach, so that it touches no shared page in a fork."""
    gc.collect()
    gc.freeze()


def prepare_app() -> Any:
    """The kernel application with its shell and its kernel, nothing started yet; made once in the zygote."""
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
    in_context: Any = importlib.import_module("ipykernel.utils")._async_in_context
    loops: Any = importlib.import_module("tornado.ioloop").IOLoop

    class SandboxKernel(base):  # type: ignore[misc]
        """Takes requests in the main thread itself: there are no subshells here."""

        shell_class = type(app.shell)
        _supports_kernel_subshells = False

        async def do_execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            reply: dict[str, Any] = await super().do_execute(*args, **kwargs)
            return reply | {"traceback": [], "evalue": ""} if "evalue" in reply else reply  # was sent as output

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
        app: Made by `prepare_app` before the fork.
        ports: Listening descriptors by channel.
        spec: Of the kernel.
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

    make_control_thread: Any = importlib.import_module("ipykernel.control").ControlThread
    make_output_thread: Any = importlib.import_module("ipykernel.iostream").IOPubThread
    make_hook: Any = importlib.import_module("ipykernel.displayhook").ZMQDisplayHook
    make_stream: Any = importlib.import_module("zmq.eventloop.zmqstream").ZMQStream
    context: Any = zmq.Context()
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


def _pack(message: Mapping[str, Any]) -> bytes:
    """As JSON in ASCII: text that is no valid Unicode must not lose a message."""
    from jupyter_client.jsonutil import json_default

    return json.dumps(message, default=json_default).encode("ascii")


def _print_to_the_pipe() -> None:
    """In a fork of the kernel: its threads are gone, so print where subprocesses print."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, os.fdopen(number, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False))


def run_single() -> None:
    """Become the kernel of a bubblewrap of its own; the first argument holds the descriptors that it was given."""
    told, report, *sockets = map(int, sys.argv[1].split(","))
    try:
        with os.fdopen(told, encoding="utf-8") as file:
            spec = spec_from_json(file.read())
        import_all()
        app = prepare_app()
        isolation.limit(spec.limits, num_others=isolation.count_threads_of_user())
        isolation.filter_calls()
    except BaseException as error:
        os.write(report, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        raise
    split(None, spec, sockets, report, lambda ports, spec, report: run_app(app, ports, spec, report))
